#include "mount/blkid_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace quarry::mount {
namespace {

constexpr size_t kSize = 4 << 20;

// An image in memory. libblkid reads a file like a device.
class Image {
 public:
  Image() : fd_(memfd_create("image", MFD_CLOEXEC)) { EXPECT_EQ(ftruncate(fd_.get(), kSize), 0); }
  int fd() const { return fd_.get(); }
  Image& Put(off_t at, std::string_view bytes) {
    EXPECT_EQ(pwrite(fd_.get(), bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
    return *this;
  }
  // A swap area of version 1 with a few pages: the magic ends the first page.
  Image& PutSwap() {
    return Put(1024, std::string_view("\1\0\0\0\xFF\3\0\0", 8)).Put(4096 - 10, "SWAPSPACE2");
  }
  // A partition table with one Linux partition.
  Image& PutMbr() {
    return Put(446, std::string_view("\0\0\0\0\x83\0\0\0\0\x08\0\0\0\x10\0\0", 16)).Put(510, "\x55\xAA");
  }
  Content Probe() const {
    const auto content = ProbeContent(fd_.get());
    EXPECT_TRUE(content.has_value());
    return content.value_or(Content{});
  }

 private:
  UniqueFd fd_;
};

TEST(BlkidProbe, ZeroesAreBlank) {
  EXPECT_EQ(Image().Probe().kind, Content::Kind::kBlank);
}

TEST(BlkidProbe, DataWithoutASignatureIsBlankToo) {
  EXPECT_EQ(Image().Put(8192, "just bytes").Probe().kind, Content::Kind::kBlank);
}

TEST(BlkidProbe, ASwapAreaIsNotAFileSystem) {
  const Content content = Image().PutSwap().Probe();
  EXPECT_EQ(content.kind, Content::Kind::kOther);
  EXPECT_EQ(content.type, "swap");
}

TEST(BlkidProbe, APartitionTableIsNotBlank) {
  const Content content = Image().PutMbr().Probe();
  EXPECT_EQ(content.kind, Content::Kind::kOther);
  EXPECT_EQ(content.type, "dos");
}

TEST(BlkidProbe, APartitionTableAndAnotherSignatureAreAmbiguous) {
  EXPECT_EQ(Image().PutSwap().PutMbr().Probe().kind, Content::Kind::kAmbiguous);
}

TEST(BlkidProbe, WipingMakesItBlankAndKeepsTheRest) {
  Image image;
  image.PutSwap().PutMbr().Put(8192, "just bytes");
  ASSERT_TRUE(WipeSignatures(image.fd()).has_value());
  EXPECT_EQ(image.Probe().kind, Content::Kind::kBlank);
  std::string kept(10, 0);
  EXPECT_EQ(pread(image.fd(), kept.data(), kept.size(), 8192), 10);
  EXPECT_EQ(kept, "just bytes");
  EXPECT_TRUE(WipeSignatures(image.fd()).has_value());
}

TEST(BlkidProbe, AnUnreadableDeviceIsAnErrorAndNotBlank) {
  EXPECT_EQ(ProbeContent(-1).error().code(), Code::kIo);
  Image image;
  const UniqueFd write_only(
      open(("/proc/self/fd/" + std::to_string(image.fd())).c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(write_only.valid());
  const auto content = ProbeContent(write_only.get());
  ASSERT_FALSE(content.has_value());
  EXPECT_EQ(content.error().code(), Code::kIo);
}

TEST(BlkidProbe, WipingThroughAReadOnlyDescriptorFails) {
  Image image;
  image.PutSwap();
  const UniqueFd read_only(
      open(("/proc/self/fd/" + std::to_string(image.fd())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_FALSE(WipeSignatures(read_only.get()).has_value());
  EXPECT_EQ(image.Probe().type, "swap");
}

}  // namespace
}  // namespace quarry::mount
