// Which legs a raid array that has stopped starts from.
#include "engine/reviving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::engine {
namespace {

using ::testing::ElementsAre;

lvm::Geometry Raid(lvm::VolumeType type, uint32_t stripes) {
  return *lvm::Geometry::Make({.type = type, .stripes = stripes});
}

std::optional<dm::RaidSuperblock> Leg(uint32_t role, uint64_t events, std::vector<bool> failed) {
  const auto legs = static_cast<uint32_t>(failed.size());
  return dm::RaidSuperblock{.legs = legs, .role = role, .events = events, .failed = std::move(failed)};
}

const lvm::Geometry kRaid5 = Raid(lvm::VolumeType::kRaid5, 2);

TEST(Reviving, AnArrayThatCanDoWithoutItsFailedLegsIsNotStopped) {
  EXPECT_FALSE(IsStopped(kRaid5, {Leg(0, 9, {false, false, false}), Leg(1, 9, {false, false, false}),
                                  Leg(2, 9, {false, false, false})}));
  EXPECT_FALSE(IsStopped(kRaid5, {Leg(0, 5, {false, false, false}), Leg(1, 9, {true, false, false}),
                                  Leg(2, 9, {true, false, false})}));
}

TEST(Reviving, LegsThatWentTogetherAllComeBack) {
  const LegWords legs = {Leg(0, 9, {false, false, false}), Leg(1, 9, {false, false, false}),
                         Leg(2, 11, {true, true, false})};
  EXPECT_TRUE(IsStopped(kRaid5, legs));
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, legs), ElementsAre(false, false, false));
}

TEST(Reviving, ALegThatWentEarlierIsLeftOut) {
  const LegWords legs = {Leg(0, 4, {false, false, false}), Leg(1, 9, {true, false, false}),
                         Leg(2, 11, {true, true, false})};
  EXPECT_TRUE(IsStopped(kRaid5, legs));
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, legs), ElementsAre(true, false, false));
}

TEST(Reviving, ALegThatWasBeingFilledIsNeverTaken) {
  LegWords legs = {Leg(0, 10, {false, true, false}), Leg(1, 10, {false, true, false}),
                   Leg(2, 11, {true, true, false})};
  legs[1]->filled = false;
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, legs), ElementsAre(false, true, false));
  legs[0]->filled = false;
  EXPECT_EQ(LegsToLeaveOut(kRaid5, legs).error().code(), Code::kPrecondition);
}

TEST(Reviving, WithoutParityThatWasEverMadeNoLegIsLeftOut) {
  LegWords legs = {Leg(0, 4, {false, false, false}), Leg(1, 9, {true, false, false}),
                   Leg(2, 11, {true, true, false})};
  legs[2]->in_sync = false;
  EXPECT_EQ(LegsToLeaveOut(kRaid5, legs).error().code(), Code::kPrecondition);
}

TEST(Reviving, ALegThatCannotBeReadOrIsAnothersIsLeftOut) {
  EXPECT_THAT(*LegsToLeaveOut(
                  kRaid5, {std::nullopt, Leg(1, 9, {false, false, false}), Leg(2, 11, {true, true, false})}),
              ElementsAre(true, false, false));
  EXPECT_THAT(*LegsToLeaveOut(kRaid5, {Leg(0, 9, {false, false, false}), Leg(2, 11, {true, true, false}),
                                       Leg(2, 11, {true, true, false})}),
              ElementsAre(false, true, false));
}

TEST(Reviving, Raid6DoesWithoutTwo) {
  const lvm::Geometry raid6 = Raid(lvm::VolumeType::kRaid6, 3);
  const std::vector<bool> none(5, false);
  const LegWords legs = {Leg(0, 3, none), Leg(1, 5, none), Leg(2, 7, none), Leg(3, 9, none),
                         Leg(4, 11, {true, true, true, true, false})};
  EXPECT_TRUE(IsStopped(raid6, legs));
  EXPECT_THAT(*LegsToLeaveOut(raid6, legs), ElementsAre(true, true, false, false, false));
}

}  // namespace
}  // namespace quarry::engine
