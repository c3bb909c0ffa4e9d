// One pass over the mount namespaces finds the mounts, one over the processes their users. A process is
// compared by mount id and device number, never by path: paths differ between mount namespaces.
#include "mount/device_holders.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/call.h"
#include "base/mutex.h"
#include "mount/container_name.h"
#include "mount/process_scan.h"

namespace quarry::mount {
namespace {

constexpr size_t kMostUses = 3;            // of one process, that are described
constexpr size_t kMostCommand = 200;       // bytes of a command line
constexpr size_t kMostDevices = 1000;      // on top of one device: more is a fault of sysfs
constexpr std::chrono::seconds kGrace{2};  // beyond the limit, for what is quick unless it never ends

// "253:3" from a file "dev" of sysfs.
std::optional<DeviceNumber> ParseNumber(const std::string& text) {
  DeviceNumber number;
  const char* const end = text.data() + text.size();
  const auto [colon, bad_major] = std::from_chars(text.data(), end, number.major);
  if (bad_major != std::errc{} || colon == end || *colon != ':') {
    return std::nullopt;
  }
  const auto [rest, bad_minor] = std::from_chars(colon + 1, end, number.minor);
  return bad_minor == std::errc{} && rest == end ? std::optional(number) : std::nullopt;
}

// Looks at the target of a path without a request to a file system that may not answer.
bool Look(const std::string& path, struct statx& st) {
  return statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID,
               &st) == 0;
}

// The words of a command line, which NUL bytes end. Control characters become blanks.
std::string CommandLine(std::string text) {
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  if (text.size() > kMostCommand) {
    text.resize(kMostCommand);
    text += "...";
  }
  return text;
}

// Shared by a search and the caller that waits for it, and may leave it.
struct SharedSearch {
  Mutex mutex;
  std::condition_variable_any changed;
  DeviceHolders found ABSL_GUARDED_BY(mutex);  // so far
  bool done ABSL_GUARDED_BY(mutex) = false;

  void Set(const DeviceHolders& holders, bool at_end) {
    const MutexLock lock(mutex);
    found = holders;
    done = at_end;
    changed.notify_all();
  }
};

class Search {
 public:
  Search(std::string proc, std::string sys, std::vector<int> pids, SharedSearch& shared)
      : proc_(std::move(proc)), sys_(std::move(sys)), pids_(std::move(pids)), shared_(shared) {}

  // Adds `device` and all that is built on it, to the top.
  void Climb(DeviceNumber device) {
    std::vector<DeviceNumber> next = {device};
    while (!next.empty() && devices_.size() < kMostDevices) {
      const DeviceNumber one = next.back();
      next.pop_back();
      if (devices_.contains(one)) {
        continue;
      }
      const DeviceNames& names = devices_.emplace(one, NamesOf(one, sys_)).first->second;
      AddMounts(one, names);
      AddHolders(names, next);
      AddLoops(one, names, next);
    }
  }

  void FindSwaps() {
    const std::string text = ReadWhole(proc_ + "/swaps").value_or("");
    for (const auto& [number, names] : devices_) {
      for (const std::string& node : names.nodes) {
        if (text.find("\n" + node + " ") != std::string::npos) {
          found_.swaps.push_back(node);
        }
      }
    }
  }

  void FindProcesses(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (const int pid : pids_) {
      if (std::chrono::steady_clock::now() >= end) {
        found_.complete = false;
        return;
      }
      if (pid != getpid()) {
        LookAt(pid);
      }
    }
  }

  const DeviceHolders& found() const { return found_; }

  DeviceHolders Done() && {
    if (found_.mounts.empty()) {
      for (const auto& [number, names] : devices_) {
        if (found_.unseen_file_system.empty()) {
          found_.unseen_file_system = ActiveFilesystem(names, sys_);
        }
      }
    }
    return std::move(found_);
  }

 private:
  void AddHolders(const DeviceNames& names, std::vector<DeviceNumber>& next) {
    for (const std::string& holder : ListDirectory(names.directory + "/holders")) {
      const std::string place = fmt::format("{}/holders/{}", names.directory, holder);
      found_.devices.push_back({holder, ReadWord(place + "/dm/name"), names.kernel});
      if (const auto number = ParseNumber(ReadWord(place + "/dev"))) {
        next.push_back(*number);
      }
    }
  }

  // A loop device is no holder in sysfs. Its backing file is the device's node, or a file in one of its
  // mounts.
  void AddLoops(DeviceNumber device, const DeviceNames& names, std::vector<DeviceNumber>& next) {
    for (const std::string& loop : ListDirectory(sys_ + "/block")) {
      const std::string place = sys_ + "/block/" + loop;
      const std::string file = loop.starts_with("loop") ? ReadWord(place + "/loop/backing_file") : "";
      if (file.empty() || !Backs(file, device)) {
        continue;
      }
      found_.devices.push_back({loop, file, names.kernel});
      if (const auto number = ParseNumber(ReadWord(place + "/dev"))) {
        next.push_back(*number);
      }
    }
  }

  bool Backs(const std::string& file, DeviceNumber device) const {
    struct statx st{};
    if (!Look(file, st)) {
      return false;
    }
    const bool is_device =
        S_ISBLK(st.stx_mode) && st.stx_rdev_major == device.major && st.stx_rdev_minor == device.minor;
    const auto mount = mounts_.find(st.stx_mnt_id);
    return is_device || (S_ISREG(st.stx_mode) && mount != mounts_.end() && mount->second == device);
  }

  // Each mount namespace once, through its first process; our own through "self".
  void AddMounts(DeviceNumber device, const DeviceNames& names) {
    std::set<std::string> seen = {ReadLink(proc_ + "/self/ns/mnt")};
    AddMountsOf("self", 0, device, names);
    for (const int pid : pids_) {
      const std::string name_space = ReadLink(fmt::format("{}/{}/ns/mnt", proc_, pid));
      if (!name_space.empty() && seen.insert(name_space).second) {
        AddMountsOf(std::to_string(pid), pid, device, names);
      }
    }
  }

  void AddMountsOf(const std::string& process, int pid, DeviceNumber device, const DeviceNames& names) {
    const auto text = ReadWhole(fmt::format("{}/{}/mountinfo", proc_, process));
    const auto table = text.has_value() ? MountTable::Parse(*text) : Result<MountTable>(text.error());
    if (!table.has_value()) {
      return;
    }
    for (const MountEntry& entry : table->entries()) {
      const MountUse use = UseOf(entry, device, names);
      if (use == MountUse::kNone) {
        continue;
      }
      found_.mounts.push_back({.device = names.kernel,
                               .target = entry.target,
                               .fs_type = use == MountUse::kNode ? "" : entry.fs_type,
                               .read_only = entry.read_only(),
                               .node = use == MountUse::kNode,
                               .pid = pid,
                               .process = pid == 0 ? "" : ReadWord(fmt::format("{}/{}/comm", proc_, pid))});
      if (use == MountUse::kFilesystem) {
        mounts_.emplace(entry.id, device);
        map_marks_.insert(fmt::format(" {:02x}:{:02x} ", entry.device.major, entry.device.minor));
      }
    }
  }

  // Whether a link of /proc leads to one of the devices, or into one of their mounts.
  bool Leads(const std::string& link) const {
    struct statx st{};
    if (!Look(link, st)) {
      return false;
    }
    return mounts_.contains(st.stx_mnt_id) ||
           (S_ISBLK(st.stx_mode) && devices_.contains({st.stx_rdev_major, st.stx_rdev_minor}));
  }

  void LookAt(int pid) {
    const std::string place = fmt::format("{}/{}", proc_, pid);
    HoldingProcess process{.pid = pid};
    const auto add = [&process](std::string use) {
      if (process.uses.size() < kMostUses) {
        process.uses.push_back(std::move(use));
      } else {
        ++process.more_uses;
      }
    };
    for (const auto& [link, words] :
         {std::pair("cwd", "works in"), {"root", "has its root at"}, {"exe", "runs"}}) {
      if (Leads(fmt::format("{}/{}", place, link))) {
        add(fmt::format("{} {}", words, ReadLink(fmt::format("{}/{}", place, link))));
      }
    }
    for (const std::string& fd : ListDirectory(place + "/fd")) {
      if (const std::string link = fmt::format("{}/fd/{}", place, fd); Leads(link)) {
        add(fmt::format("has {} open (fd {})", ReadLink(link), fd));
      }
    }
    if (process.uses.empty()) {
      AddMapped(place, add);  // last: the kernel's work for it is the largest
    }
    if (!process.uses.empty()) {
      Describe(place, process);
      found_.processes.push_back(std::move(process));
      shared_.Set(found_, false);
    }
  }

  // Lines of maps: "55d0c0a00000-55d0c0a21000 r--p 00000000 08:01 1234  /usr/bin/x".
  template <typename Add>
  void AddMapped(const std::string& place, const Add& add) const {
    if (map_marks_.empty()) {
      return;
    }
    const std::string maps = ReadWhole(place + "/maps").value_or("");
    for (std::string_view rest = maps; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      const bool near = std::ranges::any_of(
          map_marks_, [&](const std::string& mark) { return line.find(mark) != std::string_view::npos; });
      const std::string link = fmt::format("{}/map_files/{}", place, line.substr(0, line.find(' ')));
      if (near && Leads(link)) {
        add(fmt::format("maps {}", ReadLink(link)));
        return;
      }
    }
  }

  static void Describe(const std::string& place, HoldingProcess& process) {
    struct stat st{};
    if (stat(place.c_str(), &st) == 0) {
      process.uid = st.st_uid;
    }
    process.name = ReadWord(place + "/comm");
    process.command = CommandLine(ReadWhole(place + "/cmdline").value_or(""));
    process.container = ContainerName(ReadWhole(place + "/cgroup").value_or(""));
  }

  const std::string proc_, sys_;
  const std::vector<int> pids_;
  SharedSearch& shared_;
  std::map<DeviceNumber, DeviceNames> devices_;
  std::map<uint64_t, DeviceNumber> mounts_;  // by mount id, in all namespaces: the file systems only
  std::set<std::string> map_marks_;          // the file systems' device numbers, as lines of maps spell them
  DeviceHolders found_;
};

}  // namespace

Result<DeviceHolders> HoldersOf(DeviceNumber device, const std::string& proc, const std::string& sys,
                                std::chrono::milliseconds limit) {
  QUARRY_ASSIGN(std::vector<int> pids, ProcessScan(proc).Pids());
  if (ListDirectory(sys + "/dev/block").empty()) {
    return Error(Code::kUnavailable, fmt::format("{} shows no block devices", sys));
  }
  // A file of /proc can wait for a process that does not run, and no limit ends a read.
  const auto shared = std::make_shared<SharedSearch>();
  std::thread([shared, device, proc, sys, limit, pids = std::move(pids)] {
    Search search(proc, sys, pids, *shared);
    search.Climb(device);
    search.FindSwaps();
    shared->Set(search.found(), false);
    search.FindProcesses(limit);
    shared->Set(std::move(search).Done(), true);
  }).detach();
  SharedSearch& all = *shared;
  MutexLock lock(all.mutex);
  (void)WaitUntil(all.changed, lock, CallWithin(limit + kGrace),
                  [&all]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all.mutex) { return all.done; });
  DeviceHolders found = all.found;
  found.complete = found.complete && all.done;
  return found;
}

}  // namespace quarry::mount
