#include "lvm/read/report_parser.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include "lvm/layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quarry::lvm {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::filesystem::path kFixtures = std::filesystem::path(QUARRY_FIXTURES) / "lvm";

std::string Load(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<std::filesystem::path> AllReports() {
  std::vector<std::filesystem::path> out;
  for (const char* source : {"native", "bookworm"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kFixtures / source)) {
      if (entry.path().extension() == ".json") {
        out.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(out);
  return out;
}

std::string NameOf(const ::testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
}

// From real reports: the type of the volume "v" as adoption would see it.
TEST(GeometryOfReports, IsWhatLvmWasAskedFor) {
  const std::vector<std::tuple<std::string, const char*, std::string>> volumes = {
      {"striped", "stripes", "striped with 2 stripes"},
      {"raid0", "plain", "raid0 with 2 stripes"},
      {"raid1", "v", "raid1 with 1 mirror"},
      {"raid4", "v", "raid4 with 2 stripes"},
      {"raid5", "v", "raid5 with 2 stripes"},
      {"raid6", "v", "raid6 with 3 stripes"},
      {"raid10", "v", "raid10 with 2 stripes"},
  };
  for (const auto& [report, name, words] : volumes) {
    const auto group = ParseReport(Load(kFixtures / "bookworm" / (report + ".json")));
    ASSERT_TRUE(group.has_value()) << group.error().message();
    ASSERT_NE(group->FindLv(name), nullptr) << report;
    const auto geometry = GeometryOf(*group, *group->FindLv(name));
    ASSERT_TRUE(geometry.has_value()) << report << ": " << geometry.error().message();
    EXPECT_EQ(geometry->Describe(), words);
  }
  const auto foreign = ParseReport(Load(kFixtures / "bookworm" / "foreign.json"));
  for (const char* name : {"cached", "thin", "pool"}) {
    EXPECT_FALSE(GeometryOf(*foreign, *foreign->FindLv(name)).has_value()) << name;
  }
  const auto integrity = ParseReport(Load(kFixtures / "bookworm" / "raid1_integrity.json"));
  EXPECT_FALSE(GeometryOf(*integrity, *integrity->FindLv("v")).has_value());
}

TEST(Roles, OnlyAVolumeByItselfIsIndependent) {
  const std::string text = Load(kFixtures / "bookworm" / "linear.json");
  EXPECT_TRUE(ParseReport(text)->lvs.front().independent) << "an older report: not asked";
  for (const auto& [role, independent] :
       std::initializer_list<std::pair<std::string, bool>>{{"public", true},
                                                           {"public,origin,thickorigin", false},
                                                           {"public,snapshot", false},
                                                           {"private", false}}) {
    std::string with_roles = text;
    const std::string field = "\"lv_tags\"";
    const std::string more = "\"lv_role\":\"" + role + "\", ";
    for (size_t at = text.rfind(field); at != std::string::npos;
         at = at == 0 ? at : text.rfind(field, at - 1)) {
      with_roles.insert(at, more);
    }
    EXPECT_EQ(ParseReport(with_roles)->lvs.front().independent, independent) << role;
  }
}

// Promises that hold for every LVM report.
class EveryReport : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  void SetUp() override {
    text_ = Load(GetParam());
    auto parsed = ParseReport(text_);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
    group_ = std::move(*parsed);
  }
  std::string text_;
  VolumeGroup group_;
};

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryReport, ::testing::ValuesIn(AllReports()), NameOf);

TEST_P(EveryReport, AccountsForEveryPhysicalExtentOnce) {
  std::map<std::string, std::vector<ExtentRange>> by_pv;
  Extents free;
  for (const PhysicalVolume& pv : group_.pvs) {
    by_pv[pv.uuid] = pv.free;
    for (const ExtentRange& range : pv.free) {
      free += range.count;
    }
  }
  for (const LogicalVolume& lv : group_.lvs) {
    for (const Segment& segment : lv.segments) {
      for (const SegmentArea& area : segment.areas) {
        if (!area.pv_uuid.empty()) {
          by_pv.at(area.pv_uuid).push_back(area.range);
        }
      }
    }
  }
  Extents all;
  for (auto& [uuid, ranges] : by_pv) {
    std::ranges::sort(ranges);
    Extents next;
    for (const ExtentRange& range : ranges) {
      EXPECT_EQ(range.first, next) << uuid;
      next = range.end();
    }
    EXPECT_EQ(next, group_.FindPv(uuid)->extent_count) << uuid;
    all += next;
  }
  EXPECT_EQ(all, group_.extent_count);
  EXPECT_EQ(free, group_.free_count);
}

TEST_P(EveryReport, SegmentsTileTheirVolume) {
  for (const LogicalVolume& lv : group_.lvs) {
    Extents next;
    for (const Segment& segment : lv.segments) {
      EXPECT_EQ(segment.logical.first, next) << lv.name;
      next = segment.logical.end();
    }
    EXPECT_EQ(ToBytes(next, group_.extent_size), lv.size) << lv.name;
    EXPECT_EQ(lv.segment_type, lv.segments.front().type);
  }
}

TEST_P(EveryReport, FreeRangesAscendAndNeverTouch) {
  for (const PhysicalVolume& pv : group_.pvs) {
    for (size_t i = 1; i < pv.free.size(); ++i) {
      EXPECT_LT(pv.free[i - 1].end(), pv.free[i].first);
    }
  }
}

TEST_P(EveryReport, OnlyMissingPvsLackADevice) {
  for (const PhysicalVolume& pv : group_.pvs) {
    EXPECT_TRUE(pv.missing || pv.device.starts_with("/dev/")) << pv.uuid;
    EXPECT_THAT(pv.uuid, SizeIs(38));
    EXPECT_GT(pv.pe_start.value, 0U);
  }
}

// If any single field is removed, the parser reports it instead of inventing a value.
TEST_P(EveryReport, AMissingFieldIsAlwaysNoticed) {
  const nlohmann::json whole = nlohmann::json::parse(text_);
  for (const auto& [section, rows] : whole["report"][0].items()) {
    if (rows.empty()) {
      continue;
    }
    for (const auto& [field, value] : rows[0].items()) {
      nlohmann::json torn = whole;
      torn["report"][0][section][0].erase(field);
      const auto parsed = ParseReport(torn.dump(2));
      const bool only_with_metadata =
          (field == "pv_mda_size" || field == "pv_mda_free") && rows[0]["pv_mda_used_count"] == "0";
      if (only_with_metadata) {
        continue;
      }
      ASSERT_FALSE(parsed.has_value()) << section << "." << field;
      EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
      EXPECT_THAT(parsed.error().message(), HasSubstr(field));
    }
    nlohmann::json torn = whole;
    torn["report"][0].erase(section);
    const auto parsed = ParseReport(torn.dump(2));
    ASSERT_FALSE(parsed.has_value()) << section;
    EXPECT_THAT(parsed.error().message(), HasSubstr(section));
  }
}

TEST_P(EveryReport, CutAnywhereIsCorruptNotWrong) {
  const std::string body = text_.substr(0, text_.find_last_of('}'));
  for (size_t size = 0; size < body.size(); size += 1 + body.size() / 300) {
    const auto parsed = ParseReport(body.substr(0, size));
    ASSERT_FALSE(parsed.has_value()) << size;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
  }
}

TEST_P(EveryReport, NoiseAroundAndBetweenLinesChangesNothing) {
  std::string noisy = "  WARNING: something\nFile descriptor 7 leaked\n";
  for (const char c : text_) {
    noisy += c;
    if (c == '\n') {
      noisy += std::string(2, '\0') + "  Reading device /dev/x failed.\n";
    }
  }
  noisy += "\n  done\n";
  const auto parsed = ParseReport(noisy);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->uuid, group_.uuid);
  EXPECT_EQ(parsed->lvs.size(), group_.lvs.size());
  EXPECT_EQ(parsed->pvs.size(), group_.pvs.size());
}

// The content of single reports, the same for every release.
class OfRelease : public ::testing::TestWithParam<const char*> {
 protected:
  static VolumeGroup Group(const std::string& name) {
    auto parsed = ParseReport(Load(kFixtures / GetParam() / (name + ".json")));
    EXPECT_TRUE(parsed.has_value()) << name << ": " << parsed.error().message();
    return parsed.value_or(VolumeGroup{});
  }
};

INSTANTIATE_TEST_SUITE_P(Releases, OfRelease, ::testing::Values("bookworm"),
                         [](const auto& release) { return std::string(release.param); });

TEST_P(OfRelease, RaidHasItsLegsInOrderAndApart) {
  const std::map<std::string, std::pair<size_t, uint32_t>> legs_and_data = {
      {"raid1", {2, 1}}, {"raid4", {3, 2}}, {"raid5", {3, 2}}, {"raid6", {5, 3}}, {"raid10", {4, 2}}};
  for (const auto& [type, shape] : legs_and_data) {
    const VolumeGroup group = Group(type);
    const LogicalVolume* lv = group.FindLv("v");
    ASSERT_NE(lv, nullptr) << type;
    EXPECT_EQ(lv->segment_type, type);
    EXPECT_TRUE(lv->active);
    EXPECT_EQ(lv->sync_percent, 100.0) << type;
    EXPECT_EQ(lv->sync_action, "idle") << type;
    ASSERT_THAT(lv->segments, SizeIs(1)) << type;
    EXPECT_EQ(lv->segments[0].data_stripes, shape.second) << type;
    EXPECT_EQ(lv->segments[0].region_size, Bytes{2 * kMiB.value}) << type;
    const std::vector<std::vector<std::string>> legs = LegPvs(group, *lv);
    ASSERT_THAT(legs, SizeIs(shape.first)) << type;
    for (size_t i = 0; i < legs.size(); ++i) {
      EXPECT_EQ(lv->segments[0].areas[i].lv_name, "v_rimage_" + std::to_string(i));
      EXPECT_THAT(legs[i], SizeIs(1));
    }
    EXPECT_EQ(SharedPv(group, *lv), std::nullopt) << type;
    // A leg of ten extents and one of metadata before it.
    EXPECT_THAT(PhysicalExtents(group, *lv), SizeIs(2 * shape.first)) << type;
  }
}

TEST_P(OfRelease, LinearAndStripedLieOnDisks) {
  const VolumeGroup linear = Group("linear_two_segments");
  ASSERT_THAT(linear.FindLv("one")->segments, SizeIs(2));
  EXPECT_EQ(linear.FindLv("one")->segments[1].areas[0].range, (ExtentRange{{20}, {5}}));
  const VolumeGroup striped = Group("striped");
  const Segment& stripes = striped.FindLv("stripes")->segments[0];
  EXPECT_EQ(stripes.type, "striped");
  EXPECT_EQ(stripes.stripe_size, Bytes{65536});
  EXPECT_THAT(stripes.areas, SizeIs(2));
  EXPECT_THAT(LegPvs(Group("raid0"), *Group("raid0").FindLv("plain")), SizeIs(2));
}

TEST_P(OfRelease, ASyncUnderWayIsSeen) {
  const VolumeGroup group = Group("raid5_syncing");
  const LogicalVolume* lv = group.FindLv("v");
  ASSERT_TRUE(lv->sync_percent.has_value());
  EXPECT_LT(*lv->sync_percent, 100.0);
  EXPECT_EQ(lv->sync_action, "resync");
}

TEST_P(OfRelease, AnInactiveRaidSaysNothingOfItsSync) {
  const VolumeGroup group = Group("raid1_inactive");
  const LogicalVolume* lv = group.FindLv("mirror");
  EXPECT_FALSE(lv->active);
  EXPECT_TRUE(lv->sync_action.empty());
}

TEST_P(OfRelease, TagsAreWhereTheyWerePut) {
  const VolumeGroup group = Group("tags");
  EXPECT_THAT(group.tags, ElementsAre("vg.tag"));
  EXPECT_THAT(group.FindLv("one")->tags,
              ::testing::UnorderedElementsAre("other", "quarry.name=caf+C3+A9", "quarry.ready"));
  EXPECT_EQ(std::ranges::count_if(group.pvs, [](const auto& pv) { return !pv.tags.empty(); }), 1);
  const VolumeGroup raid = Group("raid1_nosync");
  EXPECT_THAT(raid.FindLv("mirror_rmeta_0")->tags, ElementsAre("quarry.creating"));
  EXPECT_THAT(raid.FindLv("mirror_rimage_0")->tags, IsEmpty());
}

TEST_P(OfRelease, StatesOfDisksAndGroupAreSeen) {
  EXPECT_TRUE(Group("exported").exported);
  EXPECT_FALSE(Group("empty").exported);
  const VolumeGroup closed = Group("not_allocatable");
  EXPECT_EQ(std::ranges::count(closed.pvs, false, &PhysicalVolume::allocatable), 1);
  const VolumeGroup missing = Group("pv_missing");
  EXPECT_EQ(missing.MissingPvs(), 1U);
  EXPECT_EQ(std::ranges::count(missing.pvs, "", &PhysicalVolume::device), 1);
  EXPECT_TRUE(missing.FindLv("mirror")->partial);
  EXPECT_TRUE(missing.FindLv("mirror_rmeta_1")->partial);
  EXPECT_FALSE(missing.FindLv("one")->partial);
  EXPECT_EQ(SharedPv(missing, *missing.FindLv("mirror")), std::nullopt);
  // Visible again, but the group was changed without it.
  const VolumeGroup returned = Group("pv_returned");
  EXPECT_EQ(returned.MissingPvs(), 1U);
  EXPECT_EQ(std::ranges::count(returned.pvs, "", &PhysicalVolume::device), 0);
}

TEST_P(OfRelease, ForeignVolumesDoNotConfuse) {
  const VolumeGroup group = Group("foreign");
  EXPECT_EQ(group.FindLv("pool")->segment_type, "thin-pool");
  EXPECT_THAT(group.FindLv("thin")->segments[0].areas, IsEmpty());
  EXPECT_EQ(group.FindLv("cached")->segment_type, "cache");
  EXPECT_TRUE(group.FindLv("pool_tdata")->hidden);
  EXPECT_FALSE(group.FindLv("snap")->hidden);
}

TEST_P(OfRelease, IntegrityIsCountedToItsLeg) {
  const VolumeGroup group = Group("raid1_integrity");
  const LogicalVolume* lv = group.FindLv("v");
  EXPECT_THAT(LegPvs(group, *lv), SizeIs(2));
  // Per leg: metadata, data, checksums.
  EXPECT_THAT(PhysicalExtents(group, *lv), SizeIs(6));
}

TEST_P(OfRelease, ANearlyFullMetadataAreaShows) {
  const VolumeGroup group = Group("metadata_nearly_full");
  EXPECT_GT(group.pvs[0].metadata_size.value, 0U);
  EXPECT_LT(group.pvs[0].metadata_free.value, group.pvs[0].metadata_size.value / 10);
}

// A document of one PV and one LV, to modify.
nlohmann::json Small() {
  return nlohmann::json::parse(R"({"report":[{
    "vg":[{"vg_uuid":"G","vg_name":"vg","vg_seqno":"7","vg_extent_size":"4194304","vg_extent_count":"20",
           "vg_free_count":"10","vg_exported":"","vg_tags":"a,b"}],
    "pv":[{"pv_uuid":"P","pv_name":"/dev/disk/by-path/pci-0:1,2","pe_start":"1048576","pv_pe_count":"20","pv_allocatable":"",
           "pv_missing":"","pv_tags":"","pv_mda_size":"1044480","pv_mda_free":"519168","pv_mda_used_count":"1"}],
    "lv":[{"lv_uuid":"L","lv_name":"v","lv_size":"41943040","lv_tags":"","lv_active":"active","lv_health_status":"",
           "sync_percent":"","raid_sync_action":""}],
    "pvseg":[{"pv_uuid":"P","pvseg_start":"0","pvseg_size":"10","segtype":"linear","lv_uuid":"L","seg_start_pe":"0"},
             {"pv_uuid":"P","pvseg_start":"10","pvseg_size":"4","segtype":"free","lv_uuid":"","seg_start_pe":"0"},
             {"pv_uuid":"P","pvseg_start":"14","pvseg_size":"6","segtype":"free","lv_uuid":"","seg_start_pe":"0"}],
    "seg":[{"lv_uuid":"L","segtype":"linear","seg_start_pe":"5","seg_size_pe":"5","data_stripes":"1","stripe_size":"0",
            "region_size":"0","seg_le_ranges":"/dev/disk/by-path/pci-0:1,2:5-9"},
           {"lv_uuid":"L","segtype":"linear","seg_start_pe":"0","seg_size_pe":"5","data_stripes":"1","stripe_size":"0",
            "region_size":"0","seg_le_ranges":"/dev/disk/by-path/pci-0:1,2:0-4"}]}]})");
}

TEST(ParseReportTest, ReadsWhatItIsGiven) {
  const auto parsed = ParseReport(Small().dump(2));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->name, "vg");
  EXPECT_EQ(parsed->seqno, 7U);
  EXPECT_EQ(parsed->extent_size, Bytes{4194304});
  EXPECT_THAT(parsed->tags, ElementsAre("a", "b"));
  const PhysicalVolume& pv = parsed->pvs[0];
  EXPECT_FALSE(pv.allocatable);
  EXPECT_EQ(pv.pe_start, kMiB);
  EXPECT_EQ(pv.metadata_free, Bytes{519168});
  EXPECT_THAT(pv.free, ElementsAre(ExtentRange{{10}, {10}}));
  const LogicalVolume& lv = parsed->lvs[0];
  EXPECT_TRUE(lv.active);
  EXPECT_FALSE(lv.sync_percent.has_value());
  ASSERT_THAT(lv.segments, SizeIs(2));
  EXPECT_EQ(lv.segments[0].logical.first, Extents{0});
  EXPECT_EQ(lv.segments[1].areas[0].pv_uuid, "P");
  EXPECT_EQ(lv.segments[1].areas[0].range, (ExtentRange{{5}, {5}}));
}

TEST(ParseReportTest, TellsMissingPvsApartByTheirOwnExtents) {
  nlohmann::json report = Small();
  nlohmann::json& sections = report["report"][0];
  sections["pv"][0]["pv_name"] = "[unknown]";
  sections["pv"][0]["pv_missing"] = "missing";
  sections["pv"][0]["pv_mda_used_count"] = "0";
  sections["pv"].push_back(sections["pv"][0]);
  sections["pv"][1]["pv_uuid"] = "Q";
  sections["pvseg"][0] = {{"pv_uuid", "Q"},      {"pvseg_start", "5"}, {"pvseg_size", "5"},
                          {"segtype", "linear"}, {"lv_uuid", "L"},     {"seg_start_pe", "5"}};
  sections["pvseg"].push_back({{"pv_uuid", "P"},
                               {"pvseg_start", "0"},
                               {"pvseg_size", "5"},
                               {"segtype", "linear"},
                               {"lv_uuid", "L"},
                               {"seg_start_pe", "0"}});
  sections["seg"][0]["seg_le_ranges"] = "[unknown]:5-9";
  sections["seg"][1]["seg_le_ranges"] = "[unknown]:0-4";
  const auto parsed = ParseReport(report.dump(2));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->lvs[0].segments[0].areas[0].pv_uuid, "P");
  EXPECT_EQ(parsed->lvs[0].segments[1].areas[0].pv_uuid, "Q");
  EXPECT_EQ(parsed->MissingPvs(), 2U);
  EXPECT_THAT(parsed->pvs[0].device, IsEmpty());
  EXPECT_EQ(parsed->pvs[0].metadata_size, Bytes{0});
}

// After a hidden LV, LVM 2.03.16 and 2.03.31 put all names of the segment in brackets.
TEST(ParseReportTest, ReadsBracketsAroundPvs) {
  nlohmann::json report = Small();
  nlohmann::json& sections = report["report"][0];
  sections["seg"][0]["seg_le_ranges"] = "[/dev/disk/by-path/pci-0:1,2]:5-9";
  auto parsed = ParseReport(report.dump(2));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->lvs[0].segments[1].areas[0].pv_uuid, "P");
  EXPECT_EQ(parsed->lvs[0].segments[1].areas[0].range, (ExtentRange{{5}, {5}}));
  sections["pv"][0]["pv_name"] = "[unknown]";
  sections["pv"][0]["pv_missing"] = "missing";
  sections["pvseg"][0]["pvseg_size"] = "5";
  sections["pvseg"].push_back({{"pv_uuid", "P"},
                               {"pvseg_start", "5"},
                               {"pvseg_size", "5"},
                               {"segtype", "linear"},
                               {"lv_uuid", "L"},
                               {"seg_start_pe", "5"}});
  sections["seg"][0]["seg_le_ranges"] = "[[unknown]]:5-9";
  sections["seg"][1]["seg_le_ranges"] = "[unknown]:0-4";
  parsed = ParseReport(report.dump(2));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  EXPECT_EQ(parsed->lvs[0].segments[1].areas[0].pv_uuid, "P");
}

TEST(ParseReportTest, SenselessValuesAreCorruptAndNamed) {
  struct Bend {
    const char* section;
    const char* field;
    const char* value;
    const char* named;
  };
  for (const Bend& bend :
       std::vector<Bend>{{"vg", "vg_seqno", "", "vg_seqno"},
                         {"vg", "vg_seqno", "7x", "vg_seqno"},
                         {"vg", "vg_free_count", "-1", "vg_free_count"},
                         {"vg", "vg_extent_size", "0", "vg_extent_size"},
                         {"vg", "vg_extent_size", "4.00m", "vg_extent_size"},
                         {"vg", "vg_exported", "maybe", "vg_exported"},
                         {"pv", "pv_uuid", "", "pv_uuid"},
                         {"pv", "pv_allocatable", "1", "pv_allocatable"},
                         {"lv", "lv_active", "remotely", "lv_active"},
                         {"lv", "sync_percent", "half", "sync_percent"},
                         {"lv", "lv_name", "[]", "name"},
                         {"pvseg", "pv_uuid", "X", "X"},
                         {"pvseg", "pvseg_size", "21", "beyond"},
                         {"pvseg", "pvseg_start", "18446744073709551615", "beyond"},
                         {"seg", "lv_uuid", "X", "X"},
                         {"seg", "seg_le_ranges", "/dev/sdx:0-4", "/dev/sdx"},
                         {"seg", "seg_le_ranges", "/dev/disk/by-path/pci-0:1,2:4-0", "seg_le_ranges"},
                         {"seg", "seg_le_ranges", "/dev/disk/by-path/pci-0:1,2", "seg_le_ranges"},
                         {"seg", "seg_le_ranges", ":0-4", "seg_le_ranges"},
                         {"seg", "seg_le_ranges", "a:0-99999999999", "seg_le_ranges"},
                         {"seg", "seg_le_ranges", "leg:0-4", "leg"},
                         {"seg", "seg_le_ranges", "[unknown]:0-4", "no PV"}}) {
    nlohmann::json report = Small();
    report["report"][0][bend.section][0][bend.field] = bend.value;
    const auto parsed = ParseReport(report.dump(2));
    ASSERT_FALSE(parsed.has_value()) << bend.field << "=" << bend.value;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr(bend.named));
  }
}

TEST(ParseReportTest, ContradictionsAreCorrupt) {
  for (const char* section : {"vg", "pv", "lv"}) {
    nlohmann::json report = Small();
    report["report"][0][section].push_back(report["report"][0][section][0]);
    EXPECT_FALSE(ParseReport(report.dump(2)).has_value()) << section;
  }
  nlohmann::json no_segment = Small();
  no_segment["report"][0]["seg"].clear();
  EXPECT_FALSE(ParseReport(no_segment.dump(2)).has_value());
  nlohmann::json two_groups = Small();
  two_groups["report"].push_back(two_groups["report"][0]);
  EXPECT_FALSE(ParseReport(two_groups.dump(2)).has_value());
  for (const char* text :
       {"", "{}", "[]", R"({"report":[]})", R"({"report":[7]})", R"({"report":{"vg":[]}})"}) {
    EXPECT_FALSE(ParseReport(text).has_value()) << text;
  }
}

// Bytes changed, pieces moved: the parser refuses, or its result is consistent (the fuzzer's own checks,
// which abort).
RC_GTEST_PROP(ParseReportProperty, SurvivesBentReports, ()) {
  static const std::vector<std::filesystem::path> reports = AllReports();
  std::string text = Load(reports[*rc::gen::inRange<size_t>(0, reports.size())]);
  const auto anywhere = [&] { return *rc::gen::inRange<size_t>(0, text.size()); };
  for (int bends = *rc::gen::inRange(1, 4); bends > 0; --bends) {
    const size_t at = anywhere();
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        text[at] = *rc::gen::element('0', '9', '"', ',', '{', '}', '[', ']', ':', '-', '\n', '\0', 'x');
        break;
      case 1:
        text.erase(at, *rc::gen::inRange<size_t>(1, 200));
        break;
      default:
        text.insert(at, text.substr(anywhere(), *rc::gen::inRange<size_t>(1, 200)));
        break;
    }
  }
  RC_ASSERT(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size()) == 0);
}

RC_GTEST_PROP(ParseReportProperty, SurvivesAnyBytes, (const std::string& text)) {
  RC_ASSERT(!ParseReport(text).has_value());
}

// The script that collected the fixtures reads this file.
TEST(ReportArgumentsTest, AreThoseOfTheFixtures) {
  std::string words;
  for (const std::string& word : ReportArguments("vg")) {
    words += word + "\n";
  }
  EXPECT_EQ(words, Load(kFixtures / "report_arguments") + "vg\n");
}

TEST(ReportArgumentsTest, EndWithTheGroupWhichIsNeverAnOption) {
  const std::vector<std::string> arguments = ReportArguments("-x");
  EXPECT_EQ(arguments.front(), "fullreport");
  EXPECT_EQ(arguments[arguments.size() - 2], "--");
  EXPECT_EQ(arguments.back(), "-x");
  EXPECT_EQ(std::ranges::count(arguments, "--configreport"), 5);
}

}  // namespace
}  // namespace quarry::lvm
