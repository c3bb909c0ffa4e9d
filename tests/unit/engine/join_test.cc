// The verdict on each disk, from the facts of a survey.
#include "engine/disks/join.h"
#include "engine/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::engine {
namespace {

using lvm::PvFacts;
using testing::HasSubstr;
using testing::StartsWith;

const Result<mount::Content> kBlank = mount::Content{};
const Result<mount::Content> kExt4 = mount::Content{mount::Content::Kind::kFilesystem, "ext4", "u"};

// Pool "p" on group "vg" of one disk, "nvme0n1", taking NVMe disks of 1 GiB or more.
class JoinTest : public testing::Test {
 protected:
  JoinTest() {
    pool_.name = "p";
    pool_.group = "vg";
    pool_.devices = {{.transport = "nvme", .min_size = kGiB}};
    group_.name = "vg";
    group_.uuid = "group-uuid";
    group_.extent_size = Bytes{4 * kMiB.value};
    lvm::PhysicalVolume pv;
    pv.uuid = "pv0";
    pv.device = "/run/pv0";
    group_.pvs = {pv};
    SeenDisk& member = Add("nvme0n1", std::nullopt);
    member.pv = {PvFacts::Kind::kPv, "pv0", "vg", "group-uuid"};
  }
  // A disk that only libblkid's answer can keep from joining.
  SeenDisk& Add(const std::string& name, std::optional<Result<mount::Content>> content = kBlank) {
    SeenDisk seen;
    seen.disk.name = name;
    seen.disk.node = "/dev/" + name;
    seen.disk.identity = "eui." + name;
    seen.disk.number = {259, static_cast<uint32_t>(survey_.disks.size())};
    seen.disk.transport = "nvme";
    seen.disk.size = Bytes{10 * kGiB.value};
    seen.disk.logical_block = Bytes{512};
    seen.content = std::move(content);
    survey_.disks.push_back(std::move(seen));
    return survey_.disks.back();
  }
  std::vector<Verdict> JudgeAll() {
    SeenPool seen{.config = &pool_, .members = {{"pv0", {259, 0}}}};
    seen.problem = problem_;
    if (there_) {
      seen.group = std::make_shared<const lvm::VolumeGroup>(group_);
    }
    survey_.pools = {seen};
    return Judge(survey_);
  }
  Verdict Last() { return JudgeAll().back(); }
  void ExpectLeft(const std::string& words) {
    const Verdict verdict = Last();
    EXPECT_EQ(verdict.standing, Standing::kLeft) << words;
    EXPECT_THAT(verdict.words, HasSubstr(words));
  }

  PoolConfig pool_;
  lvm::VolumeGroup group_;
  bool there_ = true;
  std::string problem_;
  Survey survey_;
};

TEST_F(JoinTest, AMemberIsKnownByItsUuidNotByItsName) {
  const Verdict verdict = Last();
  EXPECT_EQ(verdict.standing, Standing::kMember);
  EXPECT_EQ(verdict.named, "p");
  EXPECT_EQ(verdict.holds, "LVM physical volume of vg");
  EXPECT_EQ(verdict.rule, "transport=nvme, min-size=1 GiB");
}

TEST_F(JoinTest, ABlankDiskThatMeetsARuleIsFree) {
  Add("nvme1n1");
  EXPECT_EQ(Last().standing, Standing::kFree);
  EXPECT_EQ(Last().named, "p");
  there_ = false;
  EXPECT_EQ(Last().standing, Standing::kFree) << "for the group that is to be made";
}

TEST_F(JoinTest, ADiskThatWasNotProbedIsWantedAndNotFree) {
  Add("nvme1n1", std::nullopt);
  EXPECT_EQ(Last().standing, Standing::kWanted);
}

TEST_F(JoinTest, ADiskInDoubtNeverJoins) {
  Add("nvme1n1", kExt4);
  ExpectLeft("not blank, holds ext4");
  survey_.disks.back().content = mount::Content{mount::Content::Kind::kAmbiguous, "", ""};
  ExpectLeft("several signatures");
  survey_.disks.back().content = Result<mount::Content>(Error(Code::kPrecondition, "opening it: busy"));
  ExpectLeft("opening it: busy");
  survey_.disks.back().content = kBlank;
  ASSERT_EQ(Last().standing, Standing::kFree);
  survey_.disks.back().disk.partitions = {"nvme1n1p1"};
  ExpectLeft("has partitions: nvme1n1p1");
  survey_.disks.back().disk.partitions.clear();
  survey_.disks.back().disk.holders = {"dm-4"};
  ExpectLeft("in use by dm-4");
  survey_.disks.back().disk.holders.clear();
  survey_.disks.back().disk.read_only = true;
  ExpectLeft("read-only");
  survey_.disks.back().disk.read_only = false;
  survey_.disks.back().pv.kind = PvFacts::Kind::kSilent;
  ExpectLeft("does not answer");
  survey_.disks.back().pv.kind = PvFacts::Kind::kUnreadable;
  ExpectLeft("cannot be read");
  survey_.disks.back().pv.kind = PvFacts::Kind::kDamaged;
  ExpectLeft("its LVM label is damaged");
}

TEST_F(JoinTest, BytesWithoutASignatureJoinOnlyByWipeOkOrByPath) {
  Add("nvme1n1", mount::Content{.residue = Bytes{123456}});
  ExpectLeft("byte 123456 is not zero");
  ExpectLeft("blkdiscard --zeroout /dev/nvme1n1");
  EXPECT_EQ(Last().holds, "data without a signature");
  there_ = false;
  ExpectLeft("byte 123456 is not zero");
  pool_.devices.front().wipe_ok = true;
  EXPECT_EQ(Last().standing, Standing::kFree);
  EXPECT_EQ(Last().rule, "transport=nvme, min-size=1 GiB, wipe-ok=true");
  pool_.devices = {{.path = "/dev/nvme1n1"}};
  EXPECT_EQ(Last().standing, Standing::kFree) << "this very disk was named";
  pool_.devices = {{.path = "/dev/nvme*"}};
  survey_.disks.back().disk.links = {"/dev/nvme1n1"};
  ExpectLeft("byte 123456 is not zero");
}

TEST_F(JoinTest, PvsOfOtherGroupsAreLeftAlone) {
  Add("nvme1n1").pv = {PvFacts::Kind::kPv, "other", "vg9", "uuid9"};
  ExpectLeft("belongs to volume group vg9");
  EXPECT_EQ(Last().holds, "LVM physical volume of vg9");
  survey_.disks.back().pv = {PvFacts::Kind::kPv, "other", "vg", "another-uuid"};
  ExpectLeft("another volume group vg of this name");
  survey_.disks.back().pv = {PvFacts::Kind::kPv, "other", "", ""};
  ExpectLeft("in no group");
}

TEST_F(JoinTest, ACopyOfAMemberIsDistinguishedFromTheMember) {
  Add("nvme1n1").pv = {PvFacts::Kind::kPv, "pv0", "vg", "group-uuid"};
  EXPECT_EQ(JudgeAll()[0].standing, Standing::kMember);
  ExpectLeft("bears the UUID of another disk of pool 'p'");
  Add("nvme2n1");
  ExpectLeft("two disks of volume group vg have the same UUID");
}

TEST_F(JoinTest, TheFirstMatchingRuleCountsAfterTheExclusions) {
  Add("nvme1n1");
  pool_.exclude = {{.path = "/dev/nvme1n1"}};
  ExpectLeft("excluded from pool 'p' by [/dev/nvme1n1]");
  EXPECT_EQ(Last().rule, "");
  pool_.exclude.clear();
  pool_.devices = {{.serial = "none"}, {.transport = "nvme"}, {.model = "*"}};
  EXPECT_EQ(Last().rule, "transport=nvme");
  pool_.devices = {{.serial = "none"}};
  ExpectLeft("matches no pool's rule");
}

TEST_F(JoinTest, ADiskOfTheWrongSizeIsReported) {
  Add("nvme1n1").disk.size = Bytes{100 * kMiB.value};
  ExpectLeft("would join pool 'p' by [transport=nvme, min-size=1 GiB], but is smaller than 1 GiB");
  pool_.devices = {{.transport = "nvme"}};
  EXPECT_EQ(Last().standing, Standing::kFree);
  survey_.disks.back().disk.size = Bytes{65 * kMiB.value};
  ExpectLeft("too small");
}

TEST_F(JoinTest, TwoPathsToOneDiskAreNotTwoDisks) {
  Add("nvme1n1").disk.identity = "naa.1";
  Add("nvme2n1").disk.identity = "naa.1";
  ExpectLeft("another device has the same identity naa.1");
  EXPECT_EQ(JudgeAll()[1].standing, Standing::kLeft);
  there_ = false;
  ExpectLeft("another device has the same identity naa.1");
  survey_.disks[1].disk.identity = survey_.disks[2].disk.identity = "";
  EXPECT_EQ(Last().standing, Standing::kFree) << "a disk without an identity has no twin";
}

TEST_F(JoinTest, NoDiskJoinsAGroupThatLvmWouldNotChange) {
  Add("nvme1n1");
  there_ = false;
  problem_ = "timed out";
  ExpectLeft("the pool cannot be read: timed out");
  there_ = true;
  problem_.clear();
  survey_.disks.back().disk.logical_block = Bytes{4096};
  ExpectLeft("logical blocks have 4096 bytes");
}

TEST_F(JoinTest, AnExplicitPathMakesAGroupAndAddsNothingToIt) {
  Add("nvme1n1");
  pool_.devices = {{.path = "/dev/nvme1n1"}};
  EXPECT_FALSE(Claims(pool_));
  ExpectLeft("an explicit path makes a group and adds nothing to it");
  there_ = false;
  EXPECT_EQ(Last().standing, Standing::kFree);
  pool_.devices.push_back({.serial = "x"});
  EXPECT_TRUE(Claims(pool_));
}

}  // namespace
}  // namespace quarry::engine
