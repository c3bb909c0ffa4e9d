// Names a process in messages.
#pragma once

#include <string>

namespace quarry::daemon {

// "pid 7 (quarryd)", from /proc/<pid>/comm; "pid 7" if that file cannot be read. "another process" for 0,
// which the kernel shows for a process outside our PID namespace.
std::string ProcessName(int pid);

}  // namespace quarry::daemon
