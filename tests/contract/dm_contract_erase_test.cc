// Erasing zeroes the requested range, and not a byte beside it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "tests/contract/kernel_dm_world.h"

namespace quarry::contract {
namespace {

using dm::EraseMethod;

constexpr Bytes kDisk{64 * kMiB.value};

std::vector<char> Read(const std::string& node, Bytes offset, Bytes length) {
  std::vector<char> data(length.value);
  const UniqueFd fd(open(node.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(pread(fd.get(), data.data(), data.size(), static_cast<off_t>(offset.value)),
            static_cast<ssize_t>(data.size()));
  return data;
}

void Write(const std::string& node, Bytes offset, const std::vector<char>& data) {
  const UniqueFd fd(open(node.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pwrite(fd.get(), data.data(), data.size(), static_cast<off_t>(offset.value)),
            static_cast<ssize_t>(data.size()));
  ASSERT_EQ(fsync(fd.get()), 0);
}

void Fill(const std::string& node, Bytes offset, Bytes length) {
  Write(node, offset, std::vector<char>(length.value, 'x'));
}

bool AllAre(const std::vector<char>& data, char byte) {
  return std::all_of(data.begin(), data.end(), [byte](char c) { return c == byte; });
}

class KernelErase : public ::testing::Test {
 protected:
  Status Erase(Bytes offset, Bytes length, EraseMethod method = EraseMethod::kZero) {
    return world_.api().Erase({world_.device(), world_.pv_uuid(), offset, length}, method,
                              CallWithin(std::chrono::seconds(60)), nullptr);
  }
  std::vector<char> Start() { return Read(world_.device(), {0}, world_.first_extent()); }

  KernelEraseWorld world_{LoopDevice(kDisk)};
};

TEST_F(KernelErase, ZeroesTheRangeAndNotAByteBesideIt) {
  const Bytes first = world_.first_extent();
  Fill(world_.device(), first, {8 * kMiB.value});
  const std::vector<char> start = Start();
  ASSERT_TRUE(Erase(first + kMiB, {3 * kMiB.value}).has_value());
  EXPECT_TRUE(AllAre(Read(world_.device(), first, kMiB), 'x'));
  EXPECT_TRUE(AllAre(Read(world_.device(), first + kMiB, {3 * kMiB.value}), 0));
  EXPECT_TRUE(AllAre(Read(world_.device(), first + Bytes{4 * kMiB.value}, {4 * kMiB.value}), 'x'));
  EXPECT_EQ(Start(), start);
}

TEST_F(KernelErase, WorksWhileAnotherProcessHasTheDiskExclusively) {
  Fill(world_.device(), world_.first_extent(), kMiB);
  const UniqueFd lvm(open(world_.device().c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(lvm.valid());
  ASSERT_TRUE(Erase(world_.first_extent(), kMiB).has_value());
  EXPECT_TRUE(AllAre(Read(world_.device(), world_.first_extent(), kMiB), 0));
}

TEST_F(KernelErase, ErasesUpToTheLastByte) {
  EXPECT_TRUE(Erase(world_.first_extent(), kDisk - world_.first_extent()).has_value());
  EXPECT_FALSE(Erase(world_.first_extent(), kDisk - world_.first_extent() + Bytes{512}).has_value());
}

TEST_F(KernelErase, RefusesTheLabelAndItsMetadata) {
  const std::vector<char> start = Start();
  for (const Bytes offset : {Bytes{0}, Bytes{512}, Bytes{4096}, world_.first_extent() - Bytes{512}}) {
    const Status erased = Erase(offset, {512});
    ASSERT_FALSE(erased.has_value()) << offset.value;
    EXPECT_EQ(erased.error().code(), Code::kCorrupt);
  }
  EXPECT_EQ(Start(), start);
}

TEST_F(KernelErase, RefusesRangesThatAreNoWholeSectors) {
  EXPECT_EQ(Erase(world_.first_extent() + Bytes{1}, {512}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Erase(world_.first_extent(), {513}).error().code(), Code::kInvalidArgument);
}

TEST_F(KernelErase, RefusesADiskWhoseLabelIsGoneOrDamaged) {
  // A character of the PV's UUID, which may be any letter or digit. It is replaced by another one.
  std::vector<char> character = Read(world_.device(), {512 + 40}, {1});
  character[0] = character[0] == 'x' ? 'y' : 'x';
  Write(world_.device(), {512 + 40}, character);
  EXPECT_EQ(Erase(world_.first_extent(), kMiB).error().code(), Code::kCorrupt);
  Fill(world_.device(), {512}, {512});
  EXPECT_EQ(Erase(world_.first_extent(), kMiB).error().code(), Code::kCorrupt);
}

TEST_F(KernelErase, RefusesAPathThatIsNoBlockDevice) {
  EXPECT_EQ(world_.api()
                .Erase({"/dev/null", world_.pv_uuid(), kMiB, kMiB}, EraseMethod::kZero, Call{}, nullptr)
                .error()
                .code(),
            Code::kInvalidArgument);
}

TEST_F(KernelErase, DiscardsWhereTheDiskCan) {
  EXPECT_TRUE(Erase(world_.first_extent(), kMiB, EraseMethod::kDiscard).has_value());
}

TEST(KernelEraseWithoutDiscard, DiscardIsUnsupportedAndZeroingWorks) {
  KernelEraseWorld world(LoopDevice(FileWithoutHoles(), kDisk));
  Fill(world.device(), world.first_extent(), kMiB);
  const dm::EraseRange range{world.device(), world.pv_uuid(), world.first_extent(), kMiB};
  EXPECT_EQ(world.api().Erase(range, EraseMethod::kDiscard, Call{}, nullptr).error().code(),
            Code::kUnsupported);
  EXPECT_TRUE(AllAre(Read(world.device(), range.offset, range.length), 'x'));
  EXPECT_TRUE(world.api().Erase(range, EraseMethod::kZero, Call{}, nullptr).has_value());
  EXPECT_TRUE(AllAre(Read(world.device(), range.offset, range.length), 0));
}

TEST(KernelEraseWithTwoMetadataAreas, RefusesTheAreaAtTheEnd) {
  KernelEraseWorld world(LoopDevice(kDisk), {"--pvmetadatacopies", "2"});
  const auto erase = [&](Bytes offset, Bytes length) {
    return world.api().Erase({world.device(), world.pv_uuid(), offset, length}, EraseMethod::kZero, Call{},
                             nullptr);
  };
  EXPECT_FALSE(erase(world.first_extent(), kDisk - world.first_extent()).has_value());
  EXPECT_FALSE(erase(kDisk - Bytes{4096}, {4096}).has_value());
  EXPECT_TRUE(erase(world.first_extent(), {32 * kMiB.value}).has_value());
  EXPECT_EQ(RunTool({"lvm", "pvs", "--devices", world.device(), "--noheadings", "-o", "pv_mda_count",
                     world.device()}),
            "      2\n");
}

}  // namespace
}  // namespace quarry::contract
