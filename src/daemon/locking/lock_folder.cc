#include "daemon/locking/lock_folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/path.h"
#include "base/unique_fd.h"

namespace quarry::daemon {
namespace {

namespace fs = std::filesystem;

// The PID namespace that the kernel starts with (PROC_PID_INIT_INO of linux/proc_ns.h).
constexpr char kFirstPidNamespace[] = "pid:[4026531836]";
constexpr size_t kLongestConf = 1 << 20;

std::string Namespace(const LockFolderPlaces& places, const char* process, const char* kind) {
  std::error_code error;
  return fs::read_symlink(fmt::format("{}/{}/ns/{}", places.proc, process, kind), error).string();
}

// Opens `path` as a process with the root directory `root` sees it, including links.
UniqueFd OpenIn(const UniqueFd& root, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_IN_ROOT;
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how))));
}

std::string TextIn(const UniqueFd& root, const std::string& path) {
  const UniqueFd fd = OpenIn(root, path, O_RDONLY);
  std::string text;
  std::array<char, 65536> chunk{};
  for (ssize_t n = 0;
       fd.valid() && text.size() < kLongestConf && (n = read(fd.get(), chunk.data(), chunk.size())) > 0;) {
    text.append(chunk.data(), static_cast<size_t>(n));
  }
  return text;
}

// Where an LVM with this root directory keeps its locks.
std::string HostFolder(const UniqueFd& root, const std::string& otherwise) {
  std::string found = otherwise;
  for (const char* conf : {"/etc/lvm/lvm.conf", "/etc/lvm/lvmlocal.conf"}) {  // the latter overrides
    const std::string set = LockingDirOf(TextIn(root, conf));
    found = set.empty() ? found : set;
  }
  return found;
}

Result<bool> IsSameFolder(const UniqueFd& root, const std::string& path, const struct stat& ours) {
  const UniqueFd fd = OpenIn(root, path, O_PATH | O_DIRECTORY);
  struct stat theirs{};
  if (!fd.valid() && (errno == ENOENT || errno == ENOTDIR)) {
    return false;
  }
  if (!fd.valid() || fstat(fd.get(), &theirs) != 0) {
    return ErrnoError(fmt::format("looking at '{}' as the host's process 1 sees it (openat2)", path));
  }
  return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

// The folder, within its file system, that is mounted at our lock folder (proc_pid_mountinfo(5)). nullopt:
// our lock folder is no mount point.
std::optional<std::string> MountedHere(const LockFolderPlaces& places) {
  std::ifstream in(places.proc + "/self/mountinfo");
  std::optional<std::string> found;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, target;
    words >> id >> parent >> device >> root >> target;
    if (target == places.folder) {
      found = root;  // the last of several mounts lies on top
    }
  }
  return found;
}

// `root` is the mounted folder within its file system. The host's is called "lvm". A file system of the
// container alone has the root "/". A volume of a container runtime has another name. An emptyDir may have
// any name.
bool MayBeTheHosts(const std::string& root) {
  return root.ends_with("/lvm") && root.find("kubernetes.io~empty-dir") == std::string::npos;
}

Status MakeFolder(const AbsolutePath& folder) {
  for (const AbsolutePath& path : {folder.Parent(), folder}) {
    const mode_t mode = path == folder ? 0700 : 0755;
    if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoError(fmt::format("making LVM's lock folder '{}'", path.str()));
    }
  }
  return Ok();
}

Error NotTheHosts(const LockFolderPlaces& places, const std::string& host_folder) {
  return Error(
      Code::kPrecondition,
      fmt::format("LVM's lock folder '{0}' is not the one that the host's LVM uses, '{1}': other LVM "
                  "commands, and another quarryd, would change the same volume groups at the same time. "
                  "Mount the host's '{1}' at '{0}'",
                  places.folder, host_folder));
}

Error NotMounted(const LockFolderPlaces& places) {
  return Error(
      Code::kPrecondition,
      fmt::format("LVM's lock folder '{0}' lies in this container's own file system. Locks there exclude no "
                  "process outside the container: other LVM commands, and another quarryd, would change "
                  "the same volume groups at the same time. Mount the host's '{0}' at '{0}'",
                  places.folder));
}

Error NotByItsName(const LockFolderPlaces& places, const std::string& root) {
  return Error(
      Code::kPrecondition,
      fmt::format(
          "LVM's lock folder '{0}' is a mount of '{1}', which by its name is not the host's lock folder, and "
          "the host's process 1 cannot be inspected to confirm it. Locks in a container's own folder exclude "
          "no process outside the container. Mount the host's '{0}' at '{0}'; if the host's lvm.conf names "
          "another folder, mount that one and let quarryd see the host's processes (hostPID)",
          places.folder, root));
}

}  // namespace

std::string LockingDirOf(const std::string& lvm_conf) {
  std::string found;
  std::istringstream in(lvm_conf);
  for (std::string line; std::getline(in, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    constexpr std::string_view kKey = "locking_dir";
    const size_t key = line.find(kKey);
    if (key == std::string::npos || (key > 0 && line[key - 1] == '_')) {
      continue;
    }
    const size_t equals = line.find_first_not_of(" \t", key + kKey.size());
    const size_t open = equals == std::string::npos || line[equals] != '=' ? equals : line.find('"', equals);
    const size_t close = open == std::string::npos ? open : line.find('"', open + 1);
    if (close != std::string::npos && line[open] == '"') {
      found = line.substr(open + 1, close - open - 1);
    }
  }
  return found;
}

Status CheckLockFolder(const LockFolderPlaces& places) {
  QUARRY_ASSIGN(const AbsolutePath folder, AbsolutePath::Parse(places.folder));
  QUARRY_TRY(MakeFolder(folder));
  struct stat ours{};
  if (stat(folder.c_str(), &ours) != 0) {
    return ErrnoError(fmt::format("looking at LVM's lock folder '{}'", folder.str()));
  }
  const UniqueFd root(open((places.proc + "/1/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string host_folder = root.valid() ? HostFolder(root, places.folder) : places.folder;
  QUARRY_ASSIGN(const bool same, root.valid() ? IsSameFolder(root, host_folder, ours) : Result<bool>(false));
  const bool first_pids = Namespace(places, "self", "pid") == kFirstPidNamespace;
  const std::string mounts = Namespace(places, "self", "mnt");
  const bool shares_mounts = !mounts.empty() && mounts == Namespace(places, "1", "mnt");
  if (first_pids && root.valid()) {  // process 1 is the host's
    return same ? Ok() : Status(NotTheHosts(places, host_folder));
  }
  // Here process 1 cannot be inspected, or it belongs to this container or to the container around it. In the
  // first case, the folder is accepted if this process shares the mounts of process 1. In the second case, it
  // is accepted if process 1 has other mounts than this process, and nevertheless the same folder.
  if (first_pids ? shares_mounts : same && !shares_mounts) {
    return Ok();
  }
  const auto mounted = MountedHere(places);
  if (!mounted.has_value()) {
    return NotMounted(places);
  }
  return MayBeTheHosts(*mounted) ? Ok() : Status(NotByItsName(places, *mounted));
}

}  // namespace quarry::daemon
