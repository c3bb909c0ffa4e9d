// quarryd in a container: with a mount namespace of its own and no more rights than it says it needs, with
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
    "+sys_admin,+dac_override,+dac_read_search,+fowner,+chown,+mknod,+sys_rawio,+sys_module,+sys_nice,+ipc_"
    "lock,"
    "+sys_ptrace,+sys_resource";
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

  void StartContained() {
    QuarrydOptions options;
    options.program = "contained";
    options.variables = {{"CONTAINED_SHARED", kShared}, {"CONTAINED_CAPABILITIES", kCapabilities}};
    StartQuarryd(options);
  }

  static std::string In(const std::string& name) { return std::string(kShared) + "/" + name; }
  // As the host sees it.
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
    EXPECT_TRUE(IsMountedOnTheHost(target)) << "what a pod would get";
    const std::string file = how.has_block() ? target : target + "/file";
    EXPECT_OK(WritePattern(file, 3, 4 * kMi));
    EXPECT_OK(client().Stats(id, target));
    ASSERT_OK(client().Expand(id, 384 * kMi));
    ASSERT_OK(client().NodeExpand(id, target, staging, 384 * kMi));

    KillAndRestart();
    ASSERT_OK(client().Publish(volume, staging, target, how)) << "it sees what it did before";
    EXPECT_OK(CheckPattern(file, 3, 4 * kMi));
    UniqueFd user(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(user.valid());
    EXPECT_FALSE(client().Delete(id).ok()) << "it is in use";
    user.Reset();

    ASSERT_OK(client().Unpublish(id, target));
    EXPECT_FALSE(IsMountedOnTheHost(target));
    ASSERT_OK(client().Unstage(id, staging));
    EXPECT_FALSE(IsMountedOnTheHost(staging));
    ASSERT_OK(client().Delete(id));
    ASSERT_TRUE(ComesBackEmpty());
  }
}

TEST_P(ContainerTest, AMountOfTheHostsNamespaceAloneIsFoundBeforeADelete) {
  StartContained();
  const v1::Volume volume = MustCreate({"elsewhere", {}, MountCapability("ext4")});
  const std::string staging = In("staging");
  std::filesystem::create_directories(staging);
  ASSERT_OK(client().Stage(volume, staging, MountCapability("ext4")));
  // An administrator of the host looks into it, where the container cannot see.
  std::filesystem::create_directories("/mnt/look");
  ASSERT_TRUE(Tool({"mount", NodeOf(volume), "/mnt/look"}).ok());
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  EXPECT_TRUE(Fails(client().Delete(volume.volume_id()), StatusCode::FAILED_PRECONDITION, "mount"));
  ASSERT_TRUE(Tool({"umount", "/mnt/look"}).ok());
  EXPECT_OK(client().Delete(volume.volume_id()));
}

INSTANTIATE_TEST_SUITE_P(With, ContainerTest, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Udevd" : "NoUdevd"; });

}  // namespace
}  // namespace quarry::vm
