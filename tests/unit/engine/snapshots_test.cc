// Snapshots: what callers see, what is refused, what a volume that is made from one has, and what older
// builds see of it.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/model/profile.h"
#include "tests/unit/engine/copy_fixture.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent = kCopyExtent;

class SnapshotTest : public CopyFixture {
 protected:
  Result<SnapshotResult> Snap(const std::string& name, const std::string& source, Parameters parameters = {},
                              int ms = 20000) {
    return engine_->snapshots().Create({name, source, std::move(parameters)}, Soon(ms));
  }
  std::string MustSnap(const std::string& name, const std::string& source,
                       const Parameters& parameters = {}) {
    const auto made = Snap(name, source, parameters);
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->snapshot.id : "";
  }
  std::vector<VolumeSnapshot> List(const SnapshotFilter& filter = {}) {
    auto list = engine_->snapshots().List(filter, 0, "", Soon());
    EXPECT_TRUE(list.has_value()) << list.error().message();
    return list.has_value() ? list->snapshots : std::vector<VolumeSnapshot>();
  }
  std::vector<std::string> TagsOf(const std::string& id) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    return group->FindLv(lvm::ParseVolumeId(id)->lv_name)->tags;
  }
};

TEST_F(SnapshotTest, HasTheBytesOfItsInstantAndOutlivesItsVolume) {
  const std::string source = Make({.name = "one", .extents = 4});
  Write(source, "before", 0);
  Write(source, "the end", (4 * kExtent.value) - 512);
  const auto earliest = std::chrono::system_clock::now();
  const auto made = Snap("snap", source);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(made->created);
  EXPECT_EQ(made->snapshot.source, source);
  EXPECT_EQ(made->snapshot.size, Bytes{4 * kExtent.value});
  EXPECT_GE(made->snapshot.cut, earliest);
  EXPECT_LE(made->snapshot.cut, std::chrono::system_clock::now());
  Write(source, "after!", 0);
  ASSERT_TRUE(engine_->volumes().Delete(source, Soon()).has_value());

  for (const char* type : {"linear", "raid5"}) {
    const auto restored = Create({.name = std::string("restored ") + type,
                                  .extents = 6,
                                  .source = {made->snapshot.id, true},
                                  .parameters = {{"type", type}}});
    ASSERT_TRUE(restored.has_value()) << restored.error().message();
    EXPECT_EQ(restored->volume.source, (ContentSource{made->snapshot.id, true}));
    EXPECT_EQ(Read(restored->volume.id, 6, 0), "before");
    EXPECT_EQ(Read(restored->volume.id, 7, (4 * kExtent.value) - 512), "the end");
  }
  // Nor do the volumes need the snapshot.
  EXPECT_TRUE(*engine_->snapshots().Delete(made->snapshot.id, Soon()));
  EXPECT_FALSE(*engine_->snapshots().Delete(made->snapshot.id, Soon()));
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 2U);
  EXPECT_TRUE(UntilLvs(2)) << "its bytes are erased, and then it is removed";
}

TEST_F(SnapshotTest, IsNoVolume) {
  const std::string source = Make({.name = "one", .extents = 4});
  const std::string snap = MustSnap("one", source);  // names of snapshots are names of their own
  ASSERT_NE(snap, "");
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 1U);
  EXPECT_EQ(engine_->volumes().Get(snap, Soon()).error().code(), Code::kNotFound);
  EXPECT_EQ(engine_->volumes().Expand(snap, {Bytes{8 * kExtent.value}, {}}, {}, Soon()).error().code(),
            Code::kNotFound);
  EXPECT_EQ(engine_->volumes()
                .Stage({snap, Path("/stage/v"), {.access = AccessType::kBlock}}, Soon())
                .error()
                .code(),
            Code::kNotFound);
  EXPECT_FALSE(engine_->volumes().Delete(snap, Soon())->deleted) << "there is no such volume";
  EXPECT_FALSE(*engine_->snapshots().Delete(source, Soon())) << "there is no such snapshot";
  EXPECT_EQ(Create({.name = "two", .source = {snap}}).error().code(), Code::kNotFound);
  EXPECT_EQ(Create({.name = "two", .source = {source, true}}).error().code(), Code::kNotFound);
  EXPECT_EQ(List().size(), 1U);
  EXPECT_EQ(LvCount(), 2U);
  EXPECT_FALSE(dm_.Find(DmUuidOf(snap))->has_value()) << "nobody can mount it by mistake";
  const auto figures = engine_->lifecycle().Pools(Soon())->front();
  EXPECT_EQ(figures.volumes, 1U);
  EXPECT_EQ(figures.snapshots, 1U);
  const auto status = engine_->lifecycle().NodeStatus(Soon());
  EXPECT_EQ(std::ranges::count(status->front().volumes, source, &VolumeStatus::snapshot_of), 1);
}

TEST_F(SnapshotTest, ARepeatedCallGivesTheSameSnapshot) {
  const std::string source = Make({.name = "one", .extents = 4});
  const std::string other = Make({.name = "other", .extents = 4});
  const auto first = Snap("snap", source);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  const auto again = Snap("snap", source, {{"type", "raid1"}});
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_FALSE(again->created);
  EXPECT_EQ(again->snapshot.id, first->snapshot.id);
  EXPECT_EQ(again->snapshot.cut, first->snapshot.cut);
  EXPECT_EQ(Snap("snap", other).error().code(), Code::kAlreadyExists);
  Restart();
  EXPECT_EQ(Snap("snap", source)->snapshot.cut, first->snapshot.cut);
  // The volume may be gone by the time the call is repeated.
  ASSERT_TRUE(engine_->volumes().Delete(source, Soon()).has_value());
  EXPECT_EQ(Snap("snap", source)->snapshot.id, first->snapshot.id);
  EXPECT_EQ(Snap("new", source).error().code(), Code::kNotFound);
}

TEST_F(SnapshotTest, ListsAreFilteredAndPaged) {
  const std::string one = Make({.name = "one", .extents = 2});
  const std::string two = Make({.name = "two", .extents = 2});
  const std::string first = MustSnap("a", one);
  const std::string second = MustSnap("b", one);
  const std::string third = MustSnap("c", two);
  EXPECT_EQ(List().size(), 3U);
  EXPECT_EQ(List({.source = one}).size(), 2U);
  ASSERT_EQ(List({.id = third}).size(), 1U);
  EXPECT_EQ(List({.id = third}).front().name, "c");
  EXPECT_EQ(List({.id = third, .source = one}).size(), 0U);
  EXPECT_EQ(List({.id = "nothing"}).size(), 0U);
  EXPECT_EQ(List({.source = "nothing"}).size(), 0U);
  EXPECT_EQ(List({.id = one}).size(), 0U);
  std::vector<std::string> seen;
  std::string token;
  do {
    const auto page = engine_->snapshots().List({}, 1, token, Soon());
    ASSERT_TRUE(page.has_value());
    ASSERT_EQ(page->snapshots.size(), 1U);
    seen.push_back(page->snapshots.front().id);
    token = page->next_token;
  } while (!token.empty());
  std::vector<std::string> all = {first, second, third};
  std::ranges::sort(all);
  EXPECT_EQ(seen, all);
  EXPECT_EQ(engine_->snapshots().List({}, 1, "none", Soon()).error().code(), Code::kStaleToken);
  EXPECT_EQ(engine_->snapshots().Get(second, Soon())->name, "b");
  EXPECT_EQ(engine_->snapshots().Get(one, Soon()).error().code(), Code::kNotFound);
}

TEST_F(SnapshotTest, WhatCannotBeDoneIsRefusedAndLeavesNothing) {
  const std::string raw = Make({.name = "raw", .extents = 4});
  const struct {
    std::string source;
    Parameters parameters;
    Code code;
    std::string words;
  } cases[] = {
      {"default.qnothing", {}, Code::kNotFound, "source_volume_id: "},
      {"", {}, Code::kNotFound, "source_volume_id: "},
      {raw, {{"typo", "x"}}, Code::kInvalidArgument, "parameters['typo']"},
      {raw, {{"type", "raid7"}}, Code::kInvalidArgument, "parameters['type']"},
      {raw, {{"pool", "other"}}, Code::kInvalidArgument, "other"},
      {raw, {{"type", "raid6"}}, Code::kOutOfRange, "5 disks"},
  };
  for (const auto& one : cases) {
    const auto refused = Snap("snap", one.source, one.parameters);
    ASSERT_FALSE(refused.has_value()) << one.words;
    EXPECT_EQ(refused.error().code(), one.code) << refused.error().message();
    EXPECT_NE(refused.error().message().find(one.words), std::string::npos) << refused.error().message();
    EXPECT_EQ(LvCount(), 1U) << refused.error().message();
  }
  const std::string far = lvm::VolumeId("default", lvm::NewLvName(), lvm::NodeHash("node-2"));
  EXPECT_EQ(Snap("snap", far).error().code(), Code::kPrecondition);
  EXPECT_EQ(engine_->snapshots().Delete(far, Soon()).error().code(), Code::kPrecondition);
  EXPECT_EQ(engine_->snapshots().Get(far, Soon()).error().code(), Code::kPrecondition);
  EXPECT_EQ(Create({.name = "x", .source = {far, true}}).error().code(), Code::kPrecondition);
  EXPECT_EQ(Create({.name = "x", .source = {far, true}, .elsewhere = true}).error().code(), Code::kNoSpace);
  EXPECT_FALSE(*engine_->snapshots().Delete("really fake", Soon()));

  const std::string snap = MustSnap("snap", raw);
  EXPECT_EQ(Create({.name = "x", .extents = 3, .source = {snap, true}}).error().code(), Code::kOutOfRange);
  EXPECT_EQ(Create({.name = "x", .source = {snap, true}, .limit = 3}).error().code(), Code::kOutOfRange);
  EXPECT_EQ(Create({.name = "x", .source = {snap, true}, .access = AccessType::kMount}).error().code(),
            Code::kInvalidArgument);
  EXPECT_NE(Make({.name = "x", .source = {snap, true}}), "") << "every refusal has released the snapshot";
}

TEST_F(SnapshotTest, AVolumeInUseIsRefused) {
  const std::string source = Make({.name = "one", .extents = 40, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), {}}, Soon()).has_value());
  const auto refused = Snap("snap", source);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_NE(refused.error().message().find("not in use"), std::string::npos) << refused.error().message();
  EXPECT_EQ(List().size(), 0U);
  ASSERT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
  const std::string snap = MustSnap("snap", source);
  // What is restored is not formatted again.
  const std::string restored = Make({.name = "two", .source = {snap, true}, .access = AccessType::kMount});
  EXPECT_NE(mount_.ContentOf(DmUuidOf(restored)).uuid, mount_.ContentOf(DmUuidOf(source)).uuid);
  ASSERT_TRUE(engine_->volumes().Stage({restored, Path("/stage/w"), {}}, Soon()).has_value());
  EXPECT_EQ(mount_.Made().size(), 1U);
}

TEST_F(SnapshotTest, ACallThatEndsEarlierSaysHowFarItIsAndTheNextJoinsIt) {
  const std::string source = Make({.name = "one", .extents = 4});
  Write(source, "bytes", 0);
  steps_.Hold();
  const auto late = Snap("snap", source, {}, 1500);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), Code::kUnavailable);
  EXPECT_NE(late.error().message().find("are copied"), std::string::npos) << late.error().message();
  EXPECT_EQ(List().size(), 0U) << "a snapshot that is not whole is not listed";
  EXPECT_EQ(engine_->volumes().Delete(source, Soon()).error().code(), Code::kBusy);
  EXPECT_EQ(Snap("other", source).error().code(), Code::kBusy);
  steps_.LetGo();
  const auto joined = Snap("snap", source);
  ASSERT_TRUE(joined.has_value()) << joined.error().message();
  EXPECT_EQ(List().size(), 1U);

  // The snapshot is not deleted while a volume is made from it.
  steps_.Hold();
  EXPECT_EQ(Create({.name = "two", .source = {joined->snapshot.id, true}}, 1500).error().code(),
            Code::kUnavailable);
  EXPECT_EQ(engine_->snapshots().Delete(joined->snapshot.id, Soon()).error().code(), Code::kBusy);
  steps_.LetGo();
  const std::string two = Make({.name = "two", .source = {joined->snapshot.id, true}});
  EXPECT_EQ(Read(two, 5, 0), "bytes");
}

TEST_F(SnapshotTest, AnUnfinishedOneIsErasedByTheNextProcessAndByOlderBuilds) {
  const std::string source = Make({.name = "one", .extents = 4});
  steps_.Hold();
  ASSERT_EQ(Snap("snap", source, {}, 1500).error().code(), Code::kUnavailable);
  const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
  const auto unfinished = std::ranges::find_if(group->lvs, [](const lvm::LogicalVolume& lv) {
    return std::ranges::find(lv.tags, "quarry.erasing") != lv.tags.end();
  });
  ASSERT_NE(unfinished, group->lvs.end());
  // The version that all builds know.
  EXPECT_NE(std::ranges::find(unfinished->tags, "quarry.v=1"), unfinished->tags.end());
  EXPECT_EQ(std::ranges::find(unfinished->tags, "quarry.v=2"), unfinished->tags.end());
  const size_t before = erase_.Pieces().size();
  std::jthread release([&] {
    std::this_thread::sleep_for(milliseconds(300));
    steps_.LetGo();  // the stop waits for the step that is running
  });
  Restart();
  EXPECT_TRUE(UntilLvs(1));
  EXPECT_GT(erase_.Pieces().size(), before) << "what was copied is erased";

  // A whole one has the version of snapshots, so that an older build leaves it alone.
  const std::string snap = MustSnap("snap", source);
  const auto whole = TagsOf(snap);
  EXPECT_EQ(std::ranges::count(whole, "quarry.v=2"), 1);
  EXPECT_EQ(std::ranges::count(whole, "quarry.v=1"), 0);
}

TEST_F(SnapshotTest, TakesItsPropertiesFromTheVolumeUnlessTheyAreGiven) {
  const std::string source =
      Make({.name = "one", .extents = 4, .parameters = {{"type", "raid1"}, {"erase", "discard"}}});
  const auto profile_of = [&](const std::string& id) {
    return *Profile::FromCanonical((*lvm::ParseTags(TagsOf(id)))->profile);
  };
  const Profile same = profile_of(MustSnap("same", source));
  EXPECT_EQ(same.geometry.type(), lvm::VolumeType::kRaid1);
  EXPECT_EQ(same.erase, ErasePolicy::kDiscard);
  const Profile other = profile_of(
      MustSnap("other", source, {{"type", "linear"}, {"csi.storage.k8s.io/volumesnapshot/name", "x"}}));
  EXPECT_EQ(other.geometry.type(), lvm::VolumeType::kLinear);
  EXPECT_EQ(other.erase, ErasePolicy::kDiscard);
  EXPECT_EQ(profile_of(MustSnap("kept", source, {{"erase", "none"}})).geometry.type(),
            lvm::VolumeType::kRaid1);
}

// A kill may leave a snapshot active, and a scrub or a rebuild activates it. A program could mount it then.
// An administrator who has activated one is given the time to open it.
TEST_F(SnapshotTest, OneThatIsActiveForNothingIsDeactivatedByTheNextLookButOne) {
  const std::string source = Make({.name = "one", .extents = 4});
  const std::string snap = MustSnap("snap", source);
  const auto activate = [&] {
    ASSERT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg0", {lvm::ParseVolumeId(snap)->lv_name}}, Soon()).has_value());
    ASSERT_TRUE(dm_.Find(DmUuidOf(snap))->has_value());
  };
  const auto round = [&](RepairCause cause = RepairCause::kDisks) {
    ASSERT_TRUE(engine_->upkeep().Repair(cause, Soon()).has_value());
  };
  ASSERT_NO_FATAL_FAILURE(activate());
  {
    const auto open = dm_.Open(DmUuidOf(snap), O_RDONLY);
    ASSERT_NO_FATAL_FAILURE(round());
    ASSERT_NO_FATAL_FAILURE(round());
    EXPECT_TRUE(dm_.Find(DmUuidOf(snap))->has_value()) << "somebody has it open";
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(round(RepairCause::kEvent));
  }
  ASSERT_NO_FATAL_FAILURE(round());
  EXPECT_TRUE(dm_.Find(DmUuidOf(snap))->has_value()) << "it was not seen before";
  ASSERT_NO_FATAL_FAILURE(round());
  EXPECT_FALSE(dm_.Find(DmUuidOf(snap))->has_value());
  EXPECT_TRUE(dm_.Find(DmUuidOf(source))->has_value()) << "volumes stay active";
  // The legs of an active one may be under work.
  ASSERT_NO_FATAL_FAILURE(activate());
  dm_.SetRaid(DmUuidOf(snap),
              dm::RaidStatus{.type = "raid1", .legs = "Aa", .in_sync = 5, .total = 10, .action = "recover"});
  ASSERT_NO_FATAL_FAILURE(round());
  ASSERT_NO_FATAL_FAILURE(round());
  EXPECT_TRUE(dm_.Find(DmUuidOf(snap))->has_value());
}

// A reboot may have cut off the rebuild of a leg. Only an active array is rebuilt.
TEST_F(SnapshotTest, TheKernelSeesTheLegsOfRaidOnesOnceAfterAStart) {
  const std::string source = Make({.name = "one", .extents = 4});
  MustSnap("mirror", source, {{"type", "raid1"}});
  MustSnap("plain", source);
  Restart();
  std::atomic<int> activations = 0;
  lvm_.SetOnCall([&](const std::string& call) { activations += call == "Activate" ? 1 : 0; });
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine_->upkeep().Repair(RepairCause::kEvent, Soon()).has_value());
  }
  EXPECT_EQ(activations, 1);
  lvm_.SetOnCall(nullptr);
}

// Adopted volumes are for both uses, and no caller can ask for that.
TEST_F(SnapshotTest, OneOfAnAdoptedVolumeIsRestoredForOneUse) {
  const std::string source = Make({.name = "one", .extents = 40, .access = AccessType::kMount});
  ASSERT_TRUE(engine_->volumes().Stage({source, Path("/stage/v"), {}}, Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(source, Path("/stage/v"), Soon()).has_value());
  const std::string lv = lvm::ParseVolumeId(source)->lv_name;
  const auto retag = [&](std::vector<std::string> add, std::vector<std::string> remove) {
    ASSERT_TRUE(
        lvm_.Apply(lvm::ChangeTags{"vg0", lv, std::move(add), std::move(remove)}, Soon()).has_value());
  };
  ASSERT_NO_FATAL_FAILURE(retag({"quarry.access=any"}, {"quarry.access=mount"}));
  const std::string snap = MustSnap("snap", source);
  EXPECT_NE(Make({.name = "mounted", .source = {snap, true}, .access = AccessType::kMount}), "");
  const std::string raw = Make({.name = "raw", .source = {snap, true}});
  const auto tags = **lvm::ParseTags(TagsOf(raw));
  EXPECT_EQ(tags.access + tags.fs_type + tags.formatted, "block");
  EXPECT_EQ(Create({.name = "x", .source = {snap, true}, .access = AccessType::kMount, .fs_type = "xfs"})
                .error()
                .code(),
            Code::kInvalidArgument);
  // Without a file system that is known to be there, the first stage would format the copy.
  ASSERT_NO_FATAL_FAILURE(retag({}, {lvm::FormattedTag("ext4")}));
  const std::string unknown = MustSnap("unknown", source);
  EXPECT_EQ(Create({.name = "x", .source = {unknown, true}, .access = AccessType::kMount}).error().code(),
            Code::kInvalidArgument);
  EXPECT_NE(Make({.name = "also raw", .source = {unknown, true}}), "");
}

// An orchestrator asks for what it asked for before. That may be less than what it got.
TEST_F(SnapshotTest, TheSizeThatWasAskedForIsEnoughForARestore) {
  const Bytes asked{(4 * kExtent.value) - 1000};
  const auto ask = [&](const std::string& name, const ContentSource& from, Bytes size,
                       Parameters parameters) {
    CreateRequest request = RequestOf({.name = name, .source = from, .parameters = std::move(parameters)});
    request.range.required = size;
    return engine_->volumes().Create(request, Soon());
  };
  const auto source = ask("one", {}, asked, {{"type", "striped"}, {"stripes", "3"}});
  ASSERT_TRUE(source.has_value()) << source.error().message();
  ASSERT_EQ(source->volume.size, Bytes{6 * kExtent.value});
  Write(source->volume.id, "the end", (6 * kExtent.value) - 512);
  const auto snap = Snap("snap", source->volume.id);
  ASSERT_TRUE(snap.has_value()) << snap.error().message();
  EXPECT_EQ(snap->snapshot.size, asked);
  EXPECT_EQ(ask("less", {snap->snapshot.id, true}, asked - Bytes{1}, {{"type", "linear"}}).error().code(),
            Code::kOutOfRange);
  const auto restored = ask("two", {snap->snapshot.id, true}, asked, {{"type", "linear"}});
  ASSERT_TRUE(restored.has_value()) << restored.error().message();
  EXPECT_EQ(restored->volume.size, Bytes{6 * kExtent.value});
  EXPECT_EQ(Read(restored->volume.id, 7, (6 * kExtent.value) - 512), "the end");
  const auto copied = ask("three", {source->volume.id}, asked, {{"type", "linear"}});
  ASSERT_TRUE(copied.has_value()) << copied.error().message();
  EXPECT_EQ(copied->volume.size, Bytes{6 * kExtent.value});
  // After a growth, the size of the growth counts.
  const Bytes grown{(9 * kExtent.value) - 1};
  ASSERT_TRUE(engine_->volumes().Expand(source->volume.id, {grown, {}}, {}, Soon()).has_value());
  EXPECT_EQ(Snap("grown", source->volume.id)->snapshot.size, grown);
  ASSERT_TRUE(
      engine_->volumes().Expand(source->volume.id, {Bytes{12 * kExtent.value}, {}}, {}, Soon()).has_value());
  EXPECT_EQ(Snap("even", source->volume.id)->snapshot.size, Bytes{12 * kExtent.value});
}

}  // namespace
}  // namespace quarry::engine
