#include "engine/repair/requests.h"

#include <memory>
#include <optional>

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

// "db (data)", for people.
std::string NameOfPart(const Catalog& catalog, const Record& part) {
  const Store& store = *catalog.StoreOfPart(part);
  return fmt::format("{} ({})", store.name(), part.lv == store.data ? "data" : "metadata");
}

struct PartsFound {
  std::shared_ptr<const Catalog> catalog;
  std::vector<Record> parts;
};

// The parts with redundancy of the thin store with this id, or the one part with this id. nullopt: no pool
// that can be read has such a store. kInvalidArgument: none of its parts has a second leg.
Result<std::optional<PartsFound>> FindParts(Node& node, const std::string& id, const Call& call) {
  for (const auto& pool : node.pools) {
    const auto catalog = node.Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      QUARRY_TRY(call.Check("looking for a thin store to scrub"));
      continue;
    }
    PartsFound found{*catalog, {}};
    bool is_it = false;
    for (const Record& part : (*catalog)->parts) {
      const Store& store = *(*catalog)->StoreOfPart(part);
      const bool wanted = part.tags.id == id || store.tags.id == id;
      is_it = is_it || wanted;
      if (wanted && HasRedundancy(*part.lv)) {
        found.parts.push_back(part);
      }
    }
    if (is_it && found.parts.empty()) {
      return Error(Code::kInvalidArgument,
                   fmt::format("volume_ids: thin store {} has no second leg to compare", id));
    }
    if (is_it) {
      return std::optional(std::move(found));
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<ScrubAnswer>> WantScrub(Node& node, Scrubs& scrubs, const ScrubRequest& request,
                                           const Call& call) {
  std::vector<ScrubAnswer> out;
  const auto answer = [&](const Catalog& catalog, const Record& record) -> Status {
    QUARRY_ASSIGN(std::string refusal, Refusal(node, catalog, record));
    out.push_back({record.tags.id, IsPart(record) ? NameOfPart(catalog, record) : record.tags.co_name,
                   std::move(refusal)});
    return Ok();
  };
  for (const std::string& id : request.ids) {
    QUARRY_ASSIGN(const auto in_store, FindParts(node, id, call));
    if (in_store.has_value()) {
      for (const Record& part : in_store->parts) {
        QUARRY_TRY(answer(*in_store->catalog, part));
      }
      continue;
    }
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
    for (const std::vector<Record>* const list : {&(*catalog)->parts, &(*catalog)->records}) {
      for (const Record& record : *list) {
        if (record.tags.state == lvm::VolumeState::kReady && HasRedundancy(*record.lv)) {
          QUARRY_TRY(answer(**catalog, record));
        }
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
