// The promises of LvmApi for evacuating disks: a part of the LVM contract.
#pragma once

#include "tests/contract/lvm_contract.h"

namespace quarry::contract {

template <typename World>
class LvmMoveContract : public LvmContract<World> {
 protected:
  // Moves the extents that `name` has on its first leg's PV to a PV without any of its extents. Returns the
  // first PV.
  std::string MoveFirstLeg(const std::string& name) {
    const lvm::Snapshot group = this->Now();
    const lvm::LogicalVolume* const lv = group->FindLv(name);
    const std::string from = lvm::LegPvs(*group, *lv).front().front();
    const auto moves = lvm::PlaceMoves(lvm::FreeSpaceOf(*group), *group, from, {lv});
    EXPECT_TRUE(moves.has_value()) << moves.error().message();
    for (const lvm::ExtentMove& move : *moves) {
      const Status done =
          this->Lvm().Apply(lvm::MoveExtents{.group = this->Group(),
                                             .name = name,
                                             .from = lvm::PvRangesArgument(*group, from, move.from),
                                             .to = lvm::PvRangesArgument(*group, move.to_uuid, move.to)},
                            Patient());
      EXPECT_TRUE(done.has_value()) << done.error().message();
    }
    return from;
  }
};

TYPED_TEST_SUITE_P(LvmMoveContract);

TYPED_TEST_P(LvmMoveContract, AnUnallocatableDiskGetsNoExtents) {
  const lvm::Snapshot before = this->Now();
  const std::string device = before->pvs[0].device;
  const lvm::ChangePv change{
      .group = this->Group(), .device = device, .allocatable = false, .add_tags = {"a.b"}};
  ASSERT_TRUE(this->Lvm().Apply(change, Patient()).has_value());
  const Status again = this->Lvm().Apply(change, Patient());
  EXPECT_TRUE(again.has_value()) << again.error().message();
  const lvm::Snapshot after = this->Now();
  EXPECT_FALSE(after->pvs[0].allocatable);
  EXPECT_THAT(after->pvs[0].tags, ::testing::ElementsAre("a.b"));
  EXPECT_EQ(lvm::FreeSpaceOf(*after).pvs.size(), kDisks - 1);
  const Status tagged = this->Lvm().Apply(lvm::ChangePv{.group = this->Group(),
                                                        .device = device,
                                                        .allocatable = std::nullopt,
                                                        .add_tags = {"a.b", "c.d=1"},
                                                        .remove_tags = {"e.f"}},
                                          Patient());
  EXPECT_TRUE(tagged.has_value()) << tagged.error().message();
  EXPECT_FALSE(this->Now()->pvs[0].allocatable) << "only the tags were to change";
  EXPECT_THAT(this->Now()->pvs[0].tags, ::testing::UnorderedElementsAre("a.b", "c.d=1"));
  const Status refused = this->Lvm().Apply(
      this->Spec(lvm::NewLvName(), this->Make(lvm::VolumeType::kLinear),
                 {.logical_extents = {2}, .alloc = "normal", .pv_arguments = {device + ":0-1"}}),
      Patient());
  this->ExpectError(refused, Code::kNoSpace);
  ASSERT_TRUE(
      this->Lvm()
          .Apply(lvm::ChangePv{.group = this->Group(), .device = device, .remove_tags = {"a.b", "c.d=1"}},
                 Patient())
          .has_value());
  EXPECT_TRUE(this->Now()->pvs[0].allocatable);
  EXPECT_TRUE(this->Now()->pvs[0].tags.empty());
}

TYPED_TEST_P(LvmMoveContract, MovedExtentsLieElsewhereUnchanged) {
  QUARRY_NEEDS_DRIVER();
  for (const lvm::VolumeType type : this->Types()) {
    SCOPED_TRACE(lvm::TypeName(type));
    const std::string name = lvm::NewLvName();
    const lvm::Geometry geometry = this->Make(type);
    if (geometry.legs() == kDisks) {
      continue;  // every disk has a leg
    }
    this->CreatePlanned(name, geometry, 6 * geometry.data_legs());
    const lvm::LogicalVolume before = *this->Now()->FindLv(name);
    const std::string left = this->MoveFirstLeg(name);
    const lvm::Snapshot group = this->Now();
    const lvm::LogicalVolume* const after = group->FindLv(name);
    EXPECT_EQ(after->size, before.size);
    EXPECT_EQ(after->uuid, before.uuid);
    EXPECT_THAT(lvm::LegsOn(*group, *after, left), ::testing::Each(false));
    EXPECT_EQ(lvm::SharedPv(*group, *after), std::nullopt);
    EXPECT_EQ(lvm::LegPvs(*group, *after).size(), geometry.legs());
    ASSERT_TRUE(this->Remove(name).has_value());
  }
  EXPECT_TRUE(
      this->Lvm().Apply(lvm::AbortMove{this->Group(), this->Now()->pvs[0].device}, Patient()).has_value())
      << "there is none";
}

TYPED_TEST_P(LvmMoveContract, ExtentsInUseAreRefusedAsATarget) {
  QUARRY_NEEDS_DRIVER();
  const std::string a = this->CreateSmall();
  const lvm::Snapshot group = this->Now();
  const lvm::PhysicalRange own = lvm::PhysicalExtents(*group, *group->FindLv(a)).front();
  const std::string there = lvm::PvRangesArgument(*group, own.pv_uuid, {own.range});
  const Status done = this->Lvm().Apply(
      lvm::MoveExtents{.group = this->Group(), .name = a, .from = there, .to = there}, Patient());
  EXPECT_FALSE(done.has_value());
  EXPECT_EQ(lvm::PhysicalExtents(*this->Now(), *this->Now()->FindLv(a)).front().range, own.range);
}

TYPED_TEST_P(LvmMoveContract, ALegIsReplacedOffAnEvacuatedDisk) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = lvm::NewLvName();
  const lvm::Geometry geometry = this->Make(lvm::VolumeType::kRaid1);
  this->CreatePlanned(name, geometry, 6);
  const lvm::Snapshot group = this->Now();
  const lvm::LogicalVolume& lv = *group->FindLv(name);
  const std::string left = lvm::LegPvs(*group, lv)[1].front();
  lvm::FreeSpace space = lvm::FreeSpaceOf(*group);
  std::erase_if(space.pvs, [&](const lvm::FreePv& pv) { return pv.uuid == left; });
  const auto placed = lvm::PlaceLegs(space, geometry, *group, lv, {false, true});
  ASSERT_TRUE(placed.has_value()) << placed.error().message();
  const Status done = this->Lvm().Apply(
      lvm::RepairLv{this->Group(), name, placed->pv_arguments, group->FindPv(left)->device}, Patient());
  ASSERT_TRUE(done.has_value()) << done.error().message();
  const lvm::Snapshot after = this->Now();
  EXPECT_THAT(lvm::LegsOn(*after, *after->FindLv(name), left), ::testing::Each(false));
  EXPECT_EQ(lvm::SharedPv(*after, *after->FindLv(name)), std::nullopt);
}

TYPED_TEST_P(LvmMoveContract, ADiskInUseIsNotTakenOut) {
  const std::string a = this->CreateSmall();
  const lvm::Snapshot group = this->Now();
  const std::string device =
      group->FindPv(lvm::PhysicalExtents(*group, *group->FindLv(a)).front().pv_uuid)->device;
  this->ExpectError(this->Lvm().Apply(lvm::RemovePv{this->Group(), device}, Patient()), Code::kPrecondition);
  EXPECT_EQ(this->Now()->pvs.size(), kDisks);
}

REGISTER_TYPED_TEST_SUITE_P(LvmMoveContract, AnUnallocatableDiskGetsNoExtents,
                            MovedExtentsLieElsewhereUnchanged, ExtentsInUseAreRefusedAsATarget,
                            ALegIsReplacedOffAnEvacuatedDisk, ADiskInUseIsNotTakenOut);

}  // namespace quarry::contract
