// Which legs a stopped RAID array starts from.
#include "engine/raid/stopped_array.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/profile.h"
#include "lvm/names.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

lvm::Geometry Raid(lvm::VolumeType type, uint32_t stripes) {
  return *lvm::Geometry::Make({.type = type, .stripes = stripes});
}

std::optional<dm::RaidSuperblock> Leg(uint32_t role, uint64_t events, std::vector<bool> failed) {
  const auto legs = static_cast<uint32_t>(failed.size());
  return dm::RaidSuperblock{.legs = legs, .role = role, .events = events, .failed = std::move(failed)};
}

const lvm::Geometry kRaid5 = Raid(lvm::VolumeType::kRaid5, 2);

TEST(StoppedArray, AnArrayThatCanDoWithoutItsFailedLegsIsNotStopped) {
  EXPECT_FALSE(IsStopped(kRaid5, {Leg(0, 9, {false, false, false}), Leg(1, 9, {false, false, false}),
                                  Leg(2, 9, {false, false, false})}));
  EXPECT_FALSE(IsStopped(kRaid5, {Leg(0, 5, {false, false, false}), Leg(1, 9, {true, false, false}),
                                  Leg(2, 9, {true, false, false})}));
}

TEST(StoppedArray, LegsThatFailedTogetherAreAllUsed) {
  const LegWords legs = {Leg(0, 9, {false, false, false}), Leg(1, 9, {false, false, false}),
                         Leg(2, 11, {true, true, false})};
  EXPECT_TRUE(IsStopped(kRaid5, legs));
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, legs), ElementsAre(false, false, false));
}

TEST(StoppedArray, ALegThatFailedEarlierIsLeftOut) {
  const LegWords legs = {Leg(0, 4, {false, false, false}), Leg(1, 9, {true, false, false}),
                         Leg(2, 11, {true, true, false})};
  EXPECT_TRUE(IsStopped(kRaid5, legs));
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, legs), ElementsAre(true, false, false));
}

TEST(StoppedArray, ALegThatWasBeingRebuiltIsNeverUsed) {
  LegWords legs = {Leg(0, 10, {false, true, false}), Leg(1, 10, {false, true, false}),
                   Leg(2, 11, {true, true, false})};
  legs[1]->filled = false;
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, legs), ElementsAre(false, true, false));
  legs[0]->filled = false;
  EXPECT_EQ(LegsToLeaveOut(kRaid5, legs).error().code(), Code::kPrecondition);
}

TEST(StoppedArray, WithoutASyncedParityNoLegIsLeftOut) {
  LegWords legs = {Leg(0, 4, {false, false, false}), Leg(1, 9, {true, false, false}),
                   Leg(2, 11, {true, true, false})};
  legs[2]->synced = 0;
  EXPECT_EQ(LegsToLeaveOut(kRaid5, legs).error().code(), Code::kPrecondition);
}

TEST(StoppedArray, ALegThatIsUnreadableOrOfAnotherArrayIsLeftOut) {
  EXPECT_THAT(*LegsToLeaveOut(
                  kRaid5, {std::nullopt, Leg(1, 9, {false, false, false}), Leg(2, 11, {true, true, false})}),
              ElementsAre(true, false, false));
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, {Leg(0, 9, {false, false, false}), Leg(2, 11, {true, true, false}),
                                       Leg(2, 11, {true, true, false})}),
              ElementsAre(false, true, false));
}

TEST(StoppedArray, Raid6StartsWithoutTwoLegs) {
  const lvm::Geometry raid6 = Raid(lvm::VolumeType::kRaid6, 3);
  const std::vector<bool> none(5, false);
  const LegWords legs = {Leg(0, 3, none), Leg(1, 5, none), Leg(2, 7, none), Leg(3, 9, none),
                         Leg(4, 11, {true, true, true, true, false})};
  EXPECT_TRUE(IsStopped(raid6, legs));
  EXPECT_THAT(*LegsToLeaveOut(raid6, legs), ElementsAre(true, true, false, false, false));
}

// The legs that prevent a start, and whether an administrator may override that. "-": no leg; "1?": leg 1,
// which may be newer; "02!": too few legs without legs 0 and 2.
std::string InTheWay(const lvm::Geometry& geometry, const LegWords& heard, const std::string& unheard) {
  std::vector<bool> silent;
  std::vector<bool> lost;
  for (const char leg : unheard) {
    silent.push_back(leg == 'x');
    lost.push_back(leg != '.');  // 'x': unreadable; 'g': given up; 'r': returned, not used yet
  }
  const auto found = WhatStandsInTheWay(geometry, heard, silent, lost);
  std::string out;
  for (size_t i = 0; found.has_value() && i < found->legs.size(); ++i) {
    out += found->legs[i] ? std::to_string(i) : "";
  }
  return found.has_value() ? out + (found->may_override ? "?" : "!") : "-";
}

const lvm::Geometry kRaid1 = *lvm::Geometry::Make({.type = lvm::VolumeType::kRaid1});
const lvm::Geometry kRaid10 = Raid(lvm::VolumeType::kRaid10, 2);

TEST(InTheWay, AMirrorThatRecordedTheLossOfTheOtherStarts) {
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, true}), std::nullopt}, ".x"), "-");
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, false}), Leg(1, 9, {false, false})}, ".."), "-");
}

TEST(InTheWay, AMirrorWithoutSuchARecordMayBeTheOlderOne) {
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, false}), std::nullopt}, ".x"), "1?");
  EXPECT_EQ(InTheWay(kRaid1, {std::nullopt, Leg(1, 9, {false, false})}, "x."), "0?");
  EXPECT_EQ(InTheWay(kRaid1, {std::nullopt, std::nullopt}, ".x"), "1?") << "the array was never started";
}

TEST(InTheWay, ALegThatWasGivenUpIsNoObstacle) {
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, false}), std::nullopt}, ".g"), "-");
}

TEST(InTheWay, AReturnedLegThatIsNotUsedYetCounts) {
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, true}), Leg(1, 7, {false, false})}, ".r"), "-");
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, false}), Leg(1, 9, {false, false})}, ".r"), "-");
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 7, {false, false}), Leg(1, 9, {true, false})}, ".r"), "01!")
      << "the returned leg is the newer one";
}

TEST(InTheWay, ALegThatWasBeingRebuiltCannotStartTheArray) {
  LegWords legs = {Leg(0, 9, {false, false}), std::nullopt};
  legs[0]->filled = false;
  EXPECT_EQ(InTheWay(kRaid1, legs, ".x"), "01!");
}

TEST(InTheWay, OneOfThreeMirrorsRecordsWhichLegsWereLost) {
  const lvm::Geometry three = *lvm::Geometry::Make({.type = lvm::VolumeType::kRaid1, .mirrors = 2});
  const auto sound = std::vector<bool>(3, false);
  // Leg 0 failed first, then the array was stopped. Leg 1 or 2 is dead.
  EXPECT_EQ(InTheWay(three, {Leg(0, 5, sound), std::nullopt, Leg(2, 9, {true, false, false})}, ".x."), "1?")
      << "leg 1 may have gone on alone";
  EXPECT_EQ(InTheWay(three, {Leg(0, 5, sound), std::nullopt, Leg(2, 9, {true, true, false})}, ".x."), "-");
  EXPECT_EQ(InTheWay(three, {Leg(0, 5, sound), std::nullopt, std::nullopt}, ".xx"), "12?");
}

TEST(InTheWay, LegsThatDivergedWaitForAnAdministrator) {
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, true}), Leg(1, 8, {true, false})}, ".."), "1?");
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 8, {false, true}), Leg(1, 9, {true, false})}, ".r"), "0!")
      << "the one with more changes is not used by LVM";
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, true}), Leg(1, 9, {true, false})}, ".."), "1?");
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9 + kOverruled, {false, true}), Leg(1, 9, {true, false})}, ".."), "-")
      << "the administrator has decided";
  EXPECT_EQ(InTheWay(kRaid1, {Leg(0, 9, {false, true}), Leg(1, 8, {false, false})}, ".."), "-");
}

TEST(Overruled, TheChosenLegsOutrankAllOthersFromThenOn) {
  const auto start = StartOverruled(kRaid1, {Leg(0, 5, {false, false}), std::nullopt},
                                    {Leg(0, 5, {false, false}), Leg(1, 9, {true, false})}, {false, true});
  ASSERT_TRUE(start.has_value());
  EXPECT_THAT(start->left_out, ElementsAre(false, true));
  EXPECT_EQ(start->events, 9 + kOverruled);
  EXPECT_EQ(start->mark_all, start->events) << "the other leg has writes that are in no bitmap here";
  EXPECT_FALSE(start->resync);
  EXPECT_FALSE(StartOverruled(kRaid1, {std::nullopt, std::nullopt}, {}, {false, true}).has_value());
  LegWords filling = {Leg(0, 5, {false, false}), std::nullopt};
  filling[0]->filled = false;
  EXPECT_FALSE(StartOverruled(kRaid1, filling, filling, {false, true}).has_value());
}

// The leg from which an administrator started the array is missing. The leg that was left out has returned.
TEST(Overruled, ALegThatWasLeftOutDoesNotCountAsCurrent) {
  const LegWords left_out = {std::nullopt, Leg(1, 9, {true, false})};
  const std::vector<bool> first = {true, false};
  EXPECT_FALSE(WhatStandsInTheWay(kRaid1, left_out, first, first).has_value());
  const auto found = WhatStandsInTheWay(kRaid1, left_out, first, first, 1);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->may_override && found->left_behind);
  EXPECT_THAT(found->legs, ElementsAre(true, false));
  EXPECT_FALSE(WhatStandsInTheWay(kRaid1, left_out, {false, false}, first, 1).has_value())
      << "the other leg was given up";
  const auto start = StartOverruled(kRaid1, left_out, left_out, first, 2);
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->events, 2 * kOverruled);
  EXPECT_FALSE(
      WhatStandsInTheWay(kRaid1, {std::nullopt, Leg(1, *start->events, {true, false})}, first, first, 2)
          .has_value())
      << "the second decision was for this leg";
}

TEST(InTheWay, WithParityALegThatSufficesAlwaysKnows) {
  const auto sound = std::vector<bool>(3, false);
  EXPECT_EQ(InTheWay(kRaid5, {Leg(0, 9, sound), std::nullopt, Leg(2, 9, sound)}, ".x."), "-")
      << "leg 1 cannot have gone on alone";
  EXPECT_EQ(InTheWay(kRaid5, {Leg(0, 5, sound), Leg(1, 9, {true, false, false}), std::nullopt}, "..x"), "02!")
      << "leg 0 is older, as leg 1 recorded";
  EXPECT_EQ(InTheWay(kRaid5, {Leg(0, 5, sound), std::nullopt, std::nullopt}, ".xx"), "12!");
  const lvm::Geometry raid6 = Raid(lvm::VolumeType::kRaid6, 3);
  const auto none = std::vector<bool>(5, false);
  const LegWords two_older = {Leg(0, 5, none), Leg(1, 5, none), Leg(2, 9, {true, true, false, false, false}),
                              std::nullopt, Leg(4, 9, {true, true, false, false, false})};
  EXPECT_EQ(InTheWay(raid6, two_older, "...x."), "013!");
}

TEST(InTheWay, HalfOfARaid10CannotKnowTheOtherHalf) {
  const auto sound = std::vector<bool>(4, false);
  const auto leg = [&](uint32_t role) { return Leg(role, 9, sound); };
  EXPECT_EQ(InTheWay(kRaid10, {leg(0), std::nullopt, leg(2), leg(3)}, ".x.."), "-");
  EXPECT_EQ(InTheWay(kRaid10, {leg(0), std::nullopt, leg(2), std::nullopt}, ".x.x"), "13?");
  EXPECT_EQ(
      InTheWay(kRaid10, {leg(0), std::nullopt, leg(2), Leg(3, 11, {true, false, false, false})}, ".x.."),
      "01!");
}

// Superblocks in memory, by the PV of their leg. Fails, as if the process were killed, before write
// `ends_before`.
class FakeRaidLegs final : public dm::RaidLegsApi {
 public:
  Result<dm::RaidSuperblock> Read(const dm::EraseRange& place) override {
    if (place.pv_uuid == silent) {
      return Error(Code::kTimeout, "silent");
    }
    return legs.at(place.pv_uuid);
  }
  Result<dm::RaidBitmap> ReadBitmap(const dm::EraseRange& place) override {
    return bitmaps.at(place.pv_uuid);
  }
  Status Write(const dm::EraseRange& place, const dm::RaidSuperblock& was,
               const dm::RaidStart& start) override {
    if (starts.size() == ends_before) {
      return Error(Code::kIo, "killed");
    }
    EXPECT_EQ(was, legs.at(place.pv_uuid));
    EXPECT_GT(place.length, Bytes{dm::kRaidSuperblock}) << "the bitmap follows the superblock";
    written.emplace_back(place.pv_uuid);
    starts.push_back(start);
    legs.at(place.pv_uuid).failed = start.left_out;
    return Ok();
  }
  std::map<std::string, dm::RaidSuperblock> legs;
  std::map<std::string, dm::RaidBitmap> bitmaps;
  std::vector<std::string> written;
  std::vector<dm::RaidStart> starts;
  size_t ends_before = SIZE_MAX;
  std::string silent;
};

constexpr const char* kName = "q0123456789abcdef01234567";

// A raid5 with a leg on each of three PVs.
lvm::VolumeGroup Group() {
  GroupBuilder builder({100, 100, 100});
  lvm::VolumeTags tags = ReadyTags(kName, "one", 10);
  tags.profile = Profile::Parse({{"type", "raid5"}, {"stripes", "2"}}, "default")->Canonical();
  lvm::LogicalVolume lv{.name = kName, .uuid = "uuid", .tags = lvm::BuildTags(tags)};
  lv.segments = {{.type = "raid5_ls"}};
  for (size_t leg = 0; leg < 3; ++leg) {
    const std::string data = fmt::format("{}_rimage_{}", kName, leg);
    builder.Linear(lvm::MetadataLvName(data), leg, {Extents{0}, Extents{1}}, {});
    builder.Linear(data, leg, {Extents{1}, Extents{5}}, {});
    lv.segments.front().areas.push_back({"", data, {Extents{0}, Extents{5}}});
  }
  builder.group().lvs.push_back(lv);
  return builder.group();
}

class ReviveTest : public testing::Test {
 protected:
  // pv1 failed first, then pv0. pv2 is left.
  ReviveTest() {
    legs_.legs = {{"pv0", *Leg(0, 9, {false, true, false})},
                  {"pv1", *Leg(1, 4, {false, false, false})},
                  {"pv2", *Leg(2, 11, {true, true, false})}};
  }
  Status Run() { return Revive(group_, *group_.FindLv(kName), legs_, write_); }
  const lvm::VolumeGroup group_ = Group();
  FakeRaidLegs legs_;
  const LegWriter write_ = [this](const std::string& metadata_lv, const dm::EraseRange& place,
                                  const dm::RaidSuperblock& was, const dm::RaidStart& start) {
    EXPECT_EQ(metadata_lv, fmt::format("{}_rmeta_{}", kName, place.pv_uuid.substr(2)));
    return legs_.Write(place, was, start);
  };
};

TEST_F(ReviveTest, AllUsedLegsGetTheSameRecordTheFreshestLast) {
  ASSERT_TRUE(Run().has_value());
  EXPECT_THAT(legs_.written, ElementsAre("pv0", "pv2"));
  for (const dm::RaidStart& start : legs_.starts) {
    EXPECT_THAT(start.left_out, ElementsAre(false, true, false));
    EXPECT_FALSE(start.resync) << "a leg is to be rebuilt, so there is nothing to compare";
    EXPECT_EQ(start.mark_all, 11U);
  }
  ASSERT_TRUE(Run().has_value());
  EXPECT_EQ(legs_.written.size(), 2U) << "the array is not stopped any more";
}

TEST_F(ReviveTest, AfterAKillTheNextStartGoesOn) {
  // In the reverse order, the freshest leg would say "start" while the other leg has its old bitmap.
  std::swap(legs_.legs["pv0"].events, legs_.legs["pv2"].events);
  std::swap(legs_.legs["pv0"].failed, legs_.legs["pv2"].failed);
  legs_.legs["pv0"].failed = {false, true, true};
  legs_.ends_before = 1;
  ASSERT_FALSE(Run().has_value());
  EXPECT_THAT(legs_.written, ElementsAre("pv2"));
  legs_.ends_before = SIZE_MAX;
  ASSERT_TRUE(Run().has_value());
  EXPECT_THAT(legs_.written, ElementsAre("pv2", "pv2", "pv0"));
}

TEST_F(ReviveTest, AllLegsAreComparedIfNoLegIsLeftOut) {
  legs_.legs["pv1"] = *Leg(1, 9, {false, false, false});
  legs_.legs["pv0"] = *Leg(0, 9, {false, false, false});
  ASSERT_TRUE(Run().has_value());
  EXPECT_THAT(legs_.written, ElementsAre("pv0", "pv1", "pv2"));
  EXPECT_TRUE(legs_.starts.front().resync);
}

const dm::RaidBitmap kCurrent{.events = 9, .region_size = 4096, .marked = {false, false, false}};
const dm::RaidBitmap kMarked{.events = 9, .region_size = 4096, .marked = {false, true, false}};
const dm::RaidBitmap kOutdated{.events = 8, .region_size = 4096, .marked = {false, false, false}};

// Three legs with these bitmaps. All are sound except those in `failed`.
std::optional<dm::RaidStart> Start(std::vector<bool> failed, const LegBitmaps& bitmaps,
                                   uint64_t synced = UINT64_MAX) {
  LegWords legs;
  for (uint32_t i = 0; i < 3; ++i) {
    legs.push_back(Leg(i, failed[i] ? 5 : 9, failed[i] ? std::vector<bool>(3, false) : failed));
    legs.back()->synced = synced;
  }
  return StartAfterCrash(kRaid5, legs, bitmaps);
}

TEST(AfterCrash, AnArrayThatWasStoppedCleanlyNeedsNoRecord) {
  EXPECT_EQ(Start({false, false, false}, {kCurrent, kCurrent, kCurrent}), std::nullopt);
  EXPECT_EQ(Start({true, false, false}, {kOutdated, kMarked, kMarked}), std::nullopt)
      << "the other legs mark the regions that the failed leg lacks";
}

TEST(AfterCrash, RegionsThatWereBeingWrittenAreCompared) {
  const auto start = Start({false, false, false}, {kCurrent, kMarked, kCurrent});
  ASSERT_TRUE(start.has_value());
  EXPECT_TRUE(start->resync);
  EXPECT_EQ(start->mark_all, std::nullopt) << "no other regions are marked";
  EXPECT_THAT(start->marked, ElementsAre(false, true, false)) << "the kernel reads one of the bitmaps";
  EXPECT_THAT(start->left_out, ElementsAre(false, false, false));
}

TEST(AfterCrash, ARegionMarkedOnOneLegIsMarkedOnAll) {
  dm::RaidBitmap other = kCurrent;
  other.marked = {false, false, true};
  auto start = Start({false, false, false}, {kMarked, kMarked, kMarked});
  ASSERT_TRUE(start.has_value());
  EXPECT_THAT(start->marked, IsEmpty()) << "the bitmaps are the same already";
  start = Start({false, false, false}, {kMarked, kCurrent, other});
  ASSERT_TRUE(start.has_value());
  EXPECT_TRUE(start->resync);
  EXPECT_THAT(start->marked, ElementsAre(false, true, true));
  start = Start({true, false, false}, {kMarked, kCurrent, other});
  ASSERT_TRUE(start.has_value()) << "these marks rebuild the first leg when it returns";
  EXPECT_FALSE(start->resync);
  EXPECT_THAT(start->marked, ElementsAre(false, false, true))
      << "the bitmap of a leg that is left out does not count";
  start = Start({false, false, false}, {other, kCurrent, kCurrent}, 8192);
  ASSERT_TRUE(start.has_value()) << "also during a sync";
  EXPECT_FALSE(start->resync);
  EXPECT_THAT(start->marked, ElementsAre(false, false, true));
}

TEST(AfterCrash, BitmapsOfDifferentSizesMarkAllRegions) {
  dm::RaidBitmap longer = kCurrent;
  longer.marked.push_back(false);
  const auto start = Start({false, false, false}, {kCurrent, kCurrent, longer});
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(start->mark_all, 9U);
}

TEST(AfterCrash, DuringASyncTheKernelComparesTheRestByItself) {
  EXPECT_EQ(Start({false, false, false}, {kMarked, kMarked, kMarked}, 4096), std::nullopt);
  const auto start = Start({false, false, false}, {kMarked, kMarked, kMarked}, 8192);
  ASSERT_TRUE(start.has_value());
  EXPECT_TRUE(start->resync);
  EXPECT_EQ(start->mark_all, 9U) << "the kernel would not read the bitmap";
}

TEST(AfterCrash, ABitmapOlderThanTheArrayMarksAllRegions) {
  auto start = Start({false, false, false}, {kOutdated, kCurrent, kCurrent});
  ASSERT_TRUE(start.has_value());
  EXPECT_TRUE(start->resync);
  EXPECT_EQ(start->mark_all, 9U);
  start = Start({false, true, false}, {kOutdated, kOutdated, kMarked});
  ASSERT_TRUE(start.has_value());
  EXPECT_FALSE(start->resync) << "there is nothing to compare";
  EXPECT_EQ(start->mark_all, 9U);
  EXPECT_THAT(start->left_out, ElementsAre(false, true, false));
}

TEST(AfterCrash, NothingIsComparedIfALegIsMissing) {
  LegWords legs = {Leg(0, 9, {false, false, false}), std::nullopt, Leg(2, 9, {false, false, false})};
  EXPECT_EQ(StartAfterCrash(kRaid5, legs, {kMarked, std::nullopt, kMarked}), std::nullopt);
  const auto start = StartAfterCrash(kRaid5, legs, {kOutdated, std::nullopt, kMarked});
  ASSERT_TRUE(start.has_value()) << "the leg may return, and the marks would decide what is rebuilt";
  EXPECT_FALSE(start->resync);
  EXPECT_EQ(start->mark_all, 9U);
  legs[1] = Leg(1, 9, {false, false, false});
  legs[1]->filled = false;
  EXPECT_EQ(StartAfterCrash(kRaid5, legs, {kMarked, kMarked, kMarked}), std::nullopt)
      << "the leg was being rebuilt";
}

TEST(AfterCrash, AStoppedArrayIsNotHandled) {
  const LegWords legs = {Leg(0, 9, {false, false, false}), Leg(1, 9, {false, false, false}),
                         Leg(2, 11, {true, true, false})};
  EXPECT_EQ(StartAfterCrash(kRaid5, legs, {kMarked, kMarked, kMarked}), std::nullopt);
}

TEST_F(ReviveTest, APreparedStartIsRecordedOnTheUsedLegs) {
  for (uint32_t i = 0; i < 3; ++i) {
    legs_.legs["pv" + std::to_string(i)] = *Leg(i, 9, {false, false, false});
    legs_.bitmaps["pv" + std::to_string(i)] = kMarked;
  }
  ASSERT_TRUE(PrepareStart(group_, *group_.FindLv(kName), legs_, write_).has_value());
  EXPECT_THAT(legs_.written, ElementsAre("pv0", "pv1", "pv2"));
  legs_.bitmaps["pv0"] = legs_.bitmaps["pv1"] = legs_.bitmaps["pv2"] = kCurrent;
  ASSERT_TRUE(PrepareStart(group_, *group_.FindLv(kName), legs_, write_).has_value());
  EXPECT_EQ(legs_.written.size(), 3U);
  legs_.bitmaps["pv2"] = kMarked;
  legs_.ends_before = 4;
  EXPECT_FALSE(PrepareStart(group_, *group_.FindLv(kName), legs_, write_).has_value())
      << "the array must not start";
}

TEST_F(ReviveTest, ALegThatWasGivenUpDoesNotPreventAStart) {
  lvm::VolumeGroup group = group_;
  std::erase_if(group.lvs, [](const lvm::LogicalVolume& lv) { return lv.name.ends_with("_rmeta_1"); });
  legs_.legs["pv0"] = *Leg(0, 9, {false, true, false});
  legs_.legs["pv2"] = *Leg(2, 9, {false, true, false});
  legs_.bitmaps = {{"pv0", kMarked}, {"pv2", kMarked}};
  EXPECT_TRUE(PrepareStart(group, *group.FindLv(kName), legs_, write_).has_value());
  EXPECT_TRUE(legs_.written.empty());
}

TEST_F(ReviveTest, ALegThatDoesNotAnswerPreventsAStart) {
  legs_.silent = "pv1";
  EXPECT_EQ(PrepareStart(group_, *group_.FindLv(kName), legs_, write_).error().code(), Code::kTimeout);
  EXPECT_EQ(Run().error().code(), Code::kTimeout);
  EXPECT_TRUE(legs_.written.empty());
}

TEST_F(ReviveTest, TheOtherLegsArePreparedIfADiskIsMissing) {
  legs_.legs["pv0"] = *Leg(0, 9, {false, true, false});
  legs_.legs["pv2"] = *Leg(2, 9, {false, true, false});
  legs_.bitmaps = {{"pv0", kOutdated}, {"pv2", kMarked}};
  lvm::VolumeGroup group = group_;
  group.pvs[1].missing = true;
  group.pvs[1].device.clear();
  ASSERT_TRUE(PrepareStart(group, *group.FindLv(kName), legs_, write_).has_value());
  EXPECT_THAT(legs_.written, ElementsAre("pv0", "pv2"));
}

}  // namespace
}  // namespace quarry::engine
