// The bytes of a copy, and what is written of them if the destination has some already.
#include "engine/plan/device_copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace quarry::engine {
namespace {

class DeviceCopyTest : public testing::Test {
 protected:
  // One letter a MiB.
  static UniqueFd Device(const std::string& pieces) {
    UniqueFd file(memfd_create("device", MFD_CLOEXEC));
    for (size_t i = 0; i < pieces.size(); ++i) {
      const std::string bytes(kMiB.value, pieces[i]);
      EXPECT_EQ(pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(i * kMiB.value)),
                static_cast<ssize_t>(bytes.size()));
    }
    return file;
  }
  // The first byte of each MiB.
  static std::string Pieces(const UniqueFd& file, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) {
      char c = '?';
      EXPECT_EQ(pread(file.get(), &c, 1, static_cast<off_t>(i * kMiB.value)), 1);
      out += c;
    }
    return out;
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
};

TEST_F(DeviceCopyTest, CopiesEveryByteAndTellsHowFarItIs) {
  const UniqueFd from = Device("abcd");
  const UniqueFd to = Device("....");
  std::vector<uint64_t> told;
  const Status done = CopyDevice({.from = from.get(), .to = to.get(), .length = Bytes{4 * kMiB.value - 512}},
                                 Soon(), [&](Bytes bytes) { told.push_back(bytes.value); });
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(Pieces(to, 4), "abcd");
  char last = '?';
  ASSERT_EQ(pread(to.get(), &last, 1, static_cast<off_t>(4 * kMiB.value - 1)), 1);
  EXPECT_EQ(last, '.') << "behind the length";
  EXPECT_EQ(told, (std::vector<uint64_t>{kMiB.value, 2 * kMiB.value, 3 * kMiB.value, 4 * kMiB.value - 512}));
}

TEST_F(DeviceCopyTest, WritesOnlyWhatDiffers) {
  const UniqueFd from = Device("abcd");
  const UniqueFd to = Device("axcd");
  // Nothing may be written where the bytes are there.
  const UniqueFd read_only(open(("/proc/self/fd/" + std::to_string(to.get())).c_str(), O_RDONLY | O_CLOEXEC));
  DeviceCopy copy{
      .from = from.get(), .to = read_only.get(), .length = Bytes{4 * kMiB.value}, .compare = true};
  EXPECT_FALSE(CopyDevice(copy, Soon(), nullptr).has_value()) << "the second piece differs";
  copy.to = to.get();
  ASSERT_TRUE(CopyDevice(copy, Soon(), nullptr).has_value());
  EXPECT_EQ(Pieces(to, 4), "abcd");
  copy.to = read_only.get();
  EXPECT_TRUE(CopyDevice(copy, Soon(), nullptr).has_value()) << "all is there";
}

TEST_F(DeviceCopyTest, GivesTheComparisonUpWhereNothingIsThere) {
  std::string pieces(70, 'a');
  const UniqueFd from = Device(pieces);
  const UniqueFd to = Device(std::string(70, '.'));
  // The last MiB of the destination cannot be read, but written.
  ASSERT_EQ(ftruncate(to.get(), static_cast<off_t>(69 * kMiB.value)), 0);
  DeviceCopy copy{.from = from.get(), .to = to.get(), .length = Bytes{70 * kMiB.value}, .compare = true};
  const Status done = CopyDevice(copy, Soon(), nullptr);
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(Pieces(to, 70), pieces);
}

TEST_F(DeviceCopyTest, AStopEndsItBetweenTwoPieces) {
  const UniqueFd from = Device("abcd");
  const UniqueFd to = Device("....");
  std::stop_source stop;
  Call call = Soon();
  call.stop = stop.get_token();
  const Status stopped = CopyDevice({.from = from.get(), .to = to.get(), .length = Bytes{4 * kMiB.value}},
                                    call, [&](Bytes done) {
                                      if (done == Bytes{2 * kMiB.value}) {
                                        stop.request_stop();
                                      }
                                    });
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().code(), Code::kCancelled);
  EXPECT_EQ(Pieces(to, 4), "ab..");
}

}  // namespace
}  // namespace quarry::engine
