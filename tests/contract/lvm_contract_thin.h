// The promises of LvmApi's verbs for thin pools and their volumes: a part of the LVM contract.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/contract/lvm_contract.h"

namespace quarry::contract {

template <typename World>
class LvmThinContract : public LvmContract<World> {
 protected:
  static constexpr Bytes kChunk{128 * kKiB.value};
  static constexpr Bytes kThinSize{256 * kMiB.value};

  Status Apply(const lvm::Change& change) { return this->Lvm().Apply(change, Patient()); }
  void Do(const lvm::Change& change) {
    const Status done = Apply(change);
    ASSERT_TRUE(done.has_value()) << lvm::TextOf(change) << ": " << done.error().message();
  }

  // An inactive volume. Returns its name.
  std::string MakeVolume(lvm::VolumeType type, uint64_t granules, const std::vector<std::string>& tags = {}) {
    std::string name = lvm::NewLvName();
    const lvm::Geometry geometry = this->Make(type);
    this->CreatePlanned(name, geometry, granules * geometry.data_legs(), tags);
    Do(lvm::DeactivateLv{this->Group(), name, 0});
    return name;
  }
  // Returns its name.
  std::string MakePool(lvm::VolumeType data_type, lvm::VolumeType metadata_type) {
    std::string data = MakeVolume(data_type, 16, {"of.data"});
    const std::string metadata = MakeVolume(metadata_type, 2, {"of.metadata"});
    Do(lvm::AllocateAnywhere{this->Group(), metadata});
    Do(lvm::MakeThinPool{.group = this->Group(), .name = data, .metadata = metadata, .chunk_size = kChunk});
    Do(lvm::ChangeTags{this->Group(), data, {"of.pool"}, {"of.data"}});
    return data;
  }
  lvm::CreateThinLv Thin(const std::string& pool, const std::string& name) {
    return {.group = this->Group(), .name = name, .pool = pool, .size = kThinSize, .tags = {"mine"}};
  }
  std::string MakeThin(const std::string& pool) {
    std::string name = lvm::NewLvName();
    Do(Thin(pool, name));
    return name;
  }
  void Activate(const std::string& name) { Do(lvm::ActivateLvs{this->Group(), {name}}); }
  void Deactivate(const std::string& name) { Do(lvm::DeactivateLv{this->Group(), name, 0}); }
  bool IsActive(const std::string& name) { return this->Now()->FindLv(name)->active; }

  std::vector<lvm::PhysicalRange> ExtentsOf(const std::string& name) {
    const lvm::Snapshot now = this->Now();
    const lvm::LogicalVolume* const lv = now->FindLv(name);
    auto out = lv == nullptr ? std::vector<lvm::PhysicalRange>() : lvm::PhysicalExtents(*now, *lv);
    std::ranges::sort(out);
    return out;
  }
  // Waits until the RAID volume has all its legs filled.
  void AwaitSync(const std::string& name) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (this->Now()->FindLv(name)->sync_percent.value_or(100) < 100) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << name;
    }
  }
  // Replaces the legs of the RAID volume that are on the PV, or on missing ones if `leave` is empty, where
  // the layout says.
  void ReplaceLegs(const std::string& name, const std::string& leave) {
    const lvm::Snapshot group = this->Now();
    const lvm::LogicalVolume& lv = *group->FindLv(name);
    lvm::FreeSpace space = lvm::FreeSpaceOf(*group);
    std::erase_if(space.pvs, [&](const lvm::FreePv& pv) { return pv.uuid == leave; });
    const auto placed =
        lvm::PlaceLegs(space, this->Make(lvm::VolumeType::kRaid1), *group, lv,
                       leave.empty() ? lvm::LostLegs(*group, lv) : lvm::LegsOn(*group, lv, leave));
    ASSERT_TRUE(placed.has_value()) << placed.error().message();
    Do(lvm::RepairLv{this->Group(), name, placed->pv_arguments,
                     leave.empty() ? "" : group->FindPv(leave)->device});
    const lvm::Snapshot after = this->Now();
    const lvm::LogicalVolume& now = *after->FindLv(name);
    EXPECT_THAT(lvm::LostLegs(*after, now), ::testing::Each(false));
    EXPECT_THAT(lvm::LegsOn(*after, now, leave), ::testing::Each(false));
    EXPECT_EQ(lvm::SharedPv(*after, now), std::nullopt);
    AwaitSync(name);
  }
};

TYPED_TEST_SUITE_P(LvmThinContract);

TYPED_TEST_P(LvmThinContract, APoolKeepsTheExtentsOfItsVolumes) {
  QUARRY_NEEDS_DRIVER();
  using enum lvm::VolumeType;
  for (const auto& [data_type, metadata_type] :
       {std::pair{kLinear, kLinear}, {kStriped, kRaid1}, {kRaid10, kRaid1}}) {
    SCOPED_TRACE(lvm::TypeName(data_type));
    const std::string data = this->MakeVolume(data_type, 16);
    const std::string metadata = this->MakeVolume(metadata_type, 2);
    this->Do(lvm::AllocateAnywhere{this->Group(), metadata});
    this->Do(lvm::AllocateAnywhere{this->Group(), metadata});
    std::vector<lvm::PhysicalRange> before = this->ExtentsOf(data);
    std::ranges::copy(this->ExtentsOf(metadata), std::back_inserter(before));
    std::ranges::sort(before);
    const uint64_t seqno = this->Now()->seqno;
    const lvm::MakeThinPool verb{.group = this->Group(),
                                 .name = data,
                                 .metadata = metadata,
                                 .chunk_size = this->kChunk,
                                 .error_when_full = true};
    this->Do(verb);
    EXPECT_EQ(this->ExtentsOf(data), before);
    const lvm::Snapshot now = this->Now();
    EXPECT_EQ(now->seqno, seqno + *verb.Commits());
    EXPECT_EQ(now->FindLv(metadata), nullptr);
    const lvm::LogicalVolume& pool = *now->FindLv(data);
    EXPECT_FALSE(pool.hidden);
    EXPECT_FALSE(pool.independent);
    EXPECT_FALSE(pool.active);
    const lvm::ExtentRange whole{{0}, CeilToExtents(pool.size, kExtentSize)};
    lvm::Segment segment{.type = "thin-pool", .logical = whole, .chunk_size = this->kChunk};
    segment.areas = {{.pv_uuid = "", .lv_name = lvm::ThinDataName(data), .range = whole}};
    segment.thin_pool = lvm::ThinPool{
        .metadata_lv = lvm::ThinMetadataName(data), .zeroes_chunks = true, .error_when_full = true};
    EXPECT_EQ(pool.segments, std::vector{segment});
    for (const lvm::LogicalVolume& lv : now->lvs) {
      EXPECT_EQ(lv.hidden, lv.name != data) << lv.name;
    }
    this->ExpectError(this->Apply(verb), Code::kPrecondition);
    EXPECT_EQ(this->Now()->seqno, now->seqno);
    this->Do(lvm::RemoveLvs{this->Group(), {data}, 0});
    EXPECT_TRUE(this->Now()->lvs.empty()) << "a spare, or a part of the pool, was left";
  }
}

// Whatever becomes of the tags that the volumes had.
TYPED_TEST_P(LvmThinContract, APoolHasTheTagsAndTheFlagThatItWasGiven) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kLinear);
  const uint64_t seqno = this->Now()->seqno;
  this->Do(lvm::ChangeTags{this->Group(), name, {"a", "b"}, {"of.data"}});
  EXPECT_EQ(this->Now()->seqno, seqno + 1);
  EXPECT_THAT(this->Now()->FindLv(name)->tags, ::testing::UnorderedElementsAre("of.pool", "a", "b"));
  const std::string thin = this->MakeThin(name);
  this->Do(lvm::ChangeTags{this->Group(), thin, {"c"}, {"mine"}});
  EXPECT_THAT(this->Now()->FindLv(thin)->tags, ::testing::ElementsAre("c"));
  this->Do(lvm::ChangeTags{this->Group(), lvm::ThinDataName(name), {}, {"of.data"}});
  EXPECT_THAT(this->Now()->FindLv(lvm::ThinDataName(name))->tags, ::testing::IsEmpty());
  const std::string metadata = lvm::ThinMetadataName(name);
  EXPECT_FALSE(this->Apply(lvm::ChangeTags{this->Group(), metadata, {}, {"of.metadata"}}).has_value());
  EXPECT_THAT(this->Now()->FindLv(metadata)->tags, ::testing::ElementsAre("of.metadata"));
  this->Do(lvm::SkipActivation{this->Group(), name});
  this->Do(lvm::SkipActivation{this->Group(), name});
  this->ExpectError(this->Apply(lvm::SkipActivation{this->Group(), lvm::NewLvName()}), Code::kNotFound);
}

TYPED_TEST_P(LvmThinContract, AThinVolumeIsInactiveAndHasItsTagsAndAnId) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kLinear, lvm::VolumeType::kLinear);
  for (uint32_t id = 1; id <= 2; ++id) {
    const std::string name = lvm::NewLvName();
    const uint64_t seqno = this->Now()->seqno;
    this->Do(this->Thin(pool, name));
    const lvm::Snapshot now = this->Now();
    EXPECT_EQ(now->seqno, seqno + *lvm::CreateThinLv{}.Commits());
    const lvm::LogicalVolume& thin = *now->FindLv(name);
    EXPECT_FALSE(thin.active);
    EXPECT_TRUE(thin.independent);
    EXPECT_FALSE(thin.hidden);
    EXPECT_EQ(thin.pool, pool);
    EXPECT_EQ(thin.size, this->kThinSize);
    EXPECT_THAT(thin.tags, ::testing::ElementsAre("mine"));
    lvm::Segment segment{.type = "thin", .logical = {{0}, CeilToExtents(thin.size, kExtentSize)}};
    segment.data_stripes = 0;
    segment.thin_volume = lvm::ThinVolume{.device_id = id, .transaction_id = id - 1};
    EXPECT_EQ(thin.segments, std::vector{segment});
    EXPECT_EQ(now->FindLv(pool)->segments.front().thin_pool->transaction_id, id);
    EXPECT_FALSE(now->FindLv(lvm::ThinDataName(pool))->active);
    this->ExpectError(this->Apply(this->Thin(pool, name)), Code::kAlreadyExists);
  }
  this->ExpectError(this->Apply(this->Thin(lvm::NewLvName(), lvm::NewLvName())), Code::kNotFound);
}

TYPED_TEST_P(LvmThinContract, DataAndMetadataOfAPoolGrowExactlyWhereThePlanSays) {
  QUARRY_NEEDS_DRIVER();
  using enum lvm::VolumeType;
  for (const lvm::VolumeType type : {kLinear, kStriped, kRaid5}) {
    SCOPED_TRACE(lvm::TypeName(type));
    const lvm::VolumeType of_metadata = type == kLinear ? kLinear : kRaid1;
    const std::string name = this->MakePool(type, of_metadata);
    const std::string thin = this->MakeThin(name);
    this->Activate(thin);
    for (const bool is_data : {true, false}) {
      const lvm::Geometry geometry = this->Make(is_data ? type : of_metadata);
      const std::string part = is_data ? lvm::ThinDataName(name) : lvm::ThinMetadataName(name);
      const lvm::Snapshot before = this->Now();
      const auto plan = lvm::PlaceGrowth(lvm::FreeSpaceOf(*before), geometry, *before, *before->FindLv(part),
                                         Extents{4 * geometry.data_legs()});
      ASSERT_TRUE(plan.has_value()) << plan.error().message();
      for (const lvm::PlacementStep& step : plan->steps) {
        this->Do(is_data ? lvm::Change(lvm::ExtendLv{this->Group(), name, geometry, step})
                         : lvm::ExtendPoolMetadata{this->Group(), name, geometry, step, kExtentSize});
      }
      const lvm::Snapshot after = this->Now();
      EXPECT_EQ(after->seqno, before->seqno + plan->steps.size());
      const Status verified = lvm::VerifyPlacement(*after, *after->FindLv(part), *plan);
      EXPECT_TRUE(verified.has_value()) << verified.error().message();
      EXPECT_EQ(after->FindLv(name)->size, after->FindLv(lvm::ThinDataName(name))->size);
      EXPECT_TRUE(after->FindLv(thin)->active);
    }
    this->Deactivate(thin);
    this->Do(lvm::RemoveLvs{this->Group(), {thin}, 0});
    this->Do(lvm::RemoveLvs{this->Group(), {name}, 0});
  }
}

TYPED_TEST_P(LvmThinContract, AThinVolumeGrowsToASizeAndNeverShrinks) {
  QUARRY_NEEDS_DRIVER();
  const std::string name = this->MakeThin(this->MakePool(lvm::VolumeType::kLinear, lvm::VolumeType::kLinear));
  uint64_t extents = this->kThinSize.value / kExtentSize.value;
  for (const bool active : {false, true}) {
    if (active) {
      this->Activate(name);
    }
    ++extents;
    const Bytes size = ToBytes({extents}, kExtentSize);
    this->Do(lvm::ExtendThinLv{this->Group(), name, size});
    const lvm::Snapshot grown = this->Now();
    EXPECT_EQ(grown->FindLv(name)->size, size);
    EXPECT_EQ(grown->FindLv(name)->active, active);
    this->Do(lvm::ExtendThinLv{this->Group(), name, size});
    this->Do(lvm::ExtendThinLv{this->Group(), name, size - kMiB});
    this->ExpectError(this->Apply(lvm::ExtendThinLv{this->Group(), name, size - kExtentSize}),
                      Code::kPrecondition);
    EXPECT_EQ(this->Now()->FindLv(name)->size, size);
    EXPECT_EQ(this->Now()->seqno, grown->seqno);
  }
  this->ExpectError(this->Apply(lvm::ExtendThinLv{this->Group(), lvm::NewLvName(), this->kThinSize}),
                    Code::kNotFound);
}

TYPED_TEST_P(LvmThinContract, APoolIsInTheKernelWhileItOrAVolumeIsActive) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kRaid1);
  const std::string a = this->MakeThin(pool);
  const std::string b = this->MakeThin(pool);
  const auto expect = [&](bool of_pool, bool of_a, bool of_b) {
    const lvm::Snapshot now = this->Now();
    EXPECT_EQ(now->FindLv(pool)->active, of_pool);
    EXPECT_EQ(now->FindLv(a)->active, of_a);
    EXPECT_EQ(now->FindLv(b)->active, of_b);
    for (const lvm::LogicalVolume& lv : now->lvs) {
      EXPECT_TRUE(!lv.hidden || lv.active == (of_pool || of_a || of_b)) << lv.name;
    }
  };
  this->Activate(a);
  expect(false, true, false);
  this->Activate(pool);
  expect(true, true, false);
  this->Activate(b);
  this->Deactivate(a);
  this->Deactivate(pool);
  expect(false, false, true);
  {
    const std::shared_ptr<void> user = this->world_.Hold(b);
    this->ExpectError(this->Apply(lvm::DeactivateLv{this->Group(), b, 0}), Code::kPrecondition);
  }
  this->Do(lvm::RefreshLvs{this->Group(), {b}});
  this->Deactivate(b);
  expect(false, false, false);
}

TYPED_TEST_P(LvmThinContract, APartIsActiveAloneOnlyWhileItsPoolIsNot) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kLinear, lvm::VolumeType::kRaid1);
  const std::string thin = this->MakeThin(pool);
  const std::string metadata = lvm::ThinMetadataName(pool);
  this->Activate(metadata);
  const lvm::Snapshot now = this->Now();
  EXPECT_TRUE(now->FindLv(metadata)->active);
  EXPECT_FALSE(now->FindLv(pool)->active);
  EXPECT_FALSE(now->FindLv(lvm::ThinDataName(pool))->active);
  for (const std::string& name : {pool, thin}) {
    this->ExpectError(this->Apply(lvm::ActivateLvs{this->Group(), {name}}), Code::kPrecondition);
  }
  this->ExpectError(this->Apply(this->Thin(pool, lvm::NewLvName())), Code::kPrecondition);
  EXPECT_EQ(this->Now()->seqno, now->seqno);
  this->Deactivate(metadata);
  this->Activate(thin);
  this->ExpectError(this->Apply(lvm::ActivateLvs{this->Group(), {metadata}}), Code::kPrecondition);
  this->ExpectError(this->Apply(lvm::DeactivateLv{this->Group(), metadata, 0}), Code::kPrecondition);
  EXPECT_TRUE(this->IsActive(metadata));
}

TYPED_TEST_P(LvmThinContract, APoolIsRemovedOnlyWithoutVolumes) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kRaid1);
  const std::string thin = this->MakeThin(pool);
  const std::string other = this->MakeThin(pool);
  for (const bool active : {true, false}) {
    if (active) {
      this->Activate(thin);
      this->ExpectError(this->Apply(lvm::RemoveLvs{this->Group(), {thin}, 0}), Code::kPrecondition);
    }
    const lvm::Snapshot before = this->Now();
    this->ExpectError(this->Apply(lvm::RemoveLvs{this->Group(), {pool}, 0}), Code::kPrecondition);
    this->ExpectSameMetadata(*before, *this->Now());
    this->Deactivate(thin);
  }
  const lvm::Snapshot before = this->Now();
  for (const std::string& part : {lvm::ThinDataName(pool), lvm::ThinMetadataName(pool)}) {
    EXPECT_FALSE(this->Apply(lvm::RemoveLvs{this->Group(), {part}, 0}).has_value());
  }
  this->Do(lvm::RemoveLvs{this->Group(), {thin}, before->seqno - 1});
  this->ExpectSameMetadata(*before, *this->Now());
  const lvm::RemoveLvs verb{this->Group(), {thin, other}, before->seqno, true};
  this->Do(verb);
  const lvm::Snapshot without = this->Now();
  EXPECT_EQ(without->seqno, before->seqno + *verb.Commits());
  EXPECT_EQ(without->FindLv(thin), nullptr);
  EXPECT_EQ(without->FindLv(other), nullptr);
  EXPECT_EQ(without->FindLv(pool)->segments.front().thin_pool->transaction_id, 4U);
  this->Do(lvm::RemoveLvs{this->Group(), {thin}, 0});
  this->Activate(pool);
  this->ExpectError(this->Apply(lvm::RemoveLvs{this->Group(), {pool}, 0}), Code::kPrecondition);
  this->Deactivate(pool);
  this->Do(lvm::RemoveLvs{this->Group(), {pool}, 0});
  EXPECT_TRUE(this->Now()->lvs.empty());
  EXPECT_EQ(this->Now()->free_count, this->Now()->extent_count);
}

TYPED_TEST_P(LvmThinContract, LegsOfAPoolLeaveAnEvacuatedDisk) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kRaid1);
  const std::string thin = this->MakeThin(pool);
  for (const std::string& part : {lvm::ThinDataName(pool), lvm::ThinMetadataName(pool)}) {
    const lvm::Snapshot group = this->Now();
    const std::string left = lvm::LegPvs(*group, *group->FindLv(part))[1].front();
    this->Deactivate(thin);
    EXPECT_FALSE(this->Apply(lvm::RepairLv{this->Group(), part, {}, group->FindPv(left)->device}).has_value())
        << "the pool is inactive";
    this->Activate(thin);
    this->ReplaceLegs(part, left);
    ASSERT_FALSE(this->HasFatalFailure());
  }
  EXPECT_TRUE(this->IsActive(thin));
}

TYPED_TEST_P(LvmThinContract, LegsOfAPoolOnAMissingDiskAreRebuiltElsewhere) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kRaid1);
  const std::string thin = this->MakeThin(pool);
  const lvm::Snapshot whole = this->Now();
  const std::string lost = lvm::LegPvs(*whole, *whole->FindLv(lvm::ThinDataName(pool)))[1].front();
  this->Activate(thin);
  const std::shared_ptr<void> user = this->world_.Hold(thin);
  this->world_.HideDisk(static_cast<size_t>(std::ranges::find(whole->pvs, lost, &lvm::PhysicalVolume::uuid) -
                                            whole->pvs.begin()));
  const lvm::Snapshot degraded = this->Now();
  for (const std::string& name : {pool, thin, lvm::ThinDataName(pool)}) {
    EXPECT_TRUE(degraded->FindLv(name)->partial) << name;
  }
  this->ExpectError(this->Apply(this->Thin(pool, lvm::NewLvName())), Code::kUnavailable);
  this->ExpectError(this->Apply(lvm::ExtendThinLv{this->Group(), thin, kGiB}), Code::kUnavailable);
  this->Do(lvm::ChangeTags{this->Group(), pool, {"seen"}, {}});
  for (const std::string& part : {lvm::ThinDataName(pool), lvm::ThinMetadataName(pool)}) {
    if (degraded->FindLv(part)->partial) {
      this->ReplaceLegs(part, "");
      ASSERT_FALSE(this->HasFatalFailure());
    }
  }
  const lvm::Snapshot after = this->Now();
  for (const lvm::LogicalVolume& lv : after->lvs) {
    EXPECT_FALSE(lv.partial) << lv.name;
  }
  EXPECT_TRUE(after->FindLv(thin)->active);
  this->Do(lvm::DropMissingPvs{this->Group()});
  EXPECT_EQ(this->Now()->MissingPvs(), 0U);
  this->MakeThin(pool);
}

// LVM does that for RAID volumes without being told.
TYPED_TEST_P(LvmThinContract, APoolThatLacksALegIsActivatedOnlyAsDegraded) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kRaid1);
  const std::string thin = this->MakeThin(pool);
  const std::string lost =
      lvm::LegPvs(*this->Now(), *this->Now()->FindLv(lvm::ThinDataName(pool)))[1].front();
  const lvm::Snapshot whole = this->Now();
  this->world_.HideDisk(static_cast<size_t>(std::ranges::find(whole->pvs, lost, &lvm::PhysicalVolume::uuid) -
                                            whole->pvs.begin()));
  for (const std::string& name : {pool, thin}) {
    this->ExpectError(this->Apply(lvm::ActivateLvs{this->Group(), {name}}), Code::kUnavailable);
    EXPECT_FALSE(this->IsActive(lvm::ThinDataName(pool)));
  }
  this->Do(lvm::ActivateDegradedThin{this->Group(), {pool, thin}});
  EXPECT_TRUE(this->IsActive(pool));
  EXPECT_TRUE(this->IsActive(thin));
  for (const std::string& part : {lvm::ThinDataName(pool), lvm::ThinMetadataName(pool)}) {
    if (this->Now()->FindLv(part)->partial) {
      this->ReplaceLegs(part, "");
      ASSERT_FALSE(this->HasFatalFailure());
    }
  }
  this->Deactivate(thin);
  this->Deactivate(pool);
  this->Activate(thin);
  EXPECT_TRUE(this->IsActive(thin));
}

TYPED_TEST_P(LvmThinContract, AVolumeLeavesADegradedPoolThatIsActive) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kRaid1, lvm::VolumeType::kRaid1);
  const std::string thin = this->MakeThin(pool);
  const lvm::Snapshot whole = this->Now();
  const std::string lost = lvm::LegPvs(*whole, *whole->FindLv(lvm::ThinDataName(pool)))[1].front();
  this->world_.HideDisk(static_cast<size_t>(std::ranges::find(whole->pvs, lost, &lvm::PhysicalVolume::uuid) -
                                            whole->pvs.begin()));
  this->Do(lvm::ActivateDegradedThin{this->Group(), {pool}});
  this->Do(lvm::RemoveLvs{this->Group(), {thin}, 0});
  EXPECT_EQ(this->Now()->FindLv(thin), nullptr);
  this->Deactivate(pool);
  this->Do(lvm::RemoveLvs{this->Group(), {pool}, 0});
  EXPECT_TRUE(this->Now()->lvs.empty());
}

TYPED_TEST_P(LvmThinContract, APartOfAPoolMovesToAnotherDisk) {
  QUARRY_NEEDS_DRIVER();
  const std::string pool = this->MakePool(lvm::VolumeType::kLinear, lvm::VolumeType::kLinear);
  const std::string thin = this->MakeThin(pool);
  this->Activate(thin);
  for (const std::string& part : {lvm::ThinDataName(pool), lvm::ThinMetadataName(pool)}) {
    const lvm::Snapshot group = this->Now();
    const lvm::PhysicalRange own = lvm::PhysicalExtents(*group, *group->FindLv(part)).front();
    const std::string& to = group->pvs.back().uuid;
    ASSERT_NE(own.pv_uuid, to);
    const lvm::ExtentRange target{{100}, own.range.count};
    this->Do(lvm::MoveExtents{.group = this->Group(),
                              .name = part,
                              .from = lvm::PvRangesArgument(*group, own.pv_uuid, {own.range}),
                              .to = lvm::PvRangesArgument(*group, to, {target})});
    EXPECT_THAT(this->ExtentsOf(part), ::testing::ElementsAre(lvm::PhysicalRange{to, target}));
    this->Do(lvm::ChangeTags{this->Group(), thin, {"moved"}, {}});
    this->Do(lvm::MoveExtents{.group = this->Group(),
                              .name = part,
                              .from = lvm::PvRangesArgument(*group, to, {target}),
                              .to = lvm::PvRangesArgument(*group, own.pv_uuid, {own.range})});
  }
  EXPECT_TRUE(this->IsActive(thin));
}

TYPED_TEST_P(LvmThinContract, APoolGetsOtherMetadataAndItsFormerOnesStay) {
  QUARRY_NEEDS_DRIVER();
  using enum lvm::VolumeType;
  for (const lvm::VolumeType type : {kLinear, kRaid1}) {
    SCOPED_TRACE(lvm::TypeName(type));
    const std::string pool = this->MakePool(type, type);
    const std::string thin = this->MakeThin(pool);
    const std::string part = lvm::ThinMetadataName(pool);
    const std::string fresh = this->MakeVolume(type, 2);
    const std::string former_uuid = this->Now()->FindLv(part)->uuid;
    const std::string fresh_uuid = this->Now()->FindLv(fresh)->uuid;
    const auto former_extents = this->ExtentsOf(part);
    const auto fresh_extents = this->ExtentsOf(fresh);
    const lvm::SwapPoolMetadata swap{this->Group(), pool, fresh};
    this->Activate(pool);
    EXPECT_FALSE(this->Apply(swap).has_value());
    this->Deactivate(pool);
    EXPECT_EQ(this->Now()->FindLv(part)->uuid, former_uuid) << "nothing was changed";
    this->Do(swap);
    const lvm::Snapshot now = this->Now();
    EXPECT_EQ(now->FindLv(part)->uuid, fresh_uuid);
    EXPECT_TRUE(now->FindLv(part)->hidden);
    EXPECT_EQ(now->FindLv(fresh)->uuid, former_uuid);
    EXPECT_FALSE(now->FindLv(fresh)->hidden);
    EXPECT_EQ(this->ExtentsOf(part), fresh_extents);
    EXPECT_EQ(this->ExtentsOf(fresh), former_extents);
    EXPECT_EQ(now->FindLv(thin)->pool, pool);
    EXPECT_EQ(now->FindLv(pool)->segments.front().thin_pool->metadata_lv, part);
    this->Do(swap);  // back: the volume has no metadata in it
    this->Do(lvm::RemoveLvs{this->Group(), {fresh}, 0});
    this->Do(lvm::RemoveLvs{this->Group(), {thin}, 0});
    this->Do(lvm::RemoveLvs{this->Group(), {pool}, 0});
  }
}

REGISTER_TYPED_TEST_SUITE_P(
    LvmThinContract, APoolKeepsTheExtentsOfItsVolumes, APoolHasTheTagsAndTheFlagThatItWasGiven,
    AThinVolumeIsInactiveAndHasItsTagsAndAnId, DataAndMetadataOfAPoolGrowExactlyWhereThePlanSays,
    AThinVolumeGrowsToASizeAndNeverShrinks, APoolIsInTheKernelWhileItOrAVolumeIsActive,
    APartIsActiveAloneOnlyWhileItsPoolIsNot, APoolIsRemovedOnlyWithoutVolumes,
    LegsOfAPoolLeaveAnEvacuatedDisk, LegsOfAPoolOnAMissingDiskAreRebuiltElsewhere,
    APoolThatLacksALegIsActivatedOnlyAsDegraded, AVolumeLeavesADegradedPoolThatIsActive,
    APartOfAPoolMovesToAnotherDisk, APoolGetsOtherMetadataAndItsFormerOnesStay);

}  // namespace quarry::contract
