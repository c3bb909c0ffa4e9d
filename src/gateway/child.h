// One process of the S3 gateway.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"

namespace quarry::gateway {

// Starts argv[0], an absolute path, with this environment alone, in a process group of its own, with the
// standard output and error of this process, and without its other descriptors. The kernel kills it when this
// process dies, so that the port is free for the next one. The caller reaps it. Call it from the main thread,
// while there is no other. kNotFound: no such program.
Result<pid_t> StartChild(std::vector<std::string> argv, const Environment& variables);

}  // namespace quarry::gateway
