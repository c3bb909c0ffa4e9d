#include "csi/services.h"

#include <csi/v0_1/csi.grpc.pb.h>

#include "csi/passage.h"
#include "csi/v0_1/wire.h"

namespace quarry::csi::v0_1 {
namespace {

using v1::Calls;

class IdentityService final : public Served<pb::Identity::Service, Wire> {
 public:
  using Served::Served;

  // v1 has no such RPC.
  grpc::Status GetSupportedVersions(grpc::ServerContext* context,
                                    const pb::GetSupportedVersionsRequest* request,
                                    pb::GetSupportedVersionsResponse* response) override {
    return passage_.Answer({"GetSupportedVersions"}, context, request, [&](Rpc&) {
      *response->add_supported_versions() = ServedVersion();
      return Ok();
    });
  }

  QUARRY_RPC(GetPluginInfo, GetPluginInfo, false)
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
  QUARRY_RPC(ControllerProbe, Probe, false)
};

class NodeService final : public Served<pb::Node::Service, Wire> {
 public:
  using Served::Served;

  QUARRY_RPC(NodePublishVolume, NodePublishVolume, true)
  QUARRY_RPC(NodeUnpublishVolume, NodeUnpublishVolume, true)
  QUARRY_RPC(NodeGetCapabilities, NodeGetCapabilities, false)
  QUARRY_RPC(GetNodeID, NodeGetInfo, false)
  QUARRY_RPC(NodeProbe, Probe, false)
};

}  // namespace

Services MakeServices(const Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v0_1
