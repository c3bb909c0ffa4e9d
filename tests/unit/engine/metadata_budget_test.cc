// When a metadata area fills up, new volumes are refused early enough that existing ones can still be used
// and deleted.
#include "engine/plan/metadata_budget.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include <fmt/format.h>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};

class MetadataRoomTest : public testing::Test {
 protected:
  MetadataRoomTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{4000}}, {"/dev/b", Extents{4000}}});
    lvm_.SetMetadataRoom("vg0", Bytes{40 * 1024});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "main", .group = "vg0"}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  Result<CreateResult> Create(const std::string& name, const std::string& type = "linear") {
    return engine_->volumes().Create({.name = name,
                                      .range = {ToBytes(Extents{2}, kExtent), {}},
                                      .capabilities = {{.access = AccessType::kMount}},
                                      .parameters = {{"type", type}}},
                                     Soon());
  }
  Bytes Available(const std::string& type) {
    return engine_->volumes().Capacity({}, {{"type", type}}, Soon())->available;
  }
  // Creates volumes until one is refused, and returns that error.
  Error Fill(const std::string& type) {
    for (int i = 0;; ++i) {
      auto made = Create(fmt::format("{}-{}", type, i), type);
      if (!made.has_value()) {
        return made.error();
      }
      ids_.push_back(made->volume.id);
    }
  }
  size_t LvCount() { return (*lvm_.Read("vg0", Soon()))->lvs.size(); }
  void UntilErased(size_t left) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (LvCount() > left && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(LvCount(), left);
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::vector<std::string> ids_;
};

TEST_F(MetadataRoomTest, AFullAreaRefusesNewVolumesAndDeletesOldOnes) {
  const Error full = Fill("linear");
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_NE(full.message().find("metadata area of volume group vg0"), std::string::npos) << full.message();
  ASSERT_GT(ids_.size(), 10U);
  EXPECT_EQ(LvCount(), ids_.size()) << "a volume that does not fit is not begun";
  // The first use of each volume adds tags.
  for (const std::string& id : ids_) {
    const std::string staging = "/stage/" + id;
    mount_.AddDirectory(staging);
    const auto staged = engine_->volumes().Stage({id, *AbsolutePath::Parse(staging), {}}, Soon());
    ASSERT_TRUE(staged.has_value()) << staged.error().message();
    ASSERT_TRUE(engine_->volumes().Unstage(id, *AbsolutePath::Parse(staging), Soon()).has_value());
  }
  EXPECT_EQ(Create("one-more").error().code(), Code::kNoSpace);
  EXPECT_EQ(Available("linear"), Bytes{});
  const auto grown = engine_->volumes().Expand(ids_[0], {ToBytes(Extents{2000}, kExtent), {}}, {}, Soon());
  EXPECT_EQ(grown.error().code(), Code::kNoSpace);
  EXPECT_EQ(engine_->volumes().Get(ids_[0], Soon())->size, ToBytes(Extents{2}, kExtent));
  // All at once: every volume gets the deletion tag before the first one is gone.
  lvm_.before.FailAlways("Hold", Error(Code::kUnavailable, "not yet"));
  for (const std::string& id : ids_) {
    const auto deleted = engine_->volumes().Delete(id, Soon());
    EXPECT_TRUE(deleted.has_value()) << deleted.error().message();
  }
  lvm_.before.Clear();
  UntilErased(0);
  EXPECT_GT(Available("linear"), Bytes{});
  EXPECT_TRUE(Create("one-more").has_value());
}

TEST_F(MetadataRoomTest, ARaidIsRefusedWhereALinearVolumeStillFits) {
  EXPECT_EQ(Fill("raid1").code(), Code::kNoSpace);
  const size_t raids = ids_.size();
  EXPECT_EQ(LvCount(), 5 * raids);
  EXPECT_EQ(Available("raid1"), Bytes{});
  EXPECT_GT(Available("linear"), Bytes{});
  EXPECT_EQ(Fill("linear").code(), Code::kNoSpace);
  EXPECT_GT(ids_.size(), raids);
}

}  // namespace
}  // namespace quarry::engine
