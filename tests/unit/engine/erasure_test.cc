// Deletion's second half: how far it is survives, disks are cleared side by side, and nothing is cleared that
// is not the deleted volume's any more.
#include "engine/erasure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

EraseAction Piece(const std::string& pv, uint64_t offset, uint64_t length) {
  return {{.device = "/dev/" + pv, .pv_uuid = pv, .offset = {offset}, .length = {length}}, {}};
}

TEST(PartsOf, AreDiskByDiskFromItsStartToItsEnd) {
  const auto parts = PartsOf({Piece("b", 10, 5), Piece("a", 30, 5), Piece("b", 0, 5), Piece("a", 0, 9)});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].pv_uuid, "a");
  EXPECT_EQ(parts[0].total(), Bytes{14});
  EXPECT_EQ(parts[0].pieces[0].range.offset, Bytes{0});
  EXPECT_EQ(parts[1].device, "/dev/b");
  EXPECT_EQ(parts[1].pieces[1].range.offset, Bytes{10});
}

TEST(Progress, IsReadBackForTheSameExtentsOnly) {
  const auto parts = PartsOf({Piece("a", 0, 100), Piece("b", 0, 100)});
  const std::vector<Bytes> none(2);
  const std::vector<Bytes> done = {{100}, {42}};
  const std::string text = ProgressText(parts, done);
  EXPECT_EQ(ParseProgress(parts, text), done);
  EXPECT_EQ(ParseProgress(PartsOf({Piece("a", 0, 100), Piece("b", 1, 100)}), text), none) << "it was moved";
  for (const std::string& bad : {std::string(), text + ":1", text.substr(0, text.size() - 3), text + "x",
                                 text + "0000", std::string("0:0"), text.substr(0, 16)}) {
    EXPECT_EQ(ParseProgress(parts, bad), none) << bad;
  }
}

TEST(ErasureTest, GoesOnWhereItWasAndStopsForAFailure) {
  const auto parts = PartsOf({Piece("a", 0, 100), Piece("a", 200, 100)});
  Erasure erasure({}, ErasePolicy::kZero, parts, {{130}}, {});
  EXPECT_EQ(erasure.Next(0, {50})->range.offset, Bytes{230});
  EXPECT_EQ(erasure.Next(0, {50})->range.length, Bytes{50});
  EXPECT_EQ(erasure.Next(0, {500})->range.length, Bytes{70}) << "no further than the piece";
  erasure.Advance(0, {70});
  EXPECT_FALSE(erasure.Next(0, {500}).has_value());
  EXPECT_FALSE(erasure.Finished());
  erasure.Leave();
  EXPECT_TRUE(erasure.Finished());
  EXPECT_FALSE(erasure.Failure().has_value());

  Erasure failing({}, ErasePolicy::kZero, parts, {{0}}, {});
  failing.Fail(Error(Code::kIo, "first"));
  failing.Fail(Error(Code::kIo, "second"));
  EXPECT_FALSE(failing.Next(0, {1}).has_value());
  EXPECT_EQ(failing.Failure()->message(), "first");
}

class ErasingTest : public testing::Test {
 protected:
  static constexpr uint64_t kExtentsPerGib = 256;

  ErasingTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value},
                  {{"/dev/a", Extents{41 * kExtentsPerGib}}, {"/dev/b", Extents{41 * kExtentsPerGib}}});
    fakes::Follow(lvm_, dm_);
    Restart();
  }
  void Restart() {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.erase_rate = rate_;
    engine_ = std::make_unique<Engine>(config, World{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }
  // 40 GiB fill a disk.
  std::string Create(const std::string& name, Bytes size) {
    const auto made =
        engine_->Create({.name = name, .range = {size, {}}, .capabilities = {{}}, .parameters = {}}, Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  void Delete(const std::string& id) {
    const auto deleted = engine_->Delete(id, Soon());
    ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  }
  size_t LvCount() { return (*lvm_.Read("vg0", Soon()))->lvs.size(); }
  static bool Eventually(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!holds() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    return holds();
  }
  std::string ErasedTagOf(size_t lv) {
    const auto group = *lvm_.Read("vg0", Soon());
    if (lv >= group->lvs.size()) {
      return "";
    }
    const auto& tags = group->lvs[lv].tags;
    const auto tag =
        std::ranges::find_if(tags, [](const auto& t) { return t.starts_with("quarry.erased="); });
    return tag == tags.end() ? "" : *tag;
  }

  Bytes rate_;
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(ErasingTest, AfterARestartOnlyWhatIsMissingIsClearedAgain) {
  const std::string id = Create("big", Bytes{40 * kGiB.value});
  // The 30th piece does not end until it is let go: the disk is slow, and the process is killed meanwhile.
  std::mutex mutex;
  std::condition_variable changed;
  bool held = true;
  int count = 0;
  erase_.OnPiece([&](const auto&) {
    std::unique_lock lock(mutex);
    if (++count == 30) {
      changed.wait(lock, [&] { return !held; });
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return !ErasedTagOf(0).empty(); })) << "16 GiB are worth a commit";
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "killed"));
  {
    const std::lock_guard lock(mutex);
    held = false;
    changed.notify_all();
  }
  engine_.reset();
  const size_t before = erase_.Pieces().size();
  ASSERT_GE(before, 16U);
  erase_.faults.Clear();
  erase_.OnPiece(nullptr);
  Restart();
  ASSERT_TRUE(Eventually([&] { return LvCount() == 0; }));
  const auto pieces = erase_.Pieces();
  EXPECT_LE(pieces.size() - before, 24U) << "16 of 40 were known to be clear";
  EXPECT_GE(pieces.size(), 40U);
  const Bytes start = pieces[0].offset;
  EXPECT_TRUE(erase_.IsZeroed(pieces[0].pv_uuid, start, Bytes{40 * kGiB.value})) << "and all is";
}

TEST_F(ErasingTest, DisksAreClearedSideBySide) {
  const std::string one = Create("one", Bytes{40 * kGiB.value});
  const std::string other = Create("other", Bytes{40 * kGiB.value});
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> begun;
  bool together = false;
  erase_.OnPiece([&](const auto& piece) {
    std::unique_lock lock(mutex);
    begun.insert(piece.pv_uuid);
    changed.notify_all();
    together = changed.wait_for(lock, std::chrono::seconds(20), [&] { return begun.size() == 2; });
  });
  Delete(one);
  Delete(other);
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_TRUE(together) << "neither waited for the other";
}

TEST_F(ErasingTest, WhatIsDoneTogetherIsRemovedByOneCommand) {
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(Create("v" + std::to_string(i), kGiB));
  }
  // Nothing can be cleared before all are deleted; after a restart the first round begins them all.
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "not yet"));
  for (const std::string& id : ids) {
    Delete(id);
  }
  engine_.reset();
  erase_.faults.Clear();
  // Whoever removes is slower than those who clear.
  std::atomic<int> removals = 0;
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Remove") {
      ++removals;
      (void)Eventually([&] { return erase_.Pieces().size() >= ids.size(); });
    }
  });
  Restart();
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_LE(removals, 2);
}

TEST_F(ErasingTest, NothingIsClearedThatSomebodyElseHasGot) {
  const std::string id = Create("big", Bytes{40 * kGiB.value});
  std::atomic<int> pieces = 0;
  erase_.OnPiece([&](const auto&) {
    if (++pieces == 3) {  // an administrator's lvremove, and lvcreate
      lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
        group.lvs.front().name = "theirs";
        group.lvs.front().uuid = "theirs-uuid";
        group.lvs.front().tags.clear();
      });
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return pieces >= 3; }));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(LvCount(), 1U);
  engine_.reset();  // before what its disks look at
}

TEST_F(ErasingTest, UnderARateThePiecesAreSmall) {
  rate_ = Bytes{uint64_t{100} * kGiB.value};
  Restart();
  Delete(Create("fast", Bytes{4 * kGiB.value}));
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(erase_.Pieces().size(), 4U) << "a piece is never more than 1 GiB";

  rate_ = Bytes{uint64_t{2} * kGiB.value};
  Restart();
  Delete(Create("slow", kGiB));
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(erase_.Pieces().size(), 6U) << "a quarter of a second's worth each";
  EXPECT_EQ(erase_.Pieces().back().length, Bytes{kGiB.value / 2});
}

TEST_F(ErasingTest, WhoLacksRoomIsToldHowLongItWillTake) {
  const std::string id = Create("one", Bytes{40 * kGiB.value});
  Create("other", Bytes{40 * kGiB.value});
  std::mutex mutex;
  std::condition_variable changed;
  bool held = true;
  std::atomic<int> pieces = 0;
  erase_.OnPiece([&](const auto&) {
    std::unique_lock lock(mutex);
    if (++pieces == 2) {  // of one the speed is known
      changed.wait(lock, [&] { return !held; });
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return pieces >= 2; }));
  const auto refused = engine_->Create(
      {.name = "next", .range = {Bytes{40 * kGiB.value}, {}}, .capabilities = {{}}, .parameters = {}},
      Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
  EXPECT_NE(refused.error().message().find("in some"), std::string::npos) << refused.error().message();
  {
    const std::lock_guard lock(mutex);
    held = false;
    changed.notify_all();
  }
  engine_.reset();  // before what its disks wait for
}

}  // namespace
}  // namespace quarry::engine
