// Files that declare volumes, and the steps that apply derives from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/apply_plan.h"
#include "ctl/declaration.h"

namespace quarry::ctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<DeclaredVolume> Parse(const std::string& text) {
  auto parsed = ParseDeclaration(text, "v.toml");
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message();
  return parsed.has_value() ? *parsed : std::vector<DeclaredVolume>();
}

std::string WhyNot(const std::string& text) {
  auto parsed = ParseDeclaration(text, "v.toml");
  if (!parsed.has_value()) {
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    return parsed.error().message();
  }
  const Status together = CheckTogether(*parsed);
  return together.has_value() ? "it is accepted" : together.error().message();
}

VolumeRow Present(const std::string& name, Bytes size, const std::string& type = "linear",
                  const std::string& mount_point = "") {
  VolumeRow row{.facts = {}, .pool = "p", .group = "vg0"};
  row.facts.set_name(name);
  row.facts.set_volume_id("p.id-of-" + name);
  row.facts.set_capacity_bytes(static_cast<int64_t>(size.value));
  row.facts.set_asked_bytes(static_cast<int64_t>(size.value));
  row.facts.set_type(type);
  row.facts.set_fs_type("ext4");
  if (!mount_point.empty()) {
    row.facts.set_mount_point(mount_point);
    row.facts.add_used_at(mount_point);
  }
  return row;
}

std::vector<std::string> StepsOf(const std::string& declared, const VolumeList& present,
                                 const std::vector<std::string>& remove = {}) {
  const auto plan = PlanApply(Parse(declared), present, remove);
  std::vector<std::string> out;
  if (!plan.has_value()) {
    out.push_back("refused: " + plan.error().message());
    return out;
  }
  for (const ApplyStep& step : plan->steps) {
    out.push_back(step.text);
  }
  for (const std::string& note : plan->notes) {
    out.push_back("note: " + note);
  }
  return out;
}

constexpr char kData[] = R"([[volume]]
name = "data"
size = "10GiB"
type = "raid1"
mount = "/srv/data"
)";

TEST(DeclarationTest, EveryKeyIsRead) {
  const auto volumes = Parse(R"(
[[volume]]
name = "data"
size = "10GiB"
type = "raid5"
pool = "fast"
parameters = { stripes = 3, integrity = true, erase = "discard" }
fs = "xfs"
mount = "/srv/data"
options = ["noatime", "nodiratime"]
owner = "7:8"
mode = "0750"
[[volume]]
name = "raw"
size = "1GiB"
raw = true
)");
  ASSERT_EQ(volumes.size(), 2U);
  EXPECT_EQ(volumes[0].size, Bytes{10 * kGiB.value});
  EXPECT_EQ(volumes[0].parameters, (std::map<std::string, std::string>{{"type", "raid5"},
                                                                       {"pool", "fast"},
                                                                       {"stripes", "3"},
                                                                       {"integrity", "true"},
                                                                       {"erase", "discard"}}));
  EXPECT_EQ(volumes[0].fs_type, "xfs");
  EXPECT_EQ(volumes[0].mount_point, "/srv/data");
  EXPECT_THAT(volumes[0].options, ElementsAre("noatime", "nodiratime"));
  EXPECT_EQ(volumes[0].owner, "7:8");
  EXPECT_EQ(volumes[0].mode, 0750U);
  EXPECT_EQ(volumes[0].where, "v.toml: line 2");
  EXPECT_EQ(volumes[1].fs_type, "");
}

TEST(DeclarationTest, BadInputNamesTheLineAndTheRemedy) {
  EXPECT_THAT(WhyNot("[[volume]]\nname = \"a\"\nsize = \"10GB\"\n"),
              HasSubstr("v.toml: line 3: size: must be"));
  EXPECT_THAT(WhyNot("[[volume]]\nname = \"a\"\nsize = \"0\"\n"), HasSubstr("must not be 0"));
  EXPECT_THAT(WhyNot("[[volume]]\nname = \"a\"\n"), HasSubstr("size: volume 'a' has none"));
  EXPECT_THAT(WhyNot("[[volume]]\nsize = \"1GiB\"\n"), HasSubstr("name: is missing"));
  EXPECT_THAT(WhyNot("[[volume]]\nnmae = \"a\"\n"), HasSubstr("unknown key 'nmae'; the keys are name, size"));
  EXPECT_THAT(WhyNot("[[volume]]\nname = 7\n"), HasSubstr("name: must be a string"));
  EXPECT_THAT(WhyNot("[volume]\nname = \"a\"\n"), HasSubstr("[[volume]]"));
  EXPECT_THAT(WhyNot("[[volumes]]\nname = \"a\"\n"), HasSubstr("'volumes'"));
  EXPECT_THAT(WhyNot("[[volume]\n"), HasSubstr("v.toml: line 1"));
  const std::string start = "[[volume]]\nname = \"a\"\nsize = \"1GiB\"\n";
  EXPECT_THAT(WhyNot(start + "mount = \"srv\"\n"), HasSubstr("line 4: mount: "));
  EXPECT_THAT(WhyNot(start + "raw = true\nmount = \"/srv\"\n"), HasSubstr("has no file system"));
  EXPECT_THAT(WhyNot(start + "raw = true\nfs = \"xfs\"\n"), HasSubstr("choose one of raw and fs"));
  EXPECT_THAT(WhyNot(start + "owner = \"root\"\n"), HasSubstr("need its mount"));
  EXPECT_THAT(WhyNot(start + "mount = \"/a\"\nmode = \"0999\"\n"), HasSubstr("must be octal digits"));
  EXPECT_THAT(WhyNot(start + "mount = \"/a\"\nmode = 750\n"), HasSubstr("mode: must be a string"));
  EXPECT_THAT(WhyNot(start + "options = \"ro\"\n"), HasSubstr("options: must be a list"));
  EXPECT_THAT(WhyNot(start + "parameters = \"x\"\n"), HasSubstr("parameters: must be a table"));
  EXPECT_THAT(WhyNot(start + "parameters = { type = \"raid1\" }\n"),
              HasSubstr("type stands beside parameters"));
  EXPECT_THAT(WhyNot(start + "mount = \"/a\"\noptions = [\"bind\"]\n"), HasSubstr("options: "));
  EXPECT_THAT(WhyNot(start + "mount = \"/a\"\noptions = [\"ro\"]\nmode = \"0700\"\n"),
              HasSubstr("read-only"));
  EXPECT_THAT(WhyNot(start + "mount = \"/\"\n"), HasSubstr("root directory"));
  EXPECT_THAT(WhyNot("[[volume]]\nname = \"a\"\nsize = \"18446744073709551615\"\n"),
              HasSubstr("more than any disk"));
  EXPECT_THAT(WhyNot(start + start),
              HasSubstr("v.toml: line 4: volume 'a' is declared before, in v.toml: line 1"));
  EXPECT_THAT(WhyNot(start + "mount = \"/m\"\n[[volume]]\nname = \"b\"\nsize = \"1GiB\"\nmount = \"/m/\"\n"),
              HasSubstr("'/m' is the mount point of volume 'a' too"));
}

TEST(ApplyPlanTest, WhatIsMissingIsMadeAndMounted) {
  EXPECT_THAT(StepsOf(kData, {}),
              ElementsAre("create volume data: 10 GiB raid1 ext4", "mount volume data at /srv/data"));
}

TEST(ApplyPlanTest, WhatIsThereIsLeftAlone) {
  const VolumeList list{{Present("data", Bytes{10 * kGiB.value}, "raid1", "/srv/data"),
                         Present("other", kGiB, "linear", "/srv/other")},
                        {}};
  EXPECT_THAT(StepsOf(kData, list), IsEmpty());
}

TEST(ApplyPlanTest, ItGrowsAndNeverShrinks) {
  EXPECT_THAT(StepsOf(kData, {{Present("data", Bytes{9 * kGiB.value}, "raid1", "/srv/data")}, {}}),
              ElementsAre(HasSubstr("grow volume data from 9")));
  EXPECT_THAT(StepsOf(kData, {{Present("data", Bytes{11 * kGiB.value}, "raid1", "/srv/data")}, {}}),
              ElementsAre(HasSubstr("note: volume data stays as large as it is")));
  VolumeRow rounded = Present("data", Bytes{10 * kGiB.value + 4 * kMiB.value}, "raid1", "/srv/data");
  rounded.facts.set_asked_bytes(static_cast<int64_t>(10 * kGiB.value));
  EXPECT_THAT(StepsOf(kData, {{rounded}, {}}), IsEmpty()) << "LVM has rounded its size up";
}

TEST(ApplyPlanTest, AMountPointMoves) {
  EXPECT_THAT(StepsOf(kData, {{Present("data", Bytes{10 * kGiB.value}, "raid1", "/mnt/old")}, {}}),
              ElementsAre("unmount volume data from /mnt/old", "mount volume data at /srv/data"));
  VolumeRow lost = Present("data", Bytes{10 * kGiB.value}, "raid1", "/srv/data");
  lost.facts.clear_used_at();
  EXPECT_THAT(StepsOf(kData, {{lost}, {}}), ElementsAre("mount volume data at /srv/data"));
}

TEST(ApplyPlanTest, MountsGoFromTheRootDownAndUnmountsUp) {
  const std::string declared =
      "[[volume]]\nname = \"a\"\nsize = \"1GiB\"\nmount = \"/srv/x/y\"\n"
      "[[volume]]\nname = \"b\"\nsize = \"1GiB\"\nmount = \"/srv/x\"\n";
  EXPECT_THAT(
      StepsOf(declared, {{Present("a", kGiB, "linear", "/m"), Present("b", kGiB, "linear", "/m/n")}, {}}),
      ElementsAre("unmount volume b from /m/n", "unmount volume a from /m", "mount volume b at /srv/x",
                  "mount volume a at /srv/x/y"));
}

// The directory could not be unmounted otherwise.
TEST(ApplyPlanTest, WhatIsMountedBelowAMovingDirectoryComesOffAndGetsBack) {
  const std::string declared =
      "[[volume]]\nname = \"a\"\nsize = \"1GiB\"\nmount = \"/srv\"\n"
      "[[volume]]\nname = \"b\"\nsize = \"1GiB\"\nmount = \"/m/n\"\n"
      "[[volume]]\nname = \"c\"\nsize = \"1GiB\"\nmount = \"/mm\"\n";
  const VolumeList list{{Present("a", kGiB, "linear", "/m"), Present("b", kGiB, "linear", "/m/n"),
                         Present("c", kGiB, "linear", "/mm")},
                        {}};
  EXPECT_THAT(StepsOf(declared, list), ElementsAre("unmount volume b from /m/n", "unmount volume a from /m",
                                                   "mount volume b at /m/n", "mount volume a at /srv"));
  EXPECT_THAT(StepsOf(declared.substr(declared.find("[[volume]]\nname = \"b\"")), list, {"a"}),
              ElementsAre("unmount volume b from /m/n", "unmount volume a from /m", "mount volume b at /m/n",
                          HasSubstr("delete volume a")));
}

TEST(ApplyPlanTest, AnUndeclaredVolumeBelowAMovingDirectoryIsNamed) {
  const std::string moved = "[[volume]]\nname = \"a\"\nsize = \"1GiB\"\nmount = \"/srv\"\n";
  const VolumeList list{{Present("a", kGiB, "linear", "/m"), Present("b", kGiB, "linear", "/m/n")}, {}};
  EXPECT_THAT(StepsOf(moved, list), ElementsAre(HasSubstr("refused: volume a is to be unmounted from /m, but "
                                                          "volume b is mounted below it, at /m/n")));
  EXPECT_THAT(StepsOf(moved + "[[volume]]\nname = \"b\"\nsize = \"1GiB\"\n", list),
              ElementsAre(HasSubstr("`quarryctl volume unmount b`")))
      << "declared without a mount point, so apply could not mount it again";
  EXPECT_THAT(StepsOf(moved, list, {"b"}),
              ElementsAre("unmount volume b from /m/n", "unmount volume a from /m", "mount volume a at /srv",
                          HasSubstr("delete volume b")));
}

TEST(ApplyPlanTest, OnlyWhatIsNamedIsDeleted) {
  const VolumeList list{{Present("data", Bytes{10 * kGiB.value}, "raid1", "/srv/data"),
                         Present("old", kGiB, "linear", "/srv/old"), Present("third", kGiB)},
                        {}};
  EXPECT_THAT(StepsOf(kData, list, {"old", "gone"}),
              ElementsAre("unmount volume old from /srv/old", HasSubstr("delete volume old and its data: 1"),
                          "note: there is no volume 'gone' to delete"));
  VolumeRow snapshot = Present("snap", kGiB);
  snapshot.facts.set_snapshot_of("p.id-of-data");
  EXPECT_THAT(StepsOf("", {{snapshot}, {}}, {"snap"}),
              ElementsAre(HasSubstr("note: there is no volume 'snap'")));
  EXPECT_THAT(StepsOf("", {{}, {"pool 'p' cannot be read"}}, {"old"}),
              ElementsAre(HasSubstr("refused: --delete: ")));
  EXPECT_THAT(StepsOf(kData, list, {"data"}),
              ElementsAre(HasSubstr("refused: --delete data: the volume is declared")));
}

TEST(ApplyPlanTest, AnotherTypeOrFormatIsRefused) {
  EXPECT_THAT(
      StepsOf(kData, {{Present("data", Bytes{10 * kGiB.value}, "raid5")}, {}}),
      ElementsAre(HasSubstr("refused: v.toml: line 1: volume 'data' exists with type raid5, and raid1 is "
                            "declared")));
  EXPECT_THAT(StepsOf(std::string(kData) + "fs = \"xfs\"\n",
                      {{Present("data", Bytes{10 * kGiB.value}, "raid1")}, {}}),
              ElementsAre(HasSubstr("exists with format ext4, and xfs is declared")));
}

TEST(ApplyPlanTest, NoOtherVolumeLosesItsMountPoint) {
  EXPECT_THAT(
      StepsOf(kData, {{Present("other", kGiB, "linear", "/srv/data")}, {}}),
      ElementsAre(HasSubstr("refused: v.toml: line 1: '/srv/data' is the mount point of volume other")));
  EXPECT_THAT(StepsOf(kData, {{Present("other", kGiB, "linear", "/srv/data")}, {}}, {"other"}),
              ElementsAre(HasSubstr("create"), HasSubstr("unmount volume other"),
                          HasSubstr("mount volume data"), HasSubstr("delete volume other")));
}

// A second volume of the same name would be made otherwise.
TEST(ApplyPlanTest, NothingIsMadeWhileAPoolCannotBeRead) {
  EXPECT_THAT(StepsOf(kData, {{}, {"pool 'p' cannot be read: its group is missing"}}),
              ElementsAre(HasSubstr("no volume 'data' is known, but pool 'p' cannot be read")));
}

TEST(PickTest, ByNameOrById) {
  VolumeRow snapshot = Present("twice", kGiB);
  snapshot.facts.set_snapshot_of("p.id-of-data");
  snapshot.facts.set_volume_id("p.snap");
  const VolumeList list{{Present("data", kGiB), Present("twice", kGiB), snapshot}, {}};
  EXPECT_EQ(Pick(list, "data")->facts.volume_id(), "p.id-of-data");
  EXPECT_TRUE(Pick(list, "p.snap")->is_snapshot());
  EXPECT_THAT(Pick(list, "twice").error().message(),
              HasSubstr("is the name of several: name it by its id, p.id-of-twice or p.snap"));
  EXPECT_FALSE(Pick(list, "twice", Kind::kVolume)->is_snapshot());
  EXPECT_TRUE(Pick(list, "twice", Kind::kSnapshot)->is_snapshot());
  EXPECT_EQ(Pick(list, "none").error().code(), Code::kNotFound);
  EXPECT_EQ(Pick({{}, {"pool 'p' cannot be read"}}, "none").error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace quarry::ctl
