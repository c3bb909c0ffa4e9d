// The real world, put together: LVM by the zygote or by spawning, its answers kept while the disks prove
// them, the kernel's device-mapper, its mounts, its block layer.
#pragma once

#include <memory>

#include "base/guarded_subprocess.h"
#include "base/log.h"
#include "base/result.h"
#include "daemon/settings/options.h"
#include "engine/world.h"
#include "lvm/group_locks.h"

namespace quarry::daemon {

class NodeWorld {
 public:
  // Makes the state directory (0700) and LVM's private configuration in it. What the node lacks (lvm2, kernel
  // modules) shows when it is used.
  // `log` hears when LVM is not run as the options say; `observe` of every command of LVM's. Both must
  // outlive the object, as must `locks`. Without locks nothing may be changed (quarryctl).
  static Result<std::unique_ptr<NodeWorld>> Make(const Options& options, const Logger& log,
                                                 GuardedSubprocess::Tell observe,
                                                 lvm::GroupLocks* locks = nullptr);
  ~NodeWorld();
  NodeWorld(const NodeWorld&) = delete;
  NodeWorld& operator=(const NodeWorld&) = delete;

  // Refers to this object.
  engine::World world();
  // For what is stuck of all that was started.
  Subprocess& children();
  // For whoever wants to be told of disks.
  udev::UdevApi& udev();

 private:
  struct Parts;
  explicit NodeWorld(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace quarry::daemon
