#include "engine/plan/pool_queue.h"

#include <algorithm>
#include <optional>
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

// The error about a snapshot that was cut off and has its device.
Error CutOff(const std::string& group, const std::string& pool, const lvm::LogicalVolume& snapshot) {
  return {
      Code::kPrecondition,
      fmt::format("thin store {0}/{1} has a snapshot, {0}/{2}, whose `lvcreate -s` was cut off, so LVM can "
                  "make and remove nothing in the store. This ends it: dmsetup message {3} 0 \"delete "
                  "{4}\"; after that, LVM makes the snapshot again with its next change of the store, and "
                  "`lvremove {0}/{2}` removes it",
                  group, pool, snapshot.name, lvm::DmName(group, pool) + "-tpool",
                  snapshot.segments.front().thin_volume->device_id)};
}

// Whether LVM's text is that of the pool in the kernel, or one change ahead.
Status CheckIds(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, uint64_t kernel_id) {
  const uint64_t in_text = IdOf(pool);
  return in_text == kernel_id || in_text == kernel_id + 1
             ? Ok()
             : Status(
                   Error(Code::kPrecondition,
                         fmt::format("LVM's text has transaction id {} for thin store {}/{}, and the kernel "
                                     "has {}: the text is not that of the store, so which devices and "
                                     "how much of it are free is not known",
                                     in_text, group.name, pool.name, kernel_id)));
}

// Deletes a device, which may be gone already: LVM bears that.
Status Delete(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, uint32_t id, dm::DmApi& dm) {
  Status gone = dm.SendToPool(lvm::DmUuid(group.uuid, pool.uuid), dm::DeleteThin{id});
  return !gone.has_value() && gone.error().code() == Code::kNotFound ? Ok() : std::move(gone);
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
  return CutOff(group, pool, *half);
}

Status PrepareRemoval(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                      const Call& call) {
  QUARRY_ASSIGN(const lvm::LogicalVolume* const seen, Find(group, lv.pool));
  const std::optional<bool>& has_messages = seen->segments.front().thin_pool->has_messages;
  if (has_messages == false) {
    return Ok();
  }
  QUARRY_TRY(StartStore(group, *seen, world, call));  // the last volume in use may have stopped it
  auto held = HoldGroup(group.name, world, call);
  if (!held.has_value()) {
    // A group of which nothing can be proven has no such proof either. A message there is most unlikely.
    const bool unread = !has_messages.has_value() && held.error().code() == Code::kUnavailable;
    return unread ? Ok() : Status(std::move(held.error()));
  }
  const lvm::VolumeGroup& now = *held->snapshot;
  const lvm::LogicalVolume* const doomed = now.FindLv(lv.name);
  if (now.seqno != group.seqno || now.uuid != group.uuid || doomed == nullptr) {
    return ChangedMeanwhile(group.name, lv.pool);
  }
  QUARRY_ASSIGN(const lvm::LogicalVolume* const pool, Find(now, lv.pool));
  QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(now, *pool, world.dm));
  QUARRY_TRY(CheckIds(now, *pool, status.transaction_id));
  if (const auto* const half = UnfinishedSnapshot(now, *pool, status.transaction_id); half != nullptr) {
    QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(now, *pool, world.dm));
    QUARRY_ASSIGN(const auto there,
                  world.thin.Device(hold.device(), half->segments.front().thin_volume->device_id, call));
    QUARRY_TRY(hold.Check());
    if (there.has_value()) {
      return CutOff(now.name, pool->name, *half);
    }
  }
  // A ready volume keeps its device until LVM has removed it. The caller reads the group again, and tags it.
  if (std::ranges::find(doomed->tags, lvm::StateTag(lvm::VolumeState::kReady)) != doomed->tags.end()) {
    const bool unread = !pool->segments.front().thin_pool->has_messages.has_value();
    return unread ? Ok() : Status(ChangedMeanwhile(group.name, lv.pool));
  }
  // Also if LVM's id is ahead, so that it would send all: a refresh of any volume in between sends what is
  // queued, and commits nothing.
  QUARRY_TRY(lvm::IsAloneInPool(now, *doomed));
  return Delete(now, *pool, doomed->segments.front().thin_volume->device_id, world.dm);
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
  QUARRY_TRY(CheckIds(*held.snapshot, *lv, status.transaction_id));
  const auto is_new = [&](const lvm::LogicalVolume&, const lvm::ThinVolume& thin) {
    return thin.transaction_id == status.transaction_id;
  };
  const std::vector<uint32_t>& removed = lv->segments.front().thin_pool->queued_deletes;
  const bool has_new = VolumeIn(*held.snapshot, *lv, is_new) != nullptr;
  if (has_new && removed.empty()) {
    return Ok();  // a creation was cut off: the text counts that volume already
  }
  // A removed device may be the origin of a snapshot that LVM has still to make.
  QUARRY_TRY(CheckFinished(*held.snapshot, *lv, status.transaction_id));
  const auto is_removed = [&](const lvm::LogicalVolume&, const lvm::ThinVolume& thin) {
    return std::ranges::find(removed, thin.device_id) != removed.end();
  };
  if (has_new || removed.empty() || VolumeIn(*held.snapshot, *lv, is_removed) != nullptr) {
    return Error(
        Code::kUnavailable,
        fmt::format("a command of LVM was cut off amid a change of thin store {}/{}, and which one is "
                    "not known: LVM ends it when anything is made or removed there",
                    group, pool));
  }
  for (const uint32_t id : removed) {
    QUARRY_TRY(Delete(*held.snapshot, *lv, id, world.dm));
  }
  return Ok();
}

}  // namespace quarry::engine
