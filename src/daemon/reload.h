// Reads the settings again while quarryd runs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "csi/reload.h"
#include "daemon/settings/changes.h"
#include "daemon/settings/options.h"

namespace quarry::daemon {

// Reads the settings from the same command line, environment and file as at the start.
using LoadAgain = std::function<Result<Loaded>()>;

// What puts a changed setting in force, by the setting's name. A setting without an entry needs a restart.
using Appliers = std::map<std::string, std::function<void(const Options&)>>;

// Puts in force what may change, and logs and returns each setting that differs from `given`: as in force, or
// as needing a restart. `given` is what the running quarryd uses, and follows. If anything in the new
// settings is invalid, nothing changes, and one line says what it is: kInvalidArgument.
Result<csi::Reloaded> Reload(const LoadAgain& load_again, const Appliers& appliers, GivenSettings& given,
                             const Logger& log);

}  // namespace quarry::daemon
