// Snapshots on real devices: the bytes of their instant, a life of their own, disks that go, and nothing of a
// deleted one.
#include <chrono>
#include <thread>

#include "tests/vm/copies_fixture.h"

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
  slow.arguments = {"--erase-rate=4MiB"};
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
  const v1::Snapshot snapshot = MustSnap("snap", source);
  EXPECT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  EXPECT_OK(client().Delete(source.volume_id()));
  EXPECT_TRUE(ComesBackEmpty());
}

}  // namespace
}  // namespace quarry::vm
