// The whole life of one volume of each type. Every promise holds across a kill of quarryd at every stage, and
// in the end every extent is free again.
#include <algorithm>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

constexpr uint64_t kDataLength = 8 << 20;

struct Kind {
  std::string name;
  std::map<std::string, std::string> parameters;
  v1::VolumeCapability capability;
  size_t legs;  // 1: linear
  int64_t size = 96 * kMi;
};

std::vector<Kind> Kinds() {
  return {
      {"LinearExt4", TypeParameters("linear"), MountCapability("ext4"), 1},
      {"LinearXfs", TypeParameters("linear"), MountCapability("xfs"), 1, 320 * kMi},
      {"LinearBlock", TypeParameters("linear"), BlockCapability(), 1},
      {"Striped", TypeParameters("striped", {{"stripes", "3"}, {"stripesize", "64"}}),
       MountCapability("ext4"), 3},
      {"Raid0", TypeParameters("raid0", {{"stripes", "2"}}), BlockCapability(), 2},
      {"Raid1", TypeParameters("raid1"), MountCapability("ext4"), 2},
      {"Raid1Block", TypeParameters("raid1", {{"mirrors", "2"}}), BlockCapability(), 3},
      {"Raid4", TypeParameters("raid4", {{"stripes", "2"}}), MountCapability("ext4"), 3},
      // The example of Mesos' documentation, word for word.
      {"Raid5", TypeParameters("raid5", {{"stripes", "3"}, {"stripesize", "64"}}), MountCapability("ext4"),
       4},
      {"Raid6", TypeParameters("raid6", {{"stripes", "3"}}), MountCapability("ext4"), 5},
      {"Raid10", TypeParameters("raid10", {{"stripes", "2"}}), MountCapability("xfs"), 4, 320 * kMi},
  };
}

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class LifecycleTest : public VmTest, public testing::WithParamInterface<Kind> {
 protected:
  bool IsBlock() const { return GetParam().capability.has_block(); }
  // The place of the workload's bytes: a file in the file system, or the device itself.
  std::string DataPath(const std::string& target) const { return IsBlock() ? target : target + "/data"; }

  void ExpectListed(const v1::Volume& volume) {
    auto listed = client().List();
    ASSERT_OK(listed);
    ASSERT_EQ(listed.value.size(), 1U);
    EXPECT_EQ(listed.value[0].volume_id(), volume.volume_id());
    EXPECT_EQ(listed.value[0].capacity_bytes(), volume.capacity_bytes());
    const auto context = [](const v1::Volume& of) {
      return std::map<std::string, std::string>(of.volume_context().begin(), of.volume_context().end());
    };
    EXPECT_EQ(context(listed.value[0]), context(volume));
  }

  void ExpectLegsOnDisksOfTheirOwn(const v1::Volume& volume) {
    auto legs = group().LegDevices(LvOf(volume));
    ASSERT_OK(legs);
    EXPECT_EQ(legs->size(), GetParam().legs);
    EXPECT_TRUE(Disjoint(*legs)) << "two legs share a disk";
  }
};

TEST_P(LifecycleTest, AVolumeSurvivesKillsAndReturnsEveryExtent) {
  const Kind& kind = GetParam();
  auto before = client().Capacity(kind.parameters);
  ASSERT_OK(before);
  ASSERT_GE(before.value.available_capacity(), kind.size);

  const v1::Volume volume = MustCreate({kind.name, kind.parameters, kind.capability, kind.size});
  ASSERT_GE(volume.capacity_bytes(), kind.size);
  ExpectLegsOnDisksOfTheirOwn(volume);
  ExpectListed(volume);

  KillAndRestart();
  ExpectListed(volume);

  const std::string staging = StagingPath(kind.name);
  const std::string target = TargetPath(kind.name);
  ASSERT_OK(client().Stage(volume, staging, kind.capability));
  ASSERT_OK(client().Publish(volume, staging, target, kind.capability));
  ASSERT_OK(WritePattern(DataPath(target), 1, kDataLength));

  // quarryd is killed while the volume is published. The workload goes on, and so does the volume's life.
  quarryd().Kill();
  EXPECT_OK(CheckPattern(DataPath(target), 1, kDataLength));
  ASSERT_OK(WritePattern(DataPath(target), 2, kDataLength, kDataLength));
  StartQuarryd();
  ExpectListed(volume);
  EXPECT_OK(client().Publish(volume, staging, target, kind.capability));

  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  EXPECT_FALSE(Sh("test -e " + target).ok()) << "unpublishing left the target behind";
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));

  // Later another pod finds the same bytes.
  ASSERT_OK(client().Stage(volume, staging, kind.capability));
  ASSERT_OK(client().Publish(volume, staging, target, kind.capability));
  EXPECT_OK(CheckPattern(DataPath(target), 1, kDataLength));
  EXPECT_OK(CheckPattern(DataPath(target), 2, kDataLength, kDataLength));
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));

  ASSERT_OK(client().Delete(volume.volume_id()));
  auto left = client().List();
  ASSERT_OK(left);
  EXPECT_TRUE(left.value.empty());
  EXPECT_OK(client().Delete(volume.volume_id())) << "a repeated delete is no error";
  ASSERT_TRUE(ComesBackEmpty());
  auto after = client().Capacity(kind.parameters);
  ASSERT_OK(after);
  EXPECT_EQ(after.value.available_capacity(), before.value.available_capacity());
}

INSTANTIATE_TEST_SUITE_P(Types, LifecycleTest, testing::ValuesIn(Kinds()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace quarry::vm
