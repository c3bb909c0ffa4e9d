#include "tests/vm/kit/process_trace.h"

#include <linux/sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "tests/vm/kit/shell.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;

constexpr char kTracing[] = "/sys/kernel/tracing/";

Status Set(const std::string& file, const std::string& value) {
  std::ofstream out(kTracing + file);
  out << value << std::flush;
  return out.good() ? Ok() : Status(Error(Code::kUnsupported, "cannot set " + file + " of tracefs"));
}

// "comm-pid (tgid) [cpu] flags time: task_newtask: pid=7 comm=x clone_flags=1200011 oom_score_adj=0"; a comm
// may contain blanks. nullopt: the line is of another kind, or reports a thread.
struct NewProcess {
  pid_t parent = 0;  // 0: not known
};
std::optional<NewProcess> Parse(const std::string& line) {
  const size_t event = line.find(" task_newtask: ");
  const size_t flags = line.find("clone_flags=", event);
  if (line.starts_with('#') || event == std::string::npos || flags == std::string::npos) {
    return std::nullopt;
  }
  if ((std::strtoull(line.c_str() + flags + sizeof("clone_flags=") - 1, nullptr, 16) & CLONE_THREAD) != 0) {
    return std::nullopt;
  }
  const size_t open = line.rfind('(', event);
  return NewProcess{open == std::string::npos ? 0 : static_cast<pid_t>(std::atoi(line.c_str() + open + 1))};
}

}  // namespace

std::set<pid_t> WithChildren(pid_t process) {
  std::set<pid_t> out = {process};
  std::error_code error;
  for (const auto& task : fs::directory_iterator("/proc/" + std::to_string(process) + "/task", error)) {
    std::ifstream in(task.path() / "children");
    for (pid_t child = 0; in >> child;) {
      out.insert(child);
    }
  }
  return out;
}

Result<ProcessTrace> ProcessTrace::Start() {
  if (mount("tracefs", kTracing, "tracefs", 0, nullptr) != 0 && errno != EBUSY) {
    return ErrnoError("mounting tracefs").As(Code::kUnsupported);
  }
  for (const auto& [file, value] : {std::pair{"tracing_on", "0"},
                                    {"trace", ""},
                                    {"options/record-tgid", "1"},
                                    {"events/task/task_newtask/enable", "1"},
                                    {"tracing_on", "1"}}) {
    QUARRY_TRY(Set(file, value));
  }
  return ProcessTrace();
}

ProcessTrace::~ProcessTrace() {
  if (on_) {
    (void)Set("tracing_on", "0");
    (void)Set("events/task/task_newtask/enable", "0");
  }
}

Result<int> ProcessTrace::StartedBy(const std::set<pid_t>& parents) const {
  std::ifstream in(std::string(kTracing) + "trace");
  int count = 0;
  for (std::string line; std::getline(in, line);) {
    const auto process = Parse(line);
    count += process.has_value() && (process->parent == 0 || parents.contains(process->parent)) ? 1 : 0;
  }
  return in.bad() ? Result<int>(Error(Code::kIo, "reading the trace")) : Result<int>(count);
}

}  // namespace quarry::vm
