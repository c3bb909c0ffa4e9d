// Looking through /proc for who holds what. Processes come and go, and some may not be looked at: what cannot
// be read is passed over.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// A whole file of /proc or /sys. Errors of errno.
Result<std::string> ReadWhole(const std::string& path);
// Names in a directory but for "." and "..", sorted; empty if it cannot be read.
std::vector<std::string> ListDirectory(const std::string& path);

class ProcessScan {
 public:
  // `proc`: where procfs is. The scan ends after `limit`, finished or not.
  explicit ProcessScan(std::string proc, std::chrono::milliseconds limit = std::chrono::seconds(1));

  // Ids of all processes, ascending. kUnavailable if /proc cannot be read.
  Result<std::vector<int>> Pids() const;
  // "pid 12 (postgres)"; "this process (pid 7)" for our own.
  std::string Describe(int pid) const;

  // Processes with anything open, mapped, or as their directory in the mount with this id, seen through
  // whatever path: at most `most` of them, described.
  Result<std::vector<std::string>> HoldersOfMount(uint64_t mount_id, DeviceNumber file_system,
                                                  size_t most) const;
  // Processes but for this one that have this block device node open.
  Result<std::vector<std::string>> OpenersOf(DeviceNumber device, size_t most) const;

 private:
  using Test = std::function<bool(const std::string& process_directory)>;
  Result<std::vector<std::string>> Matching(const Test& test, bool ourselves_too, size_t most) const;

  std::string proc_;
  std::chrono::milliseconds limit_;
};

}  // namespace quarry::mount
