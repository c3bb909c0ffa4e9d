// Which processes start others, from the kernel's own tracepoint (task:task_newtask through tracefs).
#pragma once

#include <sys/types.h>

#include <set>
#include <utility>

#include "base/result.h"

namespace quarry::vm {

// A process and its children.
std::set<pid_t> WithChildren(pid_t process);

// From Start() on, for the whole kernel. One at a time; off when the object goes.
class ProcessTrace {
 public:
  // kUnsupported: the kernel has no such tracepoint.
  static Result<ProcessTrace> Start();
  ~ProcessTrace();
  ProcessTrace(ProcessTrace&& other) noexcept : on_(std::exchange(other.on_, false)) {}
  ProcessTrace& operator=(ProcessTrace&&) = delete;

  // Processes (not threads) that these have started so far, and any whose parent the kernel had forgotten.
  Result<int> StartedBy(const std::set<pid_t>& parents) const;

 private:
  ProcessTrace() = default;
  bool on_ = true;
};

}  // namespace quarry::vm
