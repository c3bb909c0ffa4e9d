#include "daemon/wiring/lvm_by_group.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_lvm.h"

namespace quarry::daemon {
namespace {

constexpr Bytes kExtent{4 * 1024 * 1024};

class LvmByGroupTest : public testing::Test {
 protected:
  LvmByGroupTest() {
    one_.AddGroup("vg-one", kExtent, {{"/dev/a", Extents{100}}});
    two_.AddGroup("vg-two", kExtent, {{"/dev/b", Extents{100}}});
    two_.AddGroup("vg-one", kExtent,
                  {{"/dev/c", Extents{7}}});  // another group of that name, which is not ours
  }
  static Call Soon() { return CallWithin(std::chrono::seconds(20)); }

  fakes::FakeLvm one_, two_;
  LvmByGroup lvm_{{{"vg-one", &one_}, {"vg-two", &two_}}};
};

TEST_F(LvmByGroupTest, EachGroupIsReadByItsOwnLvm) {
  EXPECT_EQ((*lvm_.Read("vg-one", Soon()))->extent_count, Extents{100});
  EXPECT_EQ((*lvm_.Read("vg-two", Soon()))->extent_count, Extents{100});
  EXPECT_EQ(one_.before.Calls("Read"), 1);
  EXPECT_EQ(two_.before.Calls("Read"), 1);
  EXPECT_EQ(lvm_.Read("vg-three", Soon()).error().code(), Code::kNotFound);
}

TEST_F(LvmByGroupTest, ChangesGoToTheLvmOfTheirGroup) {
  (void)lvm_.Apply(lvm::ActivateLvs{"vg-one", {"lv"}}, Soon());
  (void)lvm_.Apply(lvm::DeactivateLv{"vg-one", "lv", 0}, Soon());
  (void)lvm_.Apply(lvm::ChangeTags{"vg-one", "lv", {"a"}, {}}, Soon());
  (void)lvm_.Apply(lvm::RemoveLvs{"vg-one", {"lv"}, 0}, Soon());
  for (const char* method : {"Activate", "Deactivate", "ChangeTags", "Remove"}) {
    EXPECT_EQ(one_.before.Calls(method), 1) << method;
    EXPECT_EQ(two_.before.Calls(method), 0) << method;
  }
  EXPECT_EQ(lvm_.Apply(lvm::RemoveLvs{"vg-three", {"lv"}, 0}, Soon()).error().code(), Code::kNotFound);
}

TEST_F(LvmByGroupTest, ASilentGroupDoesNotBlockTheOthers) {
  one_.SetGroupSilent("vg-one", true);
  EXPECT_EQ(lvm_.Read("vg-one", CallWithin(std::chrono::milliseconds(20))).error().code(), Code::kTimeout);
  EXPECT_TRUE(lvm_.Read("vg-two", Soon()).has_value());
}

TEST_F(LvmByGroupTest, EachGroupAsksItsOwnLvmForTheVersion) {
  one_.before.FailAlways("Version", Error(Code::kUnavailable, "looking for the pool's disks"));
  EXPECT_FALSE(lvm_.Version("vg-one", Soon()).has_value());
  EXPECT_TRUE(lvm_.Version("vg-two", Soon()).has_value());
  EXPECT_EQ(lvm_.Version("vg-three", Soon()).error().code(), Code::kNotFound);
}

}  // namespace
}  // namespace quarry::daemon
