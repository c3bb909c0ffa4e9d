// Disks go and come while volumes are written to: raid volumes lose nothing, lost legs are rebuilt elsewhere
// by themselves, disks that are back are taken back, and what no redundancy covers is said and left alone.
// Needs six disks.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/writer.h"

namespace quarry::vm {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kSize = 24 * kMi;
constexpr int kDelay = 4;  // seconds until a missing disk is given up

void Vmctl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "vmctl");
  const Outcome outcome = Tool(arguments);
  ASSERT_TRUE(outcome.ok()) << outcome.err;
}

class RepairTest : public VmTest {
 protected:
  struct Used {
    v1::Volume volume;
    std::string type;
    std::string target;
    std::unique_ptr<Writer> writer;
  };

  bool StartsQuarryd() const override { return false; }

  void TearDown() override {
    for (const std::string& number : pulled_) {
      Tool({"vmctl", "return", number});
    }
    VmTest::TearDown();
  }

  void Start(const std::string& delay = std::to_string(kDelay)) {
    QuarrydOptions options;
    options.arguments = {"--repair-delay=" + delay};
    StartQuarryd(options);
  }

  // A raw volume in use, written to from now on.
  void Use(const std::string& type) {
    Used used{.type = type, .target = TargetPath(type)};
    used.volume = MustCreate({type, TypeParameters(type), BlockCapability(), kSize});
    ASSERT_OK(client().Stage(used.volume, StagingPath(type), BlockCapability()));
    ASSERT_OK(client().Publish(used.volume, StagingPath(type), used.target, BlockCapability()));
    used.writer = std::make_unique<Writer>(used.target, true, milliseconds(100));
    used_.push_back(std::move(used));
  }
  void EndAll() {
    for (Used& used : used_) {
      SCOPED_TRACE(used.type);
      EXPECT_OK(used.writer->StopAndCheck());
      End(used);
    }
    used_.clear();
  }
  void End(const Used& used) {
    EXPECT_OK(client().Unpublish(used.volume.volume_id(), used.target));
    EXPECT_OK(client().Unstage(used.volume.volume_id(), StagingPath(used.type)));
    EXPECT_OK(client().Delete(used.volume.volume_id()));
  }

  // By the second opinion: LVM's.
  std::set<std::string> DevicesOf(const Used& used) const {
    std::set<std::string> out;
    const auto legs = group().LegDevices(LvOf(used.volume));
    EXPECT_OK(legs);
    for (const auto& leg : legs.has_value() ? *legs : std::vector<std::set<std::string>>()) {
      out.insert(leg.begin(), leg.end());
    }
    return out;
  }
  void ExpectLegsOnDisksOfTheirOwn() {
    for (const Used& used : used_) {
      const auto legs = group().LegDevices(LvOf(used.volume));
      EXPECT_OK(legs);
      EXPECT_TRUE(used.type == "linear" || (legs.has_value() && Disjoint(*legs))) << used.type;
    }
  }
  static int NumberOf(const std::string& node) {
    for (int number = 1; number <= 6; ++number) {
      if (DiskNode(number) == node) {
        return number;
      }
    }
    return 0;
  }
  // The number of the disk that most of the volumes lie on.
  int BusiestDisk() {
    std::map<int, int> users;
    for (int number = 1; number <= 6; ++number) {
      for (const Used& used : used_) {
        users[number] += DevicesOf(used).contains(DiskNode(number)) ? 1 : 0;
      }
    }
    return std::ranges::max_element(users, {}, [](const auto& entry) { return entry.second; })->first;
  }

  void Pull(int number) {
    pulled_.insert(std::to_string(number));
    Vmctl({"pull", std::to_string(number)});
  }
  void Return(int number) {
    Vmctl({"return", std::to_string(number)});
    pulled_.erase(std::to_string(number));
    ASSERT_TRUE(Eventually([&] { return !DiskNode(number).empty(); }));
  }

  std::string ConditionOf(const v1::Volume& volume) {
    v1::ControllerGetVolumeRequest request;
    request.set_volume_id(volume.volume_id());
    const auto got =
        client().Invoke(client().controller(), &v1::Controller::Stub::ControllerGetVolume, request);
    if (!got.ok()) {
      return "error: " + got.text();
    }
    const auto& condition = got.value.status().volume_condition();
    return (condition.abnormal() ? "abnormal: " : "") + condition.message();
  }
  bool IsWell(const v1::Volume& volume) {
    const std::string condition = ConditionOf(volume);
    return !condition.starts_with("abnormal") && !condition.starts_with("error");
  }
  bool AllWell() {
    return std::ranges::all_of(used_, [this](const Used& used) { return IsWell(used.volume); });
  }
  std::string Conditions() {
    std::string out;
    for (const Used& used : used_) {
      out += used.type + ": " + ConditionOf(used.volume) + "\n";
    }
    return out + Tool({"lvs", "-a", "-o", "lv_name,health_status,devices,sync_percent", kGroup}).out +
           Tool({"pvs", "-o", "+pv_missing"}).out + Sh("tail -n 40 /run/quarry-test/quarryd.log").out;
  }
  // Every byte twice, once each way: no leg differs from what the others say.
  void ExpectNoMismatch(const Used& used) {
    const std::string lv = std::string(kGroup) + "/" + LvOf(used.volume);
    ASSERT_TRUE(Tool({"lvchange", "--syncaction", "check", lv}).ok());
    ASSERT_TRUE(Eventually([&] {
      return Trim(Tool({"lvs", "--noheadings", "-o", "raid_sync_action", lv}).out) == "idle";
    })) << used.type;
    EXPECT_EQ(Trim(Tool({"lvs", "--noheadings", "-o", "raid_mismatch_count", lv}).out), "0") << used.type;
  }
  void WaitForTurns(uint64_t more) {
    for (const Used& used : used_) {
      const uint64_t until = used.writer->turns() + more;
      EXPECT_TRUE(Eventually([&] { return used.writer->turns() >= until; })) << used.type;
    }
  }

  std::vector<Used> used_;
  std::set<std::string> pulled_;
};

TEST_F(RepairTest, ALostDiskIsRebuiltOnOthersUnderLoadAndLinearVolumesGetItBack) {
  Start();
  for (const char* type : {"raid1", "raid5", "raid10", "raid6"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  // On the fullest disk, which is where most of the others have a leg.
  const v1::Volume there = MustCreate({"there", TypeParameters("linear"), BlockCapability(), 16 * kMi});
  const v1::Volume elsewhere =
      MustCreate({"elsewhere", TypeParameters("linear"), MountCapability(), 900 * kMi});
  ASSERT_FALSE(HasFailure());
  const std::string node = *group().LegDevices(LvOf(there))->front().begin();
  ASSERT_FALSE(group().LegDevices(LvOf(elsewhere))->front().contains(node));
  const int lost = NumberOf(node);
  ASSERT_OK(client().Stage(there, StagingPath("l"), BlockCapability()));
  ASSERT_OK(client().Publish(there, StagingPath("l"), TargetPath("l"), BlockCapability()));
  ASSERT_OK(WritePattern(TargetPath("l"), 77, 8 << 20));

  std::set<std::string> affected;
  for (const Used& used : used_) {
    if (DevicesOf(used).contains(node)) {
      affected.insert(used.type);
    }
  }
  ASSERT_FALSE(affected.empty());
  const auto pulled = steady_clock::now();
  Pull(lost);
  std::map<std::string, double> noticed;
  EXPECT_TRUE(Eventually([&] {
    size_t left = 0;
    for (const Used& used : used_) {
      if (!affected.contains(used.type) || noticed.contains(used.type)) {
        continue;
      }
      if (IsWell(used.volume)) {
        ++left;
      } else {
        noticed[used.type] = duration<double>(steady_clock::now() - pulled).count();
      }
    }
    return left == 0 && !IsWell(there);
  })) << Conditions();
  for (const auto& [type, seconds] : noticed) {
    printf("  %s: known to be degraded %.1f s after its disk was pulled\n", type.c_str(), seconds);
  }
  EXPECT_THAT(ConditionOf(there), testing::HasSubstr("bring it back"));
  EXPECT_TRUE(IsWell(elsewhere)) << ConditionOf(elsewhere);

  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  printf("  all raid volumes well again %.1f s after that, %d s of which are the delay\n",
         duration<double>(steady_clock::now() - pulled).count(), kDelay);
  ExpectLegsOnDisksOfTheirOwn();
  EXPECT_FALSE(IsWell(there)) << "nothing else has its data";
  EXPECT_TRUE(Fails(client().Create({"late"}), grpc::StatusCode::FAILED_PRECONDITION, "is missing"))
      << "LVM's rule";

  Return(lost);
  EXPECT_TRUE(Eventually([&] { return IsWell(there); }, 120)) << ConditionOf(there) << Conditions();
  EXPECT_OK(CheckPattern(TargetPath("l"), 77, 8 << 20));
  EXPECT_OK(client().Create({"late"}));
  WaitForTurns(4);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EndAll();
  EXPECT_OK(client().Unpublish(there.volume_id(), TargetPath("l")));
  EXPECT_OK(client().Unstage(there.volume_id(), StagingPath("l")));
  const auto rest = client().List();
  ASSERT_OK(rest);
  for (const v1::Volume& volume : rest.value) {
    EXPECT_OK(client().Delete(volume.volume_id()));
  }
}

TEST_F(RepairTest, ADiskThatIsBackInTimeIsTakenBackWithItsLegs) {
  Start("600");
  for (const char* type : {"raid1", "raid5"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int lost = BusiestDisk();
  Pull(lost);
  ASSERT_TRUE(Eventually([&] { return !AllWell(); }));
  WaitForTurns(4);
  Return(lost);
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
  // Again, with a commit while it is away: LVM goes on calling it missing until it is told otherwise.
  const v1::Volume deleted = MustCreate({"deleted", TypeParameters("linear"), BlockCapability(), 4 * kMi});
  Pull(lost);
  ASSERT_TRUE(Eventually([&] { return !AllWell(); }));
  EXPECT_OK(client().Delete(deleted.volume_id()));
  WaitForTurns(4);
  Return(lost);
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 120)) << Conditions();
  WaitForTurns(4);
  const std::string node = DiskNode(lost);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EXPECT_TRUE(std::ranges::any_of(used_, [&](const Used& used) { return DevicesOf(used).contains(node); }))
      << "the legs that it had";
  EndAll();
}

TEST_F(RepairTest, BeyondRedundancyNothingIsTouched) {
  Start("1");
  Use("raid5");
  ASSERT_FALSE(HasFailure());
  Used& used = used_.front();
  WaitForTurns(4);
  ASSERT_OK(used.writer->StopAndCheck());
  ASSERT_OK(WritePattern(used.target, 5, kSize));
  const std::set<std::string> devices = DevicesOf(used);
  std::vector<int> lost;
  for (int number = 1; number <= 6 && lost.size() < 2; ++number) {
    if (devices.contains(DiskNode(number))) {
      lost.push_back(number);
    }
  }
  ASSERT_EQ(lost.size(), 2U);
  quarryd().Signal(SIGSTOP);  // both are gone before anybody looks
  Pull(lost[0]);
  Pull(lost[1]);
  quarryd().Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return ConditionOf(used.volume).find("bring") != std::string::npos; }))
      << ConditionOf(used.volume);
  EXPECT_FALSE(CheckPattern(used.target, 5, kSize).has_value());
  EXPECT_FALSE(Eventually([&] { return quarryd().Log().find("rebuild lost legs") != std::string::npos; }, 8));
  Return(lost[0]);
  Return(lost[1]);
  // The kernel has written down that these legs failed, and does not start the array of its own accord.
  EXPECT_TRUE(Eventually([&] { return ConditionOf(used.volume).find("has stopped") != std::string::npos; }))
      << Conditions();
  EXPECT_EQ(DevicesOf(used).size(), devices.size());
  EXPECT_EQ(quarryd().Log().find("rebuild lost legs"), std::string::npos);
  End(used);
  used_.clear();
}

TEST_F(RepairTest, KilledInTheMidstOfARepairItGoesOnWithIt) {
  Start("1");
  for (const char* type : {"raid1", "raid5", "raid6"}) {
    Use(type);
  }
  ASSERT_FALSE(HasFailure());
  const int lost = BusiestDisk();
  Pull(lost);
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(milliseconds(700 + 450 * i));
    quarryd().Kill();
    // What it ran goes on by itself for a while, or not.
    Start("1");
  }
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  ExpectLegsOnDisksOfTheirOwn();
  WaitForTurns(4);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EXPECT_TRUE(Eventually([&] { return client().Create({"late"}).ok(); }, 120))
      << "the group goes on without the disk" << Conditions();
  EndAll();
  EXPECT_OK(client().Delete(client().Create({"late"}).value.volume().volume_id()));
  const auto lvs = Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup});
  EXPECT_TRUE(Eventually([&] {
    return Trim(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out).empty();
  })) << lvs.out;
  // The disk, back, is nobody's: left alone until somebody wipes it.
  Return(lost);
  ASSERT_TRUE(Sh("sleep 2; wipefs -a -q " + DiskNode(lost) + " && vgextend --metadatasize 64m " + kGroup +
                 " " + DiskNode(lost))
                  .ok());
}

}  // namespace
}  // namespace quarry::vm
