// Unmanaged content on a device is recognized, and Quarry's mkfs does not change it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <vector>

#include "tests/contract/kernel_mount_world.h"

namespace quarry::contract {
namespace {

using mount::Content;

constexpr off_t kBtrfsSuperblock = 64 * 1024;

// All data written to the file below the device, with its place. Holes count as nothing.
uint64_t Fingerprint(LoopDevice& loop) {
  const UniqueFd device(open(loop.node().c_str(), O_RDONLY | O_CLOEXEC));
  fsync(device.get());
  uint64_t hash = 0xCBF29CE484222325;
  std::vector<unsigned char> chunk(1 << 20);
  for (off_t at = 0; (at = lseek(loop.file(), at, SEEK_DATA)) >= 0;) {
    const ssize_t n = pread(loop.file(), chunk.data(), chunk.size(), at);
    if (n <= 0) {
      break;
    }
    for (ssize_t i = 0; i < n; ++i) {
      if (chunk[i] != 0) {  // so that blocks of zeroes are like holes
        hash = (hash ^ (static_cast<uint64_t>(at + i) << 8) ^ chunk[i]) * 0x100000001B3;
      }
    }
    at += n;
  }
  return hash;
}

void Copy(const std::string& from, const std::string& to, off_t offset, size_t size) {
  std::vector<char> data(size);
  const UniqueFd in(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd out(open(to.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pread(in.get(), data.data(), size, offset), static_cast<ssize_t>(size));
  ASSERT_EQ(pwrite(out.get(), data.data(), size, offset), static_cast<ssize_t>(size));
  ASSERT_EQ(fsync(out.get()), 0);
}

void Zero(const std::string& node, uint64_t offset, uint64_t size) {
  const UniqueFd out(open(node.c_str(), O_WRONLY | O_CLOEXEC));
  std::array<uint64_t, 2> range = {offset, size};
  ASSERT_EQ(ioctl(out.get(), BLKZEROOUT, range.data()), 0);
}

std::string Partitioned(KernelMountWorld& world, const std::string& label) {
  const std::string node = world.NewDevice({16 * kMiB.value});
  RunTool({"sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", node}, "label: " + label + "\n,,\n");
  return node;
}

std::string Filesystem(KernelMountWorld& world, const std::string& type, Bytes size) {
  const std::string node = world.NewDevice(size);
  RunTool({"mkfs." + type, "-q", node});
  return node;
}

struct Foreign {
  const char* name;
  std::function<std::string(KernelMountWorld&)> prepare;
  Content::Kind kind;
  const char* type;
};

void PrintTo(const Foreign& foreign, std::ostream* out) {
  *out << foreign.name;
}

const std::vector<Foreign>& Foreigners() {
  using World = KernelMountWorld;
  using Kind = Content::Kind;
  static const std::vector<Foreign> all = {
      {"Ext4", [](World& world) { return Filesystem(world, "ext4", {16 * kMiB.value}); }, Kind::kFilesystem,
       "ext4"},
      {"Ext2", [](World& world) { return Filesystem(world, "ext2", {16 * kMiB.value}); }, Kind::kFilesystem,
       "ext2"},
      {"Xfs", [](World& world) { return Filesystem(world, "xfs", {300 * kMiB.value}); }, Kind::kFilesystem,
       "xfs"},
      {"Btrfs", [](World& world) { return Filesystem(world, "btrfs", {128 * kMiB.value}); },
       Kind::kFilesystem, "btrfs"},
      {"PhysicalVolume",
       [](World& world) {
         const std::string node = world.NewDevice({16 * kMiB.value});
         RunTool({"lvm", "pvcreate", "--yes", "--devices", node, node});
         return node;
       },
       Kind::kOther, "LVM2_member"},
      {"Luks",
       [](World& world) {
         const std::string node = world.NewDevice({32 * kMiB.value});
         RunTool({"cryptsetup", "luksFormat", "--batch-mode", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations",
                  "1000", "--key-file", "-", node},
                 "passphrase");
         return node;
       },
       Kind::kOther, "crypto_LUKS"},
      {"Swap",
       [](World& world) {
         const std::string node = world.NewDevice({16 * kMiB.value});
         world.PutSwap(node);
         return node;
       },
       Kind::kOther, "swap"},
      {"Gpt", [](World& world) { return Partitioned(world, "gpt"); }, Kind::kOther, "gpt"},
      {"Mbr", [](World& world) { return Partitioned(world, "dos"); }, Kind::kOther, "dos"},
      {"OnlyTheBackupGptInTheLastSectors",
       [](World& world) {
         const std::string node = Partitioned(world, "gpt");
         Zero(node, 0, kMiB.value);
         return node;
       },
       Kind::kOther, "gpt"},
      {"Ext4AndBtrfs",
       [](World& world) {
         const std::string node = Filesystem(world, "ext4", {128 * kMiB.value});
         Copy(Filesystem(world, "btrfs", {128 * kMiB.value}), node, kBtrfsSuperblock, 4096);
         return node;
       },
       Kind::kAmbiguous, ""},
      {"XfsAndBtrfs",
       [](World& world) {
         const std::string node = Filesystem(world, "xfs", {300 * kMiB.value});
         Copy(Filesystem(world, "btrfs", {300 * kMiB.value}), node, kBtrfsSuperblock, 4096);
         return node;
       },
       Kind::kAmbiguous, ""},
      {"Ext4UnderAPartitionTable",
       [](World& world) {
         const std::string node = Filesystem(world, "ext4", {16 * kMiB.value});
         Copy(Partitioned(world, "dos"), node, 0, 512);
         return node;
       },
       Kind::kAmbiguous, ""},
  };
  return all;
}

class ForeignContent : public ::testing::TestWithParam<Foreign> {
 protected:
  KernelMountWorld world_;
};

TEST_P(ForeignContent, ContentIsRecognizedAndSurvivesMkfs) {
  const std::string node = GetParam().prepare(world_);
  const uint64_t before = Fingerprint(world_.Loop(node));
  {
    const UniqueFd fd = world_.OpenDevice(node);
    const auto content = world_.api().Probe(fd.get());
    ASSERT_TRUE(content.has_value()) << content.error().message();
    EXPECT_EQ(static_cast<int>(content->kind), static_cast<int>(GetParam().kind)) << content->type;
    EXPECT_EQ(content->type, GetParam().type);
  }
  mount::MakeFilesystem spec;
  spec.fs_type = "ext4";
  spec.device = node;
  const Status made = world_.api().Make(spec, CallWithin(std::chrono::seconds(60)));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(CodeName(made.error().code()), CodeName(Code::kPrecondition)) << made.error().message();
  EXPECT_EQ(Fingerprint(world_.Loop(node)), before);
}

TEST_P(ForeignContent, ContentIsOverwrittenOnRequest) {
  const std::string node = GetParam().prepare(world_);
  mount::MakeFilesystem spec;
  spec.fs_type = "ext4";
  spec.device = node;
  spec.overwrite = true;
  const Status made = world_.api().Make(spec, CallWithin(std::chrono::seconds(60)));
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const UniqueFd fd = world_.OpenDevice(node);
  EXPECT_EQ(world_.api().Probe(fd.get())->type, "ext4");
}

INSTANTIATE_TEST_SUITE_P(Every, ForeignContent, ::testing::ValuesIn(Foreigners()),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace quarry::contract
