// Disks are evacuated while their volumes are written to. Everything on them moves elsewhere, also when
// quarryd is killed again and again. An evacuation that does not fit is refused. Needs six disks.
#include <thread>

#include "tests/vm/disks_under_load.h"

namespace quarry::vm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class EvacuateTest : public DisksUnderLoad {
 protected:
  static Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(), "quarryctl");
    words.insert(words.end(), {"--endpoint", kAdminEndpoint});
    return Tool(words);
  }
  static std::string Members() {
    return Tool({"pvs", "--noheadings", "-o", "pv_name", "-S", std::string("vg_name=") + kGroup}).out;
  }
  static bool IsReadOnly(const std::string& device) {
    return Trim(Tool({"blockdev", "--getro", device}).out) == "1";
  }
  // Restores the group for the next test.
  static void GiveBack(int number) {
    const std::string node = DiskNode(number);
    EXPECT_TRUE(Sh("wipefs -a -q " + node + " && vgextend --metadatasize 64m " + kGroup + " " + node).ok());
  }
  // What must hold once the disk has left its group.
  void ExpectAllElsewhere(int number) {
    const std::string node = DiskNode(number);
    EXPECT_THAT(Members(), testing::Not(HasSubstr(node)));
    for (const Used& used : used_) {
      EXPECT_FALSE(DevicesOf(used).contains(node)) << used.type;
    }
    ExpectLegsOnDisksOfTheirOwn();
    EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
    WaitForTurns(4);
    for (const Used& used : used_) {
      if (used.type.starts_with("raid")) {
        ExpectNoMismatch(used);
      }
    }
    EXPECT_THAT(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out,
                testing::Not(HasSubstr("pvmove")));
  }
};

TEST_F(EvacuateTest, ADiskIsEvacuatedUnderLoadAndLeavesItsGroup) {
  Start();
  for (const char* type : {"raid1", "raid5", "raid10", "linear", "striped"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int leaving = BusiestDisk();
  const std::string node = DiskNode(leaving);
  EXPECT_TRUE(Ctl({"evacuate", node, "--dry-run"}).ok());
  EXPECT_THAT(Members(), HasSubstr(node));
  const Outcome done = Ctl({"evacuate", node});
  EXPECT_TRUE(done.ok()) << done.err << Conditions();
  EXPECT_THAT(done.out, HasSubstr("has left its group"));
  ExpectAllElsewhere(leaving);
  EXPECT_THAT(Ctl({"evacuate", node}).err, HasSubstr("no pool has a disk"));
  EndAll();
  GiveBack(leaving);
}

// LVM loads new tables for each move. The kernel keeps the device read-only with its new table.
TEST_F(EvacuateTest, ARawDeviceThatIsPublishedReadOnlyStaysSo) {
  Start();
  std::map<std::string, v1::Volume> volumes;
  for (const char* type : {"raid1", "linear"}) {
    const v1::Volume volume = MustCreate({type, TypeParameters(type), BlockCapability(), kSize});
    ASSERT_OK(client().Stage(volume, StagingPath(type), BlockCapability()));
    ASSERT_OK(client().Publish(volume, StagingPath(type), TargetPath(type), BlockCapability(), true));
    ASSERT_TRUE(IsReadOnly(TargetPath(type)));
    volumes.emplace(type, volume);
  }
  const auto all_read_only = [&] {
    return IsReadOnly(TargetPath("raid1")) && IsReadOnly(TargetPath("linear"));
  };
  const auto legs = group().LegDevices(LvOf(volumes.at("linear")));
  ASSERT_OK(legs);
  const std::string leaving = *legs->front().begin();
  const int number = NumberOf(leaving);
  ASSERT_TRUE(Ctl({"evacuate", leaving}).ok()) << Conditions();
  EXPECT_TRUE(Eventually(all_read_only)) << quarryd().Log();
  GiveBack(number);

  const std::string lv = std::string(kGroup) + "/" + LvOf(volumes.at("linear"));
  const Outcome moved = Sh("pvmove -n " + LvOf(volumes.at("linear")) + " $(lvs --noheadings -o devices " +
                           lv + " | sed 's/(.*//') " + DiskNode(number));
  ASSERT_TRUE(moved.ok()) << moved.err;
  EXPECT_TRUE(Eventually(all_read_only, 60)) << quarryd().Log();
  EXPECT_OK(client().Publish(volumes.at("linear"), StagingPath("linear"), TargetPath("linear"),
                             BlockCapability(), true))
      << "repeated";
  for (const auto& [type, volume] : volumes) {
    EXPECT_OK(client().Unpublish(volume.volume_id(), TargetPath(type)));
    EXPECT_OK(client().Unstage(volume.volume_id(), StagingPath(type)));
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

TEST_F(EvacuateTest, LegsOfAReplacedDiskAreRebuiltFromTheOthers) {
  Start();
  for (const char* type : {"raid1", "raid5", "linear"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int leaving = BusiestDisk();
  const Outcome done = Ctl({"replace", DiskNode(leaving)});
  EXPECT_TRUE(done.ok()) << done.err << Conditions();
  ExpectAllElsewhere(leaving);
  EXPECT_THAT(quarryd().Log(), HasSubstr("rebuild"));
  EndAll();
  GiveBack(leaving);
}

class KilledTest : public EvacuateTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Evacuate, KilledTest, testing::Values("evacuate", "replace"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(KilledTest, AnEvacuationContinuesAfterEveryKill) {
  Start();
  for (const char* type : {"raid1", "raid5", "linear"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int leaving = BusiestDisk();
  ASSERT_TRUE(Ctl({GetParam(), DiskNode(leaving), "--no-wait"}).ok());
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(milliseconds(600 + 500 * i));
    quarryd().Kill();
    Start();
  }
  EXPECT_TRUE(Eventually([&] { return Members().find(DiskNode(leaving)) == std::string::npos; }, 240))
      << Conditions();
  ExpectAllElsewhere(leaving);
  EndAll();
  GiveBack(leaving);
}

TEST_F(EvacuateTest, AnUnplaceableEvacuationIsRefusedAndACancelledOneStops) {
  Start();
  std::vector<v1::Volume> volumes;
  for (int i = 0; i < 6; ++i) {
    volumes.push_back(
        MustCreate({"v" + std::to_string(i), TypeParameters("linear"), BlockCapability(), 900 * kMi}));
  }
  ASSERT_FALSE(HasFailure());
  const std::string node = *group().LegDevices(LvOf(volumes[0]))->front().begin();
  const Outcome refused = Ctl({"evacuate", node});
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err, HasSubstr("too few"));
  EXPECT_THAT(Members(), HasSubstr(node));
  for (size_t i = 1; i < volumes.size(); ++i) {
    EXPECT_OK(client().Delete(volumes[i].volume_id()));
  }
  // There is room once their bytes are erased.
  ASSERT_TRUE(Eventually([&] { return Ctl({"evacuate", node, "--no-wait"}).ok(); }));
  ASSERT_TRUE(Ctl({"evacuate", node, "--cancel"}).ok());
  EXPECT_THAT(Tool({"pvs", "--noheadings", "-o", "pv_name,pv_attr,pv_tags", node}).out, HasSubstr("a--"));
  EXPECT_THAT(Ctl({"evacuate", node, "--cancel"}).err, HasSubstr("not being evacuated"));
  // The extents that were being moved may have arrived.
  EXPECT_TRUE(Eventually([&] { return client().Delete(volumes[0].volume_id()).ok(); }));
  EXPECT_TRUE(Eventually(
      [&] { return Trim(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out).empty(); }, 120));
  EXPECT_THAT(Members(), HasSubstr(node));
}

}  // namespace
}  // namespace quarry::vm
