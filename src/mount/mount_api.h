// The seam to file systems and mounts: content of a device, mkfs, mount, bind, unmount, grow, and the paths
// that an orchestrator names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"
#include "base/units.h"

namespace quarry::mount {

struct DeviceNumber {
  uint32_t major = 0;
  uint32_t minor = 0;
  auto operator<=>(const DeviceNumber&) const = default;
};

// One line of /proc/self/mountinfo (proc(5)), escapes decoded.
struct MountEntry {
  uint64_t id = 0;
  uint64_t parent_id = 0;
  DeviceNumber device;  // st_dev of the file system; anonymous (major 0) for btrfs or without a device
  // The block device below the file system. It is `device` if that is a block device. For btrfs,
  // MountApi::Mounts() finds it through `source`. 0:0 if there is none or it is not known.
  DeviceNumber backing;
  std::string root;    // path within that file system ("/dm-3" for a bind-mounted node of devtmpfs)
  std::string target;  // mount point
  std::vector<std::string> options;  // per mount: rw, ro, nosuid, …
  // The peer group of this mount; 0: not shared. A mount or unmount below one member of a peer group also
  // happens below every other member.
  uint64_t peer_group = 0;
  std::string fs_type;
  std::string source;
  std::vector<std::string> super_options;  // per file system
  bool read_only() const;                  // "ro" among the per-mount or per-file-system options
};

class MountTable {
 public:
  explicit MountTable(std::vector<MountEntry> entries) : entries_(std::move(entries)) {}
  // kCorrupt names the faulty line. Pure.
  static Result<MountTable> Parse(std::string_view mountinfo);

  const std::vector<MountEntry>& entries() const { return entries_; }
  // The topmost mount at exactly this path, which a lookup of the path finds, whatever the order of the
  // lines. nullptr if the path is not a mount point, or if a mount further up hides it.
  const MountEntry* At(const AbsolutePath& target) const;
  // The mount with this id (STATX_MNT_ID of any file in it); nullptr if the table does not have it.
  const MountEntry* ById(uint64_t id) const;
  // Every mount of a file system on `device`, including hidden mounts.
  std::vector<const MountEntry*> Of(DeviceNumber device) const;

 private:
  std::vector<MountEntry> entries_;
};

// The content of a device, as libblkid sees it. Only kBlank permits mkfs.
struct Content {
  enum class Kind {
    kBlank,       // no signature, no partition table
    kFilesystem,  // exactly one file system
    kOther,       // something else: a PV, LUKS, swap, a partition table
    kAmbiguous,   // several signatures
  };
  Kind kind = Kind::kBlank;
  std::string type;  // "ext4", "LVM2_member", "gpt", …; empty if blank or ambiguous
  std::string uuid;  // of the file system, if any
  // Set by ProbeDevice for a blank device: the first byte that is not zero in the sampled places (zeroes.h).
  // Such a byte is data without a signature, or a remainder of wiped data. nullopt: all samples are zero.
  std::optional<Bytes> residue = {};
};

// An option for the file system: "logbufs=8".
struct DataOption {
  std::string text;  // may contain secrets, never logged
  size_t index = 0;  // in mount_flags, from 0
  auto operator<=>(const DataOption&) const = default;
};

// The mount_flags of a request, split. Made by ParseMountOptions.
struct MountOptions {
  uint64_t flags = 0;    // MS_* of mount(2)
  uint64_t cleared = 0;  // MS_* that were turned off by name ("suid", "dev", "rw"): an opt-out
  std::vector<DataOption> data;

  // A copy with these MS_* flags set, except those that were opted out of.
  MountOptions WithDefaults(uint64_t default_flags) const;
  auto operator<=>(const MountOptions&) const = default;
};
// Splits words such as "noatime", "nodev", "discard" and "commit=30" into flags and data. If two words
// contradict each other, the later word counts. An SELinux context (context="…") is data, and only a context
// may have quotes and commas. kInvalidArgument names the position ("mount_flags[2]") of a refused word. It
// quotes the word only if the word is in a fixed list. These are refused: bind, move, remount, propagation,
// loop, mount helpers, words of fstab, options that name other devices, empty words, blanks, control
// characters, commas, quotes, backslashes, and more text than mount(2) takes (4 KiB less one).
Result<MountOptions> ParseMountOptions(const std::vector<std::string>& words);

// The file systems that Quarry makes, from one small registry (filesystems.h in this room).
std::vector<std::string_view> SupportedFilesystems();  // "ext4", "xfs", "btrfs"; the first is the default
bool IsSupportedFilesystem(std::string_view type);
// The smallest device on which mkfs of this type makes a sound file system (ext4: with a journal); 0 if the
// type is not supported.
Bytes MinimumSize(std::string_view fs_type);
// Whether `mkfsoptions` is allowed for this type. kInvalidArgument names the refused option. Options that
// shape the new file system are allowed. Options that name other devices or files, override a refusal of mkfs
// (force), or only simulate are refused.
Status CheckMkfsOptions(std::string_view fs_type, const std::string& extra_options);

struct MakeFilesystem {
  std::string fs_type;
  std::string device;         // block device node
  std::string extra_options;  // `mkfsoptions` of the storage class: words split at blanks, no quoting
  Bytes stripe_unit;          // 0: not striped
  uint32_t data_stripes = 1;
  // The device holds the result of an interrupted mkfs by Quarry and was never mounted. Whatever the probe
  // finds is overwritten.
  bool overwrite = false;
};

// The result of checking a file system that is not mounted.
struct CheckReport {
  bool checked = false;    // false: no tool may run without an administrator; the mount replays the log
  bool repaired = false;   // a fault was found and repaired
  std::string words = {};  // output of the tool, if it repaired
};

struct FilesystemUsage {
  Bytes total, used, available;
  uint64_t inodes_total = 0, inodes_used = 0, inodes_free = 0;
};

// The kind of object at a path. Symbolic links are never followed at the last component.
enum class PathKind { kAbsent, kDirectory, kFile, kOther };

// Callable from any thread. A method with a `call` ends with that call, but not during a system call: Trim,
// for example, cannot be interrupted. These methods have no `call`, and may block: Mounts, Probe, ProbeDevice
// (samples a device for up to 10 s), DeviceSize, Usage, GroupOf, Users, Openers (up to 1 s), Resolve, and the
// other methods that take paths.
class MountApi {
 public:
  virtual ~MountApi() = default;

  virtual Result<MountTable> Mounts() = 0;

  // Probes a device with libblkid's safe probe, through the caller's own descriptor `fd` (O_RDONLY is
  // enough). kIo if the device could not be read.
  virtual Result<Content> Probe(int fd) = 0;
  // The same for a device by its path, opened exclusively. For a blank device it also finds whether the
  // device reads as zeroes (Content::residue). kPrecondition: the device is mounted or held by another
  // device. kInvalidArgument: not a block device. kTimeout: the device could not be read within seconds.
  virtual Result<Content> ProbeDevice(const AbsolutePath& device) = 0;
  // Size of the block device behind `fd` (BLKGETSIZE64).
  virtual Result<Bytes> DeviceSize(int fd) = 0;

  // Runs mkfs.<type>. First proves, through an exclusive open, that the device is blank and unused; if not,
  // kPrecondition names its content and nothing is changed. With spec.overwrite the content is wiped first,
  // but the device must still be unused. kOutOfRange: the device is smaller than MinimumSize().
  // kInvalidArgument: Quarry refuses the options (CheckMkfsOptions), or mkfs failed with extra options; then
  // its text is in the message. mkfs's exit status does not tell why it failed, so every failure with extra
  // options is kInvalidArgument, except an I/O error (kIo). OK means that the file system was seen on the
  // device afterwards. Once mkfs has run, the device may hold part of a file system after any failure,
  // including kInvalidArgument.
  virtual Status Make(const MakeFilesystem& spec, const Call& call) = 0;

  // Checks a file system that is not mounted, and repairs what is safe to repair (fsck's "preen"). The tool
  // gets limited memory (KernelMountConfig). kCorrupt, with the tool's text: the damage goes beyond that, and
  // the file system must not be mounted. kPrecondition: the device is in use, the memory does not suffice, or
  // there is no tool. kIo: the device could not be read or written.
  virtual Result<CheckReport> Check(std::string_view fs_type, const std::string& device,
                                    const Call& call) = 0;

  // Whether a copy of the file system behind `fd` can be used beside it. The file system is not mounted.
  // kPrecondition: a btrfs has a log that was not replayed (it was not unmounted), so it cannot get another
  // UUID, and the kernel takes two btrfs with one UUID for one.
  virtual Status CheckCopyable(std::string_view fs_type, int fd) = 0;
  // Gives the file system on the device, a copy, a random UUID, and returns it. Other descriptors of the
  // device may be open, but not with O_EXCL. nullopt: the tool refuses the file system as it is, and nothing
  // has changed; the kernel tells it from its source all the same (an xfs with a log that was not replayed,
  // an ext4 whose checksums depend on the UUID). kPrecondition: the device is in use, there is no tool, or
  // CheckCopyable refuses. kCorrupt: it does not hold this file system. After any other error the file system
  // may be damaged.
  virtual Result<std::optional<std::string>> ChangeUuid(std::string_view fs_type, const std::string& device,
                                                        const Call& call) = 0;

  // Mounts `device` (a block device node) on the directory `target`, through libmount, without helpers.
  // Mounts are never stacked: kPrecondition if something is mounted at `target`. kInvalidArgument: the file
  // system does not accept an option, named by its position ("mount_flags[2]"). kCorrupt: the file system is
  // damaged, or mount(2) fails with EINVAL and no option is known to be refused: a file system with the same
  // UUID may be mounted, or an option may have a bad value. kUnsupported: the kernel does not have the file
  // system. Also kPrecondition if the mount is for the host and would not reach it (KernelMountConfig).
  virtual Status Mount(const std::string& device, const AbsolutePath& target, std::string_view fs_type,
                       const MountOptions& options, const Call& call) = 0;
  // Bind-mounts `source` (a directory, or a device node onto a file) on `target`. The per-mount flags of
  // `options` (ro, nosuid, nodev, noexec, noatime …) are set before the mount becomes visible: open_tree +
  // mount_setattr + move_mount. Other flags and data belong to the file system and are ignored. Mounts are
  // never stacked, as for Mount. A device node with nodev is kInvalidArgument; "ro" on a device node does not
  // stop writes to the device.
  virtual Status Bind(const std::string& source, const AbsolutePath& target, const MountOptions& options,
                      const Call& call) = 0;
  // Unmounts the topmost mount at `target`. OK if nothing is mounted there. The unmount is never lazy and
  // never forced. A busy mount is tried again for a moment, because many holders end soon. kPrecondition if
  // the mount stays busy; the error names the holders that can be found.
  virtual Status Unmount(const AbsolutePath& target, const Call& call) = 0;

  // Grows the file system mounted at `mount_point` (on `device`) to the size of its device. OK means that the
  // size was measured afterwards, or that the file system already had this size. kPrecondition: something
  // else is mounted there, or the mount is read-only.
  virtual Status Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& mount_point,
                      const Call& call) = 0;
  virtual Result<FilesystemUsage> Usage(const AbsolutePath& path) = 0;
  // Discards the unused parts of the bytes from..from+length of the file system mounted at `mount_point`
  // (FITRIM). Returns the number of bytes that the file system reports. The call cannot be interrupted, so
  // trim a part at a time. kUnsupported: the device or the file system does not support discards.
  virtual Result<Bytes> Trim(const AbsolutePath& mount_point, Bytes from, Bytes length, const Call& call) = 0;

  // Writes back what the file system mounted at `mount_point` has in memory (syncfs(2)). Waits for its disks;
  // the call cannot be interrupted. kPrecondition: it is not a mount point.
  virtual Status SyncFs(const AbsolutePath& mount_point, const Call& call) = 0;

  // The group that the directory at `path` belongs to.
  virtual Result<uint32_t> GroupOf(const AbsolutePath& path) = 0;
  // Gives the file system mounted at `mount_point` to a group. Its root directory then belongs to `gid`, with
  // rwx for the group, and new files inherit the group (set-gid). If the root already has this group and
  // these permissions, nothing else is examined. Otherwise everything below is given first and the root last,
  // so an interrupted call starts again. Directories get rwx and set-gid for the group, and files get rw. A
  // symbolic link gets the group alone, itself and never its target. Permissions of others stay, except
  // set-id bits, which the kernel clears when a file changes its group. Objects that cannot be changed at all
  // are skipped: immutable and append-only objects, read-only subvolumes of a btrfs. The walk stays within
  // the mount: kPrecondition names a mount below. Also kPrecondition if `mount_point` is not a mount point or
  // is read-only. kUnavailable: another process moved directories meanwhile.
  virtual Status GiveToGroup(const AbsolutePath& mount_point, uint32_t gid, const Call& call) = 0;

  // The path to the same place without symbolic links, as the mount table spells it. The parent is resolved
  // as in every lookup. The last component is kept and need not exist. kNotFound: the parent does not exist.
  // kPrecondition names the link that leads nowhere or in a circle.
  virtual Result<AbsolutePath> Resolve(const AbsolutePath& path) = 0;
  virtual Result<PathKind> Inspect(const AbsolutePath& path) = 0;
  // Device number of the block device node at `path` (also through a bind mount); nullopt if there is no
  // block device node at `path`.
  virtual Result<std::optional<DeviceNumber>> BlockDeviceAt(const AbsolutePath& path) = 0;
  // `node` is the path of the node of `device` in this process's /dev. Returns the device number (st_dev) of
  // the file system that contains the node. A bind mount of the node has that number as MountEntry::device.
  // nullopt: at `node` there is no block device node of `device`.
  virtual Result<std::optional<DeviceNumber>> FileSystemOfNode(const std::string& node,
                                                               DeviceNumber device) = 0;
  // Creates only the last component; the parent must exist. OK if the directory already exists.
  virtual Status MakeDirectory(const AbsolutePath& path) = 0;
  // The same for an empty regular file. OK if a regular file already exists.
  virtual Status MakeFile(const AbsolutePath& path) = 0;
  // Like MakeFile. But an empty directory that is not a mount point is exchanged for the file in one step, so
  // the path is never missing. A directory that is not empty stays: kPrecondition.
  virtual Status MakeFileFromDirectory(const AbsolutePath& path) = 0;
  // Removes an empty directory or an empty regular file that is not a mount point. OK if the path is absent.
  // Any other object stays: kPrecondition.
  virtual Status RemovePath(const AbsolutePath& path) = 0;

  // The users of this block device, for messages: "mounted at /x", "mounted in another mount namespace (pid
  // 7, sshd)", "held by dm-5". Taken from sysfs and from every /proc/<pid>/mountinfo that can be read. Empty:
  // no user was found.
  virtual Result<std::vector<std::string>> Users(DeviceNumber device) = 0;
  // Other processes that have the device node itself open: "pid 12 (qemu)". Scans every descriptor of every
  // process for at most a second, so use it for messages only.
  virtual Result<std::vector<std::string>> Openers(DeviceNumber device) = 0;
};

}  // namespace quarry::mount
