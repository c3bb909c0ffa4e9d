// The gate: nothing is written below device-mapper without proof at that moment.
#include "engine/plan/proven_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/erase/disk_queue.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr Bytes kExtent{4 * 1024 * 1024};
constexpr const char* kTag = "quarry.erasing";

// "ours" lies on the first ten extents of a disk and "theirs" on the next ten. "raid" has a leg on each of
// two other disks.
class GateTest : public testing::Test {
 protected:
  GateTest() {
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
      group.lvs.push_back(Linear("ours", group.pvs[0].uuid, 0, 10));
      group.lvs.back().tags = {kTag};
      group.lvs.push_back(Linear("theirs", group.pvs[0].uuid, 10, 10));
      lvm::LogicalVolume raid = Linear("raid", "", 0, 10);
      raid.segment_type = raid.segments.front().type = "raid1";
      raid.segments.front().areas.clear();
      raid.tags = {kTag};
      for (size_t leg = 0; leg < 2; ++leg) {
        const std::string data = "raid_rimage_" + std::to_string(leg);
        raid.segments.front().areas.push_back({"", data, {{0}, {10}}});
        for (lvm::LogicalVolume part : {Linear(lvm::MetadataLvName(data), group.pvs[leg + 1].uuid, 0, 1),
                                        Linear(data, group.pvs[leg + 1].uuid, 1, 10)}) {
          part.hidden = true;
          group.lvs.push_back(std::move(part));
        }
      }
      group.lvs.push_back(std::move(raid));
    });
  }
  static lvm::LogicalVolume Linear(const std::string& name, const std::string& pv, uint64_t first,
                                   uint64_t count) {
    lvm::LogicalVolume lv{.name = name, .uuid = name + "-uuid", .size = {count * kExtent.value}};
    lv.segment_type = "linear";
    lv.segments = {
        {.type = "linear", .logical = {{0}, {count}}, .areas = {{pv, "", {Extents{first}, Extents{count}}}}}};
    return lv;
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }
  lvm::Snapshot Now() { return *lvm_.Read("vg0", Soon()); }
  Owner OwnerNamed(const std::string& name) { return OwnerOf(*Now(), *Now()->FindLv(name), kTag); }
  // Extents of a disk.
  EraseAction Piece(size_t disk, uint64_t first, uint64_t count,
                    dm::EraseMethod method = dm::EraseMethod::kZero) {
    const auto group = Now();
    return {{.device = group->pvs[disk].device,
             .pv_uuid = group->pvs[disk].uuid,
             .offset = kMiB + ToBytes({first}, kExtent),
             .length = ToBytes({count}, kExtent)},
            method};
  }
  // The error text, after checking that nothing was written.
  std::string Refused(const Owner& owner, const EraseAction& piece, Code code = Code::kUnavailable) {
    const size_t before = erase_.Pieces().size();
    const auto done = ClearOwned(world_, owner, piece, Soon());
    EXPECT_EQ(erase_.Pieces().size(), before);
    EXPECT_FALSE(done.has_value());
    if (done.has_value()) {
      return "";
    }
    EXPECT_EQ(CodeName(done.error().code()), CodeName(code)) << done.error().message();
    return done.error().message();
  }
  Status WriteLeg(const std::string& metadata_lv, const dm::EraseRange& place) {
    return WriteToLeg(world_, OwnerNamed("raid"), metadata_lv, place, Soon(), [&] {
      ++written_;
      return Ok();
    });
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  World world_ = fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_};
  Logger log_{LogLevel::kError, LogFormat::kText};
  int written_ = 0;
};

TEST_F(GateTest, ExtentsOfTheVolumeAloneAreErased) {
  EXPECT_EQ(ClearOwned(world_, OwnerNamed("ours"), Piece(0, 0, 10), Soon()).value(), dm::EraseMethod::kZero);
  EXPECT_EQ(ClearOwned(world_, OwnerNamed("ours"), Piece(0, 9, 1), Soon()).value(), dm::EraseMethod::kZero);
  EXPECT_EQ(ClearOwned(world_, OwnerNamed("raid"), Piece(2, 0, 11), Soon()).value(), dm::EraseMethod::kZero);
  EXPECT_EQ(erase_.Pieces().size(), 3U);
}

TEST_F(GateTest, ExtentsBeyondTheVolumeAreNotErased) {
  EXPECT_THAT(Refused(OwnerNamed("ours"), Piece(0, 9, 2)), HasSubstr("moved to other extents"));
  EXPECT_THAT(Refused(OwnerNamed("ours"), Piece(0, 10, 1)), HasSubstr("moved"));
  EXPECT_THAT(Refused(OwnerNamed("ours"), Piece(1, 0, 1)), HasSubstr("moved"));
  EraseAction half = Piece(0, 9, 1);
  half.range.offset = half.range.offset + Bytes{512};
  EXPECT_THAT(Refused(OwnerNamed("ours"), half), HasSubstr("moved"));
}

TEST_F(GateTest, AVolumeThatWasReplacedIsNotErased) {
  const Owner owner = OwnerNamed("ours");
  Owner elsewhere = owner;
  elsewhere.group_uuid = "another";
  EXPECT_THAT(Refused(elsewhere, Piece(0, 0, 1)), HasSubstr("replaced by another group"));
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs[0].tags.clear(); });
  EXPECT_THAT(Refused(owner, Piece(0, 0, 1)), HasSubstr("does not have the tag"));
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    group.lvs[0].tags = {kTag};
    group.lvs[0].uuid = "made-anew";
  });
  EXPECT_THAT(Refused(owner, Piece(0, 0, 1)), HasSubstr("removed"));
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs.erase(group.lvs.begin()); });
  EXPECT_THAT(Refused(owner, Piece(0, 0, 1)), HasSubstr("removed"));
  lvm_.RemoveGroup("vg0");
  EXPECT_EQ(ClearOwned(world_, owner, {}, Soon()).error().code(), Code::kNotFound);
}

TEST_F(GateTest, AVolumeWithAnotherOnItIsNotErased) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs[1].origin = "ours"; });
  EXPECT_THAT(Refused(OwnerNamed("ours"), Piece(0, 0, 1), Code::kPrecondition), HasSubstr("snapshot of it"));
}

TEST_F(GateTest, AMissingMovedOrSilentDiskIsNotErased) {
  const Owner owner = OwnerNamed("ours");
  const EraseAction piece = Piece(0, 0, 1);
  lvm_.SetSilent(piece.range.pv_uuid, true);
  EXPECT_THAT(Refused(owner, piece, Code::kTimeout), HasSubstr("does not answer"));
  lvm_.SetSilent(piece.range.pv_uuid, false);
  EraseAction other = piece;
  other.range.device = "/dev/z";
  EXPECT_THAT(Refused(owner, other), HasSubstr("not at /dev/z"));
  lvm_.Happen("vg0", [](lvm::VolumeGroup& group) { group.pvs[0].missing = true; });
  EXPECT_THAT(Refused(owner, piece), HasSubstr("not at"));
  lvm_.Happen("vg0", [](lvm::VolumeGroup& group) { group.pvs[0].missing = false; });
  erase_.AddPv("/dev/a", "another-pv");
  EXPECT_THAT(Refused(owner, piece, Code::kCorrupt), HasSubstr("another-pv"))
      << "the disk's label has another uuid";
}

TEST_F(GateTest, ExtentsMappedByAnotherDeviceAreNotErased) {
  const Owner owner = OwnerNamed("ours");
  dm_.AddDevice("stale", "name-of-stale", kMiB);
  dm_.SetMappings("stale", "/dev/a", {{kMiB + kExtent, Bytes{512}}});
  EXPECT_THAT(Refused(owner, Piece(0, 0, 2), Code::kPrecondition), HasSubstr("name-of-stale"));
  EXPECT_TRUE(ClearOwned(world_, owner, Piece(0, 0, 1), Soon()).has_value())
      << "the other mapping lies beside the piece";
  EXPECT_TRUE(ClearOwned(world_, owner, Piece(0, 2, 1), Soon()).has_value());
  ASSERT_TRUE(dm_.RemoveDevice("stale").has_value());
  EXPECT_TRUE(ClearOwned(world_, owner, Piece(0, 0, 2), Soon()).has_value());
  dm_.faults.FailNth("MappingsOf", 1, Error(Code::kUnavailable, "no device-mapper"));
  EXPECT_THAT(Refused(owner, Piece(0, 0, 2)), HasSubstr("no device-mapper"));
}

// The kernel could overwrite zeroed extents from a leg that is not zeroed yet.
TEST_F(GateTest, AnActiveVolumeIsNotErased) {
  const Owner owner = OwnerNamed("ours");
  const std::string own = lvm::DmUuid(owner.group_uuid, owner.lv_uuid);
  dm_.AddDevice(own, "its-own", kMiB);
  dm_.SetMappings(own, "/dev/a", {{kMiB + kExtent, Bytes{512}}});
  EXPECT_THAT(Refused(owner, Piece(0, 0, 2), Code::kUnavailable), HasSubstr("activated by another process"));
}

TEST_F(GateTest, NoCommitHappensWhileAPieceIsWritten) {
  std::thread administrator;
  std::atomic<bool> done = false;
  erase_.OnPiece([&](const auto&) {
    administrator = std::thread([&] {
      EXPECT_TRUE(lvm_.Apply(lvm::RemoveLvs{"vg0", {"theirs"}, 0}, Soon()).has_value());
      done = true;
    });
    while (!lvm_.IsWaitedFor("vg0")) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(done);
  });
  EXPECT_TRUE(ClearOwned(world_, OwnerNamed("ours"), Piece(0, 0, 1), Soon()).has_value());
  administrator.join();
  EXPECT_TRUE(done);
}

TEST_F(GateTest, ASuperblockIsWrittenToItsOwnMetadataLegOnly) {
  EXPECT_TRUE(WriteLeg("raid_rmeta_0", Piece(1, 0, 1).range).has_value());
  EXPECT_EQ(written_, 1);
  EXPECT_FALSE(WriteLeg("raid_rmeta_1", Piece(1, 0, 1).range).has_value()) << "extents of the other leg";
  EXPECT_FALSE(WriteLeg("raid_rmeta_0", Piece(1, 0, 2).range).has_value()) << "extents of the leg's data";
  EXPECT_FALSE(WriteLeg("theirs", Piece(0, 10, 1).range).has_value());
  EXPECT_FALSE(WriteLeg("raid_rmeta_2", Piece(1, 0, 1).range).has_value());
  EXPECT_EQ(written_, 1);
}

TEST_F(GateTest, ASuperblockOfAnActiveOrMovingLegIsNotWritten) {
  const dm::EraseRange place = Piece(1, 0, 1).range;
  const std::string uuid = lvm::DmUuid(Now()->uuid, "raid-uuid");
  dm_.AddDevice(uuid, "vg0-raid", kMiB);
  EXPECT_EQ(WriteLeg("raid_rmeta_0", place).error().code(), Code::kPrecondition)
      << "the kernel has its own copy";
  ASSERT_TRUE(dm_.RemoveDevice(uuid).has_value());
  dm_.AddDevice("stale", "stale", kMiB);
  dm_.SetMappings("stale", place.device, {{place.offset, Bytes{512}}});
  EXPECT_EQ(WriteLeg("raid_rmeta_0", place).error().code(), Code::kPrecondition);
  ASSERT_TRUE(dm_.RemoveDevice("stale").has_value());
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {  // a pvmove of that leg
    for (lvm::LogicalVolume& lv : group.lvs) {
      if (lv.name == "raid_rmeta_0") {
        lvm::LogicalVolume move = lv;
        move.name = "pvmove0";
        lv.segments.front().areas = {{"", "pvmove0", {{0}, {1}}}};
        group.lvs.push_back(std::move(move));
        return;
      }
    }
  });
  EXPECT_EQ(WriteLeg("raid_rmeta_0", place).error().code(), Code::kUnavailable);
  EXPECT_EQ(written_, 0);
  EXPECT_TRUE(WriteLeg("raid_rmeta_1", Piece(2, 0, 1).range).has_value()) << "the other leg is not affected";
}

TEST_F(GateTest, AQueueErasesFirstWhatACallerWaitsFor) {
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    group.lvs.push_back(Linear("wanted", group.pvs[0].uuid, 50, 20));
    group.lvs.back().tags = {kTag};
    group.lvs.push_back(Linear("deleted", group.pvs[0].uuid, 20, 30));
    group.lvs.back().tags = {kTag};
  });
  const auto work = [&](const std::string& name, uint64_t first, uint64_t count) {
    return std::make_shared<EraseJob>(OwnerNamed(name), std::vector<lvm::PhysicalRange>(),
                                      PartsOf({Piece(0, first, count)}), std::vector<Bytes>(1), clock_.Now());
  };
  const auto deleted = work("deleted", 20, 30);
  const auto wanted = work("wanted", 50, 20);
  std::atomic<bool> go = false;
  erase_.OnPiece([&](const auto&) { go.wait(false); });
  DiskQueue queue(world_, log_, {}, [] {});
  queue.Add(deleted, 0, DiskQueue::Haste::kNone);
  while (erase_.Pieces().empty()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  queue.Add(wanted, 0, DiskQueue::Haste::kAwaited);
  go = true;
  go.notify_all();
  ASSERT_TRUE(wanted->WaitFinished(Soon()));
  ASSERT_TRUE(deleted->WaitFinished(Soon()));
  EXPECT_EQ(wanted->Failure(), std::nullopt);
  EXPECT_EQ(deleted->Failure(), std::nullopt);
  const auto pieces = erase_.Pieces();
  ASSERT_EQ(pieces.size(), 5U);
  const Bytes start = Piece(0, 50, 1).range.offset;
  EXPECT_EQ(pieces[0].offset, Piece(0, 20, 1).range.offset);
  EXPECT_EQ(pieces[1].offset, start);
  EXPECT_EQ(pieces[2].offset, start + Bytes{64 * kMiB.value});
  EXPECT_LT(pieces[3].offset, start);
}

}  // namespace
}  // namespace quarry::engine
