#include "engine/upkeep.h"

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/repair/requests.h"

namespace quarry::engine {
namespace {

// kNotFound: at least one of these ids belongs to no volume and to no thin store. A pool that cannot be read
// may have it, so its error is returned instead.
Status CheckKnown(Node& node, std::set<std::string> ids, const Call& call) {
  std::optional<Error> unread;
  for (size_t i = 0; i < node.pools.size() && !ids.empty(); ++i) {
    auto catalog = node.Look(*node.pools[i], kLongLook, call);
    if (!catalog.has_value()) {
      unread = std::move(catalog.error());
      continue;
    }
    for (const Record& record : (*catalog)->records) {
      ids.erase(record.tags.id);
    }
    for (const Store& store : (*catalog)->stores) {
      ids.erase(store.tags.id);
    }
  }
  if (ids.empty()) {
    return Ok();
  }
  return unread.has_value()
             ? std::move(*unread)
             : Error(Code::kNotFound, fmt::format("volume_ids: no volume '{}' on this node", *ids.begin()));
}

}  // namespace

void Upkeep::OnWork(std::function<void()> tell) {
  parts_.node.OnWork(std::move(tell));
}

Result<RepairReport> Upkeep::Repair(RepairCause cause, const Call& call,
                                    const std::set<std::string>& accepted, const std::string& pool) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(CheckKnown(parts_.node, accepted, call));
  RepairReport report;
  for (const auto& repair : parts_.repairs) {
    if (pool.empty() || pool == repair->pool().config.name) {
      repair->Round(cause, accepted, call, report);
    }
  }
  EndLeftBehind(parts_, pool, call, report);
  RestSnapshots(parts_, pool, cause != RepairCause::kEvent, call);
  return report;
}

Result<std::vector<ScrubAnswer>> Upkeep::Scrub(const ScrubRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  return WantScrub(parts_.node, parts_.scrubs, request, call);
}

Result<TrimResult> Upkeep::Trim(const Call& call, const std::string& store) {
  return TrimAll(parts_.node, store, call);
}

}  // namespace quarry::engine
