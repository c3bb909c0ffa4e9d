#include "dm/target_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::dm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Lines from kernels 6.1 and 6.12.
TEST(ParseRaidStatus, ReadsWhatTheKernelSaysOfEveryLeg) {
  const auto well = ParseRaidStatus("raid1 2 AA 409600/409600 idle 0 0 -");
  ASSERT_TRUE(well.has_value()) << well.error().message();
  EXPECT_EQ(well->type, "raid1");
  EXPECT_EQ(well->legs, "AA");
  EXPECT_EQ(well->in_sync, well->total);
  EXPECT_EQ(well->action, "idle");
  EXPECT_EQ(well->mismatches, 0U);

  const auto degraded = ParseRaidStatus("raid1 2 AD 409600/409600 idle 0 0 -");
  ASSERT_TRUE(degraded.has_value());
  EXPECT_EQ(degraded->legs, "AD");

  const auto syncing = ParseRaidStatus("raid5_ls 3 aaa 1024/65536 resync 0 0 -");
  ASSERT_TRUE(syncing.has_value());
  EXPECT_EQ(syncing->type, "raid5_ls");
  EXPECT_EQ(syncing->in_sync, 1024U);
  EXPECT_EQ(syncing->action, "resync");

  const auto checked = ParseRaidStatus("raid6_zr 5 AAAAA 65536/65536 check 81920 0 -");
  ASSERT_TRUE(checked.has_value());
  EXPECT_EQ(checked->mismatches, 81920U);
}

TEST(ParseRaidStatus, RefusesWhatMakesNoSense) {
  for (const char* line :
       {"", "raid1", "raid1 2", "raid1 2 AA", "raid1 x AA 1/1 idle 0", "raid1 2 AA 9/8 idle 0 0 -",
        "raid1 3 AA 8/8 idle 0 0 -", "raid1 2 AA 0/0 idle 0 0 -", "0 409600 raid raid1 2 AA"}) {
    const auto parsed = ParseRaidStatus(line);
    ASSERT_FALSE(parsed.has_value()) << line;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
  }
}

const SectorRange kAll{0, UINT64_MAX};

TEST(SectorsTaken, OfALinearTargetAreAsManyAsItHas) {
  EXPECT_THAT(SectorsTaken("linear", 100, "8:16 2048", "8:16"), ElementsAre(SectorRange{2048, 100}));
  EXPECT_THAT(SectorsTaken("linear", 100, "8:16 2048", "8:1"), IsEmpty());
}

TEST(SectorsTaken, OfStripesAreSharedOut) {
  EXPECT_THAT(SectorsTaken("striped", 300, "3 128 8:16 2048 8:32 0 8:16 4096", "8:16"),
              ElementsAre(SectorRange{2048, 100}, SectorRange{4096, 100}));
}

TEST(SectorsTaken, OfAMirrorAreAllOfThemOnEachCopy) {
  EXPECT_THAT(
      SectorsTaken("mirror", 100, "core 2 1024 block_on_error 2 8:16 0 8:32 2048 1 handle_errors", "8:32"),
      ElementsAre(SectorRange{2048, 100}));
  EXPECT_THAT(SectorsTaken("mirror", 100, "disk 2 8:32 1024 2 8:16 0 8:48 2048", "8:32"), ElementsAre(kAll))
      << "its log is there";
}

TEST(SectorsTaken, AreAllOfThemWhereTheTargetDoesNotSay) {
  EXPECT_THAT(SectorsTaken("thin-pool", 100, "8:16 8:32 128 0 0", "8:32"), ElementsAre(kAll));
  EXPECT_THAT(SectorsTaken("thin-pool", 100, "8:16 8:32 128 0 0", "8:3"), IsEmpty());
  for (const char* torn : {"", "2", "9 128 8:16 0", "0 128 8:16 0", "x 128 8:16 0", "1 128 8:16 y"}) {
    const bool named = std::string_view(torn).find("8:16") != std::string_view::npos;
    EXPECT_EQ(SectorsTaken("striped", 100, torn, "8:16"),
              named ? std::vector{kAll} : std::vector<SectorRange>())
        << torn;
  }
  EXPECT_THAT(SectorsTaken("mirror", 100, "core 99 8:16 0", "8:16"), ElementsAre(kAll));
}

}  // namespace
}  // namespace quarry::dm
