#include "lvm/read/metadata_text.h"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/fresh/metadata_header_reader.h"
#include "tests/unit/lvm/disk_images.h"

namespace quarry::lvm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "a/b/key=x,y" for each assignment.
std::vector<std::string> Walk(std::string_view text) {
  std::vector<std::string> out;
  const Status walked = WalkText(text, [&](auto sections, std::string_view key, auto values) -> Status {
    std::string line;
    for (const std::string& section : sections) {
      line += section + "/";
    }
    line += std::string(key) + "=";
    for (const TextValue& value : values) {
      line += (value.quoted ? "'" + value.text + "'" : value.text) + ",";
    }
    out.push_back(line);
    return Ok();
  });
  if (!walked.has_value()) {
    out.push_back(walked.error().message());
  }
  return out;
}

TEST(WalkText, GivesAssignmentsWithTheirSections) {
  EXPECT_THAT(Walk("a { x = 1 # comment } \n b { y = [\"p\", 2] } z = [ ] } contents = \"T\\\"\\\\\" # end"),
              ElementsAre("a/x=1,", "a/b/y='p',2,", "a/z=", "contents='T\"\\',"));
  EXPECT_THAT(Walk(""), ElementsAre());
  EXPECT_THAT(Walk(std::string_view("a = 1\n\0b = }", 11)), ElementsAre("a=1,")) << "a text ends with a NUL";
}

TEST(WalkText, WhatIsNoTextIsCorruptAndSaysWhere) {
  for (const char* bad :
       {"}", "a {", "a", "a =", "a = [1", "a = [1 2]", "a = \"x", "= 1", "a { } }", "a = {"}) {
    EXPECT_THAT(Walk(bad).back(), HasSubstr("byte")) << bad;
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    deep += "a{";
  }
  EXPECT_THAT(Walk(deep), ElementsAre(HasSubstr("too deep")));
}

TEST(GroupMembers, AreThoseThatLvmReports) {
  const auto group = ParseGroupMembers(DiskImages::Fixture("changed", "1.text"));
  ASSERT_TRUE(group.has_value()) << group.error().message();
  EXPECT_EQ(group->name, "v");
  EXPECT_EQ(group->uuid.size(), 38U);
  EXPECT_EQ(group->seqno, 2U);
  EXPECT_THAT(group->pv_uuids, ElementsAre("rhee3f-5Iq0-ls6J-dzHb-JTHG-eSLX-PViSi0",
                                           "VU11yt-3VJb-dATj-GzLR-duoq-nUsr-C99NKc"));
  const auto renamed = ParseGroupMembers(DiskImages::Fixture("renamed", "2.text"));
  ASSERT_TRUE(renamed.has_value());
  EXPECT_EQ(renamed->name, "w");
  EXPECT_EQ(renamed->uuid, group->uuid);
  EXPECT_EQ(renamed->seqno, 10U);
}

TEST(GroupMembers, IncompleteGroupIsCorrupt) {
  for (const char* bad :
       {"", "v { }", "v { id = \"x\" seqno = 1 }", "v { id = 3 seqno = 1 }", "v { id = \"x\" seqno = \"1\" }",
        "v { id = \"x\" seqno = 1x physical_volumes { p { id = \"y\" } } }",
        "v { id = \"x\" seqno = 1 } w { physical_volumes { p { id = \"y\" } } }",
        "v { id = \"x\" physical_volumes { p { id = \"y\" } } }"}) {
    const auto group = ParseGroupMembers(bad);
    ASSERT_FALSE(group.has_value()) << bad;
    EXPECT_EQ(group.error().code(), Code::kCorrupt);
  }
  EXPECT_TRUE(
      ParseGroupMembers("v { id = \"x\" seqno = 1 physical_volumes { p { id = \"y\" } } }").has_value());
}

TEST(GroupMembers, MutationsNeverBreakTheParser) {
  const std::string text = DiskImages::Fixture("changed", "1.text");
  std::mt19937 random(4711);  // NOLINT(cert-msc51-cpp): the same mutations each time
  for (int round = 0; round < 20000; ++round) {
    std::string bent = text;
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const size_t at = random() % bent.size();
      switch (random() % 3) {
        case 0:
          bent[at] = static_cast<char>(random());
          break;
        case 1:
          bent.erase(at, random() % 40);
          break;
        default:
          bent.insert(at, bent.substr(random() % bent.size(), random() % 40));
      }
      bent += bent.empty() ? "x" : "";
    }
    const auto group = ParseGroupMembers(bent);
    EXPECT_TRUE(!group.has_value() || !group->pv_uuids.empty());
  }
}

class Text : public testing::Test {
 protected:
  Result<std::string> Read(const std::string& path) {
    const std::vector<std::string> paths = {path};
    const auto states = reader_.Read(paths, {});
    EXPECT_TRUE(states.has_value());
    const AreaState& area = states->at(0).areas.at(0);
    return reader_.ReadText(path, area.area, *area.committed, {});
  }

  DiskImages images_;
  HeaderReader reader_;
};

TEST_F(Text, IsReadWhereTheHeaderSays) {
  for (const char* state : {"changed", "wrapped", "exported", "elsewhere"}) {
    const std::string disk = images_.folder() / state;
    images_.Put(disk, state, 1);
    const auto text = Read(disk);
    ASSERT_TRUE(text.has_value()) << state << ": " << text.error().message();
    EXPECT_EQ(*text, DiskImages::Fixture(state, "1.text"));
  }
}

TEST_F(Text, OverwrittenOneIsNotBelieved) {
  const std::string disk = images_.folder() / "a";
  images_.Put(disk, "changed", 1);
  const std::string seqno = "seqno = 2";
  const std::string text = DiskImages::Fixture("changed", "1.text");
  const std::vector<std::string> paths = {disk};
  const AreaState area = (*reader_.Read(paths, {}))[0].areas.at(0);
  DiskImages::Write(disk, "seqno = 3", area.area.offset + area.committed->offset + text.find(seqno));
  EXPECT_EQ(Read(disk).error().code(), Code::kCorrupt);
  std::filesystem::resize_file(disk, area.area.offset + area.committed->offset + 100);
  EXPECT_EQ(Read(disk).error().code(), Code::kCorrupt) << "cut off";
}

TEST_F(Text, HugeOneIsNotEvenRead) {
  const auto text = reader_.ReadText("/dev/null", {4096, uint64_t{1} << 50}, {512, uint64_t{1} << 49, 0}, {});
  EXPECT_EQ(text.error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace quarry::lvm
