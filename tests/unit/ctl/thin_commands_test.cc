// map, capacity and plan on a pool with a thin store, read as quarryctl reads it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ctl/capacity_table.h"
#include "ctl/commands.h"
#include "ctl/extent_map.h"
#include "tests/unit/engine/thin_node.h"

namespace quarry::ctl {
namespace {

using engine::ThinNode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ThinCommandsTest : public testing::Test {
 protected:
  Bench BenchOf(bool json = false) { return {node_.lvm, node_.dm, {node_.pool}, json}; }
  std::string Capacity(const engine::Parameters& parameters = {}) {
    const auto shown = ShowCapacity(BenchOf(), parameters, ThinNode::Soon());
    EXPECT_TRUE(shown.has_value()) << shown.error().message();
    return shown.value_or("");
  }

  ThinNode node_;
};

TEST_F(ThinCommandsTest, TheMapNamesTheStoreAndTheVolumesInIt) {
  const std::string id = node_.Make("one", 10);
  const engine::Catalog catalog = node_.Now();
  const std::string store = catalog.stores.front().tags.id;
  const ExtentMap map = BuildMap("default", catalog);
  size_t extents = 0;
  for (const DiskMap& disk : map.disks) {
    for (const auto& run : disk.runs) {
      EXPECT_TRUE(map.owners[run.owner].is_store) << "the pool has nothing else";
      extents += run.range.count.value;
    }
  }
  EXPECT_EQ(extents, (catalog.group->extent_count - catalog.group->free_count).value);
  const std::string drawn = DrawMap(map, 100, false);
  EXPECT_THAT(drawn, HasSubstr("  a fast (" + store + "): raid1, 160 MiB, thin store\n"));
  EXPECT_THAT(drawn, HasSubstr("    one (" + id + "): thin, 40 MiB, in thin store fast\n"));
  EXPECT_THAT(drawn, AllOf(HasSubstr("aaa"), Not(HasSubstr("foreign"))));
  const auto document = nlohmann::json::parse(MapJson(map));
  std::map<std::string, std::string> kinds;
  for (const auto& owner : document["owners"]) {
    kinds[owner["name"]] = owner["kind"];
    EXPECT_EQ(owner["store"], owner["name"] == "one" ? "fast" : "");
  }
  EXPECT_EQ(kinds, (std::map<std::string, std::string>{{"fast", "store"}, {"one", "volume"}}));
}

TEST_F(ThinCommandsTest, ALetterIsNotSpentOnAVolumeWithoutExtents) {
  node_.Make("one", 10);
  ASSERT_TRUE(node_.engine->volumes()
                  .Create({.name = "thick",
                           .range = {Bytes{4 * ThinNode::kExtent.value}, Bytes{}},
                           .capabilities = {{.access = engine::AccessType::kBlock}}},
                          ThinNode::Soon())
                  .has_value());
  for (const Owner& owner : BuildMap("default", node_.Now()).owners) {
    EXPECT_EQ(owner.letter == ' ', owner.name == "one");
    EXPECT_NE(owner.letter, 'c') << "two have extents";
  }
}

TEST_F(ThinCommandsTest, TheTableHasARowForEachStore) {
  node_.Make("one", 10);
  node_.pool.stores.push_back(ThinNode::Wanted("vast", 4000));
  const std::string table = Capacity();
  EXPECT_THAT(table, HasSubstr("\nraid1 "));
  EXPECT_THAT(table,
              HasSubstr("\nthin in store fast                120 MiB        125829120       4 MiB      "
                        "-\n"));
  EXPECT_THAT(table, HasSubstr("\nthin in store vast                    0 B"));
  EXPECT_THAT(table, HasSubstr("is not made yet"));
}

TEST_F(ThinCommandsTest, CapacityOfTypeThinIsThatOfGetCapacity) {
  node_.Make("one", 10);
  const auto shown = ShowCapacity(BenchOf(true), {{"type", "thin"}}, ThinNode::Soon());
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  const auto rows = nlohmann::json::parse(*shown)[0]["profiles"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["largest_bytes"],
            node_.engine->volumes().Capacity({}, {{"type", "thin"}}, ThinNode::Soon())->available.value);
  EXPECT_THAT(Capacity({{"type", "thin"}, {"store", "slow"}}), HasSubstr("has no thin store 'slow'"));
}

TEST_F(ThinCommandsTest, APlanShowsTheStepsOfAVolumeInAStore) {
  const auto shown = ShowPlan(BenchOf(), {{"type", "thin"}}, Bytes{8 * kMiB.value}, ThinNode::Soon());
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_THAT(*shown, HasSubstr(node_.Now().stores.front().lv->name));
  const auto large = ShowPlan(BenchOf(), {{"type", "thin"}}, kGiB, ThinNode::Soon());
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code(), Code::kNoSpace);
  EXPECT_EQ(ShowPlan(BenchOf(), {{"type", "thin"}, {"store", "slow"}}, kMiB, ThinNode::Soon()).error().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace quarry::ctl
