#include <cstdlib>

#include "tests/contract/kernel_dm_world.h"

namespace quarry::contract {

std::unique_ptr<DmWorld> MakeDmWorld() {
  return std::make_unique<KernelDmWorld>();
}

// On a disk where one was given for it: zeroing a loop device takes room for every byte.
std::unique_ptr<EraseWorld> MakeEraseWorld(Bytes size) {
  if (const char* disk = std::getenv("QUARRY_TEST_DISK")) {
    return std::make_unique<KernelEraseWorld>(disk);
  }
  return std::make_unique<KernelEraseWorld>(LoopDevice(size));
}

}  // namespace quarry::contract
