// File systems, mounts and paths without a kernel. A volume's content belongs to its device-mapper UUID, and
// survives deactivation and Reboot(). Mounts and published nodes do not. A copy of the bytes of a device that
// Make has formatted is a copy of its file system.
//
// Simpler than the kernel: paths below a mount point are those of the directory that it hides, and nothing is
// propagated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mount/mount_api.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/faults.h"

namespace quarry::fakes {

// Thread-safe.
class FakeMount final : public mount::MountApi {
 public:
  explicit FakeMount(FakeDm& dm);

  // --- The world's side.

  // The result of probing this device; blank if never set and never formatted.
  void SetContent(const std::string& dm_uuid, mount::Content content);
  mount::Content ContentOf(const std::string& dm_uuid) const;
  // Damage to the file system, and whether a check repairs it automatically. mkfs resets it.
  enum class Damage { kNone, kFixable, kUnfixable };
  void SetDamage(const std::string& dm_uuid, Damage damage);
  Damage DamageOf(const std::string& dm_uuid) const;
  // What ProbeDevice finds on a disk that is not a device-mapper device.
  void SetDiskContent(const std::string& device, mount::Content content);
  // The file system was not unmounted: its log is to be replayed. A mount resets it.
  void SetUnclean(const std::string& dm_uuid, bool unclean);
  // Size of the file system on the volume (not of its device). 0: none.
  Bytes FilesystemSize(const std::string& dm_uuid) const;
  void SetFilesystemSize(const std::string& dm_uuid, Bytes size);

  void AddDirectory(const std::string& path);  // and its parents
  void AddFile(const std::string& path, bool empty = true);
  void AddOther(const std::string& path);  // for example a device node
  // A symbolic link to an absolute path, which need not exist.
  void AddLink(const std::string& path, const std::string& to);
  void RemoveLink(const std::string& path);
  bool Exists(const std::string& path) const;
  // Owner and permissions: of the file system's root where one is mounted, else of the path.
  struct Access {
    uint32_t gid = 0;
    uint32_t mode = 0;  // of 07777
  };
  Access AccessOf(const std::string& path) const;
  void SetAccess(const std::string& path, Access access);
  // Called by Make, Check and GiveToGroup with their names before they change anything; may block until the
  // call ends. Afterwards they continue as the call requires.
  using OnCall = std::function<void(const std::string& method, const Call& call)>;
  void SetOnCall(OnCall on_call);
  // Adds an unmanaged mount there, on top of existing ones.
  void AddForeignMount(const std::string& target, const std::string& fs_type, const std::string& source,
                       mount::DeviceNumber device = {0, 99});
  // A node of `device`, made by a tenant in his file system as `root`, is mounted at `target`.
  void AddNodeMount(const std::string& target, const std::string& root, mount::DeviceNumber device);
  // Unmounting `target` fails, naming the holder; empty: ends that.
  void SetBusy(const std::string& target, const std::string& holder);
  // Additional entries for Users() and Openers(); an empty list clears them.
  void SetUsers(mount::DeviceNumber device, std::vector<std::string> users);
  void SetOpeners(mount::DeviceNumber device, std::vector<std::string> openers);
  // As the kernel does after an error of the file system mounted there: the whole file system becomes
  // read-only.
  void GoReadOnly(const AbsolutePath& target);
  // All mounts go; paths and contents stay. Call FakeDm::Reboot() too.
  void Reboot();

  // The operations so far, in order: "mkfs.ext4 /dev/dm-0", "fsck.ext4 /dev/dm-0", "mount /dev/dm-0 /a",
  // "bind /a /b ro", "umount /b", "grow /a", "group /a 7", "uuid /dev/dm-0". Only those that changed
  // something and succeeded.
  std::vector<std::string> Journal() const;
  std::vector<mount::MakeFilesystem> Made() const;

  // --- MountApi. Faults by method name. A fault of "Make" leaves the device blank. A fault of
  // "MakeInterrupted" leaves what looks like a file system but cannot be mounted.
  Result<mount::MountTable> Mounts() override;
  Result<mount::Content> Probe(int fd) override;
  Result<mount::Content> ProbeDevice(const AbsolutePath& device) override;
  Result<Bytes> DeviceSize(int fd) override;
  Status Make(const mount::MakeFilesystem& spec, const Call& call) override;
  Result<mount::CheckReport> Check(std::string_view fs_type, const std::string& device,
                                   const Call& call) override;
  Status CheckCopyable(std::string_view fs_type, int fd) override;
  Result<std::optional<std::string>> ChangeUuid(std::string_view fs_type, const std::string& device,
                                                const Call& call) override;
  Status Mount(const std::string& device, const AbsolutePath& target, std::string_view fs_type,
               const mount::MountOptions& options, const Call& call) override;
  Status Bind(const std::string& source, const AbsolutePath& target, const mount::MountOptions& options,
              const Call& call) override;
  Status Unmount(const AbsolutePath& target, const Call& call) override;
  Status Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& mount_point,
              const Call& call) override;
  Result<mount::FilesystemUsage> Usage(const AbsolutePath& path) override;
  Result<uint32_t> GroupOf(const AbsolutePath& path) override;
  Status GiveToGroup(const AbsolutePath& mount_point, uint32_t gid, const Call& call) override;
  // Trims all of a piece. The journal has "trim /a <from> <length>".
  Result<Bytes> Trim(const AbsolutePath& mount_point, Bytes from, Bytes length, const Call& call) override;
  // The journal has "sync /a".
  Status SyncFs(const AbsolutePath& mount_point, const Call& call) override;
  Result<AbsolutePath> Resolve(const AbsolutePath& path) override;
  Result<mount::PathKind> Inspect(const AbsolutePath& path) override;
  Result<std::optional<mount::DeviceNumber>> BlockDeviceAt(const AbsolutePath& path) override;
  Result<std::optional<mount::DeviceNumber>> FileSystemOfNode(const std::string& node,
                                                              mount::DeviceNumber device) override;
  Status MakeDirectory(const AbsolutePath& path) override;
  Status MakeFile(const AbsolutePath& path) override;
  Status MakeFileFromDirectory(const AbsolutePath& path) override;
  Status RemovePath(const AbsolutePath& path) override;
  Result<std::vector<std::string>> Users(mount::DeviceNumber device) override;
  Result<std::vector<std::string>> Openers(mount::DeviceNumber device) override;

  Faults faults;

 private:
  struct Path {
    mount::PathKind kind = mount::PathKind::kDirectory;
    bool empty = true;  // of a file
    Access access = {0, 0755};
    std::string link = {};  // the target of a symbolic link
  };
  struct Volume {
    mount::Content content;
    Bytes filesystem_size;
    bool half_made = false;
    Access root = {0, 0755};
    Damage damage = Damage::kNone;
    bool unclean = false;
  };
  using Entry = mount::MountEntry;

  mount::MountTable TableLocked() const { return mount::MountTable(mounts_); }
  mount::PathKind KindLocked(const std::string& path) const;
  // The same place as a path without links above its last component; the path itself if it leads nowhere.
  AbsolutePath LedLocked(const AbsolutePath& path) const;
  Result<std::string> FollowLocked(const std::string& directory, int links) const;
  // The mount that a path is in.
  Entry MountOfLocked(const std::string& path) const;
  Status CheckTargetLocked(const AbsolutePath& target, mount::PathKind wanted) const;
  void TellCall(const std::string& method, const Call& call);
  // nullptr: the path does not exist. For a mounted volume its root.
  Access* AccessLocked(const std::string& path);
  Status CheckParentLocked(const AbsolutePath& path) const;
  bool IsHeldLocked(const std::string& uuid) const;
  Status CheckMakeLocked(const mount::MakeFilesystem& spec, const std::string& uuid) const;
  void AddMountLocked(Entry entry);
  // What is on the device. mkfs leaves a mark in the bytes of a device, so a device to which these bytes
  // were copied has a file system like it.
  Volume& VolumeLocked(const std::string& uuid);
  void MarkLocked(const std::string& uuid);
  Entry BindDirectoryLocked(const std::string& source) const;
  std::optional<Entry> BindNodeLocked(const std::string& source) const;

  FakeDm& dm_;
  mutable std::mutex mutex_;
  uint64_t next_id_ = 1;
  std::vector<Entry> mounts_;
  std::map<uint64_t, std::string> holds_;  // mount id → dm uuid of the device that the file system keeps open
  std::map<uint64_t, mount::DeviceNumber> nodes_;  // mount id → number of a node that is not in devtmpfs
  std::map<std::string, Path> paths_;
  std::map<std::string, Volume> volumes_;        // by dm uuid
  std::map<std::string, mount::Content> disks_;  // by path
  std::map<std::string, std::string> busy_;
  std::map<mount::DeviceNumber, std::vector<std::string>> users_;
  std::map<mount::DeviceNumber, std::vector<std::string>> openers_;
  OnCall on_call_;
  std::vector<std::string> journal_;
  std::vector<mount::MakeFilesystem> made_;
  uint32_t made_count_ = 0;
};

}  // namespace quarry::fakes
