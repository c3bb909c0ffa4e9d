// Checks that LVM's lock folder, as this process sees it, is the folder that all other LVM commands of the
// host use.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::daemon {

struct LockFolderPlaces {
  std::string folder;          // absolute; global/locking_dir of the commands that quarryd runs
  std::string proc = "/proc";  // proc(5)
};

// Makes the folder if it does not exist (0700), as LVM does. If the host's process 1 can be inspected, the
// folder must be the very folder that the host's lvm.conf names. If not, the folder must be a mount point of
// a folder called "lvm" that is not a Kubernetes emptyDir; this is not required if this process shares the
// host's mount namespace. kPrecondition names the mount that has to be added: locks in a container's own
// folder exclude no process outside the container.
Status CheckLockFolder(const LockFolderPlaces& places);

// The value of global/locking_dir in the text of an lvm.conf; empty if the text does not set it.
std::string LockingDirOf(const std::string& lvm_conf);

}  // namespace quarry::daemon
