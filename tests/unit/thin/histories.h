// Random histories of a pool, for property tests: images, and what a reader should find in them.
#pragma once

#include <random>

#include "tests/unit/thin/metadata_image.h"

namespace quarry::thin::testing {

// Devices are made, written in runs, snapshotted, trimmed and deleted. Small nodes give high trees. Without
// `trims` every node is as full as the kernel and thin-provisioning-tools want it.
inline MetadataImage RandomPool(uint32_t seed, int steps, uint64_t size, bool trims = true) {
  std::mt19937 random(seed);
  const auto below = [&](uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random); };
  constexpr std::array<size_t, 4> kFanOuts{3, 6, 12, 252};
  MetadataImage image(kFanOuts[below(kFanOuts.size())]);
  DeviceId next = 1;
  image.Create(next++);
  const auto any = [&] {
    auto device = image.model().begin();
    std::advance(device, below(image.model().size()));
    return device->first;
  };
  for (int i = 0; i < steps; ++i) {
    const uint64_t action = below(20);
    const uint64_t begin = below(size), end = begin + 1 + below(size / 8 + 1);
    if (action == 0 || image.model().empty()) {
      image.Create(next++);
    } else if (action < 4) {
      image.Snapshot(any(), next++);
    } else if (action == 4 && image.model().size() > 1) {
      image.Delete(any());
    } else {
      const DeviceId id = any();
      for (uint64_t block = begin; block < end; ++block) {
        trims&& action < 9 ? image.Unmap(id, block) : image.Map(id, block);
      }
    }
  }
  return image;
}

}  // namespace quarry::thin::testing
