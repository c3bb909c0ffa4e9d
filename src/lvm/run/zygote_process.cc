#include "lvm/run/zygote_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quarry::lvm::zygote {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Slice of every wait, so that a stop request is noticed.
constexpr milliseconds kSlice{100};
// A killed process that is not gone after this time counts as stuck in the kernel.
constexpr milliseconds kAfterKill{5000};
// Reading a configuration takes milliseconds, on a busy node seconds.
constexpr milliseconds kStartLimit{20000};
// An idle zygote ends faster.
constexpr milliseconds kEndLimit{100};
constexpr size_t kWords = 65536;

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};

Result<SocketPair> MakeSockets() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoError("socketpair");
  }
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<UniqueFd> MakeFile(const char* name) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError("memfd_create");
  }
  return fd;
}

// A file from its beginning, at most `limit` bytes, and whether this is all of it.
std::pair<std::string, bool> Content(const UniqueFd& fd, size_t limit) {
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) {
    return {};
  }
  const auto size = static_cast<size_t>(status.st_size);
  std::string text(std::min(size, limit), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = pread(fd.get(), text.data() + got, text.size() - got, static_cast<off_t>(got));
    if (n <= 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  text.resize(got);
  return {std::move(text), size <= limit};
}

// Waits at most `limit` until there is something to read.
bool IsReadable(const UniqueFd& fd, milliseconds limit) {
  pollfd one{fd.get(), POLLIN, 0};
  return poll(&one, 1, static_cast<int>(limit.count())) > 0;
}

}  // namespace

Result<std::shared_ptr<Process>> Process::Start(const std::string& program, const Environment& env,
                                                const Call& call) {
  QUARRY_ASSIGN(SocketPair control, MakeSockets());
  QUARRY_ASSIGN(const UniqueFd words, MakeFile("quarry-lvm"));
  const UniqueFd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd out(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!in.valid() || !out.valid()) {
    return ErrnoError("opening /dev/null");
  }
  const std::array<int, kControlFd + 1> files = {in.get(), out.get(), words.get(), control.theirs.get()};
  QUARRY_ASSIGN(const pid_t pid, Spawn(program, {"quarry-lvm"}, env, files));
  control.theirs.Reset();
  const std::shared_ptr<Process> process(new Process(pid, std::move(control.ours), env));
  const Call limited = call.Within(kStartLimit);
  while (!IsReadable(process->control_, std::min(kSlice, limited.Remaining()))) {
    if (Status status = limited.Check("waiting for the LVM zygote"); !status.has_value()) {
      kill(pid, SIGKILL);
      return std::move(status.error());
    }
  }
  Message message;
  if (recv(process->control_.get(), &message, sizeof(message), MSG_DONTWAIT) != sizeof(message)) {
    return Error(Code::kUnavailable, fmt::format("{} ended instead of serving: {}", program,
                                                 ToolWords(Content(words, kWords).first)));
  }
  return process;
}

Process::~Process() {
  control_.Reset();
  const SteadyTime end = steady_clock::now() + kEndLimit;
  while (waitpid(pid_, nullptr, WNOHANG) == 0 && steady_clock::now() < end) {
    usleep(500);
  }
}

// The zygote sends nothing on this socket after kReady.
bool Process::IsGone() const {
  return IsReadable(control_, milliseconds::zero());
}

bool Process::Send(const std::string& request, std::span<const int> fds) const {
  iovec part{const_cast<char*>(request.data()), request.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* first = CMSG_FIRSTHDR(&header);
  first->cmsg_level = SOL_SOCKET;
  first->cmsg_type = SCM_RIGHTS;
  first->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(first), fds.data(), fds.size_bytes());
  return sendmsg(control_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(request.size());
}

// The process id stays valid until the process is reaped, which only the destructor does.
void Process::Kill() const {
  kill(pid_, SIGKILL);
}

Result<std::unique_ptr<Running>> Running::Start(std::shared_ptr<Process> zygote, const Command& command) {
  QUARRY_ASSIGN(SocketPair reply, MakeSockets());
  QUARRY_ASSIGN(UniqueFd out, MakeFile("lvm-out"));
  QUARRY_ASSIGN(UniqueFd err, MakeFile("lvm-err"));
  const Kind kind = command.ends_with_us ? Kind::kWatches
                    : command.unbroken   ? Kind::kUnbroken
                                         : Kind::kChanges;
  const std::string request = fmt::format("{}{}", static_cast<char>(kind),
                                          fmt::join(command.argv.begin() + 1, command.argv.end(), " "));
  std::vector<int> fds = {reply.theirs.get(), out.get(), err.get()};
  if (command.hold_fd >= 0) {
    fds.push_back(command.hold_fd);
  }
  fds.insert(fds.end(), command.keep_fds.begin(), command.keep_fds.end());
  if (!zygote->Send(request, fds)) {
    return std::unique_ptr<Running>();
  }
  return std::unique_ptr<Running>(
      new Running(std::move(zygote), command, std::move(reply.ours), std::move(out), std::move(err)));
}

Running::Running(std::shared_ptr<Process> zygote, const Command& command, UniqueFd reply, UniqueFd out,
                 UniqueFd err)
    : zygote_(std::move(zygote)),
      name_(fmt::format("lvm {}", command.argv[1])),
      reply_(std::move(reply)),
      out_(std::move(out)),
      err_(std::move(err)),
      started_(steady_clock::now()) {}

Status Running::Wait(const Call& call) {
  while (!ended_) {
    Step(std::min(kSlice, call.Remaining()));
    if (!ended_) {
      QUARRY_TRY(call.Check(name_));
    }
  }
  return Ok();
}

bool Running::Stop(milliseconds grace) {
  for (const auto& [signal, limit] : {std::pair{SIGTERM, grace}, std::pair{SIGKILL, kAfterKill}}) {
    Signal(signal);
    const SteadyTime end = steady_clock::now() + limit;
    while (!ended_ && steady_clock::now() < end) {
      Step(milliseconds(20));
    }
    if (ended_) {
      return true;
    }
  }
  return false;
}

milliseconds Running::Elapsed() const {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - started_);
}

std::string Running::Words() const {
  return ToolWords(Content(err_, kWords).first);
}

Result<Finished> Running::TakeFinished(size_t output_limit) {
  if (not_started_ != 0) {
    return ErrnoError(fmt::format("{}: fork", name_), not_started_);
  }
  if (!known_) {
    return Error(Code::kUnavailable,
                 fmt::format("{}: its process and the LVM zygote have died, the outcome is unknown", name_));
  }
  bool all_out = true;
  bool all_err = true;
  std::tie(finished_.out, all_out) = Content(out_, output_limit);
  std::tie(finished_.err, all_err) = Content(err_, output_limit);
  finished_.output_truncated = !all_out || !all_err;
  finished_.elapsed = Elapsed();
  return std::move(finished_);
}

void Running::Step(milliseconds limit) {
  if (!IsReadable(reply_, limit)) {
    return;
  }
  Message message;
  const ssize_t n = recv(reply_.get(), &message, sizeof(message), MSG_DONTWAIT);
  if (n == sizeof(message)) {
    Note(message);
  } else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    ended_ = true;  // neither the zygote nor the command's process has the other end open
  }
}

void Running::Note(const Message& message) {
  switch (message.event) {
    case Event::kTaken:
      taken_ = true;
      return;
    case Event::kStarted:
      pid_ = message.value;
      return;
    case Event::kNotStarted:
      not_started_ = message.value;
      ended_ = true;
      return;
    case Event::kDone:
      finished_.exit_status = message.value;
      known_ = ended_ = true;
      return;
    case Event::kEnded:
      if (WIFEXITED(message.value)) {
        finished_.exit_status = WEXITSTATUS(message.value);
      } else {
        finished_.signal = WTERMSIG(message.value);
      }
      known_ = ended_ = true;
      return;
    case Event::kReady:
    case Event::kSignal:
      return;
  }
}

// Signals through the zygote, which knows whether the process is still its child. Without a zygote, the open
// socket proves that the process lives, so its id cannot belong to another process.
void Running::Signal(int signal) {
  if (!taken_ && signal == SIGKILL) {
    zygote_->Kill();
    return;
  }
  if (!zygote_->IsGone()) {
    const Message message{Event::kSignal, signal};
    (void)!send(reply_.get(), &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  } else if (pid_ > 0) {
    kill(-pid_, signal);
  }
}

}  // namespace quarry::lvm::zygote
