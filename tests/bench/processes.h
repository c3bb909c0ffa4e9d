// A server's processes, their memory, and the number of child processes that they start.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quarry::bench {

// The process and its present descendants.
std::vector<pid_t> ProcessTree(pid_t root);

// The memory of several processes together, in bytes (/proc/PID/smaps_rollup). An address space that two of
// them share (CLONE_VM) counts once: the kernel reports all of it for each of them.
struct Memory {
  size_t proportional = 0;  // proportional set size: their cost to the machine
  size_t anonymous = 0;     // the part without a file behind it: heaps and stacks
};
Result<Memory> MemoryOf(const std::vector<pid_t>& pids);

// Counts processes (not threads) that these processes, their threads and their children start, by the
// kernel's own tracepoint task:task_newtask. Only one object at a time on a machine. Needs root and tracefs.
class ForkWatch {
 public:
  static Result<ForkWatch> Start(const std::vector<pid_t>& pids);
  ~ForkWatch();
  ForkWatch(ForkWatch&& other) noexcept : on_(std::exchange(other.on_, false)) {}
  ForkWatch& operator=(ForkWatch&&) = delete;

  // The count since Start.
  Result<size_t> Count() const;

 private:
  ForkWatch() = default;
  bool on_ = true;
};

}  // namespace quarry::bench
