// What MountApi promises, and a world to hold it in: the fake on any machine, the kernel in a guest. The
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

  // A new block device that reads as zeroes, gone with the world. Path of its node.
  virtual std::string NewDevice(Bytes size) = 0;
  virtual void GrowDevice(const std::string& node, Bytes size) = 0;
  virtual UniqueFd OpenDevice(const std::string& node) = 0;
  virtual mount::DeviceNumber NumberOf(const std::string& node) = 0;
  // A signature that is no file system: a swap area's.
  virtual void PutSwap(const std::string& node) = 0;

  // Damage to the ext4 on it: what a check repairs unasked, or what it does not.
  virtual void Damage(const std::string& node, bool fixable) = 0;

  // A directory of this world, new and empty.
  virtual AbsolutePath NewDirectory() = 0;
  virtual void PutFile(const std::string& path, bool empty) = 0;
  virtual void PutSymlink(const std::string& path, const std::string& to = "/etc") = 0;

  // Whose a path is, and its permissions (of 07777); the path itself, were it a symbolic link.
  struct Access {
    uint32_t gid = 0;
    uint32_t mode = 0;
  };
  virtual Access AccessOf(const std::string& path) = 0;
  virtual void SetAccess(const std::string& path, Access access) = 0;

  // Keeps the mount at `path` busy until the returned object goes.
  virtual std::shared_ptr<void> Hold(const std::string& path) = 0;
};

// Defined by fake_mount_world.cc and by kernel_mount_world.cc.
std::unique_ptr<MountWorld> MakeMountWorld();

}  // namespace quarry::contract
