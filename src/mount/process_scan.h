// Searches /proc for processes that hold a mount or device, and sysfs for other users of a device. Processes
// come and go, and some may not be inspected: unreadable entries are skipped.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// The whole content of a file of /proc or /sys. Errors come from errno.
Result<std::string> ReadWhole(const std::string& path);
// The rest of an open file. `path`: for errors.
Result<std::string> ReadRest(int fd, const std::string& path);
// The first line of a file of /proc or /sys; empty if the file cannot be read.
std::string ReadWord(const std::string& path);
// The target of a link; empty if it cannot be read.
std::string ReadLink(const std::string& path);
// The names in a directory except "." and "..", sorted; empty if the directory cannot be read.
std::vector<std::string> ListDirectory(const std::string& path);

class ProcessScan {
 public:
  // `proc`: the mount point of procfs. The scan ends after `limit`, complete or not.
  explicit ProcessScan(std::string proc, std::chrono::milliseconds limit = std::chrono::seconds(1));

  // Ids of all processes, ascending. kUnavailable if /proc cannot be read.
  Result<std::vector<int>> Pids() const;
  // "pid 12 (postgres)"; "this process (pid 7)" for the calling process.
  std::string Describe(int pid) const;

  // Processes that have a file of this mount open or mapped, run a program from it, or have their root or
  // working directory in it, whatever path they used. Returns the texts of Describe() for at most `most` of
  // them.
  Result<std::vector<std::string>> HoldersOfMount(uint64_t mount_id, DeviceNumber file_system,
                                                  size_t most) const;
  // Other processes that have this block device node open.
  Result<std::vector<std::string>> OpenersOf(DeviceNumber device, size_t most) const;

 private:
  using Test = std::function<bool(const std::string& process_directory)>;
  Result<std::vector<std::string>> Matching(const Test& test, bool ourselves_too, size_t most) const;

  std::string proc_;
  std::chrono::milliseconds limit_;
};

// The names of a block device: the kernel's, and those that may be the source of a mount.
struct DeviceNames {
  std::string directory;           // in sysfs
  std::string kernel;              // "dm-3"; empty: the kernel has no such device
  std::string mapped;              // device-mapper's name; empty: not one of its devices
  std::vector<std::string> nodes;  // "/dev/dm-3", "/dev/mapper/vg-lv"
};
DeviceNames NamesOf(DeviceNumber device, const std::string& sys);

// What a mount is to a device.
enum class MountUse { kNone, kFilesystem, kNode };
MountUse UseOf(const MountEntry& entry, DeviceNumber device, const DeviceNames& names);

// The directory in sysfs of the active file system on a device; empty if there is none.
std::string ActiveFilesystem(const DeviceNames& names, const std::string& sys);

// As MountApi::Users, with procfs and sysfs at these paths. Each mount namespace is read once, through its
// first process.
Result<std::vector<std::string>> UsersOf(DeviceNumber device, const std::string& proc,
                                         const std::string& sys);

}  // namespace quarry::mount
