// quarryd in a container: with its own mount namespace and only the rights that its systemd unit grants, with
// udevd and without.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;

// What deploy/systemd/quarryd.service grants, as setpriv(1) spells it.
constexpr char kCapabilities[] =
    "+sys_admin,+dac_override,+dac_read_search,+fowner,+fsetid,+chown,+mknod,+sys_rawio,+sys_module,"
    "+sys_nice,+ipc_lock,+sys_ptrace,+sys_resource";
constexpr char kShared[] = "/srv/kubelet";

class ContainerTest : public VmTest, public testing::WithParamInterface<bool> {
 protected:
  bool StartsQuarryd() const override { return false; }
  void SetUp() override {
    std::filesystem::create_directories(kShared);
    ASSERT_TRUE(Tool({"mount", "--bind", kShared, kShared}).ok());
    ASSERT_TRUE(Tool({"mount", "--make-rshared", kShared}).ok());
    VmTest::SetUp();
    if (!GetParam()) {
      ASSERT_TRUE(Tool({"udevadm", "control", "--exit"}).ok());
    }
  }
  void TearDown() override {
    if (!GetParam()) {
      EXPECT_TRUE(Tool({"/lib/systemd/systemd-udevd", "--daemon"}).ok());
    }
    VmTest::TearDown();
    EXPECT_TRUE(Tool({"umount", kShared}).ok());
  }

  static QuarrydOptions Contained() {
    QuarrydOptions options;
    options.program = "contained";
    options.variables = {{"CONTAINED_SHARED", kShared}, {"CONTAINED_CAPABILITIES", kCapabilities}};
    return options;
  }
  void StartContained() { StartQuarryd(Contained()); }

  static std::string In(const std::string& name) { return std::string(kShared) + "/" + name; }
  // Asks the host's mount namespace, not the container's.
  static bool IsMountedOnTheHost(const std::string& path) {
    return Tool({"findmnt", "-rn", "--mountpoint", path}).ok();
  }
};

TEST_P(ContainerTest, TheWholeLifeOfVolumesReachesTheHost) {
  StartContained();
  for (const auto& how : {MountCapability("ext4"), MountCapability("xfs"), BlockCapability()}) {
    SCOPED_TRACE(how.ShortDebugString());
    const v1::Volume volume = MustCreate({"contained", TypeParameters("raid1"), how, 320 * kMi});
    ASSERT_FALSE(volume.volume_id().empty());
    const std::string& id = volume.volume_id();
    const std::string staging = In("staging");
    const std::string target = In("target");
    std::filesystem::create_directories(staging);
    ASSERT_OK(client().Stage(volume, staging, how));
    ASSERT_OK(client().Publish(volume, staging, target, how));
    EXPECT_TRUE(IsMountedOnTheHost(target)) << "a pod would not get this mount";
    const std::string file = how.has_block() ? target : target + "/file";
    EXPECT_OK(WritePattern(file, 3, 4 * kMi));
    EXPECT_OK(client().Stats(id, target));
    ASSERT_OK(client().Expand(id, 384 * kMi));
    ASSERT_OK(client().NodeExpand(id, target, staging, 384 * kMi));

    KillAndRestart();
    ASSERT_OK(client().Publish(volume, staging, target, how))
        << "the new process does not see the earlier mounts";
    EXPECT_OK(CheckPattern(file, 3, 4 * kMi));
    UniqueFd user(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(user.valid());
    EXPECT_FALSE(client().Delete(id).ok()) << "the volume is in use";
    user.Reset();

    ASSERT_OK(client().Unpublish(id, target));
    EXPECT_FALSE(IsMountedOnTheHost(target));
    ASSERT_OK(client().Unstage(id, staging));
    EXPECT_FALSE(IsMountedOnTheHost(staging));
    ASSERT_OK(client().Delete(id));
    ASSERT_TRUE(ComesBackEmpty());
  }
}

TEST_P(ContainerTest, WithoutTheHostsLocksQuarrydRefusesToStartAndNamesTheMount) {
  QuarrydOptions options = Contained();
  options.variables.emplace_back("CONTAINED_WITHOUT_LOCKS", "1");
  auto started = QuarrydProcess::Start(options);
  ASSERT_OK(started);
  EXPECT_EQ((*started)->WaitExit(std::chrono::seconds(60)), 1);
  EXPECT_NE((*started)->Log().find("Mount the host's '/run/lock/lvm' at '/run/lock/lvm'"), std::string::npos)
      << (*started)->Log();
}

TEST_P(ContainerTest, AMountOnlyInTheHostsNamespaceBlocksADelete) {
  StartContained();
  const v1::Volume volume = MustCreate({"elsewhere", {}, MountCapability("ext4")});
  const std::string staging = In("staging");
  std::filesystem::create_directories(staging);
  ASSERT_OK(client().Stage(volume, staging, MountCapability("ext4")));
  // An administrator mounts the volume in the host's namespace, where the container cannot see the mount.
  std::filesystem::create_directories("/mnt/look");
  ASSERT_TRUE(Tool({"mount", NodeOf(volume), "/mnt/look"}).ok());
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  EXPECT_TRUE(Fails(client().Delete(volume.volume_id()), StatusCode::FAILED_PRECONDITION, "mount"));
  ASSERT_TRUE(Tool({"umount", "/mnt/look"}).ok());
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_P(ContainerTest, AChangedVolumeMountGroupKeepsSetGid) {
  StartContained();
  v1::VolumeCapability how = MountCapability("ext4");
  const v1::Volume volume = MustCreate({"grouped", {}, how});
  const std::string staging = In("staging");
  std::filesystem::create_directories(staging);
  for (const gid_t group : {2000U, 3000U}) {
    SCOPED_TRACE(group);
    how.mutable_mount()->set_volume_mount_group(std::to_string(group));
    ASSERT_OK(client().Stage(volume, staging, how));
    std::filesystem::create_directories(staging + "/made");
    for (const std::string& path : {staging, staging + "/lost+found", staging + "/made"}) {
      struct stat found{};
      ASSERT_EQ(::stat(path.c_str(), &found), 0) << path;
      EXPECT_EQ(found.st_gid, group) << path;
      EXPECT_NE(found.st_mode & S_ISGID, 0U) << path;
    }
    ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  }
  ASSERT_OK(client().Delete(volume.volume_id()));
}

TEST_P(ContainerTest, ATargetThatTheHostWouldNotSeeIsRefused) {
  StartContained();
  for (const auto& how : {MountCapability("ext4"), BlockCapability()}) {
    const v1::Volume volume = MustCreate({"unseen", {}, how});
    const std::string staging = how.has_block() ? In("staging") : StagingPath("unseen");
    std::filesystem::create_directories(staging);
    const auto staged = client().Stage(volume, staging, how);
    if (how.has_block()) {
      ASSERT_OK(staged);
      const std::string target = TargetPath("unseen");
      EXPECT_TRUE(
          Fails(client().Publish(volume, staging, target, how), StatusCode::FAILED_PRECONDITION, target));
      EXPECT_TRUE(Fails(client().Publish(volume, staging, target, how), StatusCode::FAILED_PRECONDITION,
                        "mountPropagation: Bidirectional"));
      ASSERT_OK(client().Unpublish(volume.volume_id(), target));
    } else {
      EXPECT_TRUE(Fails(staged, StatusCode::FAILED_PRECONDITION, "mountPropagation: Bidirectional"));
    }
    ASSERT_OK(client().Unstage(volume.volume_id(), staging));
    ASSERT_OK(client().Delete(volume.volume_id()));
  }
}

// The host's udevd, and a raw volume on which a tenant writes something that udevd could recognize.
class UdevRuleTest : public VmTest {
 protected:
  void TearDown() override {
    std::filesystem::remove(kRule);
    EXPECT_TRUE(Tool({"udevadm", "control", "--reload"}).ok());
    VmTest::TearDown();
  }
  static void InstallRule() {
    std::filesystem::create_directories(std::filesystem::path(kRule).parent_path());
    std::filesystem::copy_file("/opt/quarry/extra/59-quarry.rules", kRule);
    ASSERT_TRUE(Tool({"udevadm", "control", "--reload"}).ok());
  }
  // The file system types that udevd finds on the devices of volumes and their legs, after a change event.
  static std::string TypesSeen() {
    const Outcome told = Tool({"udevadm", "trigger", "--action=change", "--settle", "--subsystem-match=block",
                               "--sysname-match=dm-*"});
    EXPECT_TRUE(told.ok()) << told.err;
    return Trim(Sh("for d in /sys/block/dm-*; do udevadm info -q property -p $d; done | grep ^ID_FS_TYPE= | "
                   "sort -u")
                    .out);
  }
  static std::string Links() { return Sh("find /dev/disk/by-uuid -lname '*/dm-*'").out; }

  static constexpr char kRule[] = "/run/udev/rules.d/59-quarry.rules";
};

TEST_F(UdevRuleTest, UdevdIgnoresWhatTenantsWrite) {
  const v1::Volume volume = MustCreate({"raw", TypeParameters("raid1"), BlockCapability(), 320 * kMi});
  const std::string staging = StagingPath("raw");
  const std::string target = TargetPath("raw");
  ASSERT_OK(client().Stage(volume, staging, BlockCapability()));
  ASSERT_OK(client().Publish(volume, staging, target, BlockCapability()));
  const Outcome made = Tool({"mkfs.btrfs", "-q", "-f", target});
  ASSERT_TRUE(made.ok()) << made.err;
  EXPECT_EQ(TypesSeen(), "ID_FS_TYPE=btrfs") << "without the rule udevd recognizes the file system";
  EXPECT_NE(Links(), "");
  ASSERT_NO_FATAL_FAILURE(InstallRule());
  EXPECT_EQ(TypesSeen(), "");
  EXPECT_EQ(Links(), "");
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  ASSERT_OK(client().Delete(volume.volume_id()));
}

INSTANTIATE_TEST_SUITE_P(With, ContainerTest, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Udevd" : "NoUdevd"; });

}  // namespace
}  // namespace quarry::vm
