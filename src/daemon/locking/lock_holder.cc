#include "daemon/locking/lock_holder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quarry::daemon {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamed = 3;

std::string PidNamespace() {
  std::error_code error;
  return fs::read_symlink("/proc/self/ns/pid", error).string();
}

// fdinfo lists the flock of an open file, in every process that shares the open file:
// "lock:	1: FLOCK  ADVISORY  WRITE 412 00:1a:1093 0 EOF" (device and inode).
bool HasFlock(const fs::path& fdinfo, ino_t inode) {
  const std::string number = fmt::format(":{} ", inode);
  std::ifstream in(fdinfo);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("lock:") && line.find("FLOCK") != std::string::npos &&
        line.find(number) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool Holds(const fs::path& process, const struct stat& file) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    // stat() comes last: it may hang on a file of a dead NFS server.
    struct stat open{};
    if (HasFlock(process / "fdinfo" / entry->path().filename(), file.st_ino) &&
        stat(entry->path().c_str(), &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> ShownHolders(int fd) {
  std::vector<std::string> out;
  struct stat file{};
  std::error_code error;
  fs::directory_iterator process("/proc", error);
  for (; fstat(fd, &file) == 0 && !error && process != fs::directory_iterator(); process.increment(error)) {
    const int pid = std::atoi(process->path().filename().c_str());
    if (pid > 0 && out.size() < kNamed && Holds(process->path(), file)) {
      out.push_back(ProcessName(pid));
    }
  }
  return out;
}

}  // namespace

std::string ProcessName(int pid) {
  if (pid <= 0) {
    return "another process";
  }
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  return std::getline(file, name) ? fmt::format("pid {} ({})", pid, name) : fmt::format("pid {}", pid);
}

std::string DescribeSelf() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{} {} {}\n", getpid(), PidNamespace(), host.data());
}

std::string LockHolder(int fd, const std::string& path) {
  if (const auto shown = ShownHolders(fd); !shown.empty()) {
    return fmt::format("{}", fmt::join(shown, ", "));
  }
  std::ifstream in(path);
  int pid = 0;
  std::string space;
  std::string host;
  in >> pid >> space >> host;
  if (pid <= 0 || space.empty() || space == PidNamespace()) {
    return ProcessName(pid);
  }
  return fmt::format("a process of host or container '{}' (pid {} there)", host, pid);
}

}  // namespace quarry::daemon
