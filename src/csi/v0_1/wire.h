// Converts messages of csi (0.1) to messages of v1, and back. Requests begin with a version, which shifts the
// numbers of all other fields, so requests are converted field by field. Responses have v1's numbers.
#pragma once

#include <csi/v0_1/csi.pb.h>
#include <csi/v1/csi.pb.h>

#include "csi/older.h"

namespace quarry::csi::v0_1 {

namespace pb = ::csi;
namespace v1pb = ::csi::v1;

// The only version that is served under this package.
pb::Version ServedVersion();
// kInvalidArgument if the version is missing, or is not the served one.
Status CheckVersion(bool present, const pb::Version& version);

struct Wire {
  template <typename Request>
  static Status Check(const Request& request) {
    if constexpr (requires { request.version(); }) {
      QUARRY_TRY(CheckVersion(request.has_version(), request.version()));
    }
    return CheckModes(request);
  }

  static void Raise(const pb::GetPluginInfoRequest&, v1pb::GetPluginInfoRequest&) {}
  static void Raise(const pb::ControllerGetCapabilitiesRequest&, v1pb::ControllerGetCapabilitiesRequest&) {}
  static void Raise(const pb::NodeGetCapabilitiesRequest&, v1pb::NodeGetCapabilitiesRequest&) {}
  static void Raise(const pb::ControllerProbeRequest&, v1pb::ProbeRequest&) {}
  static void Raise(const pb::NodeProbeRequest&, v1pb::ProbeRequest&) {}
  static void Raise(const pb::GetNodeIDRequest&, v1pb::NodeGetInfoRequest&) {}
  static void Raise(const pb::CreateVolumeRequest& request, v1pb::CreateVolumeRequest& raised);
  static void Raise(const pb::DeleteVolumeRequest& request, v1pb::DeleteVolumeRequest& raised);
  static void Raise(const pb::ValidateVolumeCapabilitiesRequest& request,
                    v1pb::ValidateVolumeCapabilitiesRequest& raised);
  static void Raise(const pb::ListVolumesRequest& request, v1pb::ListVolumesRequest& raised);
  static void Raise(const pb::GetCapacityRequest& request, v1pb::GetCapacityRequest& raised);
  static void Raise(const pb::NodePublishVolumeRequest& request, v1pb::NodePublishVolumeRequest& raised);
  static void Raise(const pb::NodeUnpublishVolumeRequest& request, v1pb::NodeUnpublishVolumeRequest& raised);

  template <typename V1Response, typename Response>
  static Status Lower(const V1Response& answer, Response& response) {
    return LowerAlike(answer, response);
  }
  static Status Lower(const v1pb::ValidateVolumeCapabilitiesResponse& answer,
                      pb::ValidateVolumeCapabilitiesResponse& response);
  // In 0.1 a probe can report "not ready yet" only as an error.
  static Status Lower(const v1pb::ProbeResponse& answer, pb::ControllerProbeResponse& response);
  static Status Lower(const v1pb::ProbeResponse& answer, pb::NodeProbeResponse& response);
};

}  // namespace quarry::csi::v0_1
