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

TEST(ParseSize, CountsInPowersOf1024) {
  const std::pair<const char*, uint64_t> good[] = {
      {"0", 0},
      {"4096", 4096},
      {"1K", 1024},
      {"4MiB", 4194304},
      {"4M", 4194304},
      {"512 MiB", 536870912},
      {"10G", 10737418240},
      {"10GiB", 10737418240},
      {"2T", 2199023255552},
      {"7TiB", 7696581394432},
      {"9223372036854775807", 9223372036854775807},
  };
  for (const auto& [text, bytes] : good) {
    const auto parsed = ParseSize(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(parsed->value, bytes) << text;
  }
}

TEST(ParseSize, RefusesAmbiguousSizes) {
  for (const char* bad : {"", "G", "-1", "+1", "1.5G", "10GB", "10gib", "10g", "1 0G", "1  G", "1X", "1Gi",
                          "0x10", "99999999999999999999", "9007199254740993T", " 1G", "1G "}) {
    const auto parsed = ParseSize(bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_NE(parsed.error().message().find(std::string("is '") + bad + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace quarry
