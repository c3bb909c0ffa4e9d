#include "engine/engine.h"

#include <utility>

#include "engine/calls/parts.h"

namespace quarry::engine {

Engine::Engine(EngineConfig config, World world, const Logger& log)
    : parts_(std::make_unique<Parts>(std::move(config), std::move(world), log)),
      volumes_(*parts_),
      bucket_volumes_(*parts_, Realm::kBuckets),
      snapshots_(*parts_),
      group_snapshots_(*parts_),
      changed_blocks_(*parts_),
      mounts_(*parts_),
      bucket_mounts_(*parts_, Realm::kBuckets),
      disks_(*parts_),
      upkeep_(*parts_),
      lifecycle_(*parts_),
      adoption_(*parts_) {}

Engine::~Engine() = default;

}  // namespace quarry::engine
