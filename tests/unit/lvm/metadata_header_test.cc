#include "lvm/fresh/metadata_header.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using Block = std::vector<std::byte>;

Block ReadBytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <typename Number>
void Put(Block& block, size_t at, Number value) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    block[at + i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
  }
}

// Recomputes the checksums after a change.
void SealLabel(Block& front, size_t sector = 1) {
  Put(front, sector * 512 + 16, Checksum(std::span(front).subspan(sector * 512 + 20, 492)));
}
void SealHeader(Block& front, size_t at = 4096) {
  Put(front, at, Checksum(std::span(front).subspan(at + 4, 508)));
}

// Disks written by lvm2 in the states of tests/fixtures/lvm/headers/collect, by lvm2 release.
class Written : public testing::TestWithParam<const char*> {
 protected:
  fs::path Case(const std::string& name) const {
    return fs::path(QUARRY_FIXTURES) / "lvm/headers" / GetParam() / name;
  }
  Block Front(const std::string& name, int disk) const {
    return ReadBytes(Case(name) / (std::to_string(disk) + ".front"));
  }
  MetadataHeader Header(const std::string& name, int disk) const {
    const Block front = Front(name, disk);
    const PvLabel label = *ParseLabel(front);
    return *ParseMetadataHeader(std::span(front).subspan(label.metadata_areas.at(0).offset),
                                label.metadata_areas.at(0));
  }
  uint32_t TextChecksum(const std::string& name, int disk) const {
    return Checksum(ReadBytes(Case(name) / (std::to_string(disk) + ".text")));
  }
  // lvm2's own report on the disk.
  std::map<std::string, std::string> Report(const std::string& name, int disk) const {
    std::ifstream in(Case(name) / "report.json");
    const auto report = nlohmann::json::parse(in);
    for (const auto& row : report["report"][0]["pv"]) {
      if (row["pv_name"] == std::to_string(disk)) {
        return row.get<std::map<std::string, std::string>>();
      }
    }
    ADD_FAILURE() << "no disk " << disk << " in " << name;
    return {};
  }
};

TEST_P(Written, LabelSaysWhatLvmReports) {
  for (const auto& entry : fs::directory_iterator(Case(""))) {
    if (!entry.is_directory()) {
      continue;
    }
    const std::string name = entry.path().filename();
    for (const int disk : {1, 2}) {
      auto report = Report(name, disk);
      const auto label = ParseLabel(Front(name, disk));
      ASSERT_TRUE(label.has_value()) << name << ": " << label.error().message();
      EXPECT_EQ(label->uuid, report["pv_uuid"]) << name;
      EXPECT_EQ(label->device_size, std::stoull(report["dev_size"])) << name;
      EXPECT_EQ(label->metadata_areas.size(), std::stoull(report["pv_mda_count"])) << name;
      ASSERT_EQ(label->data_areas.size(), 1U) << name;
      EXPECT_EQ(label->data_areas[0].offset, std::stoull(report["pe_start"])) << name;
      EXPECT_EQ(label->in_group, !report["vg_name"].empty()) << name;
    }
  }
}

TEST_P(Written, CommittedLocationIsThatOfTheText) {
  size_t texts = 0;
  for (const auto& entry : fs::directory_iterator(Case(""))) {
    for (const int disk : {1, 2}) {
      const std::string name = entry.path().filename();
      if (!fs::exists(Case(name) / (std::to_string(disk) + ".text"))) {
        continue;
      }
      const auto committed = Header(name, disk).committed;
      ASSERT_TRUE(committed.has_value()) << name;
      EXPECT_EQ(committed->checksum, TextChecksum(name, disk)) << name;
      EXPECT_EQ(committed->size, fs::file_size(Case(name) / (std::to_string(disk) + ".text"))) << name;
      ++texts;
    }
  }
  EXPECT_GT(texts, 15U);
}

TEST_P(Written, PvWithoutGroupHasNothingCommitted) {
  for (const char* name : {"orphans", "removed"}) {
    for (const int disk : {1, 2}) {
      EXPECT_EQ(Header(name, disk), MetadataHeader{}) << name;
    }
  }
}

TEST_P(Written, EveryCommitChangesTheHeaderOnEveryDisk) {
  const std::vector<std::string> history = {"orphans", "group",    "changed", "whole",
                                            "ignored", "exported", "renamed", "removed"};
  for (size_t i = 1; i < history.size(); ++i) {
    for (const int disk : {1, 2}) {
      EXPECT_NE(Header(history[i - 1], disk), Header(history[i], disk)) << history[i];
    }
  }
}

TEST_P(Written, PrecommitLeavesTheCommittedLocationAlone) {
  const auto before = Header("changed", 1).committed;
  for (const char* name : {"half_precommitted", "precommitted"}) {
    EXPECT_EQ(Header(name, 1).committed, before) << name;
    EXPECT_EQ(Header(name, 2).committed, Header("changed", 2).committed) << name;
    EXPECT_TRUE(Header(name, 1).precommitted.has_value()) << name;
    EXPECT_NE(Header(name, 1).precommitted, before) << name;
  }
  EXPECT_FALSE(Header("half_precommitted", 2).precommitted.has_value());
  EXPECT_TRUE(Header("precommitted", 2).precommitted.has_value());
}

TEST_P(Written, HalfACommitShowsOnTheDiskThatHasIt) {
  EXPECT_NE(Header("half_committed", 1).committed, Header("precommitted", 1).committed);
  EXPECT_FALSE(Header("half_committed", 1).precommitted.has_value());
  EXPECT_EQ(Header("half_committed", 2).committed, Header("precommitted", 2).committed);
  // LVM's own view of this state: the newer one counts.
  EXPECT_GT(std::stoi(Report("half_committed", 1)["vg_seqno"]),
            std::stoi(Report("precommitted", 1)["vg_seqno"]));
}

TEST_P(Written, IgnoredAreaIsToldFromAreaInUse) {
  for (const int disk : {1, 2}) {
    EXPECT_EQ(Header("ignored", disk).ignored, Report("ignored", disk)["pv_mda_used_count"] == "0");
    EXPECT_FALSE(Header("whole", disk).ignored);
  }
  EXPECT_NE(Header("ignored", 1).ignored, Header("ignored", 2).ignored);
}

TEST_P(Written, SecondAreaAtTheEndHoldsTheSameText) {
  const PvLabel label = *ParseLabel(Front("two_and_none", 1));
  ASSERT_EQ(label.metadata_areas.size(), 2U);
  const DiskArea area = label.metadata_areas[1];
  const uint64_t at = area.offset - area.offset % 4096;
  const Block block = ReadBytes(Case("two_and_none") / ("1." + std::to_string(at)));
  const auto second = ParseMetadataHeader(std::span(block).subspan(area.offset - at), area);
  ASSERT_TRUE(second.has_value()) << second.error().message();
  const auto first = Header("two_and_none", 1);
  ASSERT_TRUE(second->committed.has_value());
  EXPECT_EQ(second->committed->checksum, first.committed->checksum);
  EXPECT_EQ(second->committed->size, first.committed->size);
  EXPECT_TRUE(ParseLabel(Front("two_and_none", 2))->metadata_areas.empty());
}

TEST_P(Written, LabelIsFoundInEverySectorItMayBeIn) {
  EXPECT_TRUE(ParseLabel(Front("elsewhere", 1)).has_value());
  EXPECT_TRUE(ParseLabel(Front("elsewhere", 2)).has_value());
  const auto begins = [](const Block& front, size_t at) { return front[at] == std::byte{'L'}; };
  EXPECT_TRUE(begins(Front("elsewhere", 1), 3 * 512));
  EXPECT_TRUE(begins(Front("elsewhere", 2), 0));
}

TEST_P(Written, WrappedTextIsTwoPieces) {
  const Block front = Front("wrapped", 1);
  const DiskArea area = ParseLabel(front)->metadata_areas[0];
  const RawLocation location = *Header("wrapped", 1).committed;
  const auto pieces = TextPieces(area, location);
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].offset + pieces[0].size, area.offset + area.size);
  EXPECT_EQ(pieces[1].offset, area.offset + 512);
  EXPECT_EQ(pieces[0].size + pieces[1].size, location.size);
  EXPECT_EQ(TextPieces(area, *Header("group", 1).committed).size(), 1U);
}

// Torn, stale and foreign content: what was real with one thing wrong.
// wipefs(8) clears the eight bytes by which libblkid knows a PV. LVM sees none there any more, nor do we.
TEST_P(Written, AWipedLabelIsNotFound) {
  auto front = Front("elsewhere", 1);
  for (size_t sector = 0; sector < kLabelSectors; ++sector) {
    std::fill_n(front.begin() + static_cast<std::ptrdiff_t>(sector * kSectorSize + 24), 8, std::byte{0});
  }
  EXPECT_EQ(ParseLabel(front).error().code(), Code::kNotFound);
}

TEST_P(Written, EveryFlippedBitOfLabelAndHeaderIsNoticed) {
  const Block good = Front("changed", 1);
  const PvLabel label = *ParseLabel(good);
  for (size_t bit = 0; bit < 512 * 8; ++bit) {
    Block bad = good;
    bad[512 + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(ParseLabel(bad).has_value()) << bit;
    bad = good;
    bad[4096 + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(ParseMetadataHeader(std::span(bad).subspan(4096), label.metadata_areas[0]).has_value())
        << bit;
  }
}

TEST_P(Written, HeaderTornBetweenTwoCommitsIsRefused) {
  const Block older = Front("group", 1);
  const Block newer = Front("changed", 1);
  const DiskArea area = ParseLabel(newer)->metadata_areas[0];
  for (size_t cut = 1; cut < 64; ++cut) {
    Block torn(newer.begin() + 4096, newer.begin() + 4608);
    std::copy(older.begin() + 4096 + static_cast<long>(cut), older.begin() + 4608,
              torn.begin() + static_cast<long>(cut));
    const bool whole = std::equal(torn.begin(), torn.end(), newer.begin() + 4096) ||
                       std::equal(torn.begin(), torn.end(), older.begin() + 4096);
    EXPECT_EQ(ParseMetadataHeader(torn, area).has_value(), whole) << cut;
  }
}

TEST_P(Written, HeaderOfAnotherAreaIsForeign) {
  const Block front = Front("changed", 1);
  const DiskArea area = ParseLabel(front)->metadata_areas[0];
  for (const DiskArea other :
       {DiskArea{area.offset + 512, area.size}, DiskArea{area.offset, area.size / 2}}) {
    const auto header = ParseMetadataHeader(std::span(front).subspan(4096), other);
    ASSERT_FALSE(header.has_value());
    EXPECT_EQ(header.error().code(), Code::kCorrupt);
    EXPECT_THAT(header.error().message(), HasSubstr("the label says"));
  }
}

TEST_P(Written, MutationsNeverBreakTheParser) {
  std::mt19937_64 random(4);
  for (const char* name : {"orphans", "changed", "precommitted", "two_and_none", "elsewhere", "wrapped"}) {
    const Block good = Front(name, 1);
    for (int round = 0; round < 3000; ++round) {
      Block bad = good;
      const size_t changes = 1 + random() % 6;
      for (size_t i = 0; i < changes; ++i) {
        // Most of a front is empty, so aim at label and header.
        const size_t at = (random() % 2 == 0 ? 512 : 4096) + random() % 128;
        switch (random() % 3) {
          case 0:
            bad[at] = static_cast<std::byte>(random());
            break;
          case 1:
            Put(bad, at, random());
            break;
          default:
            Put(bad, at, ~uint64_t{0} << random() % 64);
        }
      }
      if (random() % 4 != 0) {
        SealLabel(bad);
        SealHeader(bad);
      }
      bad.resize(random() % 8 == 0 ? random() % bad.size() : bad.size());
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bad.data()), bad.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Releases, Written, testing::Values("2.03.16", "2.03.31"), [](const auto& release) {
  std::string name = release.param;
  std::erase(name, '.');
  return "lvm" + name;
});

// A front to modify: label in sector 1, one area.
class Bent : public testing::Test {
 protected:
  Block front_ = ReadBytes(fs::path(QUARRY_FIXTURES) / "lvm/headers/2.03.16/changed/1.front");
  DiskArea area_ = ParseLabel(front_)->metadata_areas[0];

  std::string LabelFailure() {
    SealLabel(front_);
    const auto label = ParseLabel(front_);
    EXPECT_FALSE(label.has_value());
    EXPECT_EQ(label.error().code(), Code::kCorrupt);
    return label.error().message();
  }
  std::string HeaderFailure() {
    SealHeader(front_);
    const auto header = ParseMetadataHeader(std::span(front_).subspan(4096), area_);
    EXPECT_FALSE(header.has_value());
    return header.error().message();
  }
};

constexpr size_t kUuidAt = 512 + 32;
constexpr size_t kDataAreasAt = kUuidAt + 40;
constexpr size_t kMetadataAreasAt = kDataAreasAt + 32;

TEST_F(Bent, BlankFrontHasNoLabel) {
  for (const size_t size : {0, 1, 511, 512, 2048, 8192}) {
    const auto label = ParseLabel(Block(size));
    ASSERT_FALSE(label.has_value());
    EXPECT_EQ(label.error().code(), Code::kNotFound);
  }
}

TEST_F(Bent, LabelCutShortIsNoLabel) {
  EXPECT_EQ(ParseLabel(std::span(front_).first(1023)).error().code(), Code::kNotFound);
  EXPECT_TRUE(ParseLabel(std::span(front_).first(1024)).has_value());
}

TEST_F(Bent, LabelCopiedToAnotherSectorIsStale) {
  Block moved(8192);
  std::copy_n(front_.begin() + 512, 512, moved.begin() + 1024);
  const auto label = ParseLabel(moved);
  ASSERT_FALSE(label.has_value());
  EXPECT_THAT(label.error().message(), HasSubstr("says it is in sector 1"));
}

TEST_F(Bent, SecondLabelIsTakenIfTheFirstIsBroken) {
  Block two = front_;
  std::copy_n(front_.begin() + 512, 512, two.begin() + 1024);
  Put(two, 1024 + 8, uint64_t{2});
  SealLabel(two, 2);
  two[600] ^= std::byte{1};
  EXPECT_EQ(ParseLabel(two)->uuid, ParseLabel(front_)->uuid);
}

TEST_F(Bent, TypeOfAnotherFormatIsRefused) {
  front_[512 + 24] = std::byte{'X'};
  EXPECT_THAT(LabelFailure(), HasSubstr("another type"));
}

TEST_F(Bent, PvHeaderMustLieBehindTheLabelAndInItsSector) {
  for (const uint32_t offset : {0U, 31U, 490U, 511U, 512U, 4096U, ~0U}) {
    Put(front_, 512 + 20, offset);
    LabelFailure();
  }
}

TEST_F(Bent, UuidOfOtherCharactersIsRefused) {
  for (const char c : {'\0', ' ', '"', '\n', '/', '\xff'}) {
    front_[kUuidAt + 5] = static_cast<std::byte>(c);
    EXPECT_THAT(LabelFailure(), HasSubstr("UUID"));
  }
}

TEST_F(Bent, UnclosedListIsRefused) {
  for (size_t at = kDataAreasAt; at < 1024; ++at) {
    front_[at] = std::byte{2};
  }
  EXPECT_THAT(LabelFailure(), HasSubstr("out of its sector"));
}

TEST_F(Bent, ImpossibleMetadataAreasAreRefused) {
  const std::vector<DiskArea> bad = {{4097, 1 << 20},        {0, 1 << 20}, {1024, 1 << 20},     {4096, 512},
                                     {~uint64_t{511}, 4096}, {4096, 0},    {4096, ~uint64_t{0}}};
  for (const DiskArea& area : bad) {
    Put(front_, kMetadataAreasAt, area.offset);
    Put(front_, kMetadataAreasAt + 8, area.size);
    EXPECT_THAT(LabelFailure(), HasSubstr("metadata area")) << area.offset << " " << area.size;
  }
}

TEST_F(Bent, LabelOfOldLvmHasNoExtension) {
  std::fill(front_.begin() + kMetadataAreasAt + 32, front_.begin() + 1024, std::byte{0});
  SealLabel(front_);
  const auto label = ParseLabel(front_);
  ASSERT_TRUE(label.has_value());
  EXPECT_FALSE(label->in_group);
}

TEST_F(Bent, HeaderWithoutMagicOrOfAnotherVersionIsRefused) {
  Block good = front_;
  front_[4096 + 4] = std::byte{'x'};
  EXPECT_THAT(HeaderFailure(), HasSubstr("magic"));
  front_ = good;
  Put(front_, 4096 + 20, uint32_t{2});
  EXPECT_THAT(HeaderFailure(), HasSubstr("version 2"));
  EXPECT_FALSE(ParseMetadataHeader(std::span(good).subspan(4096, 511), area_).has_value());
}

TEST_F(Bent, TextMustLieInItsArea) {
  const std::vector<std::pair<uint64_t, uint64_t>> bad = {
      {0, 100}, {511, 100},        {area_.size, 1},    {~uint64_t{0}, 100},
      {512, 0}, {512, area_.size}, {512, ~uint64_t{0}}};
  for (const size_t slot : {40, 64}) {
    for (const auto& [offset, size] : bad) {
      Block good = front_;
      Put(front_, 4096 + slot, offset);
      Put(front_, 4096 + slot + 8, size);
      EXPECT_THAT(HeaderFailure(), HasSubstr("a text of")) << offset << " " << size;
      front_ = good;
    }
  }
}

TEST(Checksum, ContinuesAcrossPieces) {
  const std::string text = "vg0 { id = \"x\" }";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(Checksum(bytes.subspan(5), Checksum(bytes.first(5))), Checksum(bytes));
}

}  // namespace
}  // namespace quarry::lvm
