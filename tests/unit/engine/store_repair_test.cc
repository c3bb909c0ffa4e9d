// Repairs of thin stores on fakes: what is mended, what is refused, and what a kill leaves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/erase/thin_erasure.h"
#include "engine/model/store_metadata.h"
#include "engine/plan/actions.h"
#include "lvm/names.h"
#include "lvm/ownership.h"
#include "tests/unit/engine/thin_store_world.h"

namespace quarry::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Mode = dm::ThinPoolStatus::Mode;

class StoreRepairTest : public ThinStoreTest {
 protected:
  std::string PoolName() { return Now().stores.front().lv->name; }
  std::string MetadataUuid() { return Now().stores.front().metadata->uuid; }
  fakes::FakeRepair::Metadata& Metadata() { return repair_.Of(lvm::DmUuid(Group()->uuid, MetadataUuid())); }
  // The metadata say what LVM's text says.
  void StoreWhatLvmHas(bool sound) {
    const Catalog catalog = Now();
    fakes::FakeRepair::Metadata& metadata = Metadata();
    metadata = {.sound = sound};
    metadata.stored.transaction_id = catalog.stores.front().lv->segments.front().thin_pool->transaction_id;
    for (const lvm::LogicalVolume& lv : catalog.group->lvs) {
      if (lv.pool == catalog.stores.front().lv->name) {
        const lvm::ThinVolume& thin = *lv.segments.front().thin_volume;
        metadata.stored.devices[thin.device_id] = {.transaction_id = thin.transaction_id, .mapped = kChunk};
      }
    }
  }
  // As after a reboot at which LVM did not start it.
  void StopPool() {
    const lvm::Snapshot group = Group();
    for (const lvm::LogicalVolume& lv : group->lvs) {
      if (lv.pool == PoolName()) {
        ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lv.name}, Soon()).has_value());
      }
    }
    ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", PoolName()}, Soon()).has_value());
    ASSERT_FALSE((*dm_.ThinPool(PoolUuid())).has_value());
  }
  Result<StoreRepairAnswer> Ask(bool dry_run = false) {
    return engine_->upkeep().RepairStore({.store = "fast", .dry_run = dry_run}, Soon());
  }
  bool IsRunning() { return (*dm_.ThinPool(PoolUuid())).has_value(); }
  void FallSick() {
    dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) { status.needs_check = true; });
  }
  Status Exchange(const std::string& with) {
    return lvm_.Apply(lvm::SwapPoolMetadata{"vg0", PoolName(), with}, Soon());
  }
  // Nothing was changed, and a message says why.
  void ExpectRefused(Code code, const std::string& words) {
    const std::string before = MetadataUuid();
    const size_t volumes = LvCount();
    const auto refused = Ask();
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), code) << refused.error().message();
    EXPECT_THAT(refused.error().message(), HasSubstr(words));
    EXPECT_EQ(MetadataUuid(), before);
    EXPECT_THAT(KeptNames(), IsEmpty());
    EXPECT_EQ(LvCount(), volumes);
  }
  std::vector<std::string> KeptNames() {
    std::vector<std::string> out;
    const lvm::Snapshot group = Group();
    for (const lvm::LogicalVolume& lv : group->lvs) {
      if (!lv.hidden && lv.name.starts_with("meta")) {
        out.push_back(lv.name);
      }
    }
    return out;
  }
  std::vector<std::string> ReasonsOf(const std::string& id) {
    const auto volume = engine_->volumes().Get(id, Soon(), Show::kHealth);
    std::vector<std::string> out;
    for (const Ailment& ailment : volume->health->ailments) {
      out.push_back(ailment.reason);
    }
    return out;
  }
};

TEST_F(StoreRepairTest, DamagedMetadataAreReplacedAndKept) {
  const std::string id = Make("one", 10);
  StopPool();
  StoreWhatLvmHas(false);
  const std::string before = MetadataUuid();
  const auto extents = lvm::PhysicalExtents(*Group(), *Group()->FindLv(PoolName() + "_tmeta"));
  const auto planned = Ask(true);
  ASSERT_TRUE(planned.has_value()) << planned.error().message();
  const auto done = Ask();
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_THAT(done->found, HasSubstr("metadata are damaged: thin_check: bad checksum"));
  std::vector<std::string> foretold = {
      "check its metadata", fmt::format("start thin store vg0/{} (if they are sound)", PoolName())};
  for (const std::string& step : done->steps) {
    foretold.push_back(step + " (if they are not, and that provably loses nothing)");
  }
  EXPECT_EQ(planned->steps, foretold) << "what it said is what it did";
  EXPECT_EQ(done->kept, "vg0/meta0_" + PoolName());
  EXPECT_NE(MetadataUuid(), before);
  const lvm::Snapshot group = Group();
  const lvm::LogicalVolume& kept = *group->FindLv("meta0_" + PoolName());
  EXPECT_EQ(kept.uuid, before);
  EXPECT_EQ(lvm::PhysicalExtents(*group, kept), extents) << "not a byte of them was moved or erased";
  EXPECT_THAT(lvm::TagsOfOurs(kept.tags), IsEmpty()) << "no start takes it for something half made";
  EXPECT_FALSE(repair_.Of(lvm::DmUuid(Group()->uuid, before)).sound) << "it was only read";
  EXPECT_TRUE(IsRunning()) << "it is started";
  EXPECT_TRUE(Now().ById(id) != nullptr);
  Restart();
  EXPECT_EQ(KeptNames().size(), 1U);
  EXPECT_TRUE(Now().unreadable.empty());
  Make("two", 5);
  const auto again = Ask();
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_THAT(again->steps, IsEmpty());
}

TEST_F(StoreRepairTest, AKillAtAnyStepLosesNeitherOldNorNewMetadata) {
  Make("one", 10);
  for (const std::string verb :
       {"Create", "AllocateAnywhere", "Activate", "Deactivate", "ChangeTags", "SwapPoolMetadata"}) {
    for (fakes::Faults* const faults : {&lvm_.before, &lvm_.after}) {
      for (int nth = 1; nth <= (verb.ends_with("ctivate") ? 3 : verb == "ChangeTags" ? 3 : 1); ++nth) {
        SCOPED_TRACE(fmt::format("{} {} {}", verb, nth, faults == &lvm_.before ? "before" : "after"));
        StopPool();
        StoreWhatLvmHas(false);
        const std::string damaged = MetadataUuid();
        faults->FailNth(verb, nth, Error(Code::kTimeout, "killed"));
        lvm_.before.FailAlways("Remove", Error(Code::kTimeout, "killed"));
        (void)Ask();
        lvm_.before.Clear();
        lvm_.after.Clear();
        Restart();
        if (MetadataUuid() == damaged) {
          // Between the tags and the exchange nothing proves that the new metadata were never used.
          const bool tagged = verb == "SwapPoolMetadata" ||
                              (verb == "ChangeTags" && (nth == 2 || (nth == 1 && faults == &lvm_.after)));
          EXPECT_EQ(KeptNames().size(), tagged ? 1U : 0U);
          for (const std::string& name : KeptNames()) {
            ASSERT_TRUE(lvm_.Apply(lvm::RemoveLvs{"vg0", {name}}, Soon()).has_value());
          }
          StopPool();
          const auto again = Ask();
          ASSERT_TRUE(again.has_value()) << again.error().message();
        }
        ASSERT_EQ(KeptNames().size(), 1U);
        const lvm::Snapshot group = Group();
        const lvm::LogicalVolume& kept = *group->FindLv(KeptNames().front());
        EXPECT_EQ(kept.uuid, damaged);
        EXPECT_THAT(lvm::TagsOfOurs(kept.tags), IsEmpty());
        EXPECT_THAT(lvm::KeptTags(group->FindLv(PoolName())->tags), IsEmpty());
        EXPECT_TRUE(IsRunning());
        EXPECT_EQ(LvCount(), 3U) << "the store, its volume, and the former metadata";
        ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", kept.name}, Soon()).has_value());
        ASSERT_TRUE(lvm_.Apply(lvm::RemoveLvs{"vg0", {kept.name}}, Soon()).has_value());
      }
    }
  }
}

TEST_F(StoreRepairTest, MetadataThatCannotBeReadCompletelyAreNotReplaced) {
  Make("one", 10);
  StopPool();
  StoreWhatLvmHas(false);
  Metadata().complete = false;
  ExpectRefused(Code::kCorrupt, "cannot be read completely (metadata block 7: wrong checksum)");
  EXPECT_EQ(repair_.faults.Calls("Repair"), 0);
}

TEST_F(StoreRepairTest, MetadataThatCannotBeReadAgainAreNotReplaced) {
  Make("one", 10);
  StopPool();
  StoreWhatLvmHas(false);
  repair_.faults.FailAlways("Compare", Error(Code::kCorrupt, "metadata block 9: wrong checksum"));
  ExpectRefused(Code::kCorrupt, "metadata block 9");
}

TEST_F(StoreRepairTest, MetadataThatWouldLackAChunkAreNotUsed) {
  const std::string id = Make("one", 10);
  StopPool();
  StoreWhatLvmHas(false);
  const std::string device = fmt::format("vg0/{} (device 1)", lvm::ParseVolumeId(id)->lv_name);
  repair_.shortened = {1};
  ExpectRefused(Code::kCorrupt, device + " has other mappings");
  repair_.shortened = {};
  repair_.lost = {1};
  ExpectRefused(Code::kCorrupt, device + " is lost");
  repair_.lost = {};
  Metadata().stored.devices.erase(1);
  ExpectRefused(Code::kCorrupt, device + " is not in them");
}

TEST_F(StoreRepairTest, ADeviceThatOnlyTheMetadataHaveIsNotLostEither) {
  Make("one", 10);
  StopPool();
  StoreWhatLvmHas(false);
  Metadata().stored.devices[7] = {.transaction_id = 0, .mapped = kChunk};
  repair_.lost = {7};
  ExpectRefused(Code::kCorrupt, "device 7 is lost");
}

TEST_F(StoreRepairTest, ATransactionIdIsSetOnlyIfAllDevicesAreTheSame) {
  Make("one", 10);
  StopPool();
  StoreWhatLvmHas(true);
  const uint64_t id = Metadata().stored.transaction_id;
  Metadata().stored.transaction_id = id + 4;
  Metadata().stored.devices[7] = {.transaction_id = 3, .mapped = kChunk};
  ExpectRefused(Code::kPrecondition, "device 7 of the metadata, with 128 KiB, is not in LVM's text");
  Metadata().stored.devices.erase(7);
  Metadata().stored.devices[1].transaction_id += 1;
  ExpectRefused(Code::kPrecondition, "was made at transaction");  // it may be another volume with the same id
  Metadata().stored.devices[1].transaction_id -= 1;
  const auto done = Ask();
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_THAT(done->found, HasSubstr(fmt::format("transaction id {} and not {}", id + 4, id)));
  EXPECT_EQ(Metadata().stored.transaction_id, id);
  EXPECT_EQ(KeptNames().size(), 1U);
}

// The text may be older than a move of its data, and linear data have no superblocks that would tell.
TEST_F(StoreRepairTest, ATransactionIdIsNotSetWhereNothingTellsWhereTheDataLie) {
  Make("one", 10);
  StoreWhatLvmHas(true);
  thin::StoredPool stored = Metadata().stored;
  stored.transaction_id += 4;
  lvm::VolumeGroup group = *Group();
  const auto judge = [&] { return JudgeMetadata(group, *group.FindLv(PoolName()), Ok(), stored, true); };
  EXPECT_EQ(judge().value(), MetadataVerdict::kRenumber);
  const std::string data = Now().stores.front().data->name;
  std::ranges::find(group.lvs, data, &lvm::LogicalVolume::name)->segment_type = "linear";
  const auto refused = judge();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("not on RAID"));
}

TEST_F(StoreRepairTest, VolumesThatWereActiveAreSoAfterWhicheverAttemptSucceeds) {
  const std::string id = Make("one", 10);
  Activate(id);
  FallSick();
  StoreWhatLvmHas(true);
  const std::string uuid = lvm::DmUuid(Group()->uuid, Group()->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
  repair_.faults.FailNth("Check", 1, Error(Code::kUnavailable, "killed"));
  ASSERT_FALSE(Ask().has_value());
  ASSERT_FALSE((*dm_.Find(uuid)).has_value());
  const auto done = Ask();
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_TRUE((*dm_.Find(uuid)).has_value());
}

TEST_F(StoreRepairTest, OlderMetadataNeverGetALaterTransactionId) {
  Make("one", 10);
  for (const bool sound : {true, false}) {
    EditPools([](lvm::ThinPool& pool) { pool.transaction_id += 5; });
    StopPool();
    StoreWhatLvmHas(sound);
    Metadata().stored.transaction_id -= 2;
    ExpectRefused(Code::kPrecondition, "The metadata are older than LVM's text");
    Metadata().stored.transaction_id += 1;  // LVM would send its queued message, but refuses
    if (sound) {
      // After the activation of the metadata alone.
      lvm_.before.FailNth("Activate", 2, Error(Code::kCorrupt, "transaction_id is 6, while expected 7."));
      ExpectRefused(Code::kPrecondition, "The metadata are older than LVM's text");
    }
    lvm_.before.Clear();
    Restart();
  }
}

TEST_F(StoreRepairTest, MetadataThatAnAdministratorExchangesBackAreNeverRemoved) {
  Make("one", 10);
  for (const bool killed : {false, true}) {
    SCOPED_TRACE(killed);
    StopPool();
    StoreWhatLvmHas(false);
    const std::string former = MetadataUuid();
    if (killed) {
      lvm_.after.FailNth("SwapPoolMetadata", 1, Error(Code::kTimeout, "killed"));
      lvm_.before.FailNth("ChangeTags", 3, Error(Code::kTimeout, "killed"));
      lvm_.before.FailNth("ChangeTags", 4, Error(Code::kTimeout, "killed"));
    }
    (void)Ask();
    lvm_.before.Clear();
    ASSERT_EQ(KeptNames().size(), 1U);
    const std::string newer = MetadataUuid();
    ASSERT_NE(newer, former);
    if (IsRunning()) {
      StopPool();
    }
    const std::string name = KeptNames().front();
    ASSERT_TRUE(Exchange(name).has_value());
    ASSERT_EQ(MetadataUuid(), former);
    Restart();
    ASSERT_EQ(KeptNames(), std::vector{name}) << "they may have been written to";
    EXPECT_EQ(Group()->FindLv(name)->uuid, newer);
    EXPECT_THAT(lvm::KeptTags(Group()->FindLv(PoolName())->tags), IsEmpty());
    ASSERT_TRUE(lvm_.Apply(lvm::RemoveLvs{"vg0", {name}}, Soon()).has_value());
  }
}

TEST_F(StoreRepairTest, LegsThatAKilledLvmLeftAreRemoved) {
  Make("one", 10);
  const std::string name = lvm::KeptMetadataName(PoolName(), 0);
  const std::string tag = lvm::ReplacesTag(MetadataUuid());
  const auto add = [&](const std::string& lv_name, uint64_t extent, std::vector<std::string> tags) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      lvm::LogicalVolume lv{.name = lv_name,
                            .uuid = "uuid-" + lv_name,
                            .size = kExtent,
                            .segment_type = "linear",
                            .tags = std::move(tags)};
      lvm::Segment segment{.type = "linear", .logical = {{0}, {1}}};
      segment.areas = {{group.pvs.front().uuid, "", {Extents{extent}, {1}}}};
      lv.segments.push_back(std::move(segment));
      group.lvs.push_back(std::move(lv));
    });
  };
  add(name + "_rmeta_0", 99, {tag});
  Restart();
  EXPECT_EQ(Group()->FindLv(name + "_rmeta_0"), nullptr);
  add(name + "_rmeta_1", 98, {});
  add(name + "x_rmeta_0", 97, {tag});
  Restart();
  EXPECT_NE(Group()->FindLv(name + "_rmeta_1"), nullptr) << "an administrator's";
  EXPECT_NE(Group()->FindLv(name + "x_rmeta_0"), nullptr) << "of another volume";
}

TEST_F(StoreRepairTest, AVolumeInUseStopsARepairAndIsNamed) {
  const std::string id = Make("one", 10);
  Activate(id);
  const auto fd = dm_.Open(DmUuidOf(id), O_RDONLY);
  ASSERT_TRUE(fd.has_value());
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) { status.needs_check = true; });
  const auto refused = Ask();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("volume " + id));
  const auto round = engine_->upkeep().Repair(RepairCause::kDisks, Soon());
  ASSERT_TRUE(round.has_value());
  ASSERT_FALSE(round->obstacles.empty());
  EXPECT_THAT(round->obstacles.front(), HasSubstr("unmount or unpublish volume " + id));
  EXPECT_TRUE((*dm_.ThinPool(PoolUuid())).has_value()) << "what can be read is worth more";
}

TEST_F(StoreRepairTest, ADryRunRunsNoCommandOfLvm) {
  const std::string id = Make("one", 10);
  Activate(id);
  const auto expect_quiet = [&](const std::string& said) {
    std::vector<std::string> calls;
    lvm_.SetOnCall([&](const std::string& name) {
      if (name != "Read" && name != "Fingerprint" && name != "Version") {
        calls.push_back(name);
      }
    });
    const uint64_t before = Group()->seqno;
    const auto planned = Ask(true);
    lvm_.SetOnCall(nullptr);
    ASSERT_TRUE(planned.has_value()) << planned.error().message();
    EXPECT_THAT(calls, IsEmpty());
    EXPECT_EQ(Group()->seqno, before);
    EXPECT_THAT(planned->found, HasSubstr(said));
    EXPECT_THAT(planned->steps, ::testing::Contains("check its metadata"));
  };
  FallSick();
  expect_quiet("needs a check");
  StopPool();
  StoreWhatLvmHas(false);
  lvm_.before.FailAlways("Activate", Error(Code::kCorrupt, "Manual repair required!"));
  Restart();
  lvm_.before.Clear();
  expect_quiet("Manual repair required!");
  EXPECT_EQ(repair_.faults.Calls("Look") + repair_.faults.Calls("Check"), 0);
}

TEST_F(StoreRepairTest, AStartThatFailsAfterTheExchangeNamesTheFormerMetadata) {
  Make("one", 10);
  StopPool();
  StoreWhatLvmHas(false);
  const std::string former = MetadataUuid();
  lvm_.before.FailNth("Activate", 3, Error(Code::kIo, "no luck"));
  const auto failed = Ask();
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().message(), HasSubstr("were exchanged"));
  EXPECT_THAT(failed.error().message(), HasSubstr("kept as vg0/meta0_" + PoolName()));
  EXPECT_THAT(failed.error().message(), HasSubstr("no luck"));
  EXPECT_NE(MetadataUuid(), former);
  EXPECT_EQ(KeptNames().size(), 1U);
}

TEST_F(StoreRepairTest, NothingIsStoppedThatWouldNotStartAgain) {
  Make("one", 10);
  FallSick();
  const auto expect_kept = [&](const std::string& words) {
    const auto refused = Ask();
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().message(), HasSubstr(words));
    EXPECT_TRUE(IsRunning());
  };
  repair_.faults.FailAlways("Ready", Error(Code::kPrecondition, "thin_check is not installed"));
  expect_kept("thin_check is not installed");
  repair_.faults.Clear();
  EditPools([](lvm::ThinPool& pool) { pool.zeroes_chunks = false; });
  expect_kept("does not zero new chunks");
  (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_TRUE(IsRunning());
}

TEST_F(StoreRepairTest, AStoreOnWhichACommandWorksIsNotStopped) {
  Make("one", 10);
  const lvm::Snapshot before = Group();
  const lvm::LogicalVolume& pool = *before->FindLv(PoolName());
  EXPECT_FALSE(Execute({StopStoreAction{"vg0", pool.name, before->seqno - 1}}, World(), Soon()).has_value());
  EXPECT_TRUE(IsRunning()) << "the group was changed after the plan was made";
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {  // a pvmove of a leg of its data
    for (lvm::LogicalVolume& lv : group.lvs) {
      if (lv.name == pool.name + "_tdata_rimage_0") {
        const lvm::Segment below = lv.segments.front();
        lv.segments.front().areas = {{"", "pvmove0", {{0}, below.logical.count}}};
        lvm::LogicalVolume move{.name = "pvmove0", .uuid = "move", .hidden = true, .size = lv.size};
        move.segments = {below};
        group.lvs.push_back(std::move(move));
        return;
      }
    }
  });
  const lvm::Snapshot moving = Group();
  const Status stopped = Execute({StopStoreAction{"vg0", pool.name, moving->seqno}}, World(), Soon());
  ASSERT_FALSE(stopped.has_value());
  EXPECT_THAT(stopped.error().message(), HasSubstr("pvmove"));
  EXPECT_TRUE(IsRunning());
}

TEST_F(StoreRepairTest, AStoreIsRestartedOnceInARoundAtMost) {
  Make("one", 10);
  const std::string uuid = PoolUuid();
  FallSick();
  lvm_.SetOnCall([&](const std::string& name) {
    if (name == "Read" && (*dm_.ThinPool(uuid)).has_value()) {
      dm_.ChangeThinPool(uuid, [](dm::ThinPoolStatus& status) { status.needs_check = true; });
    }
  });
  const auto round = engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  lvm_.SetOnCall(nullptr);
  ASSERT_TRUE(round.has_value());
  EXPECT_EQ(std::ranges::count(round->done, "stop thin store vg0/" + PoolName()), 1);
}

TEST_F(StoreRepairTest, AReasonIsNotForgottenForAnAttemptThatFoundNothingOut) {
  const std::string id = Make("one", 10);
  StopPool();
  lvm_.before.FailAlways("Activate", Error(Code::kCorrupt, "Manual repair required!"));
  Restart();
  lvm_.before.Clear();
  for (const Code code : {Code::kTimeout, Code::kUnavailable, Code::kCancelled}) {
    lvm_.before.FailAlways("Activate", Error(code, "LVM is busy"));
    (void)engine_->upkeep().Repair(RepairCause::kAsked, Soon());
    EXPECT_THAT(ReasonsOf(id), ::testing::Contains("StoreDamaged")) << CodeName(code);
    lvm_.before.Clear();
  }
  ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kAsked, Soon()).has_value());
  EXPECT_THAT(ReasonsOf(id), IsEmpty());
}

TEST_F(StoreRepairTest, WhatQuarrydItselfKeepsOpenIsNoUse) {
  const std::string id = Make("one", 10);
  Activate(id);
  const auto published = engine_->volumes().Publish(
      {id, Path("/stage/" + id), Path("/pods/one"), {.access = AccessType::kBlock}}, Soon());
  ASSERT_TRUE(published.has_value()) << published.error().message();
  FallSick();
  auto round = engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_THAT(round->done, IsEmpty()) << "it is published";
  ASSERT_TRUE(mount_.Unmount(Path("/pods/one"), Soon()).has_value());  // behind quarryd's back
  round = engine_->upkeep().Repair(RepairCause::kAsked, Soon());
  EXPECT_THAT(round->done, ::testing::Contains("stop thin store vg0/" + PoolName()));
  EXPECT_TRUE((*dm_.Find(DmUuidOf(id))).has_value()) << "it is staged, and published without another stage";
  // The eraser lets go of what it holds.
  const Catalog catalog = Now();
  ThinErasure work;
  work.held = *dm_.Open(DmUuidOf(id), O_RDONLY);
  FallSick();
  EXPECT_FALSE(BeginThinErasure(*catalog.ById(id), work, World(), Soon()).has_value());
  EXPECT_FALSE(work.held.valid());
}

TEST_F(StoreRepairTest, AStoreThatNobodyUsesIsStoppedAndStarted) {
  const std::string id = Make("one", 10);
  Activate(id);
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) {
    status.mode = Mode::kReadOnly;
    status.needs_check = true;
  });
  const int before = lvm_.before.Calls("Deactivate");
  const auto round = engine_->upkeep().Repair(RepairCause::kDisks, Soon());
  ASSERT_TRUE(round.has_value());
  EXPECT_THAT(round->done, ::testing::Contains("stop thin store vg0/" + PoolName()));
  EXPECT_THAT(round->done, ::testing::Contains("start thin store vg0/" + PoolName()));
  EXPECT_GT(lvm_.before.Calls("Deactivate"), before);
  EXPECT_TRUE((*dm_.ThinPool(PoolUuid())).has_value());
}

TEST_F(StoreRepairTest, EachTroubleOfAStoreHasItsOwnReason) {
  const std::string id = Make("one", 10);
  const auto with = [&](Mode mode, bool needs_check) {
    dm_.ChangeThinPool(PoolUuid(), [&](dm::ThinPoolStatus& status) {
      status.mode = mode;
      status.needs_check = needs_check;
    });
    return ReasonsOf(id);
  };
  EXPECT_THAT(with(Mode::kReadOnly, true), ::testing::ElementsAre("StoreNeedsCheck"));
  EXPECT_THAT(with(Mode::kReadOnly, false), ::testing::ElementsAre("StoreReadOnly"));
  EXPECT_THAT(with(Mode::kFailed, false), ::testing::ElementsAre("StoreFailed"));
  EXPECT_THAT(with(Mode::kOutOfDataSpace, false), ::testing::ElementsAre("StoreFull"));
  EXPECT_THAT(with(Mode::kReadWrite, false), IsEmpty());
  for (const auto& [words, reason, mode] :
       std::initializer_list<std::tuple<std::string, std::string, StoreMode>>{
           {"Check of pool vg0/q failed (status:1). Manual repair required!", "StoreDamaged",
            StoreMode::kDamaged},
           {"Thin pool vg0-q-tpool (253:4) transaction_id is 9, while expected 5.", "StoreMismatch",
            StoreMode::kMismatch},
           {"something else", "StoreNotStarted", StoreMode::kNotStarted}}) {
    StopPool();
    lvm_.before.FailAlways("Activate", Error(Code::kCorrupt, words));
    Restart();
    EXPECT_THAT(ReasonsOf(id), ::testing::Contains(reason));
    const StoreStatus status = engine_->lifecycle().NodeStatus(Soon())->front().stores.front();
    EXPECT_EQ(status.mode, mode);
    EXPECT_THAT(status.problem, HasSubstr(words));
    lvm_.before.Clear();
    ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kAsked, Soon()).has_value());
    EXPECT_THAT(ReasonsOf(id), IsEmpty()) << "it is started, and the trouble is over";
  }
}

}  // namespace
}  // namespace quarry::engine
