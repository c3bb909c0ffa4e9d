// FakeMount's part for the content of a file system: checks, ownership.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tests/fakes/fake_mount.h"

namespace quarry::fakes {

using mount::MountEntry;
using mount::MountTable;
using mount::PathKind;

void FakeMount::SetDamage(const std::string& dm_uuid, Damage damage) {
  const std::lock_guard lock(mutex_);
  volumes_[dm_uuid].damage = damage;
}

FakeMount::Damage FakeMount::DamageOf(const std::string& dm_uuid) const {
  const std::lock_guard lock(mutex_);
  const auto it = volumes_.find(dm_uuid);
  return it == volumes_.end() ? Damage::kNone : it->second.damage;
}

Result<mount::CheckReport> FakeMount::Check(std::string_view fs_type, const std::string& device,
                                            const Call& call) {
  QUARRY_TRY(faults.Check("Check"));
  TellCall("Check", call);
  QUARRY_TRY(call.Check("checking"));
  if (fs_type != "ext4") {
    return mount::CheckReport{};
  }
  const auto state = dm_.DeviceOfNode(device);
  if (!state) {
    return Error(Code::kNotFound, fmt::format("no device {}", device));
  }
  const std::lock_guard lock(mutex_);
  if (IsHeldLocked(state->uuid)) {
    return Error(Code::kPrecondition, fmt::format("{} is in use", device));
  }
  Volume& volume = VolumeLocked(state->uuid);
  if (volume.damage == Damage::kUnfixable || volume.content.type != fs_type) {
    return Error(Code::kCorrupt, fmt::format("e2fsck: {}: UNEXPECTED INCONSISTENCY", device));
  }
  const bool repaired = std::exchange(volume.damage, Damage::kNone) == Damage::kFixable;
  journal_.push_back(fmt::format("fsck.{} {}", fs_type, device));
  return mount::CheckReport{
      .checked = true, .repaired = repaired, .words = repaired ? "it was repaired" : ""};
}

void FakeMount::SetUnclean(const std::string& dm_uuid, bool unclean) {
  const std::lock_guard lock(mutex_);
  VolumeLocked(dm_uuid).unclean = unclean;
}

Status FakeMount::CheckCopyable(std::string_view fs_type, int fd) {
  QUARRY_TRY(faults.Check("CheckCopyable"));
  const auto uuid = dm_.UuidOfFd(fd);
  if (!uuid) {
    return Error(Code::kIo, "not a device");
  }
  const std::lock_guard lock(mutex_);
  return fs_type == "btrfs" && VolumeLocked(*uuid).unclean
             ? Error(Code::kPrecondition, "the btrfs was not unmounted cleanly")
             : Ok();
}

Result<std::optional<std::string>> FakeMount::ChangeUuid(std::string_view fs_type, const std::string& device,
                                                         const Call& call) {
  QUARRY_TRY(faults.Check("ChangeUuid"));
  QUARRY_TRY(call.Check("changing a UUID"));
  const auto state = dm_.DeviceOfNode(device);
  if (!state) {
    return Error(Code::kNotFound, fmt::format("no device {}", device));
  }
  {
    // The tools of file systems claim the device.
    QUARRY_ASSIGN(const UniqueFd claim, dm_.Open(state->uuid, O_RDONLY | O_EXCL));
    QUARRY_TRY(CheckCopyable(fs_type, claim.get()));
  }
  const std::lock_guard lock(mutex_);
  Volume& volume = VolumeLocked(state->uuid);
  if (volume.content.kind != mount::Content::Kind::kFilesystem || volume.content.type != fs_type) {
    return Error(Code::kCorrupt, fmt::format("{} does not hold {}", device, fs_type));
  }
  if (volume.unclean && fs_type == "xfs") {
    return std::nullopt;
  }
  volume.unclean = false;
  volume.content.uuid = fmt::format("00000000-0000-4000-9000-{:012}", ++made_count_);
  MarkLocked(state->uuid);
  journal_.push_back(fmt::format("uuid {}", device));
  return volume.content.uuid;
}

FakeMount::Access* FakeMount::AccessLocked(const std::string& path) {
  const MountTable table = TableLocked();
  const Entry* top = table.At(*AbsolutePath::Parse(path));
  if (const auto hold = holds_.find(top == nullptr ? 0 : top->id); hold != holds_.end()) {
    return &volumes_[hold->second].root;
  }
  const auto it = paths_.find(path);
  return it == paths_.end() ? nullptr : &it->second.access;
}

FakeMount::Access FakeMount::AccessOf(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const Access* access = const_cast<FakeMount*>(this)->AccessLocked(path);
  return access == nullptr ? Access{} : *access;
}

void FakeMount::SetAccess(const std::string& path, Access access) {
  const std::lock_guard lock(mutex_);
  *AccessLocked(path) = access;
}

Result<uint32_t> FakeMount::GroupOf(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("GroupOf"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  const Access* access = AccessLocked(path.str());
  return access == nullptr ? Result<uint32_t>(Error(Code::kNotFound, path.str() + " does not exist"))
                           : access->gid;
}

Status FakeMount::GiveToGroup(const AbsolutePath& asked, uint32_t gid, const Call& call) {
  QUARRY_TRY(faults.Check("GiveToGroup"));
  TellCall("GiveToGroup", call);
  QUARRY_TRY(call.Check("giving to a group"));
  constexpr uint32_t kDirectory = 02070;
  constexpr uint32_t kFile = 0060;
  const std::lock_guard lock(mutex_);
  const AbsolutePath mount_point = LedLocked(asked);
  const MountTable table = TableLocked();
  const Entry* there = table.At(mount_point);
  if (there == nullptr || there->read_only()) {
    return Error(Code::kPrecondition, fmt::format("{} is {}", mount_point.str(),
                                                  there == nullptr ? "not a mount point" : "read-only"));
  }
  Access& root = *AccessLocked(mount_point.str());
  if (root.gid == gid && (root.mode & kDirectory) == kDirectory) {
    return Ok();
  }
  for (auto& [path, what] : paths_) {
    if (path == mount_point.str() || !path.starts_with(mount_point.str() + "/")) {
      continue;
    }
    if (table.At(*AbsolutePath::Parse(path)) != nullptr) {
      return Error(Code::kPrecondition, fmt::format("something is mounted on {}", path));
    }
    what.access.gid = gid;
    what.access.mode |= what.kind == PathKind::kDirectory ? kDirectory
                        : what.kind == PathKind::kFile    ? kFile
                                                          : 0;
  }
  QUARRY_TRY(faults.Check("GiveToGroupInterrupted"));
  root = {gid, root.mode | kDirectory};
  journal_.push_back(fmt::format("group {} {}", mount_point.str(), gid));
  return Ok();
}

Status FakeMount::SyncFs(const AbsolutePath& asked, const Call& call) {
  QUARRY_TRY(faults.Check("SyncFs"));
  QUARRY_TRY(call.Check("writing back"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath mount_point = LedLocked(asked);
  if (TableLocked().At(mount_point) == nullptr) {
    return Error(Code::kPrecondition, fmt::format("{} is not a mount point", mount_point.str()));
  }
  journal_.push_back(fmt::format("sync {}", mount_point.str()));
  return Ok();
}

Result<Bytes> FakeMount::Trim(const AbsolutePath& asked, Bytes from, Bytes length, const Call& call) {
  QUARRY_TRY(faults.Check("Trim"));
  QUARRY_TRY(call.Check("trimming"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath mount_point = LedLocked(asked);
  const MountTable table = TableLocked();
  const Entry* there = table.At(mount_point);
  const auto hold = there == nullptr ? holds_.end() : holds_.find(there->id);
  if (hold == holds_.end()) {
    return Error(Code::kPrecondition, fmt::format("{} is not a mount point", mount_point.str()));
  }
  const Bytes size = volumes_[hold->second].filesystem_size;
  const Bytes trimmed = from < size ? std::min(length, size - from) : Bytes{};
  journal_.push_back(fmt::format("trim {} {} {}", mount_point.str(), from.value, trimmed.value));
  return trimmed;
}

void FakeMount::GoReadOnly(const AbsolutePath& target) {
  const std::lock_guard lock(mutex_);
  const mount::MountTable table = TableLocked();
  const mount::DeviceNumber device = table.At(target)->backing;
  for (Entry& entry : mounts_) {
    if (entry.backing == device) {
      std::erase(entry.super_options, "rw");
      entry.super_options.emplace_back("ro");
    }
  }
}

}  // namespace quarry::fakes
