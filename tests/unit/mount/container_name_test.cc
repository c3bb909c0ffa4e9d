#include "mount/container_name.h"

#include <gtest/gtest.h>

namespace quarry::mount {
namespace {

const std::string kId = "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef";

TEST(ContainerName, APodsContainerIsNamedWithItsPod) {
  EXPECT_EQ(ContainerName("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
                          "pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" +
                          kId + ".scope\n"),
            "container 3f2a9c0d1e4b of pod 0a1b2c3d-1111-2222-3333-444455556666");
  EXPECT_EQ(ContainerName("0::/kubepods/besteffort/pod0a1b2c3d-1111-2222-3333-444455556666/" + kId + "\n"),
            "container 3f2a9c0d1e4b of pod 0a1b2c3d-1111-2222-3333-444455556666");
}

TEST(ContainerName, AContainerWithoutPodIsNamedAlone) {
  EXPECT_EQ(ContainerName("0::/system.slice/docker-" + kId + ".scope\n"), "container 3f2a9c0d1e4b");
  EXPECT_EQ(ContainerName("0::/machine.slice/libpod-" + kId + ".scope/container\n"),
            "container 3f2a9c0d1e4b");
  EXPECT_EQ(ContainerName("4:memory:/docker/" + kId + "\n3:cpu:/docker/" + kId + "\n"),
            "container 3f2a9c0d1e4b");
}

TEST(ContainerName, ANomadTaskIsNamedWithItsAllocation) {
  EXPECT_EQ(ContainerName("0::/nomad.slice/share.slice/0a1b2c3d-1111-2222-3333-444455556666.web.scope\n"),
            "task web of Nomad allocation 0a1b2c3d-1111-2222-3333-444455556666");
}

TEST(ContainerName, AServiceIsNamedOnlyOutsideContainers) {
  EXPECT_EQ(ContainerName("0::/system.slice/cron.service\n"), "service cron.service");
  EXPECT_EQ(ContainerName("0::/system.slice/docker.service/docker-" + kId + ".scope"),
            "container 3f2a9c0d1e4b");
}

TEST(ContainerName, OtherGroupsHaveNoName) {
  EXPECT_EQ(ContainerName(""), "");
  EXPECT_EQ(ContainerName("0::/\n"), "");
  EXPECT_EQ(ContainerName("0::/user.slice/user-0.slice/session-3.scope\n"), "");
  EXPECT_EQ(ContainerName("0::/x/" + kId.substr(1) + "\n"), "");
  EXPECT_EQ(ContainerName("0::/x/podnot-a-uid\n"), "");
}

}  // namespace
}  // namespace quarry::mount
