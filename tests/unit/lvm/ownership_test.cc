#include "lvm/ownership.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/read/report_parser.h"
#include "lvm/read/text_snapshot.h"

namespace quarry::lvm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(QUARRY_FIXTURES) / "lvm";

VolumeGroup Report(const fs::path& path) {
  std::ifstream in(kFixtures / path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  auto group = ParseReport(std::string(std::istreambuf_iterator<char>(in), {}));
  EXPECT_TRUE(group.has_value()) << group.error().message();
  return std::move(*group);
}

Result<std::vector<PhysicalRange>> Owned(const VolumeGroup& group, const std::string& name) {
  const LogicalVolume* lv = group.FindLv(name);
  return lv == nullptr ? Error(Code::kNotFound, name) : OwnedExtents(group, *lv);
}

std::vector<std::string> Sorted(const std::vector<PhysicalRange>& ranges) {
  std::vector<std::string> out;
  for (const PhysicalRange& range : ranges) {
    out.push_back(range.pv_uuid + ":" + std::to_string(range.range.first.value) + "+" +
                  std::to_string(range.range.count.value));
  }
  std::ranges::sort(out);
  return out;
}

// All saved LVM reports with unstacked volumes: the proven extents are the occupied ones.
TEST(OwnedExtents, EqualTheOccupiedExtentsForEveryType) {
  for (const char* release : {"texts/2.03.16", "texts/2.03.31"}) {
    for (const char* name :
         {"plain", "lost_plain", "lost_striped", "raid1", "lost_raid1", "raid4", "lost_raid4", "raid5",
          "lost_raid5", "raid5_syncing", "raid6", "lost_raid6", "raid10", "lost_raid10", "exported",
          "ask_returned", "ask_writemostly", "ask_raid0_meta"}) {
      const VolumeGroup group = Report(fs::path(release) / (std::string(name) + ".json"));
      size_t proven = 0;
      for (const LogicalVolume& lv : group.lvs) {
        if (lv.hidden) {
          EXPECT_FALSE(OwnedExtents(group, lv).has_value()) << release << " " << name << " " << lv.name;
          continue;
        }
        const auto owned = OwnedExtents(group, lv);
        ASSERT_TRUE(owned.has_value())
            << release << " " << name << " " << lv.name << ": " << owned.error().message();
        EXPECT_EQ(Sorted(*owned), Sorted(PhysicalExtents(group, lv)));
        EXPECT_FALSE(owned->empty());
        ++proven;
      }
      EXPECT_GT(proven, 0U);
    }
  }
}

struct Stacked {
  const char* report;
  const char* lv;
  Code code;
  std::vector<const char*> words;
};

class StackedVolumes : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Releases, StackedVolumes, ::testing::Values("2.03.16", "2.03.31"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// lvm2's reports of volumes that an administrator stacked something on, or moved.
TEST_P(StackedVolumes, AreRefusedNamingTheObstacleAndTheRemedy) {
  const fs::path folder = fs::path("stacked") / GetParam();
  for (const auto& [report, lv, code, words] : std::initializer_list<Stacked>{
           {"cow", "v", Code::kPrecondition, {"vg0/backup is a snapshot of it", "remove that first"}},
           {"cow", "r", Code::kPrecondition, {"vg0/nightly is a snapshot of it", "remove that first"}},
           {"cow_merging", "v", Code::kUnavailable, {"vg0/backup", "merged"}},
           {"cache", "v", Code::kPrecondition, {"cached by vg0/fast", "lvconvert --splitcache vg0/v"}},
           {"writecache",
            "v",
            Code::kPrecondition,
            {"cached by", "writecache", "lvconvert --splitcache vg0/v"}},
           {"thin_pool", "v", Code::kPrecondition, {"thin-pool", "vg0/his", "remove both"}},
           {"external_origin",
            "v",
            Code::kPrecondition,
            {"vg0/clone is a thin clone of it", "remove that first"}},
           {"cachevol", "v_cvol", Code::kPrecondition, {"hidden part of another"}},
           {"integrity", "r", Code::kPrecondition, {"dm-integrity", "lvconvert --raidintegrity n vg0/r"}},
           {"pvmove_disk", "v", Code::kUnavailable, {"is being moved off disk ", "vg0/pvmove0"}},
           {"pvmove_disk", "r", Code::kUnavailable, {"its leg vg0/r_r", "is being moved off disk "}},
           {"pvmove_disk", "his", Code::kUnavailable, {"is being moved"}},
           {"pvmove_named", "v", Code::kUnavailable, {"is being moved off disk "}},
           {"pvmove_leg", "r", Code::kUnavailable, {"its leg vg0/r_r", "is being moved off disk "}},
           {"pvmove_stripe", "v", Code::kUnavailable, {"is being moved off disk "}},
       }) {
    const VolumeGroup group = Report(folder / (std::string(report) + ".json"));
    const auto owned = Owned(group, lv);
    ASSERT_FALSE(owned.has_value()) << report << " " << lv;
    EXPECT_EQ(owned.error().code(), code) << report << " " << lv << ": " << owned.error().message();
    for (const char* word : words) {
      EXPECT_THAT(owned.error().message(), HasSubstr(word)) << report << " " << lv;
    }
  }
}

TEST_P(StackedVolumes, DoNotHinderTheirNeighbours) {
  const fs::path folder = fs::path("stacked") / GetParam();
  for (const auto& [report, lv] :
       std::initializer_list<std::pair<const char*, const char*>>{{"alone", "v"},
                                                                  {"alone", "r"},
                                                                  {"cachevol", "r"},
                                                                  {"cache", "r"},
                                                                  {"writecache", "r"},
                                                                  {"thin_pool", "r"},
                                                                  {"external_origin", "r"},
                                                                  {"integrity", "v"},
                                                                  {"pvmove_leg", "v"},
                                                                  {"pvmove_named", "r"},
                                                                  {"not_resizeable", "v"}}) {
    const VolumeGroup group = Report(folder / (std::string(report) + ".json"));
    const auto owned = Owned(group, lv);
    EXPECT_TRUE(owned.has_value()) << report << " " << lv << ": " << owned.error().message();
  }
}

TEST_P(StackedVolumes, GroupsSayTheirLimits) {
  const fs::path folder = fs::path("stacked") / GetParam();
  const VolumeGroup alone = Report(folder / "alone.json");
  EXPECT_EQ(alone.max_lvs, 7U);
  EXPECT_TRUE(alone.extendable);
  const VolumeGroup fixed = Report(folder / "not_resizeable.json");
  EXPECT_EQ(fixed.max_lvs, 0U);
  EXPECT_FALSE(fixed.extendable);
}

// Reports without the stacking fields: still refused.
TEST(OwnedExtents, AreRefusedWhereTheReportOnlyHints) {
  for (const char* release : {"texts/2.03.16", "texts/2.03.31"}) {
    for (const auto& [report, lv, code] : std::initializer_list<std::tuple<const char*, const char*, Code>>{
             {"snapshot", "one", Code::kPrecondition},
             {"snapshot", "early", Code::kPrecondition},
             {"ask_cache", "cached", Code::kPrecondition},
             {"thin_spare", "pool", Code::kPrecondition},
             {"thin_spare", "thin", Code::kPrecondition},
             {"ask_integrity", "v", Code::kPrecondition},
             {"ask_mirror", "v", Code::kUnsupported},
             {"ask_tracked", "v", Code::kPrecondition},
             {"ask_tracked", "v_rimage_1", Code::kPrecondition},
             {"ask_pvmove", "moved", Code::kUnavailable},
         }) {
      VolumeGroup group = Report(fs::path(release) / (std::string(report) + ".json"));
      for (LogicalVolume& one : group.lvs) {
        one.origin.clear();
        one.pool.clear();
      }
      const auto owned = Owned(group, lv);
      ASSERT_FALSE(owned.has_value()) << release << " " << report << " " << lv;
      EXPECT_EQ(owned.error().code(), code) << report << " " << lv << ": " << owned.error().message();
    }
  }
}

// Reports with snapshots and thin pools: no volume that shares extents is proven, and each that does not, is.
TEST(OwnedExtents, AreRefusedForPoolsThinVolumesOriginsAndSnapshots) {
  for (const char* release : {"texts/2.03.16", "texts/2.03.31"}) {
    for (const auto& [report, word] : std::initializer_list<std::pair<const char*, const char*>>{
             {"thin_raid1", "in thin pool vg0/p"},
             {"thin_grown", "in thin pool vg0/p"},
             {"thin_snapshot", "snapshot of it"},
             {"thin_spare", "it was made a thin-pool"},
             {"snapshots", "snapshot of it"},
             {"lost_snapshots_store", "snapshot of it"}}) {
      const VolumeGroup group = Report(fs::path(release) / (std::string(report) + ".json"));
      std::string messages;
      for (const LogicalVolume& lv : group.lvs) {
        const auto owned = OwnedExtents(group, lv);
        ASSERT_FALSE(owned.has_value()) << report << " " << lv.name;
        EXPECT_EQ(owned.error().code(), Code::kPrecondition) << lv.name << ": " << owned.error().message();
        messages += owned.error().message() + "\n";
      }
      EXPECT_THAT(messages, HasSubstr(word)) << report;
    }
  }
}

TEST(OwnedExtents, AreRefusedForTheMetadataOfAPool) {
  VolumeGroup group = Report("texts/2.03.31/thin_linear.json");
  LogicalVolume& metadata = *std::ranges::find(group.lvs, "p_tmeta", &LogicalVolume::name);
  metadata.hidden = false;
  metadata.independent = true;
  const auto owned = OwnedExtents(group, metadata);
  ASSERT_FALSE(owned.has_value());
  EXPECT_THAT(owned.error().message(), HasSubstr("metadata of thin pool vg0/p"));
  EXPECT_THAT(RemovesAlone(group, metadata).error().message(), HasSubstr("metadata of thin pool vg0/p"));
}

// A raid1 of Quarry's, a neighbor, and a text to modify. Each modification is a shape that LVM should never
// make.
class Bent : public ::testing::Test {
 protected:
  Bent() : group_(Report("texts/2.03.31/raid1.json")) {}
  LogicalVolume& Lv(std::string_view name) {
    return *std::ranges::find(group_.lvs, name, &LogicalVolume::name);
  }
  Code Refused() {
    const auto owned = Owned(group_, "v");
    EXPECT_FALSE(owned.has_value());
    return owned.has_value() ? Code::kInternal : owned.error().code();
  }
  VolumeGroup group_;
};

TEST_F(Bent, AtRestItIsProven) {
  EXPECT_TRUE(Owned(group_, "v").has_value());
}
TEST_F(Bent, ANeighbourOnTheSameExtentsIsRefused) {
  SegmentArea& area = Lv("one").segments.front().areas.front();
  const SegmentArea leg = Lv("v_rimage_1").segments.front().areas.front();
  area.pv_uuid = leg.pv_uuid;
  area.range.first = leg.range.end() - Extents{1};
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, TwoLegsOnTheSameExtentsAreRefused) {
  Lv("v_rimage_1").segments.front().areas = Lv("v_rimage_0").segments.front().areas;
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, ExtentsThatAreFreeAreRefused) {
  const SegmentArea leg = Lv("v_rimage_1").segments.front().areas.front();
  for (PhysicalVolume& pv : group_.pvs) {
    if (pv.uuid == leg.pv_uuid) {
      pv.free.push_back({leg.range.first, {1}});
    }
  }
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, ExtentsBeyondADiskAreRefused) {
  for (PhysicalVolume& pv : group_.pvs) {
    pv.extent_count = {12};
    pv.free.clear();
  }
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, ALegThatAnotherVolumeNamesIsRefused) {
  Lv("one").segments.front().areas = {{"", "v_rimage_0", {{0}, {10}}}};
  EXPECT_EQ(Refused(), Code::kPrecondition);
}
TEST_F(Bent, AForeignLegIsRefused) {
  for (SegmentArea& area : Lv("v").segments.front().areas) {
    if (area.lv_name == "v_rimage_1") {
      area.lv_name = "w_rimage_1";
    }
  }
  Lv("v_rimage_1").name = "w_rimage_1";
  Lv("v_rmeta_1").name = "w_rmeta_1";
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, ALegWithoutItsMetadataIsRefused) {
  Lv("v_rmeta_1").name = "lost";
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, ALegThatIsNotEntirelyTheVolumesIsRefused) {
  Lv("v").segments.front().areas.front().range.count = {3};
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, ALostLegHasNoExtentsAndTheOthersAreProven) {
  for (const char* name : {"v_rimage_1", "v_rmeta_1"}) {
    LogicalVolume& leg = Lv(name);
    leg.segments = {{.type = "error", .logical = {{0}, {leg.size.value / group_.extent_size.value}}}};
  }
  const auto owned = Owned(group_, "v");
  ASSERT_TRUE(owned.has_value()) << owned.error().message();
  EXPECT_EQ(Sorted(*owned), Sorted(PhysicalExtents(group_, Lv("v"))));
}
TEST_F(Bent, ASegmentOfAnUnknownTypeIsRefused) {
  Lv("v").segments.front().type = "novelty";
  EXPECT_EQ(Refused(), Code::kUnsupported);
}
TEST_F(Bent, AVolumeWithoutSegmentsOwnsNothing) {
  Lv("v").segments.clear();
  EXPECT_EQ(Refused(), Code::kUnsupported);
}

}  // namespace
}  // namespace quarry::lvm
