#include "base/scsi_recovery.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace quarry {
namespace {

namespace fs = std::filesystem;

// "0:0:0:0": host, channel, target and unit.
bool IsScsiUnit(const std::string& name) {
  return std::ranges::count(name, ':') == 3 && name.find_first_not_of("0123456789:") == std::string::npos;
}

}  // namespace

bool IsInScsiRecovery(dev_t device, const std::string& sysfs) {
  const fs::path disk = fmt::format("{}/dev/block/{}:{}", sysfs, major(device), minor(device));
  std::error_code error;
  fs::path unit = fs::read_symlink(disk / "device", error);
  if (error) {
    unit = fs::read_symlink(disk / "../device", error);  // a partition's folder is inside its disk's folder
  }
  const std::string name = unit.filename();
  if (!IsScsiUnit(name)) {
    return false;
  }
  std::ifstream in(fmt::format("{}/class/scsi_host/host{}/state", sysfs, name.substr(0, name.find(':'))));
  std::string state;
  // Also "cancel/recovery" and "deleted/recovery".
  return in >> state && state.ends_with("recovery");
}

Status CheckNotInScsiRecovery(const std::string& node) {
  struct stat status{};
  if (stat(node.c_str(), &status) == 0 && S_ISBLK(status.st_mode) && IsInScsiRecovery(status.st_rdev)) {
    return Error(Code::kTimeout,
                 fmt::format("{} does not answer: its SCSI host is recovering from errors", node));
  }
  return Ok();
}

}  // namespace quarry
