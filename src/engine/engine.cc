#include "engine/engine.h"

#include <utility>

#include "engine/calls/parts.h"

namespace quarry::engine {

Engine::Engine(EngineConfig config, World world, const Logger& log)
    : parts_(std::make_unique<Parts>(std::move(config), std::move(world), log)),
      volumes_(*parts_),
      snapshots_(*parts_),
      mounts_(*parts_),
      disks_(*parts_),
      upkeep_(*parts_),
      lifecycle_(*parts_),
      adoption_(*parts_) {}

Engine::~Engine() = default;

}  // namespace quarry::engine
