#include "ctl/extent_map.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/read/report_parser.h"

namespace quarry::ctl {
namespace {

using ::testing::HasSubstr;

// The group of a report of lvm2, without volumes of Quarry's.
engine::Catalog Foreign(const std::string& report) {
  std::ifstream in(std::filesystem::path(QUARRY_FIXTURES) / "lvm/texts/2.03.31" / report, std::ios::binary);
  auto group = lvm::ParseReport(std::string(std::istreambuf_iterator<char>(in), {}));
  EXPECT_TRUE(group.has_value()) << group.error().message();
  return {
      .group = std::make_shared<const lvm::VolumeGroup>(std::move(*group)), .records = {}, .stray_legs = {}};
}

Extents InRuns(const ExtentMap& map, Role role) {
  Extents sum;
  for (const DiskMap& disk : map.disks) {
    for (const Run& run : disk.runs) {
      sum += run.role == role ? run.range.count : Extents{};
    }
  }
  return sum;
}

TEST(ExtentMapTest, ShowsDataAndMetadataOfThinPoolsAndTheirSpare) {
  const engine::Catalog catalog = Foreign("thin_spare.json");
  const ExtentMap map = BuildMap("default", catalog);
  EXPECT_EQ(InRuns(map, Role::kData), Extents{16 + 8 + 1});  // both pools, and the spare
  EXPECT_EQ(InRuns(map, Role::kMetadata), Extents{2});
  EXPECT_EQ(InRuns(map, Role::kData) + InRuns(map, Role::kMetadata),
            catalog.group->extent_count - catalog.group->free_count);
  const std::string drawn = DrawMap(map, 100, false);
  EXPECT_THAT(drawn, HasSubstr("  # pool: thin-pool, 64 MiB, foreign\n"));
  EXPECT_THAT(drawn, HasSubstr("  # thin: thin, 128 MiB, foreign\n"));
  EXPECT_THAT(drawn, HasSubstr("  # lvol0_pmspare: linear, 4 MiB, foreign\n"));
}

TEST(ExtentMapTest, ShowsTheLegsBelowAThinPool) {
  const engine::Catalog catalog = Foreign("thin_raid1.json");
  const ExtentMap map = BuildMap("default", catalog);
  EXPECT_EQ(InRuns(map, Role::kData), Extents{2 * 10});
  EXPECT_EQ(InRuns(map, Role::kMetadata), Extents{2 * 1 + 2 * (2 + 1)});  // rmeta of the data; all of tmeta
}

TEST(ExtentMapTest, ShowsTheStoresOfSnapshots) {
  const engine::Catalog catalog = Foreign("snapshots.json");
  const ExtentMap map = BuildMap("default", catalog);
  EXPECT_EQ(InRuns(map, Role::kData) + InRuns(map, Role::kMetadata),
            catalog.group->extent_count - catalog.group->free_count);
  EXPECT_THAT(DrawMap(map, 100, false), HasSubstr("  # late: linear, 28 MiB, foreign\n"));
}

}  // namespace
}  // namespace quarry::ctl
