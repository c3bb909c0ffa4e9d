#include "base/guarded_subprocess.h"

#include <fmt/format.h>

#include "base/call_record.h"

namespace quarry {
namespace {

// The program and its first word: "lvm lvcreate". The other words may be long, or secret.
std::string NameOf(const Command& command) {
  const std::string& program = command.argv.front();
  const std::string name = program.substr(program.rfind('/') + 1);
  return command.argv.size() > 1 ? fmt::format("run {} {}", name, command.argv[1]) : "run " + name;
}

}  // namespace

std::string TellOfStuck(const StuckChildren& stuck) {
  if (stuck.empty()) {
    return "";
  }
  constexpr size_t kNamed = 8;  // a message names at most this many processes
  std::string names;
  for (size_t i = 0; i < stuck.size() && i < kNamed; ++i) {
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", stuck[i].first, stuck[i].second);
  }
  return fmt::format("{} stuck in the kernel ({}{}): a disk does not answer; see the kernel's log",
                     stuck.size() == 1 ? "1 process is" : fmt::format("{} processes are", stuck.size()),
                     names, stuck.size() > kNamed ? ", …" : "");
}

GuardedSubprocess::GuardedSubprocess(Subprocess& inner, size_t limit, Tell tell)
    : inner_(inner), limit_(limit), tell_(std::move(tell)) {}

Result<Finished> GuardedSubprocess::Run(const Command& command, const Call& call) {
  if (const StuckChildren stuck = inner_.Stuck(); stuck.size() >= limit_) {
    return Error(
        Code::kUnavailable,
        fmt::format("not started: {}. Work resumes when they end, or after a reboot", TellOfStuck(stuck)));
  }
  const TimedStep step(call, [&] { return NameOf(command); });
  const auto before = std::chrono::steady_clock::now();
  Result<Finished> finished = inner_.Run(command, call);
  if (tell_) {
    tell_(command, std::chrono::steady_clock::now() - before);
  }
  return finished;
}

}  // namespace quarry
