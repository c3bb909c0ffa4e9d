// Raw volumes of several types on the guest's six or eight disks, under writers with checksums, while disks
// are pulled and returned.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/writer.h"

namespace quarry::vm {

inline constexpr int64_t kSize = 24 * kMi;
inline constexpr int kMostDisks = 8;
inline constexpr int kDelay = 4;  // seconds until a missing disk is given up

inline void Vmctl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "vmctl");
  const Outcome outcome = Tool(arguments);
  ASSERT_TRUE(outcome.ok()) << outcome.err;
}

class DisksUnderLoad : public VmTest {
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

  // Creates a raw volume, publishes it and starts a writer on it.
  void Use(const std::string& type) {
    Used used{.type = type, .target = TargetPath(type)};
    used.volume = MustCreate({type, TypeParameters(type), BlockCapability(), kSize});
    ASSERT_OK(client().Stage(used.volume, StagingPath(type), BlockCapability()));
    ASSERT_OK(client().Publish(used.volume, StagingPath(type), used.target, BlockCapability()));
    used.writer = std::make_unique<Writer>(used.target, true, std::chrono::milliseconds(250));
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

  // As LVM's own tools report it.
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
    for (int number = 1; number <= kMostDisks; ++number) {
      if (DiskNode(number) == node) {
        return number;
      }
    }
    return 0;
  }
  // The number of the disk that holds legs of the most volumes.
  int BusiestDisk() {
    std::map<int, int> users;
    for (int number = 1; number <= kMostDisks; ++number) {
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
           Tool({"pvs", "-o", "+pv_missing"}).out + Tool({"dmsetup", "status", "--target", "raid"}).out +
           Sh("tail -n 40 /run/quarry-test/quarryd.log").out;
  }
  // LVM's own check of the array finds no difference between the legs.
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

}  // namespace quarry::vm
