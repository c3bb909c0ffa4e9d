// Mounts that quarryd keeps for a server without an orchestrator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class MountsTest : public testing::Test {
 protected:
  MountsTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value}, {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/srv");
    Restart();
  }

  // The state after kill -9.
  void Restart() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "p", .group = "vg0", .reserve = {}}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  void Reboot() {
    engine_.reset();
    dm_.Reboot();
    mount_.Reboot();
    Restart();
  }
  static Call Soon() { return CallWithin(milliseconds(20000)); }

  std::string Create(const std::string& name, AccessType access = AccessType::kMount) {
    const auto made = engine_->volumes().Create(
        {.name = name,
         .range = {Bytes{40 * kMiB.value}, {}},
         .capabilities = {{.access = access, .fs_type = access == AccessType::kMount ? "ext4" : ""}},
         .parameters = {}},
        Soon());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    return made.has_value() ? made->volume.id : "";
  }
  Result<MountResult> Mount(const std::string& id, const std::string& path,
                            std::vector<std::string> flags = {}) {
    return engine_->mounts().Mount({.id = id, .path = Path(path), .flags = std::move(flags)}, Soon());
  }
  Result<UnmountResult> Unmount(const std::string& id, std::optional<AbsolutePath> path = {}) {
    return engine_->mounts().Unmount(id, path, Soon());
  }
  Status MountKept() { return engine_->mounts().MountKept("p", past_, Soon()); }
  std::vector<std::string> Targets() {
    std::vector<std::string> out;
    const mount::MountTable table = *mount_.Mounts();
    for (const auto& entry : table.entries()) {
      if (entry.target.starts_with("/srv")) {
        out.push_back(entry.target);
      }
    }
    return out;
  }
  VolumeStatus Status1() { return engine_->lifecycle().NodeStatus(Soon())->front().volumes.front(); }
  template <typename T>
  void ExpectFails(const Result<T>& result, Code code, const std::string& words) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), code) << result.error().message();
    EXPECT_THAT(result.error().message(), HasSubstr(words));
  }

  fakes::FakeDm dm_;
  fakes::FakeLvm lvm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  KeptMounts past_;
};

TEST_F(MountsTest, AMountSurvivesAReboot) {
  const std::string id = Create("data");
  const auto mounted = Mount(id, "/srv/data", {"noatime"});
  ASSERT_TRUE(mounted.has_value()) << mounted.error().message();
  EXPECT_TRUE(mounted->changed);
  EXPECT_FALSE(Mount(id, "/srv/data", {"noatime"})->changed) << "a repetition changes nothing";
  const VolumeStatus status = Status1();
  EXPECT_EQ(status.mount_point, "/srv/data");
  EXPECT_EQ(status.mount_options, "noatime");
  EXPECT_THAT(status.used_at, ElementsAre("/srv/data"));

  Reboot();
  EXPECT_THAT(Targets(), IsEmpty());
  ASSERT_TRUE(MountKept().has_value());
  EXPECT_THAT(Targets(), ElementsAre("/srv/data"));
  const mount::MountTable table = *mount_.Mounts();
  EXPECT_THAT(table.At(Path("/srv/data"))->options, testing::Contains("noatime"));
  EXPECT_EQ(mount_.Made().size(), 1U) << "the file system is made once";
}

TEST_F(MountsTest, WhatIsUnmountedStaysUnmounted) {
  const std::string id = Create("data");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  const auto gone = Unmount(id);
  ASSERT_TRUE(gone.has_value()) << gone.error().message();
  EXPECT_EQ(gone->path, "/srv/data");
  EXPECT_TRUE(mount_.Exists("/srv/data")) << "the directory is not ours to remove";
  EXPECT_FALSE(Unmount(id)->changed);
  Reboot();
  ASSERT_TRUE(MountKept().has_value());
  EXPECT_THAT(Targets(), IsEmpty());
}

// The caller of a Mount that was killed has no answer, and repeats it.
TEST_F(MountsTest, AKillBetweenMountAndTagLeavesWhatARepetitionCompletes) {
  const std::string id = Create("data");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  ASSERT_TRUE(Unmount(id).has_value());
  lvm_.before.FailNth("ChangeTags", 1, Error(Code::kIo, "killed"));
  ExpectFails(Mount(id, "/srv/data"), Code::kIo, "a restart would not mount it again");
  Restart();
  ASSERT_TRUE(Unmount(id, Path("/srv/data")).has_value()) << "it can be undone";
  lvm_.before.FailNth("ChangeTags", 1, Error(Code::kIo, "killed"));
  ExpectFails(Mount(id, "/srv/data"), Code::kIo, "killed");
  Restart();
  EXPECT_TRUE(Mount(id, "/srv/data")->changed);
  EXPECT_EQ(Status1().mount_point, "/srv/data");
  EXPECT_THAT(Targets(), ElementsAre("/srv/data"));
}

TEST_F(MountsTest, ABusyVolumeKeepsItsMountPoint) {
  const std::string id = Create("data");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  mount_.SetBusy("/srv/data", "postgres[7]");
  ExpectFails(Unmount(id), Code::kPrecondition, "postgres[7]");
  EXPECT_EQ(Status1().mount_point, "/srv/data");
}

TEST_F(MountsTest, AVolumeHasOneMountPointAndAPathOneVolume) {
  const std::string id = Create("data");
  const std::string other = Create("other");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  ExpectFails(Mount(id, "/srv/elsewhere"), Code::kPrecondition,
              "is mounted at '/srv/data': unmount it first");
  ExpectFails(Mount(other, "/srv/data"), Code::kAlreadyExists, "is the mount point of volume");
  ExpectFails(Mount(id, "/srv/data", {"noatime"}), Code::kAlreadyExists, "other options");
  ExpectFails(Unmount(id, Path("/srv/elsewhere")), Code::kPrecondition, "has the mount point '/srv/data'");
  ASSERT_TRUE(mount_.Unmount(Path("/srv/data"), Soon()).has_value());  // by umount(8)
  ExpectFails(Mount(other, "/srv/data"), Code::kAlreadyExists, "is the mount point of volume");
  ASSERT_TRUE(Mount(id, "/srv/elsewhere").has_value()) << "the old mount point is only a tag by now";
  ASSERT_TRUE(Mount(other, "/srv/data").has_value());
}

// An orchestrator's mount is not ours to undo.
TEST_F(MountsTest, OnlyItsOwnMountIsUnmounted) {
  const std::string id = Create("data");
  mount_.AddDirectory("/pods");
  ASSERT_TRUE(engine_->volumes()
                  .Publish({.id = id,
                            .staging_path = std::nullopt,
                            .target_path = Path("/pods/a"),
                            .capability = {.fs_type = "ext4"},
                            .target_owner = TargetOwner::kCaller},
                           Soon())
                  .has_value());
  ExpectFails(Unmount(id), Code::kPrecondition, "is mounted at '/pods/a'");
  ExpectFails(Mount(id, "/srv/data"), Code::kPrecondition, "an orchestrator uses it");
  EXPECT_NE((*mount_.Mounts()).At(Path("/pods/a")), nullptr);
}

TEST_F(MountsTest, BadRequestsChangeNothing) {
  const std::string id = Create("data");
  const std::string raw = Create("raw", AccessType::kBlock);
  const uint64_t before = (*lvm_.Read("vg0", Soon()))->seqno;
  ExpectFails(engine_->mounts().Mount({.id = id}, Soon()), Code::kPrecondition, "has no mount point yet");
  ExpectFails(Mount(id, "/"), Code::kInvalidArgument, "root directory");
  ExpectFails(Mount(id, "/srv/data", {"ro,noatime"}), Code::kInvalidArgument, "more than one option");
  ExpectFails(Mount(raw, "/srv/data"), Code::kPrecondition, "is raw");
  ExpectFails(Mount("p.f00000000000000000000000000000000", "/srv/data"), Code::kNotFound, "");
  EXPECT_EQ((*lvm_.Read("vg0", Soon()))->seqno, before);
  EXPECT_THAT(Targets(), IsEmpty());
}

TEST_F(MountsTest, AParentIsMountedFirstAndOneFailureStopsNoOther) {
  const std::string child = Create("child");
  const std::string parent = Create("parent");
  const std::string alone = Create("alone");
  ASSERT_TRUE(Mount(parent, "/srv/p").has_value());
  mount_.AddDirectory("/srv/p");
  ASSERT_TRUE(Mount(child, "/srv/p/c").has_value());
  ASSERT_TRUE(Mount(alone, "/srv/z").has_value());
  Reboot();
  mount_.faults.FailNth("Mount", 1, Error(Code::kIo, "bad superblock"));
  const Status first = MountKept();
  ASSERT_FALSE(first.has_value());
  EXPECT_THAT(first.error().message(), HasSubstr("at '/srv/p': "));
  EXPECT_THAT(first.error().message(), HasSubstr("bad superblock"));
  EXPECT_THAT(first.error().message(), HasSubstr("is not mounted at '/srv/p' yet"));
  EXPECT_THAT(Targets(), ElementsAre("/srv/z"));
  ASSERT_TRUE(mount_.Unmount(Path("/srv/z"), Soon()).has_value());
  ASSERT_TRUE(MountKept().has_value());
  EXPECT_THAT(Targets(), ElementsAre("/srv/p", "/srv/p/c")) << "what somebody has unmounted since stays so";
}

TEST_F(MountsTest, AMountPointIsKeptWithoutSymbolicLinks) {
  const std::string id = Create("data");
  mount_.AddDirectory("/real");
  mount_.AddLink("/srv/link", "/real");
  ASSERT_TRUE(Mount(id, "/srv/link/data").has_value());
  EXPECT_EQ(Status1().mount_point, "/real/data");
  EXPECT_FALSE(Mount(id, "/srv/link/data")->changed);
  EXPECT_FALSE(Mount(id, "/real/data")->changed);
}

TEST_F(MountsTest, AMissingDirectoryIsAFailureAndNotTheEndOfTheVolume) {
  const std::string id = Create("data");
  mount_.AddDirectory("/srv/a");
  ASSERT_TRUE(Mount(id, "/srv/a/data").has_value());
  Reboot();
  ASSERT_TRUE(mount_.RemovePath(Path("/srv/a/data")).has_value());
  ASSERT_TRUE(mount_.RemovePath(Path("/srv/a")).has_value());
  const Status failed = MountKept();
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Code::kPrecondition) << failed.error().message();
  mount_.AddDirectory("/srv/a");
  EXPECT_TRUE(MountKept().has_value());
  EXPECT_THAT(Targets(), ElementsAre("/srv/a/data"));
}

TEST_F(MountsTest, AMountUnderAnotherOneIsNotTakenForUnmounted) {
  const std::string id = Create("data");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  mount_.AddForeignMount("/srv/data", "tmpfs", "none");
  ExpectFails(Unmount(id), Code::kPrecondition, "something else is mounted over it");
  EXPECT_EQ(Status1().mount_point, "/srv/data");
}

TEST_F(MountsTest, NoMountHidesOneBelowIt) {
  const std::string id = Create("data");
  mount_.AddDirectory("/srv/data/below");
  mount_.AddForeignMount("/srv/data/below", "tmpfs", "none");
  ExpectFails(Mount(id, "/srv/data"), Code::kPrecondition, "'/srv/data/below' is mounted below");
}

// The disks of two servers in one.
TEST_F(MountsTest, OfTwoVolumesThatAreKeptForOnePathOneIsMounted) {
  const std::string id = Create("data");
  const std::string other = Create("other");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  ASSERT_TRUE(Mount(other, "/srv/other").has_value());
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) {
    for (lvm::LogicalVolume& lv : group.lvs) {
      std::ranges::replace(lv.tags, std::string("quarry.mount=/srv/other"), "quarry.mount=/srv/data");
    }
  });
  Reboot();
  const Status failed = MountKept();
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().message(), HasSubstr("/srv/data"));
  EXPECT_THAT(Targets(), ElementsAre("/srv/data"));
}

TEST_F(MountsTest, WhatIsMountedElsewhereByThenStaysThere) {
  const std::string id = Create("data");
  ASSERT_TRUE(Mount(id, "/srv/data").has_value());
  ASSERT_TRUE(mount_.Unmount(Path("/srv/data"), Soon()).has_value());
  lvm_.before.FailNth("ChangeTags", 1, Error(Code::kIo, "killed"));
  ExpectFails(Mount(id, "/srv/new"), Code::kIo, "killed");
  Restart();
  ASSERT_TRUE(MountKept().has_value());
  EXPECT_THAT(Targets(), ElementsAre("/srv/new"));
  ASSERT_TRUE(Mount(id, "/srv/new").has_value()) << "a repetition completes it";
  EXPECT_EQ(Status1().mount_point, "/srv/new");
}

}  // namespace
}  // namespace quarry::engine
