#include "engine/disks.h"

#include "engine/calls/parts.h"
#include "engine/disks/inventory.h"
#include "engine/repair/requests.h"

namespace quarry::engine {

Result<std::vector<DeviceReport>> Disks::Devices(const Call& call) {
  return DevicesOf(parts_.disks, call);
}

Result<size_t> Disks::JoinDisks(JoinScope scope, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  return engine::JoinDisks(parts_.disks, scope, call);
}

void Disks::ForgetHealth() {
  parts_.disks.healths.ForgetReports();
}

Result<bool> Disks::PollDisks(const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  return engine::PollDisks(parts_.disks, call);
}

Result<EvacuateResult> Disks::Evacuate(const EvacuateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  return WantEvacuation(parts_.node, parts_.erasers, request, call);
}

}  // namespace quarry::engine
