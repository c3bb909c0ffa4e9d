// Snapshots on real devices: the bytes of their instant, a life of their own, disks that go, and nothing of a
// deleted one.
#include <chrono>
#include <thread>

#include "tests/vm/copies_fixture.h"
#include "tests/vm/kit/writer.h"

namespace quarry::vm {
namespace {

struct Case {
  std::string type, snapshot_type, restored_type;
  std::string content;  // file system, or "block"
};

class SnapshotsTest : public CopiesFixture {
 protected:
  v1::Snapshot MustSnap(const std::string& name, const v1::Volume& volume,
                        const std::map<std::string, std::string>& parameters = {}) {
    const auto made = client().Snapshot(name, volume.volume_id(), parameters);
    EXPECT_OK(made);
    return made.value.snapshot();
  }
};

class SnapshotOf : public SnapshotsTest, public testing::WithParamInterface<Case> {
 protected:
  bool raw() const { return GetParam().content == "block"; }
  v1::VolumeCapability How() const { return raw() ? BlockCapability() : MountCapability(GetParam().content); }
  std::string Bytes(const std::string& name) { return TargetPath(name) + (raw() ? "" : "/file"); }
};

TEST_P(SnapshotOf, HasTheBytesOfItsInstantAndALifeOfItsOwn) {
  const int64_t size = raw() ? kRaw : kMounted;
  const uint64_t known = raw() ? static_cast<uint64_t>(size) : kFile;
  ASSERT_NO_FATAL_FAILURE(Dirty());
  const v1::Volume source = MustCreate({"source", TypeParameters(GetParam().type), How(), size});
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", How()));
  ASSERT_OK(WritePattern(Bytes("source"), 11, known));
  EXPECT_TRUE(Fails(client().Snapshot("snap", source.volume_id()), grpc::StatusCode::FAILED_PRECONDITION,
                    "not in use"));
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));

  const v1::Snapshot snapshot = MustSnap("snap", source, TypeParameters(GetParam().snapshot_type));
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(snapshot.ready_to_use());
  EXPECT_EQ(snapshot.size_bytes(), size);
  EXPECT_FALSE(
      Tool({"test", "-e", "/dev/" + std::string(kGroup) + "/" + LvNameIn(snapshot.snapshot_id())}).ok())
      << "nobody can mount it by mistake";
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", How()));
  ASSERT_OK(WritePattern(Bytes("source"), 12, known));

  VolumeSpec spec{"restored", TypeParameters(GetParam().restored_type), How(), size + 16 * kMi};
  spec.snapshot = snapshot.snapshot_id();
  const v1::Volume restored = MustCreate(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(restored.content_source().snapshot().snapshot_id(), snapshot.snapshot_id());
  ASSERT_NO_FATAL_FAILURE(Use(restored, "restored", How())) << "beside the volume of the snapshot";
  EXPECT_OK(CheckPattern(Bytes("restored"), 11, known));
  EXPECT_OK(CheckPattern(Bytes("source"), 12, known));
  if (raw()) {
    EXPECT_OK(CheckZero(Bytes("restored"), static_cast<uint64_t>(restored.capacity_bytes()) - known, known));
  }
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));
  ASSERT_OK(client().Delete(source.volume_id()));
  ASSERT_NO_FATAL_FAILURE(Release(restored, "restored"));
  ASSERT_OK(client().Delete(restored.volume_id()));

  // Without its volume, and after a restart.
  ASSERT_NO_FATAL_FAILURE(KillAndRestart());
  const auto listed = client().Snapshots(source.volume_id());
  ASSERT_OK(listed);
  ASSERT_EQ(listed.value.entries_size(), 1);
  EXPECT_EQ(listed.value.entries(0).snapshot().SerializeAsString(), snapshot.SerializeAsString());
  spec.name = "again";
  const v1::Volume again = MustCreate(spec);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  ASSERT_NO_FATAL_FAILURE(Use(again, "again", How()));
  EXPECT_OK(CheckPattern(Bytes("again"), 11, known));
  ASSERT_NO_FATAL_FAILURE(Release(again, "again"));
  ASSERT_OK(client().Delete(again.volume_id()));
  EXPECT_TRUE(ComesBackEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Of, SnapshotOf,
    testing::Values(Case{"linear", "linear", "raid1", "ext4"}, Case{"linear", "raid5", "striped", "block"},
                    Case{"raid1", "raid1", "linear", "xfs"}, Case{"raid5", "striped", "raid5", "block"},
                    // LVM synchronizes a raid6 after its creation, and the snapshot waits for that.
                    Case{"raid10", "raid6", "raid10", "block"}, Case{"raid0", "raid10", "raid4", "block"}),
    [](const auto& instance) {
      return instance.param.type + "_" + instance.param.snapshot_type + "_" + instance.param.content;
    });

// Volumes that are written all the time, and are never unmounted.
class SnapshotInUse : public SnapshotsTest, public testing::WithParamInterface<Case> {
 protected:
  bool raw() const { return GetParam().content == "block"; }
  v1::VolumeCapability How() const { return raw() ? BlockCapability() : MountCapability(GetParam().content); }
  std::map<std::string, std::string> Parameters() const {
    auto parameters = TypeParameters(GetParam().snapshot_type);
    parameters["inuse"] = "cow";
    return parameters;
  }
  // A call is answered UNAVAILABLE while the copy goes on, and comes again.
  v1::Snapshot SnapUntilDone(const v1::Volume& source) {
    v1::Snapshot snapshot;
    EXPECT_TRUE(Eventually([&] {
      auto made = client().Snapshot("snap", source.volume_id(), Parameters());
      snapshot = made.value.snapshot();
      EXPECT_TRUE(made.ok() || made.code() == grpc::StatusCode::UNAVAILABLE) << made.text();
      return made.ok();
    }));
    return snapshot;
  }
  static bool UntilLvs(size_t count) {
    return Eventually([&] {
      const auto lvs = group().Lvs();
      return lvs.has_value() && lvs->size() == count;
    });
  }
};

TEST_P(SnapshotInUse, HasTheBytesOfOneInstant) {
  const int64_t size = raw() ? kRaw : kMounted;
  ASSERT_NO_FATAL_FAILURE(ZeroFreeSpace());
  const v1::Volume source = MustCreate({"source", TypeParameters(GetParam().type), How(), size});
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", How()));
  Writer writer(TargetPath("source"), raw(), std::chrono::milliseconds(10));
  ASSERT_TRUE(Eventually([&] { return writer.turns() >= Writer::kRound; }));

  const uint64_t least = writer.turns();
  const v1::Snapshot snapshot = SnapUntilDone(source);
  const uint64_t most = writer.turns();
  ASSERT_FALSE(HasFailure());
  EXPECT_GT(most, least) << "nothing was written meanwhile";
  EXPECT_TRUE(UntilLvs(2)) << "the temporary store is still there";

  VolumeSpec spec{"restored", TypeParameters(GetParam().restored_type), How(), size};
  spec.snapshot = snapshot.snapshot_id();
  const v1::Volume restored = MustCreate(spec);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(restored, "restored", How())) << "beside the volume of the snapshot";
  EXPECT_OK(Writer::CheckCopy(TargetPath("restored"), raw(), least, most));
  EXPECT_OK(writer.StopAndCheck()) << "the volume itself";
  ASSERT_NO_FATAL_FAILURE(Release(restored, "restored"));
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));
  ASSERT_OK(client().Delete(source.volume_id()));
  ASSERT_OK(client().Delete(restored.volume_id()));
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  ASSERT_TRUE(ComesBackEmpty());
  ExpectFreeSpaceIsZero();  // also where the store was, with the bytes that were overwritten meanwhile
}

TEST_P(SnapshotInUse, OutlivesKillsInTheMiddle) {
  QuarrydOptions slow;
  // A copy takes twice as long as the longest pause below.
  slow.arguments = {raw() ? "--erase-rate=4MiB" : "--erase-rate=16MiB", "--copy-keep-minutes=0"};
  ASSERT_NO_FATAL_FAILURE(ZeroFreeSpace());
  // RAID's own metadata of an unfinished volume would not read as zeroes.
  const std::map<std::string, std::string> parameters = {{"inuse", "cow"}, {"type", "linear"}};
  const int64_t size = raw() ? kRaw : kMounted;
  const v1::Volume source = MustCreate({"source", TypeParameters(GetParam().type), How(), size});
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", How()));
  Writer writer(TargetPath("source"), raw(), std::chrono::milliseconds(10));
  ASSERT_TRUE(Eventually([&] { return writer.turns() >= Writer::kRound; }));
  ASSERT_EQ(quarryd().Stop(), 0);
  StartQuarryd(slow);
  for (const int pause : {400, 1200, 2500, 4000}) {
    std::jthread caller([&] {
      CsiClient own(kSocket);
      (void)own.Snapshot("snap", source.volume_id(), parameters);  // ends with the kill
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    quarryd().Kill();
    caller.join();
    StartQuarryd(slow);
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(client().Snapshots().value.entries_size(), 0) << "an unfinished snapshot is listed";
    ASSERT_TRUE(UntilLvs(1)) << "the unfinished snapshot or its store is left";
    const uint64_t turns = writer.turns();
    EXPECT_TRUE(Eventually([&] { return writer.turns() > turns; })) << "the volume is suspended";
  }
  EXPECT_OK(writer.StopAndCheck());
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));
  ASSERT_OK(client().Delete(source.volume_id()));
  ASSERT_TRUE(ComesBackEmpty());
  ExpectFreeSpaceIsZero();
}

INSTANTIATE_TEST_SUITE_P(
    Of, SnapshotInUse,
    testing::Values(Case{"raid1", "linear", "linear", "ext4"}, Case{"linear", "raid1", "linear", "block"},
                    Case{"linear", "linear", "linear", "xfs"}, Case{"raid5", "linear", "linear", "ext4"},
                    Case{"striped", "linear", "raid1", "block"}),
    [](const auto& instance) { return instance.param.type + "_in_use_" + instance.param.content; });

// Linux 6.1 cannot freeze a file system twice, and LVM then leaves devices behind.
TEST_F(SnapshotsTest, AFrozenFileSystemIsUnharmed) {
  const v1::VolumeCapability how = MountCapability("ext4");
  const v1::Volume source = MustCreate({"source", TypeParameters("raid1"), how, kRaw});
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", how));
  ASSERT_OK(WritePattern(TargetPath("source") + "/file", 24, 1 << 20));
  const std::map<std::string, std::string> parameters = {{"inuse", "cow"}, {"type", "linear"}};
  ASSERT_TRUE(Eventually([&] {  // once the legs are in sync
    const auto raid = Tool({"dmsetup", "status", std::string(kGroup) + "-" + LvNameIn(source.volume_id())});
    return raid.out.contains(" AA ") && raid.out.contains(" idle ");
  }));
  ASSERT_TRUE(Tool({"fsfreeze", "-f", TargetPath("source")}).ok());
  const auto frozen = client().Snapshot("frozen", source.volume_id(), parameters);
  EXPECT_TRUE(frozen.ok() ||
              (frozen.code() == grpc::StatusCode::UNAVAILABLE && frozen.text().contains("frozen")))
      << frozen.text();
  EXPECT_TRUE(Eventually([] { return !Tool({"dmsetup", "ls"}).out.contains("-real"); }));
  ASSERT_TRUE(Tool({"fsfreeze", "-u", TargetPath("source")}).ok());
  EXPECT_OK(WritePattern(TargetPath("source") + "/more", 25, 1 << 20));
  const v1::Snapshot snapshot = MustSnap("snap", source, parameters);
  EXPECT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  if (frozen.ok()) {
    EXPECT_OK(client().DeleteSnapshot(frozen.value.snapshot().snapshot_id()));
  }
  EXPECT_OK(CheckPattern(TargetPath("source") + "/file", 24, 1 << 20));
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));
  EXPECT_OK(client().Delete(source.volume_id()));
  EXPECT_TRUE(ComesBackEmpty());
}

TEST_F(SnapshotsTest, NothingOfADeletedOneIsReadable) {
  const v1::Volume source = MustCreate({"source", TypeParameters("linear"), BlockCapability(), kRaw});
  ASSERT_OK(WritePattern(NodeOf(source), 21, kRaw));
  const v1::Snapshot snapshot = MustSnap("snap", source, TypeParameters("raid1"));
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  ASSERT_OK(client().DeleteSnapshot(snapshot.snapshot_id())) << "repeated";
  ASSERT_OK(client().Delete(source.volume_id()));
  ASSERT_TRUE(ComesBackEmpty());
  ExpectFreeSpaceIsZero();
}

TEST_F(SnapshotsTest, AnUnfinishedOneIsNeverSeenAndItsBytesAreErased) {
  QuarrydOptions slow;
  slow.arguments = {"--erase-rate=4MiB", "--copy-keep-minutes=0"};
  ASSERT_EQ(quarryd().Stop(), 0);
  StartQuarryd(slow);
  const v1::Volume source = MustCreate({"source", TypeParameters("linear"), BlockCapability(), kRaw});
  ASSERT_OK(WritePattern(NodeOf(source), 23, kRaw));
  for (const int pause : {1000, 3000}) {
    std::jthread caller([&] {
      CsiClient own(kSocket);
      (void)own.Snapshot("snap", source.volume_id());  // ends with the kill
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    EXPECT_EQ(client().Snapshots().value.entries_size(), 0) << "an unfinished snapshot is listed";
    quarryd().Kill();
    StartQuarryd(slow);
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(Eventually([&] {
      const auto lvs = group().Lvs();
      return lvs.has_value() && lvs->size() == 1;
    })) << "the unfinished snapshot is left";
  }
  EXPECT_OK(CheckPattern(NodeOf(source), 23, kRaw));
  ASSERT_NO_FATAL_FAILURE(ExpectFreeSpaceIsZero());
  ASSERT_EQ(quarryd().Stop(), 0);
  StartQuarryd();
  const v1::Snapshot snapshot = MustSnap("snap", source);
  EXPECT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  EXPECT_OK(client().Delete(source.volume_id()));
  EXPECT_TRUE(ComesBackEmpty());
}

}  // namespace
}  // namespace quarry::vm
