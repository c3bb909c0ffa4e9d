#include "csi/services.h"

#include <csi/v0/csi.grpc.pb.h>

#include "csi/older.h"
#include "csi/passage.h"

namespace quarry::csi::v0 {
namespace {

namespace pb = ::csi::v0;

// Converts messages of csi.v0 to messages of v1, and back. Only messages with other field numbers need code
// here.
struct Wire : OlderWire {
  template <typename Request, typename V1Request>
  static void Raise(const Request& request, V1Request& raised) {
    Reread(request, raised);
  }
  static void Raise(const pb::ValidateVolumeCapabilitiesRequest& request,
                    v1::pb::ValidateVolumeCapabilitiesRequest& raised) {
    raised.set_volume_id(request.volume_id());
    *raised.mutable_volume_context() = request.volume_attributes();
    RereadAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
  }

  using OlderWire::Lower;
  // v0 has no node capability to announce. It sends UNKNOWN, which every caller ignores, because the
  // conformance suite of 0.2 takes an empty list for a missing response.
  static Status Lower(const v1::pb::NodeGetCapabilitiesResponse& /*answer*/,
                      pb::NodeGetCapabilitiesResponse& response) {
    response.add_capabilities()->mutable_rpc()->set_type(pb::NodeServiceCapability::RPC::UNKNOWN);
    return Ok();
  }
  // Topology is sent only if ACCESSIBILITY_CONSTRAINTS is announced, and v0 does not announce it
  // (v1::Calls::GetPluginCapabilities).
  static Status Lower(const v1::pb::CreateVolumeResponse& answer, pb::CreateVolumeResponse& response) {
    Reread(answer, response);
    response.mutable_volume()->clear_accessible_topology();
    return Ok();
  }
  static Status Lower(const v1::pb::ListVolumesResponse& answer, pb::ListVolumesResponse& response) {
    Reread(answer, response);
    for (auto& entry : *response.mutable_entries()) {
      entry.mutable_volume()->clear_accessible_topology();
      entry.mutable_volume()->clear_content_source();  // v0 knows snapshots as sources, not volumes
    }
    return Ok();
  }
  static Status Lower(const v1::pb::NodeGetInfoResponse& answer, pb::NodeGetInfoResponse& response) {
    Reread(answer, response);
    response.clear_accessible_topology();
    return Ok();
  }
};

class IdentityService final : public Passage<pb::Identity::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(GetPluginInfo, GetPluginInfo, false)
  QUARRY_RPC(GetPluginCapabilities, GetPluginCapabilities, false)
  QUARRY_RPC(Probe, Probe, false)
};

class ControllerService final : public Passage<pb::Controller::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(CreateVolume, CreateVolume, true)
  QUARRY_RPC(DeleteVolume, DeleteVolume, true)
  QUARRY_RPC(ValidateVolumeCapabilities, ValidateVolumeCapabilities, false)
  QUARRY_RPC(ListVolumes, ListVolumes, false)
  QUARRY_RPC(GetCapacity, GetCapacity, false)
  QUARRY_RPC(ControllerGetCapabilities, ControllerGetCapabilities, false)
};

class NodeService final : public Passage<pb::Node::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(NodePublishVolume, NodePublishVolume, true)
  QUARRY_RPC(NodeUnpublishVolume, NodeUnpublishVolume, true)
  QUARRY_RPC(NodeGetCapabilities, NodeGetCapabilities, false)
  QUARRY_RPC(NodeGetInfo, NodeGetInfo, false)
  QUARRY_RPC(NodeGetId, NodeGetInfo, false)
};

}  // namespace

Services MakeServices(const v1::Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v0
