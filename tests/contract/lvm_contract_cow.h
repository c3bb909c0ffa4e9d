// The promises of LvmApi for the stores of volumes that are copied while they are in use: a part of the LVM
// contract.
#pragma once

#include "lvm/ownership.h"
#include "tests/contract/lvm_contract.h"

namespace quarry::contract {

template <typename World>
class LvmCowContract : public LvmContract<World> {
 protected:
  // Makes a store for the volume on the group's last disk. Returns its name.
  std::string Keep(const std::string& name, const std::vector<std::string>& tags) {
    const lvm::Snapshot group = this->Now();
    const lvm::Geometry linear = this->Make(lvm::VolumeType::kLinear);
    lvm::FreeSpace space = lvm::FreeSpaceOf(*group);
    std::erase_if(space.pvs, [&](const lvm::FreePv& pv) { return pv.uuid != group->pvs.back().uuid; });
    const auto placed =
        lvm::Place(space, linear, lvm::CowStoreSize(group->FindLv(name)->size, group->extent_size), *group);
    EXPECT_TRUE(placed.has_value()) << placed.error().message();
    placed_ = *placed;
    std::string store = lvm::NewLvName();
    const Status done = this->Lvm().Apply(lvm::CreateCow{.group = this->Group(),
                                                         .name = name,
                                                         .store = store,
                                                         .step = placed->steps.front(),
                                                         .tags = tags},
                                          Patient());
    EXPECT_TRUE(done.has_value()) << done.error().message();
    return store;
  }

  lvm::Placement placed_;  // of the last store
};

TYPED_TEST_SUITE_P(LvmCowContract);

TYPED_TEST_P(LvmCowContract, AStoreIsBoundToItsVolumeUntilItIsSplitOff) {
  QUARRY_NEEDS_DRIVER();
  for (const lvm::VolumeType type : this->Types()) {
    SCOPED_TRACE(lvm::TypeName(type));
    const std::string name = lvm::NewLvName();
    const lvm::Geometry geometry = this->Make(type);
    // From the smallest volume on, LVM takes the size of the store as it is.
    this->CreatePlanned(name, geometry, (type == lvm::VolumeType::kLinear ? 1 : 3) * geometry.data_legs());
    const lvm::Snapshot before = this->Now();

    const std::string store = this->Keep(name, {"a.b", "quarry.erasing"});
    ASSERT_FALSE(this->HasFailure());
    const lvm::Snapshot bound = this->Now();
    EXPECT_EQ(bound->seqno, before->seqno + *lvm::CreateCow{}.Commits());
    const lvm::LogicalVolume* const kept = bound->FindLv(name);
    const lvm::LogicalVolume* const lv = bound->FindLv(store);
    ASSERT_NE(lv, nullptr);
    EXPECT_EQ(lv->origin, name);
    EXPECT_FALSE(lv->independent);
    EXPECT_FALSE(lv->hidden);
    EXPECT_FALSE(kept->independent);
    EXPECT_EQ(kept->size, before->FindLv(name)->size);
    EXPECT_THAT(lv->tags, ::testing::UnorderedElementsAre("a.b", "quarry.erasing"));
    const Status layout = lvm::VerifyPlacement(*bound, *lv, this->placed_);
    EXPECT_TRUE(layout.has_value()) << layout.error().message();
    EXPECT_FALSE(lvm::OwnedExtents(*bound, *kept).has_value());
    EXPECT_FALSE(lvm::RemovesAlone(*bound, *kept).has_value());

    const Status split = this->Lvm().Apply(lvm::SplitCow{this->Group(), name, store}, Patient());
    ASSERT_TRUE(split.has_value()) << split.error().message();
    const lvm::Snapshot after = this->Now();
    EXPECT_EQ(after->seqno, bound->seqno + 1);
    EXPECT_TRUE(lvm::OwnedExtents(*after, *after->FindLv(name)).has_value());
    EXPECT_TRUE(lvm::OwnedExtents(*after, *after->FindLv(store)).has_value());
    EXPECT_EQ(after->FindLv(store)->tags, lv->tags);
    EXPECT_EQ(after->FindLv(store)->uuid, lv->uuid);
    ASSERT_TRUE(this->Remove(store).has_value());
    ASSERT_TRUE(this->Remove(name).has_value());
  }
}

TYPED_TEST_P(LvmCowContract, WhatIsNoStoreIsNotSplitOff) {
  QUARRY_NEEDS_DRIVER();
  const std::string a = this->CreateSmall();
  const std::string b = this->CreateSmall();
  EXPECT_FALSE(this->Lvm().Apply(lvm::SplitCow{this->Group(), a, b}, Patient()).has_value());
  this->ExpectError(this->Lvm().Apply(lvm::SplitCow{this->Group(), a, lvm::NewLvName()}, Patient()),
                    Code::kNotFound);
  EXPECT_EQ(this->Now()->lvs.size(), 2U);
}

TYPED_TEST_P(LvmCowContract, AStoreOnAMissingDiskIsRemovedFromAVolumeInUse) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = this->CreateSmall();
  const std::string store = this->Keep(name, {"quarry.erasing"});
  ASSERT_FALSE(this->HasFailure());
  const std::shared_ptr<void> user = this->world_.Hold(name);
  this->world_.HideDisk(kDisks - 1);
  EXPECT_FALSE(this->Lvm().Apply(lvm::SplitCow{this->Group(), name, store}, Patient()).has_value());
  const Status dropped = this->Lvm().Apply(lvm::DropCow{this->Group(), name, store}, Patient());
  EXPECT_TRUE(dropped.has_value()) << dropped.error().message();
  const lvm::Snapshot after = this->Now();
  EXPECT_EQ(after->FindLv(store), nullptr);
  EXPECT_TRUE(lvm::OwnedExtents(*after, *after->FindLv(name)).has_value());
}

REGISTER_TYPED_TEST_SUITE_P(LvmCowContract, AStoreIsBoundToItsVolumeUntilItIsSplitOff,
                            WhatIsNoStoreIsNotSplitOff, AStoreOnAMissingDiskIsRemovedFromAVolumeInUse);

}  // namespace quarry::contract
