// VOLUME_MOUNT_GROUP: a volume belongs to the requested group, and to one group at a time. A read-only volume
// is not changed.
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
constexpr uint32_t kGroup = 2000;
constexpr uint32_t kOther = 3000;

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class MountGroupTest : public testing::Test {
 protected:
  MountGroupTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{100}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    engine_ = std::make_unique<Engine>(EngineConfig{.pools = {{.name = "main", .group = "vg0"}}},
                                       fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
    const auto made = engine_->volumes().Create(
        {.name = "v", .range = {ToBytes(Extents{8}, kExtent), {}}, .capabilities = {{}}, .parameters = {}},
        Soon());
    EXPECT_TRUE(made.has_value());
    id_ = made->volume.id;
  }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  Status Stage(Capability capability) {
    return engine_->volumes().Stage({id_, Path("/stage/v"), capability}, Soon());
  }
  Status Publish(const std::string& target, std::optional<uint32_t> group, bool read_only = false,
                 bool staged = true) {
    PublishRequest request{.id = id_,
                           .staging_path = std::nullopt,
                           .target_path = Path(target),
                           .capability = {.mount_group = group},
                           .read_only = read_only};
    if (staged) {
      request.staging_path = Path("/stage/v");
    }
    return engine_->volumes().Publish(request, Soon());
  }
  uint32_t GroupAt(const std::string& path) { return mount_.AccessOf(path).gid; }
  int Given() { return mount_.faults.Calls("GiveToGroup"); }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kError, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::string id_;
};

TEST_F(MountGroupTest, AStagedVolumeBelongsToItsGroup) {
  ASSERT_TRUE(Stage({.mount_group = kGroup}).has_value());
  EXPECT_EQ(GroupAt("/stage/v"), kGroup);
  ASSERT_TRUE(Publish("/pods/a", kGroup).has_value());
  EXPECT_EQ(GroupAt("/pods/a"), kGroup);
}

TEST_F(MountGroupTest, ARequestWithoutAGroupChangesNoOwner) {
  ASSERT_TRUE(Stage({}).has_value());
  ASSERT_TRUE(Publish("/pods/a", std::nullopt).has_value());
  EXPECT_EQ(Given(), 0);
}

TEST_F(MountGroupTest, GroupZeroIsAGroup) {
  ASSERT_TRUE(Stage({.mount_group = 0}).has_value());
  EXPECT_EQ(mount_.AccessOf("/stage/v").mode & 02070U, 02070U);
}

TEST_F(MountGroupTest, RepeatedStagingFinishesAnInterruptedChange) {
  mount_.faults.FailNth("GiveToGroupInterrupted", 1, Error(Code::kTimeout, "too many files"));
  EXPECT_EQ(Stage({.mount_group = kGroup}).error().code(), Code::kTimeout);
  EXPECT_EQ(GroupAt("/stage/v"), 0U);
  ASSERT_TRUE(Stage({.mount_group = kGroup}).has_value());
  EXPECT_EQ(GroupAt("/stage/v"), kGroup);
}

TEST_F(MountGroupTest, RepeatedPublishingFinishesAnInterruptedChange) {
  mount_.faults.FailNth("GiveToGroupInterrupted", 1, Error(Code::kTimeout, "too many files"));
  EXPECT_EQ(Publish("/pods/a", kGroup, false, false).error().code(), Code::kTimeout);
  ASSERT_TRUE(Publish("/pods/a", kGroup, false, false).has_value());
  EXPECT_EQ(GroupAt("/pods/a"), kGroup);
  mount_.SetAccess("/pods/a", {kGroup, 0700});
  ASSERT_TRUE(Publish("/pods/a", kGroup, false, false).has_value());
  EXPECT_EQ(mount_.AccessOf("/pods/a").mode, 0700U) << "changes by its users are kept";
}

TEST_F(MountGroupTest, AReadOnlyVolumeKeepsItsGroup) {
  ASSERT_TRUE(Stage({.mode = AccessMode::kSingleNodeReaderOnly, .mount_group = kGroup}).has_value());
  ASSERT_TRUE(Publish("/pods/a", kGroup, true).has_value());
  EXPECT_EQ(Given(), 0);
  ASSERT_TRUE(engine_->volumes().Unpublish(id_, Path("/pods/a"), Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Unstage(id_, Path("/stage/v"), Soon()).has_value());
  ASSERT_TRUE(Stage({.mount_flags = {"ro"}, .mount_group = kGroup}).has_value());
  ASSERT_TRUE(Publish("/pods/a", kGroup).has_value());
  EXPECT_EQ(Given(), 0);
}

TEST_F(MountGroupTest, ThePublishedGroupOverridesTheStagedOne) {
  ASSERT_TRUE(Stage({.mount_group = kGroup}).has_value());
  ASSERT_TRUE(Publish("/pods/a", kOther).has_value());
  EXPECT_EQ(GroupAt("/pods/a"), kOther);
}

TEST_F(MountGroupTest, AVolumeInUseBelongsToOneGroupOnly) {
  for (const bool staged : {true, false}) {
    if (staged) {
      ASSERT_TRUE(Stage({.mount_group = kGroup}).has_value());
    }
    ASSERT_TRUE(Publish("/pods/a", kGroup, false, staged).has_value());
    const int given = Given();
    const Status other = Publish("/pods/b", kOther, false, staged);
    ASSERT_FALSE(other.has_value());
    EXPECT_EQ(other.error().code(), Code::kPrecondition);
    EXPECT_NE(other.error().message().find("volume_mount_group"), std::string::npos);
    EXPECT_NE(other.error().message().find("/pods/a"), std::string::npos);
    EXPECT_TRUE(Publish("/pods/b", kGroup, false, staged).has_value());
    EXPECT_TRUE(Publish("/pods/c", kOther, true, staged).has_value()) << "a reader changes nothing";
    EXPECT_EQ(Given(), given);
    if (staged) {
      EXPECT_TRUE(Stage({.mount_group = kOther}).has_value());
      EXPECT_EQ(GroupAt("/pods/a"), kGroup)
          << "repeated staging does not change the group of a volume in use";
    }
    for (const char* target : {"/pods/a", "/pods/b", "/pods/c"}) {
      ASSERT_TRUE(engine_->volumes().Unpublish(id_, Path(target), Soon()).has_value());
    }
    ASSERT_TRUE(engine_->volumes().Unstage(id_, Path("/stage/v"), Soon()).has_value());
  }
}

TEST_F(MountGroupTest, AnUnreadableGroupIsAnError) {
  ASSERT_TRUE(Stage({.mount_group = kGroup}).has_value());
  mount_.faults.FailNth("GroupOf", 1, Error(Code::kIo, "no answer"));
  EXPECT_EQ(Publish("/pods/a", kGroup).error().code(), Code::kIo);
  EXPECT_TRUE(Publish("/pods/a", kGroup).has_value());
}

}  // namespace
}  // namespace quarry::engine
