#include "csi/services.h"

#include <csi/v0/csi.grpc.pb.h>

#include "csi/passage.h"
#include "csi/v0/wire.h"

namespace quarry::csi::v0 {
namespace {

using v1::Calls;

class IdentityService final : public Served<pb::Identity::Service, Wire> {
 public:
  using Served::Served;

  QUARRY_RPC(GetPluginInfo, GetPluginInfo, false)
  QUARRY_RPC(GetPluginCapabilities, GetPluginCapabilities, false)
  QUARRY_RPC(Probe, Probe, false)
};

class ControllerService final : public Served<pb::Controller::Service, Wire> {
 public:
  using Served::Served;

  QUARRY_RPC(CreateVolume, CreateVolume, true)
  QUARRY_RPC(DeleteVolume, DeleteVolume, true)
  QUARRY_RPC(ValidateVolumeCapabilities, ValidateVolumeCapabilities, false)
  QUARRY_RPC(ListVolumes, ListVolumes, false)
  QUARRY_RPC(GetCapacity, GetCapacity, false)
  QUARRY_RPC(ControllerGetCapabilities, ControllerGetCapabilities, false)
};

class NodeService final : public Served<pb::Node::Service, Wire> {
 public:
  using Served::Served;

  QUARRY_RPC(NodePublishVolume, NodePublishVolume, true)
  QUARRY_RPC(NodeUnpublishVolume, NodeUnpublishVolume, true)
  QUARRY_RPC(NodeGetCapabilities, NodeGetCapabilities, false)
  QUARRY_RPC(NodeGetInfo, NodeGetInfo, false)
  QUARRY_RPC(NodeGetId, NodeGetInfo, false)
};

}  // namespace

Services MakeServices(const Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v0
