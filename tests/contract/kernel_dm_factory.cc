#include <cstdlib>

#include "tests/contract/kernel_dm_world.h"

namespace quarry::contract {

std::unique_ptr<DmWorld> MakeDmWorld() {
  return std::make_unique<KernelDmWorld>();
}

// Uses a disk if one is given: zeroing a loop device takes memory for every byte.
std::unique_ptr<EraseWorld> MakeEraseWorld(Bytes size) {
  if (const char* disk = std::getenv("QUARRY_TEST_DISK")) {
    return std::make_unique<KernelEraseWorld>(disk);
  }
  return std::make_unique<KernelEraseWorld>(LoopDevice(size));
}

}  // namespace quarry::contract
