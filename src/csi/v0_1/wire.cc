#include "csi/v0_1/wire.h"

#include <limits>

namespace quarry::csi::v0_1 {
namespace {

template <typename Capabilities, typename V1Capabilities>
void RaiseAll(const Capabilities& capabilities, V1Capabilities& raised) {
  for (const pb::VolumeCapability& capability : capabilities) {
    Reread(capability, *raised.Add());
  }
}

Status AskReady(const v1pb::ProbeResponse& answer) {
  return answer.ready().value() ? Ok() : Status(Error(Code::kPrecondition, "not ready yet"));
}

}  // namespace

pb::Version ServedVersion() {
  pb::Version version;
  version.set_minor(1);  // 0.1.0
  return version;
}

Status CheckVersion(bool present, const pb::Version& version) {
  if (!present) {
    return Invalid("version", "is required");
  }
  const pb::Version served = ServedVersion();
  if (version.major() != served.major() || version.minor() != served.minor() ||
      version.patch() != served.patch()) {
    return Invalid("version", fmt::format("{}.{}.{} is not served, only 0.1.0 is", version.major(),
                                          version.minor(), version.patch()));
  }
  return Ok();
}

void Wire::Raise(const pb::CreateVolumeRequest& request, v1pb::CreateVolumeRequest& raised) {
  raised.set_name(request.name());
  if (request.has_capacity_range()) {
    Reread(request.capacity_range(), *raised.mutable_capacity_range());
  }
  RaiseAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
  *raised.mutable_parameters() = request.parameters();
}

void Wire::Raise(const pb::DeleteVolumeRequest& request, v1pb::DeleteVolumeRequest& raised) {
  raised.set_volume_id(request.volume_id());
}

void Wire::Raise(const pb::ValidateVolumeCapabilitiesRequest& request,
                 v1pb::ValidateVolumeCapabilitiesRequest& raised) {
  raised.set_volume_id(request.volume_id());
  RaiseAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
  *raised.mutable_volume_context() = request.volume_attributes();
}

void Wire::Raise(const pb::ListVolumesRequest& request, v1pb::ListVolumesRequest& raised) {
  // max_entries is unsigned in 0.1, but signed in v1: a larger number becomes v1's largest.
  constexpr uint32_t kMost = std::numeric_limits<int32_t>::max();
  raised.set_max_entries(static_cast<int32_t>(std::min(request.max_entries(), kMost)));
  raised.set_starting_token(request.starting_token());
}

void Wire::Raise(const pb::GetCapacityRequest& request, v1pb::GetCapacityRequest& raised) {
  RaiseAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
  *raised.mutable_parameters() = request.parameters();
}

void Wire::Raise(const pb::NodePublishVolumeRequest& request, v1pb::NodePublishVolumeRequest& raised) {
  raised.set_volume_id(request.volume_id());
  raised.set_target_path(request.target_path());
  if (request.has_volume_capability()) {
    Reread(request.volume_capability(), *raised.mutable_volume_capability());
  }
  raised.set_readonly(request.readonly());
}

void Wire::Raise(const pb::NodeUnpublishVolumeRequest& request, v1pb::NodeUnpublishVolumeRequest& raised) {
  raised.set_volume_id(request.volume_id());
  raised.set_target_path(request.target_path());
}

Status Wire::Lower(const v1pb::ValidateVolumeCapabilitiesResponse& answer,
                   pb::ValidateVolumeCapabilitiesResponse& response) {
  response.set_supported(answer.has_confirmed());
  response.set_message(answer.message());
  return Ok();
}

Status Wire::Lower(const v1pb::ProbeResponse& answer, pb::ControllerProbeResponse& /*response*/) {
  return AskReady(answer);
}

Status Wire::Lower(const v1pb::ProbeResponse& answer, pb::NodeProbeResponse& /*response*/) {
  return AskReady(answer);
}

}  // namespace quarry::csi::v0_1
