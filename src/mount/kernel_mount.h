// MountApi on the running kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/path.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "mount/filesystems.h"
#include "mount/mount_api.h"
#include "mount/paths.h"

namespace quarry::mount {

struct KernelMountConfig {
  std::string proc = "/proc";
  std::string sys = "/sys";
  // Mounts are for processes outside of this mount namespace: Mount and Bind refuse a target from which the
  // mount would not reach the host (propagation.h).
  bool for_the_host = false;
  // ProbeDevice opens the device with O_EXCL, and so finds out whether it is in use. False for a process that
  // only looks: while it has the device open like this, another one could not open it exclusively. It does so
  // for a moment only, and only if the device is blank and would pass for free.
  bool exclusive_probe = true;
  // Limit on the address space of a tool that checks a file system. A damaged file system can make the tool
  // request any amount.
  Bytes check_memory = kGiB;
  // The directories of every tool, in search order. quarryd's PATH is ignored.
  std::vector<std::string> tool_directories = {"/usr/sbin", "/usr/bin", "/sbin", "/bin"};
};

// Has no state but its configuration: thread-safe, and several may exist. Acts in the mount namespace of the
// process.
class KernelMount final : public MountApi {
 public:
  // `subprocess` runs the tools and must outlive this object.
  explicit KernelMount(Subprocess& subprocess, KernelMountConfig config = {});

  Result<MountTable> Mounts() override;
  Result<Content> Probe(int fd) override;
  Result<Content> ProbeDevice(const AbsolutePath& device) override;
  Result<Bytes> DeviceSize(int fd) override;
  Status Make(const MakeFilesystem& spec, const Call& call) override;
  Result<CheckReport> Check(std::string_view fs_type, const std::string& device, const Call& call) override;
  Status CheckCopyable(std::string_view fs_type, int fd) override;
  Result<std::optional<std::string>> ChangeUuid(std::string_view fs_type, const std::string& device,
                                                const Call& call) override;
  Status Mount(const std::string& device, const AbsolutePath& target, std::string_view fs_type,
               const MountOptions& options, const Call& call) override;
  Status Bind(const std::string& source, const AbsolutePath& target, const MountOptions& options,
              const Call& call) override;
  Status Unmount(const AbsolutePath& target, const Call& call) override;
  Status Grow(std::string_view fs_type, const std::string& device, const AbsolutePath& mount_point,
              const Call& call) override;
  Result<FilesystemUsage> Usage(const AbsolutePath& path) override;
  Result<uint32_t> GroupOf(const AbsolutePath& path) override;
  Status GiveToGroup(const AbsolutePath& mount_point, uint32_t gid, const Call& call) override;
  Result<Bytes> Trim(const AbsolutePath& mount_point, Bytes from, Bytes length, const Call& call) override;
  Status SyncFs(const AbsolutePath& mount_point, const Call& call) override;
  Result<AbsolutePath> Resolve(const AbsolutePath& path) override;
  Result<PathKind> Inspect(const AbsolutePath& path) override;
  Result<std::optional<DeviceNumber>> BlockDeviceAt(const AbsolutePath& path) override;
  Result<std::optional<DeviceNumber>> FileSystemOfNode(const std::string& node, DeviceNumber device) override;
  Status MakeDirectory(const AbsolutePath& path) override;
  Status MakeFile(const AbsolutePath& path) override;
  Status MakeFileFromDirectory(const AbsolutePath& path) override;
  Status RemovePath(const AbsolutePath& path) override;
  Result<std::vector<std::string>> Users(DeviceNumber device) override;
  Result<std::vector<std::string>> Openers(DeviceNumber device) override;

 private:
  // CheckMounted is in grow.cc, the others are in make.cc. RunTool: words[0] is the tool's bare name; the
  // caller judges a non-zero exit status. FindTool: kPrecondition names the Debian package that has the tool.
  Result<Finished> RunTool(std::vector<std::string> words, const Filesystem& fs, const Call& call);
  Result<Finished> RunFound(std::vector<std::string> words, const Call& call);  // words[0] is a path
  Result<std::string> FindTool(const std::string& name, std::string_view package) const;
  // Opens the device with an exclusive claim. kPrecondition if the device is mounted, part of another device,
  // or claimed by another tool.
  static Result<UniqueFd> Claim(const std::string& device, bool writable);
  Result<Bytes> PrepareDevice(const MakeFilesystem& spec, const Filesystem& fs);
  Status CheckMounted(const Filesystem& fs, DeviceNumber device, const AbsolutePath& mount_point);

  // OK, unless the mount at `target` has to reach the host and would not.
  Status CheckReaches(const Place& target, const AbsolutePath& path);

  // In unmount.cc.
  Error BusyError(const AbsolutePath& target);

  Subprocess& subprocess_;
  KernelMountConfig config_;
};

}  // namespace quarry::mount
