#include "csi/services.h"

#include <limits>

#include <csi/v0_1/csi.grpc.pb.h>

#include "csi/older.h"
#include "csi/passage.h"

namespace quarry::csi::v0_1 {
namespace {

namespace pb = ::csi;
namespace v1pb = ::csi::v1;

// The only version that is served under this package.
pb::Version ServedVersion() {
  pb::Version version;
  version.set_minor(1);  // 0.1.0
  return version;
}

// kInvalidArgument if the version is missing, or is not the served one.
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

// Converts messages of csi (0.1) to messages of v1, and back. Requests begin with a version, which shifts the
// numbers of all other fields, so requests are converted field by field. Responses have v1's numbers.
struct Wire : OlderWire {
  template <typename Request>
  static Status Check(const Request& request) {
    if constexpr (requires { request.version(); }) {
      QUARRY_TRY(CheckVersion(request.has_version(), request.version()));
    }
    return OlderWire::Check(request);
  }

  static void Raise(const pb::GetPluginInfoRequest&, v1pb::GetPluginInfoRequest&) {}
  static void Raise(const pb::ControllerGetCapabilitiesRequest&, v1pb::ControllerGetCapabilitiesRequest&) {}
  static void Raise(const pb::NodeGetCapabilitiesRequest&, v1pb::NodeGetCapabilitiesRequest&) {}
  static void Raise(const pb::ControllerProbeRequest&, v1pb::ProbeRequest&) {}
  static void Raise(const pb::NodeProbeRequest&, v1pb::ProbeRequest&) {}
  static void Raise(const pb::GetNodeIDRequest&, v1pb::NodeGetInfoRequest&) {}
  static void Raise(const pb::CreateVolumeRequest& request, v1pb::CreateVolumeRequest& raised) {
    raised.set_name(request.name());
    if (request.has_capacity_range()) {
      Reread(request.capacity_range(), *raised.mutable_capacity_range());
    }
    RereadAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
    *raised.mutable_parameters() = request.parameters();
  }
  static void Raise(const pb::DeleteVolumeRequest& request, v1pb::DeleteVolumeRequest& raised) {
    raised.set_volume_id(request.volume_id());
  }
  static void Raise(const pb::ValidateVolumeCapabilitiesRequest& request,
                    v1pb::ValidateVolumeCapabilitiesRequest& raised) {
    raised.set_volume_id(request.volume_id());
    RereadAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
    *raised.mutable_volume_context() = request.volume_attributes();
  }
  static void Raise(const pb::ListVolumesRequest& request, v1pb::ListVolumesRequest& raised) {
    // max_entries is unsigned in 0.1, but signed in v1: a larger number becomes v1's largest.
    constexpr uint32_t kMost = std::numeric_limits<int32_t>::max();
    raised.set_max_entries(static_cast<int32_t>(std::min(request.max_entries(), kMost)));
    raised.set_starting_token(request.starting_token());
  }
  static void Raise(const pb::GetCapacityRequest& request, v1pb::GetCapacityRequest& raised) {
    RereadAll(request.volume_capabilities(), *raised.mutable_volume_capabilities());
    *raised.mutable_parameters() = request.parameters();
  }
  static void Raise(const pb::NodePublishVolumeRequest& request, v1pb::NodePublishVolumeRequest& raised) {
    raised.set_volume_id(request.volume_id());
    raised.set_target_path(request.target_path());
    if (request.has_volume_capability()) {
      Reread(request.volume_capability(), *raised.mutable_volume_capability());
    }
    raised.set_readonly(request.readonly());
  }
  static void Raise(const pb::NodeUnpublishVolumeRequest& request, v1pb::NodeUnpublishVolumeRequest& raised) {
    raised.set_volume_id(request.volume_id());
    raised.set_target_path(request.target_path());
  }

  using OlderWire::Lower;
  // In 0.1 a probe can report "not ready yet" only as an error.
  template <typename Response>
  static Status Lower(const v1pb::ProbeResponse& answer, Response& /*response*/) {
    return answer.ready().value() ? Ok() : Status(Error(Code::kPrecondition, "not ready yet"));
  }
};

class IdentityService final : public Passage<pb::Identity::Service, Wire> {
 public:
  using Passage::Passage;

  // v1 has no such RPC.
  grpc::Status GetSupportedVersions(grpc::ServerContext* context,
                                    const pb::GetSupportedVersionsRequest* request,
                                    pb::GetSupportedVersionsResponse* response) override {
    return Answer({"GetSupportedVersions"}, context, request, [&](Rpc&) {
      *response->add_supported_versions() = ServedVersion();
      return Ok();
    });
  }

  QUARRY_RPC(GetPluginInfo, GetPluginInfo, false)
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
  QUARRY_RPC(ControllerProbe, Probe, false)
};

class NodeService final : public Passage<pb::Node::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(NodePublishVolume, NodePublishVolume, true)
  QUARRY_RPC(NodeUnpublishVolume, NodeUnpublishVolume, true)
  QUARRY_RPC(NodeGetCapabilities, NodeGetCapabilities, false)
  QUARRY_RPC(GetNodeID, NodeGetInfo, false)
  QUARRY_RPC(NodeProbe, Probe, false)
};

}  // namespace

Services MakeServices(const v1::Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v0_1
