// Converts messages of csi.v0 to messages of v1, and back. Only messages with other field numbers need code
// here.
#pragma once

#include <csi/v0/csi.pb.h>
#include <csi/v1/csi.pb.h>

#include "csi/older.h"

namespace quarry::csi::v0 {

namespace pb = ::csi::v0;

struct Wire {
  template <typename Request>
  static Status Check(const Request& request) {
    return CheckModes(request);
  }

  template <typename Request, typename V1Request>
  static void Raise(const Request& request, V1Request& raised) {
    Reread(request, raised);
  }
  static void Raise(const pb::ValidateVolumeCapabilitiesRequest& request,
                    ::csi::v1::ValidateVolumeCapabilitiesRequest& raised) {
    raised.set_volume_id(request.volume_id());
    *raised.mutable_volume_context() = request.volume_attributes();
    for (const pb::VolumeCapability& capability : request.volume_capabilities()) {
      Reread(capability, *raised.add_volume_capabilities());
    }
  }

  template <typename V1Response, typename Response>
  static Status Lower(const V1Response& answer, Response& response) {
    return LowerAlike(answer, response);
  }
  static Status Lower(const ::csi::v1::ValidateVolumeCapabilitiesResponse& answer,
                      pb::ValidateVolumeCapabilitiesResponse& response) {
    response.set_supported(answer.has_confirmed());
    response.set_message(answer.message());
    return Ok();
  }
  // v0 has no node capability to announce. It sends UNKNOWN, which every caller ignores, because the
  // conformance suite of 0.2 takes an empty list for a missing response.
  static Status Lower(const ::csi::v1::NodeGetCapabilitiesResponse& /*answer*/,
                      pb::NodeGetCapabilitiesResponse& response) {
    response.add_capabilities()->mutable_rpc()->set_type(pb::NodeServiceCapability::RPC::UNKNOWN);
    return Ok();
  }
  // Topology is sent only if ACCESSIBILITY_CONSTRAINTS is announced, and v0 does not announce it
  // (v1::Calls::GetPluginCapabilities).
  static Status Lower(const ::csi::v1::CreateVolumeResponse& answer, pb::CreateVolumeResponse& response) {
    Reread(answer, response);
    response.mutable_volume()->clear_accessible_topology();
    return Ok();
  }
  static Status Lower(const ::csi::v1::ListVolumesResponse& answer, pb::ListVolumesResponse& response) {
    Reread(answer, response);
    for (auto& entry : *response.mutable_entries()) {
      entry.mutable_volume()->clear_accessible_topology();
    }
    return Ok();
  }
  static Status Lower(const ::csi::v1::NodeGetInfoResponse& answer, pb::NodeGetInfoResponse& response) {
    Reread(answer, response);
    response.clear_accessible_topology();
    return Ok();
  }
};

}  // namespace quarry::csi::v0
