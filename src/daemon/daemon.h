// The life of the process, from settings to exit status.
#pragma once

#include <string>

#include "daemon/process/notify.h"
#include "daemon/reload.h"
#include "daemon/settings/options.h"
#include "engine/world.h"

namespace quarry::daemon {

// Takes the locks, opens the socket, starts the engine, serves until SIGTERM or SIGINT, and stops gracefully.
// Returns the exit status: 0 after a clean stop, 1 if quarryd could not start or had to cut calls short. A
// second signal ends the process at once. Call Run from main, before any thread exists. `steps`: see
// engine/world.h.
//
// At each SIGHUP the settings are read again (reload.h).
int Run(const Loaded& loaded, const std::string& version, const Notifier& notifier,
        const LoadAgain& load_again, engine::StepWatcher* steps = nullptr);

// All of main(): reads the settings from the command line, the environment and the file, then calls Run.
// Returns exit status 2 if the settings are invalid.
int Main(int argc, char** argv, const std::string& version, engine::StepWatcher* steps = nullptr);

}  // namespace quarry::daemon
