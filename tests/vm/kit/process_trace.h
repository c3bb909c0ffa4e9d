// Counts the processes that others start, by the kernel's own tracepoint (task:task_newtask through tracefs).
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

#include "base/result.h"

namespace quarry::vm {

// A process and its children.
std::set<pid_t> WithChildren(pid_t process);

// Records from Start() on, for the whole kernel. Only one object at a time; its destructor ends the
// recording.
class ProcessTrace {
 public:
  // kUnsupported: the kernel has no such tracepoint.
  static Result<ProcessTrace> Start();
  ~ProcessTrace();
  ProcessTrace(ProcessTrace&& other) noexcept : on_(std::exchange(other.on_, false)) {}
  ProcessTrace& operator=(ProcessTrace&&) = delete;

  // The number of processes (not threads) that `parents` have started so far. Counts a process with an
  // unknown parent too.
  Result<int> StartedBy(const std::set<pid_t>& parents) const;

 private:
  ProcessTrace() = default;
  bool on_ = true;
};

}  // namespace quarry::vm
