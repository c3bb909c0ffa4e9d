#include "tests/fakes/fake_lvm.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "lvm/lvm_command.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
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

// Where the LV is on the PV's device, legs included.
std::vector<std::pair<Bytes, Bytes>> MappedOn(const VolumeGroup& group, const LogicalVolume& lv,
                                              const PhysicalVolume& pv) {
  std::vector<std::pair<Bytes, Bytes>> out;
  for (const lvm::PhysicalRange& own : lvm::PhysicalExtents(group, lv)) {
    if (own.pv_uuid == pv.uuid) {
      out.emplace_back(pv.pe_start + ToBytes(own.range.first, group.extent_size),
                       ToBytes(own.range.count, group.extent_size));
    }
  }
  return out;
}

uint64_t PerLeg(const Geometry& geometry, Extents logical) {
  return logical.value / geometry.data_legs();
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
  const bool answered = call.deadline == SteadyTime::max()
                            ? answered_.wait(lock, call.stop, answers)
                            : answered_.wait_until(lock, call.stop, call.deadline, answers);
  return answered ? Ok() : call.Check(method);
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
  const auto is_free = [&] { return group.holds == 0; };
  ++group.writers;
  const bool free = call.deadline == SteadyTime::max()
                        ? let_go_.wait(lock, call.stop, is_free)
                        : let_go_.wait_until(lock, call.stop, call.deadline, is_free);
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
    const auto is_free = [&] { return group.writers == 0; };
    const bool free = call.deadline == SteadyTime::max()
                          ? let_go_.wait(lock, call.stop, is_free)
                          : let_go_.wait_until(lock, call.stop, call.deadline, is_free);
    if (!free) {
      QUARRY_TRY(call.Check("waiting for the lock of the volume group"));
    }
    if (group.now.seqno == read->seqno && group.now.uuid == read->uuid) {
      ++group.holds;
      return lvm::HeldGroup{read, {silent_.begin(), silent_.end()}, std::make_unique<Holding>(*this, group)};
    }
  }
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

Status FakeLvm::Create(const lvm::CreateGroup& spec, const Call& call) {
  QUARRY_TRY(lvm::CreateArguments(spec));
  QUARRY_TRY(call.Check("CreateGroup"));
  QUARRY_TRY(before.Check("CreateGroup"));
  std::vector<FakeDisk> disks;
  {
    const std::lock_guard lock(mutex_);
    if (groups_.contains(spec.name)) {
      return Error(Code::kAlreadyExists, fmt::format("A volume group called {} already exists.", spec.name));
    }
    for (const std::string& device : spec.devices) {
      const auto blank = blank_.find(device);
      if (blank == blank_.end()) {
        return Error(Code::kPrecondition, fmt::format("Cannot use {}: device is in use", device));
      }
      disks.push_back({device, blank->second});
    }
    for (const std::string& device : spec.devices) {
      blank_.erase(device);
    }
  }
  AddGroup(spec.name, spec.extent_size, disks);
  return after.Check("CreateGroup");
}

Status FakeLvm::Create(const lvm::CreateLv& spec, const Call& call) {
  QUARRY_TRY(lvm::CreateArguments(spec));
  return Act("Create", spec.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    QUARRY_TRY(MayGrow(next));
    if (Find(next, spec.name) != nullptr) {
      return Error(
          Code::kAlreadyExists,
          fmt::format("Logical Volume \"{}\" already exists in volume group \"{}\"", spec.name, spec.group));
    }
    const auto shown = static_cast<uint64_t>(std::ranges::count(next.lvs, false, &LogicalVolume::hidden));
    if (next.max_lvs != 0 && shown >= next.max_lvs) {
      return Error(Code::kNoSpace,
                   fmt::format("Maximum number of logical volumes ({}) reached in volume group {}",
                               next.max_lvs, spec.group));
    }
    const Geometry& geometry = spec.geometry;
    QUARRY_ASSIGN(const std::vector<AllocatedLeg> legs,
                  Allocate(next, spec.step.pv_arguments,
                           {.legs = geometry.legs(),
                            .per_leg = PerLeg(geometry, spec.step.logical_extents),
                            .metadata = geometry.has_metadata() ? 1U : 0U,
                            .policy = spec.step.alloc,
                            .tails = {}}));
    const bool in_sync = instant_sync_ || (spec.assume_in_sync && geometry.type() != VolumeType::kRaid6);
    AddVolume(next, spec, legs, in_sync, [this] { return NewUuid(); });
    for (LogicalVolume& lv : next.lvs) {
      lv.active = lv.active && (spec.activate || (lv.name != spec.name && !IsOf(lv, spec.name)));
    }
    QUARRY_TRY(Commit(group, std::move(next)));
    if (spec.activate) {
      TellActive(group.now, spec.name);
    }
    return Ok();
  });
}

Status FakeLvm::Extend(const lvm::ExtendLv& spec, const Call& call) {
  QUARRY_TRY(lvm::ExtendArguments(spec));
  return Act("Extend", spec.group, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    LogicalVolume* lv = Find(next, spec.name);
    QUARRY_TRY(MayGrow(next));
    if (lv == nullptr) {
      return Error(Code::kNotFound,
                   fmt::format("Logical volume {} not found in volume group {}.", spec.name, spec.group));
    }
    QUARRY_ASSIGN(const std::vector<AllocatedLeg> legs,
                  Allocate(next, spec.step.pv_arguments,
                           {.legs = spec.geometry.legs(),
                            .per_leg = PerLeg(spec.geometry, spec.step.logical_extents),
                            .metadata = 0,
                            .policy = spec.step.alloc,
                            .tails = Tails(next, *lv, spec.geometry)}));
    Grow(next, *lv, spec.geometry, legs);
    const bool active = lv->active;
    QUARRY_TRY(Commit(group, std::move(next)));
    if (active) {
      TellActive(group.now, spec.name);
    }
    return Ok();
  });
}

Status FakeLvm::Remove(const std::string& group_name, const std::vector<std::string>& names, uint64_t seqno,
                       const Call& call) {
  QUARRY_TRY(lvm::RemoveArguments(group_name, names, seqno));
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
      return Error(Code::kPrecondition, fmt::format("Logical volume {}/{} not removed.", group_name, name));
    }
    // LVM does not ask before it removes volumes that are built on an inactive one.
    std::erase_if(next.lvs, [&](const LogicalVolume& other) {
      return other.name == name || IsOf(other, name) || other.origin == name || other.pool == name;
    });
    return Ok();
  };
  return Act("Remove", group_name, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    if (seqno != 0 && group.now.seqno != seqno) {
      return Ok();
    }
    VolumeGroup next = group.now;
    Status worst = Ok();
    for (const std::string& name : names) {
      Status one = remove(next, name);
      worst = one.has_value() ? std::move(worst) : std::move(one);
    }
    if (next.lvs.size() != group.now.lvs.size()) {
      QUARRY_TRY(Commit(group, std::move(next)));
    }
    return worst;
  });
}

Status FakeLvm::ChangeTags(const std::string& group_name, const std::string& name,
                           const std::vector<std::string>& add, const std::vector<std::string>& remove,
                           const Call& call) {
  QUARRY_TRY(lvm::TagArguments(group_name, name, add, remove));
  if (add.empty() && remove.empty()) {
    return Ok();
  }
  return Act("ChangeTags", group_name, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    LogicalVolume* lv = Find(next, name);
    if (lv == nullptr) {
      return NoSuchLv(next, name);
    }
    SetTags(*lv, add, remove);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Activate(const std::string& group_name, const std::vector<std::string>& names,
                         const Call& call) {
  QUARRY_TRY(lvm::ActivateArguments(group_name, names));
  const auto activate = [&](Group& group, const std::string& name) -> Status {
    QUARRY_TRY(MayChange(group.now));
    LogicalVolume* lv = Find(group.now, name);
    if (lv == nullptr) {
      return NoSuchLv(group.now, name);
    }
    const bool needs_every_pv = !lv->segment_type.starts_with("raid") || lv->segment_type == "raid0";
    if (lv->partial && needs_every_pv) {
      return Error(Code::kUnavailable,
                   fmt::format("a disk of the volume is missing: Refusing activation of partial LV {}/{}.",
                               group_name, name));
    }
    for (LogicalVolume& part : group.now.lvs) {
      part.active = part.active || part.name == name || IsOf(part, name);
    }
    lv->sync_action = lv->sync_percent.has_value() ? "idle" : "";
    TellActive(group.now, name);
    return Ok();
  };
  return Act("Activate", group_name, call, [&](Group& group) -> Status {
    Status worst = Ok();
    for (const std::string& name : names) {
      Status one = activate(group, name);
      worst = one.has_value() ? std::move(worst) : std::move(one);
    }
    return worst;
  });
}

Status FakeLvm::Deactivate(const std::string& group_name, const std::string& name, uint64_t seqno,
                           const Call& call) {
  QUARRY_TRY(lvm::DeactivateArguments(group_name, name, seqno));
  return Act("Deactivate", group_name, call, [&](Group& group) -> Status {
    LogicalVolume* lv = Find(group.now, name);
    if (lv == nullptr) {
      return NoSuchLv(group.now, name);
    }
    if (seqno != 0 && group.now.seqno != seqno) {
      return Ok();
    }
    if (lv->active) {
      QUARRY_TRY(MayDeactivate(group.now, *lv));
    }
    for (LogicalVolume& part : group.now.lvs) {
      part.active = part.active && part.name != name && !IsOf(part, name);
    }
    lv->sync_action.clear();
    return Ok();
  });
}

Status FakeLvm::Refresh(const std::string& group_name, const std::vector<std::string>& names,
                        const Call& call) {
  QUARRY_TRY(lvm::RefreshArguments(group_name, names));
  return Act("Refresh", group_name, call, [&](Group& group) -> Status {
    Status worst = Ok();
    for (const std::string& name : names) {
      const LogicalVolume* const lv = group.now.FindLv(name);
      if (lv == nullptr) {
        worst = NoSuchLv(group.now, name);
      } else if (lv->partial) {
        worst =
            Error(Code::kInternal, fmt::format("Refusing refresh of partial LV {}/{}.", group_name, name));
      } else if (lv->active && hooks_.renewed) {
        hooks_.renewed(group.now, *lv);
      }
    }
    return worst;
  });
}

Status FakeLvm::LimitRecovery(const std::string& group_name, const std::vector<std::string>& names,
                              Bytes rate, const Call& call) {
  QUARRY_TRY(lvm::LimitRecoveryArguments(group_name, names, rate));
  return Act("LimitRecovery", group_name, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    for (const std::string& name : names) {
      LogicalVolume* const lv = Find(next, name);
      if (lv == nullptr) {
        return NoSuchLv(next, name);
      }
      if (!lv->segment_type.starts_with("raid") || lv->partial) {
        return Error(Code::kInternal, fmt::format("{} has no legs to fill", name));
      }
      lv->segments.front().max_recovery_rate = rate;
    }
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Repair(const lvm::RepairLv& spec, const Call& call) {
  QUARRY_TRY(lvm::RepairArguments(spec));
  return Act("Repair", spec.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    const LogicalVolume* const lv = Find(next, spec.name);
    if (lv == nullptr) {
      return NoSuchLv(next, spec.name);
    }
    if (!lv->active) {
      return Error(Code::kInternal,
                   fmt::format("{}/{} must be active to perform this operation.", spec.group, spec.name));
    }
    const auto leave = std::ranges::find(next.pvs, spec.leave, &PhysicalVolume::device);
    if (!spec.leave.empty() && leave == next.pvs.end()) {
      return Error(Code::kUnavailable, fmt::format("Physical Volume {} is not in the group", spec.leave));
    }
    QUARRY_TRY(ReplaceLegs(next, *lv, spec.leave.empty() ? "" : leave->uuid, spec.pv_arguments));
    QUARRY_TRY(Commit(group, std::move(next)));
    if (hooks_.renewed) {
      hooks_.renewed(group.now, *group.now.FindLv(spec.name));
    }
    return Ok();
  });
}

Status FakeLvm::RestorePv(const std::string& group_name, const std::string& device, const Call& call) {
  QUARRY_TRY(lvm::RestorePvArguments(group_name, device));
  return Act("RestorePv", group_name, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    const auto pv = std::ranges::find(next.pvs, device, &PhysicalVolume::device);
    if (pv == next.pvs.end() || !pv->missing || !group.back.contains(pv->uuid)) {
      return Error(Code::kInternal,
                   fmt::format("WARNING: PV {} was not missing in VG {}", device, group_name));
    }
    pv->missing = false;
    group.back.erase(pv->uuid);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::DropMissingPvs(const std::string& group_name, const Call& call) {
  QUARRY_TRY(lvm::DropMissingPvsArguments(group_name));
  return Act("DropMissingPvs", group_name, call, [&](Group& group) -> Status {
    if (std::ranges::any_of(group.now.lvs, &LogicalVolume::partial)) {
      return Error(Code::kPrecondition, fmt::format("There are still partial LVs in VG {}.", group_name));
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

Status FakeLvm::ChangePv(const lvm::PvChange& spec, const Call& call) {
  QUARRY_TRY(lvm::ChangePvArguments(spec));
  return Act("ChangePv", spec.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    const auto pv = std::ranges::find(next.pvs, spec.device, &PhysicalVolume::device);
    if (pv == next.pvs.end() || pv->missing) {
      return Error(Code::kUnavailable, fmt::format("Failed to find physical volume \"{}\".", spec.device));
    }
    pv->allocatable = spec.allocatable;
    for (const std::string& tag : spec.remove_tags) {
      std::erase(pv->tags, tag);
    }
    for (const std::string& tag : spec.add_tags) {
      if (std::ranges::find(pv->tags, tag) == pv->tags.end()) {
        pv->tags.push_back(tag);
      }
    }
    std::ranges::sort(pv->tags);
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::Move(const lvm::MoveExtents& spec, const Call& call) {
  QUARRY_TRY(lvm::MoveArguments(spec));
  return Act("Move", spec.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    if (EndMoveOff(next, spec.from.substr(0, spec.from.find(':')), true)) {
      return Commit(group, std::move(next));
    }
    QUARRY_ASSIGN(const auto from, ReadPvArgument(next, spec.from));
    QUARRY_ASSIGN(const auto to, ReadPvArgument(next, spec.to));
    if (from.size() != to.size()) {
      return Error(Code::kInternal, "here each range goes to one of the same length");
    }
    for (size_t i = 0; i < from.size(); ++i) {
      QUARRY_TRY(MoveExtentsOf(next, spec.name, from[i], to[i]));
    }
    return Commit(group, std::move(next));
  });
}

Status FakeLvm::AbandonMove(const std::string& group_name, const std::string& device, const Call& call) {
  QUARRY_TRY(lvm::AbandonMoveArguments(group_name, device));
  return Act("AbandonMove", group_name, call, [&](Group& group) -> Status {
    VolumeGroup next = group.now;
    return EndMoveOff(next, device, false) ? Commit(group, std::move(next)) : Ok();
  });
}

Status FakeLvm::RemovePv(const std::string& group_name, const std::string& device, const Call& call) {
  QUARRY_TRY(lvm::ReducePvArguments(group_name, device));
  return Act("RemovePv", group_name, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    VolumeGroup next = group.now;
    const auto pv = std::ranges::find(next.pvs, device, &PhysicalVolume::device);
    if (pv == next.pvs.end()) {
      return Error(Code::kUnavailable, fmt::format("Physical Volume \"{}\" not found in Volume Group \"{}\".",
                                                   device, group_name));
    }
    if (next.pvs.size() == 1) {
      return Error(Code::kPrecondition, fmt::format("Can't remove final physical volume \"{}\" from volume "
                                                    "group \"{}\"",
                                                    device, group_name));
    }
    if (pv->free != std::vector<lvm::ExtentRange>{{{0}, pv->extent_count}}) {
      return Error(Code::kPrecondition, fmt::format("Physical volume \"{}\" still in use", device));
    }
    next.pvs.erase(pv);
    return Commit(group, std::move(next));
  });
}

Result<std::string> FakeLvm::Version(const Call& call) {
  QUARRY_TRY(call.Check("Version"));
  QUARRY_TRY(before.Check("Version"));
  return std::string("2.03.16");
}

Status FakeLvm::Add(const lvm::AddPv& spec, const Call& call) {
  QUARRY_TRY(lvm::AddArguments(spec));
  return Act("AddPv", spec.group, call, [&](Group& group) -> Status {
    QUARRY_TRY(MayChange(group.now));
    const auto blank = blank_.find(spec.device);
    if (blank == blank_.end()) {
      return Error(Code::kPrecondition, fmt::format("Cannot use {}: device is in use", spec.device));
    }
    VolumeGroup next = group.now;
    PhysicalVolume pv;
    pv.uuid = NewUuid();
    pv.device = spec.device;
    pv.pe_start = kMiB;
    pv.extent_count = blank->second;
    next.pvs.push_back(std::move(pv));
    QUARRY_TRY(Commit(group, std::move(next)));
    blank_.erase(spec.device);
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

void Follow(FakeLvm& lvm, FakeDm& dm) {
  lvm.SetHooks({.active =
                    [&dm](const VolumeGroup& group, const LogicalVolume& lv) {
                      const std::string uuid = lvm::DmUuid(group.uuid, lv.uuid);
                      dm.AddDevice(uuid, lvm::DmName(group.name, lv.name), lv.size);
                      for (const PhysicalVolume& pv : group.pvs) {
                        dm.SetMappings(uuid, pv.device, MappedOn(group, lv, pv));
                      }
                    },
                .deactivate =
                    [&dm](const VolumeGroup& group, const LogicalVolume& lv) {
                      return dm.RemoveDevice(lvm::DmUuid(group.uuid, lv.uuid));
                    },
                .renewed = [&dm](const VolumeGroup& group,
                                 const LogicalVolume& lv) { dm.Renew(lvm::DmUuid(group.uuid, lv.uuid)); }});
}

}  // namespace quarry::fakes
