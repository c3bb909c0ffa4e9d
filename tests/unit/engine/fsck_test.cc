// fsck by policy: a file system is checked before its first mount, a repair is logged, and a file system that
// is damaged beyond repair is not mounted.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_erase.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/fakes/fake_mount.h"
#include "tests/fakes/fake_world.h"

namespace quarry::engine {
namespace {

using Damage = fakes::FakeMount::Damage;

constexpr Bytes kExtent{4 * 1024 * 1024};

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

class FsckTest : public testing::Test {
 protected:
  FsckTest() {
    lvm_.AddGroup("vg0", kExtent, {{"/dev/a", Extents{200}}});
    fakes::Follow(lvm_, dm_);
    mount_.AddDirectory("/stage");
    mount_.AddDirectory("/pods");
    Begin(Fsck::kPreen);
  }

  void Begin(Fsck fsck) {
    engine_.reset();
    engine_ =
        std::make_unique<Engine>(EngineConfig{.pools = {{.name = "main", .group = "vg0"}}, .fsck = fsck},
                                 fakes::FakeWorld{lvm_, dm_, erase_, mount_, clock_}, log_);
    EXPECT_TRUE(engine_->lifecycle().Start(Soon()).has_value());
  }
  // A volume that was formatted and used before.
  std::string Used(const std::string& fs_type = "ext4") {
    const auto made = engine_->volumes().Create({.name = "v" + fs_type,
                                                 .range = {ToBytes(Extents{80}, kExtent), {}},
                                                 .capabilities = {{.fs_type = fs_type}},
                                                 .parameters = {}},
                                                Soon());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    EXPECT_TRUE(Stage(made->volume.id).has_value());
    uuid_ = dm_.Devices().at(0).uuid;
    EXPECT_TRUE(engine_->volumes().Unstage(made->volume.id, Path("/stage/v"), Soon()).has_value());
    return made->volume.id;
  }

  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }
  Status Stage(const std::string& id, std::vector<std::string> flags = {}) {
    return engine_->volumes().Stage({id, Path("/stage/v"), {.mount_flags = std::move(flags)}}, Soon());
  }
  int Checks() { return mount_.faults.Calls("Check"); }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
  fakes::FakeErase erase_;
  fakes::FakeMount mount_{dm_};
  SystemClock clock_;
  Logger log_{LogLevel::kInfo, LogFormat::kText};
  std::unique_ptr<Engine> engine_;
  std::string uuid_;
};

TEST_F(FsckTest, ANewFileSystemIsNotChecked) {
  Used();
  EXPECT_EQ(Checks(), 0);
}

TEST_F(FsckTest, AFileSystemIsCheckedBeforeItsFirstMountOnly) {
  const std::string id = Used();
  ASSERT_TRUE(Stage(id).has_value());
  EXPECT_EQ(Checks(), 1);
  const auto journal = mount_.Journal();
  EXPECT_EQ(journal.at(journal.size() - 2).substr(0, 9), "fsck.ext4");
  EXPECT_EQ(journal.back().substr(0, 5), "mount");
  ASSERT_TRUE(Stage(id).has_value());
  ASSERT_TRUE(engine_->volumes().Publish({id, Path("/stage/v"), Path("/pods/a"), {}}, Soon()).has_value());
  ASSERT_TRUE(engine_->volumes().Publish({id, std::nullopt, Path("/pods/b"), {}}, Soon()).has_value());
  EXPECT_EQ(Checks(), 1);
}

TEST_F(FsckTest, AVolumeThatIsNotStagedIsCheckedToo) {
  const std::string id = Used();
  ASSERT_TRUE(engine_->volumes().Publish({id, std::nullopt, Path("/pods/a"), {}}, Soon()).has_value());
  EXPECT_EQ(Checks(), 1);
}

TEST_F(FsckTest, AReadOnlyMountIsNotChecked) {
  const std::string id = Used();
  mount_.SetDamage(uuid_, Damage::kFixable);
  ASSERT_TRUE(Stage(id, {"ro"}).has_value());
  EXPECT_EQ(Checks(), 0);
}

TEST_F(FsckTest, NothingIsCheckedUnlessConfigured) {
  Begin(Fsck::kOff);
  const std::string id = Used();
  mount_.SetDamage(uuid_, Damage::kUnfixable);
  ASSERT_TRUE(Stage(id).has_value());
  EXPECT_EQ(Checks(), 0);
}

TEST_F(FsckTest, ARepairIsLogged) {
  const std::string id = Used();
  mount_.SetDamage(uuid_, Damage::kFixable);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(Stage(id).has_value());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("repaired"), std::string::npos) << log;
  EXPECT_NE(log.find(id), std::string::npos) << log;
  EXPECT_NE(log.find("it was repaired"), std::string::npos) << log;
  EXPECT_EQ(mount_.DamageOf(uuid_), Damage::kNone);
}

TEST_F(FsckTest, AFileSystemDamagedBeyondRepairIsNotMounted) {
  const std::string id = Used();
  mount_.SetDamage(uuid_, Damage::kUnfixable);
  const Status staged = Stage(id);
  ASSERT_FALSE(staged.has_value());
  EXPECT_EQ(staged.error().code(), Code::kCorrupt);
  for (const std::string& part :
       {id, std::string("UNEXPECTED INCONSISTENCY"), std::string("repair it by hand")}) {
    EXPECT_NE(staged.error().message().find(part), std::string::npos) << staged.error().message();
  }
  EXPECT_EQ(mount_.Journal().back(), "umount /stage/v") << "nothing was mounted since";
  mount_.SetDamage(uuid_, Damage::kNone);
  EXPECT_TRUE(Stage(id).has_value());
}

TEST_F(FsckTest, AFileSystemThatCannotBeCheckedIsNotMounted) {
  const std::string id = Used();
  mount_.faults.FailNth("Check", 1, Error(Code::kPrecondition, "e2fsck is not installed"));
  EXPECT_EQ(Stage(id).error().code(), Code::kPrecondition);
  EXPECT_TRUE(Stage(id).has_value());
}

TEST_F(FsckTest, AFileSystemThatReplaysWhenMountedIsMounted) {
  const std::string id = Used("xfs");
  EXPECT_TRUE(Stage(id).has_value());
}

}  // namespace
}  // namespace quarry::engine
