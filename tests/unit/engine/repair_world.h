// A node with four disks. Its engine repairs only when a test calls Mend, and its clock moves only when a
// test moves it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/model/volume_health.h"
#include "engine/repair/repair_loop.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {

class HandClock final : public Clock {
 public:
  SteadyTime Now() const override { return now; }
  // One hour after midnight on 1 May 2027 at the start.
  std::chrono::system_clock::time_point WallNow() const override {
    return std::chrono::sys_days(std::chrono::May / 1 / 2027) +
           std::chrono::duration_cast<std::chrono::system_clock::duration>(now.time_since_epoch());
  }
  SteadyTime now{std::chrono::hours(1)};
};

class MendingTest : public testing::Test {
 protected:
  MendingTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value},
                  {{"/dev/a", Extents{100}},
                   {"/dev/b", Extents{100}},
                   {"/dev/c", Extents{100}},
                   {"/dev/d", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    Begin({});
  }

  void Begin(const std::function<void(EngineConfig&)>& change) {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.repair_delay = std::chrono::seconds(60);
    if (change) {
      change(config);
    }
    const fakes::FakeWorld world{.lvm = lvm_,
                                 .dm = dm_,
                                 .erase = erase_,
                                 .mount = mount_,
                                 .clock = clock_,
                                 .raid_legs = *raid_legs_,
                                 .steps = steps_};
    engine_ = std::make_unique<Engine>(config, world, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }

  static Call Soon() { return CallWithin(std::chrono::milliseconds(20000)); }

  std::string Create(const std::string& name, const std::string& type, uint64_t mib = 300) {
    const auto made = engine_->volumes().Create({.name = name,
                                                 .range = {Bytes{mib * kMiB.value}, {}},
                                                 .capabilities = {{}},
                                                 .parameters = {{"type", type}}},
                                                Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    const std::string id = made.has_value() ? made->volume.id : "";
    if (type != "linear" && !id.empty()) {
      SetLegs(id, std::string(Legs(id).size(), 'A'));
    }
    return id;
  }
  lvm::Snapshot Group() { return *lvm_.Read("vg0", Soon()); }
  const lvm::LogicalVolume* Lv(const lvm::Snapshot& group, const std::string& id) {
    return group->FindLv(lvm::ParseVolumeId(id)->lv_name);
  }
  std::string DmUuidOf(const std::string& id) {
    const lvm::Snapshot group = Group();
    return lvm::DmUuid(group->uuid, Lv(group, id)->uuid);
  }
  // The PV of each leg.
  std::vector<std::string> Legs(const std::string& id) {
    const lvm::Snapshot group = Group();
    std::vector<std::string> out;
    for (const auto& leg : lvm::LegPvs(*group, *Lv(group, id))) {
      EXPECT_EQ(leg.size(), 1U);
      out.push_back(leg.front());
    }
    return out;
  }
  void SetLegs(const std::string& id, const std::string& letters, const std::string& action = "idle") {
    dm_.SetRaid(
        DmUuidOf(id),
        dm::RaidStatus{.type = "raid1", .legs = letters, .in_sync = 100, .total = 100, .action = action});
  }
  void SetMissing(const std::string& pv_uuid, bool missing = true) {
    lvm_.Happen("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::PhysicalVolume& pv : group.pvs) {
        pv.missing = pv.uuid == pv_uuid ? missing : pv.missing;
      }
    });
  }
  RepairReport Mend(RepairCause cause = RepairCause::kDisks, const std::set<std::string>& accepted = {}) {
    auto report = engine_->upkeep().Repair(cause, Soon(), accepted);
    EXPECT_TRUE(report.has_value()) << (report.has_value() ? "" : report.error().message());
    return report.has_value() ? *report : RepairReport();
  }
  // Runs rounds until a step was done or an obstacle reported. Extents are copied on another thread.
  RepairReport MendSomething() {
    RepairReport report;
    for (int i = 0; i < 5000 && report.done.empty() && report.obstacles.empty(); ++i) {
      report = Mend(RepairCause::kEvent);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return report;
  }
  // The texts of all steps until the disk has left its group.
  std::vector<std::string> MendUntilGone(const std::string& pv_uuid) {
    std::vector<std::string> done;
    while (Group()->FindPv(pv_uuid) != nullptr) {
      const RepairReport report = MendSomething();
      done.insert(done.end(), report.done.begin(), report.done.end());
      if (report.done.empty()) {
        ADD_FAILURE() << "no end";
        break;
      }
    }
    return done;
  }
  void Pass(std::chrono::seconds time) { clock_.now += time; }
  std::string ConditionOf(const std::string& id) {
    const auto volume = engine_->volumes().Get(id, Soon(), Show::kHealth);
    return volume.has_value() ? std::string(ConditionWord(*volume->health)) : volume.error().message();
  }

  fakes::FakeLvm lvm_;
  dm::RaidLegsApi* raid_legs_ = &lvm_.raid_legs();  // for the next Begin
  StepWatcher* steps_ = nullptr;                    // for the next Begin
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  HandClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

}  // namespace quarry::engine
