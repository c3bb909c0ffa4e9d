// Names processes in messages, above all those that hold a lock.
#pragma once

#include <string>

namespace quarry::daemon {

// "pid 7 (quarryd)", from /proc/<pid>/comm; "pid 7" if that file cannot be read. "another process" for 0,
// which the kernel shows for a process outside our PID namespace.
std::string ProcessName(int pid);

// The text that a holder writes into its lock file: "412 pid:[4026531836] node-1\n". The process id comes
// first, because earlier builds read only that.
std::string DescribeSelf();

// The processes that hold the flock of this file, named as by ProcessName(), as far as /proc shows them. `fd`
// is the file, opened by a process that did not get the lock. If /proc shows no holder (another PID
// namespace, no permission), the result is what the file at `path` says about the process that took the lock.
// That process may be dead while a command that it started still holds the lock.
std::string LockHolder(int fd, const std::string& path);

}  // namespace quarry::daemon
