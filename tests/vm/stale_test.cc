// A disk of a RAID volume returns older than the others, which are missing now. Nothing is started or rebuilt
// from a leg that may lack acknowledged writes, unless an administrator overrules. All data are there once
// the newer disks return. Needs three disks.
#include <fstream>

#include "tests/vm/disks_under_load.h"

namespace quarry::vm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Outcome Ctl(std::vector<std::string> words) {
  words.insert(words.begin(), "quarryctl");
  words.insert(words.end(), {"--endpoint", kAdminEndpoint});
  return Tool(words);
}

class StaleTest : public DisksUnderLoad {
 protected:
  // A raw volume in use and in sync, with pattern 1 on it. The repair delay is so long that nothing is
  // rebuilt.
  void Begin(const std::string& type) {
    Start("600");
    volume_ = MustCreate({"one", TypeParameters(type), BlockCapability(), kSize});
    ASSERT_FALSE(HasFailure());
    ASSERT_TRUE(UseAgain());
    ASSERT_TRUE(Eventually([&] { return Field("sync_percent") == "100.00"; }));
    ASSERT_OK(WritePattern(target_, 1, kSize));
    const auto legs = group().LegDevices(LvOf(volume_));
    ASSERT_OK(legs);
    for (const auto& leg : *legs) {
      disks_.push_back(NumberOf(*leg.begin()));
    }
  }
  testing::AssertionResult UseAgain() {
    const auto staged = client().Stage(volume_, StagingPath("one"), BlockCapability());
    return staged.ok() ? IsOk(client().Publish(volume_, StagingPath("one"), target_, BlockCapability()))
                       : IsOk(staged);
  }
  void Leave() {
    EXPECT_OK(client().Unpublish(volume_.volume_id(), target_));
    EXPECT_OK(client().Unstage(volume_.volume_id(), StagingPath("one")));
  }
  // The same as a reboot, as far as the volume and quarryd can see.
  void StopAll() {
    Leave();
    EXPECT_EQ(quarryd().Stop(), 0);
    ASSERT_TRUE(Tool({"lvchange", "-an", Lv()}).ok());
  }
  // Writes pattern 2 without leg 0. Then leg 0 returns, and leg `dead` is missing.
  void ComeBackOlder(size_t dead) {
    Pull(disks_[0]);
    ASSERT_TRUE(Eventually([&] { return !IsWell(volume_); }));
    ASSERT_OK(WritePattern(target_, 2, kSize)) << "the writer does not notice one missing leg";
    StopAll();
    Return(disks_[0]);
    Pull(disks_[dead]);
    ASSERT_TRUE(Eventually([&] { return DiskNode(disks_[dead]).empty(); }));
  }
  testing::AssertionResult IsRefused(const std::string& words) {
    return Fails(client().Stage(volume_, StagingPath("one"), BlockCapability()),
                 grpc::StatusCode::FAILED_PRECONDITION, words);
  }
  void ExpectLeftAlone() {
    EXPECT_TRUE(Eventually([&] { return quarryd().Log().find("repair has to wait") != std::string::npos; }));
    EXPECT_EQ(quarryd().Log().find("rebuild legs"), std::string::npos);
    EXPECT_EQ(quarryd().Log().find("take lost disks out"), std::string::npos);
    EXPECT_EQ(Trim(Tool({"vgs", "--noheadings", "-o", "pv_count", kGroup}).out), "3");
    EXPECT_THAT(ConditionOf(volume_), HasSubstr("is not started"));
    EXPECT_THAT(Ctl({"status"}).out, HasSubstr("is not started"));
  }
  void End() {
    Leave();
    EXPECT_OK(client().Delete(volume_.volume_id()));
  }

  std::string Lv() const { return std::string(kGroup) + "/" + LvOf(volume_); }
  std::string Field(const std::string& name) const {
    return Trim(Tool({"lvs", "-a", "--noheadings", "--nosuffix", "--units", "b", "-o", name, Lv()}).out);
  }
  std::string RepairWords() const { return "quarryctl repair " + volume_.volume_id(); }

  v1::Volume volume_;
  const std::string target_ = TargetPath("one");
  std::vector<int> disks_;  // the number of each leg's disk
};

class ReturnedTest : public StaleTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Stale, ReturnedTest, testing::Values("raid1", "raid5"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ReturnedTest, NoVolumeStartsFromAnOlderLegAndNothingIsLost) {
  ASSERT_NO_FATAL_FAILURE(Begin(GetParam()));
  ASSERT_NO_FATAL_FAILURE(ComeBackOlder(1));
  Start("1");
  EXPECT_TRUE(IsRefused(GetParam() == std::string("raid1") ? RepairWords() : "bring its disks back"));
  ExpectLeftAlone();

  Return(disks_[1]);
  EXPECT_TRUE(Eventually([&] { return static_cast<bool>(UseAgain()); })) << Conditions();
  EXPECT_OK(CheckPattern(target_, 2, kSize));
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
      << ConditionOf(volume_);

  // Leg 1 no longer lists leg 0 as failed, so leg 0 may have newer writes.
  if (GetParam() == std::string("raid1")) {
    StopAll();
    Pull(disks_[0]);
    ASSERT_TRUE(Eventually([&] { return DiskNode(disks_[0]).empty(); }));
    Start("600");
    EXPECT_TRUE(IsRefused(RepairWords()));
    Return(disks_[0]);
    EXPECT_TRUE(Eventually([&] { return static_cast<bool>(UseAgain()); })) << Conditions();
    EXPECT_OK(CheckPattern(target_, 2, kSize));
  }
  // The remaining legs have recorded this failure, so no administrator is needed.
  Pull(disks_[1]);
  ASSERT_TRUE(Eventually([&] { return DiskNode(disks_[1]).empty(); }));
  ASSERT_OK(WritePattern(target_, 3, kSize));
  StopAll();
  Start("600");
  EXPECT_TRUE(UseAgain());
  EXPECT_OK(CheckPattern(target_, 3, kSize));
  Return(disks_[1]);
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
      << ConditionOf(volume_);
  End();
}

TEST_F(StaleTest, AnAdministratorCanStartAVolumeFromAnOlderLeg) {
  ASSERT_NO_FATAL_FAILURE(Begin("raid1"));
  ASSERT_NO_FATAL_FAILURE(ComeBackOlder(1));
  Start("600");
  EXPECT_TRUE(IsRefused(RepairWords()));
  const Outcome all = Ctl({"repair"});
  EXPECT_EQ(all.status, 1);
  EXPECT_THAT(all.out, HasSubstr(RepairWords()));
  EXPECT_TRUE(IsRefused(RepairWords())) << "a repair of all volumes overrules nothing";
  EXPECT_NE(Ctl({"repair", "main.nobody"}).status, 0);

  const Outcome asked = Ctl({"repair", volume_.volume_id()});
  EXPECT_EQ(asked.status, 0) << asked.out << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("as asked for"));
  EXPECT_THAT(asked.out, HasSubstr("rebuild legs"));
  ASSERT_TRUE(UseAgain());
  EXPECT_OK(CheckPattern(target_, 1, kSize)) << "pattern 2 is on the disk that is given up";
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_); }, 120)) << ConditionOf(volume_);
  End();
  Return(disks_[1]);
  const std::string node = DiskNode(disks_[1]);
  ASSERT_TRUE(
      Sh("sleep 1; wipefs -a -q " + node + " && vgextend --metadatasize 64m " + kGroup + " " + node).ok());
}

// The overruled leg has recorded more changes than the leg that the volume was started from.
TEST_F(StaleTest, AnOverruledLegStaysOverruledWhenItReturns) {
  ASSERT_NO_FATAL_FAILURE(Begin("raid1"));
  const std::string spare = DiskNode(6 - disks_[0] - disks_[1]);
  ASSERT_TRUE(Tool({"pvchange", "-xn", spare}).ok()) << "leaves no space for another leg";
  Pull(disks_[0]);
  ASSERT_TRUE(Eventually([&] { return !IsWell(volume_); }));
  ASSERT_OK(WritePattern(target_, 2, kSize));
  for (int i = 0; i < 3; ++i) {
    Leave();
    ASSERT_TRUE(UseAgain());
  }
  StopAll();
  Return(disks_[0]);
  Pull(disks_[1]);
  ASSERT_TRUE(Eventually([&] { return DiskNode(disks_[1]).empty(); }));
  Start("600");
  EXPECT_TRUE(IsRefused(RepairWords()));
  EXPECT_THAT(Ctl({"repair", volume_.volume_id()}).out, HasSubstr("as asked for"));
  ASSERT_TRUE(UseAgain());
  EXPECT_OK(CheckPattern(target_, 1, kSize)) << "pattern 2 is on the missing disk";
  ASSERT_OK(WritePattern(target_, 3, kSize));

  // Now the chosen leg is missing, and the overruled leg returns before it learns of the choice.
  StopAll();
  Pull(disks_[0]);
  Return(disks_[1]);
  ASSERT_TRUE(Eventually([&] { return DiskNode(disks_[0]).empty(); }));
  Start("600");
  EXPECT_TRUE(Eventually([&] {
    return static_cast<bool>(IsRefused("were left out when an administrator started the volume"));
  })) << IsRefused("").message()
      << Tool({"pvs"}).out;
  EXPECT_TRUE(IsRefused(RepairWords()));
  Return(disks_[0]);
  EXPECT_TRUE(Eventually([&] { return static_cast<bool>(UseAgain()); })) << Conditions();
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
      << ConditionOf(volume_);
  EXPECT_OK(CheckPattern(target_, 3, kSize));
  Pull(disks_[0]);
  ASSERT_TRUE(Eventually([&] { return !IsWell(volume_); }));
  ASSERT_TRUE(Sh("echo 3 > /proc/sys/vm/drop_caches").ok());
  EXPECT_OK(CheckPattern(target_, 3, kSize)) << "the overruled leg was not rebuilt from the chosen one";
  Return(disks_[0]);
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
      << ConditionOf(volume_);
  ASSERT_TRUE(Tool({"pvchange", "-xy", spare}).ok());
  End();
}

// An administrator activates the older leg by hand and writes to it. Now both legs have writes that the other
// lacks.
TEST_F(StaleTest, DivergedLegsWaitForAnAdministrator) {
  ASSERT_NO_FATAL_FAILURE(Begin("raid1"));
  ASSERT_NO_FATAL_FAILURE(ComeBackOlder(1));
  ASSERT_TRUE(Tool({"lvchange", "-ay", "-K", "--activationmode", "degraded", Lv()}).ok());
  const Outcome node = Tool({"dmsetup", "info", "-c", "--noheadings", "-o", "blkdevname",
                             std::string(kGroup) + "-" + LvOf(volume_)});
  ASSERT_OK(WritePattern("/dev/" + Trim(node.out), 3, kSize));
  ASSERT_TRUE(Tool({"lvchange", "-an", Lv()}).ok());
  Return(disks_[1]);
  Start("1");
  EXPECT_TRUE(IsRefused("each went on without the other"));
  EXPECT_TRUE(IsRefused(RepairWords()));
  EXPECT_EQ(Ctl({"repair"}).status, 1) << "a repair of all volumes chooses no leg";
  EXPECT_TRUE(IsRefused(RepairWords()));

  const Outcome asked = Ctl({"repair", volume_.volume_id()});
  EXPECT_THAT(asked.out, HasSubstr("as asked for")) << asked.err;
  ASSERT_TRUE(UseAgain());
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
      << ConditionOf(volume_);
  const bool older = CheckPattern(target_, 3, kSize).has_value();
  EXPECT_TRUE(older || CheckPattern(target_, 2, kSize).has_value())
      << "the volume has neither pattern as a whole";
  for (const int disk : disks_) {
    Pull(disk);
    ASSERT_TRUE(Eventually([&] { return !IsWell(volume_); }));
    ASSERT_TRUE(Sh("echo 3 > /proc/sys/vm/drop_caches").ok());
    EXPECT_OK(CheckPattern(target_, older ? 3 : 2, kSize)) << "every leg has the same pattern";
    Return(disk);
    ASSERT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
        << ConditionOf(volume_);
  }
  End();
}

TEST_F(StaleTest, AnUnreadableLegCountsAsPossiblyNewer) {
  ASSERT_NO_FATAL_FAILURE(Begin("raid1"));
  Pull(disks_[0]);
  ASSERT_TRUE(Eventually([&] { return !IsWell(volume_); }));
  ASSERT_OK(WritePattern(target_, 2, kSize));
  StopAll();
  Return(disks_[0]);
  // The place of leg 1's superblock.
  const std::string node = DiskNode(disks_[1]);
  const std::string place =
      Trim(Tool({"lvs", "-a", "--noheadings", "-o", "seg_pe_ranges", Lv() + "_rmeta_1"}).out);
  ASSERT_TRUE(place.starts_with(node + ":")) << place;
  const auto number = [&](const char* field) {
    return std::stoull(
        Trim(Tool({"pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", field, node}).out));
  };
  const uint64_t at =
      number("pe_start") + std::stoull(place.substr(place.rfind(':') + 1)) * number("vg_extent_size");
  const std::string disk = std::to_string(disks_[1]);
  Vmctl({"error", disk, "read", std::to_string(at), "4096"});
  Start("1");
  EXPECT_TRUE(IsRefused("cannot be read"));
  EXPECT_TRUE(IsRefused(RepairWords()));
  ExpectLeftAlone();
  Vmctl({"error", disk, "off"});
  EXPECT_TRUE(UseAgain());
  EXPECT_OK(CheckPattern(target_, 2, kSize));
  EXPECT_TRUE(Eventually([&] { return IsWell(volume_) && Field("sync_percent") == "100.00"; }, 120))
      << ConditionOf(volume_);
  End();
}

TEST_F(StaleTest, AGroupThatGoesBackInTimeIsRefusedUntilARestart) {
  Start();
  const v1::Volume before = MustCreate({"before", TypeParameters("linear"), BlockCapability(), 4 * kMi});
  ASSERT_TRUE(Tool({"vgcfgbackup", "-f", "/root/older", kGroup}).ok());
  ASSERT_TRUE(Sh("lvcreate -q -an -Zn -Wn -l1 -n theirs vg && vgchange --addtag x vg").ok());
  ASSERT_TRUE(Tool({"vgchange", "--deltag", "x", kGroup}).ok());
  ASSERT_OK(client().List());
  const Outcome restored = Tool({"vgcfgrestore", "-y", "-f", "/root/older", kGroup});
  ASSERT_TRUE(restored.ok()) << restored.err;
  for (int i = 0; i < 2; ++i) {
    const auto staged = client().Stage(before, StagingPath("before"), BlockCapability());
    EXPECT_FALSE(staged.ok());
    EXPECT_THAT(staged.text(), AllOf(HasSubstr("gone back in time"), HasSubstr("restart quarryd")));
    EXPECT_FALSE(client().List().ok());
    EXPECT_FALSE(client().Delete(before.volume_id()).ok());
    // Further commits do not make it acceptable.
    ASSERT_TRUE(Sh("for i in 1 2 3; do vgchange --addtag x$i vg && vgchange --deltag x$i vg; done").ok());
  }
  EXPECT_EQ(quarryd().Stop(), 0);
  Start();
  const auto listed = client().List();
  ASSERT_OK(listed);
  ASSERT_EQ(listed.value.size(), 1U);
  EXPECT_EQ(listed.value.front().volume_id(), before.volume_id());
  EXPECT_OK(client().Delete(before.volume_id()));
}

// With a power cut in between. No VmTest: the group must outlive the first process.
class StaleReboot : public testing::Test {
 protected:
  static constexpr char kNotes[] = "/root/stale-notes";
  static VolumeSpec Spec(const std::string& type) {
    return {type, TypeParameters(type), BlockCapability(), kSize};
  }
  static std::string Staging(const std::string& type) { return "/root/staging-" + type; }
  static std::string Target(const std::string& type) { return "/root/target-" + type; }
  void Start(const std::string& delay) {
    QuarrydOptions options;
    options.arguments = {"--repair-delay=" + delay};
    auto started = QuarrydProcess::Start(options);
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady());
  }
  // Finds an existing volume too, since a repeated create returns it.
  v1::Volume Volume(const std::string& type) {
    auto made = client_.Create(Spec(type));
    EXPECT_OK(made);
    return made.ok() ? made.value.volume() : v1::Volume();
  }
  Reply<v1::NodeStageVolumeResponse> Stage(const v1::Volume& volume, const std::string& type) {
    EXPECT_TRUE(Tool({"mkdir", "-p", Staging(type)}).ok());
    return client_.Stage(volume, Staging(type), BlockCapability());
  }
  static std::string Lv(const v1::Volume& volume) {
    return std::string(kGroup) + "/" + LvNameIn(volume.volume_id());
  }

  const std::vector<std::string> types_ = {"raid1", "raid5"};
  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

TEST_F(StaleReboot, Before) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  Start("600");
  std::string first;
  std::string second;
  for (const std::string& type : types_) {
    const v1::Volume volume = Volume(type);
    ASSERT_OK(Stage(volume, type));
    ASSERT_OK(client_.Publish(volume, Staging(type), Target(type), BlockCapability()));
    ASSERT_TRUE(Eventually([&] {
      return Trim(Tool({"lvs", "--noheadings", "-o", "sync_percent", Lv(volume)}).out) == "100.00";
    }));
    ASSERT_OK(WritePattern(Target(type), 1, kSize));
    if (type == "raid1") {
      const auto legs = group.LegDevices(LvNameIn(volume.volume_id()));
      ASSERT_OK(legs);
      first = *legs->at(0).begin();
      second = *legs->at(1).begin();
    }
  }
  std::ofstream notes(kNotes);
  for (const std::string& node : {first, second}) {
    for (int number = 1; number <= 3; ++number) {
      notes << (DiskNode(number) == node ? std::to_string(number) + " " : "");
    }
  }
  notes.close();
  std::ifstream read(kNotes);
  int lost = 0;
  read >> lost;
  Vmctl({"pull", std::to_string(lost)});
  for (const std::string& type : types_) {
    ASSERT_OK(WritePattern(Target(type), 2, kSize));
  }
  ASSERT_TRUE(Tool({"sync", kNotes, "/root"}).ok());
  (void)quarryd_.release();  // the power cut ends it
}

TEST_F(StaleReboot, After) {
  std::ifstream notes(kNotes);
  int older = 0;
  int dead = 0;
  notes >> older >> dead;
  ASSERT_NE(dead, 0);
  Vmctl({"return", std::to_string(older)});
  Vmctl({"pull", std::to_string(dead)});
  ASSERT_TRUE(Eventually([&] { return !DiskNode(older).empty() && DiskNode(dead).empty(); }));
  Start("1");
  VolumeGroup group(kGroup, {});
  std::map<std::string, v1::Volume> volumes;
  for (const std::string& type : types_) {
    volumes[type] = Volume(type);
    EXPECT_TRUE(Fails(Stage(volumes[type], type), grpc::StatusCode::FAILED_PRECONDITION, "is not started"));
  }
  EXPECT_TRUE(Eventually([&] { return quarryd_->Log().find("repair has to wait") != std::string::npos; }));
  EXPECT_EQ(quarryd_->Log().find("rebuild legs"), std::string::npos);
  Vmctl({"return", std::to_string(dead)});
  for (const std::string& type : types_) {
    ASSERT_TRUE(Eventually([&] { return Stage(volumes[type], type).ok(); })) << type;
    ASSERT_OK(client_.Publish(volumes[type], Staging(type), Target(type), BlockCapability()));
    EXPECT_OK(CheckPattern(Target(type), 2, kSize)) << type;
    EXPECT_OK(client_.Unpublish(volumes[type].volume_id(), Target(type)));
    EXPECT_OK(client_.Unstage(volumes[type].volume_id(), Staging(type)));
    EXPECT_OK(client_.Delete(volumes[type].volume_id()));
  }
  EXPECT_TRUE(Eventually([&] { return group.Lvs().has_value() && group.Lvs()->empty(); }, 120))
      << Tool({"lvs", "-a", kGroup}).out;
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
