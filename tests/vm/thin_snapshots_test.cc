// Snapshots and clones in a thin store on real LVM: cut in use, with the bytes of their instant; every
// promised byte can still be written; no byte of a deleted one is on any disk. Needs four disks.
#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

class ThinSnapshotsTest : public ThinStoresTest {
 protected:
  explicit ThinSnapshotsTest(int64_t size = 256 * kMi) : ThinStoresTest(size) {}

  v1::Snapshot MustSnap(const std::string& name, const v1::Volume& volume) {
    const auto made = client().Snapshot(name, volume.volume_id());
    EXPECT_OK(made);
    return made.value.snapshot();
  }
  v1::Volume MustRestore(const std::string& name, const v1::Snapshot& snapshot,
                         const v1::VolumeCapability& how, int64_t size) {
    VolumeSpec spec{name, TypeParameters("thin"), how, size};
    spec.snapshot = snapshot.snapshot_id();
    return MustCreate(spec);
  }
  void Use(const v1::Volume& volume, const std::string& name, const v1::VolumeCapability& how) {
    ASSERT_OK(client().Stage(volume, StagingPath(name), how));
    ASSERT_OK(client().Publish(volume, StagingPath(name), TargetPath(name), how));
  }
  static bool AnySuspended() {
    return Sh("dmsetup info -c --noheadings -o suspended | grep -q Suspended").ok();
  }
  static void Fill(const std::string& file, const std::string& words, int64_t size) {
    const Outcome filled = Sh("yes '" + words + "' | head -c " + std::to_string(size) + " | dd of=" + file +
                              " bs=1M iflag=fullblock oflag=direct conv=notrunc 2>&1");
    EXPECT_TRUE(filled.ok()) << filled.out;
  }
};

struct Content {
  std::string name;  // a file system, or "raw"
  v1::VolumeCapability How() const { return name == "raw" ? BlockCapability() : MountCapability(name); }
};

class ThinSnapshotOf : public ThinSnapshotsTest, public testing::WithParamInterface<std::string> {
 protected:
  ThinSnapshotOf() : ThinSnapshotsTest(GetParam() == "xfs" ? 800 * kMi : 256 * kMi) {}
};

TEST_P(ThinSnapshotOf, AVolumeInUseHasTheBytesOfItsInstant) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::VolumeCapability how = Content{GetParam()}.How();
  const bool raw = GetParam() == "raw";
  const int64_t size = GetParam() == "xfs" ? 304 * kMi : 32 * kMi;
  const uint64_t known = 8 << 20;
  const auto bytes = [&](const std::string& name) { return TargetPath(name) + (raw ? "" : "/file"); };
  const v1::Volume source = MustCreate({"source", TypeParameters("thin"), how, size});
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", how));
  ASSERT_OK(WritePattern(bytes("source"), 11, known));
  const v1::Snapshot snapshot = MustSnap("snap", source);
  ASSERT_FALSE(HasFailure());
  EXPECT_FALSE(AnySuspended());
  EXPECT_EQ(snapshot.size_bytes(), size);
  EXPECT_TRUE(snapshot.ready_to_use());
  ASSERT_OK(WritePattern(bytes("source"), 12, known));

  // Beside its source, and larger.
  const v1::Volume restored = MustRestore("restored", snapshot, how, size + 16 * kMi);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(restored, "restored", how));
  EXPECT_OK(CheckPattern(bytes("restored"), 11, known));
  EXPECT_OK(CheckPattern(bytes("source"), 12, known));
  if (!raw) {
    // The log of an xfs that was cut in use must be replayed, and xfs_admin leaves such a file system alone.
    if (GetParam() != "xfs") {
      EXPECT_NE(Sh("findmnt -n -o UUID " + TargetPath("source")).out,
                Sh("findmnt -n -o UUID " + TargetPath("restored")).out);
    }
    EXPECT_GT(std::atoll(Sh("df -B1 --output=size " + TargetPath("restored") + " | tail -1").out.c_str()),
              std::atoll(Sh("df -B1 --output=size " + TargetPath("source") + " | tail -1").out.c_str()));
  }
  ASSERT_OK(WritePattern(bytes("restored"), 13, known));
  if (GetParam() != "xfs") {  // three do not fit
    VolumeSpec spec{"clone", TypeParameters("thin"), how, size};
    spec.source = source.volume_id();
    const v1::Volume clone = MustCreate(spec);
    ASSERT_FALSE(HasFailure());
    ASSERT_NO_FATAL_FAILURE(Use(clone, "clone", how));
    EXPECT_OK(CheckPattern(bytes("clone"), 12, known));
    End(clone, "clone");
  }
  End(source, "source");
  EXPECT_OK(CheckPattern(bytes("restored"), 13, known));
  ASSERT_NO_FATAL_FAILURE(KillAndRestart());
  const auto listed = client().Snapshots(source.volume_id());
  ASSERT_OK(listed);
  ASSERT_EQ(listed.value.entries_size(), 1) << "without its volume, and after a restart";
  EXPECT_EQ(listed.value.entries(0).snapshot().SerializeAsString(), snapshot.SerializeAsString());
  End(restored, "restored");
  const v1::Volume again = MustRestore("again", snapshot, how, size);
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  ASSERT_NO_FATAL_FAILURE(Use(again, "again", how));
  EXPECT_OK(CheckPattern(bytes("again"), 11, known));
  End(again, "again");
  EXPECT_TRUE(IsEmptyStore());
}

INSTANTIATE_TEST_SUITE_P(Contents, ThinSnapshotOf, testing::Values("raw", "ext4", "xfs"),
                         [](const auto& tested) { return tested.param; });

TEST_F(ThinSnapshotsTest, AFrozenFileSystemIsCutAndUnharmed) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume source = MustCreate({"source", TypeParameters("thin"), MountCapability("ext4"), 64 * kMi});
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", MountCapability("ext4")));
  ASSERT_OK(WritePattern(TargetPath("source") + "/file", 3, 4 << 20));
  ASSERT_TRUE(Tool({"fsfreeze", "-f", TargetPath("source")}).ok());
  const auto made = client().Snapshot("frozen", source.volume_id());
  ASSERT_TRUE(Tool({"fsfreeze", "-u", TargetPath("source")}).ok());
  ASSERT_OK(made);
  ASSERT_OK(WritePattern(TargetPath("source") + "/file", 4, 4 << 20));
  const v1::Volume restored =
      MustRestore("restored", made.value.snapshot(), MountCapability("ext4"), 64 * kMi);
  ASSERT_NO_FATAL_FAILURE(Use(restored, "restored", MountCapability("ext4")));
  EXPECT_OK(CheckPattern(TargetPath("restored") + "/file", 3, 4 << 20));
  End(restored, "restored");
  EXPECT_OK(client().DeleteSnapshot(made.value.snapshot().snapshot_id()));
  End(source, "source");
  EXPECT_TRUE(IsEmptyStore());
}

// The volume is written to all the time: chunks become the snapshot's alone while it is being erased.
TEST_F(ThinSnapshotsTest, NoByteOfADeletedOneIsOnAnyDisk) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const int64_t size = 48 * kMi;
  const v1::Volume volume = Make("used", size);
  const std::string device = Publish(volume, "used");
  Fill(device, "these bytes are only in the snapshot", size);
  const v1::Snapshot snapshot = MustSnap("snap", volume);
  Fill(device, "these bytes are new", size);
  EXPECT_GT(CountOnDisks("these bytes are only in the snapshot"), 0);
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  const int64_t left = Left();
  EXPECT_TRUE(Eventually([&] { return Left() > left; }, 120)) << quarryd().Log();
  EXPECT_EQ(CountOnDisks("these bytes are only in the snapshot"), 0);

  // Half of it is shared, and the volume goes first.
  const v1::Snapshot second = MustSnap("second", volume);
  Fill(device, "these bytes came last", size / 2);
  const int64_t before = Left();
  End(volume, "used");
  EXPECT_TRUE(Eventually([&] { return Left() > before; }, 120)) << quarryd().Log();
  EXPECT_EQ(CountOnDisks("these bytes came last"), 0);
  EXPECT_GT(CountOnDisks("these bytes are new"), 0) << "the snapshot has them";
  const v1::Volume restored = MustRestore("restored", second, BlockCapability(), size);
  const std::string copy = Publish(restored, "restored");
  EXPECT_EQ(Trim(Sh("yes 'these bytes are new' | head -c " + std::to_string(size) + " | cmp - " + copy +
                    " && echo same")
                     .out),
            "same");
  ASSERT_OK(client().DeleteSnapshot(second.snapshot_id()));
  End(restored, "restored");
  EXPECT_TRUE(IsEmptyStore());
  EXPECT_EQ(CountOnDisks("these bytes are new"), 0);
}

// Everything that was promised is written at once, with copies of what was shared on top.
TEST_F(ThinSnapshotsTest, AFullStoreKeepsItsPromises) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const int64_t size = 80 * kMi;
  const v1::Volume volume = Make("used", size);
  const std::string device = Publish(volume, "used");
  ASSERT_OK(WritePattern(device, 1, size));
  const v1::Snapshot snapshot = MustSnap("snap", volume);
  const v1::Volume rest = Make("rest", Left());
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(Fails(client().Snapshot("more", volume.volume_id()), grpc::StatusCode::RESOURCE_EXHAUSTED,
                    "thin store 'fast'"));
  const std::string other = Publish(rest, "rest");
  ASSERT_OK(WritePattern(other, 2, static_cast<uint64_t>(rest.capacity_bytes())));
  ASSERT_OK(WritePattern(device, 3, size)) << "each write copies a chunk";
  const v1::Volume none =
      client().Create({"none", TypeParameters("thin"), BlockCapability(), 4 * kMi}).value.volume();
  EXPECT_TRUE(none.volume_id().empty());
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  EXPECT_TRUE(Eventually([&] { return Left() > 0; }, 120));
  const v1::Volume filler = Make("filler", Left());
  ASSERT_OK(WritePattern(Publish(filler, "filler"), 4, static_cast<uint64_t>(filler.capacity_bytes())));
  ASSERT_OK(WritePattern(device, 5, size)) << "each write copies a chunk, though nobody else has it";
  EXPECT_OK(CheckPattern(other, 2, static_cast<uint64_t>(rest.capacity_bytes())));
  EXPECT_EQ(Sh("dmesg | grep -c 'out-of-data-space'").out.substr(0, 1), "0");
  End(filler, "filler");
  End(rest, "rest");
  End(volume, "used");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinSnapshotsTest, KilledAgainAndAgainQuarrydLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume kept = Make("kept", 32 * kMi);
  const std::string device = Publish(kept, "kept");
  ASSERT_OK(WritePattern(device, 7, 32 << 20));
  for (int round = 0; round < 8; ++round) {
    std::atomic<bool> stop = false;
    std::jthread caller([&] {
      CsiClient own(kSocket);
      for (int n = 0; !stop; ++n) {
        const auto made = own.Snapshot("killed", kept.volume_id());
        if (!made.ok()) {
          continue;
        }
        const std::string& id = made.value.snapshot().snapshot_id();
        VolumeSpec spec{"copy", TypeParameters("thin"), BlockCapability(), 32 * kMi};
        spec.snapshot = id;
        const auto copy = own.Create(spec);
        if (copy.ok()) {
          (void)WritePattern("/dev/vg/" + LvOf(copy.value.volume()), 8, 4 << 20);
          (void)own.Delete(copy.value.volume().volume_id());
        }
        (void)own.DeleteSnapshot(id);
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(700 + 390 * round));
    stop = true;
    KillAndRestart();
    EXPECT_FALSE(AnySuspended()) << "round " << round;
    EXPECT_OK(CheckPattern(device, 7, 32 << 20));
    EXPECT_OK(WritePattern(device, 7, 1 << 20)) << "the volume can be written";
  }
  const auto snapshots = client().Snapshots();
  ASSERT_OK(snapshots);
  for (const auto& entry : snapshots.value.entries()) {
    EXPECT_OK(client().DeleteSnapshot(entry.snapshot().snapshot_id()));
  }
  const auto volumes = client().List();
  ASSERT_OK(volumes);
  for (const v1::Volume& volume : volumes.value) {
    if (volume.volume_id() != kept.volume_id()) {
      EXPECT_OK(client().Delete(volume.volume_id()));
    }
  }
  const auto visible = [] { return Sh("lvs --noheadings vg | wc -l").out; };
  EXPECT_TRUE(Eventually([&] { return std::atoi(visible().c_str()) == 2; }, 120))
      << "store and volume; " << Lvs("lv_name,segtype");
  EXPECT_OK(CheckPattern(device, 7, 32 << 20));
  End(kept, "kept");
  EXPECT_TRUE(IsEmptyStore());
}

// Writes 1, 2, 3, … in turn to the volumes, each number to the disk before the next.
class Counter {
 public:
  explicit Counter(std::vector<std::string> devices)
      : devices_(std::move(devices)), thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  uint64_t last() const { return last_; }

 private:
  void Run(const std::stop_token& stop) {
    std::vector<UniqueFd> files;
    for (const std::string& device : devices_) {
      files.emplace_back(open(device.c_str(), O_WRONLY | O_DIRECT | O_DSYNC | O_CLOEXEC));
    }
    alignas(4096) std::array<char, 4096> block{};
    for (uint64_t n = 1; !stop.stop_requested(); ++n) {
      const std::string text = std::to_string(n) + "\n";
      std::ranges::copy(text, block.begin());
      if (pwrite(files[n % files.size()].get(), block.data(), block.size(), 0) != 4096) {
        perror("writing a number");
        return;
      }
      last_ = n;
    }
  }

  const std::vector<std::string> devices_;
  std::atomic<uint64_t> last_ = 0;
  std::jthread thread_;
};

// A group snapshot has a prefix of all writes: if it has a number, it has all smaller ones.
class GroupSnapshotsTest : public ThinSnapshotsTest, public testing::WithParamInterface<int> {
 protected:
  explicit GroupSnapshotsTest(int64_t size = 256 * kMi) : ThinSnapshotsTest(size) {}

  template <typename Method, typename Request>
  auto Ask(Method method, const Request& request) {
    const auto stub = v1::GroupController::NewStub(
        grpc::CreateChannel("unix://" + std::string(kSocket), grpc::InsecureChannelCredentials()));
    return client().Invoke(*stub, method, request);
  }
  // The number in a volume that is restored from this snapshot.
  uint64_t NumberIn(const v1::Snapshot& snapshot) {
    VolumeSpec spec{"restored", TypeParameters("thin"), BlockCapability(), 8 * kMi};
    spec.snapshot = snapshot.snapshot_id();
    v1::Volume volume;
    std::string trouble;
    EXPECT_TRUE(Eventually(
        [&] {  // while the one before is being erased there may be no room
          const auto made = client().Create(spec);
          volume = made.value.volume();
          trouble = made.text();
          return made.ok();
        },
        120))
        << trouble;
    const std::string lv = "vg/" + LvNameIn(volume.volume_id());
    EXPECT_TRUE(Tool({"lvchange", "-ay", "-K", lv}).ok()) << lv;
    const std::string text =
        Sh("dd if=/dev/" + lv + " bs=4096 count=1 iflag=direct 2>/dev/null | head -1").out;
    EXPECT_TRUE(Tool({"lvchange", "-an", lv}).ok()) << lv;
    EXPECT_OK(client().Delete(volume.volume_id()));
    return std::strtoull(text.c_str(), nullptr, 10);
  }
};

TEST_P(GroupSnapshotsTest, HaveAPrefixOfAllWrites) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  v1::CreateVolumeGroupSnapshotRequest request;
  std::vector<v1::Volume> volumes;
  std::vector<std::string> devices;
  for (const char* const name : {"one", "two", "three"}) {
    volumes.push_back(Make(name, 8 * kMi));
    ASSERT_FALSE(HasFailure());
    devices.push_back(Publish(volumes.back(), name));
    request.add_source_volume_ids(volumes.back().volume_id());
  }
  std::optional<Counter> counter(devices);
  ASSERT_TRUE(Eventually([&] { return counter->last() > 10; }));
  for (int round = 0; round < GetParam(); ++round) {
    request.set_name("group " + std::to_string(round));
    const uint64_t before = counter->last();
    auto made = Ask(&v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
    while (made.code() == grpc::StatusCode::UNAVAILABLE) {  // it takes longer than a call may
      made = Ask(&v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
    }
    ASSERT_OK(made);
    const v1::VolumeGroupSnapshot& group = made.value.group_snapshot();
    ASSERT_EQ(group.snapshots_size(), 3);
    EXPECT_TRUE(group.ready_to_use());
    v1::DeleteVolumeGroupSnapshotRequest gone;
    gone.set_group_snapshot_id(group.group_snapshot_id());
    std::vector<uint64_t> numbers;
    for (const v1::Snapshot& member : group.snapshots()) {
      EXPECT_EQ(member.group_snapshot_id(), group.group_snapshot_id());
      numbers.push_back(NumberIn(member));
      gone.add_snapshot_ids(member.snapshot_id());
    }
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers[1], numbers[0] + 1) << "round " << round;
    EXPECT_EQ(numbers[2], numbers[0] + 2) << "round " << round;
    EXPECT_GE(numbers[2], before) << "what was written before the call";
    EXPECT_OK(Ask(&v1::GroupController::Stub::DeleteVolumeGroupSnapshot, gone));
  }
  const uint64_t last = counter->last();
  EXPECT_TRUE(Eventually([&] { return counter->last() > last; })) << "writes go on";
  EXPECT_FALSE(AnySuspended());
  counter.reset();
  End(volumes[0], "one");
  End(volumes[1], "two");
  End(volumes[2], "three");
  EXPECT_TRUE(IsEmptyStore());
}

// As many volumes as a group may have, in use.
class LargeGroupTest : public GroupSnapshotsTest {
 protected:
  LargeGroupTest() : GroupSnapshotsTest(340 * kMi) {}
};

TEST_P(LargeGroupTest, HasAllMembersWithTheirBytes) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("large");
  std::vector<v1::Volume> volumes;
  std::map<std::string, uint64_t> seeds;  // by volume
  for (int i = 0; i < GetParam(); ++i) {
    const std::string name = "v" + std::to_string(i);
    volumes.push_back(Make(name, 4 * kMi));
    ASSERT_FALSE(HasFailure());
    seeds[volumes.back().volume_id()] = static_cast<uint64_t>(100 + i);
    ASSERT_OK(WritePattern(Publish(volumes.back(), name), seeds[volumes.back().volume_id()], 1 << 20));
    request.add_source_volume_ids(volumes.back().volume_id());
  }
  const auto begin = std::chrono::steady_clock::now();
  Reply<v1::CreateVolumeGroupSnapshotResponse> made;
  ASSERT_TRUE(Eventually(
      [&] {
        made = Ask(&v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
        EXPECT_TRUE(made.ok() || made.code() == grpc::StatusCode::UNAVAILABLE) << made.text();
        return made.ok();
      },
      300))
      << made.text() << quarryd().Log();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  printf("  %d members after %.1f s\n", GetParam(), taken.count());
  const v1::VolumeGroupSnapshot& group = made.value.group_snapshot();
  ASSERT_EQ(group.snapshots_size(), GetParam());
  EXPECT_FALSE(AnySuspended());
  v1::DeleteVolumeGroupSnapshotRequest gone;
  gone.set_group_snapshot_id(group.group_snapshot_id());
  for (int i = 0; i < GetParam(); ++i) {
    const v1::Snapshot& member = group.snapshots(i);
    gone.add_snapshot_ids(member.snapshot_id());
    ASSERT_TRUE(seeds.contains(member.source_volume_id()));
    ASSERT_OK(WritePattern(TargetPath("v" + std::to_string(i)), 7, 1 << 20)) << "writes go on";
    if (i % 16 == 0) {
      const v1::Volume copy = MustRestore("copy", member, BlockCapability(), 4 * kMi);
      EXPECT_OK(CheckPattern(Publish(copy, "copy"), seeds[member.source_volume_id()], 1 << 20));
      End(copy, "copy");
    }
  }
  EXPECT_OK(Ask(&v1::GroupController::Stub::DeleteVolumeGroupSnapshot, gone));
  for (int i = 0; i < GetParam(); ++i) {
    End(volumes[static_cast<size_t>(i)], "v" + std::to_string(i));
  }
  EXPECT_TRUE(IsEmptyStore());
}

// quarryd dies at one request to device-mapper in the middle of the cut (tests/vm/thin/dm_watch.cc); every
// n-th of them, as the parameter says.
class GroupKilledTest : public GroupSnapshotsTest {};

TEST_P(GroupKilledTest, InTheMiddleOfACutLeavesNoMemberAndNothingSuspended) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name("killed");
  std::vector<v1::Volume> volumes;
  for (const char* const name : {"one", "two", "three"}) {
    volumes.push_back(Make(name, 8 * kMi));
    ASSERT_FALSE(HasFailure());
    ASSERT_OK(WritePattern(Publish(volumes.back(), name), 5, 4 << 20));
    request.add_source_volume_ids(volumes.back().volume_id());
  }
  const std::vector<std::string> moments = {"after message create_snap",
                                            "before message delete",
                                            "after message delete",
                                            "before resume",
                                            "after suspend",
                                            "before message create_snap"};
  for (size_t i = 0; i < moments.size(); i += static_cast<size_t>(GetParam())) {
    const std::string& at = moments[i];
    printf("  killed %s\n", at.c_str());
    ASSERT_EQ(quarryd().Stop(), 0);
    ASSERT_NO_FATAL_FAILURE(StartWith("raid1", "600",
                                      {{"LD_PRELOAD", "/opt/quarry/tests/bin/dm_watch.so"},
                                       {"DM_WATCH_LOG", "/run/quarry-test/watch"},
                                       {"DM_WATCH_KILL", at}}));
    EXPECT_FALSE(Ask(&v1::GroupController::Stub::CreateVolumeGroupSnapshot, request).ok()) << at;
    EXPECT_EQ(AnySuspended(), at != "before message delete" && at != "after message delete") << at;
    ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
    EXPECT_FALSE(AnySuspended()) << at;
    const auto listed = client().Snapshots();
    ASSERT_OK(listed);
    EXPECT_EQ(listed.value.entries_size(), 0) << at;
    const auto visible = [] { return std::atoi(Sh("lvs --noheadings vg | wc -l").out.c_str()); };
    EXPECT_TRUE(Eventually([&] { return visible() == 4; }, 60))
        << at << Lvs("lv_name,lv_tags") << quarryd().Log();
    for (const char* const name : {"one", "two", "three"}) {
      EXPECT_OK(CheckPattern(TargetPath(name), 5, 4 << 20));
      EXPECT_OK(WritePattern(TargetPath(name), 5, 1 << 20));
    }
  }
  const auto made = Ask(&v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
  ASSERT_OK(made);
  v1::DeleteVolumeGroupSnapshotRequest gone;
  gone.set_group_snapshot_id(made.value.group_snapshot().group_snapshot_id());
  EXPECT_OK(Ask(&v1::GroupController::Stub::DeleteVolumeGroupSnapshot, gone));
  End(volumes[0], "one");
  End(volumes[1], "two");
  End(volumes[2], "three");
  EXPECT_TRUE(IsEmptyStore());
}

// Copies a file again and again, as a program does that writes from mapped memory: while the kernel writes,
// it reads the pages that are not in memory.
class Copier {
 public:
  Copier(std::string from, std::string to)
      : from_(std::move(from)),
        to_(std::move(to)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}
  uint64_t turns() const { return turns_; }

 private:
  void Run(const std::stop_token& stop) {
    const UniqueFd from(open(from_.c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd to(open(to_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    while (!stop.stop_requested()) {
      posix_fadvise(from.get(), 0, 0, POSIX_FADV_DONTNEED);
      void* const bytes = mmap(nullptr, kLength, PROT_READ, MAP_SHARED, from.get(), 0);
      if (bytes == MAP_FAILED || madvise(bytes, kLength, MADV_RANDOM) != 0 ||
          pwrite(to.get(), bytes, kLength, 0) != static_cast<ssize_t>(kLength)) {
        perror("copying");
        return;
      }
      munmap(bytes, kLength);
      ++turns_;
    }
  }

  static constexpr size_t kLength = 4 << 20;
  const std::string from_, to_;
  std::atomic<uint64_t> turns_ = 0;
  std::jthread thread_;
};

class GroupCopiedTest : public GroupSnapshotsTest {};

// A write to one member waits for a page of the other, which the cut has suspended, and the freeze of the
// first waits for that write.
TEST_P(GroupCopiedTest, ACutEndsWhileSomebodyCopiesFromOneMemberToAnother) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  v1::CreateVolumeGroupSnapshotRequest request;
  std::vector<v1::Volume> volumes;
  for (const char* const name : {"one", "two"}) {
    volumes.push_back(MustCreate({name, TypeParameters("thin"), MountCapability("ext4"), 40 * kMi}));
    ASSERT_FALSE(HasFailure());
    ASSERT_NO_FATAL_FAILURE(Use(volumes.back(), name, MountCapability("ext4")));
    ASSERT_OK(WritePattern(TargetPath(name) + "/from", 5, 4 << 20));
    request.add_source_volume_ids(volumes.back().volume_id());
  }
  {
    const Copier there(TargetPath("one") + "/from", TargetPath("two") + "/to");
    const Copier back(TargetPath("two") + "/from", TargetPath("one") + "/to");
    ASSERT_TRUE(Eventually([&] { return there.turns() > 2 && back.turns() > 2; }));
    for (int round = 0; round < 2; ++round) {
      request.set_name("group " + std::to_string(round));
      const auto made = Ask(&v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
      printf("  round %d: %s\n", round, made.ok() ? "made" : made.text().c_str());
      EXPECT_TRUE(made.ok() || made.code() == grpc::StatusCode::UNAVAILABLE) << made.text();
      const uint64_t turns = there.turns();
      const uint64_t others = back.turns();
      EXPECT_TRUE(Eventually([&] { return there.turns() > turns + 1 && back.turns() > others + 1; }));
      EXPECT_FALSE(AnySuspended());
      if (made.ok()) {
        v1::DeleteVolumeGroupSnapshotRequest gone;
        gone.set_group_snapshot_id(made.value.group_snapshot().group_snapshot_id());
        for (const v1::Snapshot& member : made.value.group_snapshot().snapshots()) {
          gone.add_snapshot_ids(member.snapshot_id());
        }
        EXPECT_OK(Ask(&v1::GroupController::Stub::DeleteVolumeGroupSnapshot, gone));
      }
    }
  }
  for (const char* const name : {"one", "two"}) {
    EXPECT_OK(CheckPattern(TargetPath(name) + "/from", 5, 4 << 20));
    EXPECT_OK(CheckPattern(TargetPath(name) + "/to", 5, 4 << 20));
  }
  End(volumes[0], "one");
  End(volumes[1], "two");
  EXPECT_TRUE(IsEmptyStore());
}

INSTANTIATE_TEST_SUITE_P(Few, GroupKilledTest, testing::Values(8));
INSTANTIATE_TEST_SUITE_P(Many, GroupKilledTest, testing::Values(1));
INSTANTIATE_TEST_SUITE_P(Once, GroupCopiedTest, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(Few, GroupSnapshotsTest, testing::Values(2));
INSTANTIATE_TEST_SUITE_P(Many, GroupSnapshotsTest, testing::Values(50));
INSTANTIATE_TEST_SUITE_P(Most, LargeGroupTest, testing::Values(32));

}  // namespace
}  // namespace quarry::vm
