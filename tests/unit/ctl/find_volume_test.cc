#include "ctl/find_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/names.h"
#include "tests/fakes/fake_dm.h"
#include "tests/fakes/fake_lvm.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::ctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kA = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";
constexpr const char* kB = "qeeeeeeeeeeeeeeeeeeeeeeeeee";

class FindVolumeTest : public ::testing::Test {
 protected:
  FindVolumeTest() {
    lvm_.AddGroup("vg0", kMiB, {{"/dev/a", Extents{1000}}});
    lvm_.AddGroup("vg1", kMiB, {{"/dev/b", Extents{1000}}});
  }
  void Add(const std::string& group, const std::string& lv, const std::string& name, uint64_t at,
           lvm::VolumeState state = lvm::VolumeState::kReady) {
    lvm::VolumeTags tags = engine::ReadyTags(lv, name, 10);
    tags.state = state;
    lvm_.Edit(group, [&](lvm::VolumeGroup& vg) {
      lvm::LogicalVolume made{.name = lv, .uuid = lv + "-uuid", .segment_type = "linear"};
      made.tags = state == lvm::VolumeState::kCreating
                      ? std::vector<std::string>{std::string(lvm::kCreatingTag)}
                      : lvm::BuildTags(tags);
      made.segments = {{.type = "linear",
                        .logical = {Extents{0}, Extents{10}},
                        .areas = {{.pv_uuid = vg.pvs[0].uuid, .range = {Extents{at}, Extents{10}}}}}};
      vg.lvs.push_back(made);
    });
  }
  Result<engine::Record> Find(const std::string& wanted) {
    return FindVolume({lvm_, dm_, {{.name = "one", .group = "vg0"}, {.name = "two", .group = "vg1"}}}, wanted,
                      CallWithin(std::chrono::seconds(10)));
  }

  fakes::FakeLvm lvm_;
  fakes::FakeDm dm_;
};

TEST_F(FindVolumeTest, AVolumeIsFoundByIdOrName) {
  Add("vg0", kA, "first", 0);
  Add("vg1", kB, "second", 0);
  const auto by_name = Find("second");
  ASSERT_TRUE(by_name.has_value());
  EXPECT_EQ(by_name->lv->name, kB);
  EXPECT_EQ(by_name->pool, "two");
  const auto by_id = Find(by_name->tags.id);
  ASSERT_TRUE(by_id.has_value());
  EXPECT_EQ(by_id->lv->name, kB);
}

TEST_F(FindVolumeTest, ADeletedVolumeIsFoundToo) {
  Add("vg0", kA, "first", 0, lvm::VolumeState::kErasing);
  EXPECT_TRUE(Find("first").has_value());
}

TEST_F(FindVolumeTest, AnUnfinishedVolumeIsNotFound) {
  Add("vg0", kA, "first", 0, lvm::VolumeState::kCreating);
  EXPECT_EQ(Find("first").error().code(), Code::kNotFound);
  EXPECT_EQ(Find("").error().code(), Code::kNotFound);
}

TEST_F(FindVolumeTest, AnAmbiguousNameIsRefusedWithTheIds) {
  Add("vg0", kA, "same", 0);
  Add("vg1", kB, "same", 0);
  const auto found = Find("same");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), Code::kPrecondition);
  EXPECT_THAT(found.error().message(), AllOf(HasSubstr(kA), HasSubstr(kB)));
}

TEST_F(FindVolumeTest, APoolThatCannotBeReadMattersOnlyIfNoOtherHasTheVolume) {
  Add("vg1", kB, "second", 0);
  lvm_.SetAway("vg0", true);
  EXPECT_TRUE(Find("second").has_value());
  const auto found = Find("first");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), Code::kUnavailable);
  EXPECT_THAT(found.error().message(), HasSubstr("vg0"));
}

}  // namespace
}  // namespace quarry::ctl
