// Thin stores that grow by themselves, and overcommitted ones, on fakes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/model/store_ladder.h"
#include "engine/model/thin_space.h"
#include "engine/snapshots.h"
#include "tests/fakes/fake_lvm_model.h"
#include "tests/unit/engine/thin_store_world.h"

namespace quarry::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreGrowthTest : public ThinStoreTest {
 protected:
  // Three disks of 100 extents; the store is raid1, its metadata have an extent and a log beside each leg.
  void Use(uint64_t extents, uint64_t most, uint32_t overcommit = 100) {
    StoreConfig store = Store("fast", extents);
    store.most = {most * kExtent.value};
    store.overcommit = overcommit;
    stores_ = {store};
    if (LvCount() == 1) {
      Clear();  // no volume is in the store that is there
    }
    Restart();
  }
  void Clear() {
    engine_.reset();
    lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs.clear(); });
    dm_.Reboot();
  }
  uint64_t Data() { return Now().stores.front().data->size.value / kExtent.value; }
  Error Refused(const std::string& name, uint64_t extents) {
    const auto made = Create(name, extents);
    EXPECT_FALSE(made.has_value());
    return made.has_value() ? Error(Code::kInternal, "made") : made.error();
  }
  void FillTo(const std::string& id, uint64_t percent) {
    const uint64_t chunks = (*dm_.ThinPool(PoolUuid()))->data_total * percent / 100;
    const auto fd = dm_.Open(DmUuidOf(id), O_RDWR);
    ASSERT_TRUE(fd.has_value()) << fd.error().message();
    for (uint64_t missing = chunks - ChunksUsed(); missing > 0; --missing) {
      ASSERT_EQ(pwrite(fd->get(), "x", 1, static_cast<off_t>(written_[id]++ * kChunk.value)), 1);
    }
    ASSERT_EQ(ChunksUsed(), chunks);
  }
  std::map<std::string, uint64_t> written_;  // chunks of each volume, from its start
  StoreStatus Shown() { return engine_->lifecycle().ShowStore("", "fast", false, Soon())->store; }
};

TEST_F(StoreGrowthTest, GrowsByWhatIsMissingAndNoFurtherThanItMay) {
  Use(40, 60);
  EXPECT_EQ(Left(), 60U);
  Make("one", 30);
  EXPECT_EQ(Data(), 40U) << "it had room";
  EXPECT_EQ(Left(), 30U);
  Make("two", 15);
  EXPECT_EQ(Data(), 45U);
  EXPECT_EQ(Now().stores.front().tags.size, Bytes{45 * kExtent.value});
  const Error error = Refused("three", 16);
  EXPECT_EQ(error.code(), Code::kNoSpace);
  EXPECT_THAT(error.message(), HasSubstr("lets it grow to 240 MiB"));
  Make("three", 15);
  EXPECT_EQ(Data(), 60U);
  EXPECT_EQ(Left(), 0U);
  Restart();
  EXPECT_EQ(Data(), 60U) << "it keeps what it has";
}

TEST_F(StoreGrowthTest, WhatIsReportedCanBeMadeWhateverElseIsInThePool) {
  for (const uint64_t thick : {5U, 31U, 50U, 59U}) {
    Clear();
    Use(20, 90);
    const auto made = engine_->volumes().Create({.name = "thick",
                                                 .range = {Bytes{thick * kExtent.value}, Bytes{}},
                                                 .capabilities = {{.access = AccessType::kBlock}},
                                                 .parameters = {{"type", "raid1"}, {"mirrors", "2"}}},
                                                Soon());
    ASSERT_TRUE(made.has_value()) << made.error().message();
    const uint64_t left = Left();
    EXPECT_GE(left, 20U);
    EXPECT_EQ(Refused("over", left + 1).code(), Code::kNoSpace);
    Make("all", left);
    EXPECT_EQ(Left(), 0U);
    EXPECT_EQ(Data(), std::max<uint64_t>(left, 20));
  }
}

TEST_F(StoreGrowthTest, ExpansionSnapshotsAndClonesMakeItGrow) {
  Use(20, 60);
  const std::string id = Make("one", 10);
  ASSERT_TRUE(
      engine_->volumes().Expand(id, {Bytes{25 * kExtent.value}, Bytes{}}, std::nullopt, Soon()).has_value());
  EXPECT_EQ(Data(), 25U);
  Activate(id);
  for (uint64_t at = 0; at < 10 * kExtent.value; at += kChunk.value) {
    Write(id, "x", at);
  }
  // 25 of the volume, 10 of the snapshot, and the margin, which is no more than the volume has.
  const auto cut = engine_->snapshots().Create({.name = "s", .source = id}, Soon());
  ASSERT_TRUE(cut.has_value()) << cut.error().message();
  EXPECT_EQ(Data(), 60U) << "10 for the snapshot and 25 for the margin";
  EXPECT_FALSE(engine_->snapshots().Create({.name = "s2", .source = id}, Soon()).has_value());
}

TEST_F(StoreGrowthTest, ASnapshotOfAVolumeThatIsNotActiveGrowsItByWhatTheVolumeHas) {
  Use(30, 90);
  const std::string id = Make("one", 28);
  Activate(id);
  Write(id, "x", 0);
  Deactivate(id);
  const auto cut = engine_->snapshots().Create({.name = "s", .source = id}, Soon());
  ASSERT_TRUE(cut.has_value()) << cut.error().message();
  EXPECT_EQ(Data(), 57U) << "28 of the volume, one for the snapshot, and 28 for the margin";
}

TEST_F(StoreGrowthTest, GrowingSurvivesAKillAtEveryStep) {
  for (const std::string verb : {"Extend", "ExtendPoolMetadata", "ChangeTags", "CreateThin"}) {
    for (fakes::Faults* const faults : {&lvm_.before, &lvm_.after}) {
      SCOPED_TRACE(fmt::format("{} {}", verb, faults == &lvm_.before ? "before" : "after"));
      lvm_.before.Clear();
      lvm_.after.Clear();
      Clear();
      // So small that its metadata have to grow, too.
      StoreConfig store = Store("fast", 1);
      store.most = {90 * kExtent.value};
      store.chunk = kLeastChunk;
      stores_ = {store};
      Restart();
      faults->FailNth(verb, 1, Error(Code::kTimeout, "killed"));
      lvm_.before.FailAlways("Remove", Error(Code::kTimeout, "killed"));
      const auto failed = Create("one", 80);
      lvm_.before.Clear();
      lvm_.after.Clear();
      Restart();
      ASSERT_TRUE(Eventually([&] { return LvCount() == (failed.has_value() ? 2U : 1U); }));
      const auto made = Create("one", 80);
      ASSERT_TRUE(made.has_value()) << made.error().message();
      EXPECT_EQ(LvCount(), 2U);
      EXPECT_EQ(Data(), 80U);
    }
  }
}

TEST_F(StoreGrowthTest, AnOvercommittedStorePromisesMoreThanItHas) {
  Use(20, 0, 250);
  EXPECT_EQ(Left(), 50U);
  Make("one", 30);
  Make("two", 20);
  EXPECT_EQ(Left(), 0U);
  EXPECT_EQ(Data(), 20U);
  const StoreStatus shown = Shown();
  EXPECT_EQ(shown.mode, StoreMode::kReadWrite);
  EXPECT_EQ(shown.promised, Bytes{50 * kExtent.value});
  EXPECT_EQ(shown.promisable, Bytes{50 * kExtent.value});
  // With less overcommit than it has promised, it stays as it is, and nothing more is made.
  Use(20, 0, 150);
  EXPECT_EQ(Left(), 0U);
  EXPECT_EQ(Refused("three", 1).code(), Code::kNoSpace);
}

TEST_F(StoreGrowthTest, WhatWasPromisedIsLookedAfterWhateverTheConfigurationSaysNow) {
  Use(20, 0, 250);
  const std::string id = Make("one", 30);
  Use(20, 40, 100);
  Activate(id);
  FillTo(id, 85);
  EXPECT_THAT(engine_->upkeep().TendStores("default", Soon()), ElementsAre(Now().stores.front().tags.id));
  EXPECT_EQ(Data(), 25U) << "it grows on";
  stores_.clear();
  Restart();
  FillTo(id, 92);
  EXPECT_EQ(Shown().mode, StoreMode::kNearlyFull);
  EXPECT_THAT(engine_->upkeep().TendStores("default", Soon()), ElementsAre(Now().stores.front().tags.id));
}

TEST_F(StoreGrowthTest, CapacityCountsWhatLvmsMetadataHaveRoomFor) {
  Use(20, 60);
  Make("one", 20);
  EXPECT_EQ(Left(), 40U);
  const uint64_t used = fakes::MetadataSize(*Group());
  bool both = false;
  for (uint64_t more = 0; more < 40000 && !both; more += 400) {
    lvm_.SetMetadataRoom("vg0", {used + more});
    const uint64_t left = Left();
    if (left > 0) {
      const auto made = Create("two", left);
      ASSERT_TRUE(made.has_value()) << more << made.error().message();
      both = left == 40;
    }
  }
  EXPECT_TRUE(both);
}

TEST_F(StoreGrowthTest, MetadataFollowTheOvercommitOfTheConfiguration) {
  StoreConfig store = Store("fast", 30);
  store.chunk = kLeastChunk;
  stores_ = {store};
  Clear();
  Restart();
  Make("one", 1);
  const Bytes before = Now().stores.front().metadata->size;
  stores_.front().overcommit = 10000;
  Restart();
  EXPECT_GT(Now().stores.front().metadata->size, before);
  EXPECT_EQ(Data(), 30U);
  EXPECT_EQ(Left(), 2999U);
}

TEST_F(StoreGrowthTest, TheLadderOfAnOvercommittedStore) {
  Use(20, 0, 250);
  const std::string id = Make("one", 20);
  Activate(id);
  EXPECT_THAT(engine_->upkeep().TendStores("default", Soon()), IsEmpty());
  FillTo(id, 70);
  EXPECT_THAT(engine_->upkeep().TendStores("default", Soon()), ElementsAre(Now().stores.front().tags.id));
  EXPECT_EQ(Shown().mode, StoreMode::kFilling);
  Make("two", 1);
  FillTo(id, 90);
  EXPECT_EQ(Shown().mode, StoreMode::kNearlyFull);
  EXPECT_EQ(Left(), 0U);
  EXPECT_THAT(Capacity().reason, HasSubstr("overcommitted"));
  EXPECT_EQ(Refused("three", 1).code(), Code::kNoSpace);
  EXPECT_FALSE(
      engine_->volumes().Expand(id, {Bytes{21 * kExtent.value}, Bytes{}}, std::nullopt, Soon()).has_value());
  EXPECT_FALSE(engine_->snapshots().Create({.name = "s", .source = id}, Soon()).has_value());
}

TEST_F(StoreGrowthTest, AnOvercommittedStoreGrowsBeforeItIsFull) {
  Use(20, 40, 250);
  const std::string id = Make("one", 20);
  Activate(id);
  FillTo(id, 79);
  engine_->upkeep().TendStores("default", Soon());
  EXPECT_EQ(Data(), 20U);
  FillTo(id, 80);
  engine_->upkeep().TendStores("default", Soon());
  EXPECT_EQ(Data(), 23U) << "16 are in use, which is 70 % of that";
  FillTo(id, 85);
  engine_->upkeep().TendStores("default", Soon());
  EXPECT_EQ(Data(), 28U);
  // The pool is full: it is told, and the next call tries again.
  lvm_.before.FailAlways("Extend", Error(Code::kInternal, "no"));
  const std::string other = Make("two", 20);
  Activate(other);
  FillTo(other, 92);
  engine_->upkeep().TendStores("default", Soon());
  EXPECT_EQ(Shown().mode, StoreMode::kNearlyFull);
  EXPECT_THAT(Shown().problem, HasSubstr("no"));
  lvm_.before.Clear();
  engine_->upkeep().TendStores("default", Soon());
  EXPECT_EQ(Data(), 37U);
  EXPECT_EQ(Shown().mode, StoreMode::kReadWrite);
  EXPECT_EQ(Shown().problem, "");
}

TEST(FillTrend, TellsWhenAStoreIsFull) {
  const SteadyTime start{};
  FillTrend trend;
  EXPECT_FALSE(trend.TimeToFull(kGiB).has_value());
  for (int second = 0; second <= 240; second += 5) {
    trend.Add(start + std::chrono::seconds(second), {kMiB.value * static_cast<uint64_t>(second)});
  }
  EXPECT_FALSE(trend.TimeToFull(kGiB).has_value()) << "too early";
  for (int second = 245; second <= 400; second += 5) {
    trend.Add(start + std::chrono::seconds(second), {kMiB.value * static_cast<uint64_t>(second)});
  }
  ASSERT_TRUE(trend.TimeToFull(kGiB).has_value());
  EXPECT_EQ(trend.TimeToFull(kGiB)->count(), 624);
  for (int second = 405; second <= 2 * 3600 + 400; second += 5) {
    trend.Add(start + std::chrono::seconds(second), {400 * kMiB.value});
  }
  EXPECT_FALSE(trend.TimeToFull(kGiB).has_value()) << "it does not fill any more";
}

}  // namespace
}  // namespace quarry::engine
