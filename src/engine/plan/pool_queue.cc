#include "engine/plan/pool_queue.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/plan/left_suspended.h"
#include "engine/plan/start_store.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

// Of LVM's text.
uint64_t IdOf(const lvm::LogicalVolume& pool) {
  return pool.segments.front().thin_pool->transaction_id;
}

Error ChangedMeanwhile(const std::string& group, const std::string& pool) {
  return {Code::kUnavailable, fmt::format("{}/{} was changed by another process: try again", group, pool)};
}

Result<const lvm::LogicalVolume*> Find(const lvm::VolumeGroup& group, const std::string& pool) {
  const lvm::LogicalVolume* const lv = group.FindLv(pool);
  if (lv == nullptr || !lvm::PartsOfPool(group, *lv).has_value()) {
    return ChangedMeanwhile(group.name, pool);
  }
  return lv;
}

// A volume of the pool for which `is` holds; nullptr: none.
template <typename Predicate>
const lvm::LogicalVolume* VolumeIn(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                   const Predicate& is) {
  const auto found = std::ranges::find_if(group.lvs, [&](const lvm::LogicalVolume& lv) {
    return lv.pool == pool.name && !lv.segments.empty() && lv.segments.front().thin_volume.has_value() &&
           is(lv, *lv.segments.front().thin_volume);
  });
  return found == group.lvs.end() ? nullptr : &*found;
}

}  // namespace

const lvm::LogicalVolume* UnfinishedSnapshot(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                             uint64_t kernel_id) {
  return kernel_id + 1 != IdOf(pool)
             ? nullptr
             : VolumeIn(group, pool, [&](const lvm::LogicalVolume& lv, const lvm::ThinVolume& thin) {
                 return thin.transaction_id == kernel_id && !lv.origin.empty();
               });
}

Status CheckFinished(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, uint64_t kernel_id) {
  const lvm::LogicalVolume* const lv = UnfinishedSnapshot(group, pool, kernel_id);
  if (lv == nullptr) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("LVM has not finished snapshot {0}/{1} in thin store {0}/{2}. If no command is at work "
                  "on it any more: lvremove {0}/{1}. If LVM refuses that, see docs/thin-stores.md, Limits",
                  group.name, lv->name, pool.name));
}

Status ExplainUnfinished(const std::string& group, const std::string& pool, const std::string& snapshot,
                         const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::HeldGroup held, HoldGroup(group, world, call));
  QUARRY_ASSIGN(const lvm::LogicalVolume* const lv, Find(*held.snapshot, pool));
  QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(*held.snapshot, *lv, world.dm));
  const lvm::LogicalVolume* const half = UnfinishedSnapshot(*held.snapshot, *lv, status.transaction_id);
  if (half == nullptr || half->uuid != snapshot) {
    return ChangedMeanwhile(group, pool);
  }
  return Error(
      Code::kPrecondition,
      fmt::format("thin store {0}/{1} has a snapshot, {0}/{2}, whose `lvcreate -s` was cut off, so LVM can "
                  "make and remove nothing in the store. This ends it: dmsetup message {3} 0 \"delete {4}\"; "
                  "after that, LVM makes the snapshot again with its next change of the store, and "
                  "`lvremove {0}/{2}` removes it",
                  group, pool, half->name, lvm::DmName(group, pool) + "-tpool",
                  half->segments.front().thin_volume->device_id));
}

Status EndRemovals(const std::string& group, const std::string& pool, const World& world, const Call& call) {
  {
    QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(group, call));
    QUARRY_ASSIGN(const lvm::LogicalVolume* const lv, Find(*now, pool));
    QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(*now, *lv, world.dm));
    if (status.transaction_id == IdOf(*lv)) {
      return Ok();
    }
  }
  QUARRY_ASSIGN(const lvm::HeldGroup held, HoldGroup(group, world, call));
  QUARRY_ASSIGN(const lvm::LogicalVolume* const lv, Find(*held.snapshot, pool));
  QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(*held.snapshot, *lv, world.dm));
  if (status.transaction_id == IdOf(*lv)) {
    return Ok();
  }
  if (status.transaction_id + 1 != IdOf(*lv)) {
    return Error(Code::kPrecondition,
                 fmt::format("LVM's text has transaction id {} for thin store {}/{}, and the kernel has {}: "
                             "the text is not that of the store, so what is free in it is not known",
                             IdOf(*lv), group, pool, status.transaction_id));
  }
  const auto is_new = [&](const lvm::LogicalVolume&, const lvm::ThinVolume& thin) {
    return thin.transaction_id == status.transaction_id;
  };
  if (VolumeIn(*held.snapshot, *lv, is_new) != nullptr) {
    return Ok();  // a creation was cut off: the text counts that volume already
  }
  const std::vector<uint32_t>& removed = lv->segments.front().thin_pool->queued_deletes;
  const auto is_removed = [&](const lvm::LogicalVolume&, const lvm::ThinVolume& thin) {
    return std::ranges::find(removed, thin.device_id) != removed.end();
  };
  if (removed.empty() || VolumeIn(*held.snapshot, *lv, is_removed) != nullptr) {
    return Error(
        Code::kUnavailable,
        fmt::format("a command of LVM was cut off amid a change of thin store {}/{}, and which one is "
                    "not known: LVM ends it when anything is made or removed there",
                    group, pool));
  }
  for (const uint32_t id : removed) {
    const Status gone = world.dm.SendToPool(lvm::DmUuid(held.snapshot->uuid, lv->uuid), dm::DeleteThin{id});
    if (!gone.has_value() && gone.error().code() != Code::kNotFound) {
      return gone;
    }
  }
  return Ok();
}

}  // namespace quarry::engine
