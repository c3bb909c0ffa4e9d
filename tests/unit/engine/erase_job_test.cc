// The second half of deletion: progress survives a restart, disks are erased side by side, and nothing is
// erased that no longer belongs to the deleted volume.
#include "engine/erase/erase_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <set>
#include <thread>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

EraseAction Piece(const std::string& pv, uint64_t offset, uint64_t length) {
  return {{.device = "/dev/" + pv, .pv_uuid = pv, .offset = {offset}, .length = {length}}, {}};
}

TEST(PartsOf, GroupsPiecesByDiskInAscendingOrder) {
  const auto parts = PartsOf({Piece("b", 10, 5), Piece("a", 30, 5), Piece("b", 0, 5), Piece("a", 0, 9)});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].pv_uuid, "a");
  EXPECT_EQ(parts[0].total(), Bytes{14});
  EXPECT_EQ(parts[0].pieces[0].range.offset, Bytes{0});
  EXPECT_EQ(parts[1].device, "/dev/b");
  EXPECT_EQ(parts[1].pieces[1].range.offset, Bytes{10});
}

TEST(Progress, IsValidForTheSameExtentsOnly) {
  const auto parts = PartsOf({Piece("a", 0, 100), Piece("b", 0, 100)});
  const std::vector<Bytes> none(2);
  const std::vector<Bytes> done = {{100}, {42}};
  const std::string text = ProgressText(parts, done);
  EXPECT_EQ(ParseProgress(parts, text), done);
  EXPECT_EQ(ParseProgress(PartsOf({Piece("a", 0, 100), Piece("b", 1, 100)}), text), none)
      << "the volume was moved";
  for (const std::string& bad : {std::string(), text + ":1", text.substr(0, text.size() - 3), text + "x",
                                 text + "0000", std::string("0:0"), text.substr(0, 16)}) {
    EXPECT_EQ(ParseProgress(parts, bad), none) << bad;
  }
}

TEST(EraseJobTest, ContinuesWhereItWasAndStopsAtAFailure) {
  const auto parts = PartsOf({Piece("a", 0, 100), Piece("a", 200, 100)});
  EraseJob erasure({}, {}, parts, {{130}}, {});
  EXPECT_EQ(erasure.Next(0, {50})->range.offset, Bytes{230});
  EXPECT_EQ(erasure.Next(0, {50})->range.length, Bytes{50});
  EXPECT_EQ(erasure.Next(0, {500})->range.length, Bytes{70}) << "no further than the piece";
  erasure.Advance(0, {70});
  EXPECT_FALSE(erasure.Next(0, {500}).has_value());
  EXPECT_FALSE(erasure.Finished());
  erasure.Leave();
  EXPECT_TRUE(erasure.Finished());
  EXPECT_FALSE(erasure.Failure().has_value());

  EraseJob failing({}, {}, parts, {{0}}, {});
  failing.Fail(Error(Code::kIo, "first"));
  failing.Fail(Error(Code::kIo, "second"));
  EXPECT_FALSE(failing.Next(0, {1}).has_value());
  EXPECT_EQ(failing.Failure()->message(), "first");
}

// Superblocks that read as zeroes, unless `written` is set.
class FakeSuperblocks final : public dm::RaidLegsApi {
 public:
  Result<dm::RaidSuperblock> Read(const dm::EraseRange&) override {
    if (!written) {
      return Error(Code::kNotFound, "zeroes");
    }
    return dm::RaidSuperblock{.legs = 2, .failed = {false, false}};
  }
  Result<dm::RaidBitmap> ReadBitmap(const dm::EraseRange&) override { return dm::RaidBitmap(); }
  Status Write(const dm::EraseRange&, const dm::RaidSuperblock&, const dm::RaidStart&) override {
    return Error(Code::kInternal, "no test writes one");
  }
  std::atomic<bool> written = false;
};

class EraserTest : public testing::Test {
 protected:
  static constexpr uint64_t kExtentsPerGib = 256;
  static constexpr Bytes kExtentSize{4 * kMiB.value};

  EraserTest() {
    lvm_.AddGroup("vg0", kExtentSize,
                  {{"/dev/a", Extents{41 * kExtentsPerGib}}, {"/dev/b", Extents{41 * kExtentsPerGib}}});
    fakes::Follow(lvm_, dm_);
    Restart();
  }
  void Restart() {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.erase_rate = rate_;
    const fakes::FakeWorld world{
        .lvm = lvm_, .dm = dm_, .erase = erase_, .mount = mount_, .clock = clock_, .raid_legs = superblocks_};
    engine_ = std::make_unique<Engine>(config, world, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }
  // 40 GiB fill a disk.
  std::string Create(const std::string& name, Bytes size, const Parameters& parameters = {}) {
    const auto made = engine_->volumes().Create(
        {.name = name, .range = {size, {}}, .capabilities = {{}}, .parameters = parameters}, Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  void Delete(const std::string& id) {
    const auto deleted = engine_->volumes().Delete(id, Soon());
    ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  }
  Bytes Zeroed() const {
    Bytes sum;
    for (const auto& piece : erase_.Pieces()) {
      sum = sum + piece.length;
    }
    return sum;
  }
  size_t LvCount() { return (*lvm_.Read("vg0", Soon()))->lvs.size(); }
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
  FakeSuperblocks superblocks_;
  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(EraserTest, ARestartErasesOnlyTheUnrecordedRest) {
  const std::string id = Create("big", Bytes{40 * kGiB.value});
  // After 20 GiB the disk becomes slow, and then the process is killed.
  std::atomic<uint64_t> cleared = 0;
  erase_.OnPiece([&](const auto& piece) {
    if ((cleared += piece.length.value) > 20 * kGiB.value) {
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return !ErasedTagOf(0).empty(); })) << "16 GiB are worth a commit";
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "killed"));
  engine_.reset();
  const Bytes before = Zeroed();
  ASSERT_GE(before, Bytes{16 * kGiB.value});
  erase_.faults.Clear();
  erase_.OnPiece(nullptr);
  Restart();
  ASSERT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_LE(Zeroed() - before, Bytes{24 * kGiB.value}) << "16 of 40 GiB were recorded as erased";
  const auto first = erase_.Pieces().front();
  EXPECT_TRUE(erase_.IsZeroed(first.pv_uuid, first.offset, Bytes{40 * kGiB.value}))
      << "everything is erased in the end";
}

// Hours of erasing must not be repeated for it.
TEST_F(EraserTest, ErasingWaitsForADiskThatIsSilentForAMoment) {
  const std::string id = Create("big", Bytes{40 * kGiB.value});
  const std::string pv = (*lvm_.Read("vg0", Soon()))
                             ->FindLv(lvm::ParseVolumeId(id)->lv_name)
                             ->segments.front()
                             .areas.front()
                             .pv_uuid;
  std::atomic<uint64_t> cleared = 0;
  std::atomic<bool> silent = false;
  erase_.OnPiece([&](const auto& piece) {
    if ((cleared += piece.length.value) > kGiB.value && !silent.exchange(true)) {
      lvm_.SetSilent(pv, true);
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return silent.load(); }));
  std::this_thread::sleep_for(milliseconds(50));
  const Bytes before = Zeroed();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(Zeroed(), before);
  lvm_.SetSilent(pv, false);
  ASSERT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(Zeroed(), Bytes{40 * kGiB.value}) << "nothing twice";
}

// The kernel has written superblocks, and may have rebuilt a leg from a leg that was not erased yet.
TEST_F(EraserTest, ARaidActivatedMeanwhileIsErasedFromItsBeginning) {
  const std::string id = Create("mirror", kGiB, {{"type", "raid1"}});
  const Bytes all = Bytes{2 * kGiB.value} + Bytes{2 * kExtentSize.value};
  bool once = false;
  std::mutex mutex;
  Bytes cleared;
  erase_.OnPiece([&](const auto& piece) {
    const std::lock_guard lock(mutex);
    cleared = cleared + piece.length;
    superblocks_.written = cleared == all && !std::exchange(once, cleared == all);
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(Zeroed(), all + all);
}

TEST_F(EraserTest, DisksAreErasedSideBySide) {
  const std::string one = Create("one", Bytes{40 * kGiB.value});
  const std::string other = Create("other", Bytes{40 * kGiB.value});
  // Nothing can be erased before both are deleted.
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "not yet"));
  Delete(one);
  Delete(other);
  engine_.reset();
  erase_.faults.Clear();
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
  Restart();
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_TRUE(together) << "neither waited for the other";
}

TEST_F(EraserTest, VolumesDoneTogetherAreRemovedByOneCommand) {
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(Create("v" + std::to_string(i), kGiB));
  }
  // Nothing can be erased before all are deleted. After a restart the first round begins all of them.
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "not yet"));
  for (const std::string& id : ids) {
    Delete(id);
  }
  engine_.reset();
  erase_.faults.Clear();
  // Removing is slower than erasing.
  std::atomic<int> removals = 0;
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Remove") {
      ++removals;
      (void)Eventually([&] { return Zeroed() >= Bytes{ids.size() * kGiB.value}; });
    }
  });
  Restart();
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_LE(removals, 2);
}

// While the third piece is written, an administrator's command waits for LVM's lock, and gets it before the
// fourth piece.
TEST_F(EraserTest, ErasingStopsWhenAnAdministratorTakesTheExtents) {
  const std::string id = Create("big", Bytes{40 * kGiB.value});
  std::atomic<int> pieces = 0;
  std::atomic<bool> waits = false;
  std::thread administrator;
  erase_.OnPiece([&](const auto&) {
    if (++pieces == 3) {
      administrator = std::thread([&] {
        lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {  // lvremove, and lvcreate
          group.lvs.front().name = "theirs";
          group.lvs.front().uuid = "theirs-uuid";
          group.lvs.front().tags.clear();
        });
      });
      waits = Eventually([&] { return lvm_.IsWaitedFor("vg0"); });
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return waits.load(); }));
  administrator.join();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(LvCount(), 1U);
  engine_.reset();  // ends before the variables that OnPiece uses
}

// pvmove of the whole disk during an erasure: extents of other volumes lie below pvmove0 as well.
TEST_F(EraserTest, ExtentsThatAreBeingMovedAreNotErased) {
  const std::string id = Create("big", Bytes{40 * kGiB.value});
  std::atomic<int> pieces = 0;
  std::atomic<bool> waits = false;
  std::thread administrator;
  erase_.OnPiece([&](const auto&) {
    if (++pieces == 2) {
      administrator = std::thread([&] {
        lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
          lvm::LogicalVolume& ours = group.lvs.front();
          lvm::LogicalVolume move{
              .name = "pvmove0", .uuid = "pvmove-uuid", .hidden = true, .size = ours.size};
          move.segment_type = "mirror";
          move.segments = ours.segments;
          move.segments.front().type = "mirror";
          ours.segments.front().areas = {{"", "pvmove0", ours.segments.front().logical}};
          group.lvs.push_back(std::move(move));
        });
      });
      waits = Eventually([&] { return lvm_.IsWaitedFor("vg0"); });
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return waits.load(); }));
  administrator.join();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(pieces, 2);
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {  // undoes the move, as pvmove --abort does
    group.lvs.front().segments.front().areas = {group.lvs.back().segments.front().areas.front()};
    group.lvs.pop_back();
  });
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; })) << "erasing continues";
  engine_.reset();
}

TEST_F(EraserTest, ASnapshotOfADeletedVolumeIsNotRemovedWithIt) {
  const std::string id = Create("one", kGiB);
  erase_.faults.FailAlways("Erase", Error(Code::kIo, "not yet"));
  Delete(id);
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    lvm::LogicalVolume snapshot{.name = "backup", .uuid = "backup-uuid", .size = kExtentSize};
    snapshot.segment_type = "linear";
    snapshot.origin = group.lvs.front().name;
    snapshot.segments = {{.type = "linear",
                          .logical = {{0}, {1}},
                          .areas = {{group.pvs.front().uuid, "", {Extents{41 * kExtentsPerGib - 1}, {1}}}}}};
    group.lvs.push_back(std::move(snapshot));
  });
  engine_.reset();
  erase_.faults.Clear();
  Restart();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(LvCount(), 2U);
  EXPECT_TRUE(erase_.Pieces().empty()) << "the LVM snapshot shares these extents";
}

TEST_F(EraserTest, PiecesAreSmallAndSmallerUnderARateLimit) {
  Restart();
  Delete(Create("fast", Bytes{4 * kGiB.value}));
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(erase_.Pieces().size(), 65U) << "one of 16 MiB to learn how fast the disk is, then of 64 MiB";

  erase_.Forget();
  rate_ = Bytes{uint64_t{32} * kMiB.value};
  Restart();
  Delete(Create("slow", Bytes{16 * kMiB.value}));
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(erase_.Pieces().size(), 2U) << "a quarter of a second's worth each";
}

TEST_F(EraserTest, ASlowDiskGetsSmallPieces) {
  erase_.OnPiece([](const auto& piece) {  // 16 MiB a second
    std::this_thread::sleep_for(milliseconds(piece.length.value * 1000 / (16 * kMiB.value)));
  });
  Delete(Create("one", Bytes{40 * kMiB.value}));
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  const auto pieces = erase_.Pieces();
  EXPECT_GE(pieces.size(), 4U);
  for (size_t i = 1; i < pieces.size(); ++i) {
    EXPECT_LE(pieces[i].length, Bytes{8 * kMiB.value}) << "half a second's worth";
  }
}

TEST_F(EraserTest, ADiskThatCannotDiscardGetsZeroes) {
  erase_.SetCanDiscard(false);
  const auto made = engine_->volumes().Create(
      {.name = "one", .range = {kGiB, {}}, .capabilities = {{}}, .parameters = {{"erase", "discard"}}},
      Soon());
  ASSERT_TRUE(made.has_value()) << made.error().message();
  Delete(made->volume.id);
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  const auto first = erase_.Pieces().front();
  EXPECT_TRUE(erase_.IsZeroed(first.pv_uuid, first.offset, kGiB));
}

TEST_F(EraserTest, ExtentsThatAnotherDeviceMapsAreNotErased) {
  const std::string id = Create("one", kGiB);
  dm_.AddDevice("somebody-elses", "stale", kGiB);
  for (const char* path : {"/dev/a", "/dev/b"}) {
    dm_.SetMappings("somebody-elses", path, {{Bytes{500 * kMiB.value}, Bytes{512}}});
  }
  Delete(id);
  EXPECT_TRUE(Eventually([&] { return Zeroed() > Bytes{400 * kMiB.value}; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_LE(Zeroed(), Bytes{500 * kMiB.value});
  EXPECT_EQ(LvCount(), 1U);
  ASSERT_TRUE(dm_.RemoveDevice("somebody-elses").has_value());
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
}

TEST_F(EraserTest, ProbeNamesTheDiskOfAStuckWrite) {
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const auto&) { go.wait(false); });
  Delete(Create("one", kGiB));
  const auto words = [&] {
    const auto ready = engine_->lifecycle().Probe(Soon());
    return ready.has_value() ? ready->message : "";
  };
  EXPECT_EQ(words(), "");
  EXPECT_TRUE(Eventually([&] { return !words().empty(); }));
  EXPECT_NE(words().find("LVM commands that change volume group vg0"), std::string::npos) << words();
  EXPECT_NE(words().find("/dev/"), std::string::npos) << words();
  go = true;
  go.notify_all();
  EXPECT_TRUE(Eventually([&] { return LvCount() == 0; }));
  EXPECT_EQ(words(), "");
}

TEST_F(EraserTest, ACreateWithoutSpaceIsToldHowLongErasingTakes) {
  const std::string id = Create("one", Bytes{40 * kGiB.value});
  Create("other", Bytes{40 * kGiB.value});
  std::mutex mutex;
  std::condition_variable changed;
  bool held = true;
  std::atomic<int> pieces = 0;
  erase_.OnPiece([&](const auto&) {
    std::unique_lock lock(mutex);
    if (++pieces == 2) {  // after one piece the rate is known
      changed.wait(lock, [&] { return !held; });
    }
  });
  Delete(id);
  ASSERT_TRUE(Eventually([&] { return pieces >= 2; }));
  const auto refused = engine_->volumes().Create(
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
  engine_.reset();  // ends before the variables that OnPiece uses
}

}  // namespace
}  // namespace quarry::engine
