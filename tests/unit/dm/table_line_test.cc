#include "dm/target_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::dm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
