#include "ctl/known_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr const char* kDriver = "quarry.csi.local";
const std::string kA = lvm::VolumeId("main", "qaaaaaaaaaaaaaaaaaaaaaaaaaa", lvm::NodeHash("node1"));
const std::string kB = lvm::VolumeId("main", "qeeeeeeeeeeeeeeeeeeeeeeeeee", lvm::NodeHash("node1"));

std::string Pv(const std::string& driver, const std::string& id, const std::string& more = "") {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"PersistentVolume","spec":{{"csi":{{"driver":"{}","volumeHandle":"{}"}}{}}}}})",
      driver, id, more);
}

KnownIds Parse(const std::string& text) {
  auto known = ParseKnownIds(text, kDriver);
  EXPECT_TRUE(known.has_value()) << known.error().message();
  return known.value_or(KnownIds{});
}

std::string Refusal(const std::string& text) {
  const auto known = ParseKnownIds(text, kDriver);
  EXPECT_FALSE(known.has_value());
  return known.has_value() ? "" : known.error().message();
}

TEST(KnownIds, LinesAreIds) {
  const KnownIds known = Parse(kA + "\n\n" + kB + "\r\nsome-other-volume\n");
  EXPECT_THAT(known.volumes, UnorderedElementsAre(Pair(kA, ""), Pair(kB, "")));
  EXPECT_EQ(known.of_others, 1U);
}

TEST(KnownIds, TextThatIsNoListIsRefused) {
  EXPECT_THAT(Refusal("error: You must be logged in to the server\n"),
              HasSubstr("line 1 is not a volume id"));
  EXPECT_THAT(Refusal(kA + "\nNAME  CAPACITY\n"), HasSubstr("line 2"));
}

// A driver may have had another name when a volume was made. Quarry's ids are its own.
TEST(KnownIds, PersistentVolumesOfThisDriverCountAndThoseWithAnIdOfQuarrys) {
  const KnownIds known = Parse(fmt::format(
      R"({{"kind":"List","items":[{},{},{},{{"kind":"PersistentVolume","spec":{{"nfs":{{}}}}}}]}})",
      Pv(kDriver, kA), Pv("former.name", kB), Pv("other.csi", "vol-1")));
  EXPECT_THAT(known.volumes, UnorderedElementsAre(Key(kA), Key(kB)));
  EXPECT_EQ(known.of_others, 2U);
  EXPECT_FALSE(known.lists_snapshots);
  EXPECT_THAT(Parse(Pv(kDriver, kA)).volumes, ElementsAre(Key(kA)));
}

TEST(KnownIds, TheNodeOfAPersistentVolumeIsRead) {
  const std::string affinity = R"(,"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[)"
                               R"({"key":"quarry.csi.local/node","operator":"In","values":["node1"]}]}]}})";
  EXPECT_THAT(Parse(Pv(kDriver, kA, affinity)).volumes, ElementsAre(Pair(kA, "node1")));
}

TEST(KnownIds, SnapshotContentsCount) {
  const std::string content =
      R"({"kind":"VolumeSnapshotContent","spec":{"driver":"quarry.csi.local","source":{}},)"
      R"("status":{"snapshotHandle":")" +
      kB + R"("}})";
  const KnownIds known = Parse(fmt::format(R"({{"kind":"List","items":[{},{}]}})", Pv(kDriver, kA), content));
  EXPECT_THAT(known.snapshots, ElementsAre(kB));
  EXPECT_TRUE(known.lists_snapshots);
}

TEST(KnownIds, VolumesOfNomadCountByTheirExternalId) {
  const std::string volume = R"({"ID":"db","Name":"db","ExternalID":")" + kA + R"(","PluginID":"quarry"})";
  EXPECT_THAT(Parse("[" + volume + "]").volumes, ElementsAre(Key(kA)));
  EXPECT_THAT(Parse(volume).volumes, ElementsAre(Key(kA)));
}

TEST(KnownIds, AnArrayOfIdsCounts) {
  EXPECT_THAT(Parse(R"([")" + kA + R"("])").volumes, ElementsAre(Key(kA)));
}

TEST(KnownIds, JsonThatIsCutOffIsRefused) {
  const std::string whole = fmt::format(R"({{"kind":"List","items":[{}]}})", Pv(kDriver, kA));
  for (size_t length = 1; length < whole.size(); ++length) {
    EXPECT_FALSE(ParseKnownIds(whole.substr(0, length), kDriver).has_value()) << length;
  }
}

TEST(KnownIds, APageOfALongerListIsRefused) {
  EXPECT_THAT(Refusal(R"({"kind":"List","metadata":{"continue":"abc"},"items":[]})"), HasSubstr("one page"));
}

TEST(KnownIds, OtherJsonIsRefused) {
  EXPECT_THAT(Refusal(R"({"kind":"List","items":[{"kind":"Pod"}]})"), HasSubstr("kind 'Pod'"));
  EXPECT_THAT(Refusal(R"({"kind":"Status","status":"Failure"})"), HasSubstr("kind 'Status'"));
  EXPECT_THAT(Refusal(R"([{"ID":"db"}])"), HasSubstr("ExternalID"));
  EXPECT_THAT(Refusal(R"({"kind":"List","items":"x"})"), HasSubstr("kind"));
  EXPECT_THAT(Refusal("[1]"), HasSubstr("neither"));
}

TEST(KnownIds, EmptyListsAreEmpty) {
  for (const char* text : {"", "\n \n", "[]", R"({"kind":"List","items":[]})"}) {
    const auto known = ParseKnownIds(text, kDriver);
    ASSERT_TRUE(known.has_value()) << text;
    EXPECT_TRUE(known->empty());
  }
  EXPECT_TRUE(Parse("of-another-driver\n").empty());
}

}  // namespace
}  // namespace quarry::ctl
