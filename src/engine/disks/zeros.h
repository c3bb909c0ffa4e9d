// Whether a device that libblkid finds blank is.
#pragma once

#include <string>

#include "base/result.h"

namespace quarry::engine {

// Whether the beginning of the device, where file systems, databases and the like begin, reads as zeroes.
// `what` names it in errors.
Result<bool> BeginsWithZeros(int fd, const std::string& what);

}  // namespace quarry::engine
