#include "tests/bench/processes.h"

#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace quarry::bench {
namespace {

namespace fs = std::filesystem;
constexpr char kTracing[] = "/sys/kernel/tracing";
constexpr char kEvent[] = "events/task/task_newtask";
constexpr char kNoThreads[] = "!(clone_flags & 0x10000)";  // CLONE_THREAD

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Status WriteTo(const std::string& file, const std::string& text) {
  const std::string path = fmt::format("{}/{}", kTracing, file);
  std::ofstream out(path);
  out << text << std::flush;
  return out.good() ? Ok() : Status(Error(Code::kIo, fmt::format("writing '{}' to {}", text, path)));
}

// Lists every thread, because the kernel filters by thread. It adds new threads by itself (event-fork).
std::string ThreadsOf(const std::vector<pid_t>& pids) {
  std::string threads;
  for (const pid_t pid : pids) {
    std::error_code gone;
    for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", pid), gone)) {
      threads += task.path().filename().string() + " ";
    }
  }
  return threads;
}

// Whether the process has the address space of one of the others. kcmp(2) says "equal" then.
Result<bool> SharesMemory(pid_t pid, const std::vector<pid_t>& others) {
  for (const pid_t other : others) {
    const long order = ::syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);
    if (order < 0) {
      return ErrnoError(fmt::format("comparing the processes {} and {}", pid, other));
    }
    if (order == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<pid_t> ProcessTree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const std::string name = process.path().filename().string();
    std::ifstream stat(process.path() / "stat");
    std::string text;
    if (!IsNumber(name) || !std::getline(stat, text) || text.rfind(") ") == std::string::npos) {
      continue;
    }
    // "PID (NAME) STATE PARENT …". NAME may contain anything.
    std::stringstream rest(text.substr(text.rfind(") ") + 2));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    children.emplace(parent, static_cast<pid_t>(std::stol(name)));
  }
  std::vector<pid_t> tree = {root};
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto [first, last] = children.equal_range(tree[i]);
    std::for_each(first, last, [&tree](const auto& child) { tree.push_back(child.second); });
  }
  return tree;
}

Result<Memory> MemoryOf(const std::vector<pid_t>& pids) {
  Memory total;
  std::vector<pid_t> counted;
  for (const pid_t pid : pids) {
    QUARRY_ASSIGN(const bool is_counted, SharesMemory(pid, counted));
    if (is_counted) {
      continue;
    }
    counted.push_back(pid);
    std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid));
    bool found = false;
    for (std::string word; rollup >> word;) {
      size_t kilobytes = 0;
      if (word == "Pss:" && rollup >> kilobytes) {
        total.proportional += kilobytes * 1024;
        found = true;
      } else if (word == "Pss_Anon:" && rollup >> kilobytes) {
        total.anonymous += kilobytes * 1024;
      }
    }
    if (!found) {
      return Error(Code::kNotFound, fmt::format("process {} has no smaps_rollup", pid));
    }
  }
  return total;
}

Result<ForkWatch> ForkWatch::Start(const std::vector<pid_t>& pids) {
  if (::access(fmt::format("{}/trace", kTracing).c_str(), F_OK) != 0 &&
      ::mount("tracefs", kTracing, "tracefs", 0, nullptr) != 0) {
    return ErrnoError("mounting tracefs");
  }
  QUARRY_TRY(WriteTo("options/event-fork", "1"));
  QUARRY_TRY(WriteTo("set_event_pid", ThreadsOf(pids)));
  QUARRY_TRY(WriteTo(fmt::format("{}/filter", kEvent), kNoThreads));
  QUARRY_TRY(WriteTo("trace", ""));
  QUARRY_TRY(WriteTo(fmt::format("{}/enable", kEvent), "1"));
  return ForkWatch();
}

ForkWatch::~ForkWatch() {
  if (on_) {
    (void)WriteTo(fmt::format("{}/enable", kEvent), "0");
    (void)WriteTo("set_event_pid", " ");
  }
}

Result<size_t> ForkWatch::Count() const {
  std::ifstream trace(fmt::format("{}/trace", kTracing));
  if (!trace.is_open()) {
    return Error(Code::kIo, "the kernel's trace cannot be read");
  }
  size_t count = 0;
  for (std::string line; std::getline(trace, line);) {
    count += line.find("task_newtask:") != std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace quarry::bench
