// The users of a block device, from sysfs and every mount namespace.
#include <unistd.h>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "mount/process_scan.h"

namespace quarry::mount {
namespace {

bool Exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

void AddHolders(const DeviceNames& names, std::vector<std::string>& out) {
  for (const std::string& holder : ListDirectory(names.directory + "/holders")) {
    const std::string mapped = ReadWord(fmt::format("{}/holders/{}/dm/name", names.directory, holder));
    out.push_back(mapped.empty() ? fmt::format("held by {}", holder)
                                 : fmt::format("held by {} ({})", holder, mapped));
  }
}

std::string_view InWords(MountUse use) {
  return use == MountUse::kNode ? "its node is mounted" : "mounted";
}

// Adds the mounts of one mount namespace. `where` describes the namespace; empty for this process's own.
void AddMounts(const std::string& mountinfo, const std::string& where, DeviceNumber device,
               const DeviceNames& names, std::vector<std::string>& out) {
  const auto text = ReadWhole(mountinfo);
  const auto table = text.has_value() ? MountTable::Parse(*text) : Result<MountTable>(text.error());
  if (!table.has_value()) {
    return;
  }
  for (const MountEntry& entry : table->entries()) {
    const MountUse use = UseOf(entry, device, names);
    if (use != MountUse::kNone) {
      const std::string words = fmt::format("{} at {}", InWords(use), entry.target);
      out.push_back(where.empty() ? words : fmt::format("{} in another mount namespace ({})", words, where));
    }
  }
}

}  // namespace

DeviceNames NamesOf(DeviceNumber device, const std::string& sys) {
  DeviceNames names;
  names.directory = fmt::format("{}/dev/block/{}:{}", sys, device.major, device.minor);
  const std::string link = ReadLink(names.directory);
  names.kernel = link.substr(link.rfind('/') + 1);
  names.mapped = ReadWord(names.directory + "/dm/name");
  if (!names.kernel.empty()) {
    names.nodes.push_back("/dev/" + names.kernel);
  }
  if (!names.mapped.empty()) {
    names.nodes.push_back("/dev/mapper/" + names.mapped);
  }
  return names;
}

MountUse UseOf(const MountEntry& entry, DeviceNumber device, const DeviceNames& names) {
  const bool by_number = entry.device == device || entry.backing == device;
  // The device number of a btrfs is anonymous. Its source is the device's name in that mount namespace.
  const bool by_name = entry.device.major == 0 && entry.fs_type == "btrfs" &&
                       std::find(names.nodes.begin(), names.nodes.end(), entry.source) != names.nodes.end();
  if (by_number || by_name) {
    return MountUse::kFilesystem;
  }
  const bool node = entry.fs_type == "devtmpfs" && !names.kernel.empty() && entry.root == "/" + names.kernel;
  return node ? MountUse::kNode : MountUse::kNone;
}

// A file system in use has a directory in sysfs, even if no visible process has a mount of it.
std::string ActiveFilesystem(const DeviceNames& names, const std::string& sys) {
  if (names.kernel.empty()) {
    return "";
  }
  for (const std::string_view type : {"ext4", "xfs"}) {
    if (const std::string path = fmt::format("{}/fs/{}/{}", sys, type, names.kernel); Exists(path)) {
      return path;
    }
  }
  for (const std::string& uuid : ListDirectory(sys + "/fs/btrfs")) {
    if (const std::string path = fmt::format("{}/fs/btrfs/{}/devices/{}", sys, uuid, names.kernel);
        Exists(path)) {
      return path;
    }
  }
  return "";
}

Result<std::vector<std::string>> UsersOf(DeviceNumber device, const std::string& proc,
                                         const std::string& sys) {
  const ProcessScan processes(proc);
  QUARRY_ASSIGN(const std::vector<int> pids, processes.Pids());
  if (!Exists(sys + "/dev/block")) {
    return Error(Code::kUnavailable, fmt::format("{} shows no block devices", sys));
  }
  const DeviceNames names = NamesOf(device, sys);
  std::vector<std::string> users;
  AddHolders(names, users);

  const size_t before_mounts = users.size();
  AddMounts(proc + "/self/mountinfo", "", device, names, users);
  std::set<std::string> seen = {ReadLink(proc + "/self/ns/mnt")};
  for (const int pid : pids) {
    const std::string name_space = ReadLink(fmt::format("{}/{}/ns/mnt", proc, pid));
    if (!name_space.empty() && seen.insert(name_space).second) {
      AddMounts(fmt::format("{}/{}/mountinfo", proc, pid), processes.Describe(pid), device, names, users);
    }
  }
  if (users.size() == before_mounts) {
    if (const std::string active = ActiveFilesystem(names, sys); !active.empty()) {
      users.push_back(
          fmt::format("its file system is in use ({}), although no process shows a mount of it", active));
    }
  }
  return users;
}

}  // namespace quarry::mount
