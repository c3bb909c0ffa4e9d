#include "lvm/run/lvm_spawn.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::lvm {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string Fixture(const std::string& name) {
  std::ifstream in(std::string(QUARRY_FIXTURES) + "/lvm/bookworm/" + name, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Answers in order, and records the commands.
class ScriptedSubprocess final : public Subprocess {
 public:
  Result<Finished> Run(const Command& command, const Call& call) override {
    QUARRY_TRY(call.Check(command.argv[0]));
    commands.push_back(command);
    if (answers.empty()) {
      return Error(Code::kInternal, "nobody expected this command");
    }
    Result<Finished> answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }
  std::vector<std::pair<int, std::string>> Stuck() override { return {}; }

  void Answer(int status, std::string out, std::string err = "") {
    Finished finished;
    finished.exit_status = status;
    finished.out = std::move(out);
    finished.err = std::move(err);
    answers.emplace_back(std::move(finished));
  }

  std::deque<Result<Finished>> answers;
  std::vector<Command> commands;
};

// Records the calls, and answers as the test wants.
class ScriptedLocks final : public GroupLocks {
 public:
  Status ClaimName(const std::string& group) override {
    asked.push_back("name " + group);
    return name;
  }
  Result<bool> Claim(const std::string& group, const std::string& uuid) override {
    asked.push_back("claim " + group + " " + uuid);
    Result<bool> answer = claims.empty() ? Result<bool>(false) : std::move(claims.front());
    if (!claims.empty()) {
      claims.pop_front();
    }
    return answer;
  }
  Status Check(const std::string&) const override { return Ok(); }
  Result<int> ForCommand(const std::string& group) const override {
    return group == "vg0" ? held : Result<int>(Error(Code::kInternal, "nobody has claimed it"));
  }

  Status name;
  std::deque<Result<bool>> claims;
  Result<int> held = 77;
  std::vector<std::string> asked;
};

class LvmSpawnUnitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/sbin/lvm", X_OK) != 0) {
      GTEST_SKIP() << "no lvm here: LvmSpawn cannot be made";
    }
    subprocess_.Answer(0, "  LVM version:     2.03.16(2) (2022-05-18)\n");
    auto made = LvmSpawn::Make(
        subprocess_,
        {.system_dir = "/run/x/lvm", .driver_loaded = driver_loaded_, .locks = locks_, .uuid_of = uuid_of_},
        {});
    ASSERT_TRUE(made.has_value()) << made.error().message();
    lvm_ = std::move(*made);
    subprocess_.commands.clear();
  }

  bool driver_loaded_ = true;
  GroupLocks* locks_ = nullptr;
  std::function<std::string(const std::string&)> uuid_of_;
  ScriptedSubprocess subprocess_;
  std::unique_ptr<LvmSpawn> lvm_;
};

TEST_F(LvmSpawnUnitTest, RunsLvmInAnEnvironmentOfItsOwn) {
  subprocess_.Answer(0, Fixture("raid5.json"));
  ASSERT_TRUE(lvm_->Read("vg0", {}).has_value());
  const Command& command = subprocess_.commands.front();
  EXPECT_EQ(command.argv[0], "/usr/sbin/lvm");
  EXPECT_EQ(command.argv[1], "fullreport");
  EXPECT_THAT(command.env, Contains(Pair("LC_ALL", "C")));
  EXPECT_THAT(command.env, Contains(Pair("LVM_SYSTEM_DIR", "/run/x/lvm")));
  EXPECT_TRUE(command.input.empty());
}

TEST_F(LvmSpawnUnitTest, GivesTheGroupOfTheReport) {
  subprocess_.Answer(0, Fixture("raid5.json"), "  WARNING: something beside\n");
  const auto read = lvm_->Read("vg0", {});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ((*read)->name, "vg0");
  EXPECT_NE((*read)->FindLv("v_rimage_2"), nullptr);
}

// Libraries below lvm also write to its standard output, and 2.03.16 has put NUL bytes there.
TEST_F(LvmSpawnUnitTest, WarningsAndNulBytesWithinAReportDoNotMatter) {
  const std::string report = Fixture("raid5.json");
  std::string noisy = "  WARNING: Device mismatch detected for vg0/v.\n";
  for (const char c : report) {
    noisy += c;
    if (c == '\n') {
      noisy += std::string("\0\0", 2) + "  WARNING: PV /dev/x in VG vg0 is using an old PV header.\n";
    }
  }
  subprocess_.Answer(0, report);
  subprocess_.Answer(0, noisy);
  const auto plain = lvm_->Read("vg0", {});
  const auto read = lvm_->Read("vg0", {});
  ASSERT_TRUE(plain.has_value() && read.has_value());
  EXPECT_EQ((*read)->uuid, (*plain)->uuid);
  EXPECT_EQ((*read)->seqno, (*plain)->seqno);
  EXPECT_EQ((*read)->lvs.size(), (*plain)->lvs.size());
  EXPECT_EQ((*read)->pvs.size(), (*plain)->pvs.size());
  EXPECT_EQ((*read)->free_count, (*plain)->free_count);
}

TEST_F(LvmSpawnUnitTest, ATornAnswerIsCorruptAndNamesTheGroup) {
  subprocess_.Answer(0, Fixture("raid5.json").substr(0, 2000));
  const auto torn = lvm_->Read("vg0", {});
  ASSERT_FALSE(torn.has_value());
  EXPECT_EQ(torn.error().code(), Code::kCorrupt);
  EXPECT_THAT(torn.error().message(), HasSubstr("vg0"));
  subprocess_.Answer(0, Fixture("raid5.json"));
  subprocess_.answers.back()->output_truncated = true;
  EXPECT_EQ(lvm_->Read("vg0", {}).error().code(), Code::kInternal);
}

TEST_F(LvmSpawnUnitTest, AFailureWithoutWordsIsNotNotFound) {
  subprocess_.answers.emplace_back(Error(Code::kTimeout, "killed after 5 ms"));
  EXPECT_EQ(lvm_->Read("vg0", {}).error().code(), Code::kTimeout);
  Finished killed;
  killed.signal = 9;
  subprocess_.answers.emplace_back(killed);
  EXPECT_EQ(lvm_->Read("vg0", {}).error().code(), Code::kUnavailable);
}

TEST_F(LvmSpawnUnitTest, ACommitThatCouldNotBeFlushedIsNotAcknowledged) {
  subprocess_.Answer(0, "  Logical volume vg0/v changed.\n");
  subprocess_.Answer(0, Fixture("raid5.json"));  // its disks do not exist here, or are other disks
  const Status changed = lvm_->Apply(ChangeTags{"vg0", "v", {"a"}, {}}, {});
  ASSERT_FALSE(changed.has_value());
  EXPECT_THAT(changed.error().message(), HasSubstr("not known to be durable"));
  ASSERT_EQ(subprocess_.commands.size(), 2U);
  EXPECT_EQ(subprocess_.commands[0].argv[1], "lvchange");
  EXPECT_EQ(subprocess_.commands[1].argv[1], "fullreport");
}

TEST_F(LvmSpawnUnitTest, ARefusedChangeFlushesNothing) {
  subprocess_.Answer(5, "", "  Failed to find logical volume \"vg0/v\"\n");
  EXPECT_EQ(lvm_->Apply(ChangeTags{"vg0", "v", {"a"}, {}}, {}).error().code(), Code::kNotFound);
  EXPECT_EQ(subprocess_.commands.size(), 1U);
}

TEST_F(LvmSpawnUnitTest, ActivationHasNothingToFlush) {
  subprocess_.Answer(0, "");
  EXPECT_TRUE(lvm_->Apply(ActivateLvs{"vg0", {"v"}}, {}).has_value());
  subprocess_.Answer(0, "");
  EXPECT_TRUE(lvm_->Apply(DeactivateLv{"vg0", "v", 0}, {}).has_value());
  EXPECT_EQ(subprocess_.commands.size(), 2U);
}

TEST_F(LvmSpawnUnitTest, ChangingNoTagsRunsNothing) {
  EXPECT_TRUE(lvm_->Apply(ChangeTags{"vg0", "v", {}, {}}, {}).has_value());
  EXPECT_TRUE(subprocess_.commands.empty());
}

TEST_F(LvmSpawnUnitTest, NamesThatLvmWouldMisreadNeverReachIt) {
  EXPECT_EQ(lvm_->Apply(RemoveLvs{"vg0", {"@tag"}, 0}, {}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(lvm_->Read("--all", {}).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(subprocess_.commands.empty());
}

class LvmWithLocksTest : public LvmSpawnUnitTest {
 protected:
  LvmWithLocksTest() { locks_ = &scripted_; }

  static constexpr char kUuid[] = "plf7AC-ovS4-P1ie-udWQ-N0tA-dzKB-HxNopt";  // of the group in the fixture
  ScriptedLocks scripted_;
};

TEST_F(LvmWithLocksTest, WhatWasReadBeforeTheGroupWasClaimedIsReadAgain) {
  subprocess_.Answer(0, Fixture("linear.json"));
  subprocess_.Answer(0, Fixture("raid5.json"));
  scripted_.claims = {true, false};
  const auto read = lvm_->Read("vg0", {});
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_NE((*read)->FindLv("v_rimage_2"), nullptr) << "the later report";
  subprocess_.Answer(0, Fixture("raid5.json"));
  ASSERT_TRUE(lvm_->Read("vg0", {}).has_value());
  EXPECT_EQ(subprocess_.commands.size(), 3U) << "it is ours by now";
}

TEST_F(LvmWithLocksTest, AGroupOfAnotherIsNotReadAtAllOrNotBelieved) {
  scripted_.name = Error(Code::kPrecondition, "pid 7 (quarryd) has it");
  EXPECT_EQ(lvm_->Read("vg0", {}).error().code(), Code::kPrecondition);
  EXPECT_EQ(
      lvm_->Apply(CreateGroup{.group = "vg0", .devices = {"/dev/x"}, .extent_size = kMiB}, {}).error().code(),
      Code::kPrecondition);
  EXPECT_TRUE(subprocess_.commands.empty());
  scripted_.name = Ok();
  scripted_.claims.emplace_back(Error(Code::kPrecondition, "pid 7 (quarryd) has it"));
  subprocess_.Answer(0, Fixture("raid5.json"));
  EXPECT_EQ(lvm_->Read("vg0", {}).error().code(), Code::kPrecondition);
  EXPECT_THAT(scripted_.asked, Contains(std::string("claim vg0 ") + kUuid));
}

class LvmWithUuidsTest : public LvmWithLocksTest {
 protected:
  LvmWithUuidsTest() {
    uuid_of_ = [](const std::string& group) { return group == "vg0" ? std::string(kUuid) : std::string(); };
  }
};

TEST_F(LvmWithUuidsTest, AGroupWithKnownUuidIsClaimedBeforeLvmIsAsked) {
  scripted_.claims.emplace_back(Error(Code::kPrecondition, "pid 7 (lvm) has it"));
  EXPECT_EQ(lvm_->Read("vg0", {}).error().code(), Code::kPrecondition);
  EXPECT_TRUE(subprocess_.commands.empty()) << "LVM might wait for that very command";
  scripted_.claims.emplace_back(true);
  subprocess_.Answer(0, Fixture("raid5.json"));
  EXPECT_TRUE(lvm_->Read("vg0", {}).has_value());
  EXPECT_EQ(subprocess_.commands.size(), 1U) << "it was ours before the report: one is enough";
}

TEST_F(LvmWithLocksTest, EveryCommandThatChangesTheGroupHoldsItsLockAndReadersDoNot) {
  const Geometry linear = *Geometry::Make({});
  CreateLv create{
      .group = "vg0", .name = "v", .geometry = linear, .step = {}, .tags = {}, .max_recovery_rate = {}};
  create.step.alloc = "contiguous";
  ExtendLv extend{.group = "vg0", .name = "v", .geometry = linear, .step = create.step};
  const std::vector<std::pair<std::string, std::function<Status()>>> changes = {
      {"vgcreate", [&] { return lvm_->Apply(CreateGroup{"vg0", {"/dev/x"}, kMiB}, {}); }},
      {"lvcreate", [&] { return lvm_->Apply(create, {}); }},
      {"lvextend", [&] { return lvm_->Apply(extend, {}); }},
      {"lvremove", [&] { return lvm_->Apply(RemoveLvs{"vg0", {"v"}, 0}, {}); }},
      {"lvchange", [&] { return lvm_->Apply(ChangeTags{"vg0", "v", {"a"}, {}}, {}); }},
      {"lvchange", [&] { return lvm_->Apply(ActivateLvs{"vg0", {"v"}}, {}); }},
      {"lvchange", [&] { return lvm_->Apply(DeactivateLv{"vg0", "v", 0}, {}); }},
      {"lvchange", [&] { return lvm_->Apply(RefreshLvs{"vg0", {"v"}}, {}); }},
      {"lvconvert", [&] { return lvm_->Apply(RepairLv{"vg0", "v", {}, ""}, {}); }},
      {"lvchange", [&] { return lvm_->Apply(LimitRecovery{"vg0", {"v"}, kMiB}, {}); }},
      {"vgextend", [&] { return lvm_->Apply(RestorePv{"vg0", "/dev/x"}, {}); }},
      {"vgreduce", [&] { return lvm_->Apply(DropMissingPvs{"vg0"}, {}); }},
      {"pvchange", [&] { return lvm_->Apply(ChangePv{"vg0", "/dev/x", true, {}, {}}, {}); }},
      {"pvmove", [&] { return lvm_->Apply(MoveExtents{"vg0", "v", "/dev/x:0-1", "/dev/y:0-1"}, {}); }},
      {"vgreduce", [&] { return lvm_->Apply(RemovePv{"vg0", "/dev/x"}, {}); }},
      {"lvextend", [&] { return lvm_->Apply(ExtendThinLv{"vg0", "v", kGiB}, {}); }},
      {"vgextend", [&] { return lvm_->Apply(AddPv{.group = "vg0", .device = "/dev/x"}, {}); }},
  };
  for (const auto& [verb, change] : changes) {
    subprocess_.commands.clear();
    subprocess_.Answer(5, "", "  it fails\n");
    EXPECT_FALSE(change().has_value());
    ASSERT_EQ(subprocess_.commands.size(), 1U) << verb;
    const Command& command = subprocess_.commands.front();
    EXPECT_EQ(command.argv[1], verb);
    EXPECT_EQ(command.hold_fd, 77) << verb;
    EXPECT_EQ(command.ends_with_us, verb == "pvmove") << verb;
  }
  subprocess_.commands.clear();
  subprocess_.Answer(5, "", "  it fails\n");
  EXPECT_FALSE(lvm_->Apply(AbortMove{"vg0", "/dev/x"}, {}).has_value());
  EXPECT_FALSE(subprocess_.commands.front().ends_with_us) << "an abort does not wait for anything";
  subprocess_.Answer(0, Fixture("raid5.json"));
  EXPECT_TRUE(lvm_->Read("vg0", {}).has_value());
  EXPECT_EQ(subprocess_.commands.back().hold_fd, -1);
}

TEST_F(LvmWithLocksTest, ACreateUnderTheCallersLockTakesNoneAndKeepsIt) {
  CreateLv create{.group = "vg0", .name = "v", .geometry = *Geometry::Make({}), .step = {}, .seqno = 7};
  create.step.alloc = "contiguous";
  EXPECT_EQ(lvm_->Apply(create, {}).error().code(), Code::kUnsupported) << "nobody has compared the numbers";
  EXPECT_TRUE(subprocess_.commands.empty());
  create.lock_fd = 5;
  subprocess_.Answer(5, "", "  it fails\n");
  EXPECT_FALSE(lvm_->Apply(create, {}).has_value());
  ASSERT_EQ(subprocess_.commands.size(), 1U);
  const Command& command = subprocess_.commands.front();
  EXPECT_THAT(command.argv, Contains("--nolocking"));
  EXPECT_THAT(command.keep_fds, testing::ElementsAre(5));
  EXPECT_TRUE(command.unbroken) << "LVM blocks signals only under its own lock";
  EXPECT_THAT(command.env, Contains(testing::Pair("LVM_REPORT_FD", "5")));
  EXPECT_EQ(command.hold_fd, 77);
}

TEST_F(LvmWithLocksTest, WithoutTheLockNothingIsChanged) {
  scripted_.held = Error(Code::kUnavailable, "the lock file was removed");
  EXPECT_EQ(lvm_->Apply(ChangeTags{"vg0", "v", {"a"}, {}}, {}).error().code(), Code::kUnavailable);
  EXPECT_EQ(lvm_->Apply(RemoveLvs{"vg0", {"v", "w"}, 0}, {}).error().code(), Code::kUnavailable);
  EXPECT_TRUE(subprocess_.commands.empty());
}

class LvmWithoutDriverTest : public LvmSpawnUnitTest {
 protected:
  LvmWithoutDriverTest() { driver_loaded_ = false; }
};

TEST_F(LvmWithoutDriverTest, IsToldSoAfterTheVerb) {
  subprocess_.Answer(5, "", "  Failed to find logical volume \"vg0/v\"\n");
  EXPECT_FALSE(lvm_->Apply(ActivateLvs{"vg0", {"v"}}, {}).has_value());
  const std::vector<std::string>& argv = subprocess_.commands.front().argv;
  EXPECT_THAT(std::vector<std::string>(argv.begin() + 1, argv.begin() + 4),
              ElementsAre("lvchange", "--driverloaded", "n"));
}

}  // namespace
}  // namespace quarry::lvm
