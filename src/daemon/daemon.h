// The life of the process, from settings to exit status.
#pragma once

#include <string>

#include "daemon/process/notify.h"
#include "daemon/settings/options.h"
#include "engine/world.h"

namespace quarry::daemon {

// Takes the locks, opens the socket, gets the engine going, serves until SIGTERM or SIGINT, stops gracefully.
// Returns the exit status: 0 after a clean stop, 1 if it could not start or had to cut calls short. A second
// signal ends the process at once. Call it from main, before any thread exists. `steps`: see engine/world.h.
int Run(const Options& options, const std::string& version, const Notifier& notifier,
        engine::StepWatcher* steps = nullptr);

// All of main(): settings from the command line, the environment and the file, then Run. Exit status 2 for
// settings that cannot be used.
int Main(int argc, char** argv, const std::string& version, engine::StepWatcher* steps = nullptr);

}  // namespace quarry::daemon
