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
  DeviceNumber device;  // st_dev of what is mounted
  std::string root;     // path within that file system ("/dm-3" for a bind-mounted node of devtmpfs)
  std::string target;   // mount point
  std::vector<std::string> options;  // per mount: rw, ro, nosuid, …
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
  // The topmost mount at exactly this path (the last one made there); nullptr if it is no mount point.
  const MountEntry* At(const AbsolutePath& target) const;
  // How many mounts are stacked at exactly this path.
  size_t CountAt(const AbsolutePath& target) const;
  // Every mount of a file system that lives on `device`.
  std::vector<const MountEntry*> Of(DeviceNumber device) const;

 private:
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
};

// mount_flags of a request, split. Valid by construction.
struct MountOptions {
  uint64_t flags = 0;             // MS_* of mount(2)
  std::vector<std::string> data;  // for the file system: "logbufs=8"; may bear secrets, never logged
  auto operator<=>(const MountOptions&) const = default;
};
// Splits "noatime", "nodev", "discard", "commit=30" …  kInvalidArgument for what must not be asked for (bind,
// move, remount, propagation flags, loop, empty words, words with NUL or comma) naming the position, not the
// text.
Result<MountOptions> ParseMountOptions(const std::vector<std::string>& words);

// A file system we make, by one small registry (filesystems.h in this room).
std::vector<std::string_view> SupportedFilesystems();  // "ext4", "xfs", "btrfs"; the first is the default
bool IsSupportedFilesystem(std::string_view type);
// Smallest device that mkfs of this type accepts.
Bytes MinimumSize(std::string_view fs_type);

struct MakeFilesystem {
  std::string fs_type;
  std::string device;         // block device node
  std::string extra_options;  // `mkfsoptions` of the class: words split at blanks, no quoting
  Bytes stripe_unit;          // 0: not striped
  uint32_t data_stripes = 1;
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
  // Size of the block device behind `fd` (BLKGETSIZE64).
  virtual Result<Bytes> DeviceSize(int fd) = 0;

  // mkfs.<type>. Refuses a device that does not probe blank. kInvalidArgument if mkfs refuses the options,
  // with its words.
  virtual Status Make(const MakeFilesystem& spec, const Call& call) = 0;

  // Mounts `device` (a block device node) on the directory `target`. mount(2) through libmount, no helpers.
  virtual Status Mount(const std::string& device, const AbsolutePath& target, std::string_view fs_type,
                       const MountOptions& options, const Call& call) = 0;
  // Bind-mounts `source` (directory, or device node onto a file) on `target`, with the per-mount flags of
  // `options` (ro, nosuid, nodev, noexec, noatime …) set before it becomes visible: open_tree + mount_setattr
  // + move_mount.
  virtual Status Bind(const std::string& source, const AbsolutePath& target, const MountOptions& options,
                      const Call& call) = 0;
  // Unmounts the topmost mount at `target`; nothing there is OK. Never lazy. kPrecondition when busy, naming
  // who holds it where that can be found.
  virtual Status Unmount(const AbsolutePath& target, const Call& call) = 0;

  // Grows the file system mounted at `mount_point` (on `device`) to the size of its device. OK if it is that
  // large already.
  virtual Status Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& mount_point,
                      const Call& call) = 0;
  virtual Result<FilesystemUsage> Usage(const AbsolutePath& path) = 0;

  virtual Result<PathKind> Inspect(const AbsolutePath& path) = 0;
  // Device number of the block device node that stands at `path` (through a bind mount too); nullopt if it is
  // no block device.
  virtual Result<std::optional<DeviceNumber>> BlockDeviceAt(const AbsolutePath& path) = 0;
  // Creates the last component only: the parent must exist. There already is OK.
  virtual Status MakeDirectory(const AbsolutePath& path) = 0;
  virtual Status MakeFile(const AbsolutePath& path) = 0;
  // Removes an empty directory or an empty regular file that is no mount point; absent is OK. Anything else
  // there is kPrecondition and stays.
  virtual Status RemovePath(const AbsolutePath& path) = 0;

  // Who uses this block device, for people: "mounted at /x", "mounted in another mount namespace (pid 7,
  // sshd)", "held by dm-5". From sysfs and every /proc/<pid>/mountinfo that can be read. Empty: nobody found.
  virtual Result<std::vector<std::string>> Users(DeviceNumber device) = 0;
};

}  // namespace quarry::mount
