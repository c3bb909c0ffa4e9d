#include "engine/plan/actions.h"

#include <fcntl.h>

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "base/call_record.h"

#include "engine/model/catalog.h"
#include "engine/plan/apply_change.h"
#include "engine/plan/cut.h"
#include "engine/plan/pool_queue.h"
#include "engine/plan/proven_write.h"
#include "engine/plan/start_store.h"
#include "engine/plan/stop_store.h"
#include "engine/raid/stopped_array.h"
#include "lvm/names.h"
#include "lvm/ownership.h"
#include "lvm/thin_pool.h"

namespace quarry::engine {
namespace {

template <typename... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};

// Another LV that is a ready volume, or a ready snapshot, of this name, or nullptr. Parses no other tags,
// unlike a catalog.
const lvm::LogicalVolume* FindNamesake(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                       const VerifyLayoutAction& a) {
  const auto found = std::ranges::find_if(group.lvs, [&](const lvm::LogicalVolume& other) {
    if (&other == &lv || other.hidden || !lvm::BearsName(other.tags, a.co_name)) {
      return false;
    }
    const auto tags = lvm::ParseTags(other.tags);
    return tags.has_value() && tags->has_value() && (*tags)->state == lvm::VolumeState::kReady &&
           (*tags)->snapshot == a.snapshot;
  });
  return found == group.lvs.end() ? nullptr : &*found;
}

Error MadeMeanwhile(const std::string& co_name, const lvm::VolumeGroup& group, const lvm::LogicalVolume& as) {
  return {Code::kUnavailable,
          fmt::format("{} was made meanwhile, as {}/{}: try again", co_name, group.name, as.name)};
}

Status VerifyLayout(const VerifyLayoutAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot group, world.lvm.Read(a.group, call));
  const lvm::LogicalVolume* lv = group->FindLv(a.name);
  if (lv == nullptr) {
    return Error(Code::kInternal, "LVM reported success, but the logical volume is not there");
  }
  if (a.seqno.has_value() && group->seqno > *a.seqno) {
    return Error(Code::kUnavailable,
                 fmt::format("another process has changed volume group {} meanwhile, so the volume's new "
                             "extents may hold old data: try again",
                             a.group));
  }
  if (const auto* other = a.co_name.empty() ? nullptr : FindNamesake(*group, *lv, a); other != nullptr) {
    return MadeMeanwhile(a.co_name, *group, *other);
  }
  return lvm::VerifyPlacement(*group, *lv, a.placement);
}

Status VerifyLegs(const VerifyLegsAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot group, world.lvm.Read(a.group, call));
  const lvm::LogicalVolume* lv = group->FindLv(a.name);
  if (lv == nullptr) {
    return Error(Code::kInternal, "LVM reported success, but the logical volume is not there");
  }
  for (const std::vector<std::string>& leg : lvm::LegPvs(*group, *lv)) {
    for (const std::string& uuid : leg) {
      const bool missing = group->LacksPv(uuid);
      if (missing || uuid == a.left) {
        return Error(Code::kUnavailable,
                     fmt::format("a leg is still on disk {}{}", uuid, missing ? ", which is missing" : ""));
      }
    }
  }
  if (const auto shared = lvm::SharedPv(*group, *lv); shared.has_value()) {
    return Error(Code::kCorrupt, fmt::format("two legs are on the same disk, {}", *shared));
  }
  return Ok();
}

Status ReviveNow(const ReviveAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot group, world.lvm.Read(a.group, call));
  const lvm::LogicalVolume* const lv = group->FindLv(a.name);
  if (lv == nullptr) {
    return Error(Code::kNotFound, "the logical volume is not there");
  }
  QUARRY_ASSIGN(const auto device, world.dm.Find(lvm::DmUuid(group->uuid, lv->uuid)));
  if (device.has_value()) {
    return Error(Code::kPrecondition, "it is active");
  }
  return Revive(*group, *lv, world.raid_legs, WriterOf(*group, *lv, world, call));
}

Status VerifyLeft(const VerifyLeftAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot group, world.lvm.Read(a.group, call));
  const lvm::PhysicalVolume* const pv = group->FindPv(a.pv_uuid);
  const auto is_free = [&](const lvm::ExtentRange& range) {
    return pv != nullptr && std::ranges::any_of(pv->free, [&](const lvm::ExtentRange& free) {
             return free.first <= range.first && range.end() <= free.end();
           });
  };
  return std::ranges::all_of(a.ranges, is_free)
             ? Ok()
             : Status(Error(Code::kInternal, "LVM reported success, but the extents have not moved"));
}

// Whether the kernel may have any of the devices. True also if the kernel cannot be asked.
bool MayBeActive(const DeactivateAction& a, const World& world) {
  return a.dm_uuids.empty() ||
         std::any_of(a.dm_uuids.begin(), a.dm_uuids.end(), [&](const std::string& uuid) {
           const auto device = world.dm.Find(uuid);
           return !device.has_value() || device->has_value();
         });
}

// How often a step is tried if commits by other processes keep preventing it.
constexpr int kAttempts = 5;

Error ChangedBySomebodyElse(const std::string& group) {
  return Error(Code::kUnavailable,
               fmt::format("another process has changed volume group {}: try again", group));
}

// Deactivates `lv` only if the proof about it still holds when LVM gets its lock. Deactivating a volume that
// another command has begun to move would abort that move, and leave the move's other volumes suspended.
Status DeactivateAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                       const Call& call) {
  QUARRY_TRY(lvm::RemovesAlone(group, lv));
  QUARRY_TRY(world.lvm.Apply(lvm::DeactivateLv{group.name, lv.name, group.seqno}, call));
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(group.name, call));
  return now->seqno == group.seqno ? Ok() : Status(ChangedBySomebodyElse(group.name));
}

// Deactivates a volume of one device without a command: LVM's lock is held, so nobody changes the group or
// activates the volume meanwhile. RAID is left to LVM: its device writes superblocks when it stops, and a
// silent disk would keep the lock.
Status RemoveOnlyDevice(const DeactivateAction& a, const World& world, const Call& call) {
  if (a.dm_uuids.size() != 1) {
    return Error(Code::kUnsupported, fmt::format("{} has more than one device", a.name));
  }
  QUARRY_ASSIGN(const lvm::HeldGroup held, world.lvm.Hold(a.group, call));
  QUARRY_TRY(world.locks.Check(a.group));
  const lvm::LogicalVolume* const lv = held.snapshot->FindLv(a.name);
  if (lv == nullptr || DmUuids(*held.snapshot, *lv) != a.dm_uuids) {
    return ChangedBySomebodyElse(a.group);
  }
  QUARRY_TRY(lvm::RemovesAlone(*held.snapshot, *lv));
  return world.dm.Remove(a.dm_uuids.front());
}

Status Deactivate(const DeactivateAction& a, const World& world, const Call& call) {
  // If the device cannot be removed, LVM tries it for longer, and knows the reason better.
  if (!MayBeActive(a, world) || RemoveOnlyDevice(a, world, call).has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(lvm::Snapshot group, world.lvm.Read(a.group, call));
  const lvm::LogicalVolume* lv = group->FindLv(a.name);
  if (lv == nullptr) {
    return world.lvm.Apply(lvm::DeactivateLv{a.group, a.name, 0},
                           call);  // gives the error that it does not exist
  }
  const std::string uuid = lv->uuid;
  Status done = DeactivateAlone(*group, *lv, world, call);
  for (int attempt = 1; attempt < kAttempts && !done.has_value(); ++attempt) {
    const uint64_t seqno = group->seqno;
    QUARRY_ASSIGN(group, world.lvm.Read(a.group, call));
    lv = group->FindLv(a.name);
    if (group->seqno == seqno || lv == nullptr || lv->uuid != uuid) {
      break;  // no other commit was the cause, or the commit concerned this volume
    }
    done = DeactivateAlone(*group, *lv, world, call);
  }
  QUARRY_TRY(done);
  // Removes legs that are active without their volume, as a pvmove of the legs leaves them. LVM does not
  // deactivate such legs.
  for (const std::string& part : a.dm_uuids.empty() ? std::vector<std::string>() : DmUuids(*group, *lv)) {
    QUARRY_TRY(world.dm.Remove(part));
  }
  return Ok();
}

const lvm::LogicalVolume* FindByUuid(const lvm::VolumeGroup& group, const std::string& uuid) {
  const auto found = std::ranges::find(group.lvs, uuid, &lvm::LogicalVolume::uuid);
  return found == group.lvs.end() ? nullptr : &*found;
}

// lvremove also removes what is stacked on a volume. So nothing may be stacked on it in `group`, and LVM acts
// only if no process has committed since. Volumes that must stay do not block the others.
Status RemoveAsOf(const lvm::VolumeGroup& group, const std::vector<std::string>& names, const World& world,
                  const Call& call) {
  const auto may_go = [&](const std::string& name) -> Status {
    const lvm::LogicalVolume* const lv = group.FindLv(name);
    if (lv == nullptr) {
      return Ok();
    }
    QUARRY_TRY(lvm::RemovesAlone(group, *lv));
    if (const lvm::LogicalVolume* const pool = group.FindLv(lv->pool); pool != nullptr) {
      QUARRY_TRY(StartStore(group, *pool, world, call));
      QUARRY_TRY(HealthyPool(group, *pool, world.dm));
      QUARRY_TRY(PutRight(group, *pool, world, call));
    }
    QUARRY_ASSIGN(const auto device, world.dm.Find(lvm::DmUuid(group.uuid, lv->uuid)));
    const bool may_be_active = device.has_value() || lvm::PartsOfPool(group, *lv).has_value();
    return may_be_active ? DeactivateAlone(group, *lv, world, call) : Ok();
  };
  const auto prepare = [&](const std::string& name) -> Status {
    const lvm::LogicalVolume* const lv = group.FindLv(name);
    const bool thin = lv != nullptr && group.FindLv(lv->pool) != nullptr;
    return thin ? PrepareRemoval(group, *lv, world, call) : Ok();
  };
  std::vector<std::string> going = names;
  Status worst = Ok();
  const auto keep_if = [&](const std::function<Status(const std::string&)>& step) {
    std::erase_if(going, [&](const std::string& name) {
      Status one = step(name).Context(fmt::format("{}/{}", group.name, name));
      if (one.has_value()) {
        return false;
      }
      worst = std::move(one);
      return true;
    });
  };
  keep_if(may_go);
  keep_if(prepare);  // last, because what has lost its device must go
  if (going.empty()) {
    return worst;
  }
  const bool thin = std::ranges::all_of(going, [&](const std::string& name) {
    return group.FindLv(name) != nullptr && !group.FindLv(name)->pool.empty();
  });
  QUARRY_TRY(world.lvm.Apply(lvm::RemoveLvs{group.name, going, group.seqno, thin}, call));
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(group.name, call));
  for (const std::string& name : going) {
    const lvm::LogicalVolume* const was = group.FindLv(name);
    if (was != nullptr && FindByUuid(*now, was->uuid) != nullptr) {
      return ChangedBySomebodyElse(group.name);
    }
  }
  return worst;
}

// Other processes may commit repeatedly. Each time the group is read and the same volumes are checked again.
Status RemoveNow(const RemoveLvAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot first, world.lvm.Read(a.group, call));
  if (a.seqno != 0 && first->seqno != a.seqno) {
    return ChangedBySomebodyElse(a.group);
  }
  Status done = RemoveAsOf(*first, a.names, world, call);
  uint64_t seqno = first->seqno;
  for (int attempt = 1; attempt < kAttempts && a.seqno == 0 && !done.has_value(); ++attempt) {
    QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(a.group, call));
    if (now->seqno == seqno) {
      break;  // no other commit was the cause
    }
    seqno = now->seqno;
    std::vector<std::string> left;
    for (const std::string& name : a.names) {
      const lvm::LogicalVolume* const was = first->FindLv(name);
      const lvm::LogicalVolume* const is = was == nullptr ? nullptr : FindByUuid(*now, was->uuid);
      if (is == nullptr) {
        continue;
      }
      if (is->name != was->name || is->tags != was->tags) {
        return ChangedBySomebodyElse(a.group);  // the caller must decide again whether to remove it
      }
      left.push_back(name);
    }
    if (left.empty()) {
      return Ok();
    }
    done = RemoveAsOf(*now, left, world, call);
  }
  return done;
}

// The pool of a store, in the present group.
struct FoundPool {
  lvm::Snapshot group;
  const lvm::LogicalVolume* pool;
};
Result<FoundPool> FindPool(const std::string& group, const std::string& name, const World& world,
                           const Call& call) {
  QUARRY_ASSIGN(lvm::Snapshot now, world.lvm.Read(group, call));
  const lvm::LogicalVolume* const pool = now->FindLv(name);
  if (pool == nullptr || !lvm::PartsOfPool(*now, *pool).has_value()) {
    return Error(Code::kUnavailable,
                 fmt::format("another process has removed thin store {}/{}", group, name));
  }
  return FoundPool{std::move(now), pool};
}

Status Start(const StartStoreAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const FoundPool found, FindPool(a.group, a.name, world, call));
  QUARRY_TRY(StartStore(*found.group, *found.pool, world, call));
  return PutRight(*found.group, *found.pool, world, call);
}

Status Stop(const StopStoreAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const FoundPool found, FindPool(a.group, a.name, world, call));
  if (found.group->seqno != a.seqno) {
    return ChangedBySomebodyElse(a.group);
  }
  return StopStore(*found.group, *found.pool, world, call);
}

Status Remake(const RemakeMetadataAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const FoundPool found, FindPool(a.group, a.name, world, call));
  const lvm::LogicalVolume* const fresh = found.group->FindLv(a.fresh);
  if (fresh == nullptr) {
    return Error(Code::kUnavailable, fmt::format("{}/{} is not there any more", a.group, a.fresh));
  }
  return RemakeMetadata(*found.group, *found.pool, *fresh, a.lvm_refused, world, call);
}

Status ProveMetadata(const ProveMetadataAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const FoundPool found, FindPool(a.group, a.name, world, call));
  const auto parts = lvm::PartsOfPool(*found.group, *found.pool);
  const lvm::LogicalVolume* const kept = found.group->FindLv(a.former);
  const bool exchanged = parts.has_value() && parts->metadata->uuid != a.former_uuid && kept != nullptr &&
                         kept->uuid == a.former_uuid;
  return exchanged
             ? Ok()
             : Status(Error(Code::kInternal, "LVM reported success, but has not exchanged the metadata"));
}

Status ProveNextDevice(const ProveNextDeviceAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const FoundPool found, FindPool(a.group, a.name, world, call));
  const lvm::VolumeGroup& group = *found.group;
  QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(group, *found.pool, world.dm));
  const uint32_t next = HighestThinId(group, a.name) + 1;
  QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(group, *found.pool, world.dm));
  QUARRY_ASSIGN(const auto there, world.thin.Device(hold.device(), next, call));
  const lvm::LogicalVolume* const half = UnfinishedSnapshot(group, *found.pool, status.transaction_id);
  std::optional<Bytes> begun;  // without its device, LVM finishes it
  if (half != nullptr) {
    QUARRY_ASSIGN(begun,
                  world.thin.Device(hold.device(), half->segments.front().thin_volume->device_id, call));
  }
  QUARRY_TRY(hold.Check());
  if (begun.has_value()) {
    return ExplainUnfinished(a.group, a.name, half->uuid, world, call);
  }
  // A command that was cut off may have left its message to the pool in LVM's text: to delete this device.
  // LVM then sends that before anything else, and the new device is proven to be blank afterwards
  // (ProveBlank).
  const bool has_message =
      status.transaction_id + 1 == found.pool->segments.front().thin_pool->transaction_id;
  if (!there.has_value() || has_message) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format(
          "thin store {0}/{1} has a device with the id {2} that no logical volume knows, and LVM would give "
          "it, "
          "with the bytes on it, to the next volume. Look at it (thin_dump of the metadata), and remove it: "
          "dmsetup message {3} 0 \"delete {2}\"",
          a.group, a.name, next, lvm::DmName(a.group, a.name) + "-tpool"));
}

Status ProveBlank(const ProveBlankAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot group, world.lvm.Read(a.group, call));
  const lvm::LogicalVolume* const lv = group->FindLv(a.name);
  if (lv == nullptr) {
    return Error(Code::kInternal, "LVM reported success, but the logical volume is not there");
  }
  if (const auto* other = FindNamesake(
          *group, *lv, {.group = a.group, .name = a.name, .placement = {}, .co_name = a.co_name});
      !a.co_name.empty() && other != nullptr) {
    return MadeMeanwhile(a.co_name, *group, *other);
  }
  QUARRY_TRY(lvm::IsAloneInPool(*group, *lv));
  const lvm::LogicalVolume& pool = *group->FindLv(lv->pool);
  QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(*group, pool, world.dm));
  QUARRY_ASSIGN(
      const thin::MappedRanges mapped,
      world.thin.Mapped(hold.device(), lv->segments.front().thin_volume->device_id, Bytes{}, {1, 1}, call));
  QUARRY_TRY(hold.Check());
  return mapped.ranges.empty() && !mapped.was_shared
             ? Ok()
             : Status(Error(Code::kUnavailable, "the new volume is not blank: its device was there before"));
}

Status ZeroStore(const ZeroStoreAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const UniqueFd fd, world.dm.Open(a.dm_uuid, O_RDWR));
  return world.erase.Zero(fd.get(), a.ranges, call);
}

std::string NamesOf(const std::vector<CutMember>& members, std::string CutMember::* name) {
  std::vector<std::string> names;
  for (const CutMember& member : members) {
    names.push_back(member.*name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Status ZeroThin(const ZeroThinAction& a, const World& world, const Call& call) {
  QUARRY_ASSIGN(const UniqueFd fd, world.dm.Open(a.dm_uuid, O_RDWR | O_EXCL));
  QUARRY_ASSIGN(const UniqueFd data, world.dm.Open(a.data_uuid, O_RDONLY));
  return world.erase.ZeroAndFree(fd.get(), data.get(), a.offset, a.length, call);
}

Status Check(const CheckFilesystemAction& a, const World& world, const Call& call) {
  auto report = world.mount.Check(a.fs_type, a.device, call);
  if (!report.has_value()) {
    const bool damaged = report.error().code() == Code::kCorrupt;
    return std::move(report.error())
        .Context(
            damaged ? fmt::format("the file system is damaged and is not mounted; repair it by hand (fsck.{} "
                                  "{}), or restore it. After the repair the call succeeds",
                                  a.fs_type, a.device)
                    : "the file system is not mounted before its check succeeds (setting fsck)");
  }
  if (a.tell) {
    a.tell(*report);
  }
  return Ok();
}

Status Grow(const GrowFilesystemAction& a, const World& world, const Call& call) {
  auto grown = world.mount.Grow(a.fs_type, a.device, a.mount_point, call);
  if (grown.has_value() || !a.tell) {
    return grown;
  }
  a.tell(grown.error());
  return Ok();
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table, one text for each action.
std::string Text(const Action& action) {
  return std::visit(
      Overload{
          [](const lvm::Change& change) { return lvm::TextOf(change); },
          [](const VerifyLayoutAction& a) {
            return fmt::format("verify that {}/{} lies where it was planned", a.group, a.name);
          },
          [](const ActivateAction& a) {
            return fmt::format("activate {}/{}{}", a.group, fmt::join(a.names, fmt::format(" {}/", a.group)),
                               a.accept_older ? " from the legs that are there, as asked for" : "");
          },
          [](const DeactivateAction& a) { return fmt::format("deactivate {}/{}", a.group, a.name); },
          [](const RemoveLvAction& a) {
            return fmt::format("remove logical volume {}/{}", a.group,
                               fmt::join(a.names, fmt::format(" {}/", a.group)));
          },
          [](const RemoveDeviceAction& a) { return fmt::format("remove device {}", a.name); },
          [](const StartStoreAction& a) { return fmt::format("start thin store {}/{}", a.group, a.name); },
          [](const StopStoreAction& a) { return fmt::format("stop thin store {}/{}", a.group, a.name); },
          [](const RemakeMetadataAction& a) {
            return fmt::format(
                "repair the metadata of thin store {0}/{1} into {0}/{2}, and prove that they say the "
                "same",
                a.group, a.name, a.fresh);
          },
          [](const ProveMetadataAction& a) {
            return fmt::format("prove that thin store {0}/{1} has its new metadata, and {0}/{2} the former",
                               a.group, a.name, a.former);
          },
          [](const EndRemovalsAction& a) {
            return fmt::format("delete what LVM has not yet deleted from thin store {}/{}", a.group, a.name);
          },
          [](const ProveNextDeviceAction& a) {
            return fmt::format("prove that the next device of thin store {}/{} is new", a.group, a.name);
          },
          [](const ProveBlankAction& a) { return fmt::format("prove that {}/{} is blank", a.group, a.name); },
          [](const CutAction& a) {
            return fmt::format("cut {} of {} in thin store {}/{}", NamesOf(a.members, &CutMember::name),
                               NamesOf(a.members, &CutMember::origin), a.group, a.pool);
          },
          [](const ZeroStoreAction& a) {
            return fmt::format("zero what only {}/{} has in {} places of its store", a.group, a.name,
                               a.ranges.size());
          },
          [](const ZeroThinAction& a) {
            return fmt::format("zero {} bytes at {} of {}/{}, and give them back to its store",
                               a.length.value, a.offset.value, a.group, a.name);
          },
          [](const EraseAction& a) {
            return fmt::format("{} {} bytes at {} of {}",
                               a.method == dm::EraseMethod::kZero ? "zero" : "discard", a.range.length.value,
                               a.range.offset.value, a.range.device);
          },
          [](const CopyAction& a) {
            return fmt::format("copy {} to {}/{}{}", a.from, a.group, a.to,
                               a.copy.compare ? ", where they differ" : "");
          },
          [](const ChangeUuidAction& a) {
            return fmt::format("give the {} on {} a UUID of its own", a.fs_type, a.device);
          },
          [](const MakeFilesystemAction& a) {
            return fmt::format("make file system {} on {}", a.spec.fs_type, a.spec.device);
          },
          [](const CheckFilesystemAction& a) {
            return fmt::format("check file system {} on {}", a.fs_type, a.device);
          },
          [](const MountAction& a) {
            return fmt::format("mount {} ({}) on {}", a.device, a.fs_type, a.target.str());
          },
          [](const SetReadOnlyAction& a) {
            return fmt::format("make device {} {}", a.dm_uuid, a.read_only ? "read-only" : "writable");
          },
          [](const MakeTargetAction& a) {
            return fmt::format("make {} {}", a.directory ? "directory" : "file", a.path.str());
          },
          [](const BindAction& a) { return fmt::format("bind {} on {}", a.source, a.target.str()); },
          [](const UnmountAction& a) { return fmt::format("unmount {}", a.target.str()); },
          [](const RemoveTargetAction& a) { return fmt::format("remove {}", a.path.str()); },
          [](const GrowFilesystemAction& a) {
            return fmt::format("grow file system {} on {}", a.fs_type, a.mount_point.str());
          },
          [](const GiveToGroupAction& a) {
            return fmt::format("give what is mounted on {} to group {}", a.mount_point.str(), a.gid);
          },
          [](const VerifyLegsAction& a) {
            return fmt::format("verify that the legs of {}/{} are there, on disks of their own", a.group,
                               a.name);
          },
          [](const ScrubAction& a) {
            return fmt::format("compare the legs of {}/{}{}", a.group, a.name,
                               a.repair ? ", and rewrite what differs" : "");
          },
          [](const VerifyLeftAction& a) {
            return fmt::format("verify that the moved extents of disk {} are free", a.pv_uuid);
          },
          [](const ReviveAction& a) {
            return fmt::format("let {}/{} start again from its freshest legs", a.group, a.name);
          },
      },
      action);
}

Status Commit(const Action& action, const World& world, const Call& call) {
  return std::visit(
      Overload{
          [&](const lvm::Change& change) { return ApplyChange(change, world, call); },
          [&](const VerifyLayoutAction& a) { return VerifyLayout(a, world, call); },
          [&](const ActivateAction& a) { return ActivateVolumes(a, world, call); },
          [&](const DeactivateAction& a) { return Deactivate(a, world, call); },
          [&](const RemoveLvAction& a) { return RemoveNow(a, world, call); },
          [&](const RemoveDeviceAction& a) { return world.dm.Remove(a.dm_uuid); },
          [&](const StartStoreAction& a) { return Start(a, world, call); },
          [&](const StopStoreAction& a) { return Stop(a, world, call); },
          [&](const RemakeMetadataAction& a) { return Remake(a, world, call); },
          [&](const ProveMetadataAction& a) { return ProveMetadata(a, world, call); },
          [&](const EndRemovalsAction& a) { return EndRemovals(a.group, a.name, world, call); },
          [&](const ProveNextDeviceAction& a) { return ProveNextDevice(a, world, call); },
          [&](const ProveBlankAction& a) { return ProveBlank(a, world, call); },
          [&](const CutAction& a) { return Cut(a, world, call); },
          [&](const ZeroStoreAction& a) { return ZeroStore(a, world, call); },
          [&](const ZeroThinAction& a) { return ZeroThin(a, world, call); },
          [&](const EraseAction& a) { return world.erase.Erase(a.range, a.method, call, nullptr); },
          [&](const CopyAction& a) { return CopyDevice(a.copy, call, a.tell); },
          [&](const ChangeUuidAction& a) -> Status {
            QUARRY_TRY(world.mount.ChangeUuid(a.fs_type, a.device, call));
            return Ok();
          },
          [&](const MakeFilesystemAction& a) { return world.mount.Make(a.spec, call); },
          [&](const CheckFilesystemAction& a) { return Check(a, world, call); },
          [&](const MountAction& a) {
            return world.mount.Mount(a.device, a.target, a.fs_type, a.options, call);
          },
          [&](const SetReadOnlyAction& a) { return world.dm.SetReadOnly(a.dm_uuid, a.read_only); },
          [&](const MakeTargetAction& a) {
            return a.directory           ? world.mount.MakeDirectory(a.path)
                   : a.replace_directory ? world.mount.MakeFileFromDirectory(a.path)
                                         : world.mount.MakeFile(a.path);
          },
          [&](const BindAction& a) { return world.mount.Bind(a.source, a.target, a.options, call); },
          [&](const UnmountAction& a) { return world.mount.Unmount(a.target, call); },
          [&](const RemoveTargetAction& a) { return world.mount.RemovePath(a.path); },
          [&](const GrowFilesystemAction& a) { return Grow(a, world, call); },
          [&](const GiveToGroupAction& a) { return world.mount.GiveToGroup(a.mount_point, a.gid, call); },
          [&](const VerifyLegsAction& a) { return VerifyLegs(a, world, call); },
          [&](const ScrubAction& a) { return world.dm.Scrub(a.dm_uuid, a.repair); },
          [&](const VerifyLeftAction& a) { return VerifyLeft(a, world, call); },
          [&](const ReviveAction& a) { return ReviveNow(a, world, call); },
      },
      action);
}

Status Execute(const Plan& plan, const World& world, const Call& call) {
  for (const Action& action : plan) {
    const std::string text = Text(action);
    QUARRY_TRY(call.Check(text));
    if (world.steps != nullptr) {
      world.steps->Before(text);
    }
    auto done = [&] {
      const TimedStep step(call, [&] { return text; });
      return Commit(action, world, call);
    }();
    if (world.steps != nullptr) {
      world.steps->After(text);
    }
    QUARRY_TRY(std::move(done).Context(text));
  }
  return Ok();
}

}  // namespace quarry::engine
