#include "lvm/read/text_snapshot.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/names.h"
#include "lvm/read/report_parser.h"
#include "tests/unit/lvm/text_agreement.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quarry::lvm {
namespace {

using testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(QUARRY_FIXTURES) / "lvm/texts";

std::string Load(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> Texts() {
  std::vector<fs::path> out;
  for (const char* release : {"2.03.16", "2.03.31"}) {
    for (const auto& entry : fs::directory_iterator(kFixtures / release)) {
      if (entry.path().extension() == ".text") {
        out.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(out);
  return out;
}

// A text written by lvm2, and lvm2's report on it.
struct Case {
  explicit Case(const fs::path& path) : text(Load(path)) {
    auto parsed = ParseReport(Load(fs::path(path).replace_extension(".json")));
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message();
    report = parsed->MetadataOnly();
    for (const PhysicalVolume& pv : report.pvs) {
      pvs.push_back({pv.uuid, pv.device, pv.metadata_size});
    }
  }
  Result<VolumeGroup> Read() const { return SnapshotFromText(text, pvs); }
  Result<VolumeGroup> ReadAs(std::string_view from, std::string_view to) const {
    std::string bent = text;
    const size_t at = bent.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    bent.replace(at, from.size(), to);
    return SnapshotFromText(bent, pvs);
  }
  std::string text;
  VolumeGroup report;
  std::vector<TextPv> pvs;
};

class EveryText : public ::testing::TestWithParam<fs::path> {};
INSTANTIATE_TEST_SUITE_P(Fixtures, EveryText, ::testing::ValuesIn(Texts()), [](const auto& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST_P(EveryText, EqualsLvmsReportOrAsksLvm) {
  const Case fixture(GetParam());
  auto group = fixture.Read();
  if (GetParam().stem().string().starts_with("ask_")) {
    ASSERT_FALSE(group.has_value()) << AllOf(*group);
    EXPECT_EQ(group.error().code(), Code::kUnsupported) << group.error().message();
    return;
  }
  ASSERT_TRUE(group.has_value()) << group.error().message();
  EXPECT_EQ(AllOf(*group), AllOf(fixture.report));
  for (LogicalVolume& lv : group->lvs) {
    for (Segment& segment : lv.segments) {
      if (segment.thin_pool.has_value()) {
        segment.thin_pool->queued_deletes.clear();  // no report shows them
        segment.thin_pool->has_messages = std::nullopt;
      }
    }
  }
  EXPECT_TRUE(*group == fixture.report);
}

// Nothing is written below LVM, and no disk is given away, without PhysicalExtents().
TEST_P(EveryText, EachUsedExtentBelongsToOneVolumeOrTheSpare) {
  const auto group = Case(GetParam()).Read();
  if (!group.has_value()) {
    return;  // LVM is asked
  }
  std::vector<PhysicalRange> used;
  for (const LogicalVolume& lv : group->lvs) {
    if (!lv.hidden || IsPoolSpareName(lv.name)) {
      std::ranges::move(PhysicalExtents(*group, lv), std::back_inserter(used));
    }
  }
  std::ranges::sort(used);
  Extents sum;
  for (size_t i = 0; i < used.size(); ++i) {
    sum += used[i].range.count;
    EXPECT_TRUE(i == 0 || used[i - 1].pv_uuid != used[i].pv_uuid ||
                used[i - 1].range.end() <= used[i].range.first);
  }
  EXPECT_EQ(sum, group->extent_count - group->free_count);
}

// One more word anywhere is not understood, so it is not ignored.
TEST_P(EveryText, WithAnUnknownWordAsksLvm) {
  const Case fixture(GetParam());
  for (size_t at = fixture.text.find('\n'); at != std::string::npos; at = fixture.text.find('\n', at + 1)) {
    for (const char* more : {"\nnews = 1\n", "\nnews { id = 1 }\n", "\nnews = [\"A\"]\n"}) {
      std::string bent = fixture.text;
      bent.insert(at, more);
      const auto group = SnapshotFromText(bent, fixture.pvs);
      ASSERT_FALSE(group.has_value()) << "after byte " << at;
    }
  }
}

// Nothing is assumed either: with one line removed, the result is the same group, or "ask LVM".
TEST_P(EveryText, WithoutALineIsNeverAnotherGroup) {
  const Case fixture(GetParam());
  const auto whole = fixture.Read();
  for (size_t at = 0; at < fixture.text.size();) {
    const size_t end = std::min(fixture.text.find('\n', at), fixture.text.size() - 1) + 1;
    const std::string line = fixture.text.substr(at, end - at);
    std::string bent = fixture.text;
    bent.replace(at, end - at, std::string(line.size() - 1, ' ') + "\n");
    const auto group = SnapshotFromText(bent, fixture.pvs);
    // These lines are absent where there are no tags, no limit, no zeroing and no origin. An external origin
    // is a reason to ask LVM by itself.
    const bool optional = line.starts_with("tags = ") || line.starts_with("max_recovery_rate = ") ||
                          line.starts_with("zero_new_blocks = ") || line.starts_with("origin = ") ||
                          line.starts_with("external_origin = ");
    if (group.has_value() && !optional) {
      ASSERT_TRUE(whole.has_value()) << line;
      EXPECT_EQ(AllOf(*group), AllOf(*whole)) << line;
    }
    at = end;
  }
}

TEST_P(EveryText, MutationsAddUpOrAreRefused) {
  const Case fixture(GetParam());
  std::mt19937 random(815);  // NOLINT(cert-msc51-cpp): the same mutations each time
  for (int round = 0; round < 300; ++round) {
    std::string bent = fixture.text;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % bent.size();
      switch (random() % 4) {
        case 0:
          bent[at] = static_cast<char>(random());
          break;
        case 1:
          bent[at] = static_cast<char>('0' + random() % 10);
          break;
        case 2:
          bent.erase(at, random() % 60);
          break;
        default:
          bent.insert(at, bent.substr(random() % bent.size(), random() % 60));
      }
      bent += bent.empty() ? "x" : "";
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bent.data()), bent.size());
  }
}

class Text : public ::testing::Test {
 protected:
  void ExpectAsks(std::string_view from, std::string_view to) { ExpectAsks(plain_, from, to); }
  void ExpectAsks(const Case& fixture, std::string_view from, std::string_view to) {
    const auto group = fixture.ReadAs(from, to);
    ASSERT_FALSE(group.has_value()) << from << " as " << to;
    EXPECT_EQ(group.error().code(), Code::kUnsupported) << group.error().message();
  }
  Case plain_{kFixtures / "2.03.31/plain.text"};
  Case raid_{kFixtures / "2.03.31/raid5.text"};
  Case thin_{kFixtures / "2.03.31/thin_grown.text"};
  Case queued_{kFixtures / "2.03.31/thin_queued.text"};
  Case snapshots_{kFixtures / "2.03.31/snapshots.text"};
};

TEST_F(Text, OfASharedLockedOrForeignGroupAsksLvm) {
  ExpectAsks("format = \"lvm2\"", "format = \"lvm1\"");
  ExpectAsks("format = \"lvm2\"", "format = \"lvm2\"\nsystem_id = \"other\"");
  ExpectAsks("format = \"lvm2\"", "format = \"lvm2\"\nlock_type = \"sanlock\"");
  ExpectAsks("\"RESIZEABLE\", \"READ\", \"WRITE\"", "\"RESIZEABLE\", \"READ\", \"WRITE_LOCKED\"");
  ExpectAsks("\"RESIZEABLE\", \"READ\", \"WRITE\"", "\"RESIZEABLE\", \"READ\", \"WRITE\", \"CLUSTERED\"");
  ExpectAsks("version = 1", "version = 2");
  ExpectAsks("Text Format Volume Group", "Text Format Something");
}

TEST_F(Text, OfMovingVolumesAsksLvm) {
  for (const char* flag : {"LOCKED", "PVMOVE", "PARTIAL", "REBUILD", "WRITEMOSTLY"}) {
    ExpectAsks("[\"READ\", \"WRITE\", \"VISIBLE\"]",
               std::string("[\"READ\", \"WRITE\", \"VISIBLE\", \"") + flag + "\"]");
  }
  ExpectAsks("flags = [\"ACTIVATION_SKIP\"]", "flags = [\"HISTORICAL\"]");
}

TEST_F(Text, ThatIsInconsistentAsksLvm) {
  ExpectAsks("\"pv0\", 0", "\"pv9\", 0");
  ExpectAsks("\"pv0\", 0", "\"pv0\", 250");        // beyond the PV
  ExpectAsks("\"pv0\", 0", "\"pv0\", 536870912");  // beyond any plausible number
  ExpectAsks("\"pv0\", 0", "\"pv0\", 0, \"pv1\", 0");
  ExpectAsks("\"pv1\", 20", "\"pv0\", 5");  // used twice
  ExpectAsks("start_extent = 10", "start_extent = 11");
  ExpectAsks("segment_count = 2", "segment_count = 3");
  ExpectAsks("stripe_count = 2", "stripe_count = 3");
  ExpectAsks("extent_size = 8192", "extent_size = 0");
  ExpectAsks("extent_size = 8192", "extent_size = 4000000000");
  ExpectAsks("plain_rimage_0\",", "plain_rimage_9\",");
  ExpectAsks("stripes {", "plain {");
  EXPECT_FALSE(raid_.ReadAs("\"v_rmeta_0\", \"v_rimage_0\"", "\"v_rmeta_1\", \"v_rimage_0\"").has_value());
  EXPECT_FALSE(raid_.ReadAs("\"v_rmeta_1\", \"v_rimage_1\"", "\"v_rmeta_0\", \"v_rimage_0\"").has_value());
  EXPECT_FALSE(raid_.ReadAs("device_count = 3", "device_count = 2").has_value());
  EXPECT_FALSE(raid_.ReadAs("device_count = 3", "device_count = 1").has_value());
}

TEST_F(Text, OfInconsistentSnapshotsAsksLvm) {
  ExpectAsks(snapshots_, "cow_store = \"early\"", "merging_store = \"early\"");
  ExpectAsks(snapshots_, "cow_store = \"early\"", "cow_store = \"nosuch\"");
  ExpectAsks(snapshots_, "cow_store = \"early\"", "cow_store = \"late\"");    // two snapshots in one store
  ExpectAsks(snapshots_, "cow_store = \"early\"", "cow_store = \"mirror\"");  // visible
  ExpectAsks(snapshots_, "cow_store = \"early\"", "cow_store = \"mirror_rimage_0\"");
  ExpectAsks(snapshots_, "origin = \"stripes\"", "origin = \"nosuch\"");
  ExpectAsks(snapshots_, "origin = \"stripes\"", "origin = \"early\"");  // of a snapshot
  ExpectAsks(snapshots_, "origin = \"stripes\"", "origin = \"of_stripes\"");
  ExpectAsks(snapshots_, "origin = \"stripes\"", "origin = \"mirror_rimage_0\"");
}

TEST_F(Text, OfInconsistentThinPoolsAsksLvm) {
  ExpectAsks(thin_, "metadata = \"p_tmeta\"", "metadata = \"p_tdata\"");
  ExpectAsks(thin_, "metadata = \"p_tmeta\"", "metadata = \"other\"");
  ExpectAsks(thin_, "pool = \"p_tdata\"", "pool = \"nosuch\"");
  ExpectAsks(thin_, "extent_count = 16", "extent_count = 17");  // not the length of the data
  ExpectAsks(thin_, "discards = \"nopassdown\"", "discards = \"sometimes\"");
  ExpectAsks(thin_, "chunk_size = 256", "chunk_size = 256\nzero_new_blocks = 2");
  ExpectAsks(thin_, "chunk_size = 256", "chunk_size = 256\nlow_water_mark = 2");
  ExpectAsks(thin_, "thin_pool = \"p\"", "thin_pool = \"nosuch\"");
  ExpectAsks(thin_, "thin_pool = \"p\"", "thin_pool = \"p_tdata\"");
  ExpectAsks(thin_, "device_id = 2", "device_id = 16777216");
  ExpectAsks(thin_, "origin = \"s\"", "origin = \"s_of_s\"");
  ExpectAsks(thin_, "origin = \"s\"", "origin = \"p\"");
  ExpectAsks(thin_, "origin = \"s\"", "external_origin = \"s\"");
  ExpectAsks(thin_, "origin = \"s\"", "origin = \"s\"\nmerge = \"s\"");
}

TEST_F(Text, SaysWhatLvmHasStillToDelete) {
  for (const char* const release : {"2.03.16", "2.03.31"}) {
    const auto deletes = [&](const char* name) {
      const auto group = Case(kFixtures / release / name).Read();
      EXPECT_TRUE(group.has_value()) << name;
      return group->FindLv("p")->segments.front().thin_pool->queued_deletes;
    };
    EXPECT_THAT(deletes("thin_queued_delete.text"), ::testing::ElementsAre(3U)) << release;
    EXPECT_THAT(deletes("thin_queued.text"), ::testing::IsEmpty()) << release;
    const auto has_messages = [&](const char* name) {
      return Case(kFixtures / release / name)
          .Read()
          ->FindLv("p")
          ->segments.front()
          .thin_pool->has_messages.value();
    };
    EXPECT_TRUE(has_messages("thin_queued_delete.text")) << release;
    EXPECT_TRUE(has_messages("thin_queued.text")) << release;
    EXPECT_FALSE(has_messages("thin_linear.text")) << release;
  }
}

TEST_F(Text, OfUnknownMessagesAsksLvm) {
  ExpectAsks(queued_, "create = \"queued\"", "trim = 3");
  ExpectAsks(queued_, "create = \"queued\"", "delete = 16777216");
  ExpectAsks(queued_, "create = \"queued\"", "create = \"queued\"\ndelete = 3");
  ExpectAsks(queued_, "create = \"queued\"", "create = \"queued\"\nmore {\nx = 1\n}\n");
  ExpectAsks(queued_, "message1 {", "massage1 {");
}

TEST_F(Text, ASecondSpareForPoolMetadataAsksLvm) {
  const Case spare(kFixtures / "2.03.31/thin_spare.text");
  ExpectAsks(spare, "lvol0_pmspare {", "lvol0_nospare {");
  const size_t begin = spare.text.find("lvol0_pmspare {");
  std::string second = spare.text.substr(begin, spare.text.find("\n}\n}\n", begin) + 6 - begin);
  EXPECT_TRUE(spare.Read().has_value());
  second.replace(second.find("lvol0"), 5, "lvol1");
  second.replace(second.find("\"pv0\", 0"), 8, "\"pv3\", 0");
  EXPECT_THAT(spare.ReadAs("lvol0_pmspare {", second + "lvol0_pmspare {").error().message(),
              HasSubstr("part of no volume"));
}

TEST_F(Text, OfOtherPvsAsksLvm) {
  std::vector<TextPv> pvs = plain_.pvs;
  std::swap(pvs[0], pvs[3]);
  const auto in_other_order = SnapshotFromText(plain_.text, pvs);
  ASSERT_TRUE(in_other_order.has_value());
  EXPECT_EQ(in_other_order->pvs[0].uuid, plain_.pvs[3].uuid);
  pvs.push_back({"a new one", "/dev/x", kMiB});
  EXPECT_THAT(SnapshotFromText(plain_.text, pvs).error().message(), HasSubstr("left"));
  pvs.resize(5);
  EXPECT_THAT(SnapshotFromText(plain_.text, pvs).error().message(), HasSubstr("new"));
}

TEST_F(Text, WhatLiesOnALostPvIsPartial) {
  raid_.pvs[1] = {raid_.pvs[1].uuid, "", {0}};
  const auto group = raid_.Read();
  ASSERT_TRUE(group.has_value()) << group.error().message();
  EXPECT_EQ(group->MissingPvs(), 1U);
  EXPECT_TRUE(group->pvs[1].missing);
  EXPECT_EQ(group->pvs[1].metadata_free, Bytes{0});
  for (const LogicalVolume& lv : group->lvs) {
    const bool leg = lv.name.ends_with("_1") || lv.name == "v";
    EXPECT_EQ(lv.partial, leg || lv.name == "one") << lv.name;
  }
}

TEST_F(Text, AThinPoolIsOneLegWithItsMetadata) {
  const auto group = Case(kFixtures / "2.03.31/lost_thin_grown.text").Read();  // a piece of p_tmeta is lost
  ASSERT_TRUE(group.has_value()) << group.error().message();
  const LogicalVolume& pool = *group->FindLv("p");
  EXPECT_THAT(LostLegs(*group, pool), ::testing::ElementsAre(true));
  EXPECT_THAT(LegPvs(*group, pool), ::testing::ElementsAre(::testing::SizeIs(4)));
  EXPECT_EQ(SharedPv(*group, pool), std::nullopt);
  for (const char* volume : {"s", "s_of_s", "other"}) {
    EXPECT_THAT(PhysicalExtents(*group, *group->FindLv(volume)), ::testing::IsEmpty());
    EXPECT_THAT(LegPvs(*group, *group->FindLv(volume)), ::testing::IsEmpty());
    EXPECT_TRUE(group->FindLv(volume)->partial);
  }
}

TEST_F(Text, MetadataThatFillsItsAreaLeavesNothing) {
  plain_.pvs[0].metadata_size = {512 + 2 * plain_.text.size()};
  plain_.pvs[1].metadata_size = {0};
  const auto group = plain_.Read();
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->pvs[0].metadata_free.value, 0U);
  EXPECT_EQ(group->pvs[1].metadata_free.value, 0U);
}

}  // namespace
}  // namespace quarry::lvm
