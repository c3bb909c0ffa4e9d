#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <functional>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace quarry {
namespace {

using std::chrono::milliseconds;

// A killed process that is not gone after this time counts as stuck in the kernel.
constexpr milliseconds kAfterKill{5000};
// No wait is longer than this, because a stop request has no descriptor that poll could watch.
constexpr milliseconds kSlice{100};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError("pipe2");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> Assignments(const Environment& env) {
  std::vector<std::string> out;
  out.reserve(env.size());
  for (const auto& [key, value] : env) {
    out.push_back(fmt::format("{}={}", key, value));
  }
  return out;
}

// posix_spawn attributes and file actions with their cleanup.
class SpawnPlan {
 public:
  SpawnPlan(std::span<const int> files, std::span<const int> keep, bool unbroken) {
    posix_spawnattr_init(&attr_);
    posix_spawn_file_actions_init(&actions_);
    sigset_t all;
    sigset_t blocked;
    sigfillset(&all);
    sigemptyset(&blocked);
    if (unbroken) {
      std::ranges::for_each(kEndingSignals, [&](int signal) { sigaddset(&blocked, signal); });
    }
    posix_spawnattr_setsigdefault(&attr_, &all);
    posix_spawnattr_setsigmask(&attr_, &blocked);
    posix_spawnattr_setpgroup(&attr_, 0);
    posix_spawnattr_setflags(&attr_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    for (size_t i = 0; i < files.size(); ++i) {
      Dup(files[i], static_cast<int>(i));
    }
    for (const int fd : keep) {
      Dup(fd, fd);
    }
    CloseAllBut(static_cast<int>(files.size()), keep);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attr_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  Result<pid_t> Run(const std::string& program, std::vector<std::string> argv, std::vector<std::string> env) {
    pid_t pid = -1;
    std::vector<char*> args = Pointers(argv);
    std::vector<char*> vars = Pointers(env);
    const int rc = posix_spawn(&pid, program.c_str(), &actions_, &attr_, args.data(), vars.data());
    if (rc != 0) {
      return ErrnoError(fmt::format("starting {}", program), rc);
    }
    return pid;
  }

 private:
  // Unlike dup2(2), this action clears close-on-exec if both numbers are equal. This process's descriptor
  // keeps the flag.
  void Dup(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  // Closes descriptors that this process may have inherited without close-on-exec, from `first` on. Closing
  // an unused number is not an error here.
  void CloseAllBut(int first, std::span<const int> keep) {
    const int rest = keep.empty() ? first : std::max(first, std::ranges::max(keep) + 1);
    for (int fd = first; fd < rest; ++fd) {
      if (std::ranges::find(keep, fd) == keep.end()) {
        posix_spawn_file_actions_addclose(&actions_, fd);
      }
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, rest);
  }

  posix_spawnattr_t attr_{};
  posix_spawn_file_actions_t actions_{};
};

// A child with ends_with_us, which posix_spawn cannot make. The kernel sends the signal when the thread that
// forked ends. That thread waits for the child, so in effect the signal comes when this process dies.
class BoundChild {
 public:
  explicit BoundChild(const std::array<int, 3>& files) : files_(files) {}

  Result<pid_t> Fork(std::vector<std::string> argv, std::vector<std::string> env) {
    std::vector<char*> args = Pointers(argv);
    std::vector<char*> vars = Pointers(env);
    QUARRY_ASSIGN(Pipe failure, MakePipe());
    const pid_t parent = getpid();
    const pid_t pid = _Fork();  // no fork handler of a library is needed
    if (pid == 0) {
      Run(parent, args.data(), vars.data(), failure.write.get());
    }
    if (pid < 0) {
      return ErrnoError(fmt::format("starting {}", argv[0]));
    }
    failure.write.Reset();
    int number = 0;
    if (read(failure.read.get(), &number, sizeof(number)) == sizeof(number)) {
      waitpid(pid, nullptr, 0);
      return ErrnoError(fmt::format("starting {}", argv[0]), number);
    }
    return pid;
  }

 private:
  // Runs in the child of a multi-threaded process: system calls only.
  [[noreturn]] void Run(pid_t parent, char** argv, char** env, int failure) const {
    setpgid(0, 0);
    // The copies get numbers of 10 and above, so that no dup2 below overwrites one of them.
    const int report = fcntl(failure, F_DUPFD_CLOEXEC, 10);
    std::array<int, 3> high{};
    for (size_t i = 0; i < files_.size(); ++i) {
      high[i] = fcntl(files_[i], F_DUPFD_CLOEXEC, 10);
    }
    for (size_t i = 0; i < high.size(); ++i) {
      dup2(high[i], static_cast<int>(i));
    }
    syscall(SYS_close_range, 3, report - 1, 0);
    syscall(SYS_close_range, report + 1, ~0U, 0);
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    for (int signal = 1; signal < NSIG; ++signal) {
      sigaction(signal, &plain, nullptr);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (getppid() == parent) {  // else the parent died before PR_SET_PDEATHSIG was set
      execve(argv[0], argv, env);
    }
    const int number = errno;
    (void)!write(report, &number, sizeof(number));
    _exit(127);
  }

  const std::array<int, 3> files_;
};

// One child from spawn to reap.
class Child {
 public:
  using TellStuck = std::function<void(pid_t, const std::string&)>;

  // `tell` is called if the child survives SIGKILL.
  Child(const Command& command, pid_t pid, UniqueFd in, UniqueFd out, UniqueFd err, TellStuck tell)
      : command_(command),
        tell_(std::move(tell)),
        pid_(pid),
        pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
        in_(std::move(in)),
        out_(std::move(out)),
        err_(std::move(err)),
        started_(std::chrono::steady_clock::now()) {
    if (command_.input.empty()) {
      in_.Reset();
    }
  }

  Result<Finished> Wait(const Call& call) {
    while (!Reaped()) {
      Step(kSlice);
      if (Status reason = call.Check(command_.argv[0]); !reason.has_value()) {
        return Stop(std::move(reason.error()));
      }
    }
    DrainRest();
    finished_.elapsed = Elapsed();
    return std::move(finished_);
  }

 private:
  milliseconds Elapsed() const {
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - started_);
  }

  void WriteInput() {
    const std::string_view rest = std::string_view(command_.input).substr(written_);
    const ssize_t n = write(in_.get(), rest.data(), rest.size());
    if (n > 0) {
      written_ += static_cast<size_t>(n);
    }
    if (written_ == command_.input.size() || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      in_.Reset();
    }
  }

  // Reads the available data. False once the other end is closed.
  bool Drain(const UniqueFd& fd, std::string& to) {
    std::array<char, 65536> chunk{};
    const ssize_t n = read(fd.get(), chunk.data(), chunk.size());
    if (n <= 0) {
      return n < 0 && (errno == EINTR || errno == EAGAIN);
    }
    const size_t room = command_.output_limit > to.size() ? command_.output_limit - to.size() : 0;
    const auto size = static_cast<size_t>(n);
    to.append(chunk.data(), std::min(room, size));
    finished_.output_truncated = finished_.output_truncated || size > room;
    return true;
  }

  void Step(milliseconds limit) {
    std::array<pollfd, 4> fds = {{{out_.get(), POLLIN, 0},
                                  {err_.get(), POLLIN, 0},
                                  {pidfd_.get(), POLLIN, 0},
                                  {in_.get(), POLLOUT, 0}}};
    if (poll(fds.data(), fds.size(), static_cast<int>(limit.count())) <= 0) {
      return;
    }
    if (fds[0].revents != 0 && !Drain(out_, finished_.out)) {
      out_.Reset();
    }
    if (fds[1].revents != 0 && !Drain(err_, finished_.err)) {
      err_.Reset();
    }
    if (fds[3].revents != 0 && in_.valid()) {
      WriteInput();
    }
  }

  bool Reaped() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) {
      return false;
    }
    if (WIFEXITED(status)) {
      finished_.exit_status = WEXITSTATUS(status);
    } else {
      finished_.signal = WTERMSIG(status);
    }
    return true;
  }

  // Reads what the dead child left in its pipes. Grandchildren may hold the pipes open forever, so only
  // available data is read.
  void DrainRest() {
    for (auto [fd, to] : {std::pair{&out_, &finished_.out}, std::pair{&err_, &finished_.err}}) {
      pollfd one{fd->get(), POLLIN, 0};
      while (fd->valid() && poll(&one, 1, 0) > 0 && Drain(*fd, *to)) {
      }
    }
  }

  bool GoneWithin(milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < end) {
      if (Reaped()) {
        return true;
      }
      Step(milliseconds(20));
    }
    return Reaped();
  }

  Error Stop(Error reason) {
    kill(-pid_, SIGTERM);
    bool gone = GoneWithin(command_.kill_grace);
    if (!gone) {
      kill(-pid_, SIGKILL);
      gone = GoneWithin(kAfterKill);
    }
    const auto after = Elapsed().count();
    if (!gone) {
      tell_(pid_, command_.argv[0]);
      return std::move(reason).Context(
          fmt::format("process {} ignores SIGKILL after {} ms (stuck in the kernel)", pid_, after));
    }
    DrainRest();
    const std::string words = ToolWords(finished_.err);
    return std::move(reason).Context(
        fmt::format("killed after {} ms{}{}", after, words.empty() ? "" : ", it said: ", words));
  }

  const Command& command_;
  const TellStuck tell_;
  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
  SteadyTime started_;
  size_t written_ = 0;
  Finished finished_;
};

}  // namespace

Result<pid_t> Spawn(const std::string& program, std::vector<std::string> argv, const Environment& env,
                    std::span<const int> files, std::span<const int> keep, bool unbroken) {
  return SpawnPlan(files, keep, unbroken).Run(program, std::move(argv), Assignments(env));
}

class SpawnSubprocess::Children {
 public:
  void Add(pid_t pid, std::string name) {
    const MutexLock lock(mutex_);
    stuck_.emplace_back(pid, std::move(name));
  }
  StuckChildren Sweep() {
    const MutexLock lock(mutex_);
    std::erase_if(stuck_, [](const auto& child) { return waitpid(child.first, nullptr, WNOHANG) != 0; });
    return stuck_;
  }

 private:
  Mutex mutex_;
  StuckChildren stuck_ ABSL_GUARDED_BY(mutex_);
};

SpawnSubprocess::SpawnSubprocess() : stuck_(std::make_shared<Children>()) {}

Result<Finished> SpawnSubprocess::Run(const Command& command, const Call& call) {
  QUARRY_TRY(call.Check(command.argv[0]));
  QUARRY_ASSIGN(Pipe in, MakePipe());
  QUARRY_ASSIGN(Pipe out, MakePipe());
  QUARRY_ASSIGN(Pipe err, MakePipe());
  fcntl(in.write.get(), F_SETFL, O_NONBLOCK);

  UniqueFd nothing;
  if (command.hold_fd < 0 && command.input.empty()) {
    nothing.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing.valid()) {
      return ErrnoError("opening /dev/null");
    }
  }
  const int input = command.hold_fd >= 0 ? command.hold_fd : nothing.valid() ? nothing.get() : in.read.get();
  const std::array<int, 3> files = {input, out.write.get(), err.write.get()};
  QUARRY_ASSIGN(const pid_t pid, command.ends_with_us
                                     ? BoundChild(files).Fork(command.argv, Assignments(command.env))
                                     : Spawn(command.argv[0], command.argv, command.env, files,
                                             command.keep_fds, command.unbroken));
  in.read.Reset();
  out.write.Reset();
  err.write.Reset();
  return Child(command, pid, std::move(in.write), std::move(out.read), std::move(err.read),
               [this](pid_t stuck, const std::string& name) { stuck_->Add(stuck, name); })
      .Wait(call);
}

StuckChildren SpawnSubprocess::Stuck() {
  return stuck_->Sweep();
}

std::string ToolWords(std::string_view text, size_t limit) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  if (text.size() > limit) {
    text.remove_prefix(text.size() - limit);
  }
  std::string out;
  bool pending_break = false;
  for (const char c : text) {
    if (c == '\n') {
      pending_break = !out.empty();
      continue;
    }
    const bool blank = c == ' ' && (out.empty() || out.back() == ' ' || pending_break);
    if (blank || static_cast<unsigned char>(c) < 0x20) {
      continue;
    }
    out += pending_break ? "; " : "";
    pending_break = false;
    out += c;
  }
  return out;
}

}  // namespace quarry
