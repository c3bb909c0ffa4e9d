// A thin store on fakes, and an engine that serves it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/engine.h"
#include "engine/model/catalog.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_pool_reader.h"
#include "tests/fakes/fake_repair.h"
#include "tests/fakes/fake_world.h"
#include "tests/unit/engine/eventually.h"

namespace quarry::engine {

inline constexpr Bytes kExtent{4 * 1024 * 1024};
inline constexpr Bytes kChunk{128 * 1024};

inline AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class ThinStoreTest : public testing::Test {
 protected:
  explicit ThinStoreTest(const std::string& lvm = "2.03.16") {
    lvm_.SetVersion(lvm);
    lvm_.AddGroup("vg0", kExtent,
                  {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    Restart();
  }

  static StoreConfig Store(const std::string& name, uint64_t extents,
                           lvm::VolumeType type = lvm::VolumeType::kRaid1) {
    return {.name = name,
            .size = {extents * kExtent.value},
            .geometry = *lvm::Geometry::Make({.type = type}),
            .chunk = kChunk};
  }

  void MakeEngine() {
    engine_.reset();
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    config.pools.front().stores = stores_;
    std::ranges::copy(more_pools_, std::back_inserter(config.pools));
    config.node = "node-1";
    engine_ = std::make_unique<Engine>(config, World(), log_);
  }
  engine::World World() {
    return fakes::FakeWorld{.lvm = lvm_,
                            .dm = dm_,
                            .erase = erase_,
                            .mount = mount_,
                            .clock = clock_,
                            .thin = reader_,
                            .thin_repair = repair_};
  }
  // The state after kill -9: everything in memory is lost, LVM and the kernel are unchanged.
  void Restart() {
    MakeEngine();
    ASSERT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(std::chrono::milliseconds(20000)); }

  Result<CreateResult> Create(const std::string& name, uint64_t extents, Parameters more = {},
                              bool elsewhere = false) {
    more.emplace("type", "thin");
    return engine_->volumes().Create({.name = name,
                                      .range = {Bytes{extents * kExtent.value}, Bytes{}},
                                      .capabilities = {{.access = AccessType::kBlock}},
                                      .parameters = std::move(more),
                                      .elsewhere = elsewhere},
                                     Soon());
  }
  std::string Make(const std::string& name, uint64_t extents) {
    const auto made = Create(name, extents);
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  CapacityResult Capacity(Parameters more = {}) {
    more.emplace("type", "thin");
    return *engine_->volumes().Capacity({}, more, Soon());
  }
  uint64_t Left() { return Capacity().available.value / kExtent.value; }
  lvm::Snapshot Group() { return *lvm_.Read("vg0", Soon()); }
  Catalog Now() { return ReadCatalog("default", Group()); }
  // LVs that are not hidden.
  size_t LvCount() {
    const lvm::Snapshot group = Group();
    return static_cast<size_t>(std::ranges::count(group->lvs, false, &lvm::LogicalVolume::hidden));
  }
  bool UntilLvs(size_t count) {
    return Eventually([&] { return LvCount() == count; });
  }
  // Of every thin pool in LVM's text.
  template <typename Change>
  void EditPools(const Change& change) {
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
      for (lvm::LogicalVolume& lv : group.lvs) {
        if (lv.segments.size() == 1 && lv.segments.front().thin_pool.has_value()) {
          change(*lv.segments.front().thin_pool);
        }
      }
    });
  }
  // As a command does that is killed after its last message to the pool.
  void LeaveMessage() {
    EditPools([](lvm::ThinPool& pool) { pool.has_messages = true; });
  }
  std::string PoolUuid() {
    const Catalog catalog = Now();
    return lvm::DmUuid(catalog.group->uuid, catalog.stores.front().lv->uuid);
  }
  std::string DmUuidOf(const std::string& id) {
    const lvm::Snapshot group = Group();
    return lvm::DmUuid(group->uuid, group->FindLv(lvm::ParseVolumeId(id)->lv_name)->uuid);
  }
  void Activate(const std::string& id) {
    mount_.AddDirectory("/stage/" + id);
    const auto staged =
        engine_->volumes().Stage({id, Path("/stage/" + id), {.access = AccessType::kBlock}}, Soon());
    ASSERT_TRUE(staged.has_value()) << staged.error().message();
    const lvm::Snapshot group = Group();
    ASSERT_TRUE(lvm_.Apply(lvm::ActivateLvs{"vg0", {lvm::ParseVolumeId(id)->lv_name}}, Soon()).has_value());
  }
  void Deactivate(const std::string& id) {
    ASSERT_TRUE(lvm_.Apply(lvm::DeactivateLv{"vg0", lvm::ParseVolumeId(id)->lv_name}, Soon()).has_value());
  }
  void Write(const std::string& id, const std::string& text, uint64_t at) {
    const auto fd = dm_.Open(DmUuidOf(id), O_RDWR);
    ASSERT_TRUE(fd.has_value()) << fd.error().message();
    ASSERT_EQ(pwrite(fd->get(), text.data(), text.size(), static_cast<off_t>(at)),
              static_cast<ssize_t>(text.size()));
  }
  uint64_t ChunksUsed() { return (*dm_.ThinPool(PoolUuid()))->data_used; }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  fakes::FakePoolReader reader_{dm_};
  fakes::FakeRepair repair_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::vector<StoreConfig> stores_ = {Store("fast", 40)};
  std::vector<PoolConfig> more_pools_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace quarry::engine
