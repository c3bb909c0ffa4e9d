// The file systems that Quarry makes, mounts and grows: one small file each in filesystems/.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// The meaning of a checking tool's exit status.
enum class CheckVerdict { kClean, kRepaired, kDamaged, kFailed };

// The size of a mounted file system, as the file system reports it.
struct Measured {
  Bytes size;
  // At most this many bytes at the device's end may stay unused when the file system fills the device. They
  // are too few for another allocation group.
  Bytes slack;
};

// Stateless; any thread.
class Filesystem {
 public:
  virtual ~Filesystem() = default;

  virtual std::string_view type() const = 0;
  // Debian package of the tools, named when a tool is missing.
  virtual std::string_view package() const = 0;
  virtual Bytes minimum_size() const = 0;

  // mkfs and its arguments. The first word is the tool's bare name. `device_size` is the size of spec.device.
  // kInvalidArgument names an option of spec.extra_options that is not allowed.
  virtual Result<std::vector<std::string>> MakeCommand(const MakeFilesystem& spec,
                                                       Bytes device_size) const = 0;

  // kPrecondition: a copy of the file system behind `fd`, which is not mounted, could not be used beside it.
  virtual Status CheckCopyable(int /*fd*/) const { return Ok(); }
  // The command, in the same form, that gives the file system on `device` another UUID.
  virtual std::vector<std::string> ChangeUuidCommand(const std::string& device,
                                                     const std::string& uuid) const = 0;
  // Parts of that command's messages by which it refuses a file system, and has not changed it. Only for a
  // file system that the kernel tells from a copy with the same UUID.
  virtual std::vector<std::string_view> uuid_refusals() const { return {}; }

  // Options that every mount of this file system gets.
  virtual std::vector<std::string> standing_options() const { return {}; }

  // The command, in the same form, that repairs what is safe to repair without asking, while the file system
  // is not mounted. nullopt: no useful tool exists, because the kernel replays the log at the mount.
  virtual std::optional<std::vector<std::string>> CheckCommand(const std::string& /*device*/) const {
    return std::nullopt;
  }
  virtual CheckVerdict JudgeCheck(int /*exit_status*/) const { return CheckVerdict::kFailed; }

  // The command, in the same form, that grows the file system while it is mounted.
  virtual std::vector<std::string> GrowCommand(const std::string& device,
                                               const std::string& mount_point) const = 0;
  // `mount_fd`: the root directory of the file system, open for reading. `device_fd`: its device.
  virtual Result<Measured> Measure(int mount_fd, int device_fd) const = 0;
};

const Filesystem& Ext4();
const Filesystem& Xfs();
const Filesystem& Btrfs();

inline constexpr size_t kExt4SuperblockSize = 1024;
// The size of an ext4, from the few fields of its superblock that define it (kernel documentation:
// filesystems/ext4/globals.rst). kCorrupt if the bytes are not an ext superblock. Pure.
Result<Measured> MeasureExt4(std::span<const std::byte> superblock);

// In order of preference; the first is the default.
std::span<const Filesystem* const> Filesystems();
// kInvalidArgument for a type that is not in Filesystems().
Result<const Filesystem*> FindFilesystem(std::string_view type);

}  // namespace quarry::mount
