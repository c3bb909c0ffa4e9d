#include "engine/repair/requests.h"

#include <fmt/format.h>

#include "engine/model/volume_health.h"

namespace quarry::engine {
namespace {

// Why the volume cannot be scrubbed; empty if it can, or if its legs are only being rebuilt or compared now.
Result<std::string> Refusal(Node& node, const Catalog& catalog, const Record& record) {
  const RepairView view{.catalog = &catalog};
  QUARRY_ASSIGN(const RaidReport raid, node.RaidOf(record));
  VolumeView volume{.record = &record, .raid = raid.status};
  volume.on_lost_disk = node.lost_in_kernel.Has(record.tags.id);
  return IsBusy(volume) ? std::string() : WhyNoScrub(view, volume);
}

}  // namespace

Result<std::vector<ScrubAnswer>> WantScrub(Node& node, Scrubs& scrubs, const ScrubRequest& request,
                                           const Call& call) {
  std::vector<ScrubAnswer> out;
  const auto answer = [&](const Catalog& catalog, const Record& record) -> Status {
    QUARRY_ASSIGN(std::string refusal, Refusal(node, catalog, record));
    out.push_back({record.tags.id, record.tags.co_name, std::move(refusal)});
    return Ok();
  };
  for (const std::string& id : request.ids) {
    QUARRY_ASSIGN(const auto found, node.GetVolume(id, call, Realm::kAll));
    if (!HasRedundancy(*found.record.lv)) {
      return Error(Code::kInvalidArgument,
                   fmt::format("volume {} is of type {}: it has no second leg to compare", id,
                               found.record.lv->segment_type));
    }
    QUARRY_ASSIGN(const auto catalog, node.Read(*found.pool, call));
    QUARRY_TRY(answer(*catalog, found.record));
  }
  for (const auto& pool : node.pools) {
    if (!request.ids.empty()) {
      break;
    }
    const auto catalog = node.Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      QUARRY_TRY(call.Check("looking for volumes to scrub"));
      out.push_back({pool->config.name, "pool", catalog.error().message()});
      continue;
    }
    for (const Record& record : (*catalog)->records) {
      if (record.tags.state == lvm::VolumeState::kReady && HasRedundancy(*record.lv)) {
        QUARRY_TRY(answer(**catalog, record));
      }
    }
  }
  for (const ScrubAnswer& one : out) {
    if (one.refusal.empty()) {
      scrubs.Want(one.id, request.repair);
    }
  }
  node.Wake();
  return out;
}

}  // namespace quarry::engine
