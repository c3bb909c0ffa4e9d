// The promises of MountApi, and a world to test them in: the fake on any machine, the kernel in a guest. The
// tests of mount_contract_test.cc are linked with either.
#pragma once

#include <memory>
#include <string>

#include "base/path.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "mount/mount_api.h"

namespace quarry::contract {

class MountWorld {
 public:
  virtual ~MountWorld() = default;
  virtual mount::MountApi& api() = 0;

  // A new block device that reads as zeroes and lives as long as the world. Returns the path of its node.
  virtual std::string NewDevice(Bytes size) = 0;
  virtual void GrowDevice(const std::string& node, Bytes size) = 0;
  virtual UniqueFd OpenDevice(const std::string& node) = 0;
  virtual mount::DeviceNumber NumberOf(const std::string& node) = 0;
  // Writes a signature that is not a file system's: a swap area's.
  virtual void PutSwap(const std::string& node) = 0;

  // Damages the ext4 on the device. `fixable`: a check repairs the damage automatically.
  virtual void Damage(const std::string& node, bool fixable) = 0;

  // A new device with the bytes of `node`, which holds a file system of this type. `unclean`: they are
  // copied while the file system is mounted, right after a file was written and synced, so its log is to be
  // replayed.
  virtual std::string CopyOf(const std::string& node, const std::string& fs_type, bool unclean) = 0;

  // A new, empty directory in this world.
  virtual AbsolutePath NewDirectory() = 0;
  virtual void PutFile(const std::string& path, bool empty) = 0;
  virtual void PutSymlink(const std::string& path, const std::string& to = "/etc") = 0;

  // Owner and permissions (of 07777) of a path, without following a symbolic link.
  struct Access {
    uint32_t gid = 0;
    uint32_t mode = 0;
  };
  virtual Access AccessOf(const std::string& path) = 0;
  virtual void SetAccess(const std::string& path, Access access) = 0;

  // Keeps the mount at `path` busy until the returned object is destroyed.
  virtual std::shared_ptr<void> Hold(const std::string& path) = 0;
};

// Defined by fake_mount_world.cc and by kernel_mount_world.cc.
std::unique_ptr<MountWorld> MakeMountWorld();

}  // namespace quarry::contract
