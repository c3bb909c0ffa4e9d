#include "lvm/names.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace quarry::lvm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What LVM allows in a tag (lib/misc/lvm-string.c, validate_tag).
bool IsTagSafe(std::string_view tag) {
  return !tag.empty() && tag.size() <= 1024 &&
         tag.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-/=!:&#") ==
             std::string_view::npos;
}

VolumeTags Sample() {
  VolumeTags tags;
  tags.id = "fast.qabcdefghijklmnopqrstuvwxy2";
  tags.co_name = "pvc-6f1c";
  tags.size = Bytes{12345};
  tags.profile = "type=raid1 mirrors=1";
  tags.access = "mount";
  tags.fs_type = "xfs";
  tags.erase = "zero";
  return tags;
}

std::vector<std::string> Without(std::vector<std::string> tags, std::string_view start) {
  std::erase_if(tags, [&](const std::string& tag) { return tag.starts_with(start); });
  return tags;
}

void ExpectSame(const VolumeTags& a, const VolumeTags& b) {
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.co_name, b.co_name);
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.profile, b.profile);
  EXPECT_EQ(a.access, b.access);
  EXPECT_EQ(a.fs_type, b.fs_type);
  EXPECT_EQ(a.formatted, b.formatted);
  EXPECT_EQ(a.erase, b.erase);
}

TEST(LvName, IsRandomValidAndLeavesRoomForLvmsSuffixes) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = NewLvName();
    EXPECT_TRUE(IsOurLvName(name)) << name;
    EXPECT_LE(name.size(), 27U);
    EXPECT_EQ(name.find('-'), std::string::npos);
    seen.insert(name);
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(LvName, UsesEveryDigitSoThatTheRandomBitsAreAllThere) {
  std::array<std::set<char>, 27> digits;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = NewLvName();
    for (size_t at = 0; at < name.size(); ++at) {
      digits[at].insert(name[at]);
    }
  }
  for (size_t at = 1; at < 26; ++at) {
    EXPECT_EQ(digits[at].size(), 32U) << at;
  }
  EXPECT_EQ(digits[26].size(), 8U);
}

TEST(LvName, OthersAreNotOurs) {
  for (const char* name :
       {"", "q", "lvol0", "qabcdefghijklmnopqrstuvwxyz", "qABCDEFGHIJKLMNOPQRSTUVWXYA",
        "qabcdefghijklmnopqrstuvw-ya", "xabcdefghijklmnopqrstuvwxya", "qabcdefghijklmnopqrstuvwxyb",
        "qabcdefghijklmnopqrstuvwxyaa", "qabcdefghijklmnopqrstuvwx1a"}) {
    EXPECT_FALSE(IsOurLvName(name)) << name;
  }
  EXPECT_TRUE(IsOurLvName("qabcdefghijklmnopqrstuvwxya"));
}

TEST(MetadataLvNameTest, PairsWithItsImage) {
  EXPECT_EQ(MetadataLvName("vol_rimage_0"), "vol_rmeta_0");
  EXPECT_EQ(MetadataLvName("a_rimage_b_rimage_63"), "a_rimage_b_rmeta_63");
  EXPECT_EQ(MetadataLvName("vol"), "");
}

TEST(ThinNames, OfHiddenVolumesComeFromThePool) {
  EXPECT_EQ(ThinDataName("vol"), "vol_tdata");
  EXPECT_EQ(ThinMetadataName("vol"), "vol_tmeta");
  EXPECT_TRUE(IsLegOf("vol_tdata_rimage_0", ThinDataName("vol")));
  EXPECT_FALSE(IsLegOf("vol_tdata_rimage_0", "vol"));
  const std::string longest = ThinDataName(NewLvName()) + "_rimage_63";
  EXPECT_TRUE(IsLvmName(longest));
  EXPECT_EQ(OurLvNameIn(longest).size(), NewLvName().size());
}

TEST(KeptMetadataTest, NamesAndTagsAreReadAsTheyAreMade) {
  const std::string name = KeptMetadataName("qabc", 12);
  EXPECT_EQ(name, "meta12_qabc");
  EXPECT_EQ(KeptMetadataNameIn(name, "qabc"), name);
  EXPECT_EQ(KeptMetadataNameIn(name + "_rmeta_0", "qabc"), name);
  EXPECT_EQ(KeptMetadataNameIn(name + "_rimage_1", "qabc"), name);
  for (const std::string_view other : {"meta_qabc", "meta1_qab", "meta1_qabcd", "meta1_qabc_rmeta_",
                                       "meta1x_qabc", "xmeta1_qabc", "meta1_qabc_tmeta", "qabc", "meta1"}) {
    EXPECT_EQ(KeptMetadataNameIn(other, "qabc"), "") << other;
  }
  const std::vector<std::string> tags = {"of an administrator", ReplacesTag("u-1"), KeptTag("u-2")};
  EXPECT_EQ(Replaces(tags), "u-1");
  EXPECT_EQ(KeptTags(tags), std::vector{KeptTag("u-2")});
  EXPECT_EQ(KeptMetadata(tags[2]), "u-2");
  EXPECT_EQ(KeptMetadata(tags[1]), "");
}

TEST(IsLegOfTest, GoesByTheWholeName) {
  EXPECT_TRUE(IsLegOf("vol_rimage_0", "vol"));
  EXPECT_TRUE(IsLegOf("vol_rmeta_63", "vol"));
  for (const char* other : {"", "vol", "pvmove0", "vol_rimage_", "vol_rimage_x", "vol_rimage_0_extracted",
                            "vol_rimage_0_iorig", "vol2_rimage_0", "xvol_rimage_0", "vol_corig"}) {
    EXPECT_FALSE(IsLegOf(other, "vol")) << other;
  }
  EXPECT_FALSE(IsLegOf("_rimage_0", ""));
}

TEST(Tags, OfAReadyVolumeComeBackWhole) {
  VolumeTags tags = Sample();
  tags.formatted = "xfs";
  const auto parsed = ParseTags(BuildTags(tags));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
  ASSERT_TRUE(parsed->has_value());
  ExpectSame(**parsed, tags);
}

TEST(Tags, ShowAnInlineVolume) {
  EXPECT_FALSE((*ParseTags(BuildTags(Sample())))->ephemeral);
  VolumeTags tags = Sample();
  tags.ephemeral = true;
  std::vector<std::string> built = BuildTags(tags);
  EXPECT_THAT(built, Contains("quarry.ephemeral=true"));
  EXPECT_TRUE((*ParseTags(built))->ephemeral);
  std::ranges::replace(built, "quarry.ephemeral=true", "quarry.ephemeral=maybe");
  EXPECT_EQ(ParseTags(built).error().code(), Code::kCorrupt);
}

TEST(DeviceNames, OfLayersComeFromThoseOfTheVolume) {
  EXPECT_EQ(DmUuidBelow("LVM-x"), "LVM-x-real");
  EXPECT_EQ(DmUuidOfStore("LVM-x"), "LVM-x-cow");
  EXPECT_EQ(WithoutLayer("vg-x-real"), "vg-x");
  EXPECT_EQ(WithoutLayer("vg-x-cow"), "vg-x");
  EXPECT_EQ(WithoutLayer("vg-x"), "vg-x");
}

TEST(Tags, ShowTheStoreOfACopy) {
  VolumeTags tags = Sample();
  EXPECT_FALSE((*ParseTags(BuildTags(tags)))->cow);
  tags.state = VolumeState::kErasing;
  EXPECT_FALSE(IsCowStore(BuildTags(tags)));
  tags.cow = true;
  std::vector<std::string> built = BuildTags(tags);
  EXPECT_THAT(built, Contains("quarry.cow=true"));
  EXPECT_TRUE((*ParseTags(built))->cow);
  EXPECT_TRUE(IsCowStore(built));
  std::ranges::replace(built, "quarry.cow=true", "quarry.cow=maybe");
  EXPECT_EQ(ParseTags(built).error().code(), Code::kCorrupt);
}

TEST(Tags, ShowACopyThatIsNotWhole) {
  VolumeTags tags = Sample();
  tags.state = VolumeState::kErasing;
  tags.copying = "9a1c-boot";
  const std::vector<std::string> built = BuildTags(tags);
  EXPECT_THAT(built, Contains(CopyingTag("9a1c-boot")));
  EXPECT_EQ((*ParseTags(built))->copying, "9a1c-boot");
  tags.copying.clear();
  EXPECT_EQ((*ParseTags(BuildTags(tags)))->copying, "");
}

TEST(Tags, AreReadableByPeople) {
  EXPECT_THAT(
      BuildTags(Sample()),
      ElementsAre("quarry.ready", "quarry.v=1", "quarry.id=fast.qabcdefghijklmnopqrstuvwxy2",
                  "quarry.name=pvc-6f1c", "quarry.size=12345", "quarry.profile=type=raid1+20mirrors=1",
                  "quarry.access=mount", "quarry.erase=zero", "quarry.fs=xfs"));
}

TEST(Tags, OfOthersAreNotOurs) {
  for (const std::vector<std::string>& tags :
       std::vector<std::vector<std::string>>{{}, {"VN.abc", "quarr", "quarry", "xquarry.ready"}}) {
    const auto parsed = ParseTags(tags);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_FALSE(parsed->has_value());
  }
}

TEST(Tags, MarkerAloneMeansCreating) {
  const auto parsed = ParseTags({std::string(kCreatingTag)});
  ASSERT_TRUE(parsed.has_value() && parsed->has_value());
  EXPECT_EQ((*parsed)->state, VolumeState::kCreating);
  EXPECT_THAT((*parsed)->id, IsEmpty());
}

TEST(Tags, SingleTagsEqualTheOnesBuilt) {
  VolumeTags tags = Sample();
  tags.state = VolumeState::kErasing;
  tags.formatted = "ext4";
  const std::vector<std::string> built = BuildTags(tags);
  EXPECT_THAT(built, Contains(StateTag(VolumeState::kErasing)));
  EXPECT_THAT(built, Contains(SizeTag(Bytes{12345})));
  EXPECT_THAT(built, Contains(FormattedTag("ext4")));
  EXPECT_EQ(StateTag(VolumeState::kCreating), kCreatingTag);
}

TEST(Tags, SayThatAVolumeIsABucket) {
  VolumeTags tags{.id = "p.x",
                  .co_name = "s3:logs",
                  .size = Bytes{1},
                  .profile = "type=linear",
                  .access = "mount",
                  .fs_type = "xfs",
                  .formatted = "",
                  .erase = "zero",
                  .erased = "",
                  .scrubbed = ""};
  tags.s3 = "durability=sync\nname=logs";
  const auto built = BuildTags(tags);
  EXPECT_THAT(built, testing::Contains("quarry.s3=durability=sync+0Aname=logs"));
  EXPECT_THAT(built, testing::Contains("quarry.v=1")) << "earlier builds erase it when it is deleted";
  EXPECT_EQ((*ParseTags(built))->s3, tags.s3);
  tags.s3.clear();
  EXPECT_EQ((*ParseTags(BuildTags(tags)))->s3, "");
}

TEST(Tags, OfASnapshotAreUnknownToOlderBuildsWhileItIsReady) {
  VolumeTags tags = Sample();
  tags.snapshot = true;
  tags.source = "pool.qvolume";
  tags.cut = 1'795'752'934'000'000'001;
  tags.length = Bytes{4096};
  tags.asked = Bytes{4000};
  const std::vector<std::string> ready = BuildTags(tags);
  EXPECT_THAT(ready, Contains("quarry.v=2"));
  EXPECT_THAT(ready, testing::Not(Contains("quarry.v=1")));
  const auto parsed = ParseTags(ready);
  ASSERT_TRUE(parsed.has_value() && parsed->has_value());
  EXPECT_TRUE((*parsed)->snapshot);
  EXPECT_EQ((*parsed)->cut, tags.cut);
  EXPECT_EQ((*parsed)->length, tags.length);
  EXPECT_EQ((*parsed)->asked, tags.asked);
  EXPECT_EQ((*parsed)->source, tags.source);
  tags.state = VolumeState::kErasing;
  EXPECT_THAT(BuildTags(tags), Contains("quarry.v=1"));
  EXPECT_TRUE((**ParseTags(BuildTags(tags))).snapshot);
  for (const char* key : {"quarry.cut", "quarry.length"}) {
    EXPECT_EQ(ParseTags(Without(ready, std::string(key) + "=")).error().code(), Code::kCorrupt) << key;
  }
  // Format 2 is known of snapshots only, and no other kind is known.
  EXPECT_EQ(ParseTags(Without(ready, "quarry.kind=")).error().code(), Code::kUnsupported);
  std::vector<std::string> other = Without(ready, "quarry.kind=");
  other.push_back("quarry.kind=store");
  EXPECT_EQ(ParseTags(other).error().code(), Code::kUnsupported);
}

TEST(Tags, OfASnapshotInAThinStoreAreOfFormat3InEveryState) {
  VolumeTags tags = Sample();
  tags.thin = true;
  tags.snapshot = true;
  tags.source = "pool.qvolume";
  tags.cut = 7;
  tags.length = Bytes{4096};
  tags.mapped = Bytes{1024};
  tags.group = "pool.qleader.group";
  tags.group_name = "nightly of all";
  tags.group_members = 3;
  for (const VolumeState state : {VolumeState::kReady, VolumeState::kErasing}) {
    tags.state = state;
    const std::vector<std::string> built = BuildTags(tags);
    EXPECT_THAT(built, Contains("quarry.v=3"));
    EXPECT_THAT(built, Contains("quarry.kind=thinsnapshot"));
    const auto parsed = ParseTags(built);
    ASSERT_TRUE(parsed.has_value() && parsed->has_value());
    EXPECT_TRUE((*parsed)->thin);
    EXPECT_TRUE((*parsed)->snapshot);
    EXPECT_EQ((*parsed)->mapped, tags.mapped);
    EXPECT_EQ((*parsed)->group, tags.group);
    EXPECT_EQ((*parsed)->group_name, tags.group_name);
    EXPECT_EQ((*parsed)->group_members, 3U);
    for (const char* key : {"quarry.mapped", "quarry.cut", "quarry.groupmembers"}) {
      EXPECT_EQ(ParseTags(Without(built, std::string(key) + "=")).error().code(), Code::kCorrupt) << key;
    }
  }
}

TEST(Tags, AStoreRemembersThatItHadSnapshots) {
  VolumeTags tags = Sample();
  tags.store = true;
  EXPECT_FALSE((**ParseTags(BuildTags(tags))).cuts);
  std::vector<std::string> built = BuildTags(tags);
  built.push_back(CutsTag());
  EXPECT_TRUE((**ParseTags(built)).cuts);
  tags.cuts = true;
  EXPECT_THAT(BuildTags(tags), Contains(CutsTag()));
}

TEST(Tags, OfThinStoresAndVolumesAreUnknownToOlderBuildsInEveryState) {
  for (const bool store : {false, true}) {
    VolumeTags tags = Sample();
    tags.store = store;
    tags.thin = !store;
    tags.overruled_metadata = store ? 3 : 0;
    for (const VolumeState state : {VolumeState::kReady, VolumeState::kErasing}) {
      tags.state = state;
      const std::vector<std::string> built = BuildTags(tags);
      EXPECT_THAT(built, Contains("quarry.v=3"));
      EXPECT_THAT(built, Contains(store ? "quarry.kind=store" : "quarry.kind=thin"));
      const auto parsed = ParseTags(built);
      ASSERT_TRUE(parsed.has_value() && parsed->has_value());
      EXPECT_EQ((*parsed)->store, store);
      EXPECT_EQ((*parsed)->thin, !store);
      EXPECT_EQ((*parsed)->overruled_metadata, tags.overruled_metadata);
      // Format 3 is known of these kinds only, and these kinds have no other.
      EXPECT_EQ(ParseTags(Without(built, "quarry.kind=")).error().code(), Code::kUnsupported);
      std::vector<std::string> older = Without(built, "quarry.v=");
      older.emplace_back("quarry.v=1");
      EXPECT_EQ(ParseTags(older).error().code(), Code::kUnsupported);
    }
  }
}

TEST(DmNames, PartsOfThinPoolsHaveLayersOfTheirOwn) {
  EXPECT_EQ(DmUuidOfPart("LVM-x", "q_tdata"), "LVM-x-tdata");
  EXPECT_EQ(DmUuidOfPart("LVM-x", "q_tmeta"), "LVM-x-tmeta");
  EXPECT_EQ(DmUuidOfPart("LVM-x", "q_tdata_rimage_0"), "LVM-x");
  EXPECT_EQ(DmUuidOfPool("LVM-x"), "LVM-x-tpool");
  EXPECT_EQ(DmUuidAbovePool("LVM-x"), "LVM-x-pool");
  for (const char* name : {"vg-q-tpool", "vg-q_tdata", "vg-q_tmeta", "vg-q"}) {
    EXPECT_EQ(WithoutPoolLayer(name), "vg-q") << name;
  }
}

TEST(Tags, EveryMissingOneIsNamed) {
  const std::vector<std::string> all = BuildTags(Sample());
  for (const char* key : {"quarry.v", "quarry.id", "quarry.name", "quarry.size", "quarry.profile",
                          "quarry.access", "quarry.erase"}) {
    const auto parsed = ParseTags(Without(all, std::string(key) + "="));
    ASSERT_FALSE(parsed.has_value()) << key;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr(key));
  }
  const auto stateless = ParseTags(Without(all, "quarry.ready"));
  ASSERT_FALSE(stateless.has_value());
  EXPECT_THAT(stateless.error().message(), HasSubstr("quarry.ready"));
}

TEST(Tags, ContradictionsAreCorrupt) {
  for (const char* extra : {"quarry.erasing", "quarry.creating", "quarry.size=7", "quarry.id=other"}) {
    std::vector<std::string> tags = BuildTags(Sample());
    tags.emplace_back(extra);
    const auto parsed = ParseTags(tags);
    ASSERT_FALSE(parsed.has_value()) << extra;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr(std::string(extra).substr(0, 9)));
  }
}

TEST(Tags, BadValuesAreCorruptAndNamed) {
  for (const char* bad :
       {"quarry.size=", "quarry.size=-1", "quarry.size=12x", "quarry.size=99999999999999999999",
        "quarry.name=a+2", "quarry.name=a+zz", "quarry.name=a+c3"}) {
    const std::string key = std::string(bad).substr(0, 11);
    std::vector<std::string> tags = Without(BuildTags(Sample()), key);
    tags.emplace_back(bad);
    const auto parsed = ParseTags(tags);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr(key));
  }
}

TEST(Tags, UnknownKeysOfTheSameFormatAreIgnored) {
  std::vector<std::string> tags = BuildTags(Sample());
  tags.insert(tags.end(), {"quarry.colour=blue", "quarry.flag", "foreign"});
  const auto parsed = ParseTags(tags);
  ASSERT_TRUE(parsed.has_value() && parsed->has_value());
  ExpectSame(**parsed, Sample());
}

TEST(Tags, AnotherFormatIsRefusedNotGuessed) {
  std::vector<std::string> tags = Without(BuildTags(Sample()), "quarry.v=");
  tags.emplace_back("quarry.v=2");
  const auto parsed = ParseTags(tags);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code(), Code::kUnsupported);
  EXPECT_THAT(parsed.error().message(), HasSubstr("'2'"));
}

TEST(Tags, LongValuesAreSpreadOverSeveral) {
  VolumeTags tags = Sample();
  tags.profile = std::string(5000, ' ');
  const std::vector<std::string> built = BuildTags(tags);
  EXPECT_TRUE(std::ranges::all_of(built, IsTagSafe));
  const auto parsed = ParseTags(built);
  ASSERT_TRUE(parsed.has_value() && parsed->has_value());
  EXPECT_EQ((*parsed)->profile, tags.profile);
}

RC_GTEST_PROP(TagsProperty, AnyVolumeComesBackFromItsTagsInAnyOrder, ()) {
  VolumeTags tags;
  tags.state = *rc::gen::element(VolumeState::kReady, VolumeState::kErasing);
  tags.id = *rc::gen::arbitrary<std::string>();
  tags.co_name = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  tags.size = Bytes{*rc::gen::arbitrary<uint64_t>()};
  tags.profile = *rc::gen::arbitrary<std::string>();
  tags.access = *rc::gen::element<std::string>("block", "mount");
  tags.fs_type = *rc::gen::element<std::string>("", "ext4", "xfs");
  tags.formatted = *rc::gen::element<std::string>("", "ext4", "xfs");
  tags.erase = *rc::gen::element<std::string>("none", "discard", "zero");
  std::vector<std::string> built = BuildTags(tags);
  RC_ASSERT(std::ranges::all_of(built, IsTagSafe));
  std::ranges::sort(built);  // LVM keeps no order
  const auto parsed = ParseTags(built);
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(parsed->has_value());
  RC_ASSERT((*parsed)->state == tags.state);
  RC_ASSERT((*parsed)->id == tags.id);
  RC_ASSERT((*parsed)->co_name == tags.co_name);
  RC_ASSERT((*parsed)->size == tags.size);
  RC_ASSERT((*parsed)->profile == tags.profile);
  RC_ASSERT((*parsed)->access == tags.access);
  RC_ASSERT((*parsed)->fs_type == tags.fs_type);
  RC_ASSERT((*parsed)->formatted == tags.formatted);
  RC_ASSERT((*parsed)->erase == tags.erase);
}

RC_GTEST_PROP(EscapeProperty, AnyBytesComeBack, (const std::vector<uint8_t>& bytes)) {
  const std::string text(bytes.begin(), bytes.end());
  const std::string escaped = EscapeForTag(text);
  RC_ASSERT(escaped.empty() || IsTagSafe("quarry.x=" + escaped.substr(0, 900)));
  const auto back = UnescapeFromTag(escaped);
  RC_ASSERT(back.has_value());
  RC_ASSERT(*back == text);
}

RC_GTEST_PROP(EscapeProperty, UnescapeNeverTakesWhatItCannotMean, (const std::string& text)) {
  const auto back = UnescapeFromTag(text);
  if (back.has_value()) {
    RC_ASSERT(text.find_first_of(" ,%@~\"'") == std::string::npos);
    RC_ASSERT(UnescapeFromTag(EscapeForTag(*back)).value() == *back);
  }
}

TEST(Escape, UnicodeNamesOf128BytesFitOneTag) {
  std::string name;
  while (name.size() + 4 <= 128) {
    name += "\xF0\x9F\xAA\xA8";
  }
  VolumeTags tags = Sample();
  tags.co_name = name;
  const std::vector<std::string> built = BuildTags(tags);
  EXPECT_EQ(std::ranges::count_if(built, [](const auto& tag) { return tag.starts_with("quarry.name"); }), 1);
  EXPECT_EQ(ParseTags(built).value().value().co_name, name);
}

TEST(VolumeIdTest, ComesApartAgain) {
  const std::string lv = NewLvName();
  for (const char* pool : {"p", "fast", "a.b-c_d", "0123456789abcdef0123456789abcdef"}) {
    const std::string id = VolumeId(pool, lv);
    EXPECT_LE(id.size(), 64U);
    const auto parts = ParseVolumeId(id);
    ASSERT_TRUE(parts.has_value()) << id;
    EXPECT_EQ(parts->pool, pool);
    EXPECT_EQ(parts->lv_name, lv);
    EXPECT_EQ(parts->node_hash, "");
    const std::string named = VolumeId(pool, lv, NodeHash("node-1"));
    EXPECT_LE(named.size(), 72U);
    const auto of_node = ParseVolumeId(named);
    ASSERT_TRUE(of_node.has_value()) << named;
    EXPECT_EQ(of_node->pool, pool);
    EXPECT_EQ(of_node->lv_name, lv);
    EXPECT_EQ(of_node->node_hash, NodeHash("node-1"));
  }
}

TEST(VolumeIdTest, APseudoHashBelongsToThePoolName) {
  const std::string lv = NewLvName();
  for (const char* pool : {"pool.0123abcg", "pool.0123abc", "pool.0123ABCD", "0123abcd"}) {
    const auto parts = ParseVolumeId(VolumeId(pool, lv));
    ASSERT_TRUE(parts.has_value()) << pool;
    EXPECT_EQ(parts->pool, pool);
    EXPECT_EQ(parts->node_hash, "");
  }
  EXPECT_EQ(ParseVolumeId("p.0123abcd.4567cdef." + lv)->pool, "p.0123abcd");
}

TEST(VolumeIdTest, NamesOfNodesAreHashedTheSameForEver) {
  EXPECT_EQ(NodeHash(""), "811c9dc5");
  EXPECT_EQ(NodeHash("a"), "e40c292c");
  EXPECT_EQ(NodeHash("foobar"), "bf9cf968");
  EXPECT_NE(NodeHash("node-1"), NodeHash("node-2"));
}

TEST(VolumeIdTest, OthersAreRefused) {
  const std::string lv = NewLvName();
  for (const std::string& id : std::vector<std::string>{
           "", ".", lv, "." + lv, "../x." + lv, "a/b." + lv, "-a." + lv, std::string(33, 'a') + "." + lv,
           "pool." + lv + "x", "pool." + lv + ".0123abcd", "0123abcd", ".0123abcd", ".0123abcd." + lv,
           "pool..0123abcd." + lv.substr(1), "pool.lvol0", "po ol." + lv, "pool.0123abcd.",
           std::string("po\0ol.", 6) + lv}) {
    EXPECT_FALSE(ParseVolumeId(id).has_value()) << id;
  }
}

TEST(ForeignIdTest, IsMadeOfTheUuidAndNeverLooksLikeOurs) {
  constexpr char kUuid[] = "QV9pV1-i7vA-OIF6-VL47-mLNP-L23A-PY7Kgj";
  const auto id = ForeignVolumeId("0123456789abcdef0123456789abcdef", kUuid);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(*id, "0123456789abcdef0123456789abcdef.fQV9pV1i7vAOIF6VL47mLNPL23APY7Kgj");
  EXPECT_LE(id->size(), 66U);
  const auto parts = ParseVolumeId(*id);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->lv_uuid, "QV9pV1i7vAOIF6VL47mLNPL23APY7Kgj");
  EXPECT_EQ(parts->lv_name, "");
  EXPECT_FALSE(IsOurLvName(id->substr(id->rfind('.') + 1)));
  for (const std::string uuid :
       {"", "short", "QV9pV1-i7vA-OIF6-VL47-mLNP-L23A-PY7K#j", "QV9pV1-i7vA-OIF6-VL47-mLNP-L23A-PY7Kgjx"}) {
    EXPECT_FALSE(ForeignVolumeId("p", uuid).has_value()) << uuid;
  }
  for (const std::string other :
       {"p.gQV9pV1i7vAOIF6VL47mLNPL23APY7Kgj", "p.fQV9pV1i7vAOIF6VL47mLNPL23APY7Kg",
        "p.fQV9pV1-7vAOIF6VL47mLNPL23APY7Kgj", ".fQV9pV1i7vAOIF6VL47mLNPL23APY7Kgj"}) {
    EXPECT_FALSE(ParseVolumeId(other).has_value()) << other;
  }
}

TEST(CsilvmTest, NamesComeOutOfTheTags) {
  const auto name = [](const std::vector<std::string>& tags) {
    return CsilvmName("csilv1y2p0ij32e8e7", tags);
  };
  EXPECT_EQ(name({"x", "VN.disk-1"}).value(), "disk-1");
  EXPECT_EQ(name({"VN+Y2Fmw6k"}).value(), "caf\xC3\xA9");
  EXPECT_EQ(name({"VN+YQ"}).value(), "a");
  EXPECT_EQ(name({"VN+-_8"}).value(), "\xFB\xFF");
  EXPECT_FALSE(CsilvmName("data", {"VN.disk-1"}).value().has_value());
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {}, {"VN."}, {"VN.a", "VN.b"}, {"VN+Y"}, {"VN+Y2Fmw6l"}, {"VN+Y2=="}}) {
    EXPECT_EQ(name(bad).error().code(), Code::kCorrupt);
  }
}

TEST(TagsTest, OursAreToldFromOthers) {
  EXPECT_EQ(TagsOfOurs({"a", "quarry.ready", "quarryx", "quarry.later=1", "VN.x"}),
            (std::vector<std::string>{"quarry.ready", "quarry.later=1"}));
}

TEST(TagsTest, ThatADiskDropsLegsIsReadFromItsTags) {
  const std::chrono::sys_seconds early{std::chrono::seconds(1700000000)};
  const auto late = early + std::chrono::hours(1);
  EXPECT_EQ(DroppingTag(early), "quarry.dropping=1700000000");
  EXPECT_EQ(DroppedAt({"quarry.leaving", DroppingTag(early)}), early);
  EXPECT_EQ(DroppedAt({DroppingTag(late), DroppingTag(early)}), late);
  EXPECT_EQ(DroppedAt({}), std::nullopt);
  for (const char* text :
       {"quarry.dropping", "quarry.dropping=", "quarry.dropping=soon", "quarry.dropping=-5",
        "quarry.dropping=18446744073709551615", "quarry.droppings=5"}) {
    EXPECT_EQ(DroppedAt({text}), std::nullopt) << text;
  }
  EXPECT_EQ(DroppingTags({"a", "quarry.dropping=soon", DroppingTag(late), "quarry.droppings=5"}),
            (std::vector<std::string>{"quarry.dropping=soon", DroppingTag(late)}));
}

TEST(DeviceMapper, UuidAndNameFollowLvmsRules) {
  EXPECT_EQ(DmUuid("Cs6RcW-Zyld-wABZ-N0Eo-03Xo-04mc-FfmcYK", "QV9pV1-i7vA-OIF6-VL47-mLNP-L23A-PY7Kgj"),
            "LVM-Cs6RcWZyldwABZN0Eo03Xo04mcFfmcYKQV9pV1i7vAOIF6VL47mLNPL23APY7Kgj");
  EXPECT_EQ(DmName("vg-0", "a-b"), "vg--0-a--b");
  EXPECT_EQ(DmName("vg", "lv"), "vg-lv");
}

}  // namespace
}  // namespace quarry::lvm
