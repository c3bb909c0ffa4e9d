#include "tests/fakes/fake_lvm.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lvm/lvm_command.h"
#include "lvm/names.h"
#include "tests/fakes/fake_lvm_alloc.h"
#include "tests/fakes/fake_lvm_model.h"

namespace quarry::fakes {
namespace {

using lvm::Geometry;
using lvm::LogicalVolume;
using lvm::PhysicalVolume;
using lvm::VolumeGroup;
using lvm::VolumeType;

Error NoSuchLv(const VolumeGroup& group, const std::string& name) {
  return {Code::kNotFound, fmt::format("Failed to find logical volume \"{}/{}\"", group.name, name)};
}

Status MayChange(const VolumeGroup& group) {
  if (group.exported) {
    return Error(Code::kPrecondition, fmt::format("Volume group {} is exported", group.name));
  }
  return Ok();
}

// Like lvm, refuses creates and extends while any PV is missing.
Status MayGrow(const VolumeGroup& group) {
  QUARRY_TRY(MayChange(group));
  if (group.MissingPvs() > 0) {
    return Error(Code::kUnavailable,
                 fmt::format("a disk of the group is missing: Cannot change VG {} while PVs are "
                             "missing.",
                             group.name));
  }
  return Ok();
}

// After a store was taken off the volume.
void Unbind(VolumeGroup& group, const std::string& name) {
  Find(group, name)->independent =
      std::ranges::none_of(group.lvs, [&](const LogicalVolume& other) { return other.origin == name; });
}

uint64_t PerLeg(const Geometry& geometry, Extents logical) {
  return logical.value / geometry.data_legs();
}

Status GrowAt(VolumeGroup& group, LogicalVolume& lv, const Geometry& geometry,
              const lvm::PlacementStep& step) {
  QUARRY_ASSIGN(const std::vector<AllocatedLeg> legs,
                Allocate(group, step.pv_arguments,
                         {.legs = geometry.legs(),
                          .per_leg = PerLeg(geometry, step.logical_extents),
                          .metadata = 0,
                          .policy = step.alloc,
                          .tails = Tails(group, lv, geometry)}));
  Grow(group, lv, geometry, legs);
  return Ok();
}

Status NameIsFree(const VolumeGroup& group, const std::string& name) {
  if (group.FindLv(name) != nullptr) {
    return Error(
        Code::kAlreadyExists,
        fmt::format("Logical Volume \"{}\" already exists in volume group \"{}\"", name, group.name));
  }
  const auto shown = static_cast<uint64_t>(std::ranges::count(group.lvs, false, &LogicalVolume::hidden));
  if (group.max_lvs != 0 && shown >= group.max_lvs) {
    return Error(Code::kNoSpace,
                 fmt::format("Maximum number of logical volumes ({}) reached in volume group {}",
                             group.max_lvs, group.name));
  }
  return Ok();
}

}  // namespace

void FakeLvm::AddGroup(const std::string& name, Bytes extent_size, const std::vector<FakeDisk>& disks) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[name];
  group = {};
  group.metadata_room = kGiB;
  group.now.name = name;
  group.now.uuid = NewUuid();
  group.now.seqno = 1;
  group.now.extent_size = extent_size;
  for (const FakeDisk& disk : disks) {
    PhysicalVolume pv;
    pv.uuid = NewUuid();
    pv.device = disk.device;
    pv.pe_start = kMiB;
    pv.extent_count = disk.extents;
    group.now.pvs.push_back(std::move(pv));
  }
  Derive(group.now);
}

void FakeLvm::AddBlankDisk(const FakeDisk& disk) {
  const std::lock_guard lock(mutex_);
  blank_[disk.device] = disk.extents;
}

void FakeLvm::SetPvFacts(const std::string& device, lvm::PvFacts facts) {
  const std::lock_guard lock(mutex_);
  told_[device] = std::move(facts);
}

void FakeLvm::RemoveGroup(const std::string& name) {
  const std::lock_guard lock(mutex_);
  groups_.erase(name);
}

void FakeLvm::SetAway(const std::string& name, bool away) {
  const std::lock_guard lock(mutex_);
  groups_.at(name).away = away;
}

void FakeLvm::SetGroupSilent(const std::string& name, bool silent) {
  const std::lock_guard lock(mutex_);
  if (silent) {
    silent_groups_.insert(name);
  } else {
    silent_groups_.erase(name);
  }
  answered_.notify_all();
}

Status FakeLvm::AwaitAnswer(const std::string& group, const std::string& method, const Call& call) {
  std::unique_lock lock(mutex_);
  const auto answers = [&] { return !silent_groups_.contains(group); };
  return WaitUntil(answered_, lock, call, answers) ? Ok() : call.Check(method);
}

void FakeLvm::Edit(const std::string& name, const std::function<void(VolumeGroup&)>& change) {
  std::unique_lock lock(mutex_);
  Group& group = groups_.at(name);
  (void)WaitToWrite(lock, group, {});
  change(group.now);
  ++group.now.seqno;
  Derive(group.now);
}

bool FakeLvm::IsWaitedFor(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return groups_.at(name).writers > 0 && groups_.at(name).holds > 0;
}

void FakeLvm::SetSilent(const std::string& pv_uuid, bool silent) {
  const std::lock_guard lock(mutex_);
  if (silent) {
    silent_.insert(pv_uuid);
  } else {
    silent_.erase(pv_uuid);
  }
}

void FakeLvm::Happen(const std::string& name, const std::function<void(VolumeGroup&)>& change) {
  const std::lock_guard lock(mutex_);
  VolumeGroup& group = groups_.at(name).now;
  change(group);
  Derive(group);
}

void FakeLvm::DeviceWasRemoved(const std::string& dm_uuid) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, group] : groups_) {
    for (LogicalVolume& lv : group.now.lvs) {
      lv.active = lv.active && lvm::DmUuid(group.now.uuid, lv.uuid) != dm_uuid;
    }
  }
}

void FakeLvm::ReturnDisk(const std::string& name, const std::string& pv_uuid) {
  const std::lock_guard lock(mutex_);
  groups_.at(name).back.insert(pv_uuid);
}

void FakeLvm::SetMetadataRoom(const std::string& name, Bytes room) {
  const std::lock_guard lock(mutex_);
  groups_.at(name).metadata_room = room;
}

void FakeLvm::SetOpen(const std::string& group, const std::string& lv, bool open) {
  const std::lock_guard lock(mutex_);
  if (open) {
    open_.emplace(group, lv);
  } else {
    open_.erase({group, lv});
  }
}

void FakeLvm::SetInstantSync(bool instant) {
  const std::lock_guard lock(mutex_);
  instant_sync_ = instant;
}

void FakeLvm::SetVersion(const std::string& version) {
  const std::lock_guard lock(mutex_);
  version_ = version;
}

void FakeLvm::Reboot() {
  const std::lock_guard lock(mutex_);
  open_.clear();
  for (auto& [name, group] : groups_) {
    for (LogicalVolume& lv : group.now.lvs) {
      lv.active = false;
      lv.sync_action.clear();
    }
  }
}

void FakeLvm::SetHooks(FakeLvmHooks hooks) {
  const std::lock_guard lock(mutex_);
  hooks_ = std::move(hooks);
}

void FakeLvm::SetOnCall(std::function<void(const std::string&)> on_call) {
  const std::lock_guard lock(mutex_);
  on_call_ = std::move(on_call);
}

// The common frame of every call: hooks, faults, deadline, lock, group lookup.
template <typename Function>
Status FakeLvm::Act(const std::string& method, const std::string& group_name, const Call& call,
                    Function act) {
  std::function<void(const std::string&)> on_call;
  {
    const std::lock_guard lock(mutex_);
    on_call = on_call_;
  }
  if (on_call) {
    on_call(method);
  }
  QUARRY_TRY(call.Check(method));
  QUARRY_TRY(before.Check(method));
  QUARRY_TRY(AwaitAnswer(group_name, method, call));
  {
    std::unique_lock lock(mutex_);
    const auto found = groups_.find(group_name);
    if (found == groups_.end() || found->second.away) {
      return Error(Code::kNotFound, fmt::format("Volume group \"{}\" not found", group_name));
    }
    if (method != "Read") {
      QUARRY_TRY(WaitToWrite(lock, found->second, call));
    }
    QUARRY_TRY(act(found->second));
  }
  return after.Check(method);
}

class FakeLvm::Holding final : public lvm::GroupHold {
 public:
  Holding(FakeLvm& lvm, Group& group) : lvm_(lvm), group_(group) {}
  ~Holding() override {
    const std::lock_guard lock(lvm_.mutex_);
    --group_.holds;
    lvm_.let_go_.notify_all();
  }

 private:
  FakeLvm& lvm_;
  Group& group_;
};

Status FakeLvm::WaitToWrite(std::unique_lock<std::mutex>& lock, Group& group, const Call& call) {
  ++group.writers;
  const bool free = WaitUntil(let_go_, lock, call, [&] { return group.holds == 0; });
  --group.writers;
  let_go_.notify_all();
  return free ? Ok() : call.Check("waiting for the lock of the volume group");
}

Result<lvm::HeldGroup> FakeLvm::Hold(const std::string& name, const Call& call) {
  QUARRY_TRY(before.Check("Hold"));
  while (true) {
    QUARRY_ASSIGN(const lvm::Snapshot read, Read(name, call));
    std::unique_lock lock(mutex_);
    const auto found = groups_.find(name);
    if (found == groups_.end()) {
      return Error(Code::kNotFound, fmt::format("Volume group \"{}\" not found", name));
    }
    Group& group = found->second;
    if (!WaitUntil(let_go_, lock, call, [&] { return group.writers == 0; })) {
      QUARRY_TRY(call.Check("waiting for the lock of the volume group"));
    }
    if (group.now.seqno == read->seqno && group.now.uuid == read->uuid) {
      ++group.holds;
      return lvm::HeldGroup{read, {silent_.begin(), silent_.end()}, std::make_unique<Holding>(*this, group)};
    }
  }
}

Result<std::string> FakeLvm::Fingerprint(const lvm::Snapshot& snapshot, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot now, Read(snapshot->name, call));
  if (now->uuid != snapshot->uuid || now->seqno != snapshot->seqno) {
    return Error(Code::kUnavailable, "volume group " + snapshot->name + " has changed meanwhile");
  }
  return fmt::format("{} {}", now->uuid, now->seqno);
}

Status FakeLvm::Commit(Group& group, VolumeGroup next) {
  if (MetadataSize(next) > group.metadata_room.value) {
    return Error(Code::kNoSpace,
                 fmt::format("no room in the group's metadata area: VG {} metadata ({} bytes) exceeds "
                             "maximum metadata size ({} bytes)",
                             next.name, MetadataSize(next), group.metadata_room.value));
  }
  Derive(next);
  ++next.seqno;
  group.now = std::move(next);
  if (hooks_.committed) {
    hooks_.committed(group.now);
  }
  return Ok();
}

Status FakeLvm::MayDeactivate(const VolumeGroup& group, const LogicalVolume& lv) {
  if (open_.contains({group.name, lv.name})) {
    return Error(Code::kPrecondition, fmt::format("Logical volume {}/{} in use.", group.name, lv.name));
  }
  return hooks_.deactivate ? hooks_.deactivate(group, lv) : Ok();
}

void FakeLvm::TellActive(const VolumeGroup& group, const std::string& name) {
  if (hooks_.active) {
    hooks_.active(group, *group.FindLv(name));
  }
}

std::string FakeLvm::NewUuid() {
  const std::string digits = fmt::format("{:032}", ++uuids_);
  return fmt::format("{}-{}-{}-{}-{}-{}-{}", digits.substr(0, 6), digits.substr(6, 4), digits.substr(10, 4),
                     digits.substr(14, 4), digits.substr(18, 4), digits.substr(22, 4), digits.substr(26, 6));
}

Result<lvm::Snapshot> FakeLvm::Read(const std::string& group_name, const Call& call) {
  QUARRY_TRY(lvm::ReadArguments(group_name));
  lvm::Snapshot out;
  QUARRY_TRY(Act("Read", group_name, call, [&](Group& group) {
    VolumeGroup copy = group.now;
    const uint64_t size = MetadataSize(copy);
    for (PhysicalVolume& pv : copy.pvs) {
      if (pv.missing && !group.back.contains(pv.uuid)) {
        pv.device.clear();
      } else {
        pv.metadata_size = {2 * group.metadata_room.value};
        pv.metadata_free = {group.metadata_room.value - std::min(size, group.metadata_room.value)};
      }
    }
    out = std::make_shared<const VolumeGroup>(std::move(copy));
    return Ok();
  }));
  return out;
}

Status FakeLvm::Apply(const lvm::Change& change, const Call& call) {
  QUARRY_TRY(lvm::ArgumentsOf(change));
  return std::visit([&](const auto& verb) { return Do(verb, call); }, change);
}

Status FakeLvm::Do(const lvm::CreateGroup& verb, const Call& call) {
  QUARRY_TRY(call.Check("CreateGroup"));
  QUARRY_TRY(before.Check("CreateGroup"));
  std::vector<FakeDisk> disks;
  {
    const std::lock_guard lock(mutex_);
    if (groups_.contains(verb.group)) {
      return Error(Code::kAlreadyExists, fmt::format("A volume group called {} already exists.", verb.group));
    }
    for (const std::string& device : verb.devices) {
      const auto blank = blank_.find(device);
      if (blank == blank_.end()) {
        return Error(Code::kPrecondition, fmt::format("Cannot use {}: device is in use", device));
      }
      disks.push_back({device, blank->second});
    }
    for (const std::string& device : verb.devices) {
      blank_.erase(device);
    }
  }
  AddGroup(verb.group, verb.extent_size, disks);
  return after.Check("CreateGroup");
}

Status FakeLvm::Do(const lvm::CreateLv& verb, const Call& call) {
  return Act("Create", verb.group, call, [&](Group& group) -> Status {
    if (verb.seqno != 0 && group.now.seqno != verb.seqno) {
      return Error(Code::kBusy, "another process has changed volume group " + verb.group);
    }
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    QUARRY_TRY(NameIsFree(next, verb.name));
    const Geometry& geometry = verb.geometry;
    QUARRY_ASSIGN(const std::vector<AllocatedLeg> legs,
                  Allocate(next, verb.step.pv_arguments,
                           {.legs = geometry.legs(),
                            .per_leg = PerLeg(geometry, verb.step.logical_extents),
                            .metadata = geometry.has_metadata() ? 1U : 0U,
                            .policy = verb.step.alloc,
                            .tails = {}}));
    const bool in_sync = instant_sync_ || (verb.assume_in_sync && geometry.type() != VolumeType::kRaid6);
    AddVolume(next, verb, legs, in_sync, [this] { return NewUuid(); });
    for (LogicalVolume& lv : next.lvs) {
      lv.active = lv.active && (verb.activate || (lv.name != verb.name && !IsOf(lv, verb.name)));
    }
    QUARRY_TRY(Commit(group, std::move(next)));
    policies_[group.now.FindLv(verb.name)->uuid] = verb.step.alloc;
    if (verb.activate) {
      TellActive(group.now, verb.name);
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::ExtendLv& verb, const Call& call) {
  return Act("Extend", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    LogicalVolume* lv = Find(next, verb.name);
    QUARRY_TRY(MayGrow(next));
    if (lv == nullptr) {
      return Error(Code::kNotFound,
                   fmt::format("Logical volume {} not found in volume group {}.", verb.name, verb.group));
    }
    if (IsThin(*lv)) {
      return Error(Code::kInternal, fmt::format("{} has no extents of its own", verb.name));
    }
    QUARRY_TRY(GrowAt(next, IsThinPool(*lv) ? *PoolData(next, *lv) : *lv, verb.geometry, verb.step));
    if (IsThinPool(*lv)) {
      FitToData(next, *lv);
    }
    const bool active = lv->active;
    QUARRY_TRY(Commit(group, std::move(next)));
    if (active) {
      TellActive(group.now, verb.name);
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::RemoveLvs& verb, const Call& call) {
  const auto remove = [&](VolumeGroup& next, const std::string& name) -> Status {
    const LogicalVolume* lv = Find(next, name);
    if (lv == nullptr) {
      return Ok();
    }
    if (lv->hidden) {
      return Error(Code::kInternal,
                   fmt::format("Can't remove logical volume {} that is part of another", name));
    }
    if (lv->active) {
      return Error(Code::kPrecondition, fmt::format("Logical volume {}/{} not removed.", verb.group, name));
    }
    if (IsThinPool(*lv) && VolumesIn(next, name) > 0) {
      return Error(
          Code::kPrecondition,
          fmt::format("it is active, or another volume is built on it: Logical volume {}/{} not removed.",
                      verb.group, name));
    }
    if (IsThin(*lv)) {
      return RemoveThin(next, *lv);
    }
    // LVM does not ask before it removes volumes that are built on an inactive one.
    std::erase_if(next.lvs, [&](const LogicalVolume& other) {
      return other.name == name || IsOf(other, name) || IsPartOfPool(other, name) || other.origin == name ||
             other.pool == name;
    });
    return Ok();
  };
  return Act("Remove", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    if (verb.seqno != 0 && group.now.seqno != verb.seqno) {
      return Ok();
    }
    VolumeGroup next = group.now;
    Status worst = Ok();
    for (const std::string& name : verb.names) {
      Status one = remove(next, name);
      if (!one.has_value()) {
        worst = std::move(one);
      }
    }
    if (next.lvs.size() != group.now.lvs.size()) {
      next.seqno -= next.seqno == group.now.seqno ? 0 : 1;  // Commit() counts the last one
      QUARRY_TRY(Commit(group, std::move(next)));
    }
    return worst;
  });
}

Status FakeLvm::Do(const lvm::ChangeTags& verb, const Call& call) {
  if (verb.IsEmpty()) {
    return Ok();
  }
  return Act("ChangeTags", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    LogicalVolume* lv = Find(next, verb.name);
    if (lv == nullptr) {
      return NoSuchLv(next, verb.name);
    }
    QUARRY_TRY(IsNoPoolMetadata(next, *lv));
    SetTags(*lv, verb.add, verb.remove);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::ActivateLvs& verb, const Call& call) {
  const auto activate = [&](Group& group, const std::string& name) -> Status {
    QUARRY_TRY(MayChange(group.now));
    LogicalVolume* lv = Find(group.now, name);
    if (lv == nullptr) {
      return NoSuchLv(group.now, name);
    }
    if (IsThin(*lv) || IsThinPool(*lv)) {
      return ActivateThin(group, name, false);
    }
    QUARRY_TRY(MaySwitchAlone(group.now, name));
    if (LacksDisks(*lv)) {
      return RefusedAsPartial(group.now, name);
    }
    for (LogicalVolume& part : group.now.lvs) {
      part.active = part.active || part.name == name || IsOf(part, name);
    }
    lv->sync_action = lv->sync_percent.has_value() ? "idle" : "";
    if (!lv->hidden || lvm::IsThinPartName(name)) {
      TellActive(group.now, name);
    }
    return Ok();
  };
  return Act("Activate", verb.group, call, [&](Group& group) -> Status {
    Status worst = Ok();
    for (const std::string& name : verb.names) {
      Status one = activate(group, name);
      if (!one.has_value()) {
        worst = std::move(one);
      }
    }
    return worst;
  });
}

Status FakeLvm::ActivateThin(Group& group, const std::string& name, bool degraded) {
  LogicalVolume& lv = *Find(group.now, name);
  QUARRY_TRY(MayActivatePool(group.now, lv, degraded));
  lv.active = true;
  SettlePool(group.now, IsThin(lv) ? lv.pool : name);
  TellActive(group.now, name);
  return Ok();
}

Status FakeLvm::Do(const lvm::ActivateDegradedThin& verb, const Call& call) {
  return Act("ActivateDegraded", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    for (const std::string& name : verb.names) {
      const LogicalVolume* const lv = group.now.FindLv(name);
      if (lv == nullptr) {
        return NoSuchLv(group.now, name);
      }
      if (!IsThin(*lv) && !IsThinPool(*lv)) {
        return Error(Code::kInternal, "here only pools and thin volumes are activated so");
      }
      QUARRY_TRY(ActivateThin(group, name, true));
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::DeactivateLv& verb, const Call& call) {
  return Act("Deactivate", verb.group, call, [&](Group& group) -> Status {
    LogicalVolume* lv = Find(group.now, verb.name);
    if (lv == nullptr) {
      return NoSuchLv(group.now, verb.name);
    }
    if (verb.seqno != 0 && group.now.seqno != verb.seqno) {
      return Ok();
    }
    QUARRY_TRY(MaySwitchAlone(group.now, verb.name));
    if (lv->active) {
      QUARRY_TRY(MayDeactivate(group.now, *lv));
    }
    for (LogicalVolume& part : group.now.lvs) {
      part.active = part.active && part.name != verb.name && !IsOf(part, verb.name);
    }
    lv->sync_action.clear();
    SettlePool(group.now, IsThin(*lv) ? lv->pool : verb.name);
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::RefreshLvs& verb, const Call& call) {
  return Act("Refresh", verb.group, call, [&](Group& group) -> Status {
    Status worst = Ok();
    for (const std::string& name : verb.names) {
      const LogicalVolume* const lv = group.now.FindLv(name);
      if (lv == nullptr) {
        worst = NoSuchLv(group.now, name);
      } else if (lv->partial) {
        worst =
            Error(Code::kUnavailable, fmt::format("Refusing refresh of partial LV {}/{}.", verb.group, name));
      } else if (lv->hidden) {
        worst = Error(Code::kInternal,
                      fmt::format("Operation not permitted on hidden LV {}/{}.", verb.group, name));
      } else if (lv->active && hooks_.renewed) {
        hooks_.renewed(group.now, *lv);
      }
    }
    return worst;
  });
}

Status FakeLvm::Do(const lvm::LimitRecovery& verb, const Call& call) {
  return Act("LimitRecovery", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    for (const std::string& name : verb.names) {
      LogicalVolume* const lv = Find(next, name);
      if (lv == nullptr) {
        return NoSuchLv(next, name);
      }
      if (!lv->IsRaid() || lv->partial) {
        return Error(Code::kInternal, fmt::format("{} has no legs to fill", name));
      }
      QUARRY_TRY(IsNoPoolMetadata(next, *lv));
      lv->segments.front().max_recovery_rate = verb.rate;
    }
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::RepairLv& verb, const Call& call) {
  return Act("Repair", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    const LogicalVolume* const lv = Find(next, verb.name);
    if (lv == nullptr) {
      return NoSuchLv(next, verb.name);
    }
    if (!IsInUseByKernel(next, *lv)) {
      return Error(Code::kInternal,
                   fmt::format("{}/{} must be active to perform this operation.", verb.group, verb.name));
    }
    const auto leave = std::ranges::find(next.pvs, verb.leave, &PhysicalVolume::device);
    if (!verb.leave.empty() && leave == next.pvs.end()) {
      return Error(Code::kUnavailable, fmt::format("Physical Volume {} is not in the group", verb.leave));
    }
    QUARRY_TRY(ReplaceLegs(next, *lv, verb.leave.empty() ? "" : leave->uuid, verb.pv_arguments));
    QUARRY_TRY(Commit(group, std::move(next)));
    if (hooks_.renewed) {
      hooks_.renewed(group.now, *group.now.FindLv(verb.name));
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::RestorePv& verb, const Call& call) {
  return Act("RestorePv", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    const auto pv = std::ranges::find(next.pvs, verb.device, &PhysicalVolume::device);
    if (pv == next.pvs.end() || !pv->missing || !group.back.contains(pv->uuid)) {
      return Error(Code::kInternal,
                   fmt::format("WARNING: PV {} was not missing in VG {}", verb.device, verb.group));
    }
    pv->missing = false;
    group.back.erase(pv->uuid);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::DropMissingPvs& verb, const Call& call) {
  return Act("DropMissingPvs", verb.group, call, [&](Group& group) -> Status {
    if (std::ranges::any_of(group.now.lvs, &LogicalVolume::partial)) {
      return Error(Code::kPrecondition, fmt::format("There are still partial LVs in VG {}.", verb.group));
    }
    VolumeGroup next = group.now;
    if (std::erase_if(next.pvs, [&](const PhysicalVolume& pv) {
          return pv.missing && !group.back.contains(pv.uuid);
        }) == 0) {
      return Ok();
    }
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::ChangePv& verb, const Call& call) {
  return Act("ChangePv", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    const auto pv = std::ranges::find(next.pvs, verb.device, &PhysicalVolume::device);
    if (pv == next.pvs.end() || pv->missing) {
      return Error(Code::kUnavailable, fmt::format("Failed to find physical volume \"{}\".", verb.device));
    }
    pv->allocatable = verb.allocatable.value_or(pv->allocatable);
    for (const std::string& tag : verb.remove_tags) {
      std::erase(pv->tags, tag);
    }
    for (const std::string& tag : verb.add_tags) {
      if (std::ranges::find(pv->tags, tag) == pv->tags.end()) {
        pv->tags.push_back(tag);
      }
    }
    std::ranges::sort(pv->tags);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::MoveExtents& verb, const Call& call) {
  return Act("Move", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    if (EndMoveOff(next, verb.from.substr(0, verb.from.find(':')), true)) {
      return Commit(group, std::move(next));
    }
    QUARRY_ASSIGN(const auto from, ReadPvArgument(next, verb.from));
    QUARRY_ASSIGN(const auto to, ReadPvArgument(next, verb.to));
    if (from.size() != to.size()) {
      return Error(Code::kInternal, "here each range goes to one of the same length");
    }
    for (size_t i = 0; i < from.size(); ++i) {
      QUARRY_TRY(MoveExtentsOf(next, verb.name, from[i], to[i]));
    }
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::AbortMove& verb, const Call& call) {
  return Act("AbandonMove", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    return EndMoveOff(next, verb.device, false) ? Commit(group, std::move(next)) : Ok();
  });
}

Status FakeLvm::Do(const lvm::CreateCow& verb, const Call& call) {
  return Act("CreateCow", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    const LogicalVolume* const origin = Find(next, verb.name);
    if (origin == nullptr) {
      return NoSuchLv(next, verb.name);
    }
    if (!origin->active || Find(next, verb.store) != nullptr) {
      return Error(Code::kInternal, "here the volume is active, and the name of the store is new");
    }
    const lvm::CreateLv plain{.group = verb.group,
                              .name = verb.store,
                              .geometry = Geometry::Make({}).value(),
                              .step = verb.step,
                              .tags = verb.tags};
    QUARRY_ASSIGN(const std::vector<AllocatedLeg> legs, Allocate(next, verb.step.pv_arguments,
                                                                 {.legs = 1,
                                                                  .per_leg = verb.step.logical_extents.value,
                                                                  .metadata = 0,
                                                                  .policy = verb.step.alloc,
                                                                  .tails = {}}));
    AddVolume(next, plain, legs, true, [this] { return NewUuid(); });
    QUARRY_TRY(Commit(group, next));
    LogicalVolume& store = *Find(next, verb.store);
    store.origin = verb.name;
    store.independent = false;
    Find(next, verb.name)->independent = false;
    ++next.seqno;
    QUARRY_TRY(Commit(group, std::move(next)));
    if (hooks_.kept) {
      hooks_.kept(group.now, *group.now.FindLv(verb.name), *group.now.FindLv(verb.store));
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::DropCow& verb, const Call& call) {
  return Act("DropCow", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    const LogicalVolume* const store = Find(next, verb.store);
    if (store == nullptr) {
      return NoSuchLv(next, verb.store);
    }
    QUARRY_TRY(MayDeactivate(next, *store));
    std::erase_if(next.lvs, [&](const LogicalVolume& lv) { return lv.name == verb.store; });
    Unbind(next, verb.name);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::SplitCow& verb, const Call& call) {
  return Act("SplitCow", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    LogicalVolume* const store = Find(next, verb.store);
    if (store == nullptr) {
      return NoSuchLv(next, verb.store);
    }
    if (store->origin != verb.name) {
      return Error(Code::kInternal, fmt::format("{}/{} is not a snapshot.", verb.group, verb.store));
    }
    QUARRY_TRY(MayDeactivate(next, *store));
    store->origin.clear();
    store->independent = true;
    Unbind(next, verb.name);
    const bool active = store->active;
    QUARRY_TRY(Commit(group, std::move(next)));
    if (active) {
      TellActive(group.now, verb.store);
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::MakeThinPool& verb, const Call& call) {
  return Act("MakeThinPool", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    for (const std::string& name : {verb.name, verb.metadata}) {
      if (const LogicalVolume* const lv = Find(next, name); lv != nullptr && lv->active) {
        QUARRY_TRY(MayDeactivate(next, *lv));
      }
    }
    const PoolTags tags = version_ == "2.03.16" ? PoolTags::kStayOnData : PoolTags::kMoveToPool;
    QUARRY_TRY(MakePool(next, verb, tags, [this] { return NewUuid(); }));
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::AllocateAnywhere& verb, const Call& call) {
  return Act("AllocateAnywhere", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    const LogicalVolume* const lv = Find(group.now, verb.name);
    if (lv == nullptr) {
      return NoSuchLv(group.now, verb.name);
    }
    policies_[lv->uuid] = "normal";
    return Commit(group, group.now);
  });
}

Status FakeLvm::Do(const lvm::SkipActivation& verb, const Call& call) {
  return Act("SkipActivation", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    return Find(group.now, verb.name) == nullptr ? Status(NoSuchLv(group.now, verb.name))
                                                 : Commit(group, group.now);
  });
}

Status FakeLvm::Do(const lvm::CreateThinLv& verb, const Call& call) {
  return Act("CreateThin", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    QUARRY_TRY(NameIsFree(next, verb.name));
    if (const LogicalVolume* const pool = Find(next, verb.pool); pool != nullptr && IsThinPool(*pool)) {
      QUARRY_TRY(MayActivatePool(next, *pool));
    }
    QUARRY_TRY(AddThin(next, verb, [this] { return NewUuid(); }));
    ++next.seqno;
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::ExtendThinLv& verb, const Call& call) {
  return Act("ExtendThin", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    LogicalVolume* const lv = Find(next, verb.name);
    if (lv == nullptr) {
      return NoSuchLv(next, verb.name);
    }
    if (!IsThin(*lv)) {
      return Error(Code::kInternal, fmt::format("here {} is a thin volume", verb.name));
    }
    Extents& size = lv->segments.front().logical.count;
    const Extents wanted = CeilToExtents(verb.size, next.extent_size);
    if (wanted < size) {
      return Error(Code::kPrecondition,
                   fmt::format("New size given ({} extents) not larger than existing size ({} extents)",
                               wanted.value, size.value));
    }
    if (wanted == size) {
      return Ok();
    }
    size = wanted;
    const bool active = lv->active;
    QUARRY_TRY(Commit(group, std::move(next)));
    if (active) {
      TellActive(group.now, verb.name);
    }
    return Ok();
  });
}

Status FakeLvm::Do(const lvm::SwapPoolMetadata& verb, const Call& call) {
  return Act("SwapPoolMetadata", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayChange(next));
    QUARRY_TRY(SwapMetadata(next, verb));
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::ExtendPoolMetadata& verb, const Call& call) {
  return Act("ExtendPoolMetadata", verb.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    const LogicalVolume* const pool = Find(next, verb.name);
    if (pool == nullptr || !IsThinPool(*pool)) {
      return NoSuchLv(next, verb.name);
    }
    LogicalVolume& metadata = *PoolMetadata(next, *pool);
    // As lvm2 2.03.31; 2.03.16 goes by the command's policy.
    lvm::PlacementStep step = verb.step;
    step.alloc = policies_[metadata.uuid] == "contiguous" ? "contiguous" : step.alloc;
    QUARRY_TRY(GrowAt(next, metadata, verb.geometry, step));
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Do(const lvm::RemovePv& verb, const Call& call) {
  return Act("RemovePv", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    const auto pv = std::ranges::find(next.pvs, verb.device, &PhysicalVolume::device);
    if (pv == next.pvs.end()) {
      return Error(Code::kUnavailable, fmt::format("Physical Volume \"{}\" not found in Volume Group \"{}\".",
                                                   verb.device, verb.group));
    }
    if (next.pvs.size() == 1) {
      return Error(Code::kPrecondition, fmt::format("Can't remove final physical volume \"{}\" from volume "
                                                    "group \"{}\"",
                                                    verb.device, verb.group));
    }
    if (pv->free != std::vector<lvm::ExtentRange>{{{0}, pv->extent_count}}) {
      return Error(Code::kPrecondition, fmt::format("Physical volume \"{}\" still in use", verb.device));
    }
    next.pvs.erase(pv);
    return Commit(group, std::move(next));
  });
}

Result<std::string> FakeLvm::Version(const std::string& /*group*/, const Call& call) {
  QUARRY_TRY(call.Check("Version"));
  QUARRY_TRY(before.Check("Version"));
  const std::lock_guard lock(mutex_);
  return version_;
}

Status FakeLvm::Do(const lvm::AddPv& verb, const Call& call) {
  return Act("AddPv", verb.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    const auto blank = blank_.find(verb.device);
    if (blank == blank_.end()) {
      return Error(Code::kPrecondition, fmt::format("Cannot use {}: device is in use", verb.device));
    }
    VolumeGroup next = group.now;
    PhysicalVolume pv;
    pv.uuid = NewUuid();
    pv.device = verb.device;
    pv.pe_start = kMiB;
    pv.extent_count = blank->second;
    next.pvs.push_back(std::move(pv));
    QUARRY_TRY(Commit(group, std::move(next)));
    blank_.erase(verb.device);
    return Ok();
  });
}

Result<std::vector<lvm::PvFacts>> FakeLvm::ReadPvs(const std::vector<std::string>& devices,
                                                   const Call& call) {
  QUARRY_TRY(call.Check("ReadPvs"));
  QUARRY_TRY(before.Check("ReadPvs"));
  const std::lock_guard lock(mutex_);
  std::vector<lvm::PvFacts> out;
  for (const std::string& device : devices) {
    const auto told = told_.find(device);
    lvm::PvFacts& facts = out.emplace_back(told == told_.end() ? lvm::PvFacts() : told->second);
    for (const auto& [name, group] : groups_) {
      for (const PhysicalVolume& pv : group.now.pvs) {
        if (pv.device == device && !pv.missing) {
          facts = {lvm::PvFacts::Kind::kPv, pv.uuid, name, group.now.uuid};
        }
      }
    }
  }
  return out;
}

}  // namespace quarry::fakes
