#include "tests/fakes/fake_dm.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace quarry::fakes {
namespace {

uint64_t InodeOf(int fd) {
  struct stat st{};
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_ino : 0;
}

// Descriptors of this process for the file with this inode number. memfds share one file system, and no other
// file there has our name.
uint32_t CountDescriptors(uint64_t inode) {
  uint32_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.starts_with("/memfd:") &&
        InodeOf(std::atoi(entry.path().filename().c_str())) == inode) {
      ++count;
    }
  }
  return count;
}

}  // namespace

uint32_t FakeDm::FreeMinor() const {
  for (uint32_t minor = 0;; ++minor) {
    bool taken = false;
    for (const auto& [uuid, state] : devices_) {
      taken = taken || state.device.minor == minor;
    }
    if (!taken) {
      return minor;
    }
  }
}

void FakeDm::State::Resize(Bytes to) {
  size = to;
  if (ftruncate(file.get(), static_cast<off_t>(to.value)) != 0) {
    throw std::system_error(errno, std::generic_category(), "ftruncate");
  }
}

uint32_t FakeDm::OpenCountLocked(const State& state) const {
  const uint32_t ours = state.thin.has_value() ? 2 : 1;  // state.file, and that of the thin pool
  return CountDescriptors(state.inode) - ours + static_cast<uint32_t>(state.kernel_opens) +
         ActiveThins(state.device.uuid);
}

FakeDm::State FakeDm::NewState(const std::string& uuid, const std::string& name, UniqueFd file) {
  State state;
  state.device.name = name;
  state.device.uuid = uuid;
  state.device.major = kMajor;
  state.device.minor = FreeMinor();
  state.inode = InodeOf(file.get());
  state.file = std::move(file);
  state.instance = ++instances_;
  return state;
}

dm::Device FakeDm::AddDevice(const std::string& uuid, const std::string& name, Bytes size, bool read_only) {
  const std::lock_guard lock(mutex_);
  auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    auto kept = bytes_.extract(uuid);
    UniqueFd file = kept.empty() ? MakeFakeFile("dm:" + name) : std::move(kept.mapped());
    it = devices_.emplace(uuid, NewState(uuid, name, std::move(file))).first;
  }
  it->second.Resize(size);
  it->second.device.read_only = read_only;
  it->second.device.suspended = false;
  it->second.device.waiting_table = false;
  it->second.device.has_table = true;
  return it->second.device;
}

void FakeDm::AddCopy(const std::string& uuid, const std::string& name, const std::string& of) {
  const Bytes size = SizeOf(of).value();
  AddDevice(uuid, name, size);
  const std::lock_guard lock(mutex_);
  loff_t from = 0;
  loff_t to = 0;
  while (from < static_cast<loff_t>(size.value)) {
    if (copy_file_range(devices_.at(of).file.get(), &from, devices_.at(uuid).file.get(), &to,
                        size.value - static_cast<uint64_t>(from), 0) <= 0) {
      throw std::system_error(errno, std::generic_category(), "copy_file_range");
    }
  }
}

Status FakeDm::RemoveDevice(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Ok();
  }
  if (const uint32_t opens = OpenCountLocked(it->second); opens != 0) {
    return Error(Code::kPrecondition, fmt::format("{} is open {} time(s)", it->second.device.name, opens));
  }
  if (!it->second.thin.has_value()) {
    bytes_.insert_or_assign(uuid, std::move(it->second.file));
  }
  devices_.erase(it);
  return Ok();
}

Status FakeDm::SetSize(const std::string& uuid, Bytes size) {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Error(Code::kNotFound, fmt::format("no device {}", uuid));
  }
  it->second.Resize(size);
  return Ok();
}

void FakeDm::SetSuspended(const std::string& uuid, bool suspended) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.device.suspended = suspended;
  }
}

void FakeDm::LoadTable(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.device.waiting_table = true;
  }
}

void FakeDm::TakeTable(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.device.has_table = false;
  }
}

void FakeDm::SetRaid(const std::string& uuid, std::optional<dm::RaidStatus> status) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.raid = std::move(status);
  }
}

void FakeDm::EndScrub(const std::string& uuid, uint64_t mismatches) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end() && it->second.raid.has_value()) {
    it->second.raid->mismatches = it->second.raid->action == "check" ? mismatches : 0;
    it->second.raid->action = "idle";
    it->second.raid->in_sync = it->second.raid->total;
  }
}

void FakeDm::SetOnLostDisk(const std::string& uuid, bool lost) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.on_lost_disk = lost;
  }
}

void FakeDm::Renew(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return;
  }
  it->second.on_lost_disk = false;
  if (it->second.raid.has_value()) {
    it->second.raid->legs.assign(it->second.raid->legs.size(), 'A');
  }
}

uint32_t FakeDm::OpenCount(const std::string& uuid) const {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  return it == devices_.end() ? 0 : OpenCountLocked(it->second);
}

std::vector<dm::Device> FakeDm::Devices() const {
  const std::lock_guard lock(mutex_);
  std::vector<dm::Device> out;
  for (const auto& [uuid, state] : devices_) {
    out.push_back(state.device);
    out.back().open_count = OpenCountLocked(state);
  }
  return out;
}

void FakeDm::Reboot() {
  const std::lock_guard lock(mutex_);
  devices_.clear();
}

void FakeDm::SetTarget(const std::string& target, bool offered) {
  const std::lock_guard lock(mutex_);
  targets_[target] = offered;
}

std::optional<std::string> FakeDm::UuidOfFd(int fd) const {
  const uint64_t inode = InodeOf(fd);
  const std::lock_guard lock(mutex_);
  for (const auto& [uuid, state] : devices_) {
    if (inode != 0 && state.inode == inode) {
      return uuid;
    }
  }
  return std::nullopt;
}

std::optional<dm::Device> FakeDm::DeviceOfNode(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [uuid, state] : devices_) {
    if (state.device.Node() == node || "/dev/mapper/" + state.device.name == node) {
      return state.device;
    }
  }
  return std::nullopt;
}

Result<Bytes> FakeDm::SizeOf(const std::string& uuid) const {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Error(Code::kNotFound, fmt::format("no device {}", uuid));
  }
  return it->second.size;
}

void FakeDm::KernelOpen(const std::string& uuid, int change) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.kernel_opens += change;
  }
}

Result<std::optional<dm::Device>> FakeDm::Find(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Find"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return std::optional<dm::Device>();
  }
  dm::Device device = it->second.device;
  device.open_count = OpenCountLocked(it->second);
  return std::optional(std::move(device));
}

Result<std::vector<dm::Device>> FakeDm::List(const std::string& prefix) {
  QUARRY_TRY(faults.Check("List"));
  std::vector<dm::Device> devices = Devices();
  std::erase_if(devices, [&](const dm::Device& device) { return !device.uuid.starts_with(prefix); });
  return devices;
}

Result<std::optional<dm::RaidStatus>> FakeDm::Raid(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Raid"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  return it == devices_.end() ? std::nullopt : it->second.raid;
}

Status FakeDm::Scrub(const std::string& uuid, bool repair) {
  QUARRY_TRY(faults.Check("Scrub"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Error(Code::kNotFound, fmt::format("device {} is not active", uuid));
  }
  std::optional<dm::RaidStatus>& raid = it->second.raid;
  if (!raid.has_value() || raid->type == "raid0") {
    return Error(Code::kUnsupported, fmt::format("{} has no legs to compare", it->second.device.name));
  }
  if (raid->action != "idle") {
    return Error(Code::kPrecondition, fmt::format("{} is at it: {}", it->second.device.name, raid->action));
  }
  raid->action = repair ? "repair" : "check";
  raid->mismatches = 0;
  raid->in_sync = 0;
  return Ok();
}

Result<std::optional<Bytes>> FakeDm::Size(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Size"));
  const auto size = SizeOf(uuid);
  return size.has_value() ? std::optional(*size) : std::nullopt;
}

Result<uint64_t> FakeDm::Instance(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Instance"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Error(Code::kNotFound, fmt::format("device {} is not active", uuid));
  }
  return it->second.instance;
}

Result<bool> FakeDm::LiesOnLostDisk(const std::string& uuid) {
  QUARRY_TRY(faults.Check("LiesOnLostDisk"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  return it != devices_.end() && it->second.on_lost_disk;
}

void FakeDm::SetMappings(const std::string& uuid, const std::string& path,
                         const std::vector<std::pair<Bytes, Bytes>>& offsets_and_lengths) {
  const std::lock_guard lock(mutex_);
  if (const auto it = devices_.find(uuid); it != devices_.end()) {
    it->second.mappings[path] = offsets_and_lengths;
  }
}

Result<std::vector<dm::Mapping>> FakeDm::MappingsOf(const std::string& path) {
  QUARRY_TRY(faults.Check("MappingsOf"));
  const std::lock_guard lock(mutex_);
  std::vector<dm::Mapping> out;
  for (const auto& [uuid, state] : devices_) {
    const auto mapped = state.mappings.find(path);
    if (mapped != state.mappings.end()) {
      for (const auto& [offset, length] : mapped->second) {
        out.push_back({uuid, state.device.name, offset, length});
      }
    }
  }
  return out;
}

Status FakeDm::Remove(const std::string& uuid) {
  QUARRY_TRY(faults.Check("Remove"));
  QUARRY_TRY(RemoveDevice(uuid));
  if (removed_) {
    removed_(uuid);
  }
  return Ok();
}

Result<UniqueFd> FakeDm::Open(const std::string& uuid, int flags) {
  QUARRY_TRY(faults.Check("Open"));
  return OpenAlways(uuid, flags);
}

Result<UniqueFd> FakeDm::OpenAlways(const std::string& uuid, int flags) {
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Error(Code::kNotFound, fmt::format("device {} is not active", uuid));
  }
  const State& state = it->second;
  if (!state.device.has_table) {
    return Error(Code::kUnavailable, fmt::format("{} has no node", state.device.name));
  }
  const bool writing = (flags & O_ACCMODE) != O_RDONLY;
  if (writing && state.device.read_only) {
    return Error(Code::kPrecondition, fmt::format("{} is read-only", state.device.name));
  }
  const std::string path = fmt::format("/proc/self/fd/{}", state.file.get());
  UniqueFd fd(open(path.c_str(), (writing ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}", state.device.name));
  }
  // An exclusive open is a lock on the open file description; the last close releases it.
  if ((flags & O_EXCL) != 0 && (state.kernel_opens > 0 || flock(fd.get(), LOCK_EX | LOCK_NB) != 0)) {
    return Error(Code::kPrecondition, fmt::format("{} is in use", state.device.name)).WithErrno(EBUSY);
  }
  return fd;
}

Status FakeDm::SetReadOnly(const std::string& uuid, bool read_only) {
  QUARRY_TRY(faults.Check("SetReadOnly"));
  const std::lock_guard lock(mutex_);
  const auto it = devices_.find(uuid);
  if (it == devices_.end()) {
    return Error(Code::kNotFound, fmt::format("device {} is not active", uuid));
  }
  it->second.device.read_only = read_only;
  return Ok();
}

Result<bool> FakeDm::HasTarget(const std::string& target) {
  QUARRY_TRY(faults.Check("HasTarget"));
  const std::lock_guard lock(mutex_);
  const auto it = targets_.find(target);
  return it != targets_.end() && it->second;
}

}  // namespace quarry::fakes
