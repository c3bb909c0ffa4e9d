// Thin stores on fakes: made from the configuration, filled to the last byte that was promised, and erased.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "engine/model/thin_space.h"
#include "engine/plan/actions.h"
#include "engine/plan/start_store.h"
#include "lvm/names.h"
#include "lvm/ownership.h"
#include "tests/unit/engine/thin_store_world.h"

namespace quarry::engine {
namespace {

// lvm2 2.03.31 leaves tags in other places, and goes by other policies.
class ThinStoreOnTrixieTest : public ThinStoreTest {
 protected:
  ThinStoreOnTrixieTest() : ThinStoreTest("2.03.31") {}
};

void ExpectWhole(const Catalog& catalog) {
  ASSERT_EQ(catalog.stores.size(), 1U);
  const Store& store = catalog.stores.front();
  EXPECT_EQ(store.name(), "fast");
  EXPECT_EQ(store.data->size, Bytes{40 * kExtent.value});
  EXPECT_EQ(store.chunk(), kChunk);
  EXPECT_EQ(store.data->segment_type, "raid1");
  EXPECT_EQ(store.metadata->segment_type, "raid1") << "as safe as the data";
  EXPECT_TRUE(lvm::IsSoundStore(*catalog.group, *store.lv).has_value());
  EXPECT_TRUE(catalog.unreadable.empty());
  EXPECT_TRUE(catalog.records.empty());
  EXPECT_EQ(catalog.parts.size(), 2U);
}

TEST_F(ThinStoreTest, IsMadeOnceAndStarted) {
  ExpectWhole(Now());
  EXPECT_TRUE((*dm_.ThinPool(PoolUuid())).has_value());
  const uint64_t seqno = Group()->seqno;
  Restart();
  EXPECT_EQ(Group()->seqno, seqno) << "nothing is left to do";
}

TEST_F(ThinStoreOnTrixieTest, IsMadeOnceAndStarted) {
  ExpectWhole(Now());
  const uint64_t seqno = Group()->seqno;
  Restart();
  EXPECT_EQ(Group()->seqno, seqno);
}

TEST_F(ThinStoreTest, CapacityIsExactToTheLastExtent) {
  EXPECT_EQ(Left(), 40U);
  Make("one", 30);
  EXPECT_EQ(Left(), 10U);
  const auto large = Create("two", 11);
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code(), Code::kNoSpace) << large.error().message();
  Make("two", 10);
  EXPECT_EQ(Left(), 0U);
  EXPECT_NE(Capacity().reason.find("its volumes have all of it"), std::string::npos) << Capacity().reason;
  EXPECT_EQ(Create("three", 1).error().code(), Code::kNoSpace);
  EXPECT_EQ(LvCount(), 3U) << "the store and two volumes";
}

TEST_F(ThinStoreTest, ARepeatedCreateFindsItsVolume) {
  const std::string id = Make("one", 10);
  const auto again = Create("one", 10);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->volume.id, id);
  EXPECT_TRUE(Create("one", 10, {{"store", "fast"}}).has_value());
  EXPECT_EQ(Create("one", 20).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(Create("one", 10, {{"erase", "none"}}).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(again->volume.context.at("type"), "thin");
}

TEST_F(ThinStoreTest, BadParametersAreNamed) {
  for (const auto& [parameters, word] : std::initializer_list<std::pair<Parameters, std::string>>{
           {{{"mirrors", "1"}}, "'mirrors'"},
           {{{"stripes", "2"}}, "'stripes'"},
           {{{"sync", "skip"}}, "'sync'"},
           {{{"store", "slow"}}, "'store'"},
           {{{"store", "a/b"}}, "'store'"},
           {{{"type", "linear"}, {"store", "fast"}}, "'store'"}}) {
    const auto refused = Create("one", 1, parameters);
    ASSERT_FALSE(refused.has_value()) << word;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument) << refused.error().message();
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message();
  }
  EXPECT_EQ(Create("one", 1, {{"store", "slow"}}, true).error().code(), Code::kNoSpace)
      << "another node may have it";
}

TEST_F(ThinStoreTest, OfSeveralStoresOneMustBeNamed) {
  stores_ = {Store("fast", 40), Store("wide", 20, lvm::VolumeType::kStriped)};
  Restart();
  const auto refused = Create("one", 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("name one of fast, wide"), std::string::npos)
      << refused.error().message();
  ASSERT_TRUE(Create("one", 20, {{"store", "wide"}}).has_value());
  EXPECT_EQ(Capacity({{"store", "wide"}}).available, Bytes{});
  EXPECT_EQ(Capacity({{"store", "fast"}}).available, Bytes{40 * kExtent.value});
}

TEST_F(ThinStoreTest, DeletionErasesEveryChunkAndReturnsTheSpace) {
  const std::string id = Make("one", 20);
  const std::string other = Make("two", 20);
  Activate(id);
  Activate(other);
  Write(id, std::string(3 * kChunk.value, 'x'), 5 * kChunk.value);
  Write(id, "tail", 20 * kExtent.value - 4);
  Write(other, "kept", 0);
  EXPECT_EQ(ChunksUsed(), 5U);
  const auto deleted = engine_->volumes().Delete(id, Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_TRUE(UntilLvs(2)) << "the store and the other volume";
  EXPECT_EQ(ChunksUsed(), 1U);
  EXPECT_GE(erase_.faults.Calls("ZeroAndFree"), 2) << "zeroed before the pool could give it away";
  EXPECT_EQ(Left(), 20U);
  const auto fd = dm_.Open(DmUuidOf(other), O_RDONLY);
  char kept[4] = {};
  ASSERT_EQ(pread(fd->get(), kept, 4, 0), 4);
  EXPECT_EQ(std::string(kept, 4), "kept");
}

TEST_F(ThinStoreTest, AVolumeThatIsBeingErasedKeepsItsSpace) {
  const std::string id = Make("one", 40);
  Activate(id);
  Write(id, "x", 0);
  erase_.faults.FailAlways("ZeroAndFree", Error(Code::kIo, "the disk is unwell"));
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  EXPECT_EQ(Left(), 0U);
  const auto early = Create("two", 40);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), Code::kUnavailable) << "there will be space: " << early.error().message();
  EXPECT_EQ(Create("two", 40, {}, true).error().code(), Code::kNoSpace);
  erase_.faults.Clear();
  Restart();
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_EQ(ChunksUsed(), 0U);
  Make("two", 40);
}

TEST_F(ThinStoreTest, WithoutErasingItIsRemovedAtOnce) {
  const auto made = Create("one", 10, {{"erase", "none"}});
  ASSERT_TRUE(made.has_value());
  ASSERT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
  EXPECT_EQ(LvCount(), 1U);
}

TEST_F(ThinStoreTest, GrowthIsBoundByTheStore) {
  const std::string id = Make("one", 10);
  Make("two", 20);
  const auto grow = [&](uint64_t extents) {
    return engine_->volumes().Expand(id, {Bytes{extents * kExtent.value}, Bytes{}}, std::nullopt, Soon());
  };
  EXPECT_EQ(grow(21).error().code(), Code::kNoSpace);
  const auto grown = grow(20);
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  EXPECT_EQ(grown->size, Bytes{20 * kExtent.value});
  EXPECT_TRUE(grow(20).has_value());
  EXPECT_EQ(Left(), 0U);
  EXPECT_EQ(Now().ById(id)->tags.size, Bytes{20 * kExtent.value});
}

TEST_F(ThinStoreTest, AnUnknownDeviceInThePoolIsGivenToNobody) {
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateThin{1}).has_value());
  const auto refused = Create("one", 10);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition) << refused.error().message();
  EXPECT_NE(refused.error().message().find("a device with the id 1"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(LvCount(), 1U) << "LVM was not run";
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::DeleteThin{1}).has_value()) << "the remedy";
  Make("one", 10);
}

// LVM was killed between the commit of a removal and its message to the pool.
TEST_F(ThinStoreTest, NoGrowthCountsWithChunksThatTheKernelHasNotGivenBack) {
  const std::string id = Make("one", 20);
  const auto made = Create("two", 20, {{"erase", "none"}});
  ASSERT_TRUE(made.has_value());
  ASSERT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
  const auto queue = [&](std::vector<uint32_t> ids, uint64_t behind) {
    EditPools([&](lvm::ThinPool& pool) { pool.queued_deletes = ids; });
    const Catalog catalog = Now();
    const uint64_t in_text = catalog.stores.front().lv->segments.front().thin_pool->transaction_id;
    dm_.ChangeThinPool(PoolUuid(),
                       [&](dm::ThinPoolStatus& status) { status.transaction_id = in_text - behind; });
  };
  const auto grow = [&](uint64_t extents) {
    return engine_->volumes().Expand(id, {Bytes{extents * kExtent.value}, Bytes{}}, std::nullopt, Soon());
  };
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateThin{2}).has_value());
  const auto make_new = [&](uint64_t transaction_id) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::LogicalVolume& lv : group.lvs) {
        if (lv.segments.front().thin_volume.has_value()) {
          lv.segments.front().thin_volume->transaction_id = transaction_id;
        }
      }
    });
  };
  const uint64_t was_made = Now().ById(id)->lv->segments.front().thin_volume->transaction_id;
  make_new(Now().stores.front().lv->segments.front().thin_pool->transaction_id - 1);
  queue({2}, 1);
  EXPECT_EQ(grow(30).error().code(), Code::kUnavailable) << "2 may be what a new snapshot is to be made of";
  make_new(was_made);
  queue({}, 1);
  EXPECT_EQ(grow(30).error().code(), Code::kUnavailable) << "the text could not be read";
  queue({1}, 1);
  EXPECT_EQ(grow(30).error().code(), Code::kUnavailable) << "device 1 has a volume";
  queue({2}, 2);
  EXPECT_EQ(grow(30).error().code(), Code::kPrecondition);
  EXPECT_EQ(Now().ById(id)->lv->size, Bytes{20 * kExtent.value});
  queue({2}, 1);
  const auto grown = grow(30);
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  EXPECT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateThin{2}).has_value()) << "it was gone";

  // Sent, and only left over in the text.
  queue({2}, 0);
  EXPECT_TRUE(grow(31).has_value());
  EXPECT_TRUE(dm_.SendToPool(PoolUuid(), dm::DeleteThin{2}).has_value()) << "it was there";
  queue({2}, 1);
  EXPECT_TRUE(grow(32).has_value()) << "the kernel had deleted it, and LVM did not see that";
}

// A message of a killed command is left in LVM's text, and LVM sends none for the next removal.
TEST_F(ThinStoreTest, ARemovalGivesBackItsDeviceWhateverLvmSends) {
  const std::string erased = Make("one", 10);
  const auto other = Create("two", 10, {{"erase", "none"}});
  ASSERT_TRUE(other.has_value());
  LeaveMessage();
  ASSERT_TRUE(engine_->volumes().Delete(other->volume.id, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(2));
  EXPECT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateThin{2}).has_value()) << "it was gone";
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::DeleteThin{2}).has_value());
  LeaveMessage();
  ASSERT_TRUE(engine_->volumes().Delete(erased, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateThin{1}).has_value()) << "it was gone";
}

// Such a removal has two steps, and the second fails. No ready volume is ever without its device.
TEST_F(ThinStoreTest, WhatHasLostItsDeviceIsRemoved) {
  for (const char* const erase : {"zero", "none"}) {
    const auto made = Create("one", 10, {{"erase", erase}});
    ASSERT_TRUE(made.has_value());
    LeaveMessage();
    lvm_.before.FailAlways("Remove", Error(Code::kIo, "LVM failed"));
    EXPECT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
    EXPECT_TRUE(Eventually([&] {
      const bool was_gone = dm_.SendToPool(PoolUuid(), dm::CreateThin{1}).has_value();
      return was_gone && dm_.SendToPool(PoolUuid(), dm::DeleteThin{1}).has_value();
    }));
    EXPECT_EQ(LvCount(), 2U);
    EXPECT_EQ(engine_->volumes().Get(made->volume.id, Soon()).error().code(), Code::kNotFound);
    lvm_.before.Clear();
    Restart();
    EXPECT_TRUE(UntilLvs(1));
  }
}

TEST_F(ThinStoreTest, ADeviceIsNotDeletedOfAReadyVolumeNorByATextOfAnotherTime) {
  const auto made = Create("one", 10, {{"erase", "none"}});
  ASSERT_TRUE(made.has_value());
  const std::string lv = lvm::ParseVolumeId(made->volume.id)->lv_name;
  const auto remove = [&] { return Execute({RemoveLvAction{"vg0", {lv}}}, World(), Soon()); };
  const auto has_device = [&] {
    const Status made_now = dm_.SendToPool(PoolUuid(), dm::CreateThin{1});
    return !made_now.has_value();
  };
  LeaveMessage();
  EXPECT_EQ(remove().error().code(), Code::kUnavailable);
  EXPECT_TRUE(has_device());
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    const auto one = std::ranges::find(group.lvs, lv, &lvm::LogicalVolume::name);
    std::ranges::replace(one->tags, lvm::StateTag(lvm::VolumeState::kReady),
                         lvm::StateTag(lvm::VolumeState::kErasing));
  });
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) { status.transaction_id += 5; });
  const Status refused = remove();
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("not that of the store"), std::string::npos)
      << refused.error().message();
  EXPECT_TRUE(has_device());
  dm_.ChangeThinPool(PoolUuid(), [](dm::ThinPoolStatus& status) { status.transaction_id -= 5; });
  EXPECT_TRUE(remove().has_value());
  EXPECT_FALSE(has_device());
}

TEST_F(ThinStoreTest, AVolumeWhoseLastCommitWasMadeIsKept) {
  Make("one", 5);
  LeaveMessage();
  lvm_.after.FailNth("ChangeTags", 1, Error(Code::kTimeout, "it is not known to be durable"));
  lvm_.before.FailAlways("Remove", Error(Code::kTimeout, "LVM failed"));
  const auto made = Create("two", 5, {}, true);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kUnavailable) << "so that the caller repeats it";
  lvm_.before.Clear();
  const auto again = Create("two", 5, {}, true);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_FALSE(again->created);
  Activate(again->volume.id);
  Write(again->volume.id, "it has its device", 0);
}

TEST_F(ThinStoreTest, ASnapshotThatLvmCannotFinishIsTold) {
  stores_ = {Store("fast", 80)};  // room for what shared chunks take
  Restart();
  Make("one", 10);
  const auto other = Create("other", 1, {{"erase", "none"}});
  ASSERT_TRUE(other.has_value());
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    const auto origin =
        std::ranges::find_if(group.lvs, [](const lvm::LogicalVolume& lv) { return !lv.pool.empty(); });
    lvm::LogicalVolume snapshot = *origin;
    snapshot.origin = origin->name;
    snapshot.name = "by_hand";
    snapshot.uuid[0] = snapshot.uuid[0] == 'x' ? 'y' : 'x';
    snapshot.tags.clear();
    snapshot.segments.front().thin_volume = lvm::ThinVolume{.device_id = 3, .transaction_id = 2};
    group.lvs.push_back(snapshot);
  });
  EditPools([](lvm::ThinPool& pool) { pool.transaction_id = 3; });
  const auto at = [&](uint64_t kernel_id) {
    dm_.ChangeThinPool(PoolUuid(), [&](dm::ThinPoolStatus& status) { status.transaction_id = kernel_id; });
  };
  at(2);
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateThin{3}).has_value());
  LeaveMessage();
  const std::string lv = lvm::ParseVolumeId(other->volume.id)->lv_name;
  const Status kept = Execute({RemoveLvAction{"vg0", {lv}}}, World(), Soon());
  ASSERT_FALSE(kept.has_value()) << "LVM would only forget it";
  EXPECT_EQ(kept.error().code(), Code::kPrecondition);
  EXPECT_NE(kept.error().message().find("\"delete 3\""), std::string::npos) << kept.error().message();
  EXPECT_EQ(LvCount(), 4U);
  const auto refused = Create("two", 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("dmsetup message vg0-"), std::string::npos)
      << refused.error().message();
  EXPECT_NE(refused.error().message().find("\"delete 3\""), std::string::npos) << refused.error().message();
  EXPECT_EQ(Capacity().available, Bytes{});
  EXPECT_NE(Capacity().reason.find("by_hand"), std::string::npos) << Capacity().reason;
  const StoreStatus status = engine_->lifecycle().NodeStatus(Soon())->front().stores.front();
  EXPECT_NE(status.problem.find("by_hand"), std::string::npos) << status.problem;
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::DeleteThin{3}).has_value()) << "the remedy";
  Make("two", 1);
  EXPECT_TRUE(Execute({RemoveLvAction{"vg0", {lv}}}, World(), Soon()).has_value());
  at(Now().stores.front().lv->segments.front().thin_pool->transaction_id);
  EXPECT_GT(Left(), 0U);
}

// Nothing keeps an administrator from `vgchange -s`.
TEST_F(ThinStoreTest, ExtentsThatAreNoWholeChunksGiveNothing) {
  Make("one", 1);
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) { group.extent_size = Bytes{kChunk.value / 2}; });
  EXPECT_EQ(Capacity().available, Bytes{});
  EXPECT_NE(Capacity().reason.find("needs multiples"), std::string::npos) << Capacity().reason;
  EXPECT_EQ(Create("two", 1).error().code(), Code::kNoSpace);
}

TEST_F(ThinStoreTest, AStoreThatTheKernelMadeReadOnlyIsTold) {
  const std::string id = Make("one", 10);
  dm_.ChangeThinPool(PoolUuid(),
                     [](dm::ThinPoolStatus& status) { status.mode = dm::ThinPoolStatus::Mode::kReadOnly; });
  EXPECT_EQ(Create("two", 1).error().code(), Code::kPrecondition);
  EXPECT_EQ(Capacity().available, Bytes{});
  const auto listed = engine_->volumes().Get(id, Soon(), Show::kHealth);
  ASSERT_TRUE(listed.has_value());
  ASSERT_TRUE(listed->health.has_value());
  ASSERT_FALSE(listed->health->ailments.empty());
  EXPECT_EQ(listed->health->ailments.front().reason, "StoreReadOnly");
}

TEST_F(ThinStoreTest, ItsLegsAreComparedOneAfterTheOther) {
  const Catalog catalog = Now();
  for (const Record& part : catalog.parts) {
    dm_.SetRaid(part.DmUuid(), dm::RaidStatus{"raid1", "AA", 100, 100, "idle"});
  }
  const std::string data = catalog.parts.front().tags.id;
  const std::string metadata = catalog.parts.back().tags.id;
  const auto asked = engine_->upkeep().Scrub({.ids = {catalog.stores.front().tags.id}}, Soon());
  ASSERT_TRUE(asked.has_value()) << asked.error().message();
  ASSERT_EQ(asked->size(), 2U);
  EXPECT_EQ(asked->front().name, "fast (data)");
  EXPECT_EQ(asked->back().name, "fast (metadata)");
  EXPECT_EQ(asked->front().refusal, "");
  const auto round = [&] { ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kEvent, Soon()).has_value()); };
  const auto action = [&](const Record& part) { return (*dm_.Raid(part.DmUuid()))->action; };
  const auto store = [&] { return engine_->lifecycle().NodeStatus(Soon())->front().stores.front(); };
  round();
  EXPECT_EQ(action(catalog.parts.front()), "check");
  EXPECT_EQ(action(catalog.parts.back()), "idle");
  EXPECT_TRUE(store().parts.back().scrub_pending);
  dm_.EndScrub(catalog.parts.front().DmUuid(), 16);
  round();
  EXPECT_EQ(action(catalog.parts.back()), "check");
  dm_.EndScrub(catalog.parts.back().DmUuid(), 0);
  round();
  Restart();
  const StoreStatus status = store();
  ASSERT_EQ(status.parts.size(), 2U);
  EXPECT_EQ(status.parts.front().id, data);
  EXPECT_EQ(status.parts.front().scrubbed->mismatched, Bytes{8192}) << "the tags of the pool have it";
  EXPECT_EQ(status.parts.back().id, metadata);
  EXPECT_EQ(status.parts.back().scrubbed->mismatched, Bytes{});
  EXPECT_FALSE(status.parts.back().scrub_pending);
  EXPECT_NE(status.detail.find("differ"), std::string::npos) << status.detail;
  EXPECT_TRUE(engine_->upkeep().Scrub({.ids = {metadata}, .repair = true}, Soon()).has_value());
  EXPECT_EQ(engine_->upkeep().Scrub({.ids = {"default.store.none"}}, Soon()).error().code(), Code::kNotFound);
}

// LVM suspends a store from the top, so its parts may run while the store waits.
TEST_F(ThinStoreTest, WhatAKilledLvmLeftSuspendedIsResumed) {
  Make("one", 5);
  for (const Record& part : Now().parts) {
    dm_.SetRaid(part.DmUuid(), dm::RaidStatus{"raid1", "AA", 100, 100, "idle"});
  }
  const std::string pool = lvm::DmUuidOfPool(PoolUuid());
  ASSERT_TRUE((*dm_.Find(pool)).has_value());
  const std::string above = lvm::DmUuidAbovePool(PoolUuid());
  dm_.AddDevice(above, "vg0-above", kExtent);
  // The tables that wait are gone before the resume. Legs run before LVM reads what is on them, and the part,
  // which is larger than LVM knows, does not.
  const std::string data = Now().parts.front().DmUuid();
  const std::vector<std::string> legs = Now().parts.front().DmUuids();
  for (const std::string& leg : legs) {
    dm_.AddDevice(leg, "vg0-leg-" + leg, kExtent);
  }
  std::vector<std::string> calls;
  const auto look = [&](const std::string& method) {
    if (method != "Read") {
      calls.push_back(
          method + ((*dm_.Find(pool))->waiting_table ? " with the table" : "") +
          ((*dm_.Find(data))->waiting_table ? " with the table of a part" : "") +
          ((*dm_.Find(data))->suspended || !(*dm_.Find(pool))->suspended ? "" : " below a part that runs") +
          ((*dm_.Find(legs.back()))->suspended ? " on a suspended leg" : ""));
    }
  };
  const auto leave = [&] {
    dm_.SetSuspended(pool, true);
    dm_.LoadTable(pool);
    dm_.LoadTable(above);
    dm_.LoadTable(data);
    EXPECT_TRUE(dm_.SetSize(data, Now().parts.front().lv->size + kExtent).has_value());
    dm_.SetSuspended(legs.back(), true);
    calls.clear();
    lvm_.SetOnCall(look);
  };
  const auto check = [&] {
    lvm_.SetOnCall({});
    EXPECT_GT(std::ranges::count(calls, "Activate"), 0);
    EXPECT_FALSE((*dm_.Find(pool))->suspended);
    EXPECT_FALSE((*dm_.Find(pool))->waiting_table);
    EXPECT_FALSE((*dm_.Find(above))->waiting_table);
  };
  leave();
  ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kDisks, Soon()).has_value());
  check();
  leave();
  Restart();
  check();
  const auto check_not_activated = [&](const char* why) {
    ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kDisks, Soon()).has_value());
    dm_.faults.Clear();
    lvm_.before.Clear();
    lvm_.SetOnCall({});
    EXPECT_EQ(std::ranges::count_if(calls, [](const auto& one) { return one.starts_with("Activate"); }), 0)
        << why;
  };
  leave();
  dm_.faults.FailAlways("DropWaitingTable", Error(Code::kUnavailable, "no"));
  ASSERT_NO_FATAL_FAILURE(check_not_activated("LVM would use the table that waits"));
  leave();
  lvm_.before.FailAlways("Hold", Error(Code::kUnavailable, "the headers prove nothing"));
  ASSERT_NO_FATAL_FAILURE(check_not_activated("LVM would wait for the leg"));
}

// Its data may be larger already in the kernel than LVM knows.
TEST_F(ThinStoreTest, AKilledGrowthLeavesTheTablesOfTheMetadata) {
  const std::string data = Now().parts.front().DmUuid();
  const Bytes size = Now().parts.front().lv->size;
  dm_.AddDevice(data, "vg0-data", size);
  int refreshed = 0;
  const auto set_size = [&](Bytes now) { EXPECT_TRUE(dm_.SetSize(data, now).has_value()); };
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Extend") {
      set_size(size + kExtent);
    } else if (method == "Refresh") {
      ++refreshed;
      set_size(size);
    }
  });
  lvm_.before.FailAlways("Extend", Error(Code::kUnavailable, "killed by signal 9"));
  stores_.front().size = {50 * kExtent.value};
  Restart();
  EXPECT_GT(refreshed, 0);
  refreshed = 0;
  lvm_.SetOnCall([&](const std::string& method) { refreshed += method == "Refresh" ? 1 : 0; });
  lvm_.before.Clear();
  lvm_.before.FailAlways("Extend", Error(Code::kNoSpace, "no"));
  Restart();
  EXPECT_EQ(refreshed, 0) << "nothing was loaded";
  lvm_.SetOnCall({});
  lvm_.before.Clear();
}

// An administrator's lvextend of the pool was killed: its tables wait, and the data is larger than LVM knows.
// A growth of a volume was committed, but the kernel has not its table.
TEST_F(ThinStoreTest, NoCommandUsesTheTablesOfAnAdministratorsKilledOne) {
  const std::string one = Make("one", 5);
  Activate(one);
  const std::string pool = lvm::DmUuidOfPool(PoolUuid());
  const std::string data = Now().parts.front().DmUuid();
  const Bytes size = Now().parts.front().lv->size;
  dm_.AddDevice(data, "vg0-data", size);
  std::vector<std::string> calls;
  const auto watch = [&](const std::string& method) {
    const bool is_larger = *dm_.SizeOf(data) > size;
    if (method == "Refresh") {
      EXPECT_TRUE(dm_.SetSize(data, size).has_value());
    }
    if (method != "Read" && method != "Hold") {
      calls.push_back(method + ((*dm_.Find(pool))->waiting_table ? ", waiting" : "") +
                      (is_larger ? ", too large" : ""));
    }
  };
  lvm_.SetOnCall(watch);
  const auto leave = [&] {
    dm_.LoadTable(pool);
    EXPECT_TRUE(dm_.SetSize(data, size + kExtent).has_value());
    calls.clear();
  };
  const auto expect = [&](const std::string& verb) {
    const auto loaded = std::ranges::find(calls, "Refresh, too large");
    EXPECT_NE(std::find(loaded, calls.end(), verb), calls.end()) << ::testing::PrintToString(calls);
    EXPECT_EQ(std::ranges::count_if(calls, [&](const auto& call) { return call.starts_with(verb + ","); }),
              0);
  };
  leave();
  const std::string two = Make("two", 5);
  expect("CreateThin");
  leave();
  mount_.AddDirectory("/stage/" + two);
  EXPECT_TRUE(engine_->volumes()
                  .Stage({two, Path("/stage/" + two), {.access = AccessType::kBlock}}, Soon())
                  .has_value());
  expect("Activate");
  EXPECT_TRUE(engine_->volumes().Unstage(two, Path("/stage/" + two), Soon()).has_value());
  lvm_.SetOnCall({});
  leave();
  lvm_.SetOnCall(watch);
  EXPECT_TRUE(engine_->volumes().Delete(two, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(2));
  lvm_.SetOnCall({});
  expect("Remove");

  // The command had suspended the pool. A message to it would wait for good.
  leave();
  dm_.SetSuspended(pool, true);
  lvm_.SetOnCall(watch);
  const std::string three = Make("three", 5);
  EXPECT_EQ(std::ranges::count(calls, "CreateThin"), 1) << ::testing::PrintToString(calls);
  EXPECT_FALSE((*dm_.Find(pool))->suspended);
  EXPECT_TRUE(engine_->volumes().Delete(three, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(2));
  lvm_.SetOnCall({});

  // A start of the pool was killed before its own device had its table.
  const std::string own = lvm::DmUuidAbovePool(PoolUuid());
  dm_.AddDevice(own, "vg0-pool", size);
  dm_.TakeTable(own);
  calls.clear();
  lvm_.SetOnCall(watch);
  EXPECT_TRUE(engine_->volumes().Delete(Make("four", 5), Soon()).has_value());
  EXPECT_EQ(calls.front(), "Activate");
  EXPECT_TRUE(UntilLvs(2));
  lvm_.SetOnCall({});
  EXPECT_TRUE(dm_.Remove(own).has_value());

  // Another command has resumed them, and the pool has noted its size. A pool cannot shrink.
  leave();
  const uint64_t chunks = (size + kExtent).value / kChunk.value;
  dm_.AddThinPool(PoolUuid(), "vg0-pool", kChunk, chunks);
  lvm_.SetOnCall(watch);
  const auto refused = Create("three", 5);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("cannot shrink"), std::string::npos) << refused.error().message();
  EXPECT_EQ(std::ranges::count_if(calls, [](const auto& call) { return call.starts_with("Refresh"); }), 0);
  lvm_.SetOnCall({});
  dm_.AddThinPool(PoolUuid(), "vg0-pool", kChunk, chunks - kExtent.value / kChunk.value);
  EXPECT_TRUE(dm_.SetSize(data, size).has_value());

  EXPECT_TRUE(dm_.SetSize(DmUuidOf(one), Bytes{4 * kExtent.value}).has_value());
  int refreshed = 0;
  lvm_.SetOnCall([&](const std::string& method) { refreshed += method == "Refresh" ? 1 : 0; });
  const auto again = engine_->volumes().Expand(one, {Bytes{5 * kExtent.value}, {}}, std::nullopt, Soon());
  EXPECT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(refreshed, 1);
  lvm_.SetOnCall({});
}

TEST_F(ThinStoreTest, MetadataThatCouldNotBeReleasedAreReleasedLater) {
  Make("one", 5);
  const Catalog catalog = Now();
  const std::string pool = lvm::DmUuidOfPool(PoolUuid());
  const auto begin = [&] { return MetadataHold::Begin(*catalog.group, *catalog.stores.front().lv, dm_); };
  {
    const auto hold = begin();
    ASSERT_TRUE(hold.has_value()) << hold.error().message();
    dm_.SetSuspended(pool, true);
  }
  EXPECT_TRUE((*dm_.ThinPool(PoolUuid()))->held_root.has_value());
  dm_.SetSuspended(pool, false);
  {
    const auto hold = begin();
    EXPECT_TRUE(hold.has_value()) << hold.error().message();
  }
  EXPECT_FALSE((*dm_.ThinPool(PoolUuid()))->held_root.has_value());
}

TEST_F(ThinStoreTest, WhatAnAdministratorBuildsOnItIsKept) {
  const std::string id = Make("one", 5);
  const std::string name = lvm::ParseVolumeId(id)->lv_name;
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    lvm::LogicalVolume snapshot = *group.FindLv(name);
    snapshot.name = "by_hand";
    snapshot.uuid = "000000-0000-0000-0000-0000-0000-999999";
    snapshot.tags.clear();
    snapshot.origin = name;
    snapshot.segments.front().thin_volume->device_id = 7;
    group.lvs.push_back(std::move(snapshot));
  });
  const auto refused = engine_->volumes().Delete(id, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("vg0/by_hand"), std::string::npos) << refused.error().message();
  EXPECT_EQ(Left(), (40U - 2 * 5 - 2 * 5) / 2) << "it may fill its size, too, and what shares is copied once";
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    std::erase_if(group.lvs, [](const lvm::LogicalVolume& lv) { return lv.name == "by_hand"; });
  });
}

TEST_F(ThinStoreTest, AVolumeThatWasSharedIsErasedOnTheDataDevice) {
  const std::string id = Make("one", 10);
  Activate(id);
  Write(id, "shared", 0);
  ASSERT_TRUE(dm_.Suspend(DmUuidOf(id), dm::FileSystemLock::kSkip).has_value());
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::CreateSnap{9, 1}).has_value());
  ASSERT_TRUE(dm_.Resume(DmUuidOf(id)).has_value());
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::DeleteThin{9}).has_value());
  ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_GE(erase_.faults.Calls("Zero"), 1);
  EXPECT_EQ(erase_.faults.Calls("ZeroAndFree"), 0) << "the kernel would write to a new chunk";
}

TEST_F(ThinStoreTest, MakingItSurvivesAKillAtEveryStep) {
  // Each verb of the plan is killed before and after it has done its work, and so is the undoing.
  for (const std::string verb :
       {"Create", "AllocateAnywhere", "MakeThinPool", "SkipActivation", "ChangeTags"}) {
    for (fakes::Faults* const faults : {&lvm_.before, &lvm_.after}) {
      for (int nth = 1; nth <= (verb == "Create" ? 2 : 1); ++nth) {
        lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs.clear(); });
        dm_.Reboot();
        faults->FailNth(verb, nth, Error(Code::kTimeout, "killed"));
        lvm_.before.FailAlways("Remove", Error(Code::kTimeout, "killed"));
        Restart();
        lvm_.before.Clear();
        lvm_.after.Clear();
        Restart();
        SCOPED_TRACE(fmt::format("{} {} {}", verb, nth, faults == &lvm_.before ? "before" : "after"));
        ExpectWhole(Now());
        EXPECT_EQ(LvCount(), 1U) << "nothing is left over";
      }
    }
  }
}

TEST_F(ThinStoreTest, CreatingAVolumeSurvivesAKillAtEveryStep) {
  for (const std::string verb : {"CreateThin", "ChangeTags"}) {
    for (fakes::Faults* const faults : {&lvm_.before, &lvm_.after}) {
      faults->FailNth(verb, 1, Error(Code::kTimeout, "killed"));
      lvm_.before.FailAlways("Remove", Error(Code::kTimeout, "killed"));
      EXPECT_FALSE(Create("one", 40).has_value());
      lvm_.before.Clear();
      lvm_.after.Clear();
      Restart();
      SCOPED_TRACE(fmt::format("{} {}", verb, faults == &lvm_.before ? "before" : "after"));
      const auto made = Create("one", 40);
      ASSERT_TRUE(made.has_value()) << made.error().message();
      EXPECT_EQ(LvCount(), 2U);
      ASSERT_TRUE(engine_->volumes().Delete(made->volume.id, Soon()).has_value());
      ASSERT_TRUE(UntilLvs(1));
    }
  }
}

TEST_F(ThinStoreTest, StartsWithoutADiskThatItCanDoWithout) {
  const std::string id = Make("one", 10);
  const std::string other = Make("two", 10);
  lvm_.Reboot();
  dm_.Reboot();
  lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) { group.pvs.front().missing = true; });
  Restart();
  EXPECT_EQ(lvm_.before.Calls("ActivateDegraded"), 1);
  EXPECT_TRUE((*dm_.ThinPool(PoolUuid())).has_value());
  mount_.AddDirectory("/stage/one");
  ASSERT_TRUE(
      engine_->volumes().Stage({id, Path("/stage/one"), {.access = AccessType::kBlock}}, Soon()).has_value());
  const auto published = engine_->volumes().Publish(
      {id, Path("/stage/one"), Path("/pods/one"), {.access = AccessType::kBlock}}, Soon());
  EXPECT_TRUE(published.has_value()) << published.error().message();

  // LVM loads no tables of a volume that lacks disks.
  const std::string data = Now().parts.front().DmUuid();
  dm_.AddDevice(data, "vg0-data", Now().parts.front().lv->size + kExtent);
  dm_.LoadTable(lvm::DmUuidOfPool(PoolUuid()));
  mount_.AddDirectory("/stage/two");
  const auto staged =
      engine_->volumes().Stage({other, Path("/stage/two"), {.access = AccessType::kBlock}}, Soon());
  EXPECT_TRUE(staged.has_value()) << staged.error().message();
  EXPECT_EQ(lvm_.before.Calls("Refresh"), 0);
  EXPECT_FALSE((*dm_.Find(lvm::DmUuidOfPool(PoolUuid())))->waiting_table);
}

TEST_F(ThinStoreTest, GrowsAsTheConfigurationSays) {
  Make("one", 40);
  const Bytes metadata = Now().stores.front().metadata->size;
  stores_ = {Store("fast", 60)};
  Restart();
  const Catalog catalog = Now();
  EXPECT_EQ(catalog.stores.front().data->size, Bytes{60 * kExtent.value});
  EXPECT_EQ(catalog.stores.front().tags.size, Bytes{60 * kExtent.value});
  EXPECT_GE(catalog.stores.front().metadata->size, metadata);
  EXPECT_EQ(Left(), 20U);
  Make("two", 20);
  stores_ = {Store("fast", 50)};
  Restart();
  EXPECT_EQ(Now().stores.front().data->size, Bytes{60 * kExtent.value}) << "it never shrinks";
}

TEST_F(ThinStoreTest, OneThatDoesNotFitIsToldAndThePoolServes) {
  stores_ = {Store("fast", 40), Store("vast", 4000)};
  Restart();
  EXPECT_EQ(Now().stores.size(), 1U);
  EXPECT_EQ(LvCount(), 1U);
  const auto refused = Create("one", 1, {{"store", "vast"}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable) << refused.error().message();
  EXPECT_TRUE(Create("two", 1, {{"store", "fast"}}).has_value());
}

TEST(ThinSpace, MetadataOfANewStoreHoldVolumesOfUsualSize) {
  for (const uint64_t gib : {1, 10, 100, 1000, 5000}) {
    const Bytes data{gib * kGiB.value};
    const auto size = MetadataSize(data, kChunk);
    ASSERT_TRUE(size.has_value()) << gib;
    const uint64_t chunks = data.value / kChunk.value;
    EXPECT_LE(MetadataBlocks({chunks}, chunks), size->value / 4096) << gib << " GiB as one volume";
    const uint64_t count = std::min<uint64_t>(gib * 16, 16384);
    const std::vector<uint64_t> many(count, chunks / count);
    EXPECT_LE(MetadataBlocks(many, chunks), size->value / 4096) << gib << " GiB as " << count << " volumes";
    EXPECT_LT(size->value, data.value / 100 + 64 * kMiB.value) << "they stay small";
  }
  EXPECT_EQ(MetadataSize({200 * 1024 * kGiB.value}, kChunk).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(MetadataSize({30 * 1024 * kGiB.value}, kMostChunk).has_value());
}

}  // namespace
}  // namespace quarry::engine
