// Who has a lock, for people.
#pragma once

#include <string>

namespace quarry::daemon {

// What a holder writes into its lock file: "412 pid:[4026531836] node-1\n". The process id comes first, for
// earlier builds, which read no further.
std::string DescribeSelf();

// The processes that have the flock of this file, named as by ProcessName(): those that /proc shows. `fd` is
// the file, opened by somebody who did not get the lock. Where none is shown (another PID namespace, no right
// to look), what the file at `path` says of the one that took it, who may be dead while a command that it
// started has the lock still.
std::string LockHolder(int fd, const std::string& path);

}  // namespace quarry::daemon
