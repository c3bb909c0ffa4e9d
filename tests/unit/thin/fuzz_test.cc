// Runs the fuzzer's entry point (tests/fuzz/thin_metadata_fuzz.cc) over random trees, most of them with a
// fault. A fuzzer does this for hours; here it takes seconds.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quarry::thin {
namespace {

constexpr size_t kHead = 4, kNodeSize = 128, kNodes = 20, kFanOut = 6;

// Blocks 1 to kNodes. The first two are the trees of devices; the others are leaves, and inner nodes above
// later blocks.
class HostileImage {
 public:
  explicit HostileImage(uint32_t seed) : random_(seed) {
    bytes_ = {1, static_cast<uint8_t>(Below(20) == 0 ? 1 : 0), 2, 0};
    bytes_.resize(kHead + kNodes * kNodeSize);
    const uint64_t devices = 1 + Below(3);
    for (const size_t block : {1, 2}) {
      const bool details = block == 2;
      Node(block, true, devices, details ? 24 : 8, details ? 3 : kFanOut);
      for (uint64_t i = 0; i < devices; ++i) {
        Put(block, 32 + 8 * i, 8, i + 1);
        Put(block, details ? 32 + 24 + 24 * i : 32 + 48 + 8 * i, 8, 3 + Below(6));
      }
    }
    for (size_t block = 3; block <= kNodes; ++block) {
      const bool leaf = block > 8;
      const uint64_t entries = 1 + Below(kFanOut);
      // A leaf's keys lie where its number is, so that many inner nodes are sound.
      uint64_t key = leaf ? block * 10 : 0;
      Node(block, leaf, entries, 8, kFanOut);
      for (uint64_t i = 0; i < entries; ++i) {
        const uint64_t child = 9 + i * 2 + Below(2);
        key += 1 + Below(3);
        Put(block, 32 + 8 * i, 8, leaf ? key : child * 10);
        Put(block, 80 + 8 * i, 8, leaf ? Below(40) << 24 : child);
      }
    }
    for (uint64_t faults = Below(4); faults > 0; --faults) {
      bytes_[Below(bytes_.size())] = static_cast<uint8_t>(random_());
    }
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }
  void Put(size_t block, size_t offset, size_t width, uint64_t value) {
    std::memcpy(bytes_.data() + kHead + (block - 1) * kNodeSize + offset, &value, width);
  }
  void Node(size_t block, bool leaf, uint64_t entries, uint64_t value_size, uint64_t max) {
    Put(block, 4, 4, leaf ? 2 : 1);
    Put(block, 16, 4, entries);
    Put(block, 20, 4, max);
    Put(block, 24, 4, value_size);
  }

  std::mt19937 random_;
  std::vector<uint8_t> bytes_;
};

TEST(ThinMetadataFuzzTest, NoImageCrashesTheReaderOrGivesAWrongAnswer) {
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    const HostileImage image(seed);
    LLVMFuzzerTestOneInput(image.bytes().data(), image.bytes().size());
  }
}

TEST(ThinMetadataFuzzTest, AnyBytesAreRefused) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint8_t> bytes(random() % 2000);
    std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(random()); });
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace
}  // namespace quarry::thin
