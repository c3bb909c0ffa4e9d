#include "gateway/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/unique_fd.h"

namespace quarry::gateway {
namespace {

constexpr int kFailedToStart = 127;

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

void RestoreSignals() {
  sigset_t none;
  sigemptyset(&none);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE}) {
    ::signal(number, SIG_DFL);
  }
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

// In the child; does not return. posix_spawn(3) has neither the signal at the parent's death nor a umask.
[[noreturn]] void Become(char* const* argv, char* const* environment, pid_t parent, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(kFailedToStart);
  }
  RestoreSignals();
  // What clients store is not for other users of this node.
  ::umask(077);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) {
    ::dup2(null, STDIN_FILENO);
  }
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(argv[0], argv, environment);
  const int failed = errno;
  // If this fails, the parent sees the exit status.
  [[maybe_unused]] const ssize_t written = ::write(report, &failed, sizeof failed);
  ::_exit(kFailedToStart);
}

}  // namespace

Result<pid_t> StartChild(std::vector<std::string> argv, const Environment& variables) {
  std::vector<std::string> lines;
  lines.reserve(variables.size());
  for (const auto& [key, value] : variables) {
    lines.push_back(fmt::format("{}={}", key, value));
  }
  const std::vector<char*> words = Pointers(argv);
  const std::vector<char*> environment = Pointers(lines);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError("pipe");
  }
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return ErrnoError("fork");
  }
  if (child == 0) {
    Become(words.data(), environment.data(), parent, write_end.get());
  }
  write_end.Reset();
  int failed = 0;
  // The end of the pipe means that the program runs: execve closed it.
  if (::read(read_end.get(), &failed, sizeof failed) == sizeof failed) {
    ::waitpid(child, nullptr, 0);
    return ErrnoError(argv[0], failed);
  }
  return child;
}

}  // namespace quarry::gateway
