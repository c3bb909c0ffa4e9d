#include "mount/filesystems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace quarry::mount {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

std::vector<std::string> MakeWords(const MakeFilesystem& spec, Bytes size = {8 * kGiB.value}) {
  const auto words = (*FindFilesystem(spec.fs_type))->MakeCommand(spec, size);
  EXPECT_TRUE(words.has_value()) << words.error().message();
  return words.value_or(std::vector<std::string>{});
}

MakeFilesystem Spec(std::string_view type, std::string_view extra = {}) {
  MakeFilesystem spec;
  spec.fs_type = type;
  spec.device = "/dev/dm-7";
  spec.extra_options = extra;
  return spec;
}

TEST(Filesystems, ThereAreThreeAndExt4IsTheDefault) {
  EXPECT_THAT(SupportedFilesystems(), ElementsAre("ext4", "xfs", "btrfs"));
  EXPECT_TRUE(IsSupportedFilesystem("xfs"));
  EXPECT_FALSE(IsSupportedFilesystem("vfat"));
  EXPECT_FALSE(IsSupportedFilesystem(""));
  EXPECT_EQ(MinimumSize("vfat").value, 0U);
  EXPECT_EQ(MinimumSize("xfs").value, 300U << 20);
  EXPECT_EQ(FindFilesystem("vfat").error().code(), Code::kInvalidArgument);
}

TEST(Filesystems, NeverForceNeverDiscardAndNameTheDeviceLast) {
  for (const std::string_view type : SupportedFilesystems()) {
    const auto words = MakeWords(Spec(type));
    EXPECT_EQ(words.front(), "mkfs." + std::string(type));
    EXPECT_EQ(words.back(), "/dev/dm-7");
    EXPECT_THAT(words, Not(Contains("-F")));
    EXPECT_THAT(words, Not(Contains("-f")));
    EXPECT_EQ(
        std::count(words.begin(), words.end(), "-K") + std::count(words.begin(), words.end(), "nodiscard"),
        1);
  }
}

TEST(Filesystems, RefuseOptionsThatReachElsewhereOrOnlySimulate) {
  for (const auto& [type, extra] : std::initializer_list<std::pair<const char*, const char*>>{
           {"ext4", "-n"},
           {"ext4", "-J device=/dev/sda"},
           {"ext4", "-d /etc"},
           {"ext4", "-E offset=1048576"},
           {"ext4", "-F"},
           {"ext4", "-t ext2"},
           {"ext4", "100M"},
           {"xfs", "-f"},
           {"xfs", "-N"},
           {"xfs", "-l logdev=/dev/sda"},
           {"xfs", "-r rtdev=/dev/sda"},
           {"xfs", "-p /etc/passwd"},
           {"xfs", "-d name=/dev/sda"},
           {"xfs", "-c options=/x"},
           {"xfs", "-m uuid=5fd1c2de-0000-0000-0000-000000000000"},
           {"btrfs", "/dev/sda"},
           {"btrfs", "-r /etc"},
           {"btrfs", "-f"},
           {"btrfs", "--rootdir=/etc"},
           {"btrfs", "-m dup /dev/sda"}}) {
    const Status status = CheckMkfsOptions(type, extra);
    ASSERT_FALSE(status.has_value()) << type << ' ' << extra;
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  }
  EXPECT_TRUE(CheckMkfsOptions("ext4", "-m 0 -i 65536 -O ^has_journal").has_value());
  EXPECT_TRUE(CheckMkfsOptions("xfs", "-i size=1024 -m reflink=0").has_value());
  EXPECT_TRUE(CheckMkfsOptions("btrfs", "-m single --csum xxhash").has_value());
  EXPECT_EQ(CheckMkfsOptions("zfs", "").error().code(), Code::kInvalidArgument);
}

TEST(Ext4, AlignsToTheStripe) {
  MakeFilesystem spec = Spec("ext4");
  spec.stripe_unit = {64 * 1024};
  spec.data_stripes = 3;
  EXPECT_THAT(MakeWords(spec), ElementsAre("mkfs.ext4", "-q", "-b", "4096", "-O", "metadata_csum_seed", "-E",
                                           "nodiscard,stride=16,stripe_width=48", "/dev/dm-7"));
  spec.extra_options = "-b 1024";
  EXPECT_THAT(MakeWords(spec), Contains("nodiscard,stride=64,stripe_width=192"));
}

TEST(Ext4, JoinsTheExtendedOptionsAndFeaturesOfTheClassToOurs) {
  EXPECT_THAT(MakeWords(Spec("ext4", "-E lazy_itable_init=0 -m 1 -O ^has_journal -Ediscard")),
              ElementsAre("mkfs.ext4", "-q", "-b", "4096", "-O", "metadata_csum_seed,^has_journal", "-E",
                          "nodiscard,lazy_itable_init=0,discard", "-m", "1", "/dev/dm-7"));
}

TEST(Xfs, AlignsToTheStripeUnlessTheClassDoes) {
  MakeFilesystem spec = Spec("xfs");
  spec.stripe_unit = {64 * 1024};
  spec.data_stripes = 3;
  EXPECT_THAT(MakeWords(spec), ElementsAre("mkfs.xfs", "-q", "-K", "-d", "su=65536,sw=3", "/dev/dm-7"));
  spec.extra_options = "-d su=128k,sw=2 -K";
  EXPECT_THAT(MakeWords(spec), ElementsAre("mkfs.xfs", "-q", "-K", "-d", "su=128k,sw=2", "/dev/dm-7"));
}

TEST(Xfs, RequestsFewGroupsOnASmallDevice) {
  EXPECT_THAT(MakeWords(Spec("xfs"), kGiB),
              ElementsAre("mkfs.xfs", "-q", "-K", "-d", "agcount=4", "/dev/dm-7"));
  EXPECT_THAT(MakeWords(Spec("xfs", "-d agcount=2"), kGiB), Not(Contains("agcount=4")));
}

TEST(Growing, UsesTheFileSystemsOwnTool) {
  EXPECT_THAT(Ext4().GrowCommand("/dev/dm-1", "/m"), ElementsAre("resize2fs", "/dev/dm-1"));
  EXPECT_THAT(Xfs().GrowCommand("/dev/dm-1", "/m"), ElementsAre("xfs_growfs", "-d", "/m"));
  EXPECT_THAT(Btrfs().GrowCommand("/dev/dm-1", "/m"),
              ElementsAre("btrfs", "filesystem", "resize", "max", "/m"));
}

class Superblock {
 public:
  Superblock() {
    Put16(0x38, 0xEF53);
    Put32(0x18, 2);  // 4 KiB
    Put32(0x20, 32768);
    Put32(0x28, 8192);
    Put16(0x58, 256);
    Put16(0xCE, 63);
    Put32(0x04, 262144);
  }
  Superblock& Put16(size_t at, uint16_t value) { return Put(at, &value, sizeof value); }
  Superblock& Put32(size_t at, uint32_t value) { return Put(at, &value, sizeof value); }
  Result<Measured> Measure() const { return MeasureExt4(raw_); }

 private:
  Superblock& Put(size_t at, const void* value, size_t size) {
    std::memcpy(raw_.data() + at, value, size);
    return *this;
  }
  std::array<std::byte, kExt4SuperblockSize> raw_{};
};

TEST(Ext4Superblock, ReportsItsSizeInBlocks) {
  EXPECT_EQ(Superblock().Measure()->size.value, 1ULL << 30);
  EXPECT_EQ(Superblock().Put32(0x18, 0).Measure()->size.value, 262144ULL << 10);
}

TEST(Ext4Superblock, CountsTheHighHalfOnlyWithThe64BitFeature) {
  EXPECT_EQ(Superblock().Put32(0x150, 1).Measure()->size.value, 1ULL << 30);
  EXPECT_EQ(Superblock().Put32(0x150, 1).Put32(0x60, 0x80).Measure()->size.value,
            (1ULL << 44) + (1ULL << 30));
}

TEST(Ext4Superblock, AllowsForALastGroupThatIsTooSmallForItsMetadata) {
  // 8192 inodes of 256 bytes are slightly more than 512 blocks. With 63 reserved blocks and 50 data blocks
  // that is about 2.5 MiB.
  const Bytes slack = Superblock().Measure()->slack;
  EXPECT_GT(slack.value, 512U * 4096);
  EXPECT_LT(slack.value, 700U * 4096);
}

TEST(Ext4Superblock, RefusesOtherBytes) {
  EXPECT_EQ(Superblock().Put16(0x38, 0xEF52).Measure().error().code(), Code::kCorrupt);
  EXPECT_FALSE(Superblock().Put32(0x18, 7).Measure().has_value());
  EXPECT_FALSE(Superblock().Put32(0x20, 0).Measure().has_value());
  EXPECT_FALSE(Superblock().Put32(0x150, 0xFFFFFFFF).Put32(0x60, 0x80).Measure().has_value());
  EXPECT_FALSE(MeasureExt4({}).has_value());
}

}  // namespace
}  // namespace quarry::mount
