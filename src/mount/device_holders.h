// Everything that keeps a block device in use, for people: mounts in every mount namespace, processes,
// devices on top, loop devices and swap. MountApi::Users answers the same question in short words, for error
// messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

struct HoldingMount {
  std::string device;  // the kernel's name of the mounted device: "dm-3"
  std::string target;  // the mount point, as its mount namespace sees it
  std::string fs_type;
  bool read_only = false;
  bool node = false;  // true: not a file system of the device, but its node, bind-mounted
  // A process of another mount namespace that has the mount; 0: the mount namespace of this process has it.
  int pid = 0;
  std::string process;  // name of `pid`
};

struct HoldingProcess {
  int pid = 0;
  uint32_t uid = 0;
  std::string name;                    // at most 15 bytes: /proc/<pid>/comm
  std::string command;                 // the command line, clipped; empty for a kernel thread
  std::string container;               // as by ContainerName(); may be empty
  std::vector<std::string> uses = {};  // "works in /data", "has /data/x open (fd 3)": the first few
  size_t more_uses = 0;
};

// A device that is built on the device.
struct HoldingDevice {
  std::string device;  // "dm-5", "md0", "loop3"
  std::string name;    // device-mapper's name, or the backing file of a loop device; may be empty
  std::string under;   // the device that it holds: "dm-3"
};

struct DeviceHolders {
  std::vector<HoldingDevice> devices;
  std::vector<HoldingMount> mounts;
  std::vector<std::string> swaps;  // paths, as in /proc/swaps
  std::vector<HoldingProcess> processes;
  // A file system on the device is active, although no visible process has a mount of it: its directory in
  // sysfs. Empty: no such file system.
  std::string unseen_file_system;
  bool complete = true;  // false: the time did not suffice to look at every process

  bool empty() const {
    return devices.empty() && mounts.empty() && swaps.empty() && processes.empty() &&
           unseen_file_system.empty();
  }
};

// The holders of `device`, and those of the devices that are built on it. `proc` and `sys` are the mount
// points of procfs and sysfs. Processes that may not be inspected are skipped. The search of processes ends
// after `limit`. A file of procfs that does not answer at all is left to a detached thread 2 s later. What
// was found until then is returned, as not complete. kUnavailable: /proc or /sys cannot be read.
Result<DeviceHolders> HoldersOf(DeviceNumber device, const std::string& proc, const std::string& sys,
                                std::chrono::milliseconds limit);

}  // namespace quarry::mount
