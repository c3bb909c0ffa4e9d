#include "base/units.h"

#include <gtest/gtest.h>

namespace quarry {
namespace {

TEST(Units, RoundsUpToWholeExtentsWithoutOverflow) {
  const Bytes extent{4 * kMiB.value};
  EXPECT_EQ(CeilToExtents(Bytes{0}, extent).value, 0U);
  EXPECT_EQ(CeilToExtents(Bytes{1}, extent).value, 1U);
  EXPECT_EQ(CeilToExtents(extent, extent).value, 1U);
  EXPECT_EQ(CeilToExtents(extent + Bytes{1}, extent).value, 2U);
  EXPECT_EQ(CeilToExtents(Bytes{UINT64_MAX}, extent).value, (UINT64_MAX / extent.value) + 1);
}

TEST(Units, SpeaksToPeople) {
  EXPECT_EQ(HumanBytes(Bytes{0}), "0 B");
  EXPECT_EQ(HumanBytes(Bytes{513}), "513 B");
  EXPECT_EQ(HumanBytes(kMiB), "1 MiB");
  EXPECT_EQ(HumanBytes(Bytes{1536 * kMiB.value}), "1.50 GiB");
}

}  // namespace
}  // namespace quarry
