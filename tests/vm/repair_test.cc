// Disks are pulled and returned while volumes are written to. RAID volumes lose nothing, and their missing
// legs are rebuilt elsewhere without an administrator. Returned disks rejoin the group. What exceeds the
// redundancy is reported and not touched. Needs six disks.
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/vm/disks_under_load.h"

namespace quarry::vm {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class RepairTest : public DisksUnderLoad {
 protected:
  // One volume in use, without a writer. No disk is given up during a test.
  void BeginWithPattern(const std::string& type, uint32_t pattern) {
    Start("600");
    Use(type);
    ASSERT_FALSE(HasFailure());
    WaitForTurns(4);
    ASSERT_OK(used_.front().writer->StopAndCheck());
    ASSERT_OK(WritePattern(used_.front().target, pattern, kSize));
  }
};

TEST_F(RepairTest, LegsOfAMissingDiskAreRebuiltElsewhereUnderLoad) {
  Start();
  for (const char* type : {"raid1", "raid5", "raid10", "raid6"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  // LVM's choice is the fullest disk, where most of the other volumes have a leg.
  const v1::Volume there = MustCreate({"there", TypeParameters("linear"), BlockCapability(), 16 * kMi});
  const v1::Volume elsewhere =
      MustCreate({"elsewhere", TypeParameters("linear"), MountCapability(), 900 * kMi});
  ASSERT_FALSE(HasFailure());
  const std::string node = *group().LegDevices(LvOf(there))->front().begin();
  ASSERT_FALSE(group().LegDevices(LvOf(elsewhere))->front().contains(node));
  const int lost = NumberOf(node);
  ASSERT_OK(client().Stage(there, StagingPath("l"), BlockCapability()));
  ASSERT_OK(client().Publish(there, StagingPath("l"), TargetPath("l"), BlockCapability()));
  ASSERT_OK(WritePattern(TargetPath("l"), 77, 8 << 20));

  std::set<std::string> affected;
  for (const Used& used : used_) {
    if (DevicesOf(used).contains(node)) {
      affected.insert(used.type);
    }
  }
  ASSERT_FALSE(affected.empty());
  const auto pulled = steady_clock::now();
  Pull(lost);
  std::map<std::string, double> noticed;
  EXPECT_TRUE(Eventually([&] {
    size_t left = 0;
    for (const Used& used : used_) {
      if (!affected.contains(used.type) || noticed.contains(used.type)) {
        continue;
      }
      if (IsWell(used.volume)) {
        ++left;
      } else {
        noticed[used.type] = duration<double>(steady_clock::now() - pulled).count();
      }
    }
    return left == 0 && !IsWell(there);
  })) << Conditions();
  for (const auto& [type, seconds] : noticed) {
    printf("  %s: known to be degraded %.1f s after its disk was pulled\n", type.c_str(), seconds);
  }
  EXPECT_THAT(ConditionOf(there), testing::HasSubstr("bring it back"));
  EXPECT_TRUE(IsWell(elsewhere)) << ConditionOf(elsewhere);

  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  printf("  all RAID volumes healthy again %.1f s after that, %d s of which are the delay\n",
         duration<double>(steady_clock::now() - pulled).count(), kDelay);
  ExpectLegsOnDisksOfTheirOwn();
  EXPECT_FALSE(IsWell(there)) << "no other disk has its data";
  EXPECT_TRUE(Fails(client().Create({"late"}), grpc::StatusCode::FAILED_PRECONDITION, "is missing"))
      << "LVM refuses to create while a disk is missing";

  Return(lost);
  EXPECT_TRUE(Eventually([&] { return IsWell(there); }, 120)) << ConditionOf(there) << Conditions();
  EXPECT_OK(CheckPattern(TargetPath("l"), 77, 8 << 20));
  EXPECT_OK(client().Create({"late"}));
  WaitForTurns(4);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EndAll();
  EXPECT_OK(client().Unpublish(there.volume_id(), TargetPath("l")));
  EXPECT_OK(client().Unstage(there.volume_id(), StagingPath("l")));
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

// While anything lies on a missing disk, LVM creates nothing in the whole group.
TEST_F(RepairTest, VolumesDeletedOnAMissingDiskAreErasedElsewhereAndGivenUp) {
  Start();
  const v1::Volume mirror = MustCreate({"mirror", TypeParameters("raid1"), BlockCapability(), 64 * kMi});
  const auto legs = group().LegDevices(LvOf(mirror));
  ASSERT_OK(legs);
  const std::string node = *legs->front().begin();
  ASSERT_TRUE(Tool({"lvcreate", "-y", "-n", "his", "-l", "1", kGroup, *legs->back().begin()}).ok());
  std::vector<v1::Volume> deleted = {mirror};
  // Creates linear volumes until one lies on the same disk.
  for (int i = 0; i < 12 && deleted.size() < 2; ++i) {
    const v1::Volume volume =
        MustCreate({"linear-" + std::to_string(i), TypeParameters("linear"), BlockCapability(), 512 * kMi});
    const auto where = group().LegDevices(LvOf(volume));
    ASSERT_OK(where);
    if (where->front().contains(node)) {
      deleted.push_back(volume);
    }
  }
  ASSERT_EQ(deleted.size(), 2U);
  for (const v1::Volume& volume : deleted) {
    ASSERT_OK(client().Stage(volume, StagingPath("d"), BlockCapability()));
    ASSERT_OK(client().Unstage(volume.volume_id(), StagingPath("d")));
  }
  Pull(NumberOf(node));
  ASSERT_TRUE(Eventually([&] { return !IsWell(mirror); }));
  for (const v1::Volume& volume : deleted) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
  EXPECT_TRUE(Eventually([&] { return client().Create({"late"}).ok(); }, 120))
      << Tool({"lvs", "-a", "-o", "+devices,lv_tags", kGroup}).out << Tool({"pvs"}).out;
  const std::string lvs = Tool({"lvs", "-a", kGroup}).out;
  for (const v1::Volume& volume : deleted) {
    EXPECT_THAT(lvs, testing::Not(testing::HasSubstr(LvOf(volume))));
  }
  EXPECT_TRUE(Tool({"lvs", std::string(kGroup) + "/his"}).ok()) << "an unmanaged volume was removed too";
  EXPECT_TRUE(Tool({"lvremove", "-y", std::string(kGroup) + "/his"}).ok());
  const int lost = std::stoi(*pulled_.begin());
  Return(lost);
  EXPECT_TRUE(
      Sh("wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m vg " + DiskNode(lost)).ok());
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

// Nobody uses a snapshot, so its array is not active. Its legs were in sync when it was made.
TEST_F(RepairTest, SnapshotsAreRebuiltElsewhereToo) {
  Start();
  const v1::Volume source = MustCreate({"source", TypeParameters("linear"), BlockCapability(), 32 * kMi});
  ASSERT_OK(WritePattern(NodeOf(source), 41, 32 * kMi));
  std::map<std::string, v1::Snapshot> snapshots;  // by type
  for (const char* type : {"raid1", "raid5"}) {
    const auto made = client().Snapshot(type, source.volume_id(), TypeParameters(type));
    ASSERT_OK(made);
    snapshots[type] = made.value.snapshot();
  }
  ASSERT_OK(client().Delete(source.volume_id()));
  ASSERT_TRUE(Eventually([&] { return !group().Lvs()->contains(LvOf(source)); }));
  const auto legs = group().LegDevices(LvNameIn(snapshots["raid1"].snapshot_id()));
  ASSERT_OK(legs);
  const int lost = NumberOf(*legs->front().begin());
  Pull(lost);
  // Once the disk is given up.
  EXPECT_TRUE(Eventually([&] { return client().Create({"late"}).ok(); }, 120))
      << Tool({"lvs", "-a", "-o", "+devices,lv_tags", kGroup}).out << Tool({"pvs"}).out;
  for (const auto& [type, snapshot] : snapshots) {
    VolumeSpec spec{"from " + type, TypeParameters("linear"), BlockCapability(), 32 * kMi};
    spec.snapshot = snapshot.snapshot_id();
    const v1::Volume restored = MustCreate(spec);
    ASSERT_FALSE(HasFailure());
    EXPECT_OK(CheckPattern(NodeOf(restored), 41, 32 * kMi)) << type;
    EXPECT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  }
  Return(lost);
  EXPECT_TRUE(
      Sh("wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m vg " + DiskNode(lost)).ok());
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

TEST_F(RepairTest, ADiskThatReturnsInTimeRejoinsWithItsLegs) {
  Start("600");
  for (const char* type : {"raid1", "raid5"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int lost = BusiestDisk();
  Pull(lost);
  ASSERT_TRUE(Eventually([&] { return !AllWell(); }));
  WaitForTurns(4);
  Return(lost);
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
  // Again, with a commit while the disk is missing: LVM keeps calling it missing until vgextend
  // --restoremissing.
  const v1::Volume deleted = MustCreate({"deleted", TypeParameters("linear"), BlockCapability(), 4 * kMi});
  Pull(lost);
  ASSERT_TRUE(Eventually([&] { return !AllWell(); }));
  EXPECT_OK(client().Delete(deleted.volume_id()));
  WaitForTurns(4);
  Return(lost);
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
  WaitForTurns(4);
  const std::string node = DiskNode(lost);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EXPECT_TRUE(std::ranges::any_of(used_, [&](const Used& used) { return DevicesOf(used).contains(node); }))
      << "the disk has its legs again";
  EndAll();
}

// Two disks of a raid5 are missing: pulled at the same time, or one after the other with all of the volume
// rewritten in between. Nothing is rebuilt from the remaining leg. After both return, the data are as they
// were last.
class BeyondRedundancyTest : public RepairTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Repair, BeyondRedundancyTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "OneAfterTheOther" : "AtOnce"; });

TEST_P(BeyondRedundancyTest, NothingIsTouchedAndTheDataReturnWithTheDisks) {
  ASSERT_NO_FATAL_FAILURE(BeginWithPattern("raid5", 5));
  Used& used = used_.front();
  const std::set<std::string> devices = DevicesOf(used);
  // The kernel uses the bitmap of the first leg that it takes. That leg must be one that missed the last
  // writes.
  const auto legs = group().LegDevices(LvOf(used.volume));
  ASSERT_OK(legs);
  const std::vector<int> lost = {NumberOf(*legs->at(1).begin()), NumberOf(*legs->at(0).begin())};
  uint32_t pattern = 5;
  if (GetParam()) {
    Pull(lost[0]);
    ASSERT_TRUE(Eventually([&] { return !IsWell(used.volume); }));
    ASSERT_OK(WritePattern(used.target, ++pattern, kSize)) << "the writer does not notice one missing leg";
  } else {
    quarryd().Signal(SIGSTOP);  // both disks are gone before quarryd looks
    Pull(lost[0]);
  }
  Pull(lost[1]);
  quarryd().Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return ConditionOf(used.volume).find("bring") != std::string::npos; }))
      << ConditionOf(used.volume);
  EXPECT_FALSE(CheckPattern(used.target, pattern, kSize).has_value());
  EXPECT_FALSE(WritePattern(used.target, 99, kSize).has_value());
  EXPECT_EQ(quarryd().Log().find("rebuild legs"), std::string::npos);
  Return(lost[0]);
  Return(lost[1]);
  // The superblocks record that these legs have failed, so the kernel does not start the array by itself.
  EXPECT_TRUE(Eventually([&] { return ConditionOf(used.volume).find("has stopped") != std::string::npos; }))
      << Conditions();
  EXPECT_EQ(quarryd().Log().find("start again"), std::string::npos) << "the volume is open";
  EXPECT_EQ(DevicesOf(used).size(), devices.size()) << "a leg was rebuilt elsewhere";

  EXPECT_OK(client().Unpublish(used.volume.volume_id(), used.target));
  EXPECT_OK(client().Unstage(used.volume.volume_id(), StagingPath(used.type)));
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
  ASSERT_OK(client().Stage(used.volume, StagingPath(used.type), BlockCapability()));
  ASSERT_OK(client().Publish(used.volume, StagingPath(used.type), used.target, BlockCapability()));
  EXPECT_OK(CheckPattern(used.target, pattern, kSize));
  ExpectNoMismatch(used);
  End(used);
  used_.clear();
}

// The kernel keeps bitmaps behind its superblocks and writes both at the same time, so after a power cut a
// superblock may be newer than its bitmap. Then the kernel rebuilds nothing of a returned leg, and calls the
// leg in sync.
TEST_F(RepairTest, ABitmapOlderThanItsArrayIsNotTrusted) {
  ASSERT_NO_FATAL_FAILURE(BeginWithPattern("raid5", 5));
  Used& used = used_.front();
  const auto legs = group().LegDevices(LvOf(used.volume));
  ASSERT_OK(legs);
  const std::string first = *legs->at(0).begin();
  const int lost = NumberOf(*legs->at(1).begin());
  Pull(lost);
  ASSERT_TRUE(Eventually([&] { return !IsWell(used.volume); }));
  ASSERT_OK(WritePattern(used.target, 6, kSize));
  EXPECT_OK(client().Unpublish(used.volume.volume_id(), used.target));
  EXPECT_OK(client().Unstage(used.volume.volume_id(), StagingPath(used.type)));
  ASSERT_TRUE(Tool({"lvchange", "-an", std::string(kGroup) + "/" + LvOf(used.volume)}).ok());
  Return(lost);
  // The event count in the bitmap of the first leg.
  const std::string metadata = std::string(kGroup) + "/" + LvOf(used.volume) + "_rmeta_0";
  const std::string place = Trim(
      Tool({"lvs", "-a", "--noheadings", "--nosuffix", "--units", "b", "-o", "seg_pe_ranges", metadata}).out);
  const size_t colon = place.rfind(':');
  ASSERT_EQ(place.substr(0, colon), first) << place;
  const auto number = [&](const char* field) {
    return std::stoull(
        Trim(Tool({"pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", field, first}).out));
  };
  const uint64_t at =
      number("pe_start") + std::stoull(place.substr(colon + 1)) * number("vg_extent_size") + 4096 + 24;
  ASSERT_TRUE(Sh("printf '\\001\\0\\0\\0\\0\\0\\0\\0' | dd of=" + first + " bs=8 count=1 seek=" +
                 std::to_string(at) + " oflag=seek_bytes conv=notrunc,fsync status=none")
                  .ok());

  ASSERT_OK(client().Stage(used.volume, StagingPath(used.type), BlockCapability()));
  ASSERT_OK(client().Publish(used.volume, StagingPath(used.type), used.target, BlockCapability()));
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
  ExpectNoMismatch(used);
  EXPECT_OK(CheckPattern(used.target, 6, kSize));
  End(used);
  used_.clear();
}

// Resources that must not grow without limit.
struct InUse {
  size_t descriptors = 0;
  size_t threads = 0;
  size_t resident_kib = 0;
  size_t devices = 0;  // device-mapper's, on the whole node
};

InUse Count(pid_t process) {
  const auto entries = [](const std::string& folder) {
    return static_cast<size_t>(std::ranges::distance(std::filesystem::directory_iterator(folder)));
  };
  const std::string proc = "/proc/" + std::to_string(process);
  return {.descriptors = entries(proc + "/fd"),
          .threads = entries(proc + "/task"),
          .resident_kib = std::stoul(Sh("awk '/^VmRSS:/ { print $2 }' " + proc + "/status").out),
          .devices = std::stoul(Sh("dmsetup ls | grep -c :").out)};
}

// On demand (QUARRY_REPLUG_SECONDS): the entry `replug` runs it for ten minutes.
TEST_F(RepairTest, DisksPulledAndReturnedManyTimesLeaveNothingBehind) {
  const char* const seconds = std::getenv("QUARRY_REPLUG_SECONDS");
  if (seconds == nullptr) {
    GTEST_SKIP() << "takes QUARRY_REPLUG_SECONDS, which is not set";
  }
  Start("600");
  for (const char* type : {"raid1", "raid5", "raid6", "raid10"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  size_t rounds = 0;
  const auto replug = [&] {
    for (int number = 1; number <= kMostDisks && !DiskNode(number).empty(); ++number) {
      Pull(number);
      EXPECT_TRUE(Eventually([&] { return DiskNode(number).empty(); }));
      WaitForTurns(1);
      Return(number);
      ASSERT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
      ++rounds;
    }
  };
  replug();  // now everything exists that is made once and kept
  const InUse before = Count(quarryd().pid());
  const auto end = steady_clock::now() + std::chrono::seconds(std::stoul(seconds));
  while (steady_clock::now() < end && !HasFailure()) {
    replug();
  }
  const InUse after = Count(quarryd().pid());
  printf(
      "  %zu times: descriptors %zu, then %zu; threads %zu, then %zu; KiB %zu, then %zu; devices %zu, then "
      "%zu\n",
      rounds, before.descriptors, after.descriptors, before.threads, after.threads, before.resident_kib,
      after.resident_kib, before.devices, after.devices);
  EXPECT_LE(after.descriptors, before.descriptors + 4)
      << "calls in flight hold a few:\n"
      << Sh("ls -l /proc/" + std::to_string(quarryd().pid()) + "/fd").out;
  EXPECT_LE(after.threads, before.threads + 4) << "gRPC keeps a few";
  EXPECT_LE(after.resident_kib, before.resident_kib + before.resident_kib / 4);
  EXPECT_EQ(after.devices, before.devices);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EndAll();
}

TEST_F(RepairTest, ARepairContinuesAfterEveryKill) {
  Start("1");
  for (const char* type : {"raid1", "raid5", "raid6"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int lost = BusiestDisk();
  Pull(lost);
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(milliseconds(700 + 450 * i));
    quarryd().Kill();
    // The command that it ran may continue by itself for a while.
    Start("1");
  }
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  ExpectLegsOnDisksOfTheirOwn();
  WaitForTurns(4);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EXPECT_TRUE(Eventually([&] { return client().Create({"late"}).ok(); }, 120))
      << "the group cannot be used without the disk" << Conditions();
  EndAll();
  EXPECT_OK(client().Delete(client().Create({"late"}).value.volume().volume_id()));
  const auto lvs = Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup});
  EXPECT_TRUE(Eventually([&] {
    return Trim(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out).empty();
  })) << lvs.out;
  // The returned disk belongs to no pool. quarryd leaves it alone until an administrator wipes it.
  Return(lost);
  ASSERT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
}

}  // namespace
}  // namespace quarry::vm
