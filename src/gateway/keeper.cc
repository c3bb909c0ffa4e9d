#include "gateway/keeper.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "gateway/child.h"
#include "gateway/gateway_command.h"
#include "gateway/privileges.h"
#include "gateway/problem_file.h"

namespace quarry::gateway {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGrace{2000};         // from SIGTERM to SIGKILL
constexpr milliseconds kLook{5000};          // to the next look at the files, whatever inotify says
constexpr milliseconds kLookForFolder{500};  // while there is no folder to watch
constexpr milliseconds kVersionLimit{8000};  // of `versitygw --version`; the unit's time to stop is longer

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

Result<UniqueFd> SignalFd() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {
    sigaddset(&wanted, number);
  }
  if (const int failed = ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr); failed != 0) {
    return ErrnoError("pthread_sigmask", failed);
  }
  UniqueFd fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) {
    return ErrnoError("signalfd");
  }
  return fd;
}

std::string HowItEnded(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit status {}", WEXITSTATUS(status));
}

std::vector<std::optional<FileMark>> CertificateMarks(const EnvironmentFile& file) {
  std::vector<std::optional<FileMark>> marks;
  for (const std::string_view key : {"VGW_CERT", "VGW_KEY"}) {
    const std::string path = ValueOf(file.variables, key);
    const auto mark = path.empty() ? Result<FileMark>(Error(Code::kNotFound, "")) : MarkOf(path);
    marks.push_back(mark.has_value() ? std::optional(*mark) : std::nullopt);
  }
  return marks;
}

void WarnOfUnreadableFiles(const EnvironmentFile& file, const Logger& log) {
  for (const std::string_view key : {"VGW_CERT", "VGW_KEY"}) {
    const std::string path = ValueOf(file.variables, key);
    if (!path.empty() && ::access(path.c_str(), R_OK) != 0) {
      const Error error = ErrnoError(path);
      log.Error("the gateway's user cannot read a file for TLS",
                {{"error", error.message()}, {"uid", static_cast<int64_t>(file.owner)}});
    }
  }
}

// versitygw says so too, but not what to do.
void WarnOfMissingAttributes(const AbsolutePath& folder, const Logger& log) {
  const std::string root = folder.str() + "/root";
  if (::getxattr(root.c_str(), "user.quarry", nullptr, 0) < 0 && errno == ENOTSUP) {
    log.Error(
        "the folder that versitygw serves needs a file system with user attributes: tmpfs has them from "
        "Linux 6.6 on, "
        "so with an older kernel it must be a link to a folder on a disk",
        {{"folder", root}});
  }
}

// versitygw makes up to 256 lock files for each bucket and removes none, so those of deleted buckets stay.
// While no gateway runs, nobody holds one.
void RemoveLockFiles(const AbsolutePath& folder) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder.str() + "/root/.vgwlocks", ignored), end; at != end;
       at.increment(ignored)) {
    std::filesystem::remove_all(at->path(), ignored);
  }
}

}  // namespace

Result<Keeper> Keeper::Create(KeeperSettings settings, const Logger& log) {
  QUARRY_ASSIGN(UniqueFd signals, SignalFd());
  UniqueFd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!changes.valid()) {
    return ErrnoError("inotify_init1");
  }
  return Keeper(std::move(settings), log, std::move(signals), std::move(changes));
}

Keeper::Keeper(KeeperSettings settings, const Logger& log, UniqueFd signals, UniqueFd changes)
    : settings_(std::move(settings)),
      log_(&log),
      path_(AbsolutePath::Parse(settings_.folder.str() + "/gateway.env").value()),
      signals_(std::move(signals)),
      changes_(std::move(changes)),
      version_(settings_.any_version, kVersionLimit) {}

Status Keeper::Run() {
  while (true) {
    TakeSignals();
    Reap();
    if (stopping_ && child_ < 0) {
      log_->Info("stopped");
      return Ok();
    }
    if (stopping_) {
      EndChild();
    } else {
      if (Status looked = LookAtFile(); !looked) {
        stopping_ = true;
        EndChild();
        log_->Error("cannot continue", {{"error", looked.error().message()}});
        return looked;  // the kernel kills a child that is still there
      }
      LookAtCertificate();
      StartIfDue();
    }
    KillIfDue();
    Wait();
  }
}

void Keeper::TakeSignals() {
  signalfd_siginfo taken{};
  while (::read(signals_.get(), &taken, sizeof taken) == sizeof taken) {
    stopping_ = stopping_ || taken.ssi_signo == SIGTERM || taken.ssi_signo == SIGINT;
    hangup_ = hangup_ || taken.ssi_signo == SIGHUP;
  }
  std::array<char, 4096> events{};
  while (::read(changes_.get(), events.data(), events.size()) > 0) {
  }
}

// All children: as the first process of a container, this one inherits those of others.
void Keeper::Reap() {
  int status = 0;
  for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended == child_) {
      Ended(status);
    }
  }
}

void Keeper::Ended(int status) {
  child_ = -1;
  const bool asked = kill_at_.has_value();
  kill_at_.reset();
  if (asked) {
    next_start_ = Now();
    return;
  }
  const auto ran = std::chrono::duration_cast<milliseconds>(Now() - started_);
  const milliseconds wait = back_off_.Next(ran);
  next_start_ = Now() + wait;
  TellProblem(settings_.folder,
              fmt::format("versitygw ended with {}: quarry-gateway's log has its words", HowItEnded(status)));
  log_->Warning("versitygw ended", {{"how", HowItEnded(status)},
                                    {"ran_ms", static_cast<int64_t>(ran.count())},
                                    {"restart_in_ms", static_cast<int64_t>(wait.count())}});
}

Status Keeper::LookAtFile() {
  // quarryd may have made the folder again. A watch that exists already is only confirmed.
  ::inotify_add_watch(changes_.get(), settings_.folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB);
  const auto mark = MarkOf(path_.str());
  if (mark.has_value() && mark_ == *mark) {
    return Ok();
  }
  auto file = ReadEnvironmentFile(path_);
  if (file.has_value()) {
    // Taken before the file was read: if it changed meanwhile, the next look reads it again.
    mark_ = mark.has_value() ? std::optional(*mark) : std::nullopt;
    problem_.clear();
    return Take(std::move(*file));
  }
  // A gateway that runs goes on with what it has.
  const bool missing = file.error().code() == Code::kNotFound;
  const std::string problem = missing ? "missing" : file.error().message();
  if (problem != problem_) {
    problem_ = problem;
    if (missing) {
      log_->Info("waiting for quarryd to write gateway.env: it does if buckets are on",
                 {{"file", path_.str()}});
    } else {
      log_->Error("cannot use gateway.env", {{"error", problem}});
    }
  }
  return Ok();
}

Status Keeper::Take(EnvironmentFile file) {
  if (file_.has_value() && file_->owner != file.owner) {
    return Error(Code::kPrecondition,
                 fmt::format("{} was user {}'s and is user {}'s now: start this program again", path_.str(),
                             file_->owner, file.owner));
  }
  if (!file_.has_value()) {
    QUARRY_TRY(BecomeUser(file.owner, file.group));
    log_->Info("serving as user", {{"uid", static_cast<int64_t>(file.owner)}});
  }
  const bool changed = !file_.has_value() || file_->variables != file.variables;
  file_ = std::move(file);
  if (changed) {
    back_off_.Reset();
    next_start_ = Now();
    if (child_ >= 0) {
      log_->Info("gateway.env changed: restarting versitygw");
      EndChild();
    }
  }
  return Ok();
}

// A renewed certificate comes in force by itself: what renews it, in Kubernetes for example, cannot send a
// signal.
void Keeper::LookAtCertificate() {
  if (!file_.has_value() || child_ < 0 || kill_at_.has_value()) {
    hangup_ = false;  // it reads its certificate when it starts
    return;
  }
  auto marks = CertificateMarks(*file_);
  const bool renewed = marks != certificate_;
  if (hangup_ || renewed) {
    log_->Info("versitygw reads its certificate again",
               {{"reason", renewed ? "the file changed" : "SIGHUP"}});
    ::kill(child_, SIGHUP);
    certificate_ = std::move(marks);
  }
  hangup_ = false;
}

void Keeper::StartIfDue() {
  if (file_.has_value() && child_ < 0 && Now() >= next_start_) {
    Start(*file_);
  }
}

std::optional<std::string> Keeper::CheckVersion() {
  auto version = version_.Check(settings_.versitygw, processes_);
  if (version.has_value()) {
    version_problem_.clear();
    return *version;
  }
  next_start_ = Now() + back_off_.Next(milliseconds(0));
  if (version.error().message() != version_problem_) {
    version_problem_ = version.error().message();
    log_->Error("cannot start versitygw", {{"error", version_problem_}});
    TellProblem(settings_.folder, version_problem_);
  }
  return std::nullopt;
}

void Keeper::Start(const EnvironmentFile& file) {
  const std::optional<std::string> version = CheckVersion();
  if (!version.has_value()) {
    return;
  }
  WarnOfUnreadableFiles(file, *log_);
  WarnOfMissingAttributes(settings_.folder, *log_);
  RemoveLockFiles(settings_.folder);
  certificate_ = CertificateMarks(file);
  const auto child = StartChild(GatewayCommand(settings_.versitygw, settings_.folder), file.variables);
  if (!child.has_value()) {
    const milliseconds wait = back_off_.Next(milliseconds(0));
    next_start_ = Now() + wait;
    log_->Error("cannot start versitygw", {{"error", child.error().message()},
                                           {"uid", static_cast<int64_t>(file.owner)},
                                           {"retry_in_ms", static_cast<int64_t>(wait.count())}});
    TellProblem(settings_.folder, "cannot start versitygw: " + child.error().message());
    return;
  }
  TellProblem(settings_.folder, "");
  if (*version != PinnedVersion()) {
    log_->Warning("this versitygw was not tested with Quarry, and runs because of --any-versitygw",
                  {{"version", *version}, {"tested", PinnedVersion()}});
  }
  child_ = *child;
  started_ = Now();
  log_->Info("started versitygw", {{"pid", static_cast<int64_t>(child_)},
                                   {"version", *version},
                                   {"listen", ValueOf(file.variables, "VGW_PORT")},
                                   {"generation", ValueOf(file.variables, "QUARRY_GENERATION")}});
}

void Keeper::EndChild() {
  if (child_ >= 0 && !kill_at_.has_value()) {
    ::kill(child_, SIGTERM);
    kill_at_ = Now() + kGrace;
  }
}

void Keeper::KillIfDue() {
  if (child_ >= 0 && kill_at_.has_value() && Now() >= *kill_at_) {
    log_->Warning("versitygw did not end by itself: killing it");
    ::kill(child_, SIGKILL);
    // A process in an uninterruptible wait ends later. The kernel keeps the signal.
    kill_at_ = Now() + kLook;
  }
}

milliseconds Keeper::UntilNextStep() const {
  SteadyTime next = Now() + (mark_.has_value() ? kLook : kLookForFolder);
  if (child_ < 0 && file_.has_value()) {
    next = std::min(next, next_start_);
  }
  if (kill_at_.has_value()) {
    next = std::min(next, *kill_at_);
  }
  // Rounded up, so that the step is due when the wait ends.
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(next - Now()));
}

void Keeper::Wait() const {
  std::array<pollfd, 2> fds = {{{.fd = signals_.get(), .events = POLLIN, .revents = 0},
                                {.fd = changes_.get(), .events = POLLIN, .revents = 0}}};
  ::poll(fds.data(), fds.size(), static_cast<int>(UntilNextStep().count()));
}

}  // namespace quarry::gateway
