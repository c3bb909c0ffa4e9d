// A node on fakes whose pool "default" has thin stores, for tests that look at them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/model/catalog.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_pool_reader.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {

// Three disks of 100 extents, and the store "fast" of 40, which is raid1.
class ThinNode {
 public:
  static constexpr Bytes kExtent{4 * 1024 * 1024};
  static constexpr Bytes kChunk{128 * 1024};

  ThinNode() {
    lvm.AddGroup("vg0", kExtent,
                 {{"/dev/a", Extents{100}}, {"/dev/b", Extents{100}}, {"/dev/c", Extents{100}}});
    fakes::Follow(lvm, dm);
    mount.AddDirectory("/stage");
    Restart();
  }
  ~ThinNode() { (void)engine->lifecycle().Stop(Soon()); }
  ThinNode(const ThinNode&) = delete;
  ThinNode& operator=(const ThinNode&) = delete;

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  static StoreConfig Wanted(const std::string& name, uint64_t extents) {
    return {.name = name,
            .size = {extents * kExtent.value},
            .geometry = *lvm::Geometry::Make({.type = lvm::VolumeType::kRaid1}),
            .chunk = kChunk};
  }

  // Quarryd is killed and starts again, with these stores in its configuration.
  void Restart(std::vector<StoreConfig> stores) {
    pool.stores = std::move(stores);
    Restart();
  }
  void Restart() {
    engine.reset();
    EngineConfig config;
    config.pools = {pool};
    const fakes::FakeWorld world{
        .lvm = lvm, .dm = dm, .erase = erase, .mount = mount, .clock = clock_, .thin = reader};
    engine = std::make_unique<Engine>(config, world, log_);
    const Status started = engine->lifecycle().Start(Soon());
    ASSERT_TRUE(started.has_value()) << started.error().message();
  }

  lvm::Snapshot Group() { return *lvm.Read("vg0", Soon()); }
  Catalog Now() { return ReadCatalog("default", Group()); }
  std::string PoolUuid() {
    const Catalog catalog = Now();
    return lvm::DmUuid(catalog.group->uuid, catalog.stores.front().lv->uuid);
  }
  // Id of a new raw volume in the store "fast".
  std::string Make(const std::string& name, uint64_t extents) {
    const auto made =
        engine->volumes().Create({.name = name,
                                  .range = {Bytes{extents * kExtent.value}, Bytes{}},
                                  .capabilities = {{.access = AccessType::kBlock}},
                                  .parameters = {{"type", "thin"}, {"store", "fast"}, {"erase", "none"}}},
                                 Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    return made.has_value() ? made->volume.id : "";
  }
  // Writes one byte at each of these offsets, in chunks.
  void Write(const std::string& id, const std::vector<uint64_t>& chunks) {
    const std::string name = lvm::ParseVolumeId(id)->lv_name;
    ASSERT_TRUE(lvm.Apply(lvm::ActivateLvs{"vg0", {name}}, Soon()).has_value());
    const auto fd = dm.Open(lvm::DmUuid(Group()->uuid, Group()->FindLv(name)->uuid), O_RDWR);
    ASSERT_TRUE(fd.has_value()) << fd.error().message();
    for (const uint64_t chunk : chunks) {
      ASSERT_EQ(pwrite(fd->get(), "x", 1, static_cast<off_t>(chunk * kChunk.value)), 1);
    }
  }
  PoolStatus PoolNow() {
    const auto status = engine->lifecycle().NodeStatus(Soon());
    EXPECT_TRUE(status.has_value() && status->size() == 1U);
    return status->front();
  }
  StoreStatus StoreNamed(const std::string& name) {
    for (StoreStatus& store : PoolNow().stores) {
      if (store.name == name) {
        return std::move(store);
      }
    }
    ADD_FAILURE() << "no store " << name;
    return {};
  }

  fakes::FakeLvm lvm;
  fakes::FakeDm dm;
  fakes::FakeErase erase;
  fakes::FakeMount mount{dm};
  fakes::FakePoolReader reader{dm};
  PoolConfig pool{.name = "default", .group = "vg0", .stores = {Wanted("fast", 40)}};
  std::unique_ptr<Engine> engine;

 private:
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
};

}  // namespace quarry::engine
