#include "lvm/thin_pool.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/read/report_parser.h"
#include "lvm/verbs/thin.h"

namespace quarry::lvm {
namespace {

using ::testing::HasSubstr;

std::string Text(const std::string& release, const std::string& file) {
  std::ifstream in(std::filesystem::path(QUARRY_FIXTURES) / "lvm/texts" / release / file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A group that LVM reported, with the pool p.
VolumeGroup Load(const std::string& release, const std::string& name) {
  auto group = ParseReport(Text(release, name + ".json"));
  EXPECT_TRUE(group.has_value()) << name;
  return group.has_value() ? *group : VolumeGroup();
}

Status MayStart(const VolumeGroup& group) {
  return MayStartDegraded(group, *group.FindLv("p"));
}

// Takes the disk of this leg away.
void Lose(VolumeGroup& group, const std::string& part, size_t leg) {
  const std::string uuid = LegPvs(group, *group.FindLv(part)).at(leg).front();
  std::ranges::find(group.pvs, uuid, &PhysicalVolume::uuid)->missing = true;
}

class MayStartDegradedTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Releases, MayStartDegradedTest, ::testing::Values("2.03.16", "2.03.31"),
                         [](const auto& test) { return test.param == "2.03.16" ? "older" : "newer"; });

// In each of these, data and metadata lack the same disk.
TEST_P(MayStartDegradedTest, RaidOfEachTypeLacksADisk) {
  for (const char* name : {"lost_thin_raid1", "lost_thin_raid5", "lost_thin_raid6", "lost_thin_raid10"}) {
    const VolumeGroup group = Load(GetParam(), name);
    ASSERT_TRUE(group.FindLv("p")->partial);
    const Status may = MayStart(group);
    EXPECT_TRUE(may.has_value()) << name << ": " << may.error().message();
  }
}

TEST_P(MayStartDegradedTest, WithoutRedundancyNoDiskIsMissed) {
  for (const auto& [name, part] : {std::pair{"lost_thin_linear", "p_tmeta"},
                                   {"lost_thin_linear_data", "p_tdata"},
                                   {"lost_thin_striped", "p_tdata"},
                                   {"lost_thin_raid0", "p_tdata"},
                                   {"lost_thin_grown", "p_tmeta"}}) {
    const Status may = MayStart(Load(GetParam(), name));
    ASSERT_FALSE(may.has_value()) << name;
    EXPECT_EQ(may.error().code(), Code::kUnavailable) << name;
    EXPECT_THAT(may.error().message(), HasSubstr(part)) << name;
  }
  EXPECT_TRUE(MayStart(Load(GetParam(), "thin_linear")).has_value()) << "nothing is missing";
}

TEST_P(MayStartDegradedTest, TooManyMissingLegsAreTooMany) {
  struct Case {
    const char* name;
    std::vector<size_t> may;  // legs of the data that may be missing
    size_t too_many;          // the leg that is one too many
  };
  for (const auto& [name, may, too_many] :
       std::vector<Case>{{"thin_raid5", {2}, 1}, {"thin_raid6", {4, 3}, 2}, {"thin_raid10", {3, 1}, 2}}) {
    VolumeGroup group = Load(GetParam(), name);
    // Metadata on disks of its own, so that only the data matters.
    for (PhysicalVolume& pv : group.pvs) {
      pv.missing = false;
    }
    LogicalVolume& pool = *std::ranges::find(group.lvs, "p", &LogicalVolume::name);
    pool.segments.front().thin_pool->metadata_lv = "p_tdata";
    for (const size_t leg : may) {
      Lose(group, "p_tdata", leg);
      EXPECT_TRUE(MayStart(group).has_value()) << name << " without leg " << leg;
    }
    Lose(group, "p_tdata", too_many);
    EXPECT_FALSE(MayStart(group).has_value()) << name << " without leg " << too_many;
  }
}

TEST_P(MayStartDegradedTest, WhatIsNoPoolIsNamedSo) {
  VolumeGroup group = Load(GetParam(), "thin_raid1");
  EXPECT_EQ(MayStartDegraded(group, *group.FindLv("v")).error().code(), Code::kUnsupported);
  std::erase_if(group.lvs, [](const LogicalVolume& lv) { return lv.name == "p_tmeta"; });
  EXPECT_EQ(MayStart(group).error().code(), Code::kUnsupported);
}

// Bytes of the section of this LV in LVM's text; 0 if there is none.
size_t SectionSize(const std::string& text, const std::string& lv) {
  const size_t begin = text.find("\n" + lv + " {\n", text.find("\nlogical_volumes {"));
  if (begin == std::string::npos) {
    return 0;
  }
  size_t at = text.find('{', begin) + 1;
  for (int depth = 1; depth > 0 && at < text.size(); ++at) {
    depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
  }
  return at - begin;
}

class ThinTextTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Releases, ThinTextTest, ::testing::Values("2.03.16", "2.03.31"),
                         [](const auto& test) { return test.param == "2.03.16" ? "older" : "newer"; });

TEST_P(ThinTextTest, PoolsAndThinVolumesTakeNoMoreTextThanPlanned) {
  const CreateThinLv thin{.group = "vg0", .name = "v", .pool = "p", .size = kGiB, .tags = {}};
  const MakeThinPool pool{.group = "vg0", .name = "p", .metadata = "m", .chunk_size = kMiB};
  constexpr size_t kLongestNames = 150;  // the names of the texts have one letter
  for (const char* name : {"thin_linear", "thin_queued", "thin_queued_delete", "thin_raid10", "thin_grown"}) {
    const std::string text = Text(GetParam(), std::string(name) + ".text");
    const size_t of_pool = SectionSize(text, "p");
    EXPECT_GT(of_pool, 100U) << name;
    EXPECT_LE(of_pool + kLongestNames, pool.MetadataText().value) << name;
    EXPECT_LE(SectionSize(text, "v") + kLongestNames, thin.MetadataText().value) << name;
  }
  EXPECT_GT(SectionSize(Text(GetParam(), "thin_linear.text"), "v"), 100U);
}

}  // namespace
}  // namespace quarry::lvm
