// dm-raid's superblock, byte by byte.
#include "dm/raid_superblock.h"

#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::dm {
namespace {

using ::testing::ElementsAre;

class RaidSuperblockTest : public testing::Test {
 protected:
  RaidSuperblockTest() {
    Put(0, 0x64526d44, 4);   // magic
    Put(8, 3, 4);            // num_devices
    Put(12, 2, 4);           // array_position
    Put(16, 0x1122, 8);      // events
    Put(24, 0b011, 8);       // failed_devices
    Put(32, UINT64_MAX, 8);  // disk_recovery_offset
    Put(40, UINT64_MAX, 8);  // array_resync_offset
  }
  void Put(size_t at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      block_[at + i] = static_cast<std::byte>(value >> (8 * i));
    }
  }
  std::array<std::byte, kRaidSuperblock> block_{};
};

TEST_F(RaidSuperblockTest, HasTheLegsLastKnownState) {
  const auto parsed = ParseRaidSuperblock(block_);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->legs, 3U);
  EXPECT_EQ(parsed->role, 2U);
  EXPECT_EQ(parsed->events, 0x1122U);
  EXPECT_THAT(parsed->failed, ElementsAre(true, true, false));
  EXPECT_TRUE(parsed->filled);
  EXPECT_TRUE(parsed->in_sync());
  EXPECT_EQ(parsed->synced, UINT64_MAX);
}

TEST_F(RaidSuperblockTest, ShowsAnIncompleteSync) {
  Put(32, 4096, 8);
  Put(40, 0, 8);
  EXPECT_FALSE(ParseRaidSuperblock(block_)->filled);
  EXPECT_FALSE(ParseRaidSuperblock(block_)->in_sync());
  Put(40, 77, 8);
  EXPECT_EQ(ParseRaidSuperblock(block_)->synced, 77U);
}

TEST_F(RaidSuperblockTest, TellsALegThatWasNeverStartedFromADamagedOne) {
  block_.fill(std::byte{0});
  EXPECT_EQ(ParseRaidSuperblock(block_).error().code(), Code::kNotFound);
  Put(4000, 1, 1);
  EXPECT_EQ(ParseRaidSuperblock(block_).error().code(), Code::kCorrupt);
}

TEST_F(RaidSuperblockTest, RefusesOtherBlocks) {
  EXPECT_EQ(ParseRaidSuperblock(std::span(block_).first(512)).error().code(), Code::kCorrupt);
  Put(8, 1, 4);
  EXPECT_EQ(ParseRaidSuperblock(block_).error().code(), Code::kCorrupt) << "one leg is no raid";
  Put(8, 2, 4);
  EXPECT_EQ(ParseRaidSuperblock(block_).error().code(), Code::kCorrupt) << "leg 2 of 2";
  Put(8, 254, 4);
  EXPECT_EQ(ParseRaidSuperblock(block_).error().code(), Code::kCorrupt) << "more than the kernel takes";
  Put(0, 0, 4);
  EXPECT_EQ(ParseRaidSuperblock(block_).error().code(), Code::kCorrupt);
}

TEST_F(RaidSuperblockTest, ChangesOnlyFailedLegsAndSyncState) {
  const auto before = block_;
  SetRaidStart(block_, {.left_out = {true, false, false}, .resync = false});
  EXPECT_THAT(ParseRaidSuperblock(block_)->failed, ElementsAre(true, false, false));
  EXPECT_TRUE(ParseRaidSuperblock(block_)->in_sync());
  SetRaidStart(block_, {.left_out = {false, false, false}, .resync = true});
  EXPECT_THAT(ParseRaidSuperblock(block_)->failed, ElementsAre(false, false, false));
  EXPECT_FALSE(ParseRaidSuperblock(block_)->in_sync());
  for (size_t i = 0; i < block_.size(); ++i) {
    if (i < 24 || (i >= 32 && i < 40) || i >= 48) {
      ASSERT_EQ(block_[i], before[i]) << i;
    }
  }
  SetRaidStart(block_, {.left_out = {false, false, false}, .events = uint64_t{7} << 32});
  EXPECT_EQ(ParseRaidSuperblock(block_)->events, uint64_t{7} << 32);
}

TEST_F(RaidSuperblockTest, LegsBeyondTheSixtyFourthHaveWordsOfTheirOwn) {
  Put(8, 130, 4);
  Put(120, 0b10, 8);  // leg 65
  Put(128, 0b1, 8);   // leg 128
  const auto failed = ParseRaidSuperblock(block_)->failed;
  EXPECT_TRUE(failed[65]);
  EXPECT_TRUE(failed[128]);
  EXPECT_FALSE(failed[64]);
  std::vector<bool> other(130, false);
  other[129] = true;
  SetRaidStart(block_, {.left_out = other});
  EXPECT_EQ(ParseRaidSuperblock(block_)->failed, other);
}

class RaidBitmapTest : public RaidSuperblockTest {
 protected:
  RaidBitmapTest() {
    block_.fill(std::byte{0});
    Put(0, 0x6d746962, 4);  // magic
    Put(4, 4, 4);           // version
    Put(24, 7, 8);          // events
    Put(32, 6, 8);          // events_cleared
    Put(40, 100 * 128, 8);  // sync_size, in sectors
    Put(48, 0x8002, 4);     // state: host's order of bytes, stale
    Put(52, 64 << 10, 4);   // chunksize
  }
};

TEST_F(RaidBitmapTest, IsAsLongAsItsRegionsNeed) {
  EXPECT_EQ(*RaidBitmapSize(block_), 256U + 13) << "100 bits";
  Put(40, 100 * 128 + 500, 8);
  EXPECT_EQ(*RaidBitmapSize(block_), 256U + 13) << "104 bits, the last for a part of a region";
  Put(40, 104 * 128 + 1, 8);
  EXPECT_EQ(*RaidBitmapSize(block_), 256U + 14);
}

TEST_F(RaidBitmapTest, RefusesOtherBlocks) {
  EXPECT_EQ(RaidBitmapSize(std::span(block_).first(512)).error().code(), Code::kCorrupt);
  Put(52, 0, 4);
  EXPECT_EQ(RaidBitmapSize(block_).error().code(), Code::kCorrupt);
  Put(52, 3 * 512, 4);
  EXPECT_EQ(RaidBitmapSize(block_).error().code(), Code::kCorrupt);
  Put(52, 64 << 10, 4);
  Put(0, 0, 4);
  EXPECT_EQ(RaidBitmapSize(block_).error().code(), Code::kCorrupt);
}

TEST_F(RaidBitmapTest, SaysWhichRegionsAreMarked) {
  std::vector<bool> expected(100, false);
  EXPECT_EQ(*ParseRaidBitmap(block_), (RaidBitmap{.events = 7, .region_size = 128, .marked = expected}));
  Put(256 + 12, 0b11110000, 1);
  EXPECT_EQ(ParseRaidBitmap(block_)->marked, expected) << "there are 100, the kernel sets 104";
  Put(256 + 12, 0b11111000, 1);
  Put(256 + 1, 0b01000000, 1);
  Put(256 + 13, 1, 1);
  expected[99] = expected[14] = true;
  EXPECT_EQ(ParseRaidBitmap(block_)->marked, expected) << "nothing behind its end";
  Put(40, 100'000'000, 8);
  EXPECT_EQ(ParseRaidBitmap(block_).error().code(), Code::kCorrupt) << "not all of it was read";
  EXPECT_EQ(MarkAllRegions(block_, 1).error().code(), Code::kCorrupt);
}

TEST_F(RaidBitmapTest, TheseRegionsAreMarkedAndNoOthers) {
  Put(256, 0xff, 1);
  Put(256 + 13, 0xff, 1);
  auto expected = block_;
  expected[256] = std::byte{0b00000010};
  expected[256 + 12] = std::byte{0b00001000};
  std::vector<bool> marked(100, false);
  marked[1] = marked[99] = true;
  ASSERT_TRUE(MarkRegions(block_, marked).has_value());
  EXPECT_EQ(block_, expected) << "and what is behind its end is left alone";
  marked.push_back(true);
  EXPECT_EQ(MarkRegions(block_, marked).error().code(), Code::kCorrupt) << "it has no such region";
  EXPECT_EQ(block_, expected);
}

TEST_F(RaidBitmapTest, AllRegionsAreMarkedAndItIsCurrent) {
  auto expected = block_;
  ASSERT_TRUE(MarkAllRegions(block_, 0x1122).has_value());
  expected[24] = std::byte{0x22};
  expected[25] = std::byte{0x11};
  expected[32] = std::byte{0};
  expected[48] = std::byte{0};
  std::fill_n(expected.begin() + 256, 13, std::byte{0xff});
  EXPECT_EQ(block_, expected);
}

}  // namespace
}  // namespace quarry::dm
