// What a node may lack: the volume group, a kernel target. Needs a guest of its own, because a module that
// was loaded once stays loaded.
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;

class MissingTest : public testing::Test {
 protected:
  void Start() {
    auto started = QuarrydProcess::Start({});
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
  }
  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

TEST_F(MissingTest, ALaterVolumeGroupIsServedWithoutARestart) {
  Start();
  client_.set_wait_for_ready(true);
  EXPECT_TRUE(Eventually([this] {
    return static_cast<bool>(Fails(client_.Probe(), StatusCode::FAILED_PRECONDITION, kGroup));
  })) << client_.Probe().text();
  EXPECT_FALSE(client_.Create({"early"}).ok());
  EXPECT_FALSE(client_.List().ok()) << "an empty list would be wrong";
  EXPECT_FALSE(client_.Delete("main.qaaaaaaaaaaaaaaaaaaaaaaaaaa").ok())
      << "OK would mean that the volume is deleted";
  EXPECT_TRUE(quarryd_->Running());

  VolumeGroup group(kGroup, DiskNodes());
  ASSERT_OK(group.Make());
  EXPECT_OK(quarryd_->WaitReady()) << "quarryd notices the group without a restart";
  auto made = client_.Create({"late"});
  ASSERT_OK(made);
  EXPECT_OK(client_.Delete(made.value.volume().volume_id()));
  EXPECT_TRUE(Eventually([&] { return group.Lvs().has_value() && group.Lvs()->empty(); }));
  EXPECT_EQ(quarryd_->Stop(), 0);
}

TEST_F(MissingTest, AKernelWithoutRaidServesOtherTypesOnly) {
  ASSERT_TRUE(Sh("! grep -q '^dm_raid ' /proc/modules").ok()) << "dm-raid is loaded already";
  ASSERT_TRUE(Sh("for m in $(find /lib/modules -name 'dm-raid.ko*'); do mv $m $m.away; done; depmod").ok());
  VolumeGroup group(kGroup, DiskNodes());
  ASSERT_OK(group.Make());
  Start();
  ASSERT_OK(quarryd_->WaitReady());
  for (const std::string type : {"raid0", "raid1", "raid4", "raid5", "raid6", "raid10"}) {
    SCOPED_TRACE(type);
    auto capacity = client_.Capacity(TypeParameters(type));
    ASSERT_OK(capacity);
    EXPECT_EQ(capacity.value.available_capacity(), 0);
    EXPECT_TRUE(Fails(client_.Create({"refused-" + type, TypeParameters(type)}), StatusCode::INVALID_ARGUMENT,
                      "type"));
  }
  auto lvs = group.Lvs();
  ASSERT_OK(lvs);
  EXPECT_TRUE(lvs->empty());
  for (const std::string type : {"linear", "striped"}) {
    auto capacity = client_.Capacity(TypeParameters(type));
    ASSERT_OK(capacity);
    EXPECT_GT(capacity.value.available_capacity(), 0);
    auto made = client_.Create({"served-" + type, TypeParameters(type)});
    ASSERT_OK(made);
    EXPECT_OK(client_.Delete(made.value.volume().volume_id()));
  }
  EXPECT_TRUE(Eventually([&] { return group.Lvs().has_value() && group.Lvs()->empty(); }));
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
