// Keeps overcommitted thin stores from becoming full: grows them and trims the file systems in them.
#pragma once

#include <string>
#include <thread>

#include "base/log.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Calls Upkeep::TendStores every few seconds for one pool. What should be trimmed is trimmed once an hour, by
// a thread of its own, so that no growth waits for it. The arguments outlive the thread. A stop ends what is
// under way.
std::jthread TendStores(engine::Engine& engine, const std::string& pool, const Clock& clock,
                        const Logger& log);

}  // namespace quarry::daemon
