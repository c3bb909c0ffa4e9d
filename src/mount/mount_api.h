// The seam to file systems and mounts: what is on a device, mkfs, mount, bind, unmount, grow, and the paths a
// CO names.
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
  DeviceNumber device;  // st_dev of what is mounted; anonymous (major 0) for btrfs and all that has no device
  // The block device below: `device` where that is one; for btrfs, found through `source` by
  // MountApi::Mounts(). 0:0 if there is none or it is not known.
  DeviceNumber backing;
  std::string root;    // path within that file system ("/dm-3" for a bind-mounted node of devtmpfs)
  std::string target;  // mount point
  std::vector<std::string> options;  // per mount: rw, ro, nosuid, …
  // The peer group that this mount shares what is mounted and unmounted below it with; 0: it is not shared.
  uint64_t peer_group = 0;
  std::string fs_type;
  std::string source;
  std::vector<std::string> super_options;  // per file system
  bool read_only() const;                  // "ro" among the per-mount or per-file-system options
};

class MountTable {
 public:
  explicit MountTable(std::vector<MountEntry> entries) : entries_(std::move(entries)) {}
  // kCorrupt naming the line. Pure.
  static Result<MountTable> Parse(std::string_view mountinfo);

  const std::vector<MountEntry>& entries() const { return entries_; }
  // The topmost mount at exactly this path: what a lookup of the path finds, whatever the order of the lines.
  // nullptr if it is no mount point, or if another mount further up hides it.
  const MountEntry* At(const AbsolutePath& target) const;
  // The mount with this id (STATX_MNT_ID of whatever is in it); nullptr if it is not in the table.
  const MountEntry* ById(uint64_t id) const;
  // How many mounts are stacked at exactly this path, hidden ones as for At().
  size_t CountAt(const AbsolutePath& target) const;
  // Every mount of a file system that lives on `device`, hidden ones too.
  std::vector<const MountEntry*> Of(DeviceNumber device) const;

 private:
  // The mounts at exactly this path, bottom first.
  std::vector<const MountEntry*> StackAt(const AbsolutePath& target) const;

  std::vector<MountEntry> entries_;
};

// What is on a device, as libblkid sees it. Only kBlank permits mkfs.
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
  // By ProbeDevice, of a blank device: the first byte that is not zero, where it was looked at (zeroes.h).
  // Data without a signature, or what is left of something that was wiped. nullopt: all of that is zero.
  std::optional<Bytes> residue = {};
};

// mount_flags of a request, split. Valid by construction.
struct MountOptions {
  uint64_t flags = 0;             // MS_* of mount(2)
  uint64_t cleared = 0;           // MS_* that were turned off by name ("suid", "dev", "rw"): an opt-out
  std::vector<std::string> data;  // for the file system: "logbufs=8"; may bear secrets, never logged

  // The same with these MS_* flags on, but for those that were opted out of.
  MountOptions WithDefaults(uint64_t default_flags) const;
  auto operator<=>(const MountOptions&) const = default;
};
// Splits "noatime", "nodev", "discard", "commit=30" … in order: of two that contradict each other the later
// one counts. SELinux contexts (context="…", with commas inside the quotes) are data. kInvalidArgument naming
// the position ("mount_flags[2]"), and the word only if it is one of a fixed list, for what must not be asked
// for: bind, move, remount, propagation, loop, words of fstab, options that name other devices, empty words,
// control characters, commas, quotes; or if it is more than mount(2) takes (4 KiB less one).
Result<MountOptions> ParseMountOptions(const std::vector<std::string>& words);

// MS_* flags that belong to a mount rather than to its file system: those that Bind() can set.
extern const uint64_t kPerMountFlags;
// The kPerMountFlags that are in force at a mount, from its mountinfo words. "ro" of the file system counts.
uint64_t PerMountFlagsOf(const MountEntry& entry);

// A file system we make, by one small registry (filesystems.h in this room).
std::vector<std::string_view> SupportedFilesystems();  // "ext4", "xfs", "btrfs"; the first is the default
bool IsSupportedFilesystem(std::string_view type);
// Smallest device that mkfs of this type makes something sound on (ext4: with a journal); 0 if unsupported.
Bytes MinimumSize(std::string_view fs_type);
// Whether `mkfsoptions` may be given for this type: kInvalidArgument naming the option. Let through is what
// shapes the new file system; refused is what reaches for other devices or files, forces, or only pretends.
Status CheckMkfsOptions(std::string_view fs_type, const std::string& extra_options);

struct MakeFilesystem {
  std::string fs_type;
  std::string device;         // block device node
  std::string extra_options;  // `mkfsoptions` of the class: words split at blanks, no quoting
  Bytes stripe_unit;          // 0: not striped
  uint32_t data_stripes = 1;
  // The device holds what an interrupted mkfs of ours left, and was never mounted: whatever it probes as is
  // overwritten.
  bool overwrite = false;
};

// What came of looking after a file system that is not mounted.
struct CheckReport {
  bool checked = false;    // false: there is no tool for it that may run unasked; mounting replays its log
  bool repaired = false;   // something was wrong, and is right now
  std::string words = {};  // of the tool, if it repaired
};

struct FilesystemUsage {
  Bytes total, used, available;
  uint64_t inodes_total = 0, inodes_used = 0, inodes_free = 0;
};

// What stands at a path. Symbolic links are never followed at the last component.
enum class PathKind { kAbsent, kDirectory, kFile, kOther };

// Any thread. Every blocking call keeps `call`.
class MountApi {
 public:
  virtual ~MountApi() = default;

  virtual Result<MountTable> Mounts() = 0;

  // libblkid safe probe through our own descriptor `fd` (O_RDONLY is enough). kIo if it could not be read.
  virtual Result<Content> Probe(int fd) = 0;
  // The same for a device by its path, opened exclusively, and for a blank one whether it reads as zeroes
  // (Content::residue). kPrecondition: it is mounted or held by another device. kInvalidArgument: no block
  // device. kTimeout: it could not be read within seconds.
  virtual Result<Content> ProbeDevice(const AbsolutePath& device) = 0;
  // Size of the block device behind `fd` (BLKGETSIZE64).
  virtual Result<Bytes> DeviceSize(int fd) = 0;

  // mkfs.<type>. Proves first, through an exclusive open, that the device is blank and unused: kPrecondition
  // naming what is there, nothing touched. With spec.overwrite, what is there is wiped first; unused it must
  // be all the same. kOutOfRange: smaller than MinimumSize(). kInvalidArgument: options that mkfs refuses,
  // with its words, or that we do (no extra devices or files, no dry run). OK means that the file system was
  // seen on the device afterwards. After any other failure the device may hold part of one.
  virtual Status Make(const MakeFilesystem& spec, const Call& call) = 0;

  // Has a file system that is not mounted checked, and what is safe to repair repaired (fsck's "preen"), by a
  // tool that gets so much memory and no more (KernelMountConfig). kCorrupt, with the tool's words: it is
  // damaged beyond that, and must not be mounted. kPrecondition: the device is in use, the memory does not
  // suffice, or there is no tool. kIo: the device could not be read or written.
  virtual Result<CheckReport> Check(std::string_view fs_type, const std::string& device,
                                    const Call& call) = 0;

  // Mounts `device` (a block device node) on the directory `target`, through libmount, no helpers. Nothing is
  // ever stacked: kPrecondition if something is mounted there. kInvalidArgument: an option that the file
  // system does not take, by position in options.data. kCorrupt: the file system is damaged. kUnsupported:
  // the kernel does not have it. kPrecondition too if the mount is for the host and would not reach it
  // (KernelMountConfig).
  virtual Status Mount(const std::string& device, const AbsolutePath& target, std::string_view fs_type,
                       const MountOptions& options, const Call& call) = 0;
  // Bind-mounts `source` (directory, or device node onto a file) on `target`, with the per-mount flags of
  // `options` (ro, nosuid, nodev, noexec, noatime …) set before it becomes visible: open_tree + mount_setattr
  // + move_mount. Other flags and data are the file system's and are not looked at. Never stacked, as for
  // Mount. A device node with nodev is kInvalidArgument; "ro" there does not stop writes to the device.
  virtual Status Bind(const std::string& source, const AbsolutePath& target, const MountOptions& options,
                      const Call& call) = 0;
  // Unmounts the topmost mount at `target`; nothing there is OK. Never lazy, never forced; waits a moment for
  // a holder to go. kPrecondition when busy, naming who holds it where that can be found.
  virtual Status Unmount(const AbsolutePath& target, const Call& call) = 0;

  // Grows the file system mounted at `mount_point` (on `device`) to the size of its device. OK means that its
  // size was measured afterwards, or that it was that large already. kPrecondition: something else is mounted
  // there, or it is read-only.
  virtual Status Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& mount_point,
                      const Call& call) = 0;
  virtual Result<FilesystemUsage> Usage(const AbsolutePath& path) = 0;
  // Discards what the file system mounted at `mount_point` does not use of its bytes from..from+length
  // (FITRIM); how much, by its own account. Not to be interrupted: ask for pieces. kUnsupported: the device,
  // or the file system, does not discard.
  virtual Result<Bytes> Trim(const AbsolutePath& mount_point, Bytes from, Bytes length, const Call& call) = 0;

  // The group that the directory at `path` belongs to.
  virtual Result<uint32_t> GroupOf(const AbsolutePath& path) = 0;
  // Gives the file system mounted at `mount_point` to a group: its root directory belongs to `gid`, which may
  // do everything in it, and what is made there inherits that (set-gid). A root that is so already: OK, and
  // nothing else is looked at. Else everything below is given first and the root last, so that what was cut
  // short is begun again: directories get rwx and set-gid for the group, files rw, symbolic links the group
  // alone, themselves and never what they name; others' permissions stay, but for the set-id bits that the
  // kernel takes from a file with its group. What nobody can change is passed over: immutable and append-only
  // objects, read-only subvolumes of a btrfs. The mount is not left: kPrecondition naming what is mounted
  // below. kPrecondition too if it is no mount point, or read-only. kUnavailable: somebody moved directories
  // meanwhile.
  virtual Status GiveToGroup(const AbsolutePath& mount_point, uint32_t gid, const Call& call) = 0;

  // The path that leads to the same place through no symbolic link, as the mount table spells it: the parent
  // is walked as every lookup walks it, and the last component, which need not exist, is kept. kNotFound: the
  // parent does not exist. kPrecondition naming the link: it leads nowhere, or in a circle.
  virtual Result<AbsolutePath> Resolve(const AbsolutePath& path) = 0;
  virtual Result<PathKind> Inspect(const AbsolutePath& path) = 0;
  // Device number of the block device node that stands at `path` (through a bind mount too); nullopt if it is
  // no block device.
  virtual Result<std::optional<DeviceNumber>> BlockDeviceAt(const AbsolutePath& path) = 0;
  // The file system (st_dev) that `node` of our /dev, the node of `device`, lies in: what a bind mount of it
  // shows as MountEntry::device. nullopt: there is no block device node of that number.
  virtual Result<std::optional<DeviceNumber>> FileSystemOfNode(const std::string& node,
                                                               DeviceNumber device) = 0;
  // Creates the last component only: the parent must exist. There already is OK.
  virtual Status MakeDirectory(const AbsolutePath& path) = 0;
  virtual Status MakeFile(const AbsolutePath& path) = 0;
  // The same, but an empty directory that is no mount point is exchanged for the file, in one step: the path
  // is never missing. A directory with something in it is kPrecondition and stays.
  virtual Status MakeFileFromDirectory(const AbsolutePath& path) = 0;
  // Removes an empty directory or an empty regular file that is no mount point; absent is OK. Anything else
  // there is kPrecondition and stays.
  virtual Status RemovePath(const AbsolutePath& path) = 0;

  // Who uses this block device, for people: "mounted at /x", "mounted in another mount namespace (pid 7,
  // sshd)", "held by dm-5". From sysfs and every /proc/<pid>/mountinfo that can be read. Empty: nobody found.
  virtual Result<std::vector<std::string>> Users(DeviceNumber device) = 0;
  // Processes, but for this one, that have the device node itself open: "pid 12 (qemu)". Walks every
  // descriptor of every process for at most a second: for messages, not for every call.
  virtual Result<std::vector<std::string>> Openers(DeviceNumber device) = 0;
};

}  // namespace quarry::mount
