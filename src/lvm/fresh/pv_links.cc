#include "lvm/fresh/pv_links.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "lvm/read/device_scan.h"

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;

// A text may be overwritten while it is read. Reading all texts takes far less time than usually passes
// between two commits, so a few attempts suffice.
constexpr int kAttempts = 5;

bool IsUnclear(const PvState& state) {
  return state.kind == PvState::Kind::kSilent || state.kind == PvState::Kind::kUnreadable;
}

}  // namespace

Result<std::unique_ptr<PvLinks>> PvLinks::Make(HeaderReader& reader, PvLinksOptions options) {
  if (mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(fmt::format("making {}", options.folder));
  }
  return std::unique_ptr<PvLinks>(new PvLinks(reader, std::move(options)));
}

PvLinks::PvLinks(HeaderReader& reader, PvLinksOptions options)
    : reader_(reader), options_(std::move(options)) {
  if (auto events = DeviceEvents::Open(); events.has_value()) {
    events_ = std::move(*events);
  }
}

Result<bool> PvLinks::Update(const Call& call) {
  const MutexLock lock(mutex_);
  return Look(call);
}

Result<bool> PvLinks::UpdateIfNews(const Call& call) {
  const MutexLock lock(mutex_);
  const bool news = !events_.has_value() || events_->Any([this](std::string_view device) {
    return !Attribute(fs::path(options_.sysfs) / device, "dm/uuid").starts_with("LVM-");
  });
  return news || look_again_ ? Look(call) : Result<bool>(false);
}

std::string PvLinks::UuidOf(const std::string& group) {
  const MutexLock lock(mutex_);
  const auto found = uuids_.find(group);
  return found == uuids_.end() ? "" : found->second;
}

Result<std::string> PvLinks::Show(const std::string& device) {
  const MutexLock lock(mutex_);
  const std::string name = "new-" + fs::path(device).filename().string();
  if (!shown_.emplace(name, device).second) {
    return Error(Code::kAlreadyExists, fmt::format("{} is shown to LVM already", device));
  }
  auto links = Present();
  Status replaced = links.has_value() ? Ok() : Status(links.error());
  if (replaced.has_value()) {
    links->insert_or_assign(name, device);
    replaced = Replace(*links).Context(fmt::format("replacing the links in {}", options_.folder));
  }
  if (!replaced.has_value()) {
    shown_.erase(name);
    return std::move(replaced.error());
  }
  return PathOf(name);
}

void PvLinks::Hide(const std::string& device) {
  const MutexLock lock(mutex_);
  std::erase_if(shown_, [&](const auto& link) { return link.second == device; });
}

Result<bool> PvLinks::Look(const Call& call) {
  look_again_ = true;
  std::vector<Disk> disks;
  std::vector<GroupMembers> groups;
  bool settled = false;
  for (int attempt = 0; attempt < kAttempts && !settled; ++attempt) {
    QUARRY_ASSIGN(disks, ReadDisks(call));
    groups.clear();
    QUARRY_ASSIGN(settled, ReadGroups(disks, groups, call));
  }
  // With incomplete knowledge, no link may be removed.
  if (!settled) {
    return Error(Code::kUnavailable, "looking for PVs: metadata is being changed faster than it can be read");
  }
  const std::set<std::string> members = Members(groups);
  QUARRY_ASSIGN(const Links present, Present());
  Links wanted = Wanted(disks, members, present);
  wanted.insert(shown_.begin(), shown_.end());
  if (wanted != present) {
    QUARRY_TRY(Replace(wanted).Context(fmt::format("replacing the links in {}", options_.folder)));
  }
  look_again_ = std::ranges::any_of(disks, IsUnclear, &Disk::state);
  return wanted != present;
}

Result<std::vector<PvLinks::Disk>> PvLinks::ReadDisks(const Call& call) {
  std::vector<Disk> disks;
  std::vector<Disk> suspended;  // cannot be read now
  std::vector<std::string> paths;
  std::error_code error;
  fs::directory_iterator entry(options_.sysfs, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path& device = entry->path();
    if (!MayHoldPv(device)) {
      continue;
    }
    Disk disk{.name = device.filename(), .path = NodeOf(device, options_.dev), .state = {}};
    if (Attribute(device, "dm/suspended") == "1") {
      disk.state.kind =
          PvState::Kind::kSilent;  // temporary: a multipath or dm-crypt device whose table is being changed
      suspended.push_back(std::move(disk));
      continue;
    }
    paths.push_back(disk.path);
    disks.push_back(std::move(disk));
  }
  if (error) {
    return ErrnoError(fmt::format("listing {}", options_.sysfs), error.value()).As(Code::kUnavailable);
  }
  QUARRY_ASSIGN(auto states, reader_.Read(paths, call));
  for (size_t i = 0; i < disks.size(); ++i) {
    disks[i].state = std::move(states[i]);
  }
  std::ranges::move(suspended, std::back_inserter(disks));
  return disks;
}

// Only one copy of each text is read. If a copy is damaged, the group's other copies are used. False: a text
// was overwritten before it was read.
Result<bool> PvLinks::ReadGroups(const std::vector<Disk>& disks, std::vector<GroupMembers>& groups,
                                 const Call& call) {
  std::set<std::pair<uint32_t, uint64_t>> known;
  for (const Disk& disk : disks) {
    for (const AreaState& area : disk.state.areas) {
      if (!area.HoldsText() || known.contains({area.committed->checksum, area.committed->size})) {
        continue;
      }
      const auto text = reader_.ReadText(disk.path, area.area, *area.committed, call);
      auto group = text.has_value() ? ParseGroupMembers(*text) : Result<GroupMembers>(text.error());
      if (group.has_value()) {
        known.emplace(area.committed->checksum, area.committed->size);
        groups.push_back(std::move(*group));
        continue;
      }
      QUARRY_TRY(call.Check("looking for PVs"));
      QUARRY_ASSIGN(const auto now, reader_.Read(std::span(&disk.path, 1), call));
      if (now[0].kind == PvState::Kind::kPv && now[0] != disk.state) {
        return false;
      }
    }
  }
  return true;
}

// UUIDs of the PVs of Quarry's groups, according to the newest text of each group.
std::set<std::string> PvLinks::Members(const std::vector<GroupMembers>& groups) {
  std::map<std::string, const GroupMembers*> newest;  // by the group's UUID
  for (const GroupMembers& group : groups) {
    const GroupMembers*& best = newest[group.uuid];
    best = best == nullptr || best->seqno < group.seqno ? &group : best;
  }
  std::map<std::string, std::vector<const GroupMembers*>> by_name;
  for (const auto& [uuid, group] : newest) {
    // An outdated disk may have an old name of the group.
    if (std::ranges::find(options_.groups, group->name) != options_.groups.end()) {
      by_name[group->name].push_back(group);
    }
  }
  std::set<std::string> members;
  for (const auto& [name, same] : by_name) {
    std::string& ours = uuids_[name];
    const bool there = std::ranges::find(same, ours, &GroupMembers::uuid) != same.end();
    if (!there) {
      ours = same.size() == 1 ? same[0]->uuid : "";
    }
    for (const GroupMembers* group : same) {
      if (!there || group->uuid == ours) {
        members.insert(group->pv_uuids.begin(), group->pv_uuids.end());
      }
    }
  }
  return members;
}

Result<PvLinks::Links> PvLinks::Present() const {
  Links links;
  std::error_code error;
  fs::directory_iterator entry(options_.folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code no_link;
    links[entry->path().filename()] = fs::read_symlink(entry->path(), no_link);
  }
  if (error) {
    return ErrnoError(fmt::format("listing {}", options_.folder), error.value());
  }
  return links;
}

PvLinks::Links PvLinks::Wanted(const std::vector<Disk>& disks, const std::set<std::string>& members,
                               const Links& present) const {
  std::map<std::string, std::vector<const Disk*>> by_uuid;
  std::set<std::string> unclear;  // names of disks that keep their links
  Links wanted;
  for (const Disk& disk : disks) {
    if (disk.state.kind == PvState::Kind::kPv && members.contains(disk.state.uuid)) {
      by_uuid[disk.state.uuid].push_back(&disk);
    }
    for (const auto& [name, target] : present) {
      if (IsUnclear(disk.state) && target == disk.path) {
        wanted[name] = target;
        unclear.insert(disk.name);
      }
    }
  }
  for (auto& [uuid, same] : by_uuid) {
    // A disk that is part of an unreadable md or multipath device is not a second copy of its PV.
    std::set<std::string> names = unclear;
    for (const Disk* disk : same) {
      names.insert(disk->name);
    }
    // md arrays and multipath devices are holders of the disks that they are made of.
    std::erase_if(same, [&](const Disk* disk) {
      const fs::path holders = fs::path(options_.sysfs) / disk->name / "holders";
      return std::ranges::any_of(names, [&](const std::string& name) {
        std::error_code error;
        return fs::exists(fs::symlink_status(holders / name, error));
      });
    });
    // The disk that has the link keeps it.
    const auto current = present.find(uuid);
    std::stable_partition(same.begin(), same.end(), [&](const Disk* disk) {
      return current != present.end() && current->second == disk->path;
    });
    for (size_t i = 0; i < same.size(); ++i) {
      wanted[i == 0 ? uuid : fmt::format("{}.{}", uuid, same[i]->name)] = same[i]->path;
    }
  }
  return wanted;
}

Status PvLinks::Replace(const Links& links) const {
  const std::string fresh = options_.folder + ".new";
  std::error_code error;
  fs::remove_all(fresh, error);
  if (mkdir(fresh.c_str(), 0700) != 0) {
    return ErrnoError(fmt::format("making {}", fresh));
  }
  for (const auto& [name, target] : links) {
    const std::string link = fresh + "/" + name;
    if (symlink(target.c_str(), link.c_str()) != 0) {
      return ErrnoError(fmt::format("linking {} to {}", link, target));
    }
  }
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, options_.folder.c_str(), RENAME_EXCHANGE) != 0) {
    return ErrnoError("renameat2");
  }
  fs::remove_all(fresh, error);
  return Ok();
}

}  // namespace quarry::lvm
