// The file systems that we make, mount and grow: one small file each in filesystems/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "mount/mount_api.h"

namespace quarry::mount {

// What the exit status of a checking tool means.
enum class CheckVerdict { kClean, kRepaired, kDamaged, kFailed };

// How large a mounted file system says it is.
struct Measured {
  Bytes size;
  // So much of the device's end may be left over in a file system that fills it: what is too small for one
  // more allocation group.
  Bytes slack;
};

// Stateless; any thread.
class Filesystem {
 public:
  virtual ~Filesystem() = default;

  virtual std::string_view type() const = 0;
  // Debian package of its tools: the remedy when one is missing.
  virtual std::string_view package() const = 0;
  virtual Bytes minimum_size() const = 0;

  // mkfs and its arguments; the first is the tool's bare name. `device_size` is that of spec.device.
  // kInvalidArgument naming an option of spec.extra_options that is not let through.
  virtual Result<std::vector<std::string>> MakeCommand(const MakeFilesystem& spec,
                                                       Bytes device_size) const = 0;

  // Options that every mount of it gets.
  virtual std::vector<std::string> standing_options() const { return {}; }

  // The tool that repairs, unasked, what is safe to repair while it is not mounted, in the same form.
  // nullopt: there is none, or none that is of use: the kernel replays the log when it mounts.
  virtual std::optional<std::vector<std::string>> CheckCommand(const std::string& device) const = 0;
  virtual CheckVerdict JudgeCheck(int exit_status) const = 0;

  // The tool that grows it while mounted, in the same form.
  virtual std::vector<std::string> GrowCommand(const std::string& device,
                                               const std::string& mount_point) const = 0;
  // `mount_fd`: its root directory, open for reading; `device_fd`: its device.
  virtual Result<Measured> Measure(int mount_fd, int device_fd) const = 0;
};

const Filesystem& Ext4();
const Filesystem& Xfs();
const Filesystem& Btrfs();

// In order of preference; the first is the default.
std::span<const Filesystem* const> Filesystems();
// kInvalidArgument for a type that is not among them.
Result<const Filesystem*> FindFilesystem(std::string_view type);

}  // namespace quarry::mount
