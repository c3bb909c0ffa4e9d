// dm-raid's superblock, byte by byte.
#include "dm/raid_superblock.h"

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

TEST_F(RaidSuperblockTest, SaysWhatTheLegHeardLast) {
  const auto parsed = ParseRaidSuperblock(block_);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->legs, 3U);
  EXPECT_EQ(parsed->role, 2U);
  EXPECT_EQ(parsed->events, 0x1122U);
  EXPECT_THAT(parsed->failed, ElementsAre(true, true, false));
  EXPECT_TRUE(parsed->filled);
  EXPECT_TRUE(parsed->in_sync);
}

TEST_F(RaidSuperblockTest, KnowsWhatIsNotDone) {
  Put(32, 4096, 8);
  Put(40, 0, 8);
  EXPECT_FALSE(ParseRaidSuperblock(block_)->filled);
  EXPECT_FALSE(ParseRaidSuperblock(block_)->in_sync);
}

TEST_F(RaidSuperblockTest, RefusesWhatIsNone) {
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

TEST_F(RaidSuperblockTest, ChangesOnlyWhoFailedAndWhatIsInSync) {
  const auto before = block_;
  SetFailedLegs(block_, {true, false, false}, false);
  EXPECT_THAT(ParseRaidSuperblock(block_)->failed, ElementsAre(true, false, false));
  EXPECT_TRUE(ParseRaidSuperblock(block_)->in_sync);
  SetFailedLegs(block_, {false, false, false}, true);
  EXPECT_THAT(ParseRaidSuperblock(block_)->failed, ElementsAre(false, false, false));
  EXPECT_FALSE(ParseRaidSuperblock(block_)->in_sync);
  for (size_t i = 0; i < block_.size(); ++i) {
    if (i < 24 || (i >= 32 && i < 40) || i >= 48) {
      ASSERT_EQ(block_[i], before[i]) << i;
    }
  }
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
  SetFailedLegs(block_, other, false);
  EXPECT_EQ(ParseRaidSuperblock(block_)->failed, other);
}

}  // namespace
}  // namespace quarry::dm
