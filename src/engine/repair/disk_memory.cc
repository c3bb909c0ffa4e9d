#include "engine/repair/disk_memory.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "engine/plan/plan_volume.h"
#include "engine/repair/observe.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

using std::chrono::sys_seconds;

// How long a disk counts as failing, and gets no new extents, after its legs last failed again and again.
constexpr std::chrono::hours kFailing{24};
// How far the tag may be behind: each change of it is a commit, and a leg may fail for hours.
constexpr std::chrono::hours kTagLag{1};

std::string Words() {
  return fmt::format("a leg on this disk failed again after each of {} attempts to take it back",
                     kRefreshAttempts);
}

}  // namespace

sys_seconds DiskMemory::InWallTime(SteadyTime since) const {
  return std::chrono::floor<std::chrono::seconds>(clock_.WallNow()) -
         std::chrono::duration_cast<std::chrono::seconds>(clock_.Now() - since);
}

void DiskMemory::ReadTags(const lvm::VolumeGroup& group) {
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    const bool tagged = lvm::DroppedAt(pv.tags).has_value();
    if (seen_.insert(pv.uuid).second) {
      Restore(pv);
    } else if (!tagged && tagged_.contains(pv.uuid) && failing_since_.contains(pv.uuid)) {
      log_.Info("a disk no longer counts as failing: its tag was removed",
                {{"pool", pool_}, {"pv", pv.uuid}, {"device", pv.device}});
      EndFailing(pv.uuid);
    }
    if (tagged) {
      tagged_.insert(pv.uuid);
    } else {
      tagged_.erase(pv.uuid);
    }
  }
  // What is known of a disk ends when it leaves the group.
  const auto gone = [&](const std::string& uuid) { return group.FindPv(uuid) == nullptr; };
  std::erase_if(seen_, gone);
  std::erase_if(tagged_, gone);
  for (auto failing = failing_since_.begin(); failing != failing_since_.end();) {
    const std::string uuid = (failing++)->first;
    if (gone(uuid)) {
      EndFailing(uuid);
    }
  }
}

void DiskMemory::Restore(const lvm::PhysicalVolume& pv) {
  const auto dropped = lvm::DroppedAt(pv.tags);
  const sys_seconds now = InWallTime(clock_.Now());
  if (!dropped.has_value() || *dropped + kFailing <= now) {
    return;
  }
  // The node's clock may have been set back since.
  failing_since_[pv.uuid] = clock_.Now() - std::max(now - *dropped, std::chrono::seconds(0));
  log_.Warning("a disk is failing",
               {{"pool", pool_}, {"pv", pv.uuid}, {"device", pv.device}, {"detail", Words()}});
  healths_.MarkFailing(pv.uuid, Words());
}

void DiskMemory::EndFailing(const std::string& pv_uuid) {
  healths_.ClearFailing(pv_uuid);
  failing_since_.erase(pv_uuid);
}

std::optional<RepairStep> DiskMemory::PlanTag(const lvm::VolumeGroup& group,
                                              const lvm::PhysicalVolume& pv) const {
  if (group.exported || group.MissingPvs() > 0) {
    return std::nullopt;  // LVM then changes no tags of PVs
  }
  lvm::ChangePv change{.group = group.name,
                       .device = pv.device,
                       .allocatable = std::nullopt,
                       .remove_tags = lvm::DroppingTags(pv.tags)};
  if (const auto failing = failing_since_.find(pv.uuid); failing != failing_since_.end()) {
    const sys_seconds since = InWallTime(failing->second);
    const auto dropped = lvm::DroppedAt(pv.tags);
    if (dropped.has_value() && std::chrono::abs(since - *dropped) <= kTagLag) {
      return std::nullopt;
    }
    change.add_tags = {lvm::DroppingTag(since)};
    std::erase(change.remove_tags, change.add_tags.front());
  }
  if (change.add_tags.empty() && change.remove_tags.empty()) {
    return std::nullopt;
  }
  return RepairStep{.actions = {std::move(change)}, .kind = RepairKind::kTagDisk, .disk = pv.uuid};
}

std::set<std::string> DiskMemory::NoteMissing(const Catalog& catalog) {
  ReadTags(*catalog.group);
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
        EndFailing(pv.uuid);
        for (const std::string& id : returned.volumes) {
          retries_.Forget({RetryKey::Step::kRefresh, id});
        }
      }
    }
  }
  return missing;
}

void DiskMemory::NoteFailures(const RepairView& view) {
  const SteadyTime now = clock_.Now();
  for (const VolumeView& volume : view.volumes) {
    if (!volume.hopeless) {
      continue;
    }
    for (const std::string& uuid : FailedPvs(view, volume)) {
      if (failing_since_.insert_or_assign(uuid, now).second) {
        const std::string words = Words();
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
