#include "base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
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
  EXPECT_EQ(done->out, "0\n1\n2\n3\n");  // 3 is ls's own descriptor of the directory
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

// Not a shell: it unblocks the signals.
TEST(Subprocess, UnbrokenChildIgnoresTermUntilItIsKilled) {
  SpawnSubprocess run;
  for (const bool unbroken : {false, true}) {
    Command command{.argv = {"/bin/sleep", "60"}, .env = {}, .input = ""};
    command.unbroken = unbroken;
    command.kill_grace = milliseconds(2000);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(run.Run(command, CallWithin(milliseconds(100))).error().code(), Code::kTimeout);
    EXPECT_EQ(std::chrono::steady_clock::now() - begun >= command.kill_grace, unbroken);
  }
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

// A file of its own, opened like a lock: for writing only.
class HeldFile : public testing::Test {
 protected:
  HeldFile() : fd_(mkostemp(path_.data(), O_CLOEXEC)) {
    EXPECT_EQ(write(fd_, "words\n", 6), 6);
    close(fd_);
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(flock(fd_, LOCK_EX), 0);
  }
  ~HeldFile() override {
    close(fd_);
    unlink(path_.c_str());
  }
  bool IsFree() const {
    const int other = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    const bool got = flock(other, LOCK_EX | LOCK_NB) == 0;
    close(other);
    return got;
  }

  // A child that has become the shell.
  static bool HasAChild() {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream children(task.path() / "children");
      std::string name;
      int pid = 0;
      if (children >> pid && std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name) &&
          name == "sh") {
        return true;
      }
    }
    return false;
  }

  std::string path_ = "/tmp/quarry-held-XXXXXX";
  int fd_;
};

TEST_F(HeldFile, IsTheChildsStandardInputAndSaysNothing) {
  for (const bool ends_with_us : {false, true}) {
    SpawnSubprocess run;
    Command command = Shell("readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; cat 2>/dev/null");
    command.hold_fd = fd_;
    command.ends_with_us = ends_with_us;
    EXPECT_EQ(run.Run(command, Call{})->out, path_ + "\n4\n");
  }
}

TEST_F(HeldFile, IsLockedUntilTheChildEnds) {
  SpawnSubprocess run;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  Command command{
      .argv = {"/bin/sh", "-c", fmt::format("read line <&{}", ends[0])}, .env = {}, .keep_fds = {ends[0]}};
  command.hold_fd = fd_;
  std::thread child([&] { EXPECT_TRUE(run.Run(command, CallWithin(std::chrono::minutes(1))).has_value()); });
  while (!HasAChild()) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  close(fd_);
  EXPECT_FALSE(IsFree());
  EXPECT_EQ(write(ends[1], "\n", 1), 1);
  child.join();
  EXPECT_TRUE(IsFree());
  fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  close(ends[0]);
  close(ends[1]);
}

TEST(Subprocess, OnlyChildrenThatEndWithUsGetTermWhenWeDie) {
  for (const bool ends_with_us : {false, true}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const pid_t us = fork();
    if (us == 0) {
      SpawnSubprocess run;
      Command command{
          .argv = {"/bin/sh", "-c", fmt::format("echo $$ >/proc/{}/fd/{}; exec sleep 30", getpid(), ends[1])},
          .env = {{"PATH", "/usr/bin:/bin"}}};
      command.ends_with_us = ends_with_us;
      (void)run.Run(command, Call{});
      _exit(0);
    }
    std::array<char, 32> text{};
    ASSERT_GT(read(ends[0], text.data(), text.size() - 1), 0);
    const int child = std::atoi(text.data());
    ASSERT_GT(child, 1);
    ASSERT_EQ(kill(us, SIGKILL), 0);
    ASSERT_EQ(waitpid(us, nullptr, 0), us);
    const auto lives = [child] {
      std::string state;
      std::ifstream in(fmt::format("/proc/{}/stat", child));
      return std::getline(in, state) && state.find(") Z ") == std::string::npos;
    };
    for (int i = 0; i < (ends_with_us ? 1000 : 30) && lives(); ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(lives(), !ends_with_us);
    kill(child, SIGKILL);
    close(ends[0]);
    close(ends[1]);
  }
}

TEST(Subprocess, ChildrenThatEndWithUsAnswerLikeOthers) {
  SpawnSubprocess run;
  Command command = Shell("echo out; echo err >&2; kill -TERM $$; exit 7");
  command.ends_with_us = true;
  const auto done = run.Run(command, Call{});
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_EQ(done->signal, SIGTERM);
  Command missing{.argv = {"/nowhere/at/all"}, .env = {}};
  missing.ends_with_us = true;
  EXPECT_EQ(run.Run(missing, Call{}).error().code(), Code::kNotFound);
}

TEST(ToolWords, FoldsLinesAndKeepsTheEnd) {
  EXPECT_EQ(ToolWords("  a\n  b  c\n\n"), "a; b c");
  EXPECT_EQ(ToolWords("0123456789", 4), "6789");
}

}  // namespace
}  // namespace quarry
