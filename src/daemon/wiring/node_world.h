// Makes the real engine::World: LVM (run by the zygote or as processes, with answers reused while the disks
// prove them current), and the kernel's device-mapper, mounts and block layer.
#pragma once

#include <memory>
#include <string>

#include "base/guarded_subprocess.h"
#include "base/log.h"
#include "base/result.h"
#include "daemon/settings/options.h"
#include "engine/world.h"
#include "lvm/group_locks.h"

namespace quarry::daemon {

// Below it each group has a folder of its own.
std::string PoolsFolder(const Options& options);

class NodeWorld {
 public:
  // Makes the state directory (0700) and LVM's private configuration in it. Parts that the node lacks (lvm2,
  // kernel modules) cause errors only when they are used. `log` receives a line when LVM is not run as the
  // options say. `observe` is called for every LVM command. Both, and `locks`, must outlive the object.
  // Without locks, nothing may be changed (quarryctl, --check), and disks are not opened exclusively: a
  // running quarryd would find them in use.
  static Result<std::unique_ptr<NodeWorld>> Make(const Options& options, const Logger& log,
                                                 GuardedSubprocess::Tell observe,
                                                 lvm::GroupLocks* locks = nullptr);
  ~NodeWorld();
  NodeWorld(const NodeWorld&) = delete;
  NodeWorld& operator=(const NodeWorld&) = delete;

  // The result refers to this object. Its `children` reports the stuck processes among all that this object
  // started.
  engine::World world();

 private:
  struct Parts;
  explicit NodeWorld(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace quarry::daemon
