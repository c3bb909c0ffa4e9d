// Which disks are missing and failing, and what is forgotten when a disk returns.
#include "engine/repair/disk_memory.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_dm.h"
#include "tests/unit/engine/captured_log.h"
#include "tests/unit/engine/group_builder.h"
#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kName = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";

// A group of two disks with one linear volume, on pv0.
class DiskMemoryTest : public testing::Test {
 protected:
  DiskMemoryTest() {
    builder_.Linear(kName, 0, {Extents{0}, Extents{5}}, lvm::BuildTags(ReadyTags(kName, "data", 5)));
    dm_.AddDevice(Uuid(), "vg0-data", Bytes{20 * kMiB.value});
  }
  std::string Uuid() const { return builder_.Build().records.at(0).DmUuid(); }
  void SetMissing(size_t pv, bool missing) {
    builder_.group().pvs[pv].missing = missing;
    builder_.group().pvs[pv].device = missing ? "" : "/dev/pv";
  }
  std::set<std::string> Note() { return memory_.NoteMissing(builder_.Build()); }
  RetryKey Refresh() const { return {RetryKey::Step::kRefresh, builder_.Build().records.at(0).tags.id}; }
  bool IsFailing(const std::string& pv) const { return healths_.Weak()->failing.contains(pv); }
  void PutOff(const RetryKey& key) { retries_.PutOff(key, std::chrono::hours(1), clock_.now); }
  bool IsDue(const RetryKey& key) const { return !retries_.Wait(key, clock_.now).has_value(); }
  // A look at which a leg of the volume has failed again after each attempt to take it back, or not.
  void NoteFailures(bool hopeless) {
    const Catalog catalog = builder_.Build();
    RepairView view{.catalog = &catalog, .volumes = {}, .given_up = {}};
    VolumeView volume{.record = &catalog.records.at(0), .active = true, .raid = dm::RaidStatus{.legs = "D"}};
    volume.hopeless = hopeless;
    view.volumes.push_back(volume);
    memory_.NoteFailures(view);
  }

  GroupBuilder builder_{{10, 10}};
  fakes::FakeDm dm_;
  CapturedLog captured_;
  HandClock clock_;
  HealthMemory healths_;
  RetryBook retries_;
  DiskMemory memory_{captured_.log(), "default", clock_, dm_, healths_, retries_};
};

TEST_F(DiskMemoryTest, ADiskIsMissingSinceItWasFirstMissed) {
  EXPECT_THAT(Note(), IsEmpty());
  SetMissing(0, true);
  const SteadyTime first = clock_.now;
  EXPECT_THAT(Note(), ElementsAre("pv0"));
  EXPECT_THAT(captured_.Lines(), ElementsAre(HasSubstr(R"(a disk is missing pool="default" pv="pv0")")));
  clock_.now += std::chrono::seconds(30);
  EXPECT_THAT(Note(), ElementsAre("pv0"));
  EXPECT_EQ(memory_.missing_since().at("pv0"), first);
  EXPECT_THAT(captured_.Lines(), IsEmpty());

  SetMissing(0, false);
  EXPECT_THAT(Note(), IsEmpty());
  EXPECT_THAT(memory_.missing_since(), IsEmpty());
  EXPECT_THAT(captured_.Lines(), ElementsAre(AllOf(HasSubstr("a disk is back"), HasSubstr(R"(pv="pv0")"))));

  SetMissing(0, true);
  Note();
  EXPECT_EQ(memory_.missing_since().at("pv0"), clock_.now) << "the time starts again";
}

TEST_F(DiskMemoryTest, LvmIsAskedAgainOnlyAfterADiskLeftOnceMore) {
  PutOff({RetryKey::Step::kTakeBack, "pv0"});
  builder_.group().pvs[0].missing = true;  // it has a device: LVM has yet to take it back
  Note();
  EXPECT_FALSE(IsDue({RetryKey::Step::kTakeBack, "pv0"}));
  SetMissing(0, true);
  Note();
  EXPECT_TRUE(IsDue({RetryKey::Step::kTakeBack, "pv0"}));
}

TEST_F(DiskMemoryTest, APulledDiskThatReturnsStartsWithoutFailures) {
  NoteFailures(true);
  PutOff(Refresh());
  SetMissing(0, true);
  Note();
  dm_.SetOnLostDisk(Uuid(), true);
  SetMissing(0, false);
  Note();
  EXPECT_FALSE(IsFailing("pv0"));
  EXPECT_TRUE(IsDue(Refresh()));
}

TEST_F(DiskMemoryTest, ADiskThatOnlySeemedMissingKeepsItsFailures) {
  NoteFailures(true);
  PutOff(Refresh());
  SetMissing(0, true);
  Note();
  SetMissing(0, false);
  Note();
  EXPECT_TRUE(IsFailing("pv0"));
  EXPECT_FALSE(IsDue(Refresh()));
}

TEST_F(DiskMemoryTest, ADiskFailsForADayAfterItsLastFailure) {
  NoteFailures(false);
  EXPECT_FALSE(IsFailing("pv0"));
  NoteFailures(true);
  EXPECT_TRUE(IsFailing("pv0"));
  EXPECT_THAT(captured_.Lines(),
              ElementsAre(AllOf(HasSubstr("a disk is failing"), HasSubstr("after each of 3 attempts"))));
  clock_.now += std::chrono::hours(23);
  NoteFailures(true);
  EXPECT_THAT(captured_.Lines(), IsEmpty());
  clock_.now += std::chrono::hours(23);
  NoteFailures(false);
  EXPECT_TRUE(IsFailing("pv0"));
  clock_.now += std::chrono::hours(1);
  NoteFailures(false);
  EXPECT_FALSE(IsFailing("pv0"));
}

}  // namespace
}  // namespace quarry::engine
