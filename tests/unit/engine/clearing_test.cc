// Nobody's old bytes: what raw volumes are made of, and grow onto, reads as zeroes before they are visible.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "lvm/snapshot.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent{4 * 1024 * 1024};

class ClearingTest : public testing::Test {
 protected:
  ClearingTest() {
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}},
                   {"/dev/b", Extents{100}},
                   {"/dev/c", Extents{100}},
                   {"/dev/d", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    Restart();
  }
  ~ClearingTest() override { erase_.OnPiece(nullptr); }

  void Restart() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "p", .group = "vg0"}}},
                                       World{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->Start(Soon()).has_value());
  }
  static Call Soon(int ms = 20000) { return CallWithin(milliseconds(ms)); }

  Result<CreateResult> Create(const std::string& name, uint64_t extents, Parameters parameters = {},
                              AccessType access = AccessType::kBlock, int ms = 20000) {
    return engine_->Create({.name = name,
                            .range = {Bytes{extents * kExtent.value}, {}},
                            .capabilities = {{.access = access}},
                            .parameters = std::move(parameters)},
                           Soon(ms));
  }
  lvm::Snapshot Group() { return *lvm_.Read("vg0", Soon()); }
  size_t Pieces() { return erase_.Pieces().size(); }

  // Every extent of data that the volume has: of its legs, or its own.
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
    ASSERT_TRUE(engine_->Delete(id, Soon()).has_value());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!Group()->lvs.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    ASSERT_TRUE(Group()->lvs.empty());
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(ClearingTest, RawVolumesOfEveryTypeAreMadeOfClearedExtents) {
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
        engine_->Expand(made->volume.id, {Bytes{24 * kExtent.value}, {}}, std::nullopt, Soon());
    ASSERT_TRUE(grown.has_value()) << grown.error().message();
    EXPECT_GE(grown->size, Bytes{24 * kExtent.value});
    EXPECT_TRUE(IsClear(made->volume.id)) << i << ", grown";
  }
}

TEST_F(ClearingTest, WhatHoldsTheExtentsMeanwhileIsNoVolume) {
  std::atomic<bool> seen = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) {
    EXPECT_TRUE(engine_->List(0, "", Soon())->volumes.empty());
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
  EXPECT_EQ(engine_->List(0, "", Soon())->volumes.size(), 1U);
}

TEST_F(ClearingTest, FileSystemsAndVolumesThatOptOutAreNotKeptWaiting) {
  ASSERT_TRUE(Create("fs", 10, {}, AccessType::kMount).has_value());
  ASSERT_TRUE(Create("none", 10, {{"erase", "none"}}).has_value());
  EXPECT_EQ(Pieces(), 0U);
  ASSERT_TRUE(Create("discard", 10, {{"erase", "discard"}}).has_value());
  EXPECT_GT(Pieces(), 0U) << "others' bytes are not for a volume to show whose own may be left";
}

TEST_F(ClearingTest, WhatADeletionClearedIsNotClearedAgain) {
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

TEST_F(ClearingTest, WhatSomebodyElseMayHaveHadIsClearedAgain) {
  const auto made = Create("one", 10);
  DeleteAndWait(made->volume.id);
  erase_.Forget();
  lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});  // an LV came and went, for all that we know
  lvm_.Edit("vg0", [](lvm::VolumeGroup&) {});
  const auto again = Create("two", 10);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(IsClear(again->volume.id));
}

TEST_F(ClearingTest, ADiscardOrNoErasureLeavesExtentsOfUnknownPast) {
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

TEST_F(ClearingTest, ALongClearingIsUnavailableAndARepeatJoinsIt) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  const auto early = Create("big", 50, {{"type", "raid1"}}, AccessType::kBlock, 800);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), Code::kUnavailable);
  EXPECT_NE(early.error().message().find("being cleared"), std::string::npos) << early.error().message();
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

TEST_F(ClearingTest, WhatWasTakenFromUsWhileItWasClearedIsClearedAgain) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  EXPECT_EQ(Create("one", 10, {}, AccessType::kBlock, 800).error().code(), Code::kUnavailable);
  const lvm::Snapshot group = Group();
  ASSERT_EQ(group->lvs.size(), 1U);
  ASSERT_TRUE(lvm_.Remove("vg0", {group->lvs.front().name}, Soon()).has_value());
  go = true;
  go.notify_all();
  const auto made = Create("one", 10);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(Pieces(), 2U) << "the second time for extents that somebody may have had in between";
}

TEST_F(ClearingTest, OthersAreServedWhileOneIsBeingCleared) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  EXPECT_EQ(Create("big", 50, {}, AccessType::kBlock, 800).error().code(), Code::kUnavailable);
  EXPECT_TRUE(Create("fs", 10, {}, AccessType::kMount).has_value());
  go = true;
  go.notify_all();
  engine_.reset();
}

TEST_F(ClearingTest, AFailureToClearIsTheCallersAndTheNextCallBeginsAnew) {
  erase_.faults.FailNth("Erase", 1, Error(Code::kIo, "bad disk"));
  const auto failed = Create("one", 10);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Code::kIo);
  EXPECT_TRUE(Group()->lvs.empty());
  const auto made = Create("one", 10);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_TRUE(IsClear(made->volume.id));
}

TEST_F(ClearingTest, KilledAmidClearingTheNextStartGivesTheExtentsBack) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const fakes::FakeErase::Piece&) { go.wait(false); });
  const auto volume = Create("small", 10, {{"erase", "none"}});
  EXPECT_EQ(Create("big", 50, {}, AccessType::kBlock, 800).error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->Expand(volume->volume.id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon())->size,
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

TEST_F(ClearingTest, AnotherSizeForTheSameNameGetsWhatItAsksFor) {
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

TEST_F(ClearingTest, ARaidSkipsItsSyncOnlyOverClearedExtents) {
  lvm_.SetInstantSync(false);
  const auto synced = [&](const std::string& id) {
    return Group()->FindLv(lvm::ParseVolumeId(id)->lv_name)->sync_percent.value_or(-1) == 100;
  };
  const Parameters skip = {{"type", "raid1"}, {"sync", "skip"}};
  const auto first = Create("one", 10, skip, AccessType::kMount);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_TRUE(synced(first->volume.id));
  EXPECT_TRUE(IsClear(first->volume.id));
  ASSERT_TRUE(
      engine_->Expand(first->volume.id, {Bytes{20 * kExtent.value}, {}}, std::nullopt, Soon()).has_value());
  EXPECT_TRUE(IsClear(first->volume.id)) << "it would not be synced after it was grown";
  const auto full = Create("two", 10, {{"type", "raid1"}}, AccessType::kMount);
  EXPECT_FALSE(synced(full->volume.id));
}

}  // namespace
}  // namespace quarry::engine
