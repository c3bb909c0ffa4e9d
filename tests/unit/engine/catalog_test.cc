#include "engine/model/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/engine/group_builder.h"

namespace quarry::engine {
namespace {

constexpr const char* kA = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";
constexpr const char* kB = "qbbbbbbbbbbbbbbbbbbbbbbbbba";
constexpr const char* kC = "qccccccccccccccccccccccccca";

TEST(Catalog, HasManagedVolumesOnlyAndFindsReadyOnesByName) {
  lvm::VolumeTags erasing = ReadyTags(kB, "two", 10);
  erasing.state = lvm::VolumeState::kErasing;
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(ReadyTags(kA, "one", 10)))
      .Linear(kB, 0, {Extents{10}, Extents{10}}, lvm::BuildTags(erasing))
      .Linear(kC, 0, {Extents{20}, Extents{10}}, {std::string(lvm::kCreatingTag)})
      .Linear("root", 0, {Extents{30}, Extents{10}}, {"mine", "quarrylike"});
  const Catalog catalog = builder.Build();
  EXPECT_EQ(catalog.records.size(), 3U);
  EXPECT_TRUE(catalog.unreadable.empty());
  ASSERT_NE(catalog.ByName("one"), nullptr);
  EXPECT_EQ(catalog.ByName("one")->lv->name, kA);
  EXPECT_EQ(catalog.ByName("two"), nullptr);
  EXPECT_NE(catalog.ById(lvm::VolumeId("default", kA)), nullptr);
  EXPECT_EQ(catalog.ById(lvm::VolumeId("default", kB)), nullptr);
  EXPECT_EQ(catalog.ById("root"), nullptr);
}

TEST(Catalog, DamagedTagsAreReportedAndOtherVolumesServed) {
  auto tags = lvm::BuildTags(ReadyTags(kA, "one", 10));
  std::erase_if(tags, [](const std::string& tag) { return tag.starts_with("quarry.id"); });
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, tags)
      .Linear(kB, 0, {Extents{10}, Extents{10}}, lvm::BuildTags(ReadyTags(kB, "two", 10)));
  const Catalog catalog = builder.Build();
  ASSERT_EQ(catalog.unreadable.size(), 1U);
  EXPECT_EQ(catalog.unreadable.front().lv->name, kA);
  EXPECT_NE(catalog.ByName("two"), nullptr);
}

// Tags that were parsed before are not parsed again, and nothing else is taken over.
TEST(Catalog, IsTheSameWithAnEarlierOne) {
  lvm::VolumeTags grown = ReadyTags(kA, "one", 20);
  lvm::VolumeTags erasing = ReadyTags(kB, "two", 10);
  erasing.state = lvm::VolumeState::kErasing;
  GroupBuilder before({100});
  before.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(ReadyTags(kA, "one", 10)))
      .Linear(kB, 0, {Extents{10}, Extents{10}}, lvm::BuildTags(ReadyTags(kB, "two", 10)))
      .Linear(kC, 0, {Extents{20}, Extents{10}}, lvm::BuildTags(ReadyTags(kC, "three", 10)));
  const Catalog last = before.Build();
  GroupBuilder after({100});
  after.Linear(kA, 0, {Extents{0}, Extents{20}}, lvm::BuildTags(grown))
      .Linear(kB, 0, {Extents{20}, Extents{10}}, lvm::BuildTags(erasing))
      .Linear(kC, 0, {Extents{30}, Extents{10}}, lvm::BuildTags(ReadyTags(kC, "three", 10)));
  for (const bool same_uuids : {true, false}) {
    auto group = std::make_shared<lvm::VolumeGroup>(after.group());
    for (size_t i = 0; i < group->lvs.size(); ++i) {
      group->lvs[i].uuid = same_uuids ? last.group->lvs[i].uuid : "other" + std::to_string(i);
    }
    const Catalog fresh = ReadCatalog("default", group);
    const Catalog again = ReadCatalog("default", group, &last);
    ASSERT_EQ(again.records.size(), fresh.records.size());
    for (size_t i = 0; i < fresh.records.size(); ++i) {
      EXPECT_EQ(again.records[i].lv, fresh.records[i].lv);
      EXPECT_EQ(again.records[i].group, fresh.records[i].group);
      EXPECT_EQ(lvm::BuildTags(again.records[i].tags), lvm::BuildTags(fresh.records[i].tags));
      EXPECT_EQ(again.records[i].access, fresh.records[i].access);
      EXPECT_EQ(again.records[i].profile.has_value(), fresh.records[i].profile.has_value());
    }
  }
}

TEST(Catalog, AnUnmanagedNameWithTheMarkerIsNotARecord) {
  GroupBuilder builder({100});
  builder.Linear("precious", 0, {Extents{0}, Extents{10}}, {std::string(lvm::kCreatingTag)});
  const Catalog catalog = builder.Build();
  EXPECT_TRUE(catalog.records.empty());
  EXPECT_EQ(catalog.unreadable.size(), 1U);
}

TEST(Catalog, HiddenLegsWithACopyOfTheMarkerAreNotVolumes) {
  GroupBuilder builder({100});
  builder.Linear("qx_rmeta_0", 0, {Extents{0}, Extents{1}}, {std::string(lvm::kCreatingTag)});
  builder.group().lvs.back().hidden = true;
  EXPECT_TRUE(builder.Build().records.empty());
}

TEST(PlanAccess, TakesBlockMountOrBoth) {
  const Capability block{.access = AccessType::kBlock};
  const Capability ext4{.access = AccessType::kMount, .fs_type = ""};
  const Capability xfs{.access = AccessType::kMount, .fs_type = "xfs"};
  EXPECT_EQ(PlanAccess({block})->access, Access::kBlock);
  EXPECT_EQ(PlanAccess({ext4})->fs_type, "ext4");
  EXPECT_EQ(PlanAccess({block, xfs})->access, Access::kAny);
  EXPECT_EQ(PlanAccess({ext4, xfs}).error().code(), Code::kInvalidArgument);
}

TEST(PlanAccess, NamesTheFieldItRefuses) {
  const auto fs = PlanAccess({{.access = AccessType::kMount, .fs_type = "ntfs"}});
  EXPECT_NE(fs.error().message().find("volume_capabilities[0].mount.fs_type"), std::string::npos);
  const auto mode = PlanAccess({{.access = AccessType::kBlock},
                                {.access = AccessType::kBlock, .mode = AccessMode::kMultiNodeReaderOnly}});
  EXPECT_NE(mode.error().message().find("volume_capabilities[1].access_mode"), std::string::npos);
  const auto flags = PlanAccess({{.access = AccessType::kMount, .mount_flags = {"secret=hunter2", "bind"}}});
  EXPECT_NE(flags.error().message().find("mount_flags"), std::string::npos);
  EXPECT_EQ(flags.error().message().find("hunter2"), std::string::npos);
}

TEST(Incompatibility, NamesTheFieldThatDiffers) {
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(ReadyTags(kA, "one", 10)));
  const Catalog catalog = builder.Build();
  const Record& record = catalog.records.front();
  const auto profile = Profile::Parse({}, "default");
  CreateRequest request{.name = "one", .range = {}, .capabilities = {Capability{}}, .parameters = {}};
  EXPECT_EQ(Incompatibility(record, *profile, request), std::nullopt);
  request.range.required = Bytes{record.tags.size.value + 1};
  EXPECT_NE(Incompatibility(record, *profile, request)->find("required_bytes"), std::string::npos);
  request.range = {Bytes{1}, Bytes{2}};
  EXPECT_NE(Incompatibility(record, *profile, request)->find("limit_bytes"), std::string::npos);
  request.range = {};
  request.capabilities = {Capability{.access = AccessType::kBlock}};
  EXPECT_NE(Incompatibility(record, *profile, request)->find("volume_capabilities"), std::string::npos);
  const auto other = Profile::Parse({{"erase", "none"}}, "default");
  EXPECT_NE(Incompatibility(record, *other, request)->find("'erase'"), std::string::npos);
}

TEST(CheckAccess, PermitsOnlyTheAccessAVolumeWasMadeFor) {
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(ReadyTags(kA, "one", 10)));
  const Catalog catalog = builder.Build();
  const Record& record = catalog.records.front();
  EXPECT_TRUE(CheckAccess(record, Capability{}).has_value());
  EXPECT_EQ(CheckAccess(record, Capability{.access = AccessType::kBlock}).error().code(),
            Code::kPrecondition);
  EXPECT_EQ(CheckAccess(record, Capability{.fs_type = "xfs"}).error().code(), Code::kPrecondition);
  EXPECT_EQ(CheckAccess(record, Capability{.mode = AccessMode::kMultiNodeMultiWriter}).error().code(),
            Code::kPrecondition);
}

TEST(AccessName, IsTheTextOfTheTagAndReadBack) {
  EXPECT_EQ(AccessName(Access::kBlock), "block");
  EXPECT_EQ(AccessName(Access::kMount), "mount");
  EXPECT_EQ(AccessName(Access::kAny), "any");
  for (const Access access : {Access::kBlock, Access::kMount, Access::kAny}) {
    EXPECT_EQ(ParseAccess(AccessName(access)), access);
  }
  EXPECT_EQ(ParseAccess(""), std::nullopt);
  EXPECT_EQ(ParseAccess("Block"), std::nullopt);
}

// A later build may know more. The volume is listed, and its tag keeps its text.
TEST(RecordTest, AnUnknownAccessPermitsNoUseAndKeepsItsText) {
  lvm::VolumeTags tags = ReadyTags(kA, "one", 10);
  tags.access = "later";
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(tags));
  const Catalog catalog = builder.Build();
  ASSERT_EQ(catalog.records.size(), 1U);
  const Record& record = catalog.records.front();
  EXPECT_EQ(record.access, std::nullopt);
  EXPECT_EQ(record.tags.access, "later");
  EXPECT_EQ(CheckAccess(record, Capability{}).error().code(), Code::kPrecondition);
  EXPECT_EQ(CheckAccess(record, Capability{.access = AccessType::kBlock}).error().code(),
            Code::kPrecondition);
  const CreateRequest request{.name = "one", .range = {}, .capabilities = {Capability{}}, .parameters = {}};
  EXPECT_EQ(
      Incompatibility(record, *Profile::Parse({}, "default"), request),
      "volume_capabilities: the existing volume was made for later ext4, the request is for mount ext4");
}

TEST(RecordTest, AnUnreadableProfileIsKeptWithItsError) {
  lvm::VolumeTags tags = ReadyTags(kA, "one", 10);
  tags.profile = "type=raid9";
  GroupBuilder builder({100});
  builder.Linear(kA, 0, {Extents{0}, Extents{10}}, lvm::BuildTags(tags))
      .Linear(kC, 0, {Extents{20}, Extents{10}}, {std::string(lvm::kCreatingTag)});
  const Catalog catalog = builder.Build();
  EXPECT_TRUE(catalog.unreadable.empty());
  const Record* const record = catalog.ByName("one");
  ASSERT_NE(record, nullptr);
  ASSERT_FALSE(record->profile.has_value());
  EXPECT_EQ(record->profile.error().code(), Code::kCorrupt);
  EXPECT_EQ(record->profile.error().message(), Profile::FromCanonical("type=raid9").error().message());
  EXPECT_TRUE(Describe(*record).context.empty());
  EXPECT_TRUE(std::ranges::all_of(catalog.records, [&](const Record& one) {
    return &one == record || one.profile.has_value();
  })) << "an unfinished volume has the default profile";
}

// Removing a pvmove's device from the kernel would abort the move, for every volume whose extents it moves.
TEST(RecordTest, ItsDevicesDoNotIncludeAPvmoveBelowIt) {
  GroupBuilder builder({100});
  const std::string name = "q0123456789abcdefghijklmnop";
  builder.Linear("pvmove0", 0, {Extents{0}, Extents{10}}, {});
  builder.group().lvs.back().hidden = true;
  lvm::LogicalVolume lv{.name = name, .uuid = "uuid-moved"};
  lv.segments = {{.type = "linear", .logical = {{0}, {10}}, .areas = {{"", "pvmove0", {{0}, {10}}}}}};
  builder.group().lvs.push_back(lv);
  const auto group = std::make_shared<lvm::VolumeGroup>(builder.group());
  const Record record{"default", group, &group->lvs.back(), {}};
  EXPECT_EQ(record.DmUuids(), std::vector<std::string>{record.DmUuid()});
}

}  // namespace
}  // namespace quarry::engine
