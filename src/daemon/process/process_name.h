// Another process, for people.
#pragma once

#include <string>

namespace quarry::daemon {

// "pid 7 (quarryd)", from /proc/<pid>/comm; "pid 7" if that cannot be read; "another process" for 0, which is
// what the kernel shows of a process outside our pid namespace.
std::string ProcessName(int pid);

}  // namespace quarry::daemon
