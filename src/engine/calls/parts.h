// The parts of a running node, connected to each other. engine.cc makes them; only calls/ sees them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/disks/inventory.h"
#include "engine/erase/eraser.h"
#include "engine/model/config.h"
#include "engine/pool/background_steps.h"
#include "engine/pool/node.h"
#include "engine/repair/plan_scrub.h"
#include "engine/repair/repair_loop.h"
#include "engine/world.h"

namespace quarry::engine {

struct Parts {
  Parts(EngineConfig config, World world, const Logger& log)
      : node(std::move(config), std::move(world), log), disks(node), erasers(node) {
    for (const auto& pool : node.pools) {
      repairs.push_back(std::make_unique<RepairLoop>(node, *pool, erasers.Of(*pool), disks.healths, scrubs));
    }
  }

  Node node;
  NodeDisks disks;
  Erasers erasers;
  Scrubs scrubs;
  // Inline volumes, by handle, that were unpublished but could not be deleted: their pool could not be read,
  // or an administrator has built something on them, such as a snapshot. They are deleted once the obstacle
  // is gone. The limit bounds the memory that a caller with invented handles can use.
  VolumeSet left_behind{10'000};
  std::vector<std::unique_ptr<RepairLoop>> repairs;  // one for each pool
  BackgroundSteps background;                        // last: its steps use all members above
};

}  // namespace quarry::engine
