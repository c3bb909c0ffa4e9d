// Asking the pools' disks how they are.
#include <optional>

#include "engine/state.h"

namespace quarry::engine {
namespace {

void Tell(const Logger& log, const DiskHealths::Change& change, const std::string& node) {
  if (change.silent.has_value()) {
    log.Warning("a disk does not say how it is",
                {{"pv", change.pv}, {"device", node}, {"error", change.silent->message()}});
    return;
  }
  log.Log(change.is == DiskState::kGood ? LogLevel::kInfo : LogLevel::kWarning, "a disk's health has changed",
          {{"pv", change.pv},
           {"device", node},
           {"was", DiskStateName(change.was)},
           {"is", DiskStateName(change.is)},
           {"detail", change.words}});
}

}  // namespace

Result<bool> Engine::AskDisks(const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  if (state_->world.health == nullptr) {
    return false;
  }
  DiskHealths::Round round;
  std::optional<Error> unread;
  for (const auto& pool : state_->pools) {
    auto catalog = state_->Look(*pool, kOthersPatience, call);
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
  for (const DiskHealths::Change& change : state_->disk_healths.Ask(state_->world.health, round, call)) {
    Tell(state_->log, change, round.nodes[change.pv]);
    changed = changed || change.was != change.is;
  }
  return unread.has_value() && round.nodes.empty() ? Result<bool>(std::move(*unread)) : changed;
}

}  // namespace quarry::engine
