#include "lvm/lvm_spawn.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
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

// Answers in order, and keeps what it was asked.
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

class LvmSpawnUnitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/sbin/lvm", X_OK) != 0) {
      GTEST_SKIP() << "no lvm here: LvmSpawn cannot be made";
    }
    subprocess_.Answer(0, "  LVM version:     2.03.16(2) (2022-05-18)\n");
    auto made =
        LvmSpawn::Make(subprocess_, {.system_dir = "/run/x/lvm", .driver_loaded = driver_loaded_}, {});
    ASSERT_TRUE(made.has_value()) << made.error().message();
    lvm_ = std::move(*made);
    subprocess_.commands.clear();
  }

  bool driver_loaded_ = true;
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

// Libraries under lvm write to its standard output as well, and 2.03.16 has put NUL bytes there.
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

TEST_F(LvmSpawnUnitTest, WhatTheProcessDidNotSayIsNotNotFound) {
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
  const Status changed = lvm_->ChangeTags("vg0", "v", {"a"}, {}, {});
  ASSERT_FALSE(changed.has_value());
  EXPECT_THAT(changed.error().message(), HasSubstr("not known to be durable"));
  ASSERT_EQ(subprocess_.commands.size(), 2U);
  EXPECT_EQ(subprocess_.commands[0].argv[1], "lvchange");
  EXPECT_EQ(subprocess_.commands[1].argv[1], "fullreport");
}

TEST_F(LvmSpawnUnitTest, ARefusedChangeFlushesNothing) {
  subprocess_.Answer(5, "", "  Failed to find logical volume \"vg0/v\"\n");
  EXPECT_EQ(lvm_->ChangeTags("vg0", "v", {"a"}, {}, {}).error().code(), Code::kNotFound);
  EXPECT_EQ(subprocess_.commands.size(), 1U);
}

TEST_F(LvmSpawnUnitTest, ActivationHasNothingToFlush) {
  subprocess_.Answer(0, "");
  EXPECT_TRUE(lvm_->Activate("vg0", {"v"}, {}).has_value());
  subprocess_.Answer(0, "");
  EXPECT_TRUE(lvm_->Deactivate("vg0", "v", {}).has_value());
  EXPECT_EQ(subprocess_.commands.size(), 2U);
}

TEST_F(LvmSpawnUnitTest, ChangingNoTagsRunsNothing) {
  EXPECT_TRUE(lvm_->ChangeTags("vg0", "v", {}, {}, {}).has_value());
  EXPECT_TRUE(subprocess_.commands.empty());
}

TEST_F(LvmSpawnUnitTest, NamesThatLvmWouldReadOtherwiseNeverReachIt) {
  EXPECT_EQ(lvm_->Remove("vg0", {"@tag"}, {}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(lvm_->Read("--all", {}).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(subprocess_.commands.empty());
}

class LvmWithoutDriverTest : public LvmSpawnUnitTest {
 protected:
  LvmWithoutDriverTest() { driver_loaded_ = false; }
};

TEST_F(LvmWithoutDriverTest, IsToldSoAfterTheVerb) {
  subprocess_.Answer(5, "", "  Failed to find logical volume \"vg0/v\"\n");
  EXPECT_FALSE(lvm_->Activate("vg0", {"v"}, {}).has_value());
  const std::vector<std::string>& argv = subprocess_.commands.front().argv;
  EXPECT_THAT(std::vector<std::string>(argv.begin() + 1, argv.begin() + 4),
              ElementsAre("lvchange", "--driverloaded", "n"));
}

}  // namespace
}  // namespace quarry::lvm
