// Pools made by rules, which disks join as they are plugged in: on fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <stdexcept>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_udev.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Ends a step as the death of the process would: nothing after it runs.
struct Death : std::runtime_error {
  Death() : std::runtime_error("killed") {}
};
class DyingAt final : public StepWatcher {
 public:
  void Before(const std::string& step) override {
    Die(step, "before");
    if (before) {
      before(step);
    }
  }
  void After(const std::string& step) override { Die(step, "after"); }
  std::string moment;  // "before", "after"; empty: never
  std::vector<std::string> steps;
  std::function<void(const std::string& step)> before;

 private:
  void Die(const std::string& step, const std::string& now) {
    steps.push_back(now + " " + step);
    if (now == moment) {
      throw Death();
    }
  }
};

class InventoryTest : public testing::Test {
 protected:
  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }

  void Plug(const std::string& name, const std::string& serial, mount::Content content = {}) {
    udev_.Plug(fakes::PlainDisk(name, serial, kGiB));
    mount_.SetDiskContent("/dev/" + name, std::move(content));
    lvm_.AddBlankDisk({"/dev/" + name, Extents{50}});
  }
  Status Start(std::vector<DeviceRule> rules, std::vector<DeviceRule> exclude = {}) {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "p", .group = "vg"}};
    config.pools.front().devices = std::move(rules);
    config.pools.front().exclude = std::move(exclude);
    engine_ = std::make_unique<Engine>(config,
                                       fakes::FakeWorld{.lvm = lvm_,
                                                        .dm = dm_,
                                                        .erase = erase_,
                                                        .mount = mount_,
                                                        .clock = clock_,
                                                        .udev = udev_,
                                                        .steps = &steps_},
                                       log_);
    return engine_->lifecycle().Start(Soon());
  }
  std::vector<std::string> Members() {
    std::vector<std::string> devices;
    for (const lvm::PhysicalVolume& pv : (*lvm_.Read("vg", Soon()))->pvs) {
      devices.push_back(pv.device);
    }
    return devices;
  }
  DeviceReport Report(const std::string& name) {
    const auto devices = engine_->disks().Devices(Soon());
    EXPECT_TRUE(devices.has_value()) << devices.error().message();
    for (const DeviceReport& device : *devices) {
      if (device.disk.name == name) {
        return device;
      }
    }
    ADD_FAILURE() << name << " is not listed";
    return {};
  }
  size_t Claim(JoinScope scope = JoinScope::kAll) {
    const auto taken = engine_->disks().JoinDisks(scope, Soon());
    EXPECT_TRUE(taken.has_value()) << taken.error().message();
    return taken.value_or(0);
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  fakes::FakeUdev udev_;
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  DyingAt steps_;
  std::unique_ptr<Engine> engine_;
  const std::vector<DeviceRule> rules_ = {{.serial = "ours*"}};
  const mount::Content ext4_{mount::Content::Kind::kFilesystem, "ext4", "u"};
};

TEST_F(InventoryTest, AGroupIsMadeOfTheBlankDisksThatMatchARule) {
  Plug("nvme0n1", "ours1");
  Plug("nvme1n1", "ours2", ext4_);
  Plug("nvme2n1", "theirs");
  Plug("nvme3n1", "ours3");
  ASSERT_TRUE(Start(rules_).has_value());
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1", "/dev/nvme3n1"));
  EXPECT_TRUE(Report("nvme3n1").member);
  EXPECT_THAT(Report("nvme1n1").words, HasSubstr("holds ext4"));
  EXPECT_EQ(Report("nvme1n1").rule, "serial=ours*");
  EXPECT_THAT(Report("nvme2n1").words, HasSubstr("no pool's rule"));
}

TEST_F(InventoryTest, ADiskThatIsNotEmptyJoinsOnceItIs) {
  Plug("nvme0n1", "ours1");
  Plug("nvme1n1", "ours2", {.residue = Bytes{5}});
  ASSERT_TRUE(Start(rules_).has_value());
  EXPECT_EQ(Claim(), 0);
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1"));
  EXPECT_THAT(Report("nvme1n1").words, HasSubstr("byte 5 is not zero"));
  EXPECT_FALSE(Report("nvme1n1").wanted);
  mount_.SetDiskContent("/dev/nvme1n1", {});
  EXPECT_EQ(Claim(), 1);
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1", "/dev/nvme1n1"));
}

TEST_F(InventoryTest, WithoutABlankDiskTheErrorSaysWhyThereIsNoGroup) {
  Plug("nvme0n1", "ours1", ext4_);
  const Status refused = Start(rules_);
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("no blank disk meets its rules"));
  EXPECT_THAT(Report("nvme0n1").words, HasSubstr("holds ext4"));
  Plug("nvme1n1", "ours2");
  EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value()) << "a blank disk was plugged in";
}

TEST_F(InventoryTest, NoSecondGroupIsMadeWhileALabelNamesTheGroup) {
  Plug("nvme0n1", "ours1");
  Plug("nvme1n1", "ours2");
  lvm_.SetPvFacts("/dev/nvme1n1", {lvm::PvFacts::Kind::kPv, "pv-x", "vg", "uuid-x"});
  const Status refused = Start(rules_);
  EXPECT_THAT(refused.error().message(), HasSubstr("/dev/nvme1n1 carries the label of a volume group vg"));
}

TEST_F(InventoryTest, ExplicitPathsMustAllExistAndRulesAddToThem) {
  Plug("nvme0n1", "ours1");
  Plug("nvme1n1", "ours2");
  EXPECT_FALSE(Start({{.path = "/dev/nvme0n1"}, {.path = "/dev/nvme9n1"}}).has_value());
  ASSERT_TRUE(Start({{.path = "/dev/nvme0n1"}, {.serial = "ours*"}}).has_value());
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1", "/dev/nvme1n1"));
}

TEST_F(InventoryTest, ANewBlankDiskJoinsAndCountsAtOnce) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  const Bytes before = engine_->volumes().Capacity({}, {}, Soon())->available;
  EXPECT_EQ(Claim(), 0U);
  Plug("nvme1n1", "ours2");
  EXPECT_TRUE(Report("nvme1n1").wanted);
  EXPECT_EQ(Claim(), 1U);
  EXPECT_TRUE(Report("nvme1n1").member);
  EXPECT_GT(engine_->volumes().Capacity({}, {}, Soon())->available, before);
  EXPECT_EQ(Claim(), 0U);
}

TEST_F(InventoryTest, AStartAddsDisksThatCameWhileQuarrydWasDown) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  Plug("nvme1n1", "ours2");
  Plug("nvme2n1", "ours3");
  ASSERT_TRUE(Start(rules_, {{.serial = "ours3"}}).has_value());
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1", "/dev/nvme1n1"));
  EXPECT_THAT(Report("nvme2n1").words, HasSubstr("excluded"));
}

TEST_F(InventoryTest, AListOfPathsAddsNothingToAnExistingGroup) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start({{.path = "/dev/nvme0n1"}}).has_value());
  Plug("nvme1n1", "ours2");
  ASSERT_TRUE(Start({{.path = "/dev/nvme0n1"}, {.path = "/dev/nvme1n1"}}).has_value());
  EXPECT_EQ(Claim(), 0U);
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1"));
  EXPECT_THAT(Report("nvme1n1").words, HasSubstr("explicit path"));
}

TEST_F(InventoryTest, ADiskNoLongerBlankUnderTheTurnIsNotTouched) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  Plug("nvme1n1", "ours2");
  int probes = 0;
  lvm_.SetOnCall([&](const std::string& method) {
    // The second reading of the group is the one under the turn, unless the eraser reads just then.
    if (method == "Read" && ++probes == 2) {
      mount_.SetDiskContent("/dev/nvme1n1", ext4_);
    }
  });
  EXPECT_EQ(Claim(), 0U);
  lvm_.SetOnCall(nullptr);
  EXPECT_GE(probes, 2);
  EXPECT_THAT(Members(), ElementsAre("/dev/nvme0n1"));
}

TEST_F(InventoryTest, TheNextStartRecoversFromADeathBeforeOrAfterTheStep) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  int disk = 1;
  for (const char* moment : {"before", "after"}) {
    const std::string name = "nvme" + std::to_string(disk) + "n1";
    Plug(name, "ours" + std::to_string(++disk));
    steps_.moment = moment;
    EXPECT_THROW((void)engine_->disks().JoinDisks(JoinScope::kAll, Soon()), Death);
    steps_.moment.clear();
    ASSERT_TRUE(Start(rules_).has_value());
    EXPECT_TRUE(Report(name).member) << moment;
  }
  EXPECT_EQ(Members().size(), 3U);
  EXPECT_THAT(steps_.steps.front(), HasSubstr("add disk /dev/nvme1n1 to volume group vg"));
}

TEST_F(InventoryTest, ARefusalByLvmIsReportedAndRetried) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  Plug("nvme1n1", "ours2");
  Plug("nvme2n1", "ours3");
  lvm_.before.FailNth("AddPv", 1, Error(Code::kPrecondition, "device is filtered"));
  EXPECT_EQ(Claim(JoinScope::kRefused), 0U) << "no disk was refused yet";
  EXPECT_EQ(Claim(), 1U) << "the other disk is not affected";
  EXPECT_THAT(Report("nvme1n1").words, HasSubstr("could not be added: "));
  EXPECT_THAT(Report("nvme1n1").words, HasSubstr("device is filtered"));
  Plug("nvme3n1", "ours4");
  EXPECT_EQ(Claim(JoinScope::kRefused), 1U) << "not the other disk, which an administrator may be working on";
  EXPECT_TRUE(Report("nvme1n1").member);
  EXPECT_EQ(Claim(), 1U);
  EXPECT_EQ(Members().size(), 4U);
}

TEST_F(InventoryTest, ARefusedDiskThatIsUsedMeanwhileIsNotTriedAgain) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  Plug("nvme1n1", "ours2");
  lvm_.before.FailNth("AddPv", 1, Error(Code::kPrecondition, "device is busy"));
  EXPECT_EQ(Claim(), 0U);
  mount_.SetDiskContent("/dev/nvme1n1", mount::Content(ext4_));
  EXPECT_EQ(Claim(JoinScope::kRefused), 0U);
  mount_.SetDiskContent("/dev/nvme1n1", {});
  EXPECT_EQ(Claim(JoinScope::kRefused), 0U) << "wiped in place by an administrator";
}

// Both open the disk exclusively, so one of them would find it in use.
TEST_F(InventoryTest, NoDiskIsProbedWhileLvmTakesIt) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  Plug("nvme1n1", "ours2");
  std::future<DeviceReport> report;
  bool waited = false;
  steps_.before = [&](const std::string& step) {
    if (step.starts_with("add disk /dev/nvme1n1")) {
      report = std::async(std::launch::async, [&] { return Report("nvme1n1"); });
      waited = report.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout;
    }
  };
  EXPECT_EQ(Claim(), 1U);
  EXPECT_TRUE(waited);
  report.get();
  EXPECT_TRUE(Report("nvme1n1").member);
}

TEST_F(InventoryTest, ASpareJoinsAGroupWithAMissingDisk) {
  Plug("nvme0n1", "ours1");
  Plug("nvme1n1", "ours2");
  ASSERT_TRUE(Start(rules_).has_value());
  lvm_.Happen("vg", [](lvm::VolumeGroup& group) { group.pvs[1].missing = true; });
  udev_.Unplug("nvme1n1");
  Plug("nvme2n1", "ours3");
  EXPECT_EQ(Claim(), 1U);
  EXPECT_TRUE(Report("nvme2n1").member);
}

TEST_F(InventoryTest, ANodeWhoseDisksCannotBeListedStillServes) {
  Plug("nvme0n1", "ours1");
  ASSERT_TRUE(Start(rules_).has_value());
  udev_.faults.FailAlways("Inventory", Error(Code::kUnavailable, "no sysfs"));
  EXPECT_TRUE(Start(rules_).has_value());
  EXPECT_EQ(engine_->disks().JoinDisks(JoinScope::kAll, Soon()).error().code(), Code::kUnavailable);
  EXPECT_EQ(engine_->disks().Devices(Soon()).error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace quarry::engine
