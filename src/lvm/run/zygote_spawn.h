// Starts the zygote's program. Internal to zygote_process.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quarry::lvm::zygote {

using Environment = std::vector<std::pair<std::string, std::string>>;

// posix_spawn(3). `control` becomes kControlFd, `words` becomes standard error; nothing else is inherited.
// The process gets its own process group and default signals. The caller reaps the process.
Result<pid_t> Spawn(const std::string& program, const Environment& env, int control, int words);

}  // namespace quarry::lvm::zygote
