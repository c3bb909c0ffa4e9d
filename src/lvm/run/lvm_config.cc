#include "lvm/run/lvm_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace quarry::lvm {
namespace {

struct Setting {
  const char* section;
  std::string_view line;
  const char* why;
};

// All other settings are LVM's defaults. Figures: one `lvs` on a small group, natively.
constexpr Setting kSettings[] = {
    {"global", "use_aio = 0",
     "9 ms per command, not 44: io_destroy() waits for an RCU grace period. LVM obeys this setting only in "
     "this file"},
    {"global", "wait_for_locks = 1", "queue behind the host's lvm; the caller's deadline ends the wait"},
    {"global", "use_lvmlockd = 0", "local groups only"},
    {"global", "use_lvmpolld = 0", "quarryd waits for its commands itself; no daemon watches them"},
    {"global", "notify_dbus = 0", "no round trip to a bus that may not answer"},
    {"global", "event_activation = 0", "quarryd activates volumes itself"},
    {"devices", "use_devicesfile = 0",
     "the host's devices file says what the host's lvm may see, not what a pool is"},
    {"devices", "obtain_device_list_from_udev = 0", "no wait for, and no trust in, a udev database"},
    {"devices", "external_device_info_source = \"none\"", "likewise"},
    {"devices", "hints = \"none\"",
     "the hint file is keyed by filter: the host's lvm and quarryd's would overwrite each other's"},
    {"devices", "scan_lvs = 0", "a PV that a tenant makes inside a volume is the tenant's, never ours"},
    {"devices", "md_component_detection = 1", "never take half of an md array for a PV"},
    {"devices", "multipath_component_detection = 1", "nor one path of a multipath device"},
    {"devices", "issue_discards = 0", "quarryd erases before it removes an LV, so that lvremove is quick"},
    {"activation", "udev_sync = 0",
     "no cookies: another IPC namespace or a dead udevd would hang the command beyond SIGTERM"},
    {"activation", "udev_rules = 0",
     "libdm makes the nodes. Needs udev_sync = 0, too: one alone breaks raid creation"},
    {"activation", "monitoring = 0", "no dmeventd is started; quarryd watches health"},
    {"activation", "retry_deactivation = 1", "udevd and blkid open devices for moments"},
    {"activation", "raid_fault_policy = \"warn\"", "quarryd decides on repairs"},
    {"allocation", "raid_stripe_all_devices = 0", "stripes are what the command says, never all disks"},
    {"backup", "backup = 0", "no backup files after each commit; LVM keeps its metadata on every PV"},
    {"backup", "archive = 0", "likewise, and the archive grows with every change"},
    {"report", "time_format = \"%s\"", "seconds since 1970, whatever the host's lvm.conf says"},
    {"log", "syslog = 0", "messages go to the caller, which logs them once with their context"},
    {"log", "command_names = 0", "plain messages on standard error"},
    {"log", "report_command_log = 0",
     "messages stay on standard error with JSON reports: lvm2 2.03.31 puts them into the document by "
     "default"},
};

Status CheckPath(std::string_view path) {
  const bool plain = path.starts_with('/') && std::ranges::none_of(path, [](unsigned char c) {
                       return c < 0x20 || c == 0x7f || c == '"' || c == '\'' || c == '\\';
                     });
  if (!plain) {
    return Error(Code::kInvalidArgument, fmt::format("'{}' cannot be a path in lvm.conf", path));
  }
  return Ok();
}

Status WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) {
      return ErrnoError("write");
    }
    text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  return Ok();
}

Status WriteFile(const std::string& path, std::string_view text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return ErrnoError("open");
  }
  QUARRY_TRY(WriteAll(fd.get(), text));
  if (fsync(fd.get()) != 0) {
    return ErrnoError("fsync");
  }
  return Ok();
}

bool HoldsAlready(const std::string& path, std::string_view text) {
  std::ifstream in(path, std::ios::binary);
  return in.is_open() && std::string(std::istreambuf_iterator<char>(in), {}) == text;
}

}  // namespace

Result<std::string> LvmConfText(const LvmConfig& config) {
  QUARRY_TRY(CheckPath(config.system_dir));
  QUARRY_TRY(CheckPath(config.locking_dir));
  std::string scan;
  for (const std::string& dir : config.scan_dirs) {
    QUARRY_TRY(CheckPath(dir));
    scan += fmt::format("{} \"{}\"", scan.empty() ? "" : ",", dir);
  }
  std::string out = "# Written by quarryd at each start; changes are lost.\n";
  for (const Setting& setting : kSettings) {
    out += fmt::format("# {}\n{}/{}\n", setting.why, setting.section, setting.line);
  }
  out += fmt::format("global/locking_dir = \"{}\"\ndevices/scan = [{} ]\n", config.locking_dir, scan);
  return out;
}

Status WriteLvmConfig(const LvmConfig& config) {
  QUARRY_ASSIGN(const std::string text, LvmConfText(config));
  const std::string path = config.system_dir + "/lvm.conf";
  if (HoldsAlready(path, text)) {
    return Ok();
  }
  std::error_code error;
  std::filesystem::create_directories(config.system_dir, error);
  if (error || chmod(config.system_dir.c_str(), 0700) != 0) {
    return ErrnoError(fmt::format("making {}", config.system_dir), error ? error.value() : errno);
  }
  const std::string fresh = path + ".new";
  QUARRY_TRY(WriteFile(fresh, text).Context(fmt::format("writing {}", fresh)));
  if (rename(fresh.c_str(), path.c_str()) != 0) {
    return ErrnoError(fmt::format("renaming {} to {}", fresh, path));
  }
  return Ok();
}

}  // namespace quarry::lvm
