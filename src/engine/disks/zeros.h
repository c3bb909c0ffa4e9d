// Checks whether a device on which libblkid finds no signature is really empty.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::engine {

// Whether the first MiB of the device reads as zeroes: file systems, databases and similar data begin there.
// `what` names the device in errors.
Result<bool> BeginsWithZeros(int fd, const std::string& what);

}  // namespace quarry::engine
