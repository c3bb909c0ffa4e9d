#include "base/subprocess.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <thread>

namespace quarry {
namespace {

using std::chrono::milliseconds;

Command Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .env = {{"PATH", "/usr/bin:/bin"}}, .input = ""};
}

TEST(Subprocess, CapturesOutputAndExitStatus) {
  SpawnSubprocess run;
  const auto done = run.Run(Shell("echo out; echo err >&2; exit 7"), Call{});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->exit_status, 7);
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_FALSE(done->ok());
}

TEST(Subprocess, FeedsInputLargerThanAPipe) {
  SpawnSubprocess run;
  Command command = Shell("wc -c");
  command.input.assign(3 * 1024 * 1024, 'x');
  const auto done = run.Run(command, Call{});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->out, "3145728\n");
}

TEST(Subprocess, KeepsAllOfALargeOutputAndFlagsWhatIsCut) {
  SpawnSubprocess run;
  Command command = Shell("head -c 2000000 /dev/zero");
  EXPECT_EQ(run.Run(command, Call{})->out.size(), 2000000U);
  command.output_limit = 1000;
  const auto cut = run.Run(command, Call{});
  EXPECT_EQ(cut->out.size(), 1000U);
  EXPECT_TRUE(cut->output_truncated);
}

TEST(Subprocess, SeesOnlyTheEnvironmentItIsGiven) {
  SpawnSubprocess run;
  Command command{.argv = {"/usr/bin/env"}, .env = {{"A", "b c"}}, .input = ""};
  EXPECT_EQ(run.Run(command, Call{})->out, "A=b c\n");
}

TEST(Subprocess, InheritsNoDescriptorsBeyondTheThree) {
  SpawnSubprocess run;
  const auto done = run.Run({.argv = {"/bin/ls", "/proc/self/fd"}, .env = {}, .input = ""}, Call{});
  EXPECT_EQ(done->out, "0\n1\n2\n3\n");  // 3 is the one that ls reads the directory by
}

TEST(Subprocess, MissingProgramIsNotFound) {
  SpawnSubprocess run;
  EXPECT_EQ(run.Run({.argv = {"/no/such/program"}}, Call{}).error().code(), Code::kNotFound);
}

TEST(Subprocess, DeadlineEndsTheWholeGroup) {
  SpawnSubprocess run;
  const std::string mark = testing::TempDir() + "/subprocess_mark_" + std::to_string(getpid());
  const auto begun = std::chrono::steady_clock::now();
  const auto done =
      run.Run(Shell("(sleep 2; touch " + mark + ") & echo begun; sleep 60"), CallWithin(milliseconds(300)));
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code(), Code::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_FALSE(std::ifstream(mark).good()) << "a grandchild outlived the deadline";
}

TEST(Subprocess, ChildThatIgnoresTermIsKilled) {
  SpawnSubprocess run;
  Command command = Shell("trap '' TERM; while :; do sleep 0.1; done");
  command.kill_grace = milliseconds(200);
  const auto done = run.Run(command, CallWithin(milliseconds(200)));
  EXPECT_EQ(done.error().code(), Code::kTimeout);
  EXPECT_TRUE(run.Stuck().empty());
}

TEST(Subprocess, StopRequestEndsIt) {
  SpawnSubprocess run;
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(200));
    source.request_stop();
  });
  const auto done = run.Run(Shell("sleep 60"), Call{.stop = source.get_token()});
  EXPECT_EQ(done.error().code(), Code::kCancelled);
}

TEST(Subprocess, SignalIsReportedAsSuch) {
  SpawnSubprocess run;
  const auto done = run.Run(Shell("kill -SEGV $$"), Call{});
  EXPECT_EQ(done->signal, SIGSEGV);
  EXPECT_EQ(done->exit_status, -1);
}

TEST(ToolWords, FoldsLinesAndKeepsTheEnd) {
  EXPECT_EQ(ToolWords("  a\n  b  c\n\n"), "a; b c");
  EXPECT_EQ(ToolWords("0123456789", 4), "6789");
}

}  // namespace
}  // namespace quarry
