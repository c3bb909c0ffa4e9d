#include <optional>

#include "engine/disks/inventory.h"

namespace quarry::engine {
namespace {

void Tell(const Logger& log, const HealthMemory::Change& change, const std::string& node) {
  if (change.silent.has_value()) {
    log.Warning("disk health unavailable",
                {{"pv", change.pv}, {"device", node}, {"error", change.silent->message()}});
    return;
  }
  log.Log(change.is == DiskState::kGood ? LogLevel::kInfo : LogLevel::kWarning, "disk health changed",
          {{"pv", change.pv},
           {"device", node},
           {"was", DiskStateName(change.was)},
           {"is", DiskStateName(change.is)},
           {"detail", change.words}});
}

}  // namespace

Result<bool> PollDisks(NodeDisks& node_disks, const Call& call) {
  Node& node = node_disks.node;
  HealthMemory::Round round;
  std::optional<Error> unread;
  for (const auto& pool : node.pools) {
    auto catalog = node.Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      unread = std::move(catalog.error());
      round.complete = false;
      continue;
    }
    for (const lvm::PhysicalVolume& pv : (*catalog)->group->pvs) {
      round.nodes[pv.uuid] = pv.device;
    }
  }
  bool changed = false;
  for (const HealthMemory::Change& change : node_disks.healths.Ask(node.world.health, round, call)) {
    Tell(node.log, change, round.nodes[change.pv]);
    changed = changed || change.was != change.is;
  }
  return unread.has_value() && round.nodes.empty() ? Result<bool>(std::move(*unread)) : changed;
}

}  // namespace quarry::engine
