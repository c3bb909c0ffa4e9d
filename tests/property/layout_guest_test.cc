// Plans against the real lvm2 with device-mapper under it. Runs in a guest of scripts/vmtest and overwrites
// the disks that are its arguments.
#include <cstdlib>
#include <iostream>
#include <random>

#include <gtest/gtest.h>

#include "tests/property/lvm_agreement.h"
#include "tests/unit/lvm/layout_groups.h"
#include "tests/unit/lvm/text_agreement.h"

namespace quarry::lvm {
namespace {

using testing::LvmLab;
using enum VolumeType;

std::vector<std::string>& Disks() {
  static std::vector<std::string> disks;
  return disks;
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class LayoutGuest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(Disks().size(), 3) << "usage: layout_guest_test /dev/… /dev/… /dev/…";
    auto lab = LvmLab::Make(Disks(), true);
    ASSERT_TRUE(lab.has_value()) << lab.error().message();
    lab_ = std::move(*lab);
  }

  std::unique_ptr<LvmLab> lab_;
};

TEST_F(LayoutGuest, LvmMakesExactlyWhatWasPlanned) {
  testing::AgreementOptions options;
  options.types = {kLinear, kStriped, kRaid0, kRaid1, kRaid4, kRaid5,
                   kRaid6,  kRaid10,  kRaid1, kRaid5, kRaid6, kRaid10};
  options.most_extents = 40;
  options.volumes_per_group = 3;
  options.controls = 2;
  options.seed = FromEnvironment("QUARRY_LAYOUT_SEED", std::random_device()());
  const uint64_t groups = FromEnvironment("QUARRY_LAYOUT_GROUPS", 200);
  std::map<VolumeType, testing::Tally> tallies;
  for (uint64_t round = 0; round < groups && !HasFatalFailure(); ++round) {
    testing::TryOneGroup(*lab_, options, round, tallies);
  }
  std::cout << "seed " << options.seed << "\n" << testing::Report(tallies);
  std::cout << testing::Texts().compared << " texts parsed as LVM reports them, " << testing::Texts().asked
            << " left to LVM\n";
  EXPECT_EQ(testing::Texts().asked, 0U);
}

// An administrator's volume has a leg that continues on a second disk. Growth stays on the disk where the leg
// begins.
TEST_F(LayoutGuest, ALegOnTwoDisksGrowsOnTheFirst) {
  ASSERT_TRUE(
      lab_->MakePvs({Bytes{40 * kMiB.value}, Bytes{30 * kMiB.value}, Bytes{30 * kMiB.value}}).has_value());
  ASSERT_TRUE(lab_->MakeGroup(3, kMiB).has_value());
  const Status made =
      lab_->Must({"lvcreate", "-y", "-Wn", "-Zn", "--nosync", "-n", "v", "--type", "raid1", "-m", "1", "-l",
                  "14", "--alloc", "normal", testing::kLabGroup, lab_->PvPath(0) + ":0-14",
                  lab_->PvPath(1) + ":0-9", lab_->PvPath(2) + ":0-4"});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  Snapshot group = *lab_->Read();
  const auto legs = LegPvs(*group, *group->FindLv("v"));
  ASSERT_EQ(legs.size(), 2);
  ASSERT_EQ(legs[0].size() + legs[1].size(), 3) << "LVM did not spread a leg";
  const Geometry raid1 = testing::MakeGeometry(kRaid1);
  const Extents most = MaxGrowth(FreeSpaceOf(*group), raid1, *group, *group->FindLv("v"));
  ASSERT_GT(most.value, 0);
  for (const Extents more : {Extents{3}, most - Extents{3}}) {
    group = *lab_->Read();
    const auto plan = PlaceGrowth(FreeSpaceOf(*group), raid1, *group, *group->FindLv("v"), more);
    ASSERT_TRUE(plan.has_value()) << plan.error().message();
    for (const PlacementStep& step : plan->steps) {
      const Status extended = lab_->Extend({testing::kLabGroup, "v", raid1, step});
      ASSERT_TRUE(extended.has_value()) << extended.error().message();
    }
    group = *lab_->Read();
    const Status verified = VerifyPlacement(*group, *group->FindLv("v"), *plan);
    EXPECT_TRUE(verified.has_value()) << verified.error().message();
    EXPECT_EQ(LegPvs(*group, *group->FindLv("v")), legs);
  }
}

// The metadata of a leg stay one extent: with the smallest extents for which Quarry promises that, and with
// so many regions that LVM has to double their size.
TEST_F(LayoutGuest, OneExtentOfMetadataHoldsTheLargestBitmap) {
  const uint64_t extents = 2 * (8192 + 64);  // 8 GiB and a bit: 2^21 regions of 4 KiB, and more
  ASSERT_TRUE(lab_->MakePvs(std::vector<Bytes>(2, ToBytes(Extents{extents + 1}, kMinRaidExtent))).has_value())
      << "the disks must have at least 9 GiB";
  ASSERT_TRUE(lab_->MakeGroup(2, kMinRaidExtent).has_value());
  auto made = Geometry::Make({.type = kRaid1, .region_size = Bytes{4 * kKiB.value}});
  ASSERT_TRUE(made.has_value());
  Snapshot group = *lab_->Read();
  ASSERT_EQ(MaxExtents(FreeSpaceOf(*group), *made), Extents{extents});
  const auto small = Place(FreeSpaceOf(*group), *made, {8}, *group);
  ASSERT_TRUE(small.has_value());
  const Status created = lab_->Create({.group = testing::kLabGroup,
                                       .name = "v",
                                       .geometry = *made,
                                       .step = small->steps.front(),
                                       .tags = {},
                                       .wipe = Wipe::kNone,
                                       .assume_in_sync = true});
  ASSERT_TRUE(created.has_value()) << created.error().message();
  for (const uint64_t size : {extents / 2, extents - 200, extents}) {
    group = *lab_->Read();
    const LogicalVolume& before = *group->FindLv("v");
    const Extents more = Extents{size} - CeilToExtents(before.size, kMinRaidExtent);
    const auto plan = PlaceGrowth(FreeSpaceOf(*group), *made, *group, before, more);
    ASSERT_TRUE(plan.has_value()) << plan.error().message();
    for (const PlacementStep& step : plan->steps) {
      const Status extended = lab_->Extend({testing::kLabGroup, "v", *made, step});
      ASSERT_TRUE(extended.has_value()) << extended.error().message();
    }
    group = *lab_->Read();
    const LogicalVolume& after = *group->FindLv("v");
    EXPECT_EQ(after.size, ToBytes(Extents{size}, kMinRaidExtent));
    EXPECT_EQ(after.health, "");
    const Status verified = VerifyPlacement(*group, after, *plan);
    EXPECT_TRUE(verified.has_value()) << verified.error().message();
    std::cout << HumanBytes(after.size) << ": regions of " << HumanBytes(after.segments.front().region_size)
              << "\n";
  }
  EXPECT_FALSE(PlaceGrowth(FreeSpaceOf(*group), *made, *group, *group->FindLv("v"), {1}).has_value());
}

}  // namespace
}  // namespace quarry::lvm

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  quarry::lvm::Disks().assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
