#include "tests/contract/kernel_mount_world.h"

namespace quarry::contract {

std::unique_ptr<MountWorld> MakeMountWorld() {
  return std::make_unique<KernelMountWorld>();
}

}  // namespace quarry::contract
