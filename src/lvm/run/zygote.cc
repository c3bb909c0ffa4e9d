#include "lvm/run/zygote.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "lvm/run/zygote_process.h"

namespace quarry::lvm {
namespace {

using std::chrono::milliseconds;
using zygote::Process;
using zygote::Running;

// Pause after a failed start of the zygote.
constexpr milliseconds kTryAgain{10000};

bool IsPlain(char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != '\'' && c != '\\';
}

// Whether the zygote should run this command, whether it fits or not.
bool IsForZygote(const Command& command) {
  return command.argv.size() > 1 && std::filesystem::path(command.argv[0]).filename() == "lvm" &&
         command.input.empty() &&
         command.keep_fds.size() + (command.hold_fd >= 0 ? 1 : 0) <= zygote::kMostLocks;
}

Environment EnvironmentOf(const Command& command) {
  Environment out = command.env;
  std::erase_if(out, [](const auto& variable) { return variable.first == kKeepFdVariable; });
  return out;
}

bool Fits(const Command& command) {
  return IsForZygote(command) && FitsZygote({command.argv.begin() + 1, command.argv.end()});
}

}  // namespace

bool FitsZygote(const std::vector<std::string>& words) {
  size_t length = 0;
  for (const std::string& word : words) {
    if (word.empty() || !std::all_of(word.begin(), word.end(), IsPlain)) {
      return false;
    }
    length += word.size() + 1;
  }
  return !words.empty() && words.size() <= zygote::kMaxWords && length <= zygote::kMaxRequest;
}

std::string ZygoteProgram() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const std::string& path :
       {(own.parent_path() / "quarry-lvm").string(), std::string("/usr/libexec/quarry/quarry-lvm")}) {
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return {};
}

ZygoteSubprocess::ZygoteSubprocess(std::string program, Subprocess& others, Tell tell)
    : program_(std::move(program)), others_(others), tell_(std::move(tell)) {}
ZygoteSubprocess::~ZygoteSubprocess() = default;

// nullptr: no zygote for this command.
std::shared_ptr<Process> ZygoteSubprocess::Current(const Command& command, const Call& call) {
  const Environment env = EnvironmentOf(command);
  const MutexLock lock(mutex_);
  if (zygote_ != nullptr && zygote_->IsGone()) {
    zygote_ = nullptr;
  }
  if (zygote_ == nullptr) {
    const bool failed = failure_.has_value() && std::chrono::steady_clock::now() - failed_at_ < kTryAgain;
    if (program_.empty()) {
      failure_ = Error(Code::kNotFound, "there is no program quarry-lvm");
    }
    if (program_.empty() || failed) {
      return nullptr;
    }
    auto started = Process::Start(program_, env, call);
    ++counts_.starts;
    if (!started.has_value()) {
      // A call that ran out of time says nothing about the zygote.
      if (call.Check("").has_value()) {
        failure_ = std::move(started.error());
        failed_at_ = std::chrono::steady_clock::now();
      }
      return nullptr;
    }
    failure_.reset();
    zygote_ = std::move(*started);
  }
  return zygote_->env() == env ? zygote_ : nullptr;
}

void ZygoteSubprocess::Drop(const std::shared_ptr<Process>& dead) {
  const MutexLock lock(mutex_);
  if (zygote_ == dead) {
    zygote_ = nullptr;
  }
}

Result<Finished> ZygoteSubprocess::Run(const Command& command, const Call& call) {
  // Two attempts: a zygote may die between two commands. A request that it did not accept was not run.
  for (int attempt = 0; attempt < 2 && Fits(command); ++attempt) {
    QUARRY_TRY(call.Check(command.argv[1]));
    const std::shared_ptr<Process> zygote = Current(command, call);
    if (zygote == nullptr) {
      break;
    }
    QUARRY_ASSIGN(std::unique_ptr<Running> running, Running::Start(zygote, command));
    if (running == nullptr) {
      Drop(zygote);
      continue;
    }
    if (Status waited = running->Wait(call); !waited.has_value()) {
      return Stopped(std::move(running), command, std::move(waited.error()));
    }
    if (running->WasLost()) {
      Drop(zygote);
      continue;
    }
    const MutexLock lock(mutex_);
    ++counts_.run;
    return running->TakeFinished(command.output_limit);
  }
  return PassOn(command, call);
}

Result<Finished> ZygoteSubprocess::PassOn(const Command& command, const Call& call) {
  Error why(Code::kUnsupported, "the zygote cannot take this command line");
  {
    const MutexLock lock(mutex_);
    ++counts_.passed_on;
    if (Fits(command)) {
      why = failure_.value_or(Error(Code::kUnavailable, "the zygote is unavailable"));
    }
  }
  if (tell_ && IsForZygote(command)) {
    tell_(command, why);
  }
  return others_.Run(command, call);
}

Error ZygoteSubprocess::Stopped(std::unique_ptr<Running> running, const Command& command, Error reason) {
  const bool gone = running->Stop(command.kill_grace);
  const auto after = running->Elapsed().count();
  if (!gone) {
    const int pid = running->pid();
    const MutexLock lock(mutex_);
    stuck_.push_back(std::move(running));
    return std::move(reason).Context(
        fmt::format("process {} ignores SIGKILL after {} ms (stuck in the kernel)", pid, after));
  }
  const std::string words = running->Words();
  return std::move(reason).Context(
      fmt::format("killed after {} ms{}{}", after, words.empty() ? "" : ", it said: ", words));
}

StuckChildren ZygoteSubprocess::Stuck() {
  StuckChildren out = others_.Stuck();
  const MutexLock lock(mutex_);
  std::erase_if(stuck_, [](const auto& running) {
    running->Sweep();
    return running->ended();
  });
  for (const auto& running : stuck_) {
    out.emplace_back(running->pid(), running->name());
  }
  return out;
}

ZygoteSubprocess::Counts ZygoteSubprocess::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

std::optional<int> ZygoteSubprocess::pid() const {
  const MutexLock lock(mutex_);
  return zygote_ == nullptr || zygote_->IsGone() ? std::nullopt : std::optional<int>(zygote_->pid());
}

}  // namespace quarry::lvm
