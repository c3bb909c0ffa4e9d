#include "mount/process_scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "base/unique_fd.h"

namespace quarry::mount {
namespace {

namespace fs = std::filesystem;

// Reads the status of the target of a link in /proc, without a new request to the file system behind it.
bool Follow(const std::string& link, struct statx& st) {
  return statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID,
               &st) == 0;
}

bool LeadsIntoMount(const std::string& link, uint64_t mount_id) {
  struct statx st{};
  return Follow(link, st) && st.stx_mnt_id == mount_id;
}

bool AnyDescriptor(const std::string& process, const std::function<bool(const std::string&)>& test) {
  const std::vector<std::string> descriptors = ListDirectory(process + "/fd");
  return std::any_of(descriptors.begin(), descriptors.end(),
                     [&](const std::string& name) { return test(process + "/fd/" + name); });
}

// Lines of maps: "55d0c0a00000-55d0c0a21000 r--p 00000000 08:01 1234  /usr/bin/x". The device narrows the
// search. The mapped file is then checked by its mount, because the same file system may be mounted elsewhere
// too.
bool MapsFromMount(const std::string& process, uint64_t mount_id, DeviceNumber file_system) {
  const auto maps = ReadWhole(process + "/maps");
  if (!maps.has_value()) {
    return false;
  }
  const std::string device = fmt::format(" {:02x}:{:02x} ", file_system.major, file_system.minor);
  std::string_view rest = *maps;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find(device) != std::string_view::npos &&
        LeadsIntoMount(fmt::format("{}/map_files/{}", process, line.substr(0, line.find(' '))), mount_id)) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<std::string> ReadWhole(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}", path));
  }
  return ReadRest(fd.get(), path);
}

Result<std::string> ReadRest(int fd, const std::string& path) {
  std::string text;
  std::array<char, 65536> chunk{};
  for (;;) {
    const ssize_t n = read(fd, chunk.data(), chunk.size());
    if (n == 0) {
      return text;
    }
    if (n > 0) {
      text.append(chunk.data(), static_cast<size_t>(n));
    } else if (errno != EINTR) {
      return ErrnoError(fmt::format("reading {}", path));
    }
  }
}

std::string ReadWord(const std::string& path) {
  const std::string text = ReadWhole(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::string ReadLink(const std::string& path) {
  std::error_code error;
  return fs::read_symlink(path, error);
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

ProcessScan::ProcessScan(std::string proc, std::chrono::milliseconds limit)
    : proc_(std::move(proc)), limit_(limit) {}

Result<std::vector<int>> ProcessScan::Pids() const {
  std::vector<int> pids;
  for (const std::string& name : ListDirectory(proc_)) {
    int pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error == std::errc{} && end == name.data() + name.size()) {
      pids.push_back(pid);
    }
  }
  if (pids.empty()) {
    return Error(Code::kUnavailable, fmt::format("{} shows no processes", proc_));
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

std::string ProcessScan::Describe(int pid) const {
  const std::string name = ReadWord(fmt::format("{}/{}/comm", proc_, pid));
  if (pid == getpid()) {
    return fmt::format("this process (pid {})", pid);
  }
  return name.empty() ? fmt::format("pid {}", pid) : fmt::format("pid {} ({})", pid, name);
}

Result<std::vector<std::string>> ProcessScan::Matching(const Test& test, bool ourselves_too,
                                                       size_t most) const {
  const auto end = std::chrono::steady_clock::now() + limit_;
  QUARRY_ASSIGN(const std::vector<int> pids, Pids());
  std::vector<std::string> out;
  for (const int pid : pids) {
    if (out.size() == most || std::chrono::steady_clock::now() >= end) {
      break;
    }
    if ((ourselves_too || pid != getpid()) && test(fmt::format("{}/{}", proc_, pid))) {
      out.push_back(Describe(pid));
    }
  }
  return out;
}

Result<std::vector<std::string>> ProcessScan::HoldersOfMount(uint64_t mount_id, DeviceNumber file_system,
                                                             size_t most) const {
  const auto holds = [&](const std::string& process) {
    const auto inside = [&](const std::string& link) { return LeadsIntoMount(link, mount_id); };
    return inside(process + "/cwd") || inside(process + "/root") || inside(process + "/exe") ||
           AnyDescriptor(process, inside) || MapsFromMount(process, mount_id, file_system);
  };
  return Matching(holds, /*ourselves_too=*/true, most);
}

Result<std::vector<std::string>> ProcessScan::OpenersOf(DeviceNumber device, size_t most) const {
  const auto is_device = [&](const std::string& link) {
    struct statx st{};
    return Follow(link, st) && S_ISBLK(st.stx_mode) && st.stx_rdev_major == device.major &&
           st.stx_rdev_minor == device.minor;
  };
  const auto has = [&](const std::string& process) { return AnyDescriptor(process, is_device); };
  return Matching(has, /*ourselves_too=*/false, most);
}

}  // namespace quarry::mount
