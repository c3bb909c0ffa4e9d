// The command is a real program that writes down what it is told.
#include "daemon/on_change/change_hook.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

std::string ContentOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

Change SomeChange() {
  return {.thing = {"volume", "main", "main.qa"},
          .now = {"degraded", engine::Severity::kWarning, "data\nBcc: all", "a leg is missing"},
          .before = "healthy",
          .repeated = false,
          .skipped = 3};
}

TEST(TellingOf, HasEachFactInTheEnvironmentAndOnStandardInput) {
  const ChangeHookConfig config{.command = *AbsolutePath::Parse("/usr/bin/hook"), .node = "n1", .file = ""};
  const Command command =
      TellingOf(SomeChange(), config, std::chrono::system_clock::time_point(seconds(1700000000)));
  EXPECT_EQ(command.argv, std::vector<std::string>{"/usr/bin/hook"});
  const auto object = nlohmann::json::parse(command.input);
  EXPECT_EQ(object["name"], "data\nBcc: all");
  EXPECT_EQ(object["time"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(object["severity"], "warning");
  EXPECT_EQ(object["skipped"], 3);
  EXPECT_EQ(object["repeated"], false);
  EXPECT_EQ(object["summary"], "volume data\nBcc: all of pool main on n1 is degraded: a leg is missing");
  const std::map<std::string, std::string> variables(command.env.begin(), command.env.end());
  EXPECT_THAT(variables, AllOf(Contains(Pair("QUARRY_EVENT_STATE", "degraded")),
                               Contains(Pair("QUARRY_EVENT_BEFORE", "healthy")),
                               Contains(Pair("QUARRY_EVENT_NAME", "data?Bcc: all")),
                               Contains(Pair("QUARRY_EVENT_SKIPPED", "3"))));
  for (const auto& [name, value] : object.items()) {
    std::string upper = "QUARRY_EVENT_" + name;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    EXPECT_TRUE(name == "version" || variables.contains(upper)) << name;
  }
}

class ChangeHookTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pool_.figures.pool = "main";
    pool_.volumes.resize(1);
    pool_.volumes[0].id = "main.qa";
    SetCondition("healthy");
  }

  void SetCondition(const std::string& condition) {
    const MutexLock lock(mutex_);
    pool_.volumes[0].condition = condition;
  }

  void WriteCommand(const std::string& body) {
    std::ofstream(command_) << "#!/bin/sh\n" << body << "\n";
    ASSERT_EQ(chmod(command_.c_str(), 0755), 0);
  }

  std::unique_ptr<ChangeHook> Start(milliseconds time_limit = seconds(60)) {
    return std::make_unique<ChangeHook>(
        ChangeHookConfig{.command = *AbsolutePath::Parse(command_),
                         .node = "n1",
                         .file = file_,
                         .time_limit = time_limit,
                         .look_interval = milliseconds(50)},
        [this](const Call&) -> Result<std::vector<engine::PoolStatus>> {
          const MutexLock lock(mutex_);
          return std::vector{pool_};
        },
        subprocess_, clock_, log_);
  }

  // The states that the command was told.
  std::string States() const { return ContentOf(directory_.path() + "/states"); }

  const TemporaryDirectory directory_;
  const std::string command_ = directory_.path() + "/command";
  const std::string file_ = directory_.path() + "/told.json";
  const std::string note_ = "echo $QUARRY_EVENT_STATE >> " + directory_.path() + "/states";
  SystemClock clock_;
  SpawnSubprocess subprocess_;
  const Logger log_{LogLevel::kError, LogFormat::kText};
  Mutex mutex_;
  engine::PoolStatus pool_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(ChangeHookTest, RunsTheCommandAtEachChange) {
  WriteCommand("cat > " + directory_.path() + "/input\n" + note_);
  const auto hook = Start();
  SetCondition("degraded");
  hook->Wake();
  ASSERT_TRUE(Eventually([&] { return States() == "degraded\n"; })) << States();
  const auto told = nlohmann::json::parse(ContentOf(directory_.path() + "/input"));
  EXPECT_EQ(told["id"], "main.qa");
  EXPECT_EQ(told["state"], "degraded");
  SetCondition("healthy");
  hook->Wake();
  EXPECT_TRUE(Eventually([&] { return States() == "degraded\nhealthy\n"; })) << States();
}

TEST_F(ChangeHookTest, TheNextProcessTellsWhatHealedMeanwhile) {
  WriteCommand(note_);
  SetCondition("failed");
  {
    const auto hook = Start();
    ASSERT_TRUE(Eventually([&] { return ContentOf(file_).find("failed") != std::string::npos; }));
  }
  SetCondition("healthy");
  const auto hook = Start();
  EXPECT_TRUE(Eventually([&] { return States() == "failed\nhealthy\n"; })) << States();
  EXPECT_TRUE(Eventually([&] { return ContentOf(file_).find("failed") == std::string::npos; }));
}

TEST_F(ChangeHookTest, ACommandThatFailsDoesNotStopTheNextOne) {
  WriteCommand(note_ + "\nexit 7");
  const auto hook = Start();
  SetCondition("degraded");
  ASSERT_TRUE(Eventually([&] { return States() == "degraded\n"; }));
  SetCondition("failed");
  EXPECT_TRUE(Eventually([&] { return States() == "degraded\nfailed\n"; })) << States();
}

TEST_F(ChangeHookTest, ACommandThatHangsIsKilledAtItsLimitWithAllItStarted) {
  WriteCommand(note_ + "\nsleep 1000 & echo $! > " + directory_.path() + "/child\nwait");
  const auto hook = Start(milliseconds(500));
  SetCondition("degraded");
  ASSERT_TRUE(Eventually([&] { return States() == "degraded\n"; }));
  SetCondition("failed");
  ASSERT_TRUE(Eventually([&] { return States() == "degraded\nfailed\n"; })) << "the next one runs";
  hook->RequestStop();
}

TEST_F(ChangeHookTest, AStopKillsTheCommandAndTheNextProcessTellsItsChange) {
  WriteCommand(note_ + "\nsleep 1000 & echo $! > " + directory_.path() + "/child\nwait");
  SetCondition("degraded");
  {
    const auto hook = Start();
    ASSERT_TRUE(Eventually([&] { return !ContentOf(directory_.path() + "/child").empty(); }));
  }
  const pid_t child = std::stoi(ContentOf(directory_.path() + "/child"));
  EXPECT_TRUE(Eventually([&] {
    const std::string status = ContentOf("/proc/" + std::to_string(child) + "/status");
    return status.empty() || status.find("State:\tZ") != std::string::npos;
  })) << "a process of the command is left";
  EXPECT_FALSE(std::filesystem::exists(file_)) << "it was not told";
  const auto hook = Start();
  EXPECT_TRUE(Eventually([&] { return States() == "degraded\ndegraded\n"; }));
}

TEST_F(ChangeHookTest, TheCommandInheritsNoDescriptors) {
  const int leaked = dup(2);  // without close-on-exec
  // Not a pipeline: while the shell makes one, it has the pipe open.
  WriteCommand("ls /proc/$$/fd > " + directory_.path() + "/fds\n" + note_);
  const auto hook = Start();
  SetCondition("degraded");
  ASSERT_TRUE(Eventually([&] { return !States().empty(); }));
  // A shell has its script, and what it saves of a redirection, open at numbers above 9.
  EXPECT_THAT(ContentOf(directory_.path() + "/fds"), testing::MatchesRegex("0\n1\n(1.\n)*2\n(255\n)?"));
  close(leaked);
}

// Whoever mends the command must hear of what happened meanwhile.
TEST_F(ChangeHookTest, ChangesWaitForACommandThatMayNotBeRun) {
  SetCondition("degraded");  // before the first look, which comes at once
  const auto hook = Start();
  std::this_thread::sleep_for(milliseconds(300));  // a change that was lost would be in the file
  EXPECT_FALSE(std::filesystem::exists(file_)) << "the command is missing, so nothing was told";
  std::ofstream(command_) << "#!/bin/sh\n" << note_ << "\n";
  ASSERT_EQ(chmod(command_.c_str(), 0757), 0);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(States(), "") << "anyone can write the command";
  ASSERT_EQ(chmod(command_.c_str(), 0755), 0);
  EXPECT_TRUE(Eventually([&] { return States() == "degraded\n"; })) << States();
  EXPECT_TRUE(Eventually([&] { return ContentOf(file_).find("degraded") != std::string::npos; }));
}

}  // namespace
}  // namespace quarry::daemon
