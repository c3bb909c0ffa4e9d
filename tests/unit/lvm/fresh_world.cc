#include "tests/unit/lvm/fresh_world.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace quarry::lvm {

namespace {

std::string TextOf(const VolumeGroup& group, const std::string& more) {
  std::string out = fmt::format(
      "{} {{ id = \"{}\" seqno = {} format = \"lvm2\" status = [\"RESIZEABLE\", \"READ\", \"WRITE\"] flags = "
      "[] "
      "extent_size = 8192 max_lv = 0 {} physical_volumes {{\n",
      group.name, group.uuid, group.seqno, more);
  for (size_t i = 0; i < group.pvs.size(); ++i) {
    out += fmt::format(
        "pv{} {{ id = \"{}\" status = [\"ALLOCATABLE\"] flags = [] pe_start = 2048 pe_count = 10 }}\n", i,
        group.pvs[i].uuid);
  }
  return out + "} }\ncontents = \"Text Format Volume Group\" version = 1\n";
}

}  // namespace

FreshWorld::FreshWorld(int disks) {
  next_.name = "vg0";
  next_.uuid = "vg-uuid";
  for (int i = 0; i < disks; ++i) {
    Disk disk;
    disk.uuid = fmt::format("pv{}", i);
    disk.state.kind = PvState::Kind::kPv;
    disk.state.uuid = disk.uuid;
    disk.state.areas.emplace_back().area = {4096, 1 << 20};
    disks_.push_back(std::move(disk));
    PhysicalVolume pv;
    pv.uuid = fmt::format("pv{}", i);
    next_.pvs.push_back(std::move(pv));
  }
  Commit();
}

void FreshWorld::WriteTo(Disk& disk) {
  if (disk.state.kind == PvState::Kind::kPv && !disk.state.areas.empty() && !disk.state.areas[0].ignored) {
    disk.state.areas[0].committed = RawLocation{512 * next_.seqno, 100, static_cast<uint32_t>(next_.seqno)};
  }
}

void FreshWorld::Commit(const std::function<void()>& between) {
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (i > 0 && between) {
      between();
    }
    if (i == 0) {
      CommitOn(0);
    } else {
      const std::lock_guard lock(mutex_);
      WriteTo(disks_[i]);
    }
  }
}

void FreshWorld::CommitOn(size_t disk) {
  const std::lock_guard lock(mutex_);
  ++next_.seqno;
  committed_[static_cast<uint32_t>(next_.seqno)] = next_;
  committed_texts_[static_cast<uint32_t>(next_.seqno)] = TextOf(next_, more_text);
  WriteTo(disks_[disk]);
}

void FreshWorld::Edit(const std::function<void(VolumeGroup&)>& edit) {
  const std::lock_guard lock(mutex_);
  edit(next_);
}

void FreshWorld::SetDisk(size_t disk, const std::function<void(PvState&)>& edit) {
  const std::lock_guard lock(mutex_);
  edit(disks_[disk].state);
}

void FreshWorld::Unlink(size_t disk) {
  const std::lock_guard lock(mutex_);
  disks_[disk].linked = false;
}

int FreshWorld::reports() const {
  const std::lock_guard lock(mutex_);
  return reports_;
}

int FreshWorld::updates() const {
  const std::lock_guard lock(mutex_);
  return updates_;
}

uint64_t FreshWorld::newest() const {
  const std::lock_guard lock(mutex_);
  return next_.seqno;
}

// Reads disk by disk: a commit may fall in between.
Result<std::vector<PvState>> FreshWorld::Read(std::span<const std::string> paths, const Call& call) {
  QUARRY_TRY(call.Check("headers"));
  std::vector<PvState> states;
  for (const std::string& path : paths) {
    const std::lock_guard lock(mutex_);
    states.emplace_back();
    for (size_t i = 0; i < disks_.size(); ++i) {
      if (path == fmt::format("/dev/{}", i) && disks_[i].linked) {
        states.back() = disks_[i].state;
      }
    }
  }
  return states;
}

// The text of a location exists until the second commit after it.
Result<std::string> FreshWorld::ReadText(const std::string&, DiskArea, const RawLocation& location,
                                         const Call&) {
  Result<std::string> text = Error(Code::kUnsupported, "texts are not for us");
  if (texts) {
    const std::lock_guard lock(mutex_);
    text = committed_texts_.at(location.checksum);
  }
  if (after_text) {
    after_text();
  }
  return text;
}

std::string FreshWorld::PathOf(const std::string& pv_uuid) const {
  return "/dev/" + pv_uuid.substr(2);
}

Result<bool> FreshWorld::Update(const Call&) {
  const std::lock_guard lock(mutex_);
  ++updates_;
  bool changed = false;
  for (Disk& disk : disks_) {
    changed = !std::exchange(disk.linked, true) || changed;
  }
  return changed;
}

void FreshWorld::Announce() {
  const std::lock_guard lock(mutex_);
  news_ = true;
}

Result<bool> FreshWorld::UpdateIfNews(const Call& call) {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(news_, false)) {
      return false;
    }
  }
  return Update(call);
}

Result<Snapshot> FreshWorld::Read(const std::string& group, const Call& call) {
  if (before_reading) {
    before_reading();
  }
  auto snapshot = Report(group);
  if (after_reading) {
    after_reading();
  }
  QUARRY_TRY(call.Check("report"));
  return snapshot;
}

Result<Snapshot> FreshWorld::Report(const std::string& group) {
  const std::lock_guard lock(mutex_);
  ++reports_;
  QUARRY_TRY(report_failure);
  uint32_t newest = 0;
  std::map<std::string, std::string> devices;
  for (size_t i = 0; i < disks_.size(); ++i) {
    const Disk& disk = disks_[i];
    if (!disk.linked || disk.state.kind != PvState::Kind::kPv) {
      continue;
    }
    devices[disk.state.uuid] = fmt::format("/dev/{}", i);
    for (const AreaState& area : disk.state.areas) {
      newest = std::max(newest, area.committed.has_value() ? area.committed->checksum : 0);
    }
  }
  const auto found = committed_.find(newest);
  if (found == committed_.end() || found->second.name != group) {
    return Error(Code::kNotFound, "no such group");
  }
  VolumeGroup answer = found->second;
  for (PhysicalVolume& pv : answer.pvs) {
    pv.device = devices.contains(pv.uuid) ? devices[pv.uuid] : "";
    pv.missing = pv.device.empty();
  }
  if (!texts && answer.lvs.empty()) {  // the texts of this world name no LVs
    answer.lvs.emplace_back().active = active_;
  }
  return std::make_shared<const VolumeGroup>(std::move(answer));
}

// Replaces the existing group.
Status FreshWorld::Apply(const Change& change, const Call&) {
  if (std::holds_alternative<RefreshLvs>(change)) {
    return Ok();
  }
  const bool activates = std::holds_alternative<ActivateLvs>(change);
  if (activates || std::holds_alternative<DeactivateLv>(change)) {
    const std::lock_guard lock(mutex_);
    active_ = activates;
    return Ok();
  }
  if (const auto* made = std::get_if<CreateGroup>(&change); made != nullptr) {
    Edit([&](VolumeGroup& group) {
      group.name = made->group;
      group.uuid = "made-uuid";
    });
  }
  if (const auto* add = std::get_if<AddPv>(&change); add != nullptr) {
    added.push_back(add->device);
  }
  Commit();
  return Ok();
}

Result<std::string> FreshWorld::Show(const std::string& device) {
  shown.push_back(device);
  return "/shown" + device;
}

void FreshWorld::Hide(const std::string& device) {
  std::erase(shown, device);
}

}  // namespace quarry::lvm
