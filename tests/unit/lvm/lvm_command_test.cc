#include "lvm/lvm_command.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lvm/change.h"

namespace quarry::lvm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

CreateLv Spec(GeometryRequest request) {
  return {.group = "vg0",
          .name = "qx",
          .geometry = Geometry::Make(request).value(),
          .step = {Extents{12}, "contiguous", {"/dev/a:0-12", "/dev/b:3-15"}},
          .tags = {"quarry.creating"},
          .wipe = Wipe::kNone,
          .assume_in_sync = true};
}

// The words after `option`, up to `count`.
std::vector<std::string> After(const std::vector<std::string>& words, const std::string& option,
                               size_t count = 1) {
  const auto at = std::ranges::find(words, option);
  if (at == words.end()) {
    return {};
  }
  return {at + 1, at + 1 + static_cast<std::ptrdiff_t>(count)};
}

TEST(CreateArgumentsTest, SayEverythingThatMatters) {
  const auto words = Spec({.type = VolumeType::kRaid1}).Arguments();
  ASSERT_TRUE(words.has_value());
  EXPECT_THAT(*words,
              ElementsAre("lvcreate", "-y", "--name", "qx", "--type", "raid1", "--extents", "12", "--alloc",
                          "contiguous", "--mirrors", "1", "--regionsize", "2048k", "--wipesignatures", "n",
                          "--zero", "n", "--nosync", "--setactivationskip", "y", "--ignoreactivationskip",
                          "--addtag", "quarry.creating", "--", "vg0", "/dev/a:0-12", "/dev/b:3-15"));
}

TEST(CreateArgumentsTest, ShapeFollowsTheType) {
  struct Case {
    VolumeType type;
    const char* word;
    bool stripes;
    bool mirrors;
    bool region;
  };
  for (const Case& c : std::vector<Case>{{VolumeType::kLinear, "linear", false, false, false},
                                         {VolumeType::kStriped, "striped", true, false, false},
                                         {VolumeType::kRaid0, "raid0", true, false, false},
                                         {VolumeType::kRaid1, "raid1", false, true, true},
                                         {VolumeType::kRaid4, "raid4", true, false, true},
                                         {VolumeType::kRaid5, "raid5", true, false, true},
                                         {VolumeType::kRaid6, "raid6", true, false, true},
                                         {VolumeType::kRaid10, "raid10", true, true, true}}) {
    const auto words = Spec({.type = c.type}).Arguments();
    ASSERT_TRUE(words.has_value()) << c.word;
    EXPECT_THAT(After(*words, "--type"), ElementsAre(c.word));
    EXPECT_EQ(!After(*words, "--stripes").empty(), c.stripes) << c.word;
    EXPECT_EQ(!After(*words, "--stripesize").empty(), c.stripes) << c.word;
    EXPECT_EQ(!After(*words, "--mirrors").empty(), c.mirrors) << c.word;
    EXPECT_EQ(!After(*words, "--regionsize").empty(), c.region) << c.word;
  }
}

TEST(CreateArgumentsTest, StripesAreDataStripesAndSizesAreKib) {
  const auto words =
      Spec({.type = VolumeType::kRaid6, .stripes = 4, .stripe_size = Bytes{128 * 1024}, .region_size = kMiB})
          .Arguments();
  ASSERT_TRUE(words.has_value());
  EXPECT_THAT(After(*words, "--stripes"), ElementsAre("4"));
  EXPECT_THAT(After(*words, "--stripesize"), ElementsAre("128k"));
  EXPECT_THAT(After(*words, "--regionsize"), ElementsAre("1024k"));
}

TEST(CreateArgumentsTest, InitialSyncIsSkippedOnlyOnRequestAndNeverForRaid6) {
  EXPECT_THAT(Spec({.type = VolumeType::kRaid5}).Arguments().value(), Contains("--nosync"));
  EXPECT_THAT(Spec({.type = VolumeType::kRaid6}).Arguments().value(), Not(Contains("--nosync")));
  EXPECT_THAT(Spec({.type = VolumeType::kLinear}).Arguments().value(), Not(Contains("--nosync")));
  CreateLv spec = Spec({.type = VolumeType::kRaid5});
  spec.assume_in_sync = false;
  EXPECT_THAT(spec.Arguments().value(), Not(Contains("--nosync")));
}

TEST(CreateArgumentsTest, ExtentsOfUnknownContentAreWiped) {
  CreateLv spec = Spec({});
  spec.wipe = Wipe::kSignaturesAndFirstBlock;
  const auto words = spec.Arguments().value();
  EXPECT_THAT(After(words, "--wipesignatures"), ElementsAre("y"));
  EXPECT_THAT(After(words, "--zero"), ElementsAre("y"));
}

TEST(CreateArgumentsTest, AnInactiveVolumeIsNotWiped) {
  CreateLv spec = Spec({});
  spec.activate = false;
  const auto words = spec.Arguments();
  ASSERT_TRUE(words.has_value());
  EXPECT_THAT(After(*words, "--activate"), ElementsAre("n"));
  EXPECT_TRUE(After(*words, "--ignoreactivationskip").empty());
  spec.wipe = Wipe::kSignaturesAndFirstBlock;
  EXPECT_EQ(spec.Arguments().error().code(), Code::kInvalidArgument);
}

TEST(ExtendArgumentsTest, AddExtentsAtGivenPlaces) {
  const CreateLv spec = Spec({.type = VolumeType::kRaid5});
  EXPECT_THAT((ExtendLv{spec.group, spec.name, spec.geometry, spec.step}.Arguments()).value(),
              ElementsAre("lvextend", "-y", "--extents", "+12", "--alloc", "contiguous", "--", "vg0/qx",
                          "/dev/a:0-12", "/dev/b:3-15"));
  const CreateLv striped = Spec({.type = VolumeType::kStriped, .stripes = 2});
  EXPECT_THAT((ExtendLv{"vg0", "qx", striped.geometry, striped.step}.Arguments()).value(),
              IsSupersetOf({"--stripes", "2", "--stripesize", "64k"}));
}

TEST(RemoveArgumentsTest, NeverForce) {
  EXPECT_THAT((RemoveLvs{"vg0", {"qx", "qy"}, 0}.Arguments()).value(),
              ElementsAre("lvremove", "--", "vg0/qx", "vg0/qy"));
}

TEST(TagArgumentsTest, AreOneCommand) {
  EXPECT_THAT(
      (ChangeTags{"vg0", "qx", {"a", "b"}, {"c"}}.Arguments()).value(),
      ElementsAre("lvchange", "-y", "--deltag", "c", "--addtag", "a", "--addtag", "b", "--", "vg0/qx"));
}

TEST(ActivateArgumentsTest, SwitchVolumes) {
  EXPECT_THAT((ActivateLvs{"vg0", {"qx"}}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--poll", "n", "--",
                          "vg0/qx"));
  EXPECT_THAT((ActivateLvs{"vg0", {"qx", "qy"}}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--poll", "n", "--",
                          "vg0/qx", "vg0/qy"));
  EXPECT_THAT((DeactivateLv{"vg0", "qx", 0}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--activate", "n", "--", "vg0/qx"));
  EXPECT_THAT((DeactivateLv{"vg0", "qx", 7}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--activate", "n", "--select", "vg_seqno=7", "--", "vg0/qx"));
}

TEST(MendingArguments, NameTheirObjects) {
  EXPECT_THAT((RepairLv{"vg0", "qx", {"/dev/a:0-12", "/dev/b:3-15"}}.Arguments()).value(),
              ElementsAre("lvconvert", "-y", "--repair", "--", "vg0/qx", "/dev/a:0-12", "/dev/b:3-15"));
  EXPECT_THAT((RefreshLvs{"vg0", {"qx", "qy"}}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--refresh", "--poll", "n", "--", "vg0/qx", "vg0/qy"));
  EXPECT_THAT((RestorePv{"vg0", "/dev/a"}.Arguments()).value(),
              ElementsAre("vgextend", "-y", "--restoremissing", "--", "vg0", "/dev/a"));
  EXPECT_THAT((DropMissingPvs{"vg0"}.Arguments()).value(),
              ElementsAre("vgreduce", "-y", "--removemissing", "--", "vg0"));
}

TEST(CowArguments, NameStoreAndVolume) {
  const CreateCow keep{.group = "vg0",
                       .name = "qx",
                       .store = "qs",
                       .step = {Extents{11}, "normal", {"/dev/c:0-10"}},
                       .tags = {"quarry.erasing"}};
  EXPECT_THAT(keep.Arguments().value(),
              ElementsAre("lvcreate", "-y", "--snapshot", "--name", "qs", "--extents", "11", "--chunksize",
                          "64k", "--alloc", "normal", "--setactivationskip", "y", "--addtag",
                          "quarry.erasing", "--", "vg0/qx", "/dev/c:0-10"));
  EXPECT_THAT((SplitCow{"vg0", "qx", "qs"}.Arguments()).value(),
              ElementsAre("lvconvert", "-y", "--splitsnapshot", "--", "vg0/qs"));
  EXPECT_THAT(
      (DropCow{"vg0", "qx", "qs"}.Arguments()).value(),
      ElementsAre("lvremove", "-y", "--config", "activation/activation_mode=partial", "--", "vg0/qs"));
}

// lvcreate reduces stores that are larger, and a smaller one might overflow.
TEST(CowArguments, AStoreHoldsEveryChunkAndItsRecord) {
  constexpr Bytes kExtent{4 * kMiB.value};
  EXPECT_EQ(CowStoreSize({10 * kExtent.value}, kExtent), Extents{11});
  EXPECT_EQ(CowStoreSize({80 * kExtent.value}, kExtent), Extents{81});
  // 4096 chunks of 64 KiB need one area of records and one that ends them.
  EXPECT_EQ(CowStoreSize({256 * kMiB.value}, {64 * kKiB.value}), Extents{1 + 4096 + 2});
  EXPECT_EQ(CowStoreSize({255 * kMiB.value}, {64 * kKiB.value}), Extents{1 + 4080 + 1});
}

TEST(ThinArguments, SayEverythingThatMatters) {
  MakeThinPool make{.group = "vg0", .name = "qd", .metadata = "qm", .chunk_size = {128 * kKiB.value}};
  EXPECT_THAT(make.Arguments().value(),
              ElementsAre("lvconvert", "-y", "--type", "thin-pool", "--poolmetadata", "vg0/qm",
                          "--poolmetadataspare", "n", "--chunksize", "128k", "--zero", "y", "--discards",
                          "passdown", "--errorwhenfull", "n", "--", "vg0/qd"));
  make.error_when_full = true;
  EXPECT_THAT(After(make.Arguments().value(), "--errorwhenfull"), ElementsAre("y"));
  const CreateThinLv create{
      .group = "vg0", .name = "qx", .pool = "qd", .size = kGiB, .tags = {"quarry.creating"}};
  EXPECT_THAT(create.Arguments().value(),
              ElementsAre("lvcreate", "-y", "--name", "qx", "--type", "thin", "--virtualsize", "1048576k",
                          "--thinpool", "qd", "--setactivationskip", "y", "--activate", "n", "--addtag",
                          "quarry.creating", "--", "vg0"));
  EXPECT_THAT((ExtendThinLv{"vg0", "qx", kGiB}.Arguments()).value(),
              ElementsAre("lvextend", "-y", "--size", "1048576k", "--", "vg0/qx"));
  const ExtendPoolMetadata extend{.group = "vg0",
                                  .name = "qd",
                                  .geometry = Geometry::Make({}).value(),
                                  .step = {Extents{3}, "cling", {"/dev/a:0-2"}},
                                  .extent_size = {4 * kMiB.value}};
  EXPECT_THAT(extend.Arguments().value(), ElementsAre("lvextend", "-y", "--poolmetadatasize", "+12288k",
                                                      "--alloc", "cling", "--", "vg0/qd", "/dev/a:0-2"));
  EXPECT_THAT((AllocateAnywhere{"vg0", "qm"}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--alloc", "normal", "--", "vg0/qm"));
  EXPECT_THAT((SkipActivation{"vg0", "qd"}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--setactivationskip", "y", "--", "vg0/qd"));
  const CreateThinLv snapshot{
      .group = "vg0", .name = "qs", .pool = "qd", .size = {4 * kMiB.value}, .tags = {}, .read_only = true};
  EXPECT_THAT(snapshot.Arguments().value(), IsSupersetOf({"--permission", "r"}));
  EXPECT_THAT(
      (SwapPoolMetadata{"vg0", "qd", "meta0_qd"}.Arguments()).value(),
      ElementsAre("lvconvert", "-y", "--swapmetadata", "--poolmetadata", "vg0/meta0_qd", "--", "vg0/qd"));
  EXPECT_THAT((ActivateDegradedThin{"vg0", {"qd", "qx"}}.Arguments()).value(),
              ElementsAre("lvchange", "-y", "--activate", "y", "--ignoreactivationskip", "--activationmode",
                          "partial", "--poll", "n", "--", "vg0/qd", "vg0/qx"));
}

TEST(ThinArguments, ChunksThatTheKernelRefusesAreRefused) {
  MakeThinPool make{.group = "vg0", .name = "qd", .metadata = "qm", .chunk_size = {}};
  for (const uint64_t good : {64 * kKiB.value, 192 * kKiB.value, kGiB.value}) {
    make.chunk_size = {good};
    EXPECT_TRUE(make.Arguments().has_value()) << good;
  }
  for (const uint64_t bad : {uint64_t{0}, 4 * kKiB.value, 100 * kKiB.value, kGiB.value + 64 * kKiB.value}) {
    make.chunk_size = {bad};
    const auto refused = make.Arguments();
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("64 KiB"));
  }
}

// "@tag" would select every LV with that tag; "a/b" names another group's LV.
TEST(AllArguments, NamesThatLvmWouldMisreadAreRefused) {
  for (const char* bad : {"", "@quarry.ready", "a/b", "-f", ".", "..", "a b", "a*", "a\n"}) {
    EXPECT_EQ((RemoveLvs{"vg0", {bad}, 0}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((RemoveLvs{bad, {"qx"}, 0}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((ChangeTags{bad, "qx", {"a"}, {}}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((ActivateLvs{"vg0", {"qx", bad}}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((DeactivateLv{"vg0", bad, 0}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(ReadArguments(bad).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((RepairLv{"vg0", bad, {}}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((RefreshLvs{"vg0", {"qx", bad}}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((RestorePv{bad, "/dev/a"}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((DropMissingPvs{bad}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((SplitCow{"vg0", "qx", bad}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((CreateCow{.group = "vg0", .name = bad, .store = "qs", .step = {}, .tags = {}}.Arguments())
                  .error()
                  .code(),
              Code::kInvalidArgument)
        << bad;
    EXPECT_EQ((MakeThinPool{.group = "vg0", .name = "qd", .metadata = bad, .chunk_size = kMiB}.Arguments())
                  .error()
                  .code(),
              Code::kInvalidArgument)
        << bad;
    EXPECT_EQ((CreateThinLv{.group = "vg0", .name = "qx", .pool = bad, .size = kMiB, .tags = {}}.Arguments())
                  .error()
                  .code(),
              Code::kInvalidArgument)
        << bad;
    EXPECT_EQ((ExtendThinLv{"vg0", bad, kMiB}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((AllocateAnywhere{"vg0", bad}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((SkipActivation{"vg0", bad}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((SwapPoolMetadata{"vg0", "qd", bad}.Arguments()).error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((ActivateDegradedThin{"vg0", {"qx", bad}}.Arguments()).error().code(), Code::kInvalidArgument)
        << bad;
    CreateLv spec = Spec({});
    spec.name = bad;
    EXPECT_EQ(spec.Arguments().error().code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ((ExtendLv{"vg0", bad, spec.geometry, spec.step}.Arguments()).error().code(),
              Code::kInvalidArgument)
        << bad;
  }
  EXPECT_TRUE((RemoveLvs{"my-vg.1+2", {"lvol0"}, 0}.Arguments()).has_value());
}

TEST(VersionTest, IsFoundInTheOutput) {
  EXPECT_EQ(ParseVersion("  LVM version:     2.03.16(2) (2022-05-18)\n  Library version: 1.02.185\n").value(),
            "2.03.16");
  EXPECT_EQ(ParseVersion("LVM version: 2.03.31(2)").value(), "2.03.31");
  EXPECT_EQ(ParseVersion("").error().code(), Code::kCorrupt);
  EXPECT_EQ(ParseVersion("LVM version: none").error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace quarry::lvm
