#include "ctl/orphans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lvm/names.h"
#include "tests/unit/engine/group_builder.h"

namespace quarry::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kA = "qaaaaaaaaaaaaaaaaaaaaaaaaaa";
constexpr const char* kB = "qeeeeeeeeeeeeeeeeeeeeeeeeee";
constexpr const char* kC = "qiiiiiiiiiiiiiiiiiiiiiiiiii";
constexpr uint64_t kNow = 2'000'000'000;

std::string Id(const std::string& lv, const std::string& node = "here") {
  return lvm::VolumeId("default", lv, lvm::NodeHash(node));
}

class OrphansTest : public ::testing::Test {
 protected:
  // Adds a volume of ten extents. `change` may change its tags.
  void Add(const std::string& lv, const std::function<void(lvm::VolumeTags&)>& change = {}) {
    lvm::VolumeTags tags = engine::ReadyTags(lv, "name of " + lv, 10);
    tags.id = Id(lv);
    if (change) {
      change(tags);
    }
    builder_.Linear(lv, 0, {Extents{next_}, Extents{10}}, lvm::BuildTags(tags));
    builder_.group().lvs.back().created = kNow - 86400 * 3;
    next_ += 10;
  }
  Orphans Find() {
    question_.catalogs = {builder_.Build()};
    question_.node = "here";
    question_.now = std::chrono::system_clock::from_time_t(kNow);
    return FindOrphans(question_);
  }
  static std::vector<std::string> Ids(const Orphans& found) {
    std::vector<std::string> out;
    for (const Orphan& orphan : found.orphans) {
      out.push_back(orphan.id);
    }
    return out;
  }

  engine::GroupBuilder builder_{{1000}};
  OrphanQuestion question_;
  uint64_t next_ = 0;
};

TEST_F(OrphansTest, AVolumeThatTheListLacksIsAnOrphan) {
  Add(kA);
  Add(kB);
  question_.known.volumes = {{Id(kA), ""}};
  const Orphans found = Find();
  EXPECT_THAT(Ids(found), ElementsAre(Id(kB)));
  EXPECT_EQ(found.known, 1U);
  EXPECT_EQ(found.orphans[0].size, Bytes{40 << 20});
  EXPECT_EQ(found.orphans[0].age, std::chrono::days(3));
  const std::string text = DrawOrphans(found);
  EXPECT_THAT(text, HasSubstr("1 not in the list, 40 MiB; 1 in the list"));
  EXPECT_THAT(text, HasSubstr("3 days old"));
  EXPECT_THAT(text, HasSubstr("quarryctl volume delete " + Id(kB) + "\n"));
  EXPECT_THAT(text, Not(HasSubstr("delete " + Id(kA))));
}

TEST_F(OrphansTest, AVolumeThatQuarrydMountsItselfIsNoOrphan) {
  Add(kA, [](lvm::VolumeTags& tags) { tags.mount_point = "/srv/data"; });
  const Orphans found = Find();
  EXPECT_THAT(found.orphans, IsEmpty());
  EXPECT_THAT(DrawOrphans(found), HasSubstr("Not compared: 1 volumes that quarryd mounts itself"));
}

TEST_F(OrphansTest, AYoungVolumeGetsNoCommandToDeleteIt) {
  Add(kA);
  builder_.group().lvs.back().created = kNow - 59 * 60;
  const Orphans found = Find();
  ASSERT_THAT(Ids(found), ElementsAre(Id(kA)));
  EXPECT_TRUE(found.orphans[0].young);
  EXPECT_THAT(DrawOrphans(found), Not(HasSubstr("volume delete")));
  EXPECT_THAT(DrawOrphans(found), HasSubstr("These are young"));
  question_.least_age = std::chrono::minutes(59);
  EXPECT_FALSE(Find().orphans[0].young);
}

TEST_F(OrphansTest, AVolumeOfUnknownAgeIsNotYoung) {
  Add(kA);
  builder_.group().lvs.back().created = 0;
  EXPECT_FALSE(Find().orphans[0].young);
  EXPECT_THAT(DrawOrphans(Find()), HasSubstr("age unknown"));
}

TEST_F(OrphansTest, AnIdOfThisNodeWithoutVolumeIsMissing) {
  question_.known.volumes = {{Id(kA), ""}, {Id(kB, "there"), ""}};
  const Orphans found = Find();
  EXPECT_THAT(found.missing, ElementsAre(Id(kA)));
  EXPECT_THAT(DrawOrphans(found), HasSubstr("missing: the list has " + Id(kA)));
}

TEST_F(OrphansTest, TheIdsOfVolumesHereShowFormerNamesOfTheNode) {
  Add(kA, [](lvm::VolumeTags& tags) { tags.id = Id(kA, "former"); });
  question_.known.volumes = {{Id(kA, "former"), ""}, {Id(kB, "former"), ""}};
  EXPECT_THAT(Find().missing, ElementsAre(Id(kB, "former")));
}

TEST_F(OrphansTest, AnIdWithoutNodeIsPlacedByTheOrchestrator) {
  const std::string plain_a = lvm::VolumeId("default", kA);
  const std::string plain_b = lvm::VolumeId("default", kB);
  const std::string plain_c = lvm::VolumeId("default", kC);
  question_.known.volumes = {{plain_a, "here"}, {plain_b, "there"}, {plain_c, ""}};
  const Orphans found = Find();
  EXPECT_THAT(found.missing, ElementsAre(plain_a));
  EXPECT_EQ(found.unplaced, 1U);
}

TEST_F(OrphansTest, DeletedVolumesAreNoOrphans) {
  Add(kA, [](lvm::VolumeTags& tags) { tags.state = lvm::VolumeState::kErasing; });
  Add(kB, [](lvm::VolumeTags& tags) { tags.state = lvm::VolumeState::kErasing; });
  question_.known.volumes = {{Id(kB), ""}};
  const Orphans found = Find();
  EXPECT_THAT(found.orphans, IsEmpty());
  EXPECT_THAT(found.missing, IsEmpty());
  EXPECT_THAT(found.deleted, ElementsAre(Id(kB)));
}

TEST_F(OrphansTest, SnapshotsAreComparedOnlyIfTheListHasThem) {
  Add(kA, [](lvm::VolumeTags& tags) {
    tags.snapshot = true;
    tags.source = Id(kB);
    tags.cut = 1;
    tags.length = tags.size;
  });
  EXPECT_THAT(Find().orphans, IsEmpty());
  EXPECT_EQ(Find().snapshots_left_out, 1U);
  question_.known.lists_snapshots = true;
  EXPECT_THAT(Ids(Find()), ElementsAre(Id(kA)));
  EXPECT_THAT(DrawOrphans(Find()), HasSubstr("quarryctl volume delete " + Id(kA)));
  question_.known.snapshots = {Id(kA)};
  EXPECT_THAT(Find().orphans, IsEmpty());
  question_.known = {};
  question_.snapshots = true;
  EXPECT_THAT(Ids(Find()), ElementsAre(Id(kA)));
}

TEST_F(OrphansTest, InlineVolumesAndUnmanagedOnesAreNoOrphans) {
  Add(kA, [](lvm::VolumeTags& tags) { tags.ephemeral = true; });
  builder_.Linear("somebodys", 0, {Extents{next_}, Extents{10}}, {});
  builder_.Linear(kB, 0, {Extents{next_ + 10}, Extents{10}}, {"quarry.ready", "quarry.v=99"});
  const Orphans found = Find();
  EXPECT_THAT(found.orphans, IsEmpty());
  EXPECT_EQ(found.inline_left_out, 1U);
  EXPECT_THAT(found.unreadable, ElementsAre(HasSubstr(kB)));
}

TEST_F(OrphansTest, JsonHasTheSameFacts) {
  Add(kA);
  const auto page = nlohmann::json::parse(OrphansJson(Find()));
  ASSERT_THAT(page["orphans"], SizeIs(1));
  EXPECT_EQ(page["orphans"][0]["volume_id"], Id(kA));
  EXPECT_EQ(page["orphans"][0]["capacity_bytes"], 40 << 20);
  EXPECT_EQ(page["orphans"][0]["age_seconds"], 3 * 86400);
  EXPECT_EQ(page["known"], 0);
}

}  // namespace
}  // namespace quarry::ctl
