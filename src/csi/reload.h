// What `quarryctl reload` asks of the process. The process that reads settings is above this room.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"

namespace quarry::csi {

// Names of settings that differ from those of the running process.
struct Reloaded {
  std::vector<std::string> in_force;       // changed now
  std::vector<std::string> needs_restart;  // as before: only a restart changes them
};

// Reads the settings again, and puts in force what may change. kInvalidArgument: a setting is invalid, and
// nothing changed. kUnavailable: the process stops. Thread-safe.
using ReloadSettings = std::function<Result<Reloaded>(const Call&)>;

}  // namespace quarry::csi
