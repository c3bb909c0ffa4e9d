#include "dm/raid_status.h"

#include <libdevmapper.h>

#include <memory>

#include <fmt/format.h>

#include "dm/dm_task.h"

namespace quarry::dm {
namespace {

struct DmPoolDestroy {
  void operator()(dm_pool* pool) const { dm_pool_destroy(pool); }
};
using DmPool = std::unique_ptr<dm_pool, DmPoolDestroy>;

}  // namespace

Result<RaidStatus> ParseRaidStatus(const std::string& parameters) {
  const DmPool pool(dm_pool_create("raid status", 1024));
  dm_status_raid* status = nullptr;
  if (!pool || dm_get_status_raid(pool.get(), parameters.c_str(), &status) == 0) {
    return Error(Code::kCorrupt, fmt::format("'{}' is not the status of a raid device", parameters));
  }
  RaidStatus parsed{.type = status->raid_type,
                    .legs = status->dev_health,
                    .in_sync = status->insync_regions,
                    .total = status->total_regions,
                    .action = status->sync_action == nullptr ? "" : status->sync_action,
                    .mismatches = status->mismatch_count};
  if (parsed.legs.size() != status->dev_count || parsed.in_sync > parsed.total || parsed.total == 0) {
    return Error(Code::kCorrupt,
                 fmt::format("the status '{}' of a raid device contradicts itself", parameters));
  }
  return parsed;
}

}  // namespace quarry::dm
