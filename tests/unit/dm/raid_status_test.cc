#include "dm/target_lines.h"

#include <gtest/gtest.h>

namespace quarry::dm {
namespace {

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

}  // namespace
}  // namespace quarry::dm
