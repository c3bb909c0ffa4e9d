#include "daemon/on_change/condition_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::daemon {
namespace {

using engine::DiskCondition;
using std::chrono::seconds;

engine::VolumeStatus Volume(const std::string& condition, const std::string& id = "main.qa") {
  engine::VolumeStatus volume;
  volume.id = id;
  volume.name = "database";
  volume.condition = condition;
  volume.detail = condition == "healthy" ? "" : "the reason";
  return volume;
}

engine::DiskStatus Disk(DiskCondition condition) {
  engine::DiskStatus disk;
  disk.pv_uuid = "uuid-1";
  disk.device = condition == DiskCondition::kMissing ? "" : "/dev/sda";
  disk.condition = condition;
  return disk;
}

engine::PoolStatus Pool(std::vector<engine::VolumeStatus> volumes,
                        std::vector<engine::DiskStatus> disks = {}) {
  engine::PoolStatus pool;
  pool.figures.pool = "main";
  pool.volumes = std::move(volumes);
  pool.disks = std::move(disks);
  return pool;
}

engine::StoreStatus Store(engine::StoreMode mode, const std::string& condition = "healthy") {
  engine::StoreStatus store;
  store.name = "fast";
  store.mode = mode;
  store.condition = condition;
  store.problem = mode == engine::StoreMode::kReadWrite ? "" : "the kernel says no";
  store.detail = condition == "healthy" ? "" : "a leg is away";
  return store;
}

engine::PoolStatus PoolWith(const engine::StoreStatus& store) {
  engine::PoolStatus pool;
  pool.figures.pool = "main";
  pool.stores = {store};
  return pool;
}

engine::PoolStatus Unreadable() {
  engine::PoolStatus pool;
  pool.figures.pool = "main";
  pool.figures.problem = "the group is gone";
  return pool;
}

class ConditionBookTest : public ::testing::Test {
 protected:
  size_t Look(const engine::PoolStatus& pool) { return book_.Look({pool}, now_); }
  // "volume main.qa: healthy -> degraded"; empty: nothing waits. Counts as told.
  std::string Tell() {
    const auto change = book_.Begin();
    if (!change.has_value()) {
      return "";
    }
    (void)book_.Told(*change);
    last_ = *change;
    return change->thing.kind + " " + change->thing.id + ": " + change->before + " -> " + change->now.state;
  }

  ConditionBook book_{{}};
  SteadyTime now_{};
  Change last_;
};

TEST_F(ConditionBookTest, AChangeIsToldOnce) {
  Look(Pool({Volume("healthy")}));
  EXPECT_EQ(Tell(), "") << "nothing is wrong";
  Look(Pool({Volume("degraded")}));
  EXPECT_EQ(Tell(), "volume main.qa: healthy -> degraded");
  EXPECT_EQ(last_.now.severity, engine::Severity::kWarning);
  EXPECT_EQ(last_.now.name, "database");
  EXPECT_EQ(last_.now.detail, "the reason");
  EXPECT_FALSE(last_.repeated);
  Look(Pool({Volume("degraded")}));
  EXPECT_EQ(Tell(), "");
  Look(Pool({Volume("repairing")}));
  EXPECT_EQ(Tell(), "volume main.qa: degraded -> repairing");
  Look(Pool({Volume("syncing")}));
  EXPECT_EQ(Tell(), "volume main.qa: repairing -> healthy");
  Look(Pool({Volume("healthy")}));
  EXPECT_EQ(Tell(), "");
  EXPECT_TRUE(book_.told().empty());
}

TEST_F(ConditionBookTest, AStoreThatTheKernelMakesReadOnlyIsToldAtOnce) {
  using enum engine::StoreMode;
  Look(PoolWith(Store(kReadWrite)));
  EXPECT_EQ(Tell(), "");
  Look(PoolWith(Store(kReadOnly)));
  EXPECT_EQ(Tell(), "store fast: healthy -> read-only");
  EXPECT_EQ(last_.thing.pool, "main");
  EXPECT_EQ(last_.now.severity, engine::Severity::kCritical);
  EXPECT_EQ(last_.now.detail, "the kernel says no");
  Look(PoolWith(Store(kReadWrite)));
  EXPECT_EQ(Tell(), "store fast: read-only -> healthy");
  EXPECT_EQ(last_.now.detail, "");
}

TEST_F(ConditionBookTest, TheLegsOfAStoreAndItsSizeAreConditionsToo) {
  using enum engine::StoreMode;
  Look(PoolWith(Store(kReadWrite, "degraded")));
  EXPECT_EQ(Tell(), "store fast: healthy -> degraded");
  EXPECT_EQ(last_.now.severity, engine::Severity::kWarning);
  EXPECT_EQ(last_.now.detail, "a leg is away");
  engine::StoreStatus small = Store(kReadWrite);
  small.problem = "no room to grow";
  Look(PoolWith(small));
  EXPECT_EQ(Tell(), "store fast: degraded -> too-small");
  EXPECT_EQ(last_.now.detail, "no room to grow");
}

TEST_F(ConditionBookTest, AStoreThatIsNotStartedIsGivenTime) {
  using enum engine::StoreMode;
  Look(PoolWith(Store(kNotStarted)));
  EXPECT_EQ(Tell(), "") << "quarryd may be starting it";
  now_ += ConditionBook::kStorePatience - seconds(1);
  Look(PoolWith(Store(kNotStarted)));
  EXPECT_EQ(Tell(), "");
  Look(PoolWith(Store(kReadWrite)));
  EXPECT_EQ(Tell(), "");
  Look(PoolWith(Store(kNotStarted)));
  now_ += ConditionBook::kStorePatience;
  Look(PoolWith(Store(kNotStarted)));
  EXPECT_EQ(Tell(), "store fast: healthy -> not-started");
  Look(PoolWith(Store(kUnknown)));
  EXPECT_EQ(Tell(), "store fast: not-started -> unknown") << "it has had its time";
  Look(Pool({}));
  EXPECT_EQ(Tell(), "store fast: unknown -> removed");
}

TEST_F(ConditionBookTest, AStoreInAPoolThatCannotBeReadKeepsItsState) {
  Look(PoolWith(Store(engine::StoreMode::kFailed)));
  EXPECT_EQ(Tell(), "store fast: healthy -> failed");
  Look(Unreadable());
  EXPECT_EQ(Tell(), "");
  Look(PoolWith(Store(engine::StoreMode::kFailed)));
  EXPECT_EQ(Tell(), "");
}

TEST_F(ConditionBookTest, TheLastStateOfAThingWinsAndTheSkippedOnesAreCounted) {
  Look(Pool({Volume("degraded")}));
  Look(Pool({Volume("failed")}));
  Look(Pool({Volume("repairing")}));
  EXPECT_EQ(book_.waiting(), 1U);
  EXPECT_EQ(Tell(), "volume main.qa: healthy -> repairing");
  EXPECT_EQ(last_.skipped, 2U);
  EXPECT_EQ(Tell(), "");
}

TEST_F(ConditionBookTest, AChangeThatGoesBackBeforeItIsToldIsCountedAndNotTold) {
  Look(Pool({Volume("degraded")}));
  EXPECT_EQ(Look(Pool({Volume("healthy")})), 1U);
  EXPECT_EQ(Tell(), "");
}

TEST_F(ConditionBookTest, ThingsAreToldInTheOrderOfTheirFirstChange) {
  Look(Pool({Volume("healthy", "main.qa"), Volume("degraded", "main.qz")}));
  Look(Pool({Volume("degraded", "main.qa"), Volume("failed", "main.qz")}));
  EXPECT_EQ(Tell(), "volume main.qz: healthy -> failed");
  EXPECT_EQ(Tell(), "volume main.qa: healthy -> degraded");
}

TEST_F(ConditionBookTest, AChangeWhileTheThingIsToldIsToldNext) {
  Look(Pool({Volume("degraded")}));
  const auto change = book_.Begin();
  EXPECT_EQ(Look(Pool({Volume("healthy")})), 0U) << "it is being told, so it is not lost";
  EXPECT_EQ(book_.Told(*change), 0U);
  EXPECT_EQ(Tell(), "volume main.qa: degraded -> healthy");
  EXPECT_EQ(last_.skipped, 0U);
}

TEST_F(ConditionBookTest, AChangeToAndFroWhileTheThingIsToldIsCounted) {
  Look(Pool({Volume("degraded")}));
  const auto change = book_.Begin();
  Look(Pool({Volume("failed")}));
  Look(Pool({Volume("degraded")}));
  EXPECT_EQ(book_.Told(*change), 1U);
  EXPECT_EQ(Tell(), "");
}

TEST_F(ConditionBookTest, AMissingDiskThatLeavesItsGroupIsRemoved) {
  Look(Pool({}, {Disk(DiskCondition::kMissing)}));
  EXPECT_EQ(Tell(), "disk uuid-1: ok -> missing");
  EXPECT_EQ(last_.now.severity, engine::Severity::kCritical);
  Look(Pool({}));
  EXPECT_EQ(Tell(), "disk uuid-1: missing -> removed");
  EXPECT_EQ(last_.now.severity, engine::Severity::kOk);
  EXPECT_EQ(Tell(), "");
}

TEST_F(ConditionBookTest, AFailingDiskThatIsEvacuatedIsNoProblemAnyMore) {
  Look(Pool({}, {Disk(DiskCondition::kFailing)}));
  EXPECT_EQ(Tell(), "disk uuid-1: ok -> failing");
  Look(Pool({}, {Disk(DiskCondition::kToBeVacated)}));
  EXPECT_EQ(Tell(), "disk uuid-1: failing -> leaving");
  Look(Pool({}));
  EXPECT_EQ(Tell(), "");
}

TEST_F(ConditionBookTest, AnUnreadablePoolIsToldWhenItLastsAndSaysNothingOfItsVolumes) {
  Look(Pool({Volume("degraded")}));
  EXPECT_EQ(Tell(), "volume main.qa: healthy -> degraded");
  Look(Unreadable());
  now_ += ConditionBook::kPoolPatience - seconds(1);
  Look(Unreadable());
  EXPECT_EQ(Tell(), "");
  now_ += seconds(1);
  Look(Unreadable());
  EXPECT_EQ(Tell(), "pool main: readable -> unreadable");
  EXPECT_EQ(last_.now.detail, "the group is gone");
  EXPECT_EQ(Tell(), "") << "the volume may exist";
  Look(Pool({Volume("healthy")}));
  EXPECT_EQ(Tell(), "pool main: unreadable -> readable");
  EXPECT_EQ(Tell(), "volume main.qa: degraded -> healthy");
}

TEST_F(ConditionBookTest, ANewProcessTellsOnceWhatIsStillBadAndWhatHealedMeanwhile) {
  Look(Pool({Volume("degraded", "main.qa"), Volume("failed", "main.qb"), Volume("failed", "main.qc")}));
  while (!Tell().empty()) {
  }
  auto told = ReadTold(WriteTold(book_.told()));
  ASSERT_TRUE(told.has_value()) << told.error().message();
  ASSERT_EQ(told->size(), 3U);
  book_ = ConditionBook(std::move(*told));
  Look(Unreadable());
  EXPECT_EQ(Tell(), "") << "the pool starts";
  Look(Pool({Volume("degraded", "main.qa"), Volume("healthy", "main.qb")}));
  EXPECT_EQ(Tell(), "volume main.qa: degraded -> degraded");
  EXPECT_TRUE(last_.repeated);
  EXPECT_EQ(Tell(), "volume main.qb: failed -> healthy");
  EXPECT_EQ(Tell(), "volume main.qc: failed -> removed");
  EXPECT_EQ(last_.now.name, "database");
  EXPECT_EQ(Tell(), "");
  Look(Pool({Volume("degraded", "main.qa"), Volume("healthy", "main.qb")}));
  EXPECT_EQ(Tell(), "");
}

TEST(ReadTold, RefusesWhatItDidNotWrite) {
  for (const char* text : {"", "{}", "[]", R"({"format":2,"told":[]})", R"({"format":1})",
                           R"({"format":1,"told":[{"kind":"disk"}]})", R"({"format":1,"told":[)"}) {
    EXPECT_FALSE(ReadTold(text).has_value()) << text;
  }
  EXPECT_TRUE(ReadTold(R"({"format":1,"told":[]})")->empty());
}

// A start knows nothing of a disk's health before the disk has answered.
TEST_F(ConditionBookTest, AFailingDiskIsNotWellBeforeItWasAsked) {
  book_ = ConditionBook({{{"disk", "main", "uuid-1"}, {"failing", "/dev/sda"}}});
  Look(Pool({}, {Disk(DiskCondition::kOk)}));
  EXPECT_EQ(Tell(), "disk uuid-1: failing -> failing");
  EXPECT_TRUE(last_.repeated);
  now_ += seconds(60);
  Look(Pool({}, {Disk(DiskCondition::kOk)}));
  EXPECT_EQ(Tell(), "");
  engine::DiskStatus asked = Disk(DiskCondition::kOk);
  asked.health = udev::DiskHealth{};
  Look(Pool({}, {asked}));
  EXPECT_EQ(Tell(), "disk uuid-1: failing -> ok");

  book_ = ConditionBook({{{"disk", "main", "uuid-1"}, {"failing", "/dev/sda"}}});
  Look(Pool({}, {Disk(DiskCondition::kOk)}));
  EXPECT_EQ(Tell(), "disk uuid-1: failing -> failing");
  now_ += ConditionBook::kHealthPatience;
  Look(Pool({}, {Disk(DiskCondition::kOk)}));
  EXPECT_EQ(Tell(), "disk uuid-1: failing -> ok") << "it has no health to report";
}

}  // namespace
}  // namespace quarry::daemon
