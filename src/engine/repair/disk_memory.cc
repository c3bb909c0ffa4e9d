#include "engine/repair/disk_memory.h"

#include <chrono>

#include <fmt/format.h>

#include "engine/plan/plan_volume.h"
#include "engine/repair/observe.h"

namespace quarry::engine {

std::set<std::string> DiskMemory::NoteMissing(const Catalog& catalog) {
  std::set<std::string> missing;
  for (const lvm::PhysicalVolume& pv : catalog.group->pvs) {
    const bool away = IsAway(*catalog.group, pv.uuid);
    if (away) {
      missing.insert(pv.uuid);
    }
    if (away || !pv.missing) {
      retries_.Forget({RetryKey::Step::kTakeBack, pv.uuid});
    }
    if (away && missing_since_.try_emplace(pv.uuid, clock_.Now()).second) {
      log_.Warning("a disk is missing", {{"pool", pool_}, {"pv", pv.uuid}});
    } else if (!away && missing_since_.erase(pv.uuid) > 0) {
      log_.Info("a disk is back", {{"pool", pool_}, {"pv", pv.uuid}, {"device", pv.device}});
      if (const auto returned = ObserveReturned(catalog, pv.uuid, dm_); returned.pulled) {
        healths_.ClearFailing(pv.uuid);
        failing_since_.erase(pv.uuid);
        for (const std::string& id : returned.volumes) {
          retries_.Forget({RetryKey::Step::kRefresh, id});
        }
      }
    }
  }
  return missing;
}

void DiskMemory::NoteFailures(const RepairView& view) {
  // How long a disk counts as failing, and gets no new extents, after its legs last failed again and again.
  constexpr std::chrono::hours kFailing{24};
  const SteadyTime now = clock_.Now();
  for (const VolumeView& volume : view.volumes) {
    if (!volume.hopeless) {
      continue;
    }
    for (const std::string& uuid : FailedPvs(view, volume)) {
      if (failing_since_.insert_or_assign(uuid, now).second) {
        const std::string words = fmt::format(
            "a leg on this disk failed again after each of {} attempts to take it back", kRefreshAttempts);
        log_.Warning("a disk is failing", {{"pool", pool_}, {"pv", uuid}, {"detail", words}});
        healths_.MarkFailing(uuid, words);
      }
    }
  }
  std::erase_if(failing_since_, [&](const auto& failing) {
    const bool over = failing.second + kFailing <= now;
    if (over) {
      healths_.ClearFailing(failing.first);
    }
    return over;
  });
}

}  // namespace quarry::engine
