#include "tests/fakes/fake_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/fakes/mount_words.h"

namespace quarry::fakes {

using mount::Content;
using mount::DeviceNumber;
using mount::MountEntry;
using mount::MountOptions;
using mount::MountTable;
using mount::PathKind;

namespace {

constexpr DeviceNumber kRootDevice{8, 1};
constexpr DeviceNumber kDevtmpfs{0, 5};
constexpr std::string_view kDev = "/dev";
// Where Make leaves its mark on a device: the UUID of the device, padded with zeroes.
constexpr off_t kMarkOffset = 1024;
constexpr size_t kMarkSize = 128;

bool IsBelow(const std::string& path, const std::string& top) {
  return top == "/" || path == top || (path.starts_with(top) && path[top.size()] == '/');
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string FlagText(const MountOptions& options) {
  std::string text;
  for (const std::string& word : PerMountWords(options.flags)) {
    if (word != "rw" && word != "relatime") {
      text += " " + word;
    }
  }
  return text;
}

}  // namespace

FakeMount::FakeMount(FakeDm& dm) : dm_(dm) {
  paths_["/"] = {};
  paths_["/dev"] = {};
  Reboot();
}

void FakeMount::Reboot() {
  const std::lock_guard lock(mutex_);
  mounts_.clear();
  holds_.clear();
  nodes_.clear();
  Entry root;
  root.device = root.backing = kRootDevice;
  root.root = root.target = "/";
  root.fs_type = "ext4";
  root.source = "/dev/sda1";
  root.options = root.super_options = {"rw"};
  AddMountLocked(root);
  Entry dev = root;
  dev.device = kDevtmpfs;
  dev.backing = {};
  dev.target = kDev;
  dev.fs_type = dev.source = "devtmpfs";
  dev.options = {"rw", "nosuid"};
  AddMountLocked(dev);
}

void FakeMount::SetContent(const std::string& dm_uuid, Content content) {
  const std::lock_guard lock(mutex_);
  volumes_[dm_uuid] = {.content = std::move(content)};
}

Content FakeMount::ContentOf(const std::string& dm_uuid) const {
  const std::lock_guard lock(mutex_);
  return const_cast<FakeMount*>(this)->VolumeLocked(dm_uuid).content;
}

FakeMount::Volume& FakeMount::VolumeLocked(const std::string& uuid) {
  Volume& volume = volumes_[uuid];
  if (volume.content.kind != Content::Kind::kBlank) {
    return volume;
  }
  std::array<char, kMarkSize> mark{};
  const auto fd = dm_.OpenAlways(uuid, O_RDONLY);
  if (fd.has_value() && pread(fd->get(), mark.data(), mark.size(), kMarkOffset) == ssize_t{kMarkSize}) {
    const auto source = volumes_.find(std::string(mark.data(), strnlen(mark.data(), mark.size())));
    if (source != volumes_.end()) {
      volume = Volume(source->second);
    }
  }
  return volume;
}

void FakeMount::MarkLocked(const std::string& uuid) {
  std::array<char, kMarkSize> mark{};
  uuid.copy(mark.data(), mark.size() - 1);
  if (const auto fd = dm_.OpenAlways(uuid, O_RDWR); fd.has_value()) {
    (void)pwrite(fd->get(), mark.data(), mark.size(), kMarkOffset);
  }
}

Bytes FakeMount::FilesystemSize(const std::string& dm_uuid) const {
  const std::lock_guard lock(mutex_);
  const auto it = volumes_.find(dm_uuid);
  return it == volumes_.end() ? Bytes{} : it->second.filesystem_size;
}

void FakeMount::SetFilesystemSize(const std::string& dm_uuid, Bytes size) {
  const std::lock_guard lock(mutex_);
  volumes_[dm_uuid].filesystem_size = size;
}

void FakeMount::AddDirectory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (std::string at = path; at != "/"; at = ParentOf(at)) {
    paths_[at] = {};
  }
}

void FakeMount::AddFile(const std::string& path, bool empty) {
  AddDirectory(ParentOf(path));
  const std::lock_guard lock(mutex_);
  paths_[path] = {PathKind::kFile, empty};
}

void FakeMount::AddOther(const std::string& path) {
  AddDirectory(ParentOf(path));
  const std::lock_guard lock(mutex_);
  paths_[path] = {PathKind::kOther, true};
}

void FakeMount::AddLink(const std::string& path, const std::string& to) {
  AddDirectory(ParentOf(path));
  const std::lock_guard lock(mutex_);
  paths_[path] = {.kind = PathKind::kOther, .link = to};
}

void FakeMount::RemoveLink(const std::string& path) {
  const std::lock_guard lock(mutex_);
  paths_.erase(path);
}

bool FakeMount::Exists(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return paths_.contains(path);
}

void FakeMount::AddForeignMount(const std::string& target, const std::string& fs_type,
                                const std::string& source, DeviceNumber device) {
  const std::lock_guard lock(mutex_);
  Entry entry;
  entry.device = device;
  entry.backing = device.major != 0 ? device : DeviceNumber{};
  entry.root = "/";
  entry.target = target;
  entry.fs_type = fs_type;
  entry.source = source;
  entry.options = entry.super_options = {"rw"};
  AddMountLocked(std::move(entry));
}

void FakeMount::AddNodeMount(const std::string& target, const std::string& root, DeviceNumber device) {
  AddFile(target);
  const std::lock_guard lock(mutex_);
  Entry entry = MountOfLocked("/");
  entry.root = root;
  entry.target = target;
  AddMountLocked(std::move(entry));
  nodes_[mounts_.back().id] = device;
}

void FakeMount::SetBusy(const std::string& target, const std::string& holder) {
  const std::lock_guard lock(mutex_);
  if (holder.empty()) {
    busy_.erase(target);
  } else {
    busy_[target] = holder;
  }
}

void FakeMount::SetUsers(DeviceNumber device, std::vector<std::string> users) {
  const std::lock_guard lock(mutex_);
  users_[device] = std::move(users);
}

void FakeMount::SetOpeners(DeviceNumber device, std::vector<std::string> openers) {
  const std::lock_guard lock(mutex_);
  openers_[device] = std::move(openers);
}

std::vector<std::string> FakeMount::Journal() const {
  const std::lock_guard lock(mutex_);
  return journal_;
}

std::vector<mount::MakeFilesystem> FakeMount::Made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

void FakeMount::SetOnCall(OnCall on_call) {
  const std::lock_guard lock(mutex_);
  on_call_ = std::move(on_call);
}

void FakeMount::TellCall(const std::string& method, const Call& call) {
  OnCall told;
  {
    const std::lock_guard lock(mutex_);
    told = on_call_;
  }
  if (told) {
    told(method, call);
  }
}

MountEntry FakeMount::MountOfLocked(const std::string& path) const {
  const MountTable table = TableLocked();
  for (std::string at = path;; at = ParentOf(at)) {
    if (const Entry* entry = table.At(*AbsolutePath::Parse(at))) {
      return *entry;
    }
  }
}

void FakeMount::AddMountLocked(Entry entry) {
  entry.id = next_id_++;
  entry.parent_id = mounts_.empty() ? 0 : MountOfLocked(entry.target).id;
  mounts_.push_back(std::move(entry));
}

// `directory` with all links resolved. kNotFound; kPrecondition names a link that leads nowhere or in a
// circle.
Result<std::string> FakeMount::FollowLocked(const std::string& directory, int links) const {
  constexpr int kMostLinks = 40;
  if (directory == "/") {
    return directory;
  }
  QUARRY_ASSIGN(const std::string above, FollowLocked(ParentOf(directory), links));
  const std::string path = (above == "/" ? "" : above) + directory.substr(directory.rfind('/'));
  const auto it = paths_.find(path);
  if (it == paths_.end()) {
    return Error(Code::kNotFound, fmt::format("{} does not exist", directory));
  }
  if (it->second.link.empty()) {
    return path;
  }
  const std::string link = fmt::format("the symbolic link {}", path);
  if (links == kMostLinks) {
    return Error(Code::kPrecondition, link + " leads in a circle");
  }
  auto led = FollowLocked(it->second.link, links + 1);
  return !led.has_value() && led.error().code() == Code::kNotFound
             ? Error(Code::kPrecondition, link + " leads nowhere")
             : led;
}

Result<AbsolutePath> FakeMount::Resolve(const AbsolutePath& path) {
  QUARRY_TRY(faults.Check("Resolve"));
  const std::lock_guard lock(mutex_);
  if (path.str() == "/") {
    return path;
  }
  QUARRY_ASSIGN(const std::string parent, FollowLocked(ParentOf(path.str()), 0).Context(path.str()));
  if (KindLocked(parent) != PathKind::kDirectory) {
    return Error(Code::kNotFound, fmt::format("{}: {} is not a directory", path.str(), parent));
  }
  return AbsolutePath::Parse(fmt::format("{}/{}", parent, path.Name()));
}

AbsolutePath FakeMount::LedLocked(const AbsolutePath& path) const {
  const auto parent = FollowLocked(path.Parent().str(), 0);
  return parent.has_value() && path.str() != "/"
             ? *AbsolutePath::Parse(fmt::format("{}/{}", *parent, path.Name()))
             : path;
}

PathKind FakeMount::KindLocked(const std::string& path) const {
  const auto it = paths_.find(path);
  if (it == paths_.end()) {
    return PathKind::kAbsent;
  }
  const MountTable table = TableLocked();
  const Entry* top = table.At(*AbsolutePath::Parse(path));
  const bool node =
      top != nullptr && ((top->device == kDevtmpfs && top->root != "/") || nodes_.contains(top->id));
  return node ? PathKind::kOther : it->second.kind;
}

Status FakeMount::CheckTargetLocked(const AbsolutePath& target, PathKind wanted) const {
  const PathKind kind = KindLocked(target.str());
  if (kind == PathKind::kAbsent) {
    return Error(Code::kNotFound, fmt::format("{} does not exist", target.str()));
  }
  if (const MountTable table = TableLocked(); const Entry* there = table.At(target)) {
    return Error(Code::kPrecondition, fmt::format("{} is already a mount point ({} {})", target.str(),
                                                  there->fs_type, there->source));
  }
  if (kind != wanted) {
    return Error(Code::kPrecondition,
                 fmt::format("{} is not a {}", target.str(),
                             wanted == PathKind::kDirectory ? "directory" : "regular file"));
  }
  return Ok();
}

Status FakeMount::CheckParentLocked(const AbsolutePath& path) const {
  const std::string parent = path.Parent().str();
  switch (KindLocked(parent)) {
    case PathKind::kDirectory:
      return Ok();
    case PathKind::kAbsent:
      return Error(Code::kNotFound, fmt::format("{} does not exist", parent));
    case PathKind::kFile:
    case PathKind::kOther:
      return Error(Code::kInvalidArgument, fmt::format("{} is not a directory", parent));
  }
  return Ok();
}

Result<MountTable> FakeMount::Mounts() {
  QUARRY_TRY(faults.Check("Mounts"));
  const std::lock_guard lock(mutex_);
  return TableLocked();
}

void FakeMount::SetDiskContent(const std::string& device, Content content) {
  const std::lock_guard lock(mutex_);
  disks_[device] = std::move(content);
}

Result<Content> FakeMount::ProbeDevice(const AbsolutePath& device) {
  QUARRY_TRY(faults.Check("ProbeDevice"));
  const std::lock_guard lock(mutex_);
  const auto found = disks_.find(device.str());
  if (found == disks_.end()) {
    return Error(Code::kNotFound,
                 fmt::format("opening {} exclusively: No such file or directory", device.str()));
  }
  return found->second;
}

Result<Content> FakeMount::Probe(int fd) {
  QUARRY_TRY(faults.Check("Probe"));
  const auto uuid = dm_.UuidOfFd(fd);
  if (!uuid) {
    return Error(Code::kIo, "probing: not a device");
  }
  return ContentOf(*uuid);
}

Result<Bytes> FakeMount::DeviceSize(int fd) {
  QUARRY_TRY(faults.Check("DeviceSize"));
  const auto uuid = dm_.UuidOfFd(fd);
  if (!uuid) {
    return Error(Code::kInvalidArgument, "size of a descriptor that is no block device");
  }
  return dm_.SizeOf(*uuid);
}

bool FakeMount::IsHeldLocked(const std::string& uuid) const {
  return std::any_of(holds_.begin(), holds_.end(), [&](const auto& hold) { return hold.second == uuid; });
}

Status FakeMount::CheckMakeLocked(const mount::MakeFilesystem& spec, const std::string& uuid) const {
  QUARRY_ASSIGN(const Bytes size, dm_.SizeOf(uuid));
  if (size < mount::MinimumSize(spec.fs_type)) {
    return Error(Code::kOutOfRange, fmt::format("{} is too small for {}", spec.device, spec.fs_type));
  }
  if (IsHeldLocked(uuid)) {
    return Error(Code::kPrecondition, fmt::format("{} is in use", spec.device));
  }
  const auto it = volumes_.find(uuid);
  if (!spec.overwrite && it != volumes_.end() && it->second.content.kind != Content::Kind::kBlank) {
    return Error(Code::kPrecondition, fmt::format("{} is not blank: it holds {}", spec.device,
                                                  it->second.content.type.empty() ? "several signatures"
                                                                                  : it->second.content.type));
  }
  return Ok();
}

Status FakeMount::Make(const mount::MakeFilesystem& spec, const Call& call) {
  QUARRY_TRY(faults.Check("Make"));
  TellCall("Make", call);
  QUARRY_TRY(call.Check("mkfs"));
  QUARRY_TRY(mount::CheckMkfsOptions(spec.fs_type, spec.extra_options));
  const auto device = dm_.DeviceOfNode(spec.device);
  if (!device) {
    return Error(Code::kNotFound, fmt::format("no device {}", spec.device));
  }
  const std::lock_guard lock(mutex_);
  QUARRY_TRY(CheckMakeLocked(spec, device->uuid));
  Volume& volume = volumes_[device->uuid];
  volume.content = {Content::Kind::kFilesystem, spec.fs_type,
                    fmt::format("00000000-0000-4000-8000-{:012}", ++made_count_)};
  volume.half_made = true;
  volume.root = {0, 0755};
  volume.damage = Damage::kNone;
  QUARRY_TRY(faults.Check("MakeInterrupted"));
  volume.half_made = false;
  volume.unclean = false;
  volume.filesystem_size = *dm_.SizeOf(device->uuid);
  MarkLocked(device->uuid);
  made_.push_back(spec);
  journal_.push_back(fmt::format("mkfs.{} {}", spec.fs_type, spec.device));
  return Ok();
}

Status FakeMount::Mount(const std::string& device, const AbsolutePath& asked, std::string_view fs_type,
                        const MountOptions& options, const Call& call) {
  QUARRY_TRY(faults.Check("Mount"));
  QUARRY_TRY(call.Check("mounting"));
  const auto state = dm_.DeviceOfNode(device);
  const std::lock_guard lock(mutex_);
  const AbsolutePath target = LedLocked(asked);
  QUARRY_TRY(CheckTargetLocked(target, PathKind::kDirectory));
  if (!state) {
    return Error(Code::kNotFound, fmt::format("no device {}", device));
  }
  Volume& volume = VolumeLocked(state->uuid);
  if (volume.content.kind != Content::Kind::kFilesystem || volume.content.type != fs_type ||
      volume.half_made) {
    return Error(Code::kCorrupt, fmt::format("mounting {}: no valid {} on it", device, fs_type))
        .WithErrno(EINVAL);
  }
  if (state->read_only && (options.flags & MS_RDONLY) == 0) {
    return Error(Code::kPrecondition, fmt::format("mounting {}: the device is read-only", device))
        .WithErrno(EACCES);
  }
  Entry entry;
  entry.backing = {state->major, state->minor};
  // As in the kernel: a btrfs has a device number of its own, which is no device's.
  entry.device = fs_type == "btrfs" ? DeviceNumber{0, 1000 + state->minor} : entry.backing;
  entry.root = "/";
  entry.target = target.str();
  entry.options = PerMountWords(options.flags);
  entry.fs_type = fs_type;
  entry.source = device;
  std::ranges::transform(options.data, std::back_inserter(entry.super_options), &mount::DataOption::text);
  entry.super_options.insert(entry.super_options.begin(), (options.flags & MS_RDONLY) != 0 ? "ro" : "rw");
  volume.unclean = false;
  if (!IsHeldLocked(state->uuid)) {
    dm_.KernelOpen(state->uuid, 1);
  }
  AddMountLocked(std::move(entry));
  holds_[mounts_.back().id] = state->uuid;
  journal_.push_back(fmt::format("mount {} {}{}", device, target.str(), FlagText(options)));
  return Ok();
}

std::optional<MountEntry> FakeMount::BindNodeLocked(const std::string& source) const {
  const auto device = dm_.DeviceOfNode(source);
  if (!device) {
    return std::nullopt;
  }
  Entry entry = MountOfLocked("/dev");
  entry.root = device->Node().substr(kDev.size());
  return entry;
}

MountEntry FakeMount::BindDirectoryLocked(const std::string& source) const {
  Entry entry = MountOfLocked(source);
  const std::string below =
      source == entry.target ? "" : source.substr(entry.target == "/" ? 0 : entry.target.size());
  entry.root = entry.root == "/" ? (below.empty() ? "/" : below) : entry.root + below;
  return entry;
}

Status FakeMount::Bind(const std::string& asked_source, const AbsolutePath& asked,
                       const MountOptions& options, const Call& call) {
  QUARRY_TRY(faults.Check("Bind"));
  QUARRY_TRY(call.Check("binding"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath target = LedLocked(asked);
  QUARRY_ASSIGN(const AbsolutePath from, AbsolutePath::Parse(asked_source));
  const std::string source = LedLocked(from).str();
  std::optional<Entry> entry = BindNodeLocked(source);
  if (entry && (options.flags & MS_NODEV) != 0) {
    return Error(Code::kInvalidArgument, fmt::format("binding {} with nodev would make it useless", source));
  }
  QUARRY_TRY(CheckTargetLocked(target, entry ? PathKind::kFile : PathKind::kDirectory));
  if (!entry) {
    if (KindLocked(source) != PathKind::kDirectory) {
      return Error(Code::kNotFound, fmt::format("binding {}: no such directory", source));
    }
    entry = BindDirectoryLocked(source);
  }
  const uint64_t inherited = PerMountFlagsOf(*entry);
  entry->target = target.str();
  entry->options = PerMountWords((inherited & ~options.cleared) | (options.flags & kPerMountFlags));
  const auto hold = holds_.find(entry->id);
  const std::optional<std::string> uuid = hold == holds_.end() ? std::nullopt : std::optional(hold->second);
  AddMountLocked(std::move(*entry));
  if (uuid) {  // one more mount of the same file system, not one more open of its device
    holds_[mounts_.back().id] = *uuid;
  }
  journal_.push_back(fmt::format("bind {} {}{}", source, target.str(), FlagText(options)));
  return Ok();
}

Status FakeMount::Unmount(const AbsolutePath& asked, const Call& call) {
  QUARRY_TRY(faults.Check("Unmount"));
  QUARRY_TRY(call.Check("unmounting"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath target = LedLocked(asked);
  const MountTable table = TableLocked();
  const Entry* top = table.At(target);
  if (top == nullptr) {
    return Ok();
  }
  if (const auto busy = busy_.find(target.str()); busy != busy_.end()) {
    return Error(Code::kPrecondition, fmt::format("{} is in use by {}", target.str(), busy->second))
        .WithErrno(EBUSY);
  }
  for (const Entry& other : mounts_) {
    if (other.parent_id == top->id) {
      return Error(Code::kPrecondition,
                   fmt::format("{} is in use: {} is mounted below it", target.str(), other.target))
          .WithErrno(EBUSY);
    }
  }
  const uint64_t id = top->id;
  std::erase_if(mounts_, [&](const Entry& entry) { return entry.id == id; });
  if (const auto hold = holds_.extract(id); !hold.empty()) {
    if (!IsHeldLocked(hold.mapped())) {
      dm_.KernelOpen(hold.mapped(), -1);
    }
  }
  journal_.push_back(fmt::format("umount {}", target.str()));
  return Ok();
}

Status FakeMount::Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& asked,
                       const Call& call) {
  QUARRY_TRY(faults.Check("Grow"));
  QUARRY_TRY(call.Check("growing"));
  const auto state = dm_.DeviceOfNode(device);
  const std::lock_guard lock(mutex_);
  const AbsolutePath mount_point = LedLocked(asked);
  const MountTable table = TableLocked();
  const Entry* there = table.At(mount_point);
  const auto hold = there == nullptr ? holds_.end() : holds_.find(there->id);
  if (hold == holds_.end() || !state || hold->second != state->uuid || there->fs_type != fs_type) {
    return Error(Code::kPrecondition,
                 fmt::format("{} is not mounted as {} at {}", device, fs_type, mount_point.str()));
  }
  if (there->read_only()) {
    return Error(Code::kPrecondition, fmt::format("{} is mounted read-only", mount_point.str()));
  }
  QUARRY_ASSIGN(const Bytes size, dm_.SizeOf(state->uuid));
  if (volumes_[state->uuid].filesystem_size < size) {
    volumes_[state->uuid].filesystem_size = size;
    journal_.push_back(fmt::format("grow {}", mount_point.str()));
  }
  return Ok();
}

Result<mount::FilesystemUsage> FakeMount::Usage(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("Usage"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  if (KindLocked(path.str()) == PathKind::kAbsent) {
    return Error(Code::kNotFound, fmt::format("{} does not exist", path.str()));
  }
  const auto hold = holds_.find(MountOfLocked(path.str()).id);
  const Bytes total = hold == holds_.end() ? kGiB : volumes_[hold->second].filesystem_size;
  const Bytes used{total.value / 16};
  return mount::FilesystemUsage{total, used, total - used, 1000, 11, 989};
}

Result<PathKind> FakeMount::Inspect(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("Inspect"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  return KindLocked(path.str());
}

Result<std::optional<DeviceNumber>> FakeMount::BlockDeviceAt(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("BlockDeviceAt"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  const MountTable table = TableLocked();
  const Entry* top = table.At(path);
  if (const auto made = nodes_.find(top == nullptr ? 0 : top->id); made != nodes_.end()) {
    return std::optional(made->second);
  }
  constexpr std::string_view kNode = "/dm-";
  if (top == nullptr || top->device != kDevtmpfs || !top->root.starts_with(kNode)) {
    return std::optional<DeviceNumber>();
  }
  // The node has a number of its own, whichever device has that number now.
  return std::optional(
      DeviceNumber{FakeDm::kMajor, static_cast<uint32_t>(std::stoul(top->root.substr(kNode.size())))});
}

Result<std::optional<DeviceNumber>> FakeMount::FileSystemOfNode(const std::string& node,
                                                                DeviceNumber device) {
  QUARRY_TRY(faults.Check("FileSystemOfNode"));
  const auto state = dm_.DeviceOfNode(node);
  const bool there = state && DeviceNumber{state->major, state->minor} == device;
  return there ? std::optional(kDevtmpfs) : std::nullopt;
}

Status FakeMount::MakeDirectory(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("MakeDirectory"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  QUARRY_TRY(CheckParentLocked(path));
  const PathKind kind = KindLocked(path.str());
  if (kind != PathKind::kAbsent && kind != PathKind::kDirectory) {
    return Error(Code::kPrecondition, fmt::format("{} exists and is not a directory", path.str()));
  }
  paths_.try_emplace(path.str());
  return Ok();
}

Status FakeMount::MakeFile(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("MakeFile"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  QUARRY_TRY(CheckParentLocked(path));
  const PathKind kind = KindLocked(path.str());
  if (kind != PathKind::kAbsent && kind != PathKind::kFile) {
    return Error(Code::kPrecondition, fmt::format("{} exists and is not a regular file", path.str()));
  }
  paths_.try_emplace(path.str(), Path{PathKind::kFile, true});
  return Ok();
}

Status FakeMount::MakeFileFromDirectory(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("MakeFileFromDirectory"));
  {
    const std::lock_guard lock(mutex_);
    const AbsolutePath path = LedLocked(asked);
    if (KindLocked(path.str()) == PathKind::kDirectory) {
      const auto below = [&](const auto& each) {
        return each.first != path.str() && IsBelow(each.first, path.str());
      };
      if (TableLocked().At(path) != nullptr) {
        return Error(Code::kPrecondition, fmt::format("{} is a mount point", path.str()));
      }
      if (std::any_of(paths_.begin(), paths_.end(), below)) {
        return Error(Code::kPrecondition, fmt::format("{} is a directory that is not empty", path.str()));
      }
      paths_.erase(path.str());
    }
  }
  return MakeFile(asked);
}

Status FakeMount::RemovePath(const AbsolutePath& asked) {
  QUARRY_TRY(faults.Check("RemovePath"));
  const std::lock_guard lock(mutex_);
  const AbsolutePath path = LedLocked(asked);
  const auto it = paths_.find(path.str());
  if (it == paths_.end()) {
    return Ok();
  }
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kPrecondition, fmt::format("{} {}", path.str(), why));
  };
  if (TableLocked().At(path) != nullptr) {
    return refuse("is a mount point");
  }
  if (it->second.kind == PathKind::kOther) {
    return refuse("is neither a directory nor a regular file");
  }
  if (it->second.kind == PathKind::kFile && !it->second.empty) {
    return refuse("is not empty");
  }
  const auto below = [&](const auto& each) {
    return each.first != path.str() && IsBelow(each.first, path.str());
  };
  if (std::any_of(paths_.begin(), paths_.end(), below)) {
    return refuse("is not empty");
  }
  paths_.erase(it);
  return Ok();
}

Result<std::vector<std::string>> FakeMount::Users(DeviceNumber device) {
  QUARRY_TRY(faults.Check("Users"));
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const Entry& entry : mounts_) {
    if (entry.backing == device) {
      out.push_back(fmt::format("mounted at {}", entry.target));
    } else if (entry.device == kDevtmpfs && entry.root == fmt::format("/dm-{}", device.minor) &&
               device.major == FakeDm::kMajor) {
      out.push_back(fmt::format("its node is mounted at {}", entry.target));
    }
  }
  if (const auto it = users_.find(device); it != users_.end()) {
    out.insert(out.end(), it->second.begin(), it->second.end());
  }
  return out;
}

Result<std::vector<std::string>> FakeMount::Openers(DeviceNumber device) {
  QUARRY_TRY(faults.Check("Openers"));
  const std::lock_guard lock(mutex_);
  const auto it = openers_.find(device);
  return it == openers_.end() ? std::vector<std::string>() : it->second;
}

}  // namespace quarry::fakes
