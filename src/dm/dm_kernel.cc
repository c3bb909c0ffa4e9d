#include "dm/dm_kernel.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "dm/dm_task.h"
#include "dm/target_lines.h"

namespace quarry::dm {
namespace {

constexpr uint64_t kSector = 512;

Error NotActive(const std::string& uuid) {
  return {Code::kNotFound, fmt::format("device {} is not active", uuid)};
}

// The first line of a device's status. Both are empty if there is no such device, or it has no table yet.
struct TargetStatus {
  std::string type, parameters;
};

Result<TargetStatus> FirstTargetOf(const std::string& uuid) {
  const std::string what = fmt::format("asking for the state of device {}", uuid);
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task(dm_task_create(DM_DEVICE_STATUS));
  if (!task || uuid.empty() || dm_task_set_uuid(task.get(), uuid.c_str()) == 0 ||
      dm_task_no_flush(task.get()) == 0 || dm_task_no_open_count(task.get()) == 0) {
    return session.Failure(what);
  }
  if (dm_task_run(task.get()) == 0) {
    const int failure = dm_task_get_errno(task.get());
    return failure == ENXIO ? Result<TargetStatus>(TargetStatus()) : session.Failure(what, failure);
  }
  uint64_t start = 0;
  uint64_t length = 0;
  char* type = nullptr;
  char* parameters = nullptr;
  dm_get_next_target(task.get(), nullptr, &start, &length, &type, &parameters);
  return type == nullptr || parameters == nullptr ? TargetStatus() : TargetStatus{type, parameters};
}

// Removes LVM's link /dev/GROUP/VOLUME to a device that is gone, and the folder if it is empty then. As long
// as one is there, vgcreate refuses to make a group of that name. The node of the device must be gone.
void RemoveDanglingLink(const std::string& name) {
  std::string parts = name;  // dm_split_lvm_name(3) splits it in place
  char* group = parts.data();
  char* volume = nullptr;
  char* layer = nullptr;
  if (dm_split_lvm_name(nullptr, name.c_str(), &group, &volume, &layer) == 0 || *group == '\0' ||
      *volume == '\0' || *layer != '\0') {
    return;
  }
  const std::string folder = fmt::format("/dev/{}", group);
  const std::string link = fmt::format("{}/{}", folder, volume);
  std::error_code ignored;
  if (std::filesystem::read_symlink(link, ignored) != fmt::format("{}/{}", dm_dir(), name) ||
      std::filesystem::status(link, ignored).type() != std::filesystem::file_type::not_found) {
    return;
  }
  if (unlink(link.c_str()) == 0) {
    rmdir(folder.c_str());
  }
}

// Removes what LVM made for a device that is gone. Where udev does not make nodes and links, LVM does, and
// udev does not remove those. libdevmapper removes the node only of a device that it was told to remove by
// name. A node that stays opens the next device that gets its number. A node that udev made is a symbolic
// link, and udev removes it.
void RemoveNodeAndLink(const std::string& name) {
  const std::string node = fmt::format("{}/{}", dm_dir(), name);
  struct stat st{};
  if (lstat(node.c_str(), &st) == 0 && S_ISBLK(st.st_mode)) {
    unlink(node.c_str());
  }
  RemoveDanglingLink(name);
}

// The error of a failed open(2) of a device's node.
Error OpenFailure(const Device& device, int saved_errno) {
  const std::string what = fmt::format("opening {} ({})", device.Node(), device.name);
  switch (saved_errno) {
    case ENOENT:
      return {Code::kUnavailable,
              fmt::format("{}: the device is active, but has no node: is this the host's /dev?", what)};
    case EROFS:
    case EACCES:
    case EPERM:
      return ErrnoError(what, saved_errno).As(device.read_only ? Code::kPrecondition : Code::kUnavailable);
    default:
      // ENXIO, ENODEV: the device was removed, or lost its table, between lookup and open.
      return ErrnoError(what, saved_errno);
  }
}

// Finds one device, by name or by UUID. `set` is libdevmapper's setter for either.
Result<std::optional<Device>> Look(int (*set)(dm_task*, const char*), const std::string& key) {
  const std::string what = fmt::format("looking for device {}", key);
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task(dm_task_create(DM_DEVICE_INFO));
  if (!task || set(task.get(), key.c_str()) == 0 || dm_task_run(task.get()) == 0) {
    return session.Failure(what, task ? dm_task_get_errno(task.get()) : 0);
  }
  dm_info info{};
  if (dm_task_get_info(task.get(), &info) == 0) {
    return session.Failure(what);
  }
  if (info.exists == 0) {
    return std::optional<Device>();
  }
  const auto text = [](const char* words) { return std::string(words == nullptr ? "" : words); };
  return std::optional(Device{.name = text(dm_task_get_name(task.get())),
                              .uuid = text(dm_task_get_uuid(task.get())),
                              .major = info.major,
                              .minor = info.minor,
                              .open_count = info.open_count < 0 ? 0 : static_cast<uint32_t>(info.open_count),
                              .suspended = info.suspended != 0,
                              .read_only = info.read_only != 0,
                              .waiting_table = info.inactive_table != 0,
                              .has_table = info.live_table != 0});
}

struct Listed {
  std::string name;
  dev_t number;
};

Result<std::vector<Listed>> AllDevices() {
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task(dm_task_create(DM_DEVICE_LIST));
  if (!task || dm_task_run(task.get()) == 0) {
    return session.Failure("listing devices", task ? dm_task_get_errno(task.get()) : 0);
  }
  // Entries follow each other. Each has the offset of the next; 0 ends the list.
  std::vector<Listed> devices;
  const dm_names* entry = dm_task_get_names(task.get());
  if (entry == nullptr || entry->dev == 0) {
    return devices;
  }
  while (true) {
    devices.push_back({entry->name, entry->dev});
    if (entry->next == 0) {
      return devices;
    }
    entry = reinterpret_cast<const dm_names*>(reinterpret_cast<const char*>(entry) + entry->next);
  }
}

// A device has one table, and perhaps a second one that is loaded and waits to replace the first.
enum class Table { kLive, kWaiting };

// A request about the table of one device; nullptr if libdevmapper refuses.
DmTask TaskAbout(int type, dev_t number, Table table) {
  DmTask task(dm_task_create(type));
  const bool ready = task &&
                     dm_task_set_major_minor(task.get(), static_cast<int>(major(number)),
                                             static_cast<int>(minor(number)), 0) != 0 &&
                     dm_task_no_open_count(task.get()) != 0 &&
                     (table == Table::kLive || dm_task_query_inactive_table(task.get()) != 0);
  return ready ? std::move(task) : nullptr;
}

// The devices that a device's table names; empty if the device is gone.
Result<std::vector<dev_t>> DevicesBelow(dev_t number, Table table = Table::kLive) {
  const std::string what = fmt::format("asking what device {}:{} lies on", major(number), minor(number));
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task = TaskAbout(DM_DEVICE_DEPS, number, table);
  if (!task) {
    return session.Failure(what);
  }
  if (dm_task_run(task.get()) == 0) {
    const int failure = dm_task_get_errno(task.get());
    return failure == ENXIO ? Result<std::vector<dev_t>>({}) : session.Failure(what, failure);
  }
  const dm_deps* const deps = dm_task_get_deps(task.get());
  return deps == nullptr ? std::vector<dev_t>()
                         : std::vector<dev_t>(deps->device, deps->device + deps->count);
}

// The sectors of the block device `below` that a device's table maps; empty if the device is gone.
Result<std::vector<SectorRange>> TakenBy(dev_t number, Table table, const std::string& below) {
  const std::string what = fmt::format("asking for the table of device {}:{}", major(number), minor(number));
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task = TaskAbout(DM_DEVICE_TABLE, number, table);
  // A table may contain an encryption key.
  if (!task || dm_task_secure_data(task.get()) == 0) {
    return session.Failure(what);
  }
  if (dm_task_run(task.get()) == 0) {
    const int failure = dm_task_get_errno(task.get());
    return failure == ENXIO ? Result<std::vector<SectorRange>>({}) : session.Failure(what, failure);
  }
  std::vector<SectorRange> out;
  void* next = nullptr;
  do {
    uint64_t start = 0;
    uint64_t length = 0;
    char* type = nullptr;
    char* parameters = nullptr;
    next = dm_get_next_target(task.get(), next, &start, &length, &type, &parameters);
    if (type != nullptr && parameters != nullptr) {
      const auto taken = SectorsTaken(type, length, parameters, below);
      out.insert(out.end(), taken.begin(), taken.end());
    }
  } while (next != nullptr);
  return out;
}

Status SendMessage(const std::string& uuid, const char* message) {
  const std::string what = fmt::format("sending '{}' to device {}", message, uuid);
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task(dm_task_create(DM_DEVICE_TARGET_MSG));
  if (!task || uuid.empty() || dm_task_set_uuid(task.get(), uuid.c_str()) == 0 ||
      dm_task_set_sector(task.get(), 0) == 0 || dm_task_set_message(task.get(), message) == 0 ||
      dm_task_no_open_count(task.get()) == 0) {
    return session.Failure(what);
  }
  if (dm_task_run(task.get()) != 0) {
    return Ok();
  }
  switch (const int failure = dm_task_get_errno(task.get()); failure) {
    case ENXIO:
      return NotActive(uuid);
    case EBUSY:
      return session.Failure(what, failure).As(Code::kPrecondition);
    case EINVAL:
      return session.Failure(what, failure).As(Code::kUnsupported);
    default:
      return session.Failure(what, failure);
  }
}

// A disk leaves sysfs when it is pulled. Its number is not reused while the disk is held open.
bool InSysfs(dev_t number) {
  return access(fmt::format("/sys/dev/block/{}:{}", major(number), minor(number)).c_str(), F_OK) == 0;
}

}  // namespace

Result<std::optional<Device>> DmKernel::Find(const std::string& uuid) {
  if (uuid.empty()) {
    return Error(Code::kInternal, "looking for a device without UUID");
  }
  return Look(dm_task_set_uuid, uuid);
}

Result<std::vector<Device>> DmKernel::List(const std::string& prefix) {
  if (prefix.empty()) {
    return Error(Code::kInternal, "listing devices: the UUID prefix is empty");
  }
  QUARRY_ASSIGN(const std::vector<Listed> listed, AllDevices());
  std::vector<Device> devices;
  for (const Listed& one : listed) {
    QUARRY_ASSIGN(std::optional<Device> device, Look(dm_task_set_name, one.name));
    // A device removed meanwhile is left out.
    if (device.has_value() && device->uuid.starts_with(prefix)) {
      devices.push_back(std::move(*device));
    }
  }
  return devices;
}

Result<std::optional<RaidStatus>> DmKernel::Raid(const std::string& uuid) {
  QUARRY_ASSIGN(TargetStatus target, FirstTargetOf(uuid));
  if (target.type == "snapshot-origin") {
    QUARRY_ASSIGN(target, FirstTargetOf(uuid + "-real"));
  }
  return target.type == "raid" ? ParseRaidStatus(target.parameters).Context("device " + uuid)
                               : Result<std::optional<RaidStatus>>(std::nullopt);
}

Status DmKernel::Scrub(const std::string& uuid, bool repair) {
  constexpr int kMessages = 10;
  constexpr int kLooks = 20;
  const char* const action = repair ? "repair" : "check";
  for (int i = 0; i < kMessages; ++i) {
    QUARRY_TRY(SendMessage(uuid, action));
    // If a scrub has just ended, the kernel may accept the message, clean up, and forget the message.
    for (int look = 0; look < kLooks; ++look) {
      QUARRY_ASSIGN(const std::optional<RaidStatus> status, Raid(uuid));
      if (!status.has_value() || status->action == action) {
        return status.has_value() ? Ok() : Status(NotActive(uuid));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return Error(Code::kPrecondition, fmt::format("device {} does not begin to scrub", uuid));
}

Result<uint64_t> DmKernel::Instance(const std::string& uuid) {
  QUARRY_ASSIGN(const std::optional<Device> device, Find(uuid));
  if (!device.has_value()) {
    return NotActive(uuid);
  }
  uint64_t sequence = 0;
  std::ifstream(fmt::format("/sys/dev/block/{}:{}/diskseq", device->major, device->minor)) >> sequence;
  return sequence;
}

Result<std::optional<Bytes>> DmKernel::Size(const std::string& uuid) {
  QUARRY_ASSIGN(const std::optional<Device> device, Find(uuid));
  if (!device.has_value()) {
    return std::optional<Bytes>();
  }
  uint64_t sectors = 0;
  std::ifstream file(fmt::format("/sys/dev/block/{}:{}/size", device->major, device->minor));
  return file >> sectors ? std::optional(Bytes{sectors * kSector}) : std::nullopt;  // it has just gone
}

Result<bool> DmKernel::LiesOnLostDisk(const std::string& uuid) {
  QUARRY_ASSIGN(const std::optional<Device> device, Find(uuid));
  if (!device.has_value()) {
    return false;
  }
  std::vector<dev_t> todo = {makedev(device->major, device->minor)};
  for (size_t i = 0; i < todo.size(); ++i) {
    QUARRY_ASSIGN(const std::vector<dev_t> below, DevicesBelow(todo[i]));
    for (const dev_t number : below) {
      if (!InSysfs(number)) {
        return true;
      }
      if (major(number) == device->major && std::ranges::find(todo, number) == todo.end()) {
        todo.push_back(number);
      }
    }
  }
  return false;
}

Result<std::vector<Mapping>> DmKernel::MappingsOf(const std::string& path) {
  struct stat st{};
  if (stat(path.c_str(), &st) != 0) {
    return ErrnoError(fmt::format("looking at {}", path));
  }
  if (!S_ISBLK(st.st_mode)) {
    return Error(Code::kInvalidArgument, fmt::format("{} is not a block device", path));
  }
  const std::string below = fmt::format("{}:{}", major(st.st_rdev), minor(st.st_rdev));
  const auto in_bytes = [](uint64_t sectors) {
    return Bytes{sectors > UINT64_MAX / kSector ? UINT64_MAX : sectors * kSector};
  };
  QUARRY_ASSIGN(const std::vector<Listed> listed, AllDevices());
  std::vector<Mapping> out;
  for (const Listed& one : listed) {
    for (const Table table : {Table::kLive, Table::kWaiting}) {
      QUARRY_ASSIGN(const std::vector<dev_t> named, DevicesBelow(one.number, table));
      if (std::ranges::find(named, st.st_rdev) == named.end()) {
        continue;
      }
      QUARRY_ASSIGN(const std::vector<SectorRange> taken, TakenBy(one.number, table, below));
      QUARRY_ASSIGN(const std::optional<Device> device, Look(dm_task_set_name, one.name));
      for (const SectorRange& range : taken) {
        out.push_back(
            {device.has_value() ? device->uuid : "", one.name, in_bytes(range.first), in_bytes(range.count)});
      }
    }
  }
  return out;
}

Status DmKernel::Remove(const std::string& uuid) {
  const std::string what = fmt::format("removing device {}", uuid);
  QUARRY_ASSIGN(const std::optional<Device> device, Find(uuid));
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const DmTask task(dm_task_create(DM_DEVICE_REMOVE));
  if (!task || uuid.empty() || dm_task_set_uuid(task.get(), uuid.c_str()) == 0) {
    return session.Failure(what);
  }
  if (dm_task_run(task.get()) == 0) {
    const int failure = dm_task_get_errno(task.get());
    return failure == ENXIO ? Ok() : Status(session.Failure(what, failure));
  }
  dm_task_update_nodes();
  if (device.has_value()) {
    RemoveNodeAndLink(device->name);
  }
  return Ok();
}

void DmKernel::RemoveStaleNodes(const std::string& group,
                                const std::function<bool(const std::string&)>& ours) {
  namespace fs = std::filesystem;
  const std::string nodes = dm_dir();
  std::set<std::string> names;
  std::error_code ignored;  // a folder that does not exist has nothing stale
  for (const auto& entry : fs::directory_iterator(nodes, ignored)) {
    if (entry.symlink_status(ignored).type() == fs::file_type::block) {
      names.insert(entry.path().filename());
    }
  }
  for (const auto& entry : fs::directory_iterator(fmt::format("/dev/{}", group), ignored)) {
    const fs::path target = fs::read_symlink(entry.path(), ignored);
    if (target.parent_path() == nodes) {
      names.insert(target.filename());
    }
  }
  const auto devices = AllDevices();
  if (!devices.has_value()) {
    return;
  }
  for (const Listed& device : *devices) {
    names.erase(device.name);
  }
  for (const std::string& name : names) {
    // A device is older than its node, so a node that was seen and has no device is stale.
    const auto device = ours(name) ? Look(dm_task_set_name, name) : Result<std::optional<Device>>(Device{});
    if (device.has_value() && !device->has_value()) {
      RemoveNodeAndLink(name);
    }
  }
}

Result<UniqueFd> DmKernel::Open(const std::string& uuid, int flags) {
  QUARRY_ASSIGN(const std::optional<Device> device, Find(uuid));
  if (!device) {
    return NotActive(uuid);
  }
  UniqueFd fd(open(device->Node().c_str(), (flags & (O_ACCMODE | O_EXCL)) | O_CLOEXEC));
  if (!fd.valid()) {
    return OpenFailure(*device, errno);
  }
  // From here on the device is held open and cannot be replaced. It may have been replaced between lookup and
  // open, so look it up again.
  struct stat st{};
  if (fstat(fd.get(), &st) != 0) {
    return ErrnoError(fmt::format("looking at {}", device->Node()));
  }
  QUARRY_ASSIGN(const std::optional<Device> held, Find(uuid));
  if (!held) {
    return NotActive(uuid);
  }
  if (!S_ISBLK(st.st_mode) || st.st_rdev != makedev(held->major, held->minor)) {
    return Error(Code::kUnavailable, fmt::format("{} is not {} ({}:{}): is this the host's /dev?",
                                                 device->Node(), held->name, held->major, held->minor));
  }
  // The kernel would open the device, and then refuse each write.
  if (held->read_only && (flags & O_ACCMODE) != O_RDONLY) {
    return Error(Code::kPrecondition, fmt::format("{} ({}) is read-only", device->Node(), held->name));
  }
  return fd;
}

Status DmKernel::SetReadOnly(const std::string& uuid, bool read_only) {
  QUARRY_ASSIGN(const UniqueFd fd, Open(uuid, O_RDONLY));
  const int value = read_only ? 1 : 0;
  if (ioctl(fd.get(), BLKROSET, &value) != 0) {
    return ErrnoError(fmt::format("making {} {}", uuid, read_only ? "read-only" : "writable"));
  }
  return Ok();
}

Result<bool> DmKernel::HasTarget(const std::string& target) {
  QUARRY_ASSIGN(const LibdmSession session, LibdmSession::Begin());
  const std::string what = fmt::format("asking for target '{}'", target);
  const DmTask task(dm_task_create(DM_DEVICE_GET_TARGET_VERSION));
  // The kernel loads dm-<target> if necessary. It reports EINVAL if the target is still unknown.
  if (!task || dm_task_set_name(task.get(), target.c_str()) == 0) {
    return session.Failure(what);
  }
  if (dm_task_run(task.get()) != 0) {
    return true;
  }
  const int failure = dm_task_get_errno(task.get());
  return failure == EINVAL || failure == ENXIO ? Result<bool>(false) : session.Failure(what, failure);
}

}  // namespace quarry::dm
