// No old bytes: the extents that raw volumes get, and grow onto, read as zeroes before a tenant sees them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "lvm/snapshot.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent{4 * 1024 * 1024};

class ZeroingTest : public testing::Test {
 protected:
  ZeroingTest() {
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}},
                   {"/dev/b", Extents{100}},
                   {"/dev/c", Extents{100}},
                   {"/dev/d", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    Restart();
  }
  ~ZeroingTest() override { erase_.OnPiece(nullptr); }

  void Restart(ExpandBy expand = ExpandBy::kController) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "p", .group = "vg0"}},
                                                    .memory_dir = memory_,
                                                    .erase_rate = rate_,
                                                    .expand = expand},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon(int ms = 20000) { return CallWithin(milliseconds(ms)); }

  Result<CreateResult> Create(const std::string& name, uint64_t extents, Parameters parameters = {},
                              AccessType access = AccessType::kBlock, int ms = 20000) {
    return engine_->volumes().Create({.name = name,
                                      .range = {Bytes{extents * kExtent.value}, {}},
                                      .capabilities = {{.access = access}},
                                      .parameters = std::move(parameters)},
                                     Soon(ms));
  }
  lvm::Snapshot Group() { return *lvm_.Read("vg0", Soon()); }
  size_t Pieces() { return erase_.Pieces().size(); }

  // Whether every data extent of the volume, or of its legs, reads as zeroes.
  bool IsClear(const std::string& id) {
    const lvm::Snapshot group = Group();
    const std::string name = lvm::ParseVolumeId(id)->lv_name;
    size_t seen = 0;
    for (const lvm::LogicalVolume& lv : group->lvs) {
      const bool part = lv.name == name || lv.name.starts_with(name + "_rimage_");
      for (const lvm::Segment& segment : lv.segments) {
        for (const lvm::SegmentArea& area : segment.areas) {
          if (!part || area.pv_uuid.empty()) {
            continue;
          }
          ++seen;
          if (!erase_.IsZeroed(area.pv_uuid, kMiB + ToBytes(area.range.first, kExtent),
                               ToBytes(area.range.count, kExtent))) {
            return false;
          }
        }
      }
    }
    return seen > 0;
  }
  void DeleteAndWait(const std::string& id) {
    ASSERT_TRUE(engine_->volumes().Delete(id, Soon()).has_value());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!Group()->lvs.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    ASSERT_TRUE(Group()->lvs.empty());
  }

  // Called while a piece is written: waits until another writer waits for the group.
  void AwaitWriter() {
    while (!lvm_.IsWaitedFor("vg0")) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  // As pvmove of a whole disk does it: one hidden volume lies below everything on that disk.
  static void BeginMove(lvm::VolumeGroup& group) {
    lvm::LogicalVolume& moved = group.lvs.front();
    lvm::LogicalVolume move{.name = "pvmove0", .uuid = "pvmove-uuid", .hidden = true, .size = moved.size};
    move.segment_type = "mirror";
    move.segments = moved.segments;
    move.segments.front().type = "mirror";
    lvm::SegmentArea to = move.segments.front().areas.front();
    to.pv_uuid = group.pvs.back().uuid;
    move.segments.front().areas.push_back(to);
    moved.segments.front().areas = {{"", "pvmove0", {Extents{0}, moved.segments.front().logical.count}}};
    group.lvs.push_back(std::move(move));
  }

  Bytes rate_;
  std::string memory_;
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(ZeroingTest, RawVolumesOfEveryTypeGetZeroedExtents) {
  const std::vector<Parameters> types = {{},
                                         {{"type", "striped"}},
                                         {{"type", "raid0"}},
                                         {{"type", "raid1"}},
                                         {{"type", "raid4"}},
                                         {{"type", "raid5"}, {"stripes", "3"}},
                                         {{"type", "raid10"}}};
  for (size_t i = 0; i < types.size(); ++i) {
    const auto made = Create(fmt::format("v{}", i), 12, types[i]);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_TRUE(IsClear(made->volume.id)) << i;
    const auto grown =
        engine_->volumes().Expand(made->volume.id, {Bytes{24 * kExtent.value}, {}}, std::nullopt, Soon());
    ASSERT_TRUE(grown.has_value()) << grown.error().message();
    EXPECT_GE(grown->size, Bytes{24 * kExtent.value});
    EXPECT_TRUE(IsClear(made->volume.id)) << i << ", grown";
  }
}

// As in Kubernetes: the resizer grows nothing, and kubelet calls NodeExpandVolume.
class NodeGrowthTest : public ZeroingTest {
 protected:
  NodeGrowthTest() {
    Restart(ExpandBy::kNode);
    mount_.AddDirectory("/stage/v");
    mount_.AddDirectory("/pods");
  }
  void Stage(const std::string& id, AccessType access) {
    const auto staged =
        engine_->volumes().Stage({id, *AbsolutePath::Parse("/stage/v"), {.access = access}}, Soon());
    ASSERT_TRUE(staged.has_value()) << staged.error().message();
  }
  void Publish(const std::string& id, AccessType access) {
    const auto published = engine_->volumes().Publish(
        {id, AbsolutePath::Parse("/stage/v").value(), *AbsolutePath::Parse("/pods/a"), {.access = access}},
        Soon());
    ASSERT_TRUE(published.has_value()) << published.error().message();
  }
  Result<Bytes> Grow(const std::string& id, const std::string& path, uint64_t extents, int ms = 20000) {
    return engine_->volumes().NodeExpand({id, path, "/stage/v", {Bytes{extents * kExtent.value}, {}}},
                                         Soon(ms));
  }
  Bytes SizeOf(const std::string& id) { return engine_->volumes().Get(id, Soon())->size; }
};

TEST_F(NodeGrowthTest, GrowsVolumeAndFileSystemAndNeverShrinksThem) {
  const std::string id = Create("one", 10, {}, AccessType::kMount)->volume.id;
  Stage(id, AccessType::kMount);
  EXPECT_EQ(*Grow(id, "/stage/v", 20), Bytes{20 * kExtent.value}) << "before the pod starts";
  Publish(id, AccessType::kMount);
  const auto grown = Grow(id, "/pods/a", 30);
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  EXPECT_EQ(*grown, Bytes{30 * kExtent.value});
  EXPECT_EQ(SizeOf(id), Bytes{30 * kExtent.value});
  EXPECT_EQ(mount_.FilesystemSize(lvm::DmUuid(Group()->uuid, Group()->lvs.front().uuid)),
            Bytes{30 * kExtent.value});
  EXPECT_EQ(*Grow(id, "/pods/a", 30), Bytes{30 * kExtent.value}) << "repeated";
  EXPECT_EQ(*Grow(id, "/pods/a", 20), Bytes{30 * kExtent.value});
  EXPECT_EQ(*Grow(id, "/pods/a", 0), Bytes{30 * kExtent.value}) << "without a size the volume keeps its size";
  EXPECT_EQ(SizeOf(id), Bytes{30 * kExtent.value});
}

TEST_F(NodeGrowthTest, WithoutSpaceOnlyAPublishedVolumeIsToBeRetried) {
  const std::string id = Create("one", 10, {{"type", "raid1"}}, AccessType::kMount)->volume.id;
  ASSERT_TRUE(Create("two", 90, {{"type", "raid1"}}, AccessType::kMount).has_value());
  ASSERT_TRUE(Create("three", 80, {{"type", "raid1"}}, AccessType::kMount).has_value());
  Stage(id, AccessType::kMount);
  const auto early = Grow(id, "/stage/v", 60);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), Code::kPrecondition) << early.error().message();
  Publish(id, AccessType::kMount);
  const auto late = Grow(id, "/pods/a", 60);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), Code::kNoSpace) << late.error().message();
  EXPECT_EQ(SizeOf(id), Bytes{10 * kExtent.value});
}

TEST_F(NodeGrowthTest, GrowthOfAPublishedVolumeWaitsForZeroing) {
  const std::string id = Create("raw", 10)->volume.id;
  Stage(id, AccessType::kBlock);
  Publish(id, AccessType::kBlock);
  std::atomic<bool> held = true;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    while (held) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto waits = Grow(id, "/pods/a", 20, 3000);
  held = false;
  ASSERT_FALSE(waits.has_value());
  EXPECT_EQ(waits.error().code(), Code::kUnavailable) << waits.error().message();
  const auto grown = Grow(id, "/pods/a", 20);
  ASSERT_TRUE(grown.has_value()) << grown.error().message();
  EXPECT_EQ(*grown, Bytes{20 * kExtent.value});
  EXPECT_TRUE(IsClear(id));
}

TEST_F(ZeroingTest, TheHolderOfTheExtentsIsNoVolume) {
  std::atomic<bool> seen = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    EXPECT_TRUE(engine_->volumes().List(0, "", Soon())->volumes.empty());
    const lvm::Snapshot group = Group();
    for (const lvm::LogicalVolume& lv : group->lvs) {
      EXPECT_FALSE(lv.active);
      EXPECT_EQ(lv.tags, std::vector<std::string>{std::string(lvm::kCreatingTag)});
      seen = true;
    }
  });
  ASSERT_TRUE(Create("one", 10, {{"type", "raid1"}}).has_value());
  EXPECT_TRUE(seen);
  erase_.OnPiece(nullptr);
  EXPECT_EQ(engine_->volumes().List(0, "", Soon())->volumes.size(), 1U);
}

TEST_F(ZeroingTest, FileSystemsAndVolumesThatOptOutDoNotWait) {
  ASSERT_TRUE(Create("fs", 10, {}, AccessType::kMount).has_value());
  ASSERT_TRUE(Create("none", 10, {{"erase", "none"}}).has_value());
  EXPECT_EQ(Pieces(), 0U);
  ASSERT_TRUE(Create("discard", 10, {{"erase", "discard"}}).has_value());
  EXPECT_GT(Pieces(), 0U) << "a volume whose own bytes may stay must not show old bytes of others";
}

TEST_F(ZeroingTest, ExtentsThatADeletionZeroedAreNotZeroedAgain) {
  for (const char* type : {"linear", "raid1", "striped"}) {
    const auto made = Create("one", 10, {{"type", type}});
    ASSERT_TRUE(made.has_value()) << made.error().message();
    DeleteAndWait(made->volume.id);
    const size_t before = Pieces();
    const auto again = Create("two", 10, {{"type", type}});
    ASSERT_TRUE(again.has_value()) << again.error().message();
    EXPECT_EQ(Pieces(), before) << type;
    EXPECT_TRUE(IsClear(again->volume.id));
    DeleteAndWait(again->volume.id);
  }
}

// The number of commits of one create over extents that a deletion has zeroed.
class OneCommitTest : public ZeroingTest {
 protected:
  void ClearWith(const Parameters& parameters) {
    const auto made = Create("before", 20, parameters);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    DeleteAndWait(made->volume.id);
  }
};

TEST_F(OneCommitTest, MakesAReadyVolumeUnlessItIsRaid) {
  for (const auto& [type, commits] :
       std::map<std::string, uint64_t>{{"linear", 1}, {"striped", 1}, {"raid0", 2}, {"raid1", 2}}) {
    ClearWith({{"type", type}});
    const uint64_t seqno = Group()->seqno;
    const auto made = Create("one", 10, {{"type", type}});
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(Group()->seqno - seqno, commits) << type;
    EXPECT_TRUE(IsClear(made->volume.id)) << type;
    const auto again = Create("one", 10, {{"type", type}});
    ASSERT_TRUE(again.has_value()) << again.error().message();
    EXPECT_EQ(again->volume.id, made->volume.id);
    DeleteAndWait(made->volume.id);
  }
}

TEST_F(OneCommitTest, AlsoForFileSystems) {
  ClearWith({});
  const uint64_t seqno = Group()->seqno;
  const auto made = Create("one", 10, {}, AccessType::kMount);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(Group()->seqno - seqno, 1U);
}

// Another program commits after quarryd has read the group, and before LVM has its lock. The extents may have
// been that program's in between.
TEST_F(OneCommitTest, ACommitOfAnotherProgramInBetweenIsNoticed) {
  ClearWith({});
  bool once = true;
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Create" && std::exchange(once, false)) {
      erase_.Forget();
      lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});
    }
  });
  const auto made = Create("one", 10);
  lvm_.SetOnCall(nullptr);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_FALSE(once);
  EXPECT_TRUE(IsClear(made->volume.id));
  EXPECT_EQ(Group()->lvs.size(), 1U);
}

TEST_F(OneCommitTest, WhatAFailedCreateLeftIsRemovedOrFoundAgain) {
  ClearWith({});
  lvm_.after.FailNth("Create", 1, Error(Code::kIo, "killed"));
  EXPECT_EQ(Create("one", 10).error().code(), Code::kIo);
  EXPECT_TRUE(Group()->lvs.empty());

  ClearWith({});
  lvm_.after.FailNth("Create", 1, Error(Code::kIo, "killed"));
  lvm_.before.FailNth("Remove", 1, Error(Code::kIo, "killed"));
  const auto left = Create("one", 10);
  ASSERT_FALSE(left.has_value());
  EXPECT_EQ(left.error().code(), Code::kUnavailable) << "a caller that never repeats it leaks the volume";
  lvm_.after.Clear();
  lvm_.before.Clear();
  ASSERT_EQ(Group()->lvs.size(), 1U);
  const auto found = Create("one", 10);
  ASSERT_TRUE(found.has_value()) << found.error().message();
  EXPECT_EQ(Group()->lvs.size(), 1U);
  EXPECT_TRUE(IsClear(found->volume.id));
}

// quarryd was killed before it compared the layout with its plan.
TEST_F(OneCommitTest, AVolumeWithAWrongLayoutIsNotHandedOut) {
  const Parameters striped = {{"type", "striped"}};
  ClearWith(striped);
  ASSERT_TRUE(Create("one", 10, striped).has_value());
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    auto& areas = group.lvs.front().segments.front().areas;
    areas[1] = {areas[0].pv_uuid, "", {areas[0].range.end(), areas[0].range.count}};
  });
  const auto again = Create("one", 10, striped);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), Code::kPrecondition) << again.error().message();
  EXPECT_NE(again.error().message().find("two legs on disk"), std::string::npos) << again.error().message();
}

// By an administrator; quarryd's own evacuation does the same.
TEST_F(OneCommitTest, AVolumeThatIsBeingMovedIsStillHandedOut) {
  ClearWith({});
  const auto made = Create("one", 10);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { BeginMove(group); });
  const auto again = Create("one", 10);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->volume.id, made->volume.id);
}

// A create was stuck in the kernel behind a silent disk, and its call ended. The repeated call found no
// volume. Then the disk answered, and the first command made the volume after all.
TEST_F(OneCommitTest, NoSecondVolumeOfANameIsMade) {
  for (const AccessType access : {AccessType::kBlock, AccessType::kMount}) {
    ClearWith({});
    const std::string late = fmt::format("late-{}", static_cast<int>(access));
    const auto first = Create(late, 10, {{"erase", "none"}}, access);
    ASSERT_TRUE(first.has_value()) << first.error().message();
    bool once = true;
    lvm_.SetOnCall([&](const std::string& method) {
      if (method == "Create" && std::exchange(once, false)) {
        lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
          for (std::string& tag : group.lvs.front().tags) {
            tag = tag == "quarry.name=" + late ? "quarry.name=one" : tag;
          }
        });
      }
    });
    const auto second = Create("one", 20, {}, access);
    lvm_.SetOnCall(nullptr);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code(), Code::kUnavailable) << second.error().message();
    EXPECT_NE(second.error().message().find("made meanwhile"), std::string::npos) << second.error().message();
    EXPECT_EQ(Group()->lvs.size(), 1U);
    DeleteAndWait(first->volume.id);
  }
}

class KeptTest : public OneCommitTest {
 protected:
  KeptTest() {
    std::string path = testing::TempDir() + "quarry-kept-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    memory_ = path;
    std::filesystem::create_directories(File().parent_path());
    Restart();
  }
  ~KeptTest() override { std::filesystem::remove_all(memory_); }

  std::filesystem::path File() const { return std::filesystem::path(memory_) / "vg0" / "zeroed"; }
  void StopInOrder() {
    const Status stopped = engine_->lifecycle().Stop(Soon());
    ASSERT_TRUE(stopped.has_value()) << stopped.error().message();
  }
  // Whether a create needs no zeroing.
  bool IsKnown() {
    const size_t before = Pieces();
    const auto made = Create("one", 10);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    EXPECT_TRUE(IsClear(made->volume.id));
    return Pieces() == before;
  }
};

TEST_F(KeptTest, AnOrderlyRestartForgetsNothing) {
  ClearWith({});
  StopInOrder();
  EXPECT_TRUE(std::filesystem::exists(File()));
  Restart();
  EXPECT_FALSE(std::filesystem::exists(File())) << "it is true for one start only";
  EXPECT_TRUE(IsKnown());
}

TEST_F(KeptTest, WithoutAnOrderlyStopNothingIsKnown) {
  ClearWith({});
  StopInOrder();
  Restart();
  Restart();  // as after a kill: the second start finds no file
  EXPECT_FALSE(IsKnown());
}

TEST_F(KeptTest, ACommitOfAnotherProgramMakesTheFileWorthless) {
  ClearWith({});
  StopInOrder();
  engine_.reset();
  erase_.Forget();
  lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});
  Restart();
  EXPECT_FALSE(IsKnown());
}

TEST_F(KeptTest, ADamagedFileIsNotBelieved) {
  ClearWith({});
  for (const auto& damage : std::vector<std::function<std::string(std::string)>>{
           [](const std::string& text) { return text.substr(0, text.size() - 5); },
           [](const std::string& text) { return text.substr(text.find('\n') + 1); },
           [](const std::string& text) { return text + "more\n"; },
           [](std::string text) { return text.replace(text.rfind(" "), 1, "x"); },
           [](const std::string&) { return std::string(); }}) {
    StopInOrder();
    engine_.reset();
    std::string text;
    std::getline(std::ifstream(File()), text, '\0');
    ASSERT_TRUE(text.ends_with("end\n")) << text;
    std::ofstream(File(), std::ios::trunc) << damage(text);
    erase_.Forget();
    Restart();
    EXPECT_FALSE(IsKnown()) << damage(text);
    DeleteAndWait(engine_->volumes().List(0, "", Soon())->volumes.front().id);
  }
}

TEST_F(KeptTest, ExtentsInUseAreNotInTheFile) {
  ClearWith({});
  ASSERT_TRUE(Create("uses them", 400).has_value());
  StopInOrder();
  EXPECT_FALSE(std::filesystem::exists(File()));
}

TEST_F(ZeroingTest, ExtentsThatAnotherProgramMayHaveUsedAreZeroedAgain) {
  const auto made = Create("one", 10);
  DeleteAndWait(made->volume.id);
  erase_.Forget();
  lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});  // an LV may have been created and removed
  lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});
  const auto again = Create("two", 10);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(IsClear(again->volume.id));
}

TEST_F(ZeroingTest, ExtentsThatWereDiscardedOrNotErasedAreZeroed) {
  for (const char* policy : {"discard", "none"}) {
    const auto made = Create("one", 10, {{"erase", policy}});
    DeleteAndWait(made->volume.id);
    erase_.Forget();
    const auto again = Create("two", 10);
    ASSERT_TRUE(again.has_value());
    EXPECT_TRUE(IsClear(again->volume.id)) << policy;
    DeleteAndWait(again->volume.id);
  }
}

TEST_F(ZeroingTest, ALongZeroingIsUnavailableAndARepeatedCallJoinsIt) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  const auto early = Create("big", 50, {{"type", "raid1"}}, AccessType::kBlock, 800);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), Code::kUnavailable);
  EXPECT_NE(early.error().message().find("being zeroed"), std::string::npos) << early.error().message();
  const size_t lvs = Group()->lvs.size();
  EXPECT_EQ(Create("big", 50, {{"type", "raid1"}}, AccessType::kBlock, 800).error().code(),
            Code::kUnavailable);
  EXPECT_EQ(Group()->lvs.size(), lvs) << "a repeat holds no more than the first";
  go = true;
  go.notify_all();
  const auto made = Create("big", 50, {{"type", "raid1"}});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(IsClear(made->volume.id));
  EXPECT_EQ(Group()->lvs.size(), 5U) << "the volume, two images, two metadata legs";
}

// While the first piece is written, an administrator's command waits for LVM's lock, and gets it before the
// next piece.
TEST_F(ZeroingTest, ZeroingStopsWhenAnAdministratorTakesTheExtents) {
  std::thread administrator;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    if (administrator.joinable()) {
      return;
    }
    administrator = std::thread([&] {
      lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {  // lvremove of what looks half-made, and lvcreate
        ASSERT_EQ(group.lvs.size(), 1U);
        group.lvs.front().name = "theirs";
        group.lvs.front().uuid = "theirs-uuid";
        group.lvs.front().tags.clear();
      });
    });
    AwaitWriter();
  });
  const auto failed = Create("one", 50);
  administrator.join();
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Code::kUnavailable);
  EXPECT_NE(failed.error().message().find("was removed"), std::string::npos) << failed.error().message();
  EXPECT_EQ(Pieces(), 1U) << "the rest is a volume in use";
  ASSERT_NE(Group()->FindLv("theirs"), nullptr);
  erase_.OnPiece(nullptr);
  erase_.Forget();
  const auto made = Create("one", 50);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(IsClear(made->volume.id))
      << "extents that another program may have used do not count as zeroed";
  const lvm::Snapshot group = Group();
  for (const lvm::PhysicalRange& theirs : lvm::PhysicalExtents(*group, *group->FindLv("theirs"))) {
    EXPECT_FALSE(erase_.IsZeroed(theirs.pv_uuid, kMiB + ToBytes(theirs.range.first, kExtent), kExtent));
  }
}

// pvmove of the whole disk moves the holder too.
TEST_F(ZeroingTest, ExtentsThatAreBeingMovedAreNotZeroed) {
  std::thread administrator;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    if (administrator.joinable()) {
      return;
    }
    administrator = std::thread([&] { lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { BeginMove(group); }); });
    AwaitWriter();
  });
  const auto failed = Create("one", 50);
  administrator.join();
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Code::kUnavailable);
  EXPECT_NE(failed.error().message().find("being moved"), std::string::npos) << failed.error().message();
  EXPECT_EQ(Pieces(), 1U);
}

TEST_F(ZeroingTest, ADiskIsZeroedNoFasterThanAllowed) {
  rate_ = Bytes{4 * kMiB.value};
  Restart();
  const SteadyTime begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(Create("one", 1).has_value());  // 4 MiB: four pieces
  EXPECT_EQ(Pieces(), 4U);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, milliseconds(700));
}

TEST_F(ZeroingTest, OtherCallsAreServedDuringAZeroing) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    while (!go && !lvm_.IsWaitedFor("vg0")) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_EQ(Create("big", 50, {}, AccessType::kBlock, 800).error().code(), Code::kUnavailable);
  EXPECT_TRUE(Create("fs", 10, {}, AccessType::kMount).has_value());
  go = true;
  go.notify_all();
  engine_.reset();
}

TEST_F(ZeroingTest, AFailedZeroingIsReportedAndTheNextCallRetries) {
  erase_.faults.FailNth("Erase", 1, Error(Code::kIo, "bad disk"));
  const auto failed = Create("one", 10);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Code::kIo);
  EXPECT_TRUE(Group()->lvs.empty());
  const auto made = Create("one", 10);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(IsClear(made->volume.id));
}

TEST_F(ZeroingTest, TheNextStartGivesBackExtentsOfAKilledZeroing) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    while (!go && !lvm_.IsWaitedFor("vg0")) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  const auto volume = Create("small", 10, {{"erase", "none"}});
  EXPECT_EQ(Create("big", 50, {}, AccessType::kBlock, 800).error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->volumes()
                .Expand(volume->volume.id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon())
                ->size,
            Bytes{20 * kExtent.value});
  go = true;
  go.notify_all();
  Restart();
  EXPECT_EQ(Group()->lvs.size(), 1U);
  EXPECT_EQ(Create("big", 390).error().code(), Code::kNoSpace);
  const auto made = Create("big", 50);
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(IsClear(made->volume.id));
}

// An administrator removes the volume while its growth is being zeroed.
TEST_F(ZeroingTest, ExtentsOfAGrowthAreFreeOnceTheVolumeIsGone) {
  const auto volume = Create("v", 10);
  ASSERT_TRUE(volume.has_value()) << volume.error().message();
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  EXPECT_EQ(engine_->volumes()
                .Expand(volume->volume.id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon(800))
                .error()
                .code(),
            Code::kUnavailable);
  go = true;
  go.notify_all();
  EXPECT_EQ(Group()->lvs.size(), 2U) << "the volume, and the holder of what it will get";
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    std::erase_if(group.lvs,
                  [&](const lvm::LogicalVolume& lv) { return lvm::BearsId(lv.tags, volume->volume.id); });
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!Group()->lvs.empty() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_TRUE(Group()->lvs.empty());
}

TEST_F(ZeroingTest, AnotherSizeForTheSameNameIsHonored) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  EXPECT_EQ(Create("one", 50, {}, AccessType::kBlock, 800).error().code(), Code::kUnavailable);
  go = true;
  go.notify_all();
  const auto made = Create("one", 80);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(made->volume.size, Bytes{80 * kExtent.value});
  EXPECT_TRUE(IsClear(made->volume.id));
}

TEST_F(ZeroingTest, ARaidSkipsItsSyncOnlyOverZeroedExtents) {
  lvm_.SetInstantSync(false);
  const auto synced = [&](const std::string& id) {
    return Group()->FindLv(lvm::ParseVolumeId(id)->lv_name)->sync_percent.value_or(-1) == 100;
  };
  const Parameters skip = {{"type", "raid1"}, {"sync", "skip"}};
  const auto first = Create("one", 10, skip, AccessType::kMount);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_TRUE(synced(first->volume.id));
  EXPECT_TRUE(IsClear(first->volume.id));
  ASSERT_TRUE(engine_->volumes()
                  .Expand(first->volume.id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon())
                  .has_value());
  EXPECT_TRUE(IsClear(first->volume.id)) << "the kernel does not sync the new part of a grown volume";
  const auto full = Create("two", 10, {{"type", "raid1"}}, AccessType::kMount);
  EXPECT_FALSE(synced(full->volume.id));
}

}  // namespace
}  // namespace quarry::engine
