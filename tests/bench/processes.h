// What a server is made of, and what it starts: its processes, their memory, and a count of the children that
// come while one watches.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quarry::bench {

// The process and all that descend from it, now.
std::vector<pid_t> ProcessTree(pid_t root);

// Of some processes together, in bytes (/proc/PID/smaps_rollup).
struct Memory {
  size_t proportional = 0;  // proportional set size: what they cost the machine
  size_t anonymous = 0;     // the part of it that no file stands behind: heaps and stacks
};
Result<Memory> MemoryOf(const std::vector<pid_t>& pids);

// Counts processes (not threads) that these processes, their threads and their children start, by the
// kernel's own tracepoint task:task_newtask. One at a time on a machine. Needs root and tracefs.
class ForkWatch {
 public:
  static Result<ForkWatch> Start(const std::vector<pid_t>& pids);
  ~ForkWatch();
  ForkWatch(ForkWatch&& other) noexcept : on_(std::exchange(other.on_, false)) {}
  ForkWatch& operator=(ForkWatch&&) = delete;

  // Since Start.
  Result<size_t> Count() const;

 private:
  ForkWatch() = default;
  bool on_ = true;
};

}  // namespace quarry::bench
