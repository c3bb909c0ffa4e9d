// Whether LVM's lock folder, as this process sees it, is the one that all other LVM commands of the host use.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::daemon {

struct LockFolderPlaces {
  std::string folder;          // absolute; global/locking_dir of the commands that we run
  std::string proc = "/proc";  // proc(5)
};

// Makes the folder if it is not there (0700), as LVM does. Where the host's process 1 can be seen, the folder
// must be the host's very folder, which is the one that its lvm.conf names. Where it cannot be seen, it must
// be a mount of its own of a folder called "lvm" that is no emptyDir of Kubernetes, unless this process has
// the mount namespace of the host. kPrecondition names the mount that is to be added: in a folder of a
// container's own no lock excludes anybody.
Status CheckLockFolder(const LockFolderPlaces& places);

// global/locking_dir as the text of an lvm.conf sets it; empty: not at all.
std::string LockingDirOf(const std::string& lvm_conf);

}  // namespace quarry::daemon
