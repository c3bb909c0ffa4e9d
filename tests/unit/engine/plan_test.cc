// What the texts of tests/golden do not show: refusals by kind, and the parts of actions that have no text.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>

#include "engine/model/config.h"
#include "engine/plan/plan_node.h"
#include "engine/plan/plan_volume.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

constexpr const char* kA = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";

AbsolutePath Path(const std::string& text) {
  return *AbsolutePath::Parse(text);
}

CreateWish Wish(const Parameters& parameters, uint64_t extents) {
  return {"one", *Profile::Parse(parameters, "default"), AccessPlan{Access::kMount, "ext4"}, Extents{extents},
          kA};
}

TEST(PlanCreate, TheNewLvHasTheMarkerAndNoOtherTag) {
  const Catalog catalog = GroupBuilder({100, 100}).Build();
  const auto plan = PlanCreate(catalog, Wish({{"type", "raid1"}}, 10), PoolConfig{});
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  EXPECT_EQ(Find<lvm::CreateLv>(plan->actions.front())->tags,
            std::vector<std::string>{std::string(lvm::kCreatingTag)});
  EXPECT_EQ(plan->volume.id, lvm::VolumeId("default", kA));
}

TEST(PlanDelete, LvmRunsOnlyIfTheKernelHasTheDevice) {
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(ReadyTags(kA, "one", 10)));
  const Catalog catalog = builder.Build();
  const Plan zero = PlanDelete(catalog.records.front(), ErasePolicy::kZero);
  EXPECT_EQ(std::get<DeactivateAction>(zero.front()).dm_uuids,
            std::vector<std::string>{catalog.records.front().DmUuid()});
}

TEST(PlanErase, CoversEveryExtentOfTheVolume) {
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{7}, Extents{10}}, lvm::BuildTags(ReadyTags(kA, "one", 10)));
  const auto plan = PlanErase(builder.Build().records.front(), ErasePolicy::kZero);
  ASSERT_EQ(plan->size(), 1U);
  const auto& erase = std::get<EraseAction>(plan->front());
  EXPECT_EQ(erase.range.offset, Bytes{kMiB.value + 7 * 4 * kMiB.value});
  EXPECT_EQ(erase.range.length, Bytes{10 * 4 * kMiB.value});
  EXPECT_EQ(erase.range.pv_uuid, "pv0");
  EXPECT_EQ(erase.method, dm::EraseMethod::kZero);
}

class NodePlanTest : public testing::Test {
 protected:
  explicit NodePlanTest() { stack_.lv = {.name = "vg0-q", .uuid = "LVM-x", .major = 253, .minor = 4}; }

  void Record(const std::string& formatted, const std::string& access = "mount") {
    GroupBuilder builder({100});
    lvm::VolumeTags tags = ReadyTags(kA, "one", 10);
    tags.formatted = formatted;
    tags.access = access;
    builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(tags));
    catalog_ = builder.Build();
  }
  NodeView View() {
    NodeView view{catalog_.records.front(), stack_, mounts_};
    view.raw_target = raw_target_;
    return view;
  }
  void Mounted(const std::string& target, std::vector<std::string> options,
               mount::DeviceNumber device = {253, 4}, const std::string& root = "/") {
    entries_.push_back({.id = entries_.size() + 1,
                        .device = device,
                        .backing = device,
                        .root = root,
                        .target = target,
                        .options = std::move(options),
                        .fs_type = "ext4",
                        .source = "/dev/dm-4"});
    mounts_ = mount::MountTable(entries_);
  }
  Result<Plan> Stage(const mount::Content& content, std::vector<std::string> flags = {}) {
    return PlanStage(
        View(), {lvm::VolumeId("default", kA), Path("/stage"), {.mount_flags = std::move(flags)}}, content);
  }
  Result<Plan> Publish(const std::string& target, bool read_only = false, bool several = true,
                       AccessMode mode = AccessMode::kSingleNodeWriter) {
    return PlanPublishMount(
        View(), {lvm::VolumeId("default", kA), Path("/stage"), Path(target), {.mode = mode}, read_only},
        several);
  }

  Catalog catalog_;
  Stack stack_;
  std::string raw_target_;
  std::vector<mount::MountEntry> entries_;
  mount::MountTable mounts_{{}};
  const mount::Content blank_{};
  const mount::Content ext4_{mount::Content::Kind::kFilesystem, "ext4", "u"};
};

TEST_F(NodePlanTest, MountsPermitNoDevicesAndNoSetuidByDefault) {
  Record("ext4");
  const auto plan = Stage(ext4_);
  ASSERT_TRUE(plan.has_value()) << plan.error().message();
  EXPECT_EQ(std::get<MountAction>(plan->at(1)).options.flags, uint64_t{MS_NOSUID | MS_NODEV});
}

TEST_F(NodePlanTest, AnOnceFormattedVolumeThatReadsBlankIsNeverFormattedAgain) {
  Record("ext4");
  const auto plan = Stage(blank_);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code(), Code::kCorrupt);
  EXPECT_NE(plan.error().message().find("not formatted again"), std::string::npos);
}

TEST_F(NodePlanTest, AnInterruptedMkfsIsRepeated) {
  Record("making-ext4");
  for (const mount::Content& content : {blank_, ext4_}) {
    const auto plan = Stage(content);
    ASSERT_TRUE(plan.has_value()) << plan.error().message();
    EXPECT_TRUE(std::get<MakeFilesystemAction>(plan->front()).spec.overwrite);
  }
}

TEST_F(NodePlanTest, UnexpectedContentIsRefusedByName) {
  Record("");
  using Kind = mount::Content::Kind;
  for (const auto& [content, word] :
       {std::pair{mount::Content{Kind::kOther, "crypto_LUKS", ""}, "crypto_LUKS"},
        std::pair{mount::Content{Kind::kFilesystem, "xfs", "u"}, "xfs"},
        std::pair{mount::Content{Kind::kAmbiguous, "", ""}, "several"}}) {
    const auto plan = Stage(content);
    ASSERT_FALSE(plan.has_value());
    EXPECT_EQ(plan.error().code(), Code::kPrecondition);
    EXPECT_NE(plan.error().message().find(word), std::string::npos);
  }
}

TEST_F(NodePlanTest, StagingAgainWithOtherOptionsConflicts) {
  Record("ext4");
  Mounted("/stage", {"rw", "nosuid", "nodev"});
  EXPECT_EQ(Stage(ext4_, {"ro"}).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(Stage(ext4_, {"suid"}).error().code(), Code::kAlreadyExists);
}

TEST_F(NodePlanTest, AnotherMountAtTheStagingPathIsNotChanged) {
  Record("ext4");
  Mounted("/stage", {"rw"}, {8, 1});
  EXPECT_EQ(Stage(ext4_).error().code(), Code::kPrecondition);
}

TEST_F(NodePlanTest, PublishNeedsAStagedVolume) {
  Record("ext4");
  EXPECT_EQ(Publish("/pod/mount").error().code(), Code::kPrecondition);
}

TEST_F(NodePlanTest, EveryReadOnlyRequestBindsReadOnly) {
  Record("ext4");
  Mounted("/stage", {"rw", "nosuid", "nodev"});
  const auto flags = [](const Result<Plan>& plan) {
    return std::get<BindAction>(plan->back()).options.flags;
  };
  EXPECT_EQ(flags(Publish("/pod/mount")) & MS_RDONLY, 0U);
  EXPECT_NE(flags(Publish("/pod/mount", true)) & MS_RDONLY, 0U);
  EXPECT_NE(flags(Publish("/pod/mount", false, true, AccessMode::kSingleNodeReaderOnly)) & MS_RDONLY, 0U);
}

// csi-spec section 7: the table for the same target, and the setting for a second target.
TEST_F(NodePlanTest, ASecondPublishFollowsTheTableOfTheSpec) {
  Record("ext4");
  Mounted("/stage", {"rw", "nosuid", "nodev"});
  Mounted("/pod/mount", {"rw", "nosuid", "nodev"});
  EXPECT_TRUE(Publish("/pod/mount")->empty());
  EXPECT_EQ(Publish("/pod/mount", true).error().code(), Code::kAlreadyExists);
  EXPECT_TRUE(Publish("/pod2/mount", false, true).has_value());
  EXPECT_EQ(Publish("/pod2/mount", false, false).error().code(), Code::kPrecondition);
  EXPECT_EQ(Publish("/pod2/mount", false, true, AccessMode::kSingleNodeSingleWriter).error().code(),
            Code::kPrecondition);
  EXPECT_TRUE(Publish("/pod2/mount", false, false, AccessMode::kSingleNodeMultiWriter).has_value());
}

TEST_F(NodePlanTest, AnotherMountAtTheTargetIsNeverCovered) {
  Record("ext4");
  Mounted("/stage", {"rw", "nosuid", "nodev"});
  Mounted("/pod/mount", {"rw"}, {8, 1});
  EXPECT_EQ(Publish("/pod/mount").error().code(), Code::kPrecondition);
}

class RawPlanTest : public NodePlanTest {
 protected:
  Result<Plan> PublishRaw(const std::string& target, bool read_only = false) {
    std::vector<const mount::MountEntry*> published = NodeBinds(mounts_, stack_.top(), {0, 5});
    return PlanPublishBlock(View(),
                            {lvm::VolumeId("default", kA),
                             Path("/stage"),
                             Path(target),
                             {.access = AccessType::kBlock},
                             read_only},
                            published, true);
  }
};

TEST_F(RawPlanTest, ARepeatIsOkAndOtherOptionsConflict) {
  Record("", "block");
  Mounted("/pod/dev", {"rw"}, {0, 5}, "/dm-4");
  EXPECT_TRUE(PublishRaw("/pod/dev")->empty());
  EXPECT_EQ(PublishRaw("/pod/dev", true).error().code(), Code::kAlreadyExists);
  EXPECT_TRUE(PublishRaw("/pod2/dev").has_value());
  EXPECT_EQ(PublishRaw("/pod2/dev", true).error().code(), Code::kPrecondition);
}

TEST_F(RawPlanTest, ANodeWithAnotherMinorDoesNotCount) {
  Record("", "block");
  Mounted("/pod/dev", {"rw"}, {0, 5}, "/dm-40");
  EXPECT_EQ(PublishRaw("/pod/dev").error().code(), Code::kPrecondition);
}

TEST_F(RawPlanTest, ANodeInAnotherFileSystemDoesNotCount) {
  Record("", "block");
  Mounted("/pod/a", {"rw"}, {253, 9}, "/dm-4");
  Mounted("/pod/b", {"rw"}, {0, 5}, "/sub/dm-4");
  EXPECT_TRUE(NodeBinds(mounts_, stack_.top(), {0, 5}).empty());
}

TEST_F(RawPlanTest, AMountedDeviceDoesNotBecomeReadOnly) {
  Record("ext4", "any");
  Mounted("/stage", {"rw"});
  const auto plan = PublishRaw("/pod/dev", true);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code(), Code::kPrecondition);
  EXPECT_NE(plan.error().message().find("/stage"), std::string::npos);
}

TEST_F(RawPlanTest, AMountedVolumeIsNotPublishedRawForWriting) {
  Record("ext4", "any");
  Mounted("/stage", {"rw"});
  EXPECT_EQ(PublishRaw("/pod/dev").error().code(), Code::kPrecondition);
}

TEST_F(RawPlanTest, AVolumeThatIsPublishedRawIsNeitherMountedNorFormatted) {
  Record("ext4", "any");
  raw_target_ = "/pod/dev";
  EXPECT_EQ(Stage(ext4_).error().code(), Code::kPrecondition);
  EXPECT_EQ(Stage(ext4_, {"ro"}).error().code(), Code::kPrecondition);
  Record("", "any");
  EXPECT_EQ(Stage(blank_).error().code(), Code::kPrecondition);
}

TEST_F(RawPlanTest, ADeviceMountedReadOnlyDoesNotBecomeWritable) {
  Record("ext4", "any");
  Mounted("/stage", {"ro"});
  stack_.lv.read_only = true;
  EXPECT_EQ(PublishRaw("/pod/dev").error().code(), Code::kPrecondition);
  EXPECT_TRUE(PublishRaw("/pod/dev", true).has_value());
}

TEST_F(RawPlanTest, AReadOnlyRawDeviceIsNotMadeWritableByAMount) {
  Record("ext4", "any");
  stack_.lv.read_only = true;
  raw_target_ = "/pod/dev";
  const auto plan = Stage(ext4_);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().code(), Code::kPrecondition);
  EXPECT_NE(plan.error().message().find("/pod/dev"), std::string::npos);
  const auto reading = Stage(ext4_, {"ro"});
  ASSERT_TRUE(reading.has_value()) << reading.error().message();
  EXPECT_TRUE(std::ranges::none_of(
      *reading, [](const Action& action) { return std::holds_alternative<SetReadOnlyAction>(action); }));
}

}  // namespace
}  // namespace quarry::engine
