#include "mount/zeroes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace quarry::mount {
namespace {

using std::chrono::steady_clock;

// A device in memory, mostly holes.
class Device {
 public:
  explicit Device(uint64_t size) : fd_(memfd_create("device", MFD_CLOEXEC)), size_{size} {
    EXPECT_EQ(ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
  }
  Device& Put(uint64_t at) {
    EXPECT_EQ(pwrite(fd_.get(), "x", 1, static_cast<off_t>(at)), 1);
    return *this;
  }
  std::optional<Bytes> Find() const {
    const auto found = FindNonZero(fd_.get(), size_, steady_clock::now() + std::chrono::minutes(1));
    EXPECT_TRUE(found.has_value());
    return found.value_or(std::nullopt);
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  Bytes size_;
};

constexpr uint64_t kBig = uint64_t{10} << 30;

TEST(Zeroes, AreTheWholeContentOfAnEmptyDevice) {
  EXPECT_EQ(Device(kBig).Find(), std::nullopt);
  EXPECT_EQ(Device(0).Find(), std::nullopt);
  EXPECT_EQ(Device(512).Find(), std::nullopt);
}

TEST(Zeroes, OneByteAtEitherEndIsFound) {
  for (const uint64_t at :
       {uint64_t{0}, uint64_t{70'000}, (uint64_t{1} << 20) - 1, kBig - (uint64_t{1} << 20), kBig - 1}) {
    EXPECT_EQ(Device(kBig).Put(at).Find(), Bytes{at});
  }
}

TEST(Zeroes, DataOnASixtiethOfADeviceAreFoundWhereverTheyLie) {
  const std::vector<Sample> samples = SamplesOf(Bytes{kBig});
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_LT(samples[i].offset.value - samples[i - 1].offset.value, kBig / 60);
  }
  const Bytes middle = samples.at(samples.size() / 2).offset;
  EXPECT_EQ(Device(kBig).Put(middle.value + 7).Find(), middle + Bytes{7});
}

TEST(Zeroes, EveryByteOfASmallDeviceIsRead) {
  constexpr uint64_t kSize = (uint64_t{5} << 20) + 512;
  for (const uint64_t at : {uint64_t{3} << 20, kSize - 1, uint64_t{1'234'567}}) {
    EXPECT_EQ(Device(kSize).Put(at).Find(), Bytes{at});
  }
}

TEST(Zeroes, SamplesLieWithinTheDeviceInOrderAndOnPages) {
  for (const uint64_t size : {uint64_t{512}, uint64_t{1} << 20, (uint64_t{16} << 20) + 512,
                              (uint64_t{100} << 20) + 512, kBig, (uint64_t{20} << 40) + 1024}) {
    uint64_t end = 0;
    for (const Sample& sample : SamplesOf(Bytes{size})) {
      EXPECT_GE(sample.offset.value, end);
      EXPECT_EQ(sample.offset.value % 4096, 0);
      EXPECT_GT(sample.length.value, 0);
      end = sample.offset.value + sample.length.value;
    }
    EXPECT_EQ(end, size);
  }
}

TEST(Zeroes, ASlowDeviceIsNotCalledEmpty) {
  const Device device(kBig);
  const auto found = FindNonZero(device.fd(), Bytes{kBig}, steady_clock::now());
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), Code::kTimeout);
}

TEST(Zeroes, AnUnreadableDeviceIsNotCalledEmpty) {
  EXPECT_FALSE(FindNonZero(-1, Bytes{4096}, steady_clock::now() + std::chrono::minutes(1)).has_value());
}

}  // namespace
}  // namespace quarry::mount
