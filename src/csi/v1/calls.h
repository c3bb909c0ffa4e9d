// What every RPC does, in messages of v1. The older versions convert their requests to these messages, and
// the responses back (csi/passage.h). There is therefore one set of rules.
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
  // Whether the version has what v1 added (expansion, statistics, health). If not, none of it is announced.
  bool v1_features;
  // Whether publishing creates inline volumes for pods. Kubernetes uses them with v1 only.
  bool inline_volumes;
  // Whether callers try another node if a volume for this node alone gets RESOURCE_EXHAUSTED, and give up
  // after any other error, as Kubernetes' external-provisioner does.
  bool goes_elsewhere;
};

inline constexpr Rules kV1Rules{"1.13", true, engine::TargetOwner::kPlugin, true, true, true};
inline constexpr Rules kV0Rules{"0.3", false, engine::TargetOwner::kCaller, false, false, false};
inline constexpr Rules kV0_1Rules{"0.1", false, engine::TargetOwner::kCaller, false, false, false};

// Callable from any thread. The arguments outlive the object.
class Calls {
 public:
  Calls(const Plugin& plugin, engine::Engine& engine, const Rules& rules)
      : plugin_(plugin), engine_(engine), rules_(rules) {}

  Status GetPluginInfo(const pb::GetPluginInfoRequest& request, pb::GetPluginInfoResponse& response,
                       Rpc& rpc) const;
  Status GetPluginCapabilities(const pb::GetPluginCapabilitiesRequest& request,
                               pb::GetPluginCapabilitiesResponse& response, Rpc& rpc) const;
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
  Status ControllerGetCapabilities(const pb::ControllerGetCapabilitiesRequest& request,
                                   pb::ControllerGetCapabilitiesResponse& response, Rpc& rpc) const;
  // False: ControllerExpandVolume answers UNIMPLEMENTED.
  bool OffersControllerExpand() const { return rules_.v1_features && !plugin_.expand_on_node; }
  Status ControllerExpandVolume(const pb::ControllerExpandVolumeRequest& request,
                                pb::ControllerExpandVolumeResponse& response, Rpc& rpc) const;
  Status ControllerGetVolume(const pb::ControllerGetVolumeRequest& request,
                             pb::ControllerGetVolumeResponse& response, Rpc& rpc) const;
  Status ControllerGetVolumeHealth(const pb::ControllerGetVolumeHealthRequest& request,
                                   pb::ControllerGetVolumeHealthResponse& response, Rpc& rpc) const;
  Status ControllerListVolumeHealth(const pb::ControllerListVolumeHealthRequest& request,
                                    pb::ControllerListVolumeHealthResponse& response, Rpc& rpc) const;

  Status NodeStageVolume(const pb::NodeStageVolumeRequest& request, pb::NodeStageVolumeResponse& response,
                         Rpc& rpc) const;
  Status NodeUnstageVolume(const pb::NodeUnstageVolumeRequest& request,
                           pb::NodeUnstageVolumeResponse& response, Rpc& rpc) const;
  Status NodePublishVolume(const pb::NodePublishVolumeRequest& request,
                           pb::NodePublishVolumeResponse& response, Rpc& rpc) const;
  Status NodeUnpublishVolume(const pb::NodeUnpublishVolumeRequest& request,
                             pb::NodeUnpublishVolumeResponse& response, Rpc& rpc) const;
  Status NodeGetVolumeStats(const pb::NodeGetVolumeStatsRequest& request,
                            pb::NodeGetVolumeStatsResponse& response, Rpc& rpc) const;
  Status NodeGetVolumeHealth(const pb::NodeGetVolumeHealthRequest& request,
                             pb::NodeGetVolumeHealthResponse& response, Rpc& rpc) const;
  Status NodeGetStorageHealth(const pb::NodeGetStorageHealthRequest& request,
                              pb::NodeGetStorageHealthResponse& response, Rpc& rpc) const;
  Status NodeExpandVolume(const pb::NodeExpandVolumeRequest& request, pb::NodeExpandVolumeResponse& response,
                          Rpc& rpc) const;
  Status NodeGetCapabilities(const pb::NodeGetCapabilitiesRequest& request,
                             pb::NodeGetCapabilitiesResponse& response, Rpc& rpc) const;
  Status NodeGetInfo(const pb::NodeGetInfoRequest& request, pb::NodeGetInfoResponse& response,
                     Rpc& rpc) const;

 private:
  bool Alpha() const { return rules_.v1_features && plugin_.alpha; }
  // For ControllerGetVolumeHealth and NodeGetVolumeHealth, which give the same answer.
  Status FillHealth(const std::string& volume_id, pb::VolumeHealth& health, const Call& call) const;

  const Plugin& plugin_;
  engine::Engine& engine_;
  const Rules rules_;
};

}  // namespace quarry::csi::v1
