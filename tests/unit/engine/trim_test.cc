#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using ::testing::HasSubstr;

class TrimTest : public testing::Test {
 protected:
  TrimTest() {
    lvm_.AddGroup("vg0", Bytes{4 * kMiB.value}, {{"/dev/a", Extents{2000}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/pods");
    EngineConfig config;
    config.pools = {{.name = "default", .group = "vg0"}};
    engine_ = std::make_unique<Engine>(config, fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  static Call Soon() { return CallWithin(std::chrono::milliseconds(20000)); }
  static AbsolutePath Path(const std::string& text) { return *AbsolutePath::Parse(text); }

  std::string Published(const std::string& name, Bytes size, const std::string& fs_type = "ext4") {
    Capability capability;
    capability.fs_type = fs_type;
    const auto made =
        engine_->volumes().Create({.name = name, .range = {size, {}}, .capabilities = {capability}}, Soon());
    EXPECT_TRUE(made.has_value()) << (made.has_value() ? "" : made.error().message());
    EXPECT_TRUE(
        engine_->volumes()
            .Publish({made->volume.id, std::nullopt, Path("/pods/" + name), capability, false}, Soon())
            .has_value());
    return made->volume.id;
  }
  std::vector<std::string> Trims() {
    std::vector<std::string> trims;
    for (const std::string& line : mount_.Journal()) {
      if (line.starts_with("trim")) {
        trims.push_back(line);
      }
    }
    return trims;
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
};

TEST_F(TrimTest, EveryMountedVolumeIsTrimmedInPieces) {
  Published("a", Bytes{2 * kGiB.value + 64 * kMiB.value});
  ASSERT_TRUE(engine_->volumes()
                  .Create({.name = "unused", .range = {kGiB, {}}, .capabilities = {{}}}, Soon())
                  .has_value());
  const auto result = engine_->upkeep().Trim(Soon());
  ASSERT_TRUE(result.has_value()) << result.error().message();
  EXPECT_EQ(result->volumes, 1U);
  EXPECT_EQ(result->trimmed, (Bytes{2 * kGiB.value + 64 * kMiB.value}));
  EXPECT_EQ(Trims(),
            (std::vector<std::string>{"trim /pods/a 0 1073741824", "trim /pods/a 1073741824 1073741824",
                                      "trim /pods/a 2147483648 67108864"}));
}

TEST_F(TrimTest, BtrfsIsTrimmedInOneCall) {
  Published("b", Bytes{2 * kGiB.value}, "btrfs");
  ASSERT_TRUE(engine_->upkeep().Trim(Soon()).has_value());
  EXPECT_EQ(Trims(), (std::vector<std::string>{"trim /pods/b 0 2147483648"}));
}

TEST_F(TrimTest, ABusyVolumeIsSkipped) {
  const std::string id = Published("a", kGiB);
  std::optional<Result<TrimResult>> meanwhile;
  lvm_.SetOnCall([&](const std::string& method) {
    if (method == "Extend" && !meanwhile.has_value()) {
      meanwhile = engine_->upkeep().Trim(Soon());
    }
  });
  ASSERT_TRUE(engine_->volumes()
                  .Expand(id, {Bytes{kGiB.value + 64 * kMiB.value}, {}}, std::nullopt, Soon())
                  .has_value());
  ASSERT_TRUE(meanwhile.has_value());
  EXPECT_TRUE(meanwhile->has_value());
  EXPECT_TRUE(Trims().empty());
}

TEST_F(TrimTest, ReadOnlyVolumesAreSkippedAndAFailureStopsNoOther) {
  Published("a", kGiB);
  Published("b", kGiB);
  mount_.GoReadOnly(Path("/pods/a"));
  EXPECT_EQ(engine_->upkeep().Trim(Soon())->volumes, 1U);
  mount_.faults.FailAlways("Trim", Error(Code::kUnsupported, "no discards here"));
  const auto none = engine_->upkeep().Trim(Soon());
  EXPECT_EQ(none->volumes, 0U);
  EXPECT_TRUE(none->failures.empty());
  mount_.faults.Clear();
  mount_.faults.FailAlways("Trim", Error(Code::kIo, "a bad block"));
  const auto failed = engine_->upkeep().Trim(Soon());
  ASSERT_TRUE(failed.has_value());
  ASSERT_EQ(failed->failures.size(), 1U);
  EXPECT_THAT(failed->failures[0], HasSubstr("a bad block"));
}

TEST_F(TrimTest, ATrimEndsWhenItIsStopped) {
  Published("a", kGiB);
  std::stop_source stop;
  stop.request_stop();
  Call call = Soon();
  call.stop = stop.get_token();
  EXPECT_EQ(engine_->upkeep().Trim(call).error().code(), Code::kCancelled);
}

}  // namespace
}  // namespace quarry::engine
