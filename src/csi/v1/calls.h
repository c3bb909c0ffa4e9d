// The RPCs that every version of CSI has, in messages of v1. The older versions convert their requests to
// these messages, and the responses back (csi/older.h). There is therefore one set of rules.
//
// Each call fills `response` only if it succeeds.
#pragma once

#include <string_view>

#include <csi/v1/csi.pb.h>

#include "csi/edge.h"
#include "csi/v1/plugin.h"
#include "engine/engine.h"

namespace quarry::csi::v1 {

namespace pb = ::csi::v1;

// How versions differ in behaviour, apart from the form of their messages.
struct Rules {
  std::string_view csi;  // the version that GetPluginInfo names
  // Whether publishing follows staging. If not, there is no staging and publishing does everything.
  bool staging;
  engine::TargetOwner target_owner;
  bool condition;  // ListVolumes has a field for a volume's condition
  // Publishing creates inline volumes for pods. Kubernetes uses them with v1 only.
  bool inline_volumes;
  // A caller that creates a volume for this node alone tries another node after RESOURCE_EXHAUSTED, and after
  // no other error (Kubernetes' external-provisioner).
  bool goes_elsewhere;
};

inline constexpr Rules kV1Rules{"1.13", true, engine::TargetOwner::kPlugin, true, true, true};

// Callable from any thread. The arguments outlive the object.
class Calls {
 public:
  Calls(const Plugin& plugin, engine::Engine& engine, const Rules& rules)
      : plugin_(plugin), engine_(engine), rules_(rules) {}

  Status GetPluginInfo(const pb::GetPluginInfoRequest& request, pb::GetPluginInfoResponse& response,
                       Rpc& rpc) const;
  // The result is ready, or not ready with the reason as the note, or kPrecondition with the missing part.
  Status Probe(const pb::ProbeRequest& request, pb::ProbeResponse& response, Rpc& rpc) const;

  Status CreateVolume(const pb::CreateVolumeRequest& request, pb::CreateVolumeResponse& response,
                      Rpc& rpc) const;
  Status DeleteVolume(const pb::DeleteVolumeRequest& request, pb::DeleteVolumeResponse& response,
                      Rpc& rpc) const;
  Status ValidateVolumeCapabilities(const pb::ValidateVolumeCapabilitiesRequest& request,
                                    pb::ValidateVolumeCapabilitiesResponse& response, Rpc& rpc) const;
  Status ListVolumes(const pb::ListVolumesRequest& request, pb::ListVolumesResponse& response,
                     Rpc& rpc) const;
  Status GetCapacity(const pb::GetCapacityRequest& request, pb::GetCapacityResponse& response,
                     Rpc& rpc) const;

  // For ControllerGetVolumeHealth and NodeGetVolumeHealth: one process serves both the node and the
  // controller, and both see the same.
  Status GetVolumeHealth(const std::string& volume_id, pb::VolumeHealth& health, Rpc& rpc) const;

  Status NodePublishVolume(const pb::NodePublishVolumeRequest& request,
                           pb::NodePublishVolumeResponse& response, Rpc& rpc) const;
  Status NodeUnpublishVolume(const pb::NodeUnpublishVolumeRequest& request,
                             pb::NodeUnpublishVolumeResponse& response, Rpc& rpc) const;
  Status NodeGetInfo(const pb::NodeGetInfoRequest& request, pb::NodeGetInfoResponse& response,
                     Rpc& rpc) const;

 private:
  const Plugin& plugin_;
  engine::Engine& engine_;
  const Rules rules_;
};

}  // namespace quarry::csi::v1
