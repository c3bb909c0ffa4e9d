#include "thin/block_set.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace quarry::thin {
namespace {

TEST(BlockSetTest, RunsGoAcrossPages) {
  BlockSet blocks;
  for (uint64_t block = 32700; block < 70000; ++block) {
    blocks.Insert(block);
  }
  EXPECT_EQ(blocks.NextRun(0), (DataRun{32700, 37300}));
  EXPECT_EQ(blocks.NextRun(40000), (DataRun{40000, 30000}));
  EXPECT_EQ(blocks.NextRun(70000), std::nullopt);
}

TEST(BlockSetTest, ARunThatEndsWithItsPageEndsThere) {
  BlockSet blocks;
  blocks.Insert(32767);
  blocks.Insert(1 << 20);
  EXPECT_EQ(blocks.NextRun(0), (DataRun{32767, 1}));
  EXPECT_EQ(blocks.NextRun(32768), (DataRun{1 << 20, 1}));
}

TEST(BlockSetTest, ErasingTwiceOrElsewhereChangesNothing) {
  BlockSet blocks;
  blocks.Erase(5);
  blocks.Insert(5);
  blocks.Insert(5);
  EXPECT_EQ(blocks.size(), 1u);
  blocks.Erase(6);
  blocks.Erase(1'000'000);
  EXPECT_EQ(blocks.size(), 1u);
  blocks.Erase(5);
  blocks.Erase(5);
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(blocks.NextRun(0), std::nullopt);
}

RC_GTEST_PROP(BlockSetPropertyTest, ItIsASet, ()) {
  BlockSet blocks;
  std::set<uint64_t> model;
  const auto number =
      rc::gen::oneOf(rc::gen::inRange<uint64_t>(0, 200), rc::gen::inRange<uint64_t>(32700, 32900),
                     rc::gen::inRange<uint64_t>(0, 1'000'000));
  for (const auto& [insert, begin] : *rc::gen::container<std::vector<std::pair<bool, uint64_t>>>(
           rc::gen::pair(rc::gen::arbitrary<bool>(), number))) {
    for (uint64_t block = begin; block < begin + 20; ++block) {
      insert ? blocks.Insert(block) : blocks.Erase(block);
      insert ? void(model.insert(block)) : void(model.erase(block));
    }
  }
  RC_ASSERT(blocks.size() == model.size());
  std::set<uint64_t> found;
  uint64_t end = 0;
  for (auto run = blocks.NextRun(0); run; run = blocks.NextRun(end)) {
    RC_ASSERT(found.empty() || run->begin > end);
    end = run->begin + run->length;
    for (uint64_t block = run->begin; block < end; ++block) {
      found.insert(block);
      RC_ASSERT(blocks.Contains(block));
    }
    RC_ASSERT(!blocks.Contains(end));
  }
  RC_ASSERT(found == model);
}

}  // namespace
}  // namespace quarry::thin
