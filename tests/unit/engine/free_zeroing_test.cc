// Zeroing of free space in the background.
#include <gtest/gtest.h>

#include <algorithm>
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
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kExtent{4 * 1024 * 1024};
constexpr Bytes kGroup{200 * kExtent.value};
constexpr Bytes kFast{kGiB.value * 64};

class FreeZeroingTest : public testing::Test {
 protected:
  FreeZeroingTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}});
    fakes::Follow(lvm_, dm_);
  }
  ~FreeZeroingTest() override {
    LetPiecesGo();
    erase_.OnPiece(nullptr);
  }

  struct Settings {
    Bytes erase = {}, zero_free = {}, reserve = {};
  };
  void Restart(const Settings& settings) {
    engine_.reset();
    engine_ = std::make_unique<Engine>(
        EngineConfig{.pools = {{.name = "p", .group = "vg0", .reserve = settings.reserve}},
                     .erase_rate = settings.erase,
                     .zero_free_rate = settings.zero_free},
        fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  void Start(Bytes rate) { Restart({.zero_free = rate}); }
  static Call Soon() { return CallWithin(milliseconds(20000)); }
  void HoldPieces() {
    erase_.OnPiece([this](const fakes::FakeErase::Piece&) {
      piece_is_held_ = true;
      go_.wait(false);
    });
  }
  void LetPiecesGo() {
    go_ = true;
    go_.notify_all();
  }

  lvm::Snapshot Group() { return *lvm_.Read("vg0", Soon()); }
  bool EveryByteWasZeroed() {
    const lvm::Snapshot group = Group();
    return std::ranges::all_of(group->pvs, [&](const lvm::PhysicalVolume& pv) {
      return erase_.IsZeroed(pv.uuid, pv.pe_start, ToBytes(pv.extent_count, kExtent));
    });
  }
  PoolFigures Figures() { return engine_->lifecycle().Pools(Soon())->front(); }
  int64_t Capacity() {
    return static_cast<int64_t>(engine_->volumes().Capacity({}, {}, Soon())->available.value);
  }
  static bool Eventually(const auto& holds) { return engine::Eventually(holds, std::chrono::seconds(10)); }
  bool IsAllZeroed() {
    return Eventually([&] {
      const PoolFigures now = Figures();
      return now.zeroed == now.free && now.zeroing == Bytes{};
    });
  }
  Result<CreateResult> Create(const std::string& name, Bytes size, Parameters parameters = {}) {
    return engine_->volumes().Create({.name = name,
                                      .range = {size, {}},
                                      .capabilities = {{.access = AccessType::kBlock}},
                                      .parameters = std::move(parameters)},
                                     Soon());
  }

  std::atomic<bool> go_ = false;
  std::atomic<bool> piece_is_held_ = false;  // by HoldPieces: the group is held too
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(FreeZeroingTest, IsOffByDefault) {
  Start(Bytes{});
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(Group()->seqno, 1U);
  EXPECT_EQ(Figures().zeroed, Bytes{});
}

TEST_F(FreeZeroingTest, ZeroesAllFreeSpaceSoThatACreateZeroesNothing) {
  Start(kFast);
  ASSERT_TRUE(IsAllZeroed());
  EXPECT_EQ(Figures().zeroed, kGroup);
  EXPECT_TRUE(Group()->lvs.empty()) << "what held the space is gone";
  EXPECT_TRUE(EveryByteWasZeroed());
  const size_t pieces = erase_.Pieces().size();
  const uint64_t before = Group()->seqno;
  ASSERT_TRUE(Create("one", Bytes{10 * kExtent.value}).has_value());
  EXPECT_EQ(erase_.Pieces().size(), pieces);
  EXPECT_EQ(Group()->seqno, before + 1) << "one commit";
}

// Also while one holder goes and the next one comes.
TEST_F(FreeZeroingTest, ItNeverCountsAsTaken) {
  Start(kFast);
  int64_t least = Capacity();
  ASSERT_TRUE(Eventually([&] {
    least = std::min(least, Capacity());
    return Figures().zeroed == kGroup;
  }));
  EXPECT_EQ(least, static_cast<int64_t>(kGroup.value));
}

TEST_F(FreeZeroingTest, WhatIsHeldCountsAsFreeAndIsGivenToACreateThatNeedsIt) {
  HoldPieces();
  Start(kFast);
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  EXPECT_EQ(Group()->lvs.size(), 1U);
  EXPECT_EQ(Capacity(), static_cast<int64_t>(kGroup.value));
  std::jthread later([this] {
    std::this_thread::sleep_for(milliseconds(50));
    LetPiecesGo();
  });
  const auto all = Create("all", kGroup);
  ASSERT_TRUE(all.has_value()) << all.error().message();
  EXPECT_EQ(Group()->lvs.size(), 1U) << "the volume";
  EXPECT_EQ(Capacity(), 0);
  EXPECT_TRUE(EveryByteWasZeroed());
}

// A thread that keeps to a pace lets go at once. What it has zeroed is not zeroed again.
TEST_F(FreeZeroingTest, ASlowRateDelaysNoCreate) {
  Start(Bytes{4 * kMiB.value});
  ASSERT_TRUE(Eventually([&] { return erase_.Pieces().size() >= 5; }));
  const auto begun = std::chrono::steady_clock::now();
  const auto all = Create("all", kGroup);
  ASSERT_TRUE(all.has_value()) << all.error().message();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(5000))
      << "it would take 200 s at that rate";
  EXPECT_TRUE(EveryByteWasZeroed());
  Bytes written;
  for (const auto& piece : erase_.Pieces()) {
    written = written + piece.length;
  }
  EXPECT_LT(written, kGroup + kExtent) << "whole extents that were zeroed stay known";
}

// The plan is the same as without zeroing, and the zeroing rests afterwards.
TEST_F(FreeZeroingTest, ACreateEndsItAndPlansWithAllSpace) {
  Start(Bytes{4 * kMiB.value});
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  const auto made = Create("one disk", Bytes{90 * kExtent.value}, {{"erase", "none"}});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  const lvm::Snapshot group = Group();
  ASSERT_EQ(group->lvs.size(), 1U);
  EXPECT_EQ(group->lvs.front().segments.size(), 1U) << "it lies on one disk";
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(Figures().zeroing, Bytes{});
}

// A deletion makes the eraser end the zeroing under the turn, with other work in the queues.
TEST_F(FreeZeroingTest, ErasingDoesNotKeepTheTurn) {
  ASSERT_NO_FATAL_FAILURE(Start(Bytes{}));
  const auto deleted = Create("deleted", Bytes{20 * kExtent.value});
  Restart({.erase = kMiB, .zero_free = kMiB});
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  ASSERT_TRUE(engine_->volumes().Delete(deleted->volume.id, Soon()).has_value());
  std::this_thread::sleep_for(milliseconds(100));
  const auto begun = std::chrono::steady_clock::now();
  const auto made = Create("next", Bytes{10 * kExtent.value}, {{"erase", "none"}});
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, milliseconds(10000)) << "erasing takes 80 s";
}

// The administrator keeps its name, and takes only the marker off.
TEST_F(FreeZeroingTest, AHolderWithoutItsMarkerIsNotRemoved) {
  Start(Bytes{4 * kMiB.value});
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs.front().tags.clear(); });
  const std::string name = Group()->lvs.front().name;
  ASSERT_TRUE(Create("next", Bytes{10 * kExtent.value}).has_value());
  EXPECT_NE(Group()->FindLv(name), nullptr);
}

TEST_F(FreeZeroingTest, TheReserveIsNotHeld) {
  HoldPieces();
  Restart({.zero_free = kFast, .reserve = Bytes{kGroup.value - 3 * kExtent.value}});
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  EXPECT_EQ(Figures().zeroing, Bytes{3 * kExtent.value});
}

TEST_F(FreeZeroingTest, AnOrderlyStopGivesTheSpaceBack) {
  Start(Bytes{4 * kMiB.value});
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  ASSERT_TRUE(engine_->lifecycle().Stop(Soon()).has_value());
  EXPECT_TRUE(Group()->lvs.empty());
}

TEST_F(FreeZeroingTest, ADiskThatIsBeingVacatedStopsIt) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.pvs.back().tags = {std::string(lvm::kLeavingTag)}; });
  Start(kFast);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(erase_.Pieces().empty());
}

TEST_F(FreeZeroingTest, ShareAndLargestDoNotCountWhatIsHeld) {
  HoldPieces();
  Start(kFast);
  ASSERT_TRUE(Eventually([&] { return Figures().zeroing > Bytes{}; }));
  const auto raid1 = engine_->volumes().Capacity({}, {{"type", "raid1"}}, Soon());
  EXPECT_EQ(raid1->available, Bytes{99 * kExtent.value}) << "one extent of each disk is metadata";
}

// As after a kill: the file that an orderly stop leaves is not there.
TEST_F(FreeZeroingTest, TheNextStartRemovesWhatAKilledQuarrydHeld) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    lvm::LogicalVolume holder{.name = lvm::NewLvName(), .uuid = "holder", .size = kExtent};
    holder.independent = true;
    holder.tags = {std::string(lvm::kCreatingTag)};
    holder.segment_type = "linear";
    holder.segments = {{.type = "linear",
                        .logical = {Extents{0}, Extents{1}},
                        .areas = {{group.pvs.front().uuid, "", {Extents{0}, Extents{1}}}}}};
    group.lvs.push_back(std::move(holder));
  });
  Start(Bytes{});
  EXPECT_TRUE(Group()->lvs.empty());
}

TEST_F(FreeZeroingTest, AMissingDiskStopsIt) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.pvs.back().missing = true; });
  Start(kFast);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE(Group()->lvs.empty());
  EXPECT_TRUE(erase_.Pieces().empty());
}

TEST_F(FreeZeroingTest, AHolderThatAnotherProgramTookIsNotRemoved) {
  HoldPieces();
  Start(kFast);
  ASSERT_TRUE(Eventually([&] { return piece_is_held_.load(); }));
  std::jthread administrator([this] {
    lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
      group.lvs.front().name = "theirs";
      group.lvs.front().tags.clear();
    });
  });
  EXPECT_TRUE(Eventually([&] { return lvm_.IsWaitedFor("vg0"); }));
  LetPiecesGo();
  administrator.join();
  EXPECT_TRUE(Eventually([&] { return Figures().zeroing == Bytes{}; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_NE(Group()->FindLv("theirs"), nullptr);
  EXPECT_LT(Figures().free, kGroup);
}

}  // namespace
}  // namespace quarry::engine
