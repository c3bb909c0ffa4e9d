#include "tests/vm/crash/crash_at_step.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lvm/names.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// True on a thread whose current step shall end with the process's death, unless DieAmid comes first.
thread_local bool die_after = false;

// The same step of another attempt has the same text.
std::string WithoutNames(const std::string& step) {
  constexpr size_t kNameLength = 27;
  constexpr std::string_view kCut = "quarry.cut=";  // the time of a snapshot
  std::string out = step;
  for (size_t cut = 0; (cut = out.find(kCut, cut)) != std::string::npos;) {
    cut += kCut.size();
    out.erase(cut, out.find_first_not_of("0123456789", cut) - cut);
  }
  for (size_t at = 0; (at = out.find('q', at)) != std::string::npos; ++at) {
    if (lvm::IsOurLvName(std::string_view(out).substr(at, kNameLength))) {
      out.replace(at, kNameLength, "q");
    }
  }
  return out;
}

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// All processes below this one, at any depth: quarryd may run LVM from a child process.
void AddDescendants(const std::string& process, std::set<pid_t>& found) {
  std::error_code ignored;
  for (const auto& task : fs::directory_iterator("/proc/" + process + "/task", ignored)) {
    std::istringstream words(Contents(task.path() / "children"));
    for (pid_t pid = 0; words >> pid;) {
      if (found.insert(pid).second) {
        AddDescendants(std::to_string(pid), found);
      }
    }
  }
}
std::set<pid_t> Descendants() {
  std::set<pid_t> found;
  AddDescendants("self", found);
  return found;
}

[[noreturn]] void Die(bool orphans) {
  if (!orphans) {
    for (const pid_t child : Descendants()) {
      kill(child, SIGKILL);
    }
  }
  kill(getpid(), SIGKILL);
  while (true) {
    pause();
  }
}

}  // namespace

bool CrashAtStep::ReadOrder() {
  std::error_code ignored;
  if (!fs::exists(order_, ignored)) {
    return false;
  }
  std::string text = Contents(order_);
  if (text == now_.text) {
    return true;
  }
  now_ = {};
  counted_ = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "amid-ms") {
      words >> now_.amid_ms;
    } else if (word == "orphans") {
      now_.orphans = true;
    } else if (word == "steps") {
      words >> now_.steps;
    }
  }
  now_.text = std::move(text);
  return true;
}

bool CrashAtStep::FirstTime(const std::string& moment, const std::string& step) {
  const std::string path = order_ + ".done";
  const std::string line = moment + " " + WithoutNames(step);
  std::istringstream known(Contents(path));
  for (std::string other; std::getline(known, other);) {
    if (other == line) {
      return false;
    }
  }
  std::ofstream(path, std::ios::app) << line << '\n';
  return true;
}

// If the step runs a program, the process dies a while after the program has started. Otherwise it dies at
// the end of the step.
void CrashAtStep::DieAmid() const {
  const auto wait = milliseconds(now_.amid_ms);
  const bool orphans = now_.orphans;
  die_after = true;
  std::thread([wait, orphans, before = Descendants()] {
    const auto begun = [&before] {
      const std::set<pid_t> now = Descendants();
      return !std::includes(before.begin(), before.end(), now.begin(), now.end());
    };
    while (!begun()) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    std::this_thread::sleep_for(wait);
    Die(orphans);
  }).detach();
}

void CrashAtStep::Before(const std::string& step) {
  const std::lock_guard lock(mutex_);
  if (!ReadOrder()) {
    return;
  }
  if (now_.steps > 0) {
    if (++counted_ == now_.steps) {
      DieAmid();
    }
    return;
  }
  // "Before" is tried for the first step only: before any later step equals after its predecessor.
  if (Contents(order_ + ".done").empty() && FirstTime("before", step)) {
    Die(now_.orphans);
  }
  if (FirstTime("amid", step)) {
    DieAmid();
  }
}

void CrashAtStep::After(const std::string& step) {
  const std::lock_guard lock(mutex_);
  if (die_after || (ReadOrder() && now_.steps == 0 && FirstTime("after", step))) {
    Die(now_.orphans);
  }
}

}  // namespace quarry::vm
