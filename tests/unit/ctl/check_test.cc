#include "ctl/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kGi = int64_t{1} << 30;

CheckLimits Limits(const std::vector<std::string>& warning = {},
                   const std::vector<std::string>& critical = {}) {
  return {*FreeLimits::Parse(warning, "10%"), *FreeLimits::Parse(critical, "5%")};
}

// A pool of two disks with one volume, and nothing wrong.
pb::GetStatusResponse Node() {
  pb::GetStatusResponse status;
  auto& pool = *status.add_pools();
  pool.set_name("main");
  pool.set_volume_group("vg");
  pool.set_size_bytes(100 * kGi);
  pool.set_free_bytes(40 * kGi);
  pool.set_metadata_size_bytes(1000000);
  pool.set_metadata_free_bytes(499000);
  for (const char* uuid : {"uuid-1", "uuid-2"}) {
    auto& disk = *pool.add_disks();
    disk.set_pv_uuid(uuid);
    disk.set_device(std::string("/nowhere/") + uuid);
    disk.set_state("ok");
  }
  auto& volume = *pool.add_volumes();
  volume.set_volume_id("main.qa");
  volume.set_name("database");
  volume.set_type("raid1");
  volume.set_condition("healthy");
  return status;
}

pb::GetStatusResponse::Pool& PoolOf(pb::GetStatusResponse& status) {
  return *status.mutable_pools(0);
}

CheckStatus StatusWithDisk(const std::string& state) {
  pb::GetStatusResponse status = Node();
  PoolOf(status).mutable_disks(1)->set_state(state);
  return Check(status, Limits()).status;
}

CheckStatus StatusWithVolume(const std::string& condition) {
  pb::GetStatusResponse status = Node();
  PoolOf(status).mutable_volumes(0)->set_condition(condition);
  return Check(status, Limits()).status;
}

TEST(Check, ANodeThatIsWellIsOneLineWithFigures) {
  EXPECT_EQ(CheckText(Check(Node(), Limits())),
            "QUARRY OK - 1 pool, 2 disks, 1 volume; pool main: 40 GiB of 100 GiB free | "
            "main_free=42949672960B;10737418240:;5368709120:;0;107374182400 main_size=107374182400B;;;0; "
            "main_erase_pending=0B;;;0;107374182400 main_disks=2;;;0; main_disks_bad=0;;;0;2 "
            "main_volumes=1;;;0; main_volumes_degraded=0;;;0;1 main_volumes_failed=0;;;0;1\n");
}

TEST(Check, EachConditionHasItsStatus) {
  EXPECT_EQ(StatusWithDisk("ok"), CheckStatus::kOk);
  EXPECT_EQ(StatusWithDisk("leaving"), CheckStatus::kOk);
  EXPECT_EQ(StatusWithDisk("returned"), CheckStatus::kWarning);
  EXPECT_EQ(StatusWithDisk("worn"), CheckStatus::kWarning);
  EXPECT_EQ(StatusWithDisk("failing"), CheckStatus::kCritical);
  EXPECT_EQ(StatusWithDisk("missing"), CheckStatus::kCritical);
  EXPECT_EQ(StatusWithVolume("syncing"), CheckStatus::kOk);
  EXPECT_EQ(StatusWithVolume("repairing"), CheckStatus::kWarning);
  EXPECT_EQ(StatusWithVolume("degraded"), CheckStatus::kWarning);
  EXPECT_EQ(StatusWithVolume("unknown"), CheckStatus::kWarning);
  EXPECT_EQ(StatusWithVolume("failed"), CheckStatus::kCritical);
  EXPECT_EQ(StatusWithVolume("word of a later build"), CheckStatus::kWarning);
}

TEST(Check, TheWorstProblemComesFirstAndEachHasALineWithItsRemedy) {
  pb::GetStatusResponse status = Node();
  auto& volume = *PoolOf(status).mutable_volumes(0);
  volume.set_condition("degraded");
  volume.set_detail("a leg is missing");
  PoolOf(status).mutable_disks(0)->set_state("worn");
  PoolOf(status).mutable_disks(0)->set_detail("120 % of its life is used");
  PoolOf(status).mutable_disks(1)->set_state("missing");
  PoolOf(status).mutable_disks(1)->set_device("");
  const std::string text = CheckText(Check(status, Limits()));
  EXPECT_THAT(text,
              StartsWith("QUARRY CRITICAL - disk uuid-2 of pool main is missing (and 2 more problems) | "
                         "main_free="));
  EXPECT_THAT(text, HasSubstr("\nCRITICAL: disk uuid-2 of pool main is missing. Remedy: plug the disk in"));
  EXPECT_THAT(text, HasSubstr("\nWARNING: disk /nowhere/uuid-1 (uuid-1) of pool main is worn: 120 % of its "
                              "life is used. Remedy: plan its replacement; `quarryctl evacuate "
                              "/nowhere/uuid-1`"));
  EXPECT_THAT(text,
              HasSubstr("\nWARNING: volume database (main.qa) is degraded: a leg is missing. Remedy: "));
  EXPECT_THAT(text, AllOf(HasSubstr("main_disks_bad=2;"), HasSubstr("main_volumes_degraded=1;")));
}

TEST(Check, APoolThatDoesNotServeIsCriticalAndHasNoFigures) {
  pb::GetStatusResponse status = Node();
  auto& pool = *status.add_pools();
  pool.set_name("other");
  pool.set_volume_group("vg2");
  pool.set_problem("volume group vg2 does not exist");
  const CheckReport report = Check(status, Limits());
  EXPECT_EQ(report.status, CheckStatus::kCritical);
  EXPECT_THAT(CheckText(report),
              StartsWith("QUARRY CRITICAL - pool other does not serve: volume group vg2 does not exist | "));
  EXPECT_THAT(report.figures, AllOf(HasSubstr("main_free="), Not(HasSubstr("other"))));
}

TEST(Check, FreeSpaceIsComparedWithTheLimitsOfThePool) {
  pb::GetStatusResponse status = Node();
  EXPECT_EQ(Check(status, Limits({"40%"})).status, CheckStatus::kOk) << "the limit itself is enough";
  EXPECT_EQ(Check(status, Limits({"41%"})).status, CheckStatus::kWarning);
  EXPECT_EQ(Check(status, Limits({"41%"}, {"40.5%"})).status, CheckStatus::kCritical);
  EXPECT_EQ(Check(status, Limits({"50GiB"})).status, CheckStatus::kWarning);
  EXPECT_EQ(Check(status, Limits({"main=0", "50GiB"})).status, CheckStatus::kOk);
  EXPECT_EQ(Check(status, Limits({"main=50GiB"})).status, CheckStatus::kWarning);
  PoolOf(status).set_free_bytes(0);
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kCritical);
  EXPECT_EQ(Check(status, Limits({"0"}, {"0%"})).status, CheckStatus::kOk);
}

TEST(Check, SpaceThatIsBeingErasedOrZeroedCountsAsFree) {
  pb::GetStatusResponse status = Node();
  PoolOf(status).set_free_bytes(0);
  PoolOf(status).set_erase_pending_bytes(6 * kGi);
  PoolOf(status).set_zeroing_bytes(5 * kGi);
  const CheckReport report = Check(status, Limits());
  EXPECT_EQ(report.status, CheckStatus::kOk);
  EXPECT_THAT(report.figures, HasSubstr("main_erase_pending=6442450944B;"));
}

pb::ThinStore& AddStore(pb::GetStatusResponse& status, const std::string& mode) {
  auto& store = *PoolOf(status).add_stores();
  store.set_name("fast");
  store.set_mode(mode);
  store.set_condition("healthy");
  store.set_store_id("main.qs");
  store.set_logical_volume("qs");
  return store;
}

TEST(Check, AStoreThatIsWellIsNoProblem) {
  pb::GetStatusResponse status = Node();
  AddStore(status, "rw").set_full("its volumes have all of it");
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kOk) << "a store may be promised whole";
}

TEST(Check, EachModeOfAStoreHasItsStatusAndRemedy) {
  const std::vector<std::tuple<std::string, CheckStatus, std::string>> modes = {
      {"out-of-space", CheckStatus::kCritical, "`quarryctl store show main/fast`"},
      {"read-only", CheckStatus::kCritical, "`quarryctl store repair main/fast`"},
      {"failed", CheckStatus::kCritical, "`quarryctl store repair main/fast`"},
      {"needs-check", CheckStatus::kCritical, "`quarryctl store repair main/fast`"},
      {"not-zeroing", CheckStatus::kCritical, "`lvchange --zero y vg/qs`"},
      {"not-started", CheckStatus::kCritical, "`quarryctl repair main.qs`"},
      {"damaged", CheckStatus::kCritical, "`quarryctl store repair main/fast --dry-run`"},
      {"mismatch", CheckStatus::kCritical, "`quarryctl store repair main/fast --dry-run`"},
      {"not-made", CheckStatus::kWarning, "make room in pool main, and restart quarryd"},
      {"unreadable", CheckStatus::kWarning, "vg/qs"},
      {"unknown", CheckStatus::kWarning, "`quarryctl store list`"},
      {"word of a later build", CheckStatus::kWarning, "`quarryctl store list`"}};
  for (const auto& [mode, expected, remedy] : modes) {
    pb::GetStatusResponse status = Node();
    AddStore(status, mode);
    const CheckReport report = Check(status, Limits());
    EXPECT_EQ(report.status, expected) << mode;
    ASSERT_EQ(report.problems.size(), 1U) << mode;
    EXPECT_EQ(report.problems.front().kind, "store");
    EXPECT_EQ(report.problems.front().id, "main.qs");
    EXPECT_EQ(report.problems.front().text, "thin store fast of pool main is " + mode);
    EXPECT_THAT(report.problems.front().remedy, HasSubstr(remedy)) << mode;
  }
}

TEST(Check, AProblemOfAStoreIsToldBeforeThoseOfItsVolumes) {
  pb::GetStatusResponse status = Node();
  PoolOf(status).mutable_volumes(0)->set_condition("failed");
  AddStore(status, "not-started").set_problem("a disk is missing");
  EXPECT_THAT(CheckText(Check(status, Limits())),
              StartsWith("QUARRY CRITICAL - thin store fast of pool main is not-started: a disk is missing "
                         "(and 1 more problem)"));
}

TEST(Check, ARemedyIsToldOnce) {
  pb::GetStatusResponse status = Node();
  AddStore(status, "needs-check").set_problem("check it: lvconvert --repair vg/qs");
  const std::string text = CheckText(Check(status, Limits()));
  EXPECT_THAT(text, HasSubstr("CRITICAL: thin store fast of pool main is needs-check. Remedy: unmount"));
}

TEST(Check, LegsAndGrowthOfAStoreAreJudged) {
  pb::GetStatusResponse status = Node();
  auto& store = AddStore(status, "rw");
  store.set_condition("degraded");
  store.set_detail("data: leg 1 is away");
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kWarning);
  EXPECT_EQ(Check(status, Limits()).problems.front().text,
            "thin store fast of pool main is degraded: data: leg 1 is away");
  store.set_condition("failed");
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kCritical);
  store.set_condition("healthy");
  store.clear_detail();
  store.set_problem("it cannot grow: no room");
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kWarning);
  EXPECT_THAT(Check(status, Limits()).problems.front().remedy, HasSubstr("restart quarryd"));
}

TEST(Check, LimitsOfAPoolThatDoesNotExistAreUnknown) {
  const CheckReport report = Check(Node(), Limits({}, {"fast=10%"}));
  EXPECT_EQ(report.status, CheckStatus::kUnknown);
  EXPECT_THAT(CheckText(report), StartsWith("QUARRY UNKNOWN - quarryd has no pool 'fast'\n"));
}

TEST(Check, ANearlyFullMetadataAreaIsAWarning) {
  pb::GetStatusResponse status = Node();
  PoolOf(status).set_metadata_free_bytes(100000);
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kOk) << "an empty area has half its size free";
  PoolOf(status).set_metadata_free_bytes(99999);
  const CheckReport report = Check(status, Limits());
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].kind, "metadata");
  EXPECT_EQ(report.status, CheckStatus::kWarning);
  PoolOf(status).set_metadata_size_bytes(0);
  PoolOf(status).set_metadata_free_bytes(0);
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kOk) << "an older quarryd does not report it";
}

TEST(Check, OnlyWrongParityOfAScrubIsAProblem) {
  pb::GetStatusResponse status = Node();
  auto& volume = *PoolOf(status).mutable_volumes(0);
  volume.mutable_scrubbed()->set_mismatched_bytes(4096);
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kOk) << "of a mirror";
  volume.set_type("raid5");
  volume.set_condition("degraded");
  const CheckReport report = Check(status, Limits());
  ASSERT_EQ(report.problems.size(), 1U) << "one problem for each volume";
  EXPECT_THAT(report.problems[0].remedy, HasSubstr("quarryctl scrub --repair main.qa"));
  volume.set_condition("failed");
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kCritical);
}

TEST(Check, AVolumeThatIsNotMountedWhereItShouldBeIsAWarning) {
  pb::GetStatusResponse status = Node();
  auto& volume = *PoolOf(status).mutable_volumes(0);
  volume.set_mount_point("/srv/data");
  const CheckReport missed = Check(status, Limits());
  EXPECT_EQ(missed.status, CheckStatus::kWarning);
  EXPECT_THAT(CheckText(missed), HasSubstr("is not mounted at /srv/data"));
  volume.add_used_at("/srv/data");
  EXPECT_EQ(Check(status, Limits()).status, CheckStatus::kOk);
}

TEST(Check, NamesCannotForgeLinesOrFigures) {
  pb::GetStatusResponse status = Node();
  auto& volume = *PoolOf(status).mutable_volumes(0);
  volume.set_name("x | main_free=0B\nQUARRY OK");
  volume.set_condition("failed");
  const std::string text = CheckText(Check(status, Limits()));
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_EQ(std::ranges::count(text, '|'), 1) << text;
}

TEST(Check, ManyProblemsAreCutInTheTextAndCompleteInTheJson) {
  pb::GetStatusResponse status = Node();
  for (int i = 0; i < 99; ++i) {
    PoolOf(status).add_volumes()->set_condition("failed");
  }
  const CheckReport report = Check(status, Limits());
  const std::string text = CheckText(report);
  EXPECT_EQ(std::ranges::count(text, '\n'), 42);
  EXPECT_THAT(text, EndsWith("59 more; `quarryctl check --json` lists all\n"));
  const auto json = nlohmann::json::parse(CheckJson(report));
  EXPECT_EQ(json["problems"].size(), 99U);
  EXPECT_EQ(json["status"], "CRITICAL");
  EXPECT_EQ(json["exit_status"], 2);
  EXPECT_EQ(json["problems"][0]["kind"], "volume");
}

TEST(Check, ASilentQuarrydIsCriticalAndAnythingElseUnknown) {
  const auto status = [](Code code, bool permitted) {
    return CheckFailed(Error(code, "the reason"), permitted).status;
  };
  EXPECT_EQ(status(Code::kUnavailable, true), CheckStatus::kCritical);
  EXPECT_EQ(status(Code::kTimeout, true), CheckStatus::kCritical);
  EXPECT_EQ(status(Code::kUnavailable, false), CheckStatus::kUnknown);
  EXPECT_EQ(status(Code::kInvalidArgument, true), CheckStatus::kUnknown);
  EXPECT_THAT(CheckText(CheckFailed(Error(Code::kTimeout, "the reason"), true)),
              AllOf(StartsWith("QUARRY CRITICAL - no answer from the reason\n"),
                    HasSubstr("systemctl status quarryd")));
}

TEST(FreeLimit, IsAPercentageOrASize) {
  EXPECT_EQ(ParseFreeLimit("12.5%")->In(Bytes{1000}), Bytes{125});
  EXPECT_EQ(ParseFreeLimit("4GiB")->In(Bytes{1000}), Bytes{4ULL << 30});
  for (const char* wrong : {"", "%", "-1%", "101%", "nan%", "5 %", "x", "10%%", "1e1%", "5GB"}) {
    EXPECT_FALSE(ParseFreeLimit(wrong).has_value()) << wrong;
  }
  EXPECT_FALSE(FreeLimits::Parse({"main="}, "10%").has_value());
}

}  // namespace
}  // namespace quarry::ctl
