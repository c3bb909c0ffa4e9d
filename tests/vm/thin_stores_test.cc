// Thin stores on real LVM: every promised byte can be written, deleted bytes are on no disk, and disks that
// go away cost nothing that the type can do without. Needs four disks.
#include <atomic>
#include <thread>

#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

class ThinStoreOfTypeTest : public ThinStoresTest, public testing::WithParamInterface<std::string> {};

TEST_P(ThinStoreOfTypeTest, IsFilledToTheLastPromisedByteAndErased) {
  ASSERT_NO_FATAL_FAILURE(StartWith(GetParam()));
  ASSERT_EQ(Left(), kStoreSize);
  const v1::Volume one = Make("one", 40 * kMi);
  const v1::Volume two = Make("two", 56 * kMi);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(Fails(client().Create({"three", TypeParameters("thin"), BlockCapability(), 4 * kMi}),
                    grpc::StatusCode::RESOURCE_EXHAUSTED, "thin store 'fast'"));
  const std::string first = Publish(one, "one");
  const std::string second = Publish(two, "two");
  EXPECT_OK(CheckZero(first, 40 << 20));
  EXPECT_OK(WritePattern(first, 1, 40 << 20));
  Sh("yes '" + std::string(kMarker) + "' | dd of=" + second + " bs=1M iflag=fullblock oflag=direct 2>&1");
  EXPECT_OK(CheckPattern(first, 1, 40 << 20));
  EXPECT_EQ(Trim(Lvs("data_percent", "vg/" + Pool())), "100.00");
  EXPECT_GT(Markers(), 0);

  End(two, "two");
  EXPECT_TRUE(Eventually([&] { return Left() == 56 * kMi; }, 120)) << quarryd().Log();
  EXPECT_EQ(Markers(), 0) << "no byte of the deleted volume is on any disk";
  EXPECT_OK(CheckPattern(first, 1, 40 << 20));
  const v1::Volume next = Make("next", 56 * kMi);
  EXPECT_OK(CheckZero(Publish(next, "next"), 56 << 20));
  End(next, "next");
  End(one, "one");
  EXPECT_TRUE(IsEmptyStore());
}

INSTANTIATE_TEST_SUITE_P(Types, ThinStoreOfTypeTest, testing::Values("raid1", "striped"),
                         [](const auto& tested) { return tested.param; });

TEST_F(ThinStoresTest, AFileSystemGrowsInUse) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume volume = MustCreate({"grows", TypeParameters("thin"), MountCapability("ext4"), 40 * kMi});
  ASSERT_OK(client().Stage(volume, StagingPath("grows"), MountCapability("ext4")));
  ASSERT_OK(client().Publish(volume, StagingPath("grows"), TargetPath("grows"), MountCapability("ext4")));
  ASSERT_OK(WritePattern(TargetPath("grows") + "/file", 3, 8 << 20));
  ASSERT_OK(client().Expand(volume.volume_id(), kStoreSize));
  ASSERT_OK(client().NodeExpand(volume.volume_id(), TargetPath("grows"), StagingPath("grows"), kStoreSize));
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(
      Fails(client().Expand(volume.volume_id(), kStoreSize + 4 * kMi), grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_OK(WritePattern(TargetPath("grows") + "/more", 4, 48 << 20));
  EXPECT_OK(CheckPattern(TargetPath("grows") + "/file", 3, 8 << 20));
  End(volume, "grows");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, KilledAgainAndAgainQuarrydLeavesNothing) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume kept = Make("kept", 32 * kMi);
  ASSERT_OK(WritePattern(Publish(kept, "kept"), 7, 32 << 20));
  for (int round = 0; round < 6; ++round) {
    std::atomic<bool> stop = false;
    std::jthread caller([&stop] {
      CsiClient own(kSocket);
      while (!stop) {
        const auto made = own.Create({"killed", TypeParameters("thin"), BlockCapability(), 64 * kMi});
        if (made.ok()) {
          (void)WritePattern("/dev/vg/" + LvOf(made.value.volume()), 8, 4 << 20);
          (void)own.Delete(made.value.volume().volume_id());
        }
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(600 + 450 * round));
    stop = true;
    KillAndRestart();
  }
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    if (volume.volume_id() != kept.volume_id()) {
      EXPECT_OK(client().Delete(volume.volume_id()));
    }
  }
  EXPECT_TRUE(Eventually([&] { return Left() == 64 * kMi; }, 120))
      << Lvs("lv_name,lv_tags") << quarryd().Log();
  EXPECT_OK(CheckPattern(TargetPath("kept"), 7, 32 << 20));
  End(kept, "kept");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, LegsOfAPulledDiskAreRebuiltWhileTheStoreIsInUse) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1", "4"));
  const v1::Volume volume = Make("used", 64 * kMi);
  Writer writer(Publish(volume, "used"), true, std::chrono::milliseconds(250));
  ASSERT_TRUE(Eventually([&] { return writer.turns() > 3; }));
  const std::string pool = Pool();
  const std::set<int> before = DisksOf(pool);
  ASSERT_GE(before.size(), 2U) << Lvs("lv_name,devices");
  const int lost = *before.begin();
  Pull(lost);
  EXPECT_TRUE(Eventually([&] { return !IsWell(volume); }, 60)) << ConditionOf(volume);
  printf("  the volume says: %s\n", ConditionOf(volume).c_str());
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); }, 180)) << ConditionOf(volume) << quarryd().Log();
  EXPECT_FALSE(Lvs("lv_name,devices").find("unknown") != std::string::npos) << Lvs("lv_name,devices");
  EXPECT_GE(DisksOf(pool).size(), 2U) << Lvs("lv_name,devices");
  Return(lost);
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); }, 60)) << ConditionOf(volume);
  EXPECT_OK(writer.StopAndCheck());
  // quarryd gave the disk up, so it is a stranger now.
  EXPECT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
  End(volume, "used");
  EXPECT_TRUE(IsEmptyStore());
}

TEST_F(ThinStoresTest, AStoreStartsWithoutADiskThatItCanDoWithout) {
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  const v1::Volume volume = Make("kept", 32 * kMi);
  ASSERT_OK(WritePattern(Publish(volume, "kept"), 9, 32 << 20));
  EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath("kept")));
  EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath("kept")));
  const int lost = *DisksOf(Pool()).begin();
  ASSERT_EQ(quarryd().Stop(), 0);
  ASSERT_TRUE(Tool({"vgchange", "-an", kGroup}).ok());
  Pull(lost);
  ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
  // The disk may have writes that the other lacks: nobody has seen it fail.
  EXPECT_TRUE(Fails(client().Stage(volume, StagingPath("kept"), BlockCapability()),
                    grpc::StatusCode::FAILED_PRECONDITION, "is on a missing disk"));
  const std::string store = Trim(
      Sh("lvs --noheadings -o lv_tags vg/" + Pool() + " | tr ',' '\\n' | sed -n 's/.*quarry.id=//p'").out);
  const Outcome started = Tool({"quarryctl", "repair", store});
  EXPECT_TRUE(started.ok()) << started.out << started.err;
  EXPECT_OK(CheckPattern(Publish(volume, "kept"), 9, 32 << 20));
  // Who asks for repairs gives missing disks up, so its legs are rebuilt on other disks.
  EXPECT_TRUE(Eventually([&] { return IsWell(volume); }, 180)) << ConditionOf(volume) << quarryd().Log();
  EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath("kept")));
  EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath("kept")));
  Return(lost);
  EXPECT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
  EXPECT_TRUE(Eventually([&] {
    return client().Create({"late", TypeParameters("thin"), BlockCapability(), 4 * kMi}).ok();
  })) << quarryd().Log();
  for (const v1::Volume& one : client().List().value) {
    EXPECT_OK(client().Delete(one.volume_id()));
  }
  EXPECT_TRUE(IsEmptyStore());
}

}  // namespace
}  // namespace quarry::vm
