// One volume through all versions of CSI on one socket, on real LVM.
#include <filesystem>

#include "tests/slrp/plugin.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::seconds;

class Versions : public VmTest {
 protected:
  static std::unique_ptr<slrp::Plugin> Speak(slrp::Api api) {
    return slrp::Connect(kSocket, api, seconds(120));
  }
};

TEST_F(Versions, OneVolumeIsMadeByV01ListedByV0AndPublishedByV1) {
  const auto v0_1 = Speak(slrp::Api::kV0_1);
  const auto v0 = Speak(slrp::Api::kV0);
  const slrp::Capability mount{.block = false, .fs_type = "ext4"};
  const auto made = v0_1->Create("mesos", 64 * kMi, mount, {{"type", "raid1"}});
  ASSERT_TRUE(made.ok()) << slrp::Words(made.status);
  EXPECT_EQ(made.value.size, static_cast<uint64_t>(64 * kMi));
  for (slrp::Plugin* const plugin : {v0_1.get(), v0.get()}) {
    const auto listed = plugin->List();
    ASSERT_TRUE(listed.ok()) << slrp::Words(listed.status);
    ASSERT_EQ(listed.value.volumes.size(), 1U);
    EXPECT_EQ(listed.value.volumes.front(), made.value);
  }
  auto listed = client().List();
  ASSERT_OK(listed);
  ASSERT_EQ(listed.value.size(), 1U);
  const v1::Volume volume = listed.value.front();
  EXPECT_EQ(volume.volume_id(), made.value.id);
  EXPECT_EQ(volume.capacity_bytes(), 64 * kMi);

  const std::string staging = StagingPath("v");
  const std::string target = TargetPath("v");
  const v1::VolumeCapability capability = MountCapability("ext4");
  ASSERT_OK(client().Stage(volume, staging, capability));
  ASSERT_OK(client().Publish(volume, staging, target, capability));
  ASSERT_OK(WritePattern(target + "/data", 6, 4 << 20));
  // Another version uses the same volume at the same time: one file system, two paths.
  const std::string old_target = TargetPath("old");
  ASSERT_TRUE(Tool({"mkdir", "-p", old_target}).ok());
  const auto published = v0->Publish(made.value, "", old_target, mount);
  ASSERT_TRUE(published.ok()) << slrp::Words(published);
  EXPECT_OK(CheckPattern(old_target + "/data", 6, 4 << 20));
  EXPECT_EQ(v0->Delete(made.value.id).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  ASSERT_TRUE(v0->Unpublish(made.value.id, old_target).ok());
  EXPECT_TRUE(std::filesystem::is_directory(old_target)) << "the caller's path stays";

  // The oldest version publishes without staging, after the newest version has used the volume.
  ASSERT_TRUE(v0_1->Publish(made.value, "", old_target, mount).ok());
  EXPECT_OK(CheckPattern(old_target + "/data", 6, 4 << 20));
  ASSERT_TRUE(v0_1->Unpublish(made.value.id, old_target).ok());
  ASSERT_TRUE(v0_1->Delete(made.value.id).ok());
  std::filesystem::remove(old_target);
}

TEST_F(Versions, BeforeV1ARawVolumeIsPublishedOnADirectory) {
  const auto v0 = Speak(slrp::Api::kV0);
  const auto made = v0->Create("raw", 16 * kMi, {.block = true}, {});
  ASSERT_TRUE(made.ok()) << slrp::Words(made.status);
  const std::string target = TargetPath("raw");
  ASSERT_TRUE(Tool({"mkdir", "-p", target}).ok());
  for (int round = 0; round < 2; ++round) {
    const auto published = v0->Publish(made.value, "", target, {.block = true});
    ASSERT_TRUE(published.ok()) << slrp::Words(published);
    EXPECT_TRUE(std::filesystem::is_block_file(target));
    ASSERT_TRUE(v0->Unpublish(made.value.id, target).ok());
    EXPECT_TRUE(std::filesystem::exists(target));
    EXPECT_FALSE(std::filesystem::is_block_file(target));
  }
  ASSERT_TRUE(v0->Delete(made.value.id).ok());
  std::filesystem::remove(target);
}

}  // namespace
}  // namespace quarry::vm
