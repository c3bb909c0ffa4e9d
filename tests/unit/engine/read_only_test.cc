// A raw volume that is published read-only stays read-only when it grows, although LVM reloads its device.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};

class ReadOnlyTest : public testing::Test {
 protected:
  ReadOnlyTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/pods");
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "main", .group = "vg0"}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
    const auto made = engine_->volumes().Create({.name = "raw",
                                                 .range = {ToBytes(Extents{2}, kExtent), {}},
                                                 .capabilities = {{.access = AccessType::kBlock}},
                                                 .parameters = {}},
                                                Soon());
    EXPECT_TRUE(made.has_value());
    id_ = made->volume.id;
  }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  Status Publish(bool read_only) {
    return engine_->volumes().Publish({id_,
                                       *AbsolutePath::Parse("/stage"),
                                       *AbsolutePath::Parse("/pods/a"),
                                       {.access = AccessType::kBlock},
                                       read_only},
                                      Soon());
  }
  Result<ExpandResult> Grow() {
    return engine_->volumes().Expand(id_, {ToBytes(Extents{4}, kExtent), {}}, std::nullopt, Soon());
  }
  bool IsReadOnly() { return dm_.Devices().at(0).read_only; }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::string id_;
};

TEST_F(ReadOnlyTest, AReadOnlyVolumeStaysReadOnlyWhenItGrows) {
  ASSERT_TRUE(Publish(true).has_value());
  ASSERT_TRUE(Grow().has_value());
  EXPECT_TRUE(IsReadOnly());
  EXPECT_TRUE(Publish(true).has_value()) << "it is already published as requested";
}

TEST_F(ReadOnlyTest, ItStaysReadOnlyWhenGrowthFailsAfterLvmDidIt) {
  ASSERT_TRUE(Publish(true).has_value());
  lvm_.after.FailNth("Extend", 1, Error(Code::kTimeout, "no answer"));
  EXPECT_FALSE(Grow().has_value());
  EXPECT_TRUE(IsReadOnly());
}

TEST_F(ReadOnlyTest, AWritableVolumeStaysWritable) {
  ASSERT_TRUE(Publish(false).has_value());
  ASSERT_TRUE(Grow().has_value());
  EXPECT_FALSE(IsReadOnly());
}

}  // namespace
}  // namespace quarry::engine
