#include "lvm/run/zygote.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "lvm/run/zygote_process.h"

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(FitsZygote, PlainWordsDo) {
  EXPECT_TRUE(FitsZygote({"lvs"}));
  EXPECT_TRUE(FitsZygote({"lvcreate", "-y", "--addtag", "quarry.name=a+2Fb&c#d!", "-l", "+10", "--", "vg/lv",
                          "/dev/disk/by-id/nvme-x:0-49"}));
}

TEST(FitsZygote, WordsThatASplitterCouldMisreadDoNot) {
  for (const char* word :
       {"", " ", "a b", "a\tb", "a\nb", "\"a", "a'b", "a\\b", "a\r", "\x01", "\x7f", "ä", "trailing "}) {
    EXPECT_FALSE(FitsZygote({"lvs", word})) << '[' << word << ']';
  }
  EXPECT_FALSE(FitsZygote({"lvs", std::string("a\0b", 3)}));
  EXPECT_FALSE(FitsZygote({}));
}

TEST(FitsZygote, NeitherDoTooManyOrTooLong) {
  EXPECT_TRUE(FitsZygote(Words(63, "a")));
  EXPECT_FALSE(FitsZygote(Words(64, "a")));
  EXPECT_TRUE(FitsZygote({"lvs", std::string(60000, 'a')}));
  EXPECT_FALSE(FitsZygote({"lvs", std::string(70000, 'a')}));
}

// Records each command, and runs it.
class Recorder final : public Subprocess {
 public:
  Result<Finished> Run(const Command& command, const Call& call) override {
    commands.push_back(command);
    return real.Run(command, call);
  }
  std::vector<std::pair<int, std::string>> Stuck() override { return {}; }

  SpawnSubprocess real;
  std::vector<Command> commands;
};

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The real zygote and the real lvm, with a configuration that shows no disk at all.
class Zygote : public testing::Test {
 protected:
  Zygote() {
    std::string name = QUARRY_SCRATCH "/zygote-XXXXXX";
    fs::create_directories(QUARRY_SCRATCH);
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    fs::create_directories(folder_ / "none");
    fs::create_directories(folder_ / "lock");
    std::ofstream(folder_ / "lvm.conf") << fmt::format(
        "devices {{ scan = [ \"{0}/none\" ] filter = [ \"r|.*|\" ] use_devicesfile = 0 hints = \"none\" }}\n"
        "global {{ use_aio = 0 locking_dir = \"{0}/lock\" notify_dbus = 0 }}\n"
        "activation {{ monitoring = 0 }}\ndmeventd {{ executable = \"{1}\" }}\n",
        folder_.string(), long_word_);
  }
  ~Zygote() override {
    zygote_.reset();
    fs::remove_all(folder_);
  }

  Command Lvm(Words words) const {
    Command command;
    command.argv = {"/usr/sbin/lvm"};
    command.argv.insert(command.argv.end(), words.begin(), words.end());
    command.argv.insert(command.argv.end(), {"--driverloaded", "n"});
    command.env = {{"LC_ALL", "C"},
                   {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                   {"LVM_SYSTEM_DIR", folder_.string()},
                   {"LVM_SUPPRESS_FD_WARNINGS", "1"}};
    return command;
  }
  Finished Run(Words words) {
    auto finished = zygote_->Run(Lvm(std::move(words)), {});
    EXPECT_TRUE(finished.has_value()) << finished.error().message();
    return finished.value_or(Finished());
  }

  // A command that waits for LVM's global lock until Release().
  Command Blocked() {
    lock_.Reset(open((folder_ / "lock/P_global").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_EQ(flock(lock_.get(), LOCK_EX), 0);
    return Lvm({"pvcreate", "/dev/nonexistent"});
  }
  void Release() { lock_.Reset(); }

  // A group's lock file, as in quarryd.
  std::string GroupLock(const std::string& name) const { return (folder_ / (name + ".lock")).string(); }
  UniqueFd TakeGroupLock(const std::string& name) const {
    UniqueFd fd(open(GroupLock(name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return flock(fd.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(fd) : UniqueFd();
  }
  // How often a process has that file open, and under which descriptors.
  static std::vector<std::string> DescriptorsOf(int pid, const std::string& path) {
    std::vector<std::string> out;
    for (const auto& fd : fs::directory_iterator(fmt::format("/proc/{}/fd", pid))) {
      std::error_code gone;
      if (fs::read_symlink(fd.path(), gone) == path) {
        out.push_back(fd.path().filename());
      }
    }
    return out;
  }
  // The zygote's children that wait for that lock. (A child that has answered may not have exited yet.)
  std::vector<int> Waiting(int zygote) const {
    std::istringstream list(ReadFile(fmt::format("/proc/{0}/task/{0}/children", zygote)));
    std::vector<int> pids;
    for (int pid = 0; list >> pid;) {
      std::error_code error;
      for (fs::directory_iterator fd(fmt::format("/proc/{}/fd", pid), error);
           !error && fd != fs::directory_iterator(); fd.increment(error)) {
        std::error_code gone;
        // A second one waits for P_global:aux first.
        if (fs::read_symlink(fd->path(), gone).string().starts_with((folder_ / "lock/P_global").string())) {
          pids.push_back(pid);
          break;  // the first one has P_global:aux and P_global
        }
      }
    }
    return pids;
  }
  int WaitForChild() {
    for (int i = 0; i < 6000; ++i) {
      const auto zygote = zygote_->pid();
      if (const auto pids = zygote.has_value() ? Waiting(*zygote) : std::vector<int>(); !pids.empty()) {
        return pids[0];
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "no child";
    return -1;
  }
  int ZygotePid() const {
    const auto pid = zygote_->pid();
    EXPECT_TRUE(pid.has_value());
    return pid.value_or(-1);
  }
  // Never -1: kill(2) would signal every process.
  static void Signal(int pid, int signal) {
    ASSERT_GT(pid, 1);
    EXPECT_EQ(kill(pid, signal), 0);
  }
  static bool Exists(int pid) {
    return fs::exists(fmt::format("/proc/{}", pid)) &&
           ReadFile(fmt::format("/proc/{}/stat", pid)).find(") Z ") == std::string::npos;
  }
  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return holds();
  }
  static bool GoneSoon(int pid) {
    return Eventually([pid] { return !Exists(pid); });
  }

  const std::string long_word_ = std::string(9000, 'w') + "end";
  fs::path folder_;
  Recorder others_;
  std::unique_ptr<ZygoteSubprocess> zygote_ = std::make_unique<ZygoteSubprocess>(QUARRY_ZYGOTE, others_);
  UniqueFd lock_;
};

TEST_F(Zygote, AnswersAsTheProgramDoes) {
  const std::vector<Words> commands = {{"help", "lvcreate"},
                                       {"lvs", "--reportformat", "json"},
                                       {"fullreport", "--reportformat", "json"},
                                       {"vgs", "nosuch"},
                                       {"lvs", "--nosuchoption"},
                                       {"lvcreate", "-l", "x", "vg"},
                                       {"lvchange", "--addtag", "a#b!c", "no/such"},
                                       {"lvremove", "-y", "no/such"},
                                       {"segtypes"},
                                       {"lvmconfig"}};
  for (const Words& words : commands) {
    const Finished ours = Run(words);
    const Finished theirs = *others_.real.Run(Lvm(words), {});
    EXPECT_EQ(ours.exit_status, theirs.exit_status) << words[0];
    EXPECT_EQ(ours.out, theirs.out) << words[0];
    EXPECT_EQ(ours.err, theirs.err) << words[0];
    EXPECT_FALSE(ours.output_truncated);
  }
  EXPECT_EQ(zygote_->counts().run, commands.size());
  EXPECT_EQ(zygote_->counts().starts, 1U);
  EXPECT_TRUE(others_.commands.empty());
}

// For these two the words differ: the program has commands that the library lacks.
TEST_F(Zygote, StatusEqualsTheProgramsWhereTheWordsDiffer) {
  EXPECT_EQ(Run({"nosuchcommand"}).exit_status, 2);
  const Finished version = Run({"version"});
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_THAT(version.out, HasSubstr("LVM version:"));
}

TEST_F(Zygote, LinesBeyond4095BytesComeWhole) {
  EXPECT_THAT(Run({"lvmconfig", "dmeventd/executable"}).out, HasSubstr(long_word_));
  const std::string name(8000, 'n');
  EXPECT_THAT(Run({"vgs", name}).err, HasSubstr(name));
}

TEST_F(Zygote, OutputBeyondTheLimitIsDroppedAndFlagged) {
  Command command = Lvm({"help", "lvcreate"});
  command.output_limit = 100;
  const auto finished = zygote_->Run(command, {});
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->output_truncated);
  EXPECT_EQ(finished->out.size(), 100U);
}

TEST_F(Zygote, LinesThatDoNotFitArePassedOn) {
  Run({"version"});
  Command other_env = Lvm({"version"});
  other_env.env.emplace_back("X", "1");
  Command with_input = Lvm({"version"});
  with_input.input = "x";
  Command other_program;
  other_program.argv = {"/bin/true"};
  Words many = {"lvs"};
  many.insert(many.end(), 61, "no/such");
  for (const Command& command : {Lvm({"lvs", "a b"}), Lvm({"lvs", ""}), Lvm({"lvs", "\"a\""}), Lvm(many),
                                 other_env, with_input, other_program}) {
    EXPECT_TRUE(zygote_->Run(command, {}).has_value());
  }
  EXPECT_EQ(others_.commands.size(), 7U);
  EXPECT_EQ(zygote_->counts().run, 1U);
  EXPECT_EQ(zygote_->counts().passed_on, 7U);
}

// lvm2_run() takes 63 words; a longer line would not run at all.
TEST_F(Zygote, AsManyWordsAsTheLibraryTakes) {
  Words most = {"lvs"};
  most.insert(most.end(), 60, "no/such");
  const Finished finished = Run(most);
  EXPECT_EQ(finished.exit_status, 5);
  EXPECT_THAT(finished.err, HasSubstr("\"no\" not found"));
  EXPECT_TRUE(others_.commands.empty());
}

TEST_F(Zygote, DeadlineKillsTheCommandAndNothingElse) {
  Run({"version"});
  const int zygote = ZygotePid();
  const auto finished = zygote_->Run(Blocked(), CallWithin(milliseconds(200)));
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code(), Code::kTimeout);
  EXPECT_THAT(finished.error().message(), HasSubstr("killed after"));
  EXPECT_TRUE(Waiting(zygote).empty());
  EXPECT_EQ(zygote_->pid(), zygote);
  Release();
  EXPECT_EQ(Run({"version"}).exit_status, 0);
}

TEST_F(Zygote, CommandThatIgnoresTermIsKilled) {
  Run({"version"});
  Command command = Blocked();
  command.kill_grace = milliseconds(100);
  std::stop_source stop;
  std::thread stopper([&] {
    Signal(WaitForChild(), SIGSTOP);  // TERM must wait then
    stop.request_stop();
  });
  const auto finished = zygote_->Run(command, Call{.stop = stop.get_token()});
  stopper.join();
  EXPECT_EQ(finished.error().code(), Code::kCancelled);
  EXPECT_THAT(finished.error().message(), testing::Not(HasSubstr("stuck")));
  EXPECT_TRUE(Waiting(ZygotePid()).empty());
  EXPECT_TRUE(zygote_->Stuck().empty());
}

// A command that timed out must not run later, when no caller expects it.
TEST_F(Zygote, AZygoteThatAcceptsNothingIsKilled) {
  Run({"version"});
  const int zygote = ZygotePid();
  Signal(zygote, SIGSTOP);
  Command command = Lvm({"version"});
  command.kill_grace = milliseconds(100);
  const auto finished = zygote_->Run(command, CallWithin(milliseconds(200)));
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code(), Code::kTimeout);
  EXPECT_THAT(finished.error().message(), testing::Not(HasSubstr("stuck")));
  EXPECT_TRUE(GoneSoon(zygote));
  EXPECT_EQ(zygote_->counts().run, 1U);
  EXPECT_EQ(Run({"version"}).exit_status, 0);
  EXPECT_EQ(zygote_->counts().starts, 2U);
  EXPECT_TRUE(others_.commands.empty());
}

TEST_F(Zygote, StopEndsTheCommand) {
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(200));
    stop.request_stop();
  });
  const auto finished = zygote_->Run(Blocked(), Call{.stop = stop.get_token()});
  stopper.join();
  EXPECT_EQ(finished.error().code(), Code::kCancelled);
}

TEST_F(Zygote, CommandKilledByOthersEndsWithThatSignal) {
  Run({"version"});
  std::thread killer([&] { Signal(WaitForChild(), SIGKILL); });
  const auto finished = zygote_->Run(Blocked(), {});
  killer.join();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->signal, SIGKILL);
  EXPECT_EQ(finished->exit_status, -1);
}

TEST_F(Zygote, DeadZygoteIsReplaced) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run({"version"}).exit_status, 0);
    Signal(ZygotePid(), SIGKILL);
  }
  EXPECT_EQ(Run({"version"}).exit_status, 0);
  EXPECT_GE(zygote_->counts().starts, 2U);
  EXPECT_TRUE(others_.commands.empty());
}

TEST_F(Zygote, CommandOutlivesItsZygoteAndStillAnswers) {
  Run({"version"});
  const int zygote = ZygotePid();
  Result<Finished> finished = Error(Code::kInternal, "nothing yet");
  const Command command = Blocked();
  std::thread runner([&] { finished = zygote_->Run(command, {}); });
  WaitForChild();
  Signal(zygote, SIGKILL);
  std::this_thread::sleep_for(milliseconds(50));
  Release();
  runner.join();
  ASSERT_TRUE(finished.has_value()) << finished.error().message();
  EXPECT_EQ(finished->exit_status, 5);
  EXPECT_FALSE(zygote_->pid().has_value());
}

TEST_F(Zygote, CommandWithoutZygoteCanBeKilledToo) {
  Run({"version"});
  const int zygote = ZygotePid();
  const Command command = Blocked();
  std::stop_source stop;
  Result<Finished> finished;
  std::thread runner([&] { finished = zygote_->Run(command, Call{.stop = stop.get_token()}); });
  const int child = WaitForChild();
  Signal(zygote, SIGKILL);
  stop.request_stop();
  runner.join();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code(), Code::kCancelled);
  EXPECT_TRUE(GoneSoon(child));
}

TEST_F(Zygote, OutcomeIsUnknownOnceBothAreDead) {
  Run({"version"});
  const int zygote = ZygotePid();
  const Command command = Blocked();
  Result<Finished> finished;
  std::thread runner([&] { finished = zygote_->Run(command, {}); });
  const int child = WaitForChild();
  Signal(zygote, SIGKILL);
  Signal(child, SIGKILL);
  runner.join();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code(), Code::kUnavailable);
  EXPECT_THAT(finished.error().message(), HasSubstr("unknown"));
}

TEST_F(Zygote, ManyCommandsMayRunAtOnce) {
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string name = fmt::format("group{}x{}", t, i);
        const auto finished = zygote_->Run(Lvm({"vgs", name}), {});
        good += finished.has_value() && finished->err.find(name) != std::string::npos ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, 80);
  EXPECT_EQ(zygote_->counts().starts, 1U);
}

TEST_F(Zygote, BlockedCommandDoesNotHoldUpOthers) {
  Run({"version"});
  const Command command = Blocked();
  std::thread runner([&] { EXPECT_TRUE(zygote_->Run(command, {}).has_value()); });
  WaitForChild();
  EXPECT_EQ(Run({"version"}).exit_status, 0);
  Release();
  runner.join();
}

TEST_F(Zygote, LeaksNoDescriptors) {
  Run({"version"});
  const auto count = [](const std::string& pid) {
    return std::distance(fs::directory_iterator("/proc/" + pid + "/fd"), {});
  };
  const std::string zygote = std::to_string(*zygote_->pid());
  const auto own = count("self");
  const auto its = count(zygote);
  for (int i = 0; i < 20; ++i) {
    Run({"version"});
  }
  EXPECT_EQ(count("self"), own);
  for (int i = 0; i < 100 && count(zygote) > its; ++i) {
    std::this_thread::sleep_for(milliseconds(10));  // until the zygote has reaped the last one
  }
  EXPECT_LE(count(zygote), its);

  const Command command = Blocked();
  std::thread first([&] { EXPECT_TRUE(zygote_->Run(command, {}).has_value()); });
  WaitForChild();
  std::thread second([&] { EXPECT_TRUE(zygote_->Run(command, {}).has_value()); });
  while (Waiting(*zygote_->pid()).size() < 2) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  std::this_thread::sleep_for(milliseconds(100));
  for (const int child : Waiting(*zygote_->pid())) {
    int sockets = 0;
    for (const auto& fd : fs::directory_iterator(fmt::format("/proc/{}/fd", child))) {
      std::error_code error;
      sockets += fs::read_symlink(fd.path(), error).string().starts_with("socket:") ? 1 : 0;
    }
    EXPECT_EQ(sockets, 1) << "its own reply socket, none of the control's or the other's";
  }
  Release();
  first.join();
  second.join();
}

TEST_F(Zygote, EachCommandKeepsItsOwnLockUntilItEndsAndTheZygoteKeepsNone) {
  Run({"version"});
  Command a = Blocked();
  Command b = a;
  UniqueFd lock_a = TakeGroupLock("a");
  UniqueFd lock_b = TakeGroupLock("b");
  a.hold_fd = lock_a.get();
  b.hold_fd = lock_b.get();
  std::thread first([&] { EXPECT_TRUE(zygote_->Run(a, {}).has_value()); });
  const int child_a = WaitForChild();
  std::thread second([&] { EXPECT_TRUE(zygote_->Run(b, {}).has_value()); });
  while (Waiting(ZygotePid()).size() < 2) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  for (const int child : Waiting(ZygotePid())) {
    const auto [own, other] = child == child_a ? std::pair("a", "b") : std::pair("b", "a");
    EXPECT_THAT(DescriptorsOf(child, GroupLock(own)), testing::ElementsAre("0"));
    EXPECT_THAT(DescriptorsOf(child, GroupLock(other)), testing::IsEmpty());
  }
  EXPECT_THAT(DescriptorsOf(ZygotePid(), GroupLock("a")), testing::IsEmpty());
  EXPECT_THAT(DescriptorsOf(ZygotePid(), GroupLock("b")), testing::IsEmpty());
  lock_a.Reset();  // as if quarryd had died
  lock_b.Reset();
  EXPECT_FALSE(TakeGroupLock("a").valid()) << "the command has it still";
  EXPECT_FALSE(TakeGroupLock("b").valid());
  Release();
  first.join();
  second.join();
  EXPECT_TRUE(Eventually([&] { return TakeGroupLock("a").valid() && TakeGroupLock("b").valid(); }));
  EXPECT_TRUE(others_.commands.empty());
}

// The command waits until somebody reads the file that it writes. LVM has no lock then, and blocks no signal.
TEST_F(Zygote, AnUnbrokenCommandIgnoresTerm) {
  Run({"version"});
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const bool unbroken : {false, true}) {
    Command command = Lvm({"config", "--file", fifo});
    command.unbroken = unbroken;
    command.kill_grace = milliseconds(60000);
    std::stop_source stop;
    std::atomic<bool> ended = false;
    std::thread runner([&] {
      EXPECT_FALSE(zygote_->Run(command, {.stop = stop.get_token()}).has_value());
      ended = true;
    });
    const std::string children = fmt::format("/proc/{0}/task/{0}/children", ZygotePid());
    EXPECT_TRUE(Eventually([&] { return !ReadFile(children).empty(); }));
    std::this_thread::sleep_for(milliseconds(200));  // it opens the file
    stop.request_stop();
    std::this_thread::sleep_for(milliseconds(500));
    EXPECT_NE(ended, unbroken);
    const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    runner.join();
  }
}

// As for a create under LVM's own lock. The variable is for the lvm program only.
TEST_F(Zygote, ACommandKeepsASecondLockToo) {
  Run({"version"});
  Command command = Blocked();
  UniqueFd claim = TakeGroupLock("claim");
  UniqueFd group = TakeGroupLock("group");
  command.hold_fd = claim.get();
  command.keep_fds = {group.get()};
  command.env.emplace_back("LVM_REPORT_FD", std::to_string(group.get()));
  std::thread runner([&] { EXPECT_TRUE(zygote_->Run(command, {}).has_value()); });
  const int child = WaitForChild();
  EXPECT_EQ(DescriptorsOf(child, GroupLock("claim")).size(), 1U);
  EXPECT_EQ(DescriptorsOf(child, GroupLock("group")).size(), 1U);
  EXPECT_THAT(DescriptorsOf(ZygotePid(), GroupLock("group")), testing::IsEmpty());
  claim.Reset();
  group.Reset();
  EXPECT_FALSE(TakeGroupLock("claim").valid());
  EXPECT_FALSE(TakeGroupLock("group").valid());
  Release();
  runner.join();
  EXPECT_TRUE(Eventually([&] { return TakeGroupLock("claim").valid() && TakeGroupLock("group").valid(); }));
  EXPECT_TRUE(others_.commands.empty());
}

TEST_F(Zygote, WatchingCommandsEndWithUs) {
  Command command = Blocked();
  command.ends_with_us = true;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const pid_t us = fork();
  if (us == 0) {
    std::thread([&] { (void)zygote_->Run(command, {}); }).detach();
    while (!zygote_->pid().has_value() || Waiting(*zygote_->pid()).empty()) {
      usleep(1000);
    }
    const std::array<int, 2> pids = {*zygote_->pid(), Waiting(*zygote_->pid())[0]};
    (void)!write(write_end.get(), pids.data(), sizeof(pids));
    _exit(0);
  }
  std::array<int, 2> pids{};
  ASSERT_EQ(read(read_end.get(), pids.data(), sizeof(pids)), static_cast<ssize_t>(sizeof(pids)));
  waitpid(us, nullptr, 0);
  EXPECT_TRUE(GoneSoon(pids[1])) << "nobody has released what it waits for";
  EXPECT_TRUE(GoneSoon(pids[0]));
}

TEST_F(Zygote, WatchingCommandsEndWithTheirZygote) {
  Run({"version"});
  Command command = Blocked();
  command.ends_with_us = true;
  // LVM may answer TERM with a failure of its own, which is then the outcome. Otherwise the outcome is
  // unknown.
  std::thread runner([&] { EXPECT_NE(zygote_->Run(command, {}).value_or(Finished()).exit_status, 0); });
  const int child = WaitForChild();
  Signal(ZygotePid(), SIGKILL);
  runner.join();
  EXPECT_TRUE(GoneSoon(child)) << "nobody has released what it waits for";
}

TEST_F(Zygote, EndsWithUsButLetsItsCommandsFinish) {
  const Command command = Blocked();
  UniqueFd read_end;
  UniqueFd write_end;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  read_end.Reset(ends[0]);
  write_end.Reset(ends[1]);
  const pid_t us = fork();
  if (us == 0) {
    // A quarryd that dies while a command runs.
    std::thread([&] { (void)zygote_->Run(command, {}); }).detach();
    while (!zygote_->pid().has_value() || Waiting(*zygote_->pid()).empty()) {
      usleep(1000);
    }
    const std::array<int, 2> pids = {*zygote_->pid(), Waiting(*zygote_->pid())[0]};
    (void)!write(write_end.get(), pids.data(), sizeof(pids));
    _exit(0);
  }
  std::array<int, 2> pids{};
  ASSERT_EQ(read(read_end.get(), pids.data(), sizeof(pids)), static_cast<ssize_t>(sizeof(pids)));
  waitpid(us, nullptr, 0);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_TRUE(Exists(pids[0])) << "the zygote waits for its command";
  EXPECT_TRUE(Exists(pids[1])) << "which was not killed";
  Release();
  EXPECT_TRUE(GoneSoon(pids[1]));
  EXPECT_TRUE(GoneSoon(pids[0]));
}

TEST_F(Zygote, IdleZygoteIsGoneWithUs) {
  Run({"version"});
  const int pid = ZygotePid();
  zygote_.reset();
  EXPECT_TRUE(GoneSoon(pid));
}

TEST_F(Zygote, IsNotEndedBySignalsMeantForUs) {
  Run({"version"});
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
    Signal(ZygotePid(), signal);
  }
  EXPECT_EQ(Run({"version"}).exit_status, 0);
  EXPECT_EQ(zygote_->counts().starts, 1U);
}

TEST_F(Zygote, WithoutItsProgramAllCommandsArePassedOnAndReported) {
  for (const std::string& program :
       {std::string(), std::string("/nowhere/quarry-lvm"), std::string("/bin/false")}) {
    Recorder others;
    std::vector<std::string> told;
    ZygoteSubprocess zygote(program, others, [&](const Command& command, const Error& why) {
      EXPECT_NE(why.code(), Code::kUnsupported);
      told.push_back(command.argv.at(1));
    });
    EXPECT_EQ(zygote.Run(Lvm({"version"}), {})->exit_status, 0);
    EXPECT_EQ(zygote.Run(Lvm({"segtypes"}), {})->exit_status, 0);
    EXPECT_EQ(others.commands.size(), 2U);
    EXPECT_THAT(told, testing::ElementsAre("version", "segtypes"));
    EXPECT_LE(zygote.counts().starts, 1U) << "not tried again at once";
  }
}

TEST_F(Zygote, LinesThatDoNotFitAreReported) {
  std::vector<Code> told;
  ZygoteSubprocess zygote(QUARRY_ZYGOTE, others_,
                          [&](const Command&, const Error& why) { told.push_back(why.code()); });
  EXPECT_TRUE(zygote.Run(Lvm({"lvs", "a b"}), {}).has_value());
  EXPECT_TRUE(zygote.Run(Lvm({"version"}), {}).has_value());
  EXPECT_THAT(told, testing::ElementsAre(Code::kUnsupported));
}

}  // namespace
}  // namespace quarry::lvm
