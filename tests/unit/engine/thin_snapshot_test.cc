// Snapshots and clones in a thin store, on fakes: each has the bytes of its instant, takes exactly the room
// that it was promised, and is erased without touching what others have as well.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "engine/group_snapshots.h"
#include "engine/model/thin_space.h"
#include "engine/snapshots.h"
#include "lvm/names.h"
#include "lvm/ownership.h"
#include "tests/unit/engine/thin_store_world.h"

namespace quarry::engine {
namespace {

using ::testing::HasSubstr;

class ThinSnapshotTest : public ThinStoreTest {
 protected:
  Result<SnapshotResult> Cut(const std::string& name, const std::string& source, Parameters parameters = {}) {
    return engine_->snapshots().Create({.name = name, .source = source, .parameters = std::move(parameters)},
                                       Soon());
  }
  std::string MustCut(const std::string& name, const std::string& source) {
    const auto made = Cut(name, source);
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->snapshot.id : "";
  }
  Result<CreateResult> CopyOf(const std::string& name, const ContentSource& source, uint64_t extents = 0,
                              Parameters more = {{"type", "thin"}}) {
    return engine_->volumes().Create({.name = name,
                                      .range = {Bytes{extents * kExtent.value}, Bytes{}},
                                      .capabilities = {{.access = AccessType::kBlock}},
                                      .parameters = std::move(more),
                                      .source = source},
                                     Soon());
  }
  std::string MustCopy(const std::string& name, const ContentSource& source, uint64_t extents = 0) {
    const auto made = CopyOf(name, source, extents);
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  // Where the volume is active.
  std::string Read(const std::string& id, uint64_t at, size_t length) {
    const auto fd = dm_.Open(DmUuidOf(id), O_RDONLY);
    EXPECT_TRUE(fd.has_value());
    std::string out(length, '?');
    EXPECT_EQ(pread(fd->get(), out.data(), length, static_cast<off_t>(at)), static_cast<ssize_t>(length));
    return out;
  }
  Result<CreateResult> CreateThick() {
    return engine_->volumes().Create({.name = "thick",
                                      .range = {Bytes{kExtent.value}, Bytes{}},
                                      .capabilities = {{.access = AccessType::kBlock}},
                                      .parameters = {{"type", "linear"}}},
                                     Soon());
  }
  void DeleteVolume(const std::string& id) {
    const auto deleted = engine_->volumes().Delete(id, Soon());
    ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  }
  void DeleteSnapshot(const std::string& id) {
    const auto deleted = engine_->snapshots().Delete(id, Soon());
    ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  }
  std::string DataUuid() {
    const Catalog catalog = Now();
    return lvm::DmUuidOfPart(lvm::DmUuid(catalog.group->uuid, catalog.stores.front().data->uuid),
                             catalog.stores.front().data->name);
  }
  dm::ThinId IdOf(const std::string& id) {
    const lvm::Snapshot group = Group();
    return group->FindLv(lvm::ParseVolumeId(id)->lv_name)->segments.front().thin_volume->device_id;
  }
  std::vector<thin::ByteRange> ExclusiveOf(const std::string& id) {
    const Catalog catalog = Now();
    EXPECT_TRUE(dm_.SendToPool(PoolUuid(), dm::ReserveMetadataSnap{}).has_value());
    const auto metadata =
        dm_.Find(lvm::DmUuidOfPart(lvm::DmUuid(catalog.group->uuid, catalog.stores.front().metadata->uuid),
                                   catalog.stores.front().metadata->name));
    auto own = dm_.ExclusiveOfThin((*metadata)->Node(), IdOf(id), Bytes{}, 1000);
    EXPECT_TRUE(dm_.SendToPool(PoolUuid(), dm::ReleaseMetadataSnap{}).has_value());
    return own.has_value() ? own->ranges : std::vector<thin::ByteRange>();
  }
  // The fake's data device is not where its thin devices keep their bytes. So it is filled, and what was
  // erased on it is what is zero afterwards.
  void FillData() {
    const auto fd = dm_.Open(DataUuid(), O_RDWR);
    const std::string bytes(64 * kChunk.value, 'x');
    ASSERT_EQ(pwrite(fd->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::vector<thin::ByteRange> ErasedData() {
    const auto fd = dm_.Open(DataUuid(), O_RDONLY);
    std::vector<thin::ByteRange> out;
    for (uint64_t chunk = 0; chunk < 64; ++chunk) {
      std::string bytes(kChunk.value, '?');
      EXPECT_EQ(pread(fd->get(), bytes.data(), bytes.size(), static_cast<off_t>(chunk * kChunk.value)),
                static_cast<ssize_t>(bytes.size()));
      if (bytes.find_first_not_of('\0') != std::string::npos) {
        EXPECT_EQ(bytes.find('\0'), std::string::npos) << "a part of chunk " << chunk;
        continue;
      }
      if (!out.empty() && out.back().end().value == chunk * kChunk.value) {
        out.back().length = out.back().length + kChunk;
      } else {
        out.push_back({{chunk * kChunk.value}, kChunk});
      }
    }
    return out;
  }
  bool AnySuspended() { return std::ranges::any_of(dm_.Devices(), &dm::Device::suspended); }
};

TEST_F(ThinSnapshotTest, ASnapshotKeepsTheBytesOfItsInstant) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "before", 0);
  Write(id, "stays", 5 * kChunk.value);
  const auto made = Cut("nightly", id);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(made->created);
  EXPECT_EQ(made->snapshot.source, id);
  EXPECT_EQ(made->snapshot.size, Bytes{5 * kExtent.value});
  EXPECT_FALSE(AnySuspended());
  Write(id, "after!", 0);
  const std::string copy = MustCopy("restored", {made->snapshot.id, true});
  Activate(copy);
  EXPECT_EQ(Read(copy, 0, 6), "before");
  EXPECT_EQ(Read(copy, 5 * kChunk.value, 5), "stays");
  EXPECT_EQ(Read(id, 0, 6), "after!");
  Write(copy, "copied", 0);
  EXPECT_EQ(Read(id, 0, 6), "after!") << "volumes are independent";
  const auto again = Cut("nightly", id);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->snapshot.id, made->snapshot.id);
  const auto listed = engine_->snapshots().List({}, 0, "", Soon());
  ASSERT_TRUE(listed.has_value());
  EXPECT_EQ(listed->snapshots.size(), 1U);
}

TEST_F(ThinSnapshotTest, ItTakesTheRoomOfWhatTheVolumeHas) {
  const std::string id = Make("one", 10);
  Activate(id);
  for (uint64_t at = 0; at < 3 * kExtent.value; at += kChunk.value) {
    Write(id, "x", at);
  }
  EXPECT_EQ(Left(), 30U);
  const std::string snapshot = MustCut("nightly", id);
  EXPECT_EQ(Now().SnapshotById(snapshot)->tags.mapped, Bytes{3 * kExtent.value});
  // Chunks of the volume that the kernel may be copying: all of it, 320, and no more than 1024.
  EXPECT_EQ(Left(), (40U - 10 - 3 - 10) / 2) << "a new volume may have copies on their way, too";
  DeleteSnapshot(snapshot);
  ASSERT_TRUE(UntilLvs(2));
  EXPECT_EQ(Left(), (40U - 10 - 10) / 2) << "what it shared with the snapshot is copied once more";
  DeleteVolume(id);
  ASSERT_TRUE(UntilLvs(1));
  EXPECT_EQ(Left(), 40U) << "nothing is left that could share";
  Make("next", 10);
  EXPECT_EQ(Left(), 30U);
  EXPECT_FALSE(Now().stores.front().tags.cuts);
}

TEST_F(ThinSnapshotTest, WhatDoesNotFitIsRefusedAndLeavesNothing) {
  const std::string id = Make("one", 18);
  Activate(id);
  for (uint64_t at = 0; at < 5 * kExtent.value; at += kChunk.value) {
    Write(id, "x", at);
  }
  const uint64_t left = Left();
  dm_.faults.FailNth("Suspend", 1, Error(Code::kIo, "a refused snapshot stops no writer"));
  const auto refused = Cut("nightly", id);  // 18 and 5, and 18 for copies on their way, are more than 40
  dm_.faults.Clear();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNoSpace) << refused.error().message();
  EXPECT_THAT(refused.error().message(), HasSubstr("beside 72 MiB for copies of shared chunks"));
  EXPECT_EQ(Left(), left) << "no room is set aside";
  EXPECT_FALSE(Now().stores.front().tags.cuts);
  EXPECT_TRUE(UntilLvs(2));
  EXPECT_FALSE(AnySuspended());
  EXPECT_EQ(ChunksUsed(), 5 * kExtent.value / kChunk.value);
  Write(id, "goes on", 0);
}

TEST_F(ThinSnapshotTest, WhatIsWrittenBeforeTheCutMayBeTooMuchForThisAttempt) {
  const std::string id = Make("one", 18);
  Activate(id);
  const auto write = [&](uint64_t extents) {
    for (uint64_t at = 0; at < extents * kExtent.value; at += kChunk.value) {
      Write(id, "x", at);
    }
  };
  write(3);
  lvm_.SetOnCall([&, done = false](const std::string& name) mutable {
    if (name == "CreateThin" && !std::exchange(done, true)) {
      write(6);
    }
  });
  const auto refused = Cut("nightly", id);  // 18, 6 and 18
  lvm_.SetOnCall({});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable) << refused.error().message();
  EXPECT_THAT(refused.error().message(), HasSubstr("written to meanwhile"));
  EXPECT_FALSE(AnySuspended());
  EXPECT_TRUE(UntilLvs(2));
  EXPECT_EQ(Cut("nightly", id).error().code(), Code::kNoSpace) << "it is known before the cut now";
}

// What is written until the cut finds room, too.
TEST_F(ThinSnapshotTest, AStoreThatGrowsForOneGetsSomeMore) {
  stores_.front().most = {90 * kExtent.value};
  Restart();
  const std::string id = Make("one", 20);
  Make("other", 19);
  Activate(id);
  Write(id, "x", 0);
  lvm_.SetOnCall([&, done = false](const std::string& name) mutable {
    if (name == "CreateThin" && !std::exchange(done, true)) {
      for (uint64_t at = 0; at < 10 * kExtent.value; at += kChunk.value) {
        Write(id, "x", at);
      }
    }
  });
  const std::string snapshot = MustCut("nightly", id);
  lvm_.SetOnCall({});
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(Now().SnapshotById(snapshot)->tags.mapped, Bytes{10 * kExtent.value});
}

// LVM activates nothing in a store that lacks a disk.
TEST_F(ThinSnapshotTest, AStartResumesPastLvmWhatAKilledCutLeft) {
  const std::string id = Make("one", 4);
  Activate(id);
  engine_.reset();
  dm_.SetSuspended(DmUuidOf(id), true);
  lvm_.before.FailAlways("ActivateLvs", Error(Code::kUnavailable, "a disk is missing"));
  MakeEngine();
  (void)engine_->lifecycle().Start(Soon());
  EXPECT_FALSE(AnySuspended());
  lvm_.before.Clear();
}

TEST_F(ThinSnapshotTest, ARefusedOneDoesNotLetTheStoreGrow) {
  stores_.front().most = {48 * kExtent.value};
  Restart();
  const std::string id = Make("one", 22);
  Activate(id);
  for (uint64_t at = 0; at < 5 * kExtent.value; at += kChunk.value) {
    Write(id, "x", at);
  }
  const auto refused = Cut("nightly", id);  // 22, 5 and 22 are more than 48
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kNoSpace) << refused.error().message();
  EXPECT_EQ(Now().stores.front().lv->size.value, 40 * kExtent.value);
}

TEST_F(ThinSnapshotTest, AVolumeThatIsNotActiveCountsWithWhatItHas) {
  const std::string id = Make("one", 18);
  Activate(id);
  Write(id, "x", 0);
  Deactivate(id);
  const std::string snapshot =
      MustCut("nightly", id);  // 18, 1, and 18 for copies on their way are less than 40
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(Now().SnapshotById(snapshot)->tags.mapped, kChunk);
}

// Snapshots until the pool takes no more, because the store's metadata or LVM's text are full. Then all are
// there, in pages, and go again.
class ManySnapshotsTest : public ThinSnapshotTest {
 protected:
  ManySnapshotsTest() {
    lvm_.AddGroup("vg1", kExtent, {{"/dev/d", Extents{2000}}, {"/dev/e", Extents{2000}}});
    more_pools_ = {{.name = "many", .group = "vg1", .stores = {Store("big", 300)}}};
    Restart();
  }
  std::string MakeThere() {
    const auto made = Create("one", 1, {{"pool", "many"}});
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  size_t LvsThere() { return (*lvm_.Read("vg1", Soon()))->lvs.size(); }
  // The ids of those that were made.
  std::set<std::string> UntilRefused(const std::string& source, Error& refused) {
    std::set<std::string> made;
    while (made.size() < 1000) {
      const auto snapshot = Cut(fmt::format("s{}", made.size()), source);
      if (!snapshot.has_value()) {
        refused = snapshot.error();
        return made;
      }
      made.insert(snapshot->snapshot.id);
    }
    ADD_FAILURE() << "never refused";
    return made;
  }
  std::set<std::string> InPages() {
    std::set<std::string> out;
    std::string token;
    do {
      const auto page = engine_->snapshots().List({}, 100, token, Soon());
      EXPECT_TRUE(page.has_value());
      for (const VolumeSnapshot& one : page->snapshots) {
        EXPECT_TRUE(out.insert(one.id).second) << "twice";
      }
      token = page->next_token;
    } while (!token.empty());
    return out;
  }
};

TEST_F(ManySnapshotsTest, TheStoresMetadataAreNotOverfilled) {
  const std::string id = MakeThere();
  Error refused(Code::kInternal, "");
  const std::set<std::string> made = UntilRefused(id, refused);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.message();
  EXPECT_THAT(refused.message(), HasSubstr("the metadata of thin store 'big' have no room"));
  EXPECT_GT(made.size(), 200U);
  EXPECT_EQ(Capacity({{"pool", "many"}}).available, Bytes{});
  EXPECT_EQ(InPages(), made);
  const size_t lvs = LvsThere();
  EXPECT_FALSE(Cut("again", id).has_value());
  EXPECT_EQ(LvsThere(), lvs);
  DeleteSnapshot(*made.begin());
  ASSERT_TRUE(Eventually([&] { return Cut("room", id).has_value(); }));
}

TEST_F(ManySnapshotsTest, LvmsTextIsNotOverfilled) {
  const std::string id = MakeThere();
  lvm_.SetMetadataRoom("vg1", {64 * 1024});
  Error refused(Code::kInternal, "");
  const std::set<std::string> made = UntilRefused(id, refused);
  EXPECT_EQ(refused.code(), Code::kNoSpace) << refused.message();
  EXPECT_THAT(refused.message(), HasSubstr("metadata"));
  EXPECT_GT(made.size(), 20U);
  EXPECT_EQ(InPages(), made);
  for (const std::string& one : made) {
    DeleteSnapshot(one);
  }
  EXPECT_TRUE(Eventually([&] { return InPages().empty(); }));
}

TEST_F(ThinSnapshotTest, SourceSnapshotAndCopyGoInAnyOrder) {
  for (const int first : {0, 1, 2}) {
    SCOPED_TRACE(first);
    const std::string id = Make("one", 5);
    Activate(id);
    Write(id, "content", 0);
    const std::string snapshot = MustCut("nightly", id);
    const std::string copy = MustCopy("copy", {snapshot, true});
    Activate(copy);
    for (int i = 0; i < 3; ++i) {
      const int which = (first + i) % 3;
      if (which == 1) {
        DeleteSnapshot(snapshot);
      } else {
        DeleteVolume(which == 0 ? id : copy);
      }
      ASSERT_TRUE(UntilLvs(static_cast<size_t>(3 - i)));
      if (i < 2 && which != 2 && (first + i) % 3 != 2 && first != 2) {
        EXPECT_EQ(Read(copy, 0, 7), "content");
      }
    }
    EXPECT_EQ(ChunksUsed(), 0U);
  }
}

TEST_F(ThinSnapshotTest, OnlyWhatNobodyElseHasIsErased) {
  const std::string id = Make("one", 10);
  Activate(id);
  for (uint64_t chunk = 0; chunk < 6; ++chunk) {
    Write(id, fmt::format("old {}", chunk), chunk * kChunk.value);
  }
  const std::string snapshot = MustCut("nightly", id);
  for (const uint64_t chunk : {1U, 2U, 4U}) {
    Write(id, "new", chunk * kChunk.value);
  }
  (void)ChunksUsed();  // the fake gives new bytes their blocks now
  const auto own = ExclusiveOf(snapshot);
  ASSERT_FALSE(own.empty());
  FillData();
  DeleteSnapshot(snapshot);
  ASSERT_TRUE(UntilLvs(2));
  EXPECT_EQ(ErasedData(), own);
  EXPECT_EQ(Read(id, 0, 5), "old 0");
  // Now everything is the volume's alone, but the kernel would copy what was shared.
  const auto all = ExclusiveOf(id);
  FillData();
  DeleteVolume(id);
  ASSERT_TRUE(UntilLvs(1));
  EXPECT_EQ(ErasedData(), all);
  EXPECT_EQ(erase_.faults.Calls("ZeroAndFree"), 0);
}

TEST_F(ThinSnapshotTest, WhatBecomesItsOwnDuringTheErasureIsErasedAsWell) {
  const std::string id = Make("one", 10);
  Activate(id);
  for (uint64_t chunk = 0; chunk < 6; ++chunk) {
    Write(id, "old", chunk * kChunk.value);
  }
  const std::string snapshot = MustCut("nightly", id);
  Write(id, "new", 0);
  (void)ChunksUsed();
  FillData();
  erase_.faults.FailNth("Zero", 1, Error(Code::kTimeout, "the disk is slow"));  // so it is tried again
  std::vector<thin::ByteRange> own;
  reader_.OnExclusive([&, n = 0]() mutable {
    if (++n == 2) {  // the look right before the removal
      Write(id, "new", 3 * kChunk.value);
    }
  });
  DeleteSnapshot(snapshot);
  ASSERT_TRUE(UntilLvs(2));
  uint64_t sum = 0;
  for (const thin::ByteRange& range : ErasedData()) {
    sum += range.length.value;
  }
  EXPECT_EQ(sum, 2 * kChunk.value);
}

TEST_F(ThinSnapshotTest, AnErasureDoesNotGoOnWhileSomebodyHasTheVolumeOpen) {
  const std::string id = Make("one", 10);
  Activate(id);
  Write(id, "old", 0);
  const std::string snapshot = MustCut("nightly", id);
  Write(id, "new", 0);
  (void)ChunksUsed();
  FillData();
  const std::string name = lvm::ParseVolumeId(snapshot)->lv_name;
  ASSERT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg0", {name}}, Soon()).has_value());
  {
    const auto held = dm_.Open(DmUuidOf(snapshot), O_RDONLY);
    ASSERT_TRUE(held.has_value());
    EXPECT_FALSE(engine_->snapshots().Delete(snapshot, Soon()).has_value());
  }
  EXPECT_TRUE(ErasedData().empty());
  DeleteSnapshot(snapshot);
  ASSERT_TRUE(UntilLvs(2));
}

TEST_F(ThinSnapshotTest, ACloneOfAVolumeInUseIsMadeAtOnce) {
  const std::string id = Make("one", 4);
  Activate(id);
  Write(id, "content", 0);
  const auto held = dm_.Open(DmUuidOf(id), O_RDWR | O_EXCL);
  ASSERT_TRUE(held.has_value()) << "in use";
  const std::string clone = MustCopy("clone", {id, false}, 8);
  Activate(clone);
  EXPECT_EQ(Read(clone, 0, 7), "content");
  EXPECT_EQ(Now().ById(clone)->lv->size, Bytes{8 * kExtent.value}) << "larger than its source";
  EXPECT_EQ(Now().ById(clone)->tags.source, id);
  const auto again = CopyOf("clone", {id, false}, 8);
  ASSERT_TRUE(again.has_value());
  EXPECT_FALSE(again->created);
}

TEST_F(ThinSnapshotTest, BadInputIsNamed) {
  stores_ = {Store("fast", 40), Store("wide", 20, lvm::VolumeType::kStriped)};
  Restart();
  const auto made = Create("one", 5, {{"store", "fast"}});
  ASSERT_TRUE(made.has_value());
  const std::string& id = made->volume.id;
  const std::string snapshot = MustCut("nightly", id);
  const auto smaller = engine_->volumes().Create({.name = "two",
                                                  .range = {Bytes{kExtent.value}, Bytes{2 * kExtent.value}},
                                                  .capabilities = {{.access = AccessType::kBlock}},
                                                  .parameters = {{"type", "thin"}, {"store", "fast"}},
                                                  .source = {snapshot, true}},
                                                 Soon());
  ASSERT_FALSE(smaller.has_value());
  EXPECT_EQ(smaller.error().code(), Code::kOutOfRange) << smaller.error().message();
  const auto other_store = CopyOf("two", {snapshot, true}, 0, {{"type", "thin"}, {"store", "wide"}});
  ASSERT_FALSE(other_store.has_value());
  EXPECT_EQ(other_store.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(other_store.error().message(), HasSubstr("in thin store 'fast'"));
  const auto other_use =
      engine_->volumes().Create({.name = "two",
                                 .capabilities = {{.access = AccessType::kMount, .fs_type = "ext4"}},
                                 .parameters = {{"type", "thin"}, {"store", "fast"}},
                                 .source = {snapshot, true}},
                                Soon());
  ASSERT_FALSE(other_use.has_value());
  EXPECT_EQ(other_use.error().code(), Code::kInvalidArgument) << other_use.error().message();
  const auto thick = CreateThick();
  ASSERT_TRUE(thick.has_value()) << thick.error().message();
  EXPECT_EQ(Cut("of thick", thick->volume.id, {{"type", "thin"}}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Cut("nightly", thick->volume.id).error().code(), Code::kAlreadyExists);
  EXPECT_TRUE(CopyOf("in its own store", {snapshot, true}, 0).has_value()) << "no store needs to be named";
}

TEST_F(ThinSnapshotTest, ABtrfsThatNothingCouldBeMadeOfHasNoSnapshot) {
  stores_ = {Store("fast", 70)};
  Restart();
  const auto made =
      engine_->volumes().Create({.name = "one",
                                 .range = {Bytes{28 * kExtent.value}, Bytes{}},
                                 .capabilities = {{.access = AccessType::kMount, .fs_type = "btrfs"}},
                                 .parameters = {{"type", "thin"}}},
                                Soon());
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::string& id = made->volume.id;
  mount_.AddDirectory("/stage/one");
  ASSERT_TRUE(engine_->volumes()
                  .Stage({id, Path("/stage/one"), {.access = AccessType::kMount, .fs_type = "btrfs"}}, Soon())
                  .has_value());
  EXPECT_EQ(Cut("mounted", id).error().code(), Code::kPrecondition) << "its log has what was synced last";
  ASSERT_TRUE(engine_->volumes().Unstage(id, Path("/stage/one"), Soon()).has_value());
  mount_.faults.FailNth("CheckCopyable", 1, Error(Code::kPrecondition, "it has a log that was not replayed"));
  EXPECT_EQ(Cut("unclean", id).error().code(), Code::kPrecondition);
  EXPECT_TRUE(UntilLvs(2)) << "nothing is left of it";
  MustCut("clean", id);
}

TEST_F(ThinSnapshotTest, ACopyHasRoomForAllOfItsSource) {
  const std::string id = Make("one", 5);
  const std::string snapshot = MustCut("nightly", id);
  for (const ContentSource& source : {ContentSource{snapshot, true}, ContentSource{id, false}}) {
    const auto smaller = CopyOf("two", source, 1);
    ASSERT_FALSE(smaller.has_value());
    EXPECT_EQ(smaller.error().code(), Code::kOutOfRange) << smaller.error().message();
  }
  EXPECT_TRUE(UntilLvs(3));
}

// Neither has alone what both of them share.
TEST_F(ThinSnapshotTest, WhatTwoDeletedOnesShareIsErasedToo) {
  const std::string id = Make("one", 5);
  Activate(id);
  for (uint64_t chunk = 0; chunk < 6; ++chunk) {
    Write(id, fmt::format("old {}", chunk), chunk * kChunk.value);
  }
  const std::string first = MustCut("first", id);
  const std::string second = MustCut("second", id);
  Write(id, "new", 0);
  (void)ChunksUsed();
  FillData();
  // The eraser sees all three in one round.
  reader_.faults.FailAlways("Device", Error(Code::kIo, "unreadable"));
  DeleteSnapshot(first);
  DeleteSnapshot(second);
  DeleteVolume(id);
  reader_.faults.Clear();
  Restart();
  ASSERT_TRUE(UntilLvs(1));
  uint64_t sum = 0;
  for (const thin::ByteRange& range : ErasedData()) {
    sum += range.length.value;
  }
  EXPECT_EQ(sum, 7 * kChunk.value) << "six old chunks and a new one";
}

TEST_F(ThinSnapshotTest, WithoutErasingIsNotForTheLastThatHasTheBytesOfAnother) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "secret", 0);
  const auto clone = CopyOf("clone", {id, false}, 0, {{"type", "thin"}, {"erase", "none"}});
  ASSERT_TRUE(clone.has_value()) << clone.error().message();
  (void)ChunksUsed();
  FillData();
  DeleteVolume(id);
  ASSERT_TRUE(UntilLvs(2));
  EXPECT_TRUE(ErasedData().empty()) << "the clone has it";
  DeleteVolume(clone->volume.id);
  ASSERT_TRUE(UntilLvs(1));
  EXPECT_FALSE(ErasedData().empty());
}

TEST_F(ThinSnapshotTest, AnotherTypeIsAFullCopy) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "content", 0);
  const std::string snapshot = MustCut("nightly", id);
  const auto copy = CopyOf("copy", {snapshot, true}, 0, {{"type", "linear"}});
  ASSERT_TRUE(copy.has_value()) << copy.error().message();
  const lvm::Snapshot group = Group();
  EXPECT_TRUE(group->FindLv(lvm::ParseVolumeId(copy->volume.id)->lv_name)->pool.empty());
  Activate(copy->volume.id);
  EXPECT_EQ(Read(copy->volume.id, 0, 7), "content");
}

TEST_F(ThinSnapshotTest, AFailedCutLeavesTheVolumeAsItWas) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "content", 0);
  struct Case {
    const char* call;
    int nth;
  };
  for (const Case& one : {Case{"Suspend", 1}, Case{"SendToPool", 3}, Case{"SendToPool", 5}, Case{"Thin", 1},
                          Case{"Thin", 2}, Case{"SendToPool", 6}, Case{"SendToPool", 7}}) {
    SCOPED_TRACE(fmt::format("{} {}", one.call, one.nth));
    dm_.faults.FailNth(one.call, one.nth, Error(Code::kIo, "unwell"));
    const auto refused = Cut("nightly", id);
    dm_.faults.Clear();
    EXPECT_FALSE(AnySuspended());
    if (!refused.has_value()) {
      EXPECT_TRUE(UntilLvs(2)) << "what there was of it is gone";
    } else {
      DeleteSnapshot(refused->snapshot.id);
      ASSERT_TRUE(UntilLvs(2));
    }
    EXPECT_EQ(Read(id, 0, 7), "content");
    EXPECT_EQ(ChunksUsed(), 1U);
  }
}

TEST_F(ThinSnapshotTest, ACutThatTakesTooLongIsTriedAgain) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "content", 0);
  dm_.faults.FailNth("Suspend", 1, Error(Code::kTimeout, "much to write back"));
  const std::string snapshot = MustCut("nightly", id);
  dm_.faults.FailAlways("Suspend", Error(Code::kTimeout, "much to write back"));
  const auto refused = Cut("second", id);
  dm_.faults.Clear();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable) << refused.error().message();
  EXPECT_FALSE(AnySuspended());
  EXPECT_TRUE(UntilLvs(3)) << "store, volume and the first snapshot";
  EXPECT_EQ(Now().SnapshotById(snapshot)->tags.mapped, kChunk);
}

TEST_F(ThinSnapshotTest, AKillAtEveryStepLeavesNothingOrASnapshot) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "content", 0);
  for (const std::string verb : {"CreateThin", "ChangeTags"}) {
    for (fakes::Faults* const faults : {&lvm_.before, &lvm_.after}) {
      SCOPED_TRACE(fmt::format("{} {}", verb, faults == &lvm_.before ? "before" : "after"));
      const int nth = verb == "ChangeTags" && !Now().stores.front().tags.cuts ? 2 : 1;
      faults->FailNth(verb, nth, Error(Code::kTimeout, "killed"));
      (void)Cut("nightly", id);
      lvm_.before.Clear();
      lvm_.after.Clear();
      Restart();
      const std::string snapshot = MustCut("nightly", id);
      ASSERT_TRUE(UntilLvs(3)) << "store, volume and snapshot";
      DeleteSnapshot(snapshot);
      ASSERT_TRUE(UntilLvs(2));
      EXPECT_EQ(Read(id, 0, 7), "content");
    }
  }
}

TEST_F(ThinSnapshotTest, AnEraserOfANewProcessBeginsAgain) {
  const std::string id = Make("one", 10);
  Activate(id);
  Write(id, "old", 0);
  const std::string snapshot = MustCut("nightly", id);
  Write(id, "new", 0);
  (void)ChunksUsed();
  const auto own = ExclusiveOf(snapshot);
  FillData();
  erase_.faults.FailAlways("Zero", Error(Code::kIo, "the disk is unwell"));
  DeleteSnapshot(snapshot);
  EXPECT_TRUE(Eventually([&] { return erase_.faults.Calls("Zero") >= 1; }));
  EXPECT_EQ(LvCount(), 3U);
  erase_.faults.Clear();
  Restart();
  ASSERT_TRUE(UntilLvs(2));
  EXPECT_EQ(ErasedData(), own);
}

TEST_F(ThinSnapshotTest, ADeviceThatACutHasLostIsRemoved) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "content", 0);
  const std::string snapshot = MustCut("nightly", id);
  ASSERT_TRUE(dm_.SendToPool(PoolUuid(), dm::DeleteThin{IdOf(snapshot)}).has_value());
  DeleteSnapshot(snapshot);
  EXPECT_TRUE(UntilLvs(2));
}

// LVM is to remove a snapshot that shared chunks, whose device had to go first, and fails.
TEST_F(ThinSnapshotTest, OneThatHasLostItsDeviceBeforeItsRemovalFailedIsRemoved) {
  const std::string id = Make("one", 5);
  Activate(id);
  Write(id, "content", 0);
  const std::string snapshot = MustCut("nightly", id);
  LeaveMessage();
  lvm_.before.FailNth("Remove", 1, Error(Code::kTimeout, "LVM failed"));
  DeleteSnapshot(snapshot);
  EXPECT_TRUE(UntilLvs(2));
  EXPECT_EQ(lvm_.before.Calls("Remove"), 2);
}

class GroupSnapshotTest : public ThinSnapshotTest {
 protected:
  void SetUp() override {
    for (const char* const name : {"one", "two", "three"}) {
      ids_.push_back(Make(name, 2));
      Activate(ids_.back());
      Write(ids_.back(), "before", 0);
    }
  }
  Result<GroupSnapshot> CutGroup(const std::string& name = "group") {
    return engine_->group_snapshots().Create({.name = name, .sources = ids_}, Soon());
  }
  size_t Listed() { return engine_->snapshots().List({}, 0, "", Soon())->snapshots.size(); }
  static std::vector<std::string> IdsOf(const GroupSnapshot& group) {
    std::vector<std::string> out;
    for (const VolumeSnapshot& one : group.members) {
      out.push_back(one.id);
    }
    return out;
  }

  std::vector<std::string> ids_;
};

TEST_F(GroupSnapshotTest, AllMembersAreCutAndEndTogether) {
  EXPECT_TRUE(engine_->group_snapshots().AreOffered());
  const auto group = CutGroup();
  ASSERT_TRUE(group.has_value()) << group.error().message();
  EXPECT_FALSE(AnySuspended());
  ASSERT_EQ(group->members.size(), 3U);
  for (const VolumeSnapshot& member : group->members) {
    EXPECT_EQ(member.group, group->id);
    EXPECT_EQ(member.cut, group->members.front().cut);
  }
  Write(ids_[0], "after!", 0);
  const auto again = CutGroup();
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(IdsOf(*again), IdsOf(*group));
  EXPECT_EQ(Listed(), 3U);
  for (const VolumeSnapshot& member : group->members) {
    if (member.source == ids_[0]) {
      const std::string copy = MustCopy("copy", {member.id, true});
      Activate(copy);
      EXPECT_EQ(Read(copy, 0, 6), "before");
    }
  }
  const auto alone = engine_->snapshots().Delete(group->members.front().id, Soon());
  ASSERT_FALSE(alone.has_value());
  EXPECT_EQ(alone.error().code(), Code::kInvalidArgument) << "it goes with its group";
  auto got = engine_->group_snapshots().Get(group->id, IdsOf(*group), Soon());
  ASSERT_TRUE(got.has_value()) << got.error().message();
  EXPECT_EQ(IdsOf(*got), IdsOf(*group));
  EXPECT_EQ(engine_->group_snapshots().Get(group->id, {group->members.front().id}, Soon()).error().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(engine_->group_snapshots().Delete(group->id, {group->members.front().id}, Soon()).error().code(),
            Code::kInvalidArgument);
  const auto deleted = engine_->group_snapshots().Delete(group->id, IdsOf(*group), Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_TRUE(*deleted);
  const auto twice = engine_->group_snapshots().Delete(group->id, IdsOf(*group), Soon());
  ASSERT_TRUE(twice.has_value()) << twice.error().message();
  EXPECT_FALSE(*twice);
  EXPECT_EQ(engine_->group_snapshots().Get(group->id, {}, Soon()).error().code(), Code::kNotFound);
  EXPECT_TRUE(UntilLvs(5)) << "store, three volumes and the copy";
}

TEST_F(GroupSnapshotTest, BadInputIsNamed) {
  const auto create = [&](std::vector<std::string> sources, Parameters parameters = {}) {
    return engine_->group_snapshots().Create(
        {.name = "bad", .sources = std::move(sources), .parameters = std::move(parameters)}, Soon());
  };
  EXPECT_EQ(create({}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(create({ids_[0], ids_[0]}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(create({ids_[0], "default.q234567"}).error().code(), Code::kNotFound);
  EXPECT_EQ(create(ids_, {{"type", "linear"}}).error().code(), Code::kInvalidArgument);
  const auto thick = CreateThick();
  ASSERT_TRUE(thick.has_value());
  const auto mixed = create({ids_[0], thick->volume.id});
  ASSERT_FALSE(mixed.has_value());
  EXPECT_EQ(mixed.error().code(), Code::kPrecondition);
  EXPECT_THAT(mixed.error().message(), HasSubstr("source_volume_ids[1]"));
  std::vector<std::string> many;
  for (size_t i = 0; i <= GroupSnapshots::kMost; ++i) {
    many.push_back(fmt::format("default.q23456{}", i));
  }
  const auto too_many = create(many);
  ASSERT_FALSE(too_many.has_value());
  EXPECT_EQ(too_many.error().code(), Code::kPrecondition);
  EXPECT_THAT(too_many.error().message(), HasSubstr("33 volumes are named; a group can have 32"));
  const std::string far = lvm::VolumeId("default", lvm::NewLvName(), lvm::NodeHash("node-2"));
  const auto elsewhere = create({ids_[0], far});
  ASSERT_FALSE(elsewhere.has_value());
  EXPECT_EQ(elsewhere.error().code(), Code::kPrecondition) << elsewhere.error().message();
  EXPECT_THAT(elsewhere.error().message(), HasSubstr("source_volume_ids[1]"));
  EXPECT_EQ(Listed(), 0U);
  ASSERT_TRUE(CutGroup().has_value());
  ids_.pop_back();
  EXPECT_EQ(CutGroup().error().code(), Code::kAlreadyExists) << "of other volumes";
}

TEST_F(GroupSnapshotTest, AMemberThatThisBuildCannotReadIsNeitherGoneNorDeleted) {
  const auto made = CutGroup();
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const std::string lv = lvm::ParseVolumeId(made->members.back().id)->lv_name;
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    for (lvm::LogicalVolume& one : group.lvs) {
      if (one.name == lv) {
        std::erase_if(one.tags, [](const std::string& tag) { return tag.starts_with("quarry.size="); });
      }
    }
  });
  const size_t lvs = LvCount();
  const auto got = engine_->group_snapshots().Get(made->id, {}, Soon());
  const auto again = CutGroup();
  const auto deleted = engine_->group_snapshots().Delete(made->id, {}, Soon());
  for (const Error* const error : {&got.error(), &again.error(), &deleted.error()}) {
    EXPECT_EQ(error->code(), Code::kPrecondition) << error->message();
    EXPECT_THAT(error->message(), HasSubstr("vg0/" + lv));
  }
  EXPECT_EQ(LvCount(), lvs);
}

TEST_F(GroupSnapshotTest, MembersOfTwoStoresAreRefused) {
  stores_.push_back(Store("second", 20));
  Restart();
  const auto there = Create("there", 2, {{"store", "second"}});
  ASSERT_TRUE(there.has_value()) << there.error().message();
  const size_t lvs = LvCount();
  ids_.push_back(there->volume.id);
  const auto refused = CutGroup();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("source_volume_ids[3]"));
  EXPECT_THAT(refused.error().message(), HasSubstr("in another thin store than the others"));
  EXPECT_EQ(LvCount(), lvs);
  EXPECT_EQ(Listed(), 0U);
  EXPECT_FALSE(AnySuspended());
}

TEST_F(GroupSnapshotTest, AnotherPoolThatIsLostKeepsNoGroupFromItsLife) {
  lvm_.AddGroup("vg-lost", kExtent, {{"/dev/lost", Extents{10}}});
  more_pools_ = {{.name = "lost", .group = "vg-lost"}};
  Restart();
  lvm_.SetAway("vg-lost", true);
  const auto made = CutGroup();
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const auto again = CutGroup();
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(IdsOf(*again), IdsOf(*made));
  const auto got = engine_->group_snapshots().Get(made->id, IdsOf(*made), Soon());
  ASSERT_TRUE(got.has_value()) << got.error().message();
  const auto listed = [&](const SnapshotFilter& filter) {
    return engine_->snapshots().List(filter, 0, "", Soon());
  };
  const auto one = listed({.id = made->members.front().id});
  ASSERT_TRUE(one.has_value()) << one.error().message();
  EXPECT_EQ(one->snapshots.size(), 1U);
  EXPECT_EQ(listed({}).error().code(), Code::kUnavailable) << "a list of all needs every pool";
  const auto unknown =
      engine_->group_snapshots().Get(GroupIdOf(lvm::VolumeId("lost", lvm::NewLvName(), "")), {}, Soon());
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code(), Code::kUnavailable) << "that pool may have it";
  const auto deleted = engine_->group_snapshots().Delete(made->id, IdsOf(*made), Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_TRUE(*deleted);
}

TEST_F(GroupSnapshotTest, AFailureLeavesNoMember) {
  for (const int nth : {1, 2, 3}) {
    SCOPED_TRACE(nth);
    dm_.faults.FailNth("Suspend", nth, Error(Code::kIo, "unwell"));
    EXPECT_FALSE(CutGroup().has_value());
    dm_.faults.Clear();
    EXPECT_FALSE(AnySuspended());
    EXPECT_TRUE(UntilLvs(4));
    EXPECT_EQ(Listed(), 0U);
  }
  // The commits that make members ready.
  ASSERT_TRUE(CutGroup("first").has_value());
  for (const int nth : {1, 2, 3}) {
    SCOPED_TRACE(nth);
    lvm_.before.FailNth("ChangeTags", nth, Error(Code::kTimeout, "killed"));
    EXPECT_FALSE(CutGroup("second").has_value());
    lvm_.before.Clear();
    EXPECT_EQ(Listed(), 3U);
    EXPECT_TRUE(UntilLvs(7));
  }
}

TEST_F(GroupSnapshotTest, AKillBeforeTheLastMemberIsReadyLeavesNone) {
  ASSERT_TRUE(CutGroup("first").has_value());
  for (const int nth : {1, 2, 3}) {
    SCOPED_TRACE(nth);
    lvm_.before.FailNth("ChangeTags", nth, Error(Code::kTimeout, "killed"));
    lvm_.before.FailAlways("Deactivate", Error(Code::kTimeout, "killed"));
    lvm_.before.FailAlways("Activate", Error(Code::kTimeout, "killed"));
    (void)CutGroup("second");
    lvm_.before.Clear();
    Restart();
    EXPECT_EQ(Listed(), 3U);
    EXPECT_TRUE(UntilLvs(7));
  }
  ASSERT_TRUE(CutGroup("second").has_value());
  EXPECT_EQ(Listed(), 6U);
}

// Nobody deletes the others because an administrator has removed one.
TEST_F(GroupSnapshotTest, WhatIsLeftOfAGroupIsKept) {
  const auto group = CutGroup();
  ASSERT_TRUE(group.has_value());
  const std::string leader = lvm::ParseVolumeId(LeaderOf(group->id))->lv_name;
  ASSERT_TRUE(lvm_.Apply(lvm::RemoveLvs{"vg0", {leader}, 0, true}, Soon()).has_value());
  Restart();
  EXPECT_EQ(Listed(), 2U);
  EXPECT_TRUE(UntilLvs(6));
  const auto again = CutGroup();
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), Code::kPrecondition) << again.error().message();
  EXPECT_TRUE(group->whole);
  const auto rest = engine_->group_snapshots().Get(group->id, {}, Soon());
  ASSERT_TRUE(rest.has_value()) << rest.error().message();
  EXPECT_EQ(rest->members.size(), 2U);
  EXPECT_FALSE(rest->whole);
  const auto all = engine_->group_snapshots().Get(group->id, IdsOf(*group), Soon());
  ASSERT_TRUE(all.has_value()) << all.error().message();
  EXPECT_FALSE(all->whole);
  EXPECT_EQ(engine_->group_snapshots().Get(group->id, {IdsOf(*rest).front()}, Soon()).error().code(),
            Code::kInvalidArgument);
  for (const VolumeSnapshot& member : group->members) {
    if (member.id != LeaderOf(group->id)) {
      DeleteSnapshot(member.id);
    }
  }
  EXPECT_TRUE(UntilLvs(4));
}

}  // namespace
}  // namespace quarry::engine
