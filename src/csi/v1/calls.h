// What every RPC does, in messages of v1. The older versions convert their requests to these messages, and
// the responses back (csi/passage.h). There is therefore one set of rules.
//
// Each call fills its response only if it succeeds.
#pragma once

#include <functional>
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
// Of quarryctl on the admin socket. It does not stage, and grows volumes through the controller service
// whatever --expand says.
inline constexpr Rules kAdminRules{"1.13", false, engine::TargetOwner::kCaller, true, false, false};
inline constexpr Rules kV0Rules{"0.3", false, engine::TargetOwner::kCaller, false, false, false};
inline constexpr Rules kV0_1Rules{"0.1", false, engine::TargetOwner::kCaller, false, false, false};

// Sends one message of a stream. May wait until the caller has read earlier ones. False: the caller is gone.
template <typename Response>
using Send = std::function<bool(const Response&)>;

// Callable from any thread. The arguments outlive the object.
class Calls {
 public:
  Calls(const Plugin& plugin, engine::Engine& engine, const Rules& rules)
      : plugin_(plugin), engine_(engine), rules_(rules) {}

  Status GetPluginInfo(const pb::GetPluginInfoRequest&, pb::GetPluginInfoResponse&, Rpc&) const;
  Status GetPluginCapabilities(const pb::GetPluginCapabilitiesRequest&, pb::GetPluginCapabilitiesResponse&,
                               Rpc&) const;
  // The result is ready, or not ready with the reason as the note, or kPrecondition with the missing part.
  Status Probe(const pb::ProbeRequest&, pb::ProbeResponse&, Rpc&) const;

  Status CreateVolume(const pb::CreateVolumeRequest&, pb::CreateVolumeResponse&, Rpc&) const;
  Status DeleteVolume(const pb::DeleteVolumeRequest&, pb::DeleteVolumeResponse&, Rpc&) const;
  Status ValidateVolumeCapabilities(const pb::ValidateVolumeCapabilitiesRequest&,
                                    pb::ValidateVolumeCapabilitiesResponse&, Rpc&) const;
  Status ListVolumes(const pb::ListVolumesRequest&, pb::ListVolumesResponse&, Rpc&) const;
  Status GetCapacity(const pb::GetCapacityRequest&, pb::GetCapacityResponse&, Rpc&) const;
  Status ControllerGetCapabilities(const pb::ControllerGetCapabilitiesRequest&,
                                   pb::ControllerGetCapabilitiesResponse&, Rpc&) const;
  Status CreateSnapshot(const pb::CreateSnapshotRequest&, pb::CreateSnapshotResponse&, Rpc&) const;
  Status DeleteSnapshot(const pb::DeleteSnapshotRequest&, pb::DeleteSnapshotResponse&, Rpc&) const;
  Status ListSnapshots(const pb::ListSnapshotsRequest&, pb::ListSnapshotsResponse&, Rpc&) const;
  Status GetSnapshot(const pb::GetSnapshotRequest&, pb::GetSnapshotResponse&, Rpc&) const;
  Status GroupControllerGetCapabilities(const pb::GroupControllerGetCapabilitiesRequest&,
                                        pb::GroupControllerGetCapabilitiesResponse&, Rpc&) const;
  Status CreateVolumeGroupSnapshot(const pb::CreateVolumeGroupSnapshotRequest&,
                                   pb::CreateVolumeGroupSnapshotResponse&, Rpc&) const;
  Status DeleteVolumeGroupSnapshot(const pb::DeleteVolumeGroupSnapshotRequest&,
                                   pb::DeleteVolumeGroupSnapshotResponse&, Rpc&) const;
  Status GetVolumeGroupSnapshot(const pb::GetVolumeGroupSnapshotRequest&, pb::GetVolumeGroupSnapshotResponse&,
                                Rpc&) const;
  // A list without ranges is a stream without messages. While `send` waits, nothing is held.
  Status GetMetadataAllocated(const pb::GetMetadataAllocatedRequest&,
                              const Send<pb::GetMetadataAllocatedResponse>& send, Rpc&) const;
  Status GetMetadataDelta(const pb::GetMetadataDeltaRequest&, const Send<pb::GetMetadataDeltaResponse>& send,
                          Rpc&) const;
  // False: ControllerExpandVolume answers UNIMPLEMENTED.
  bool OffersControllerExpand() const { return rules_.v1_features && !plugin_.expand_on_node; }
  Status ControllerExpandVolume(const pb::ControllerExpandVolumeRequest&, pb::ControllerExpandVolumeResponse&,
                                Rpc&) const;
  Status ControllerGetVolume(const pb::ControllerGetVolumeRequest&, pb::ControllerGetVolumeResponse&,
                             Rpc&) const;
  Status ControllerGetVolumeHealth(const pb::ControllerGetVolumeHealthRequest&,
                                   pb::ControllerGetVolumeHealthResponse&, Rpc&) const;
  Status ControllerListVolumeHealth(const pb::ControllerListVolumeHealthRequest&,
                                    pb::ControllerListVolumeHealthResponse&, Rpc&) const;

  Status NodeStageVolume(const pb::NodeStageVolumeRequest&, pb::NodeStageVolumeResponse&, Rpc&) const;
  Status NodeUnstageVolume(const pb::NodeUnstageVolumeRequest&, pb::NodeUnstageVolumeResponse&, Rpc&) const;
  Status NodePublishVolume(const pb::NodePublishVolumeRequest&, pb::NodePublishVolumeResponse&, Rpc&) const;
  Status NodeUnpublishVolume(const pb::NodeUnpublishVolumeRequest&, pb::NodeUnpublishVolumeResponse&,
                             Rpc&) const;
  Status NodeGetVolumeStats(const pb::NodeGetVolumeStatsRequest&, pb::NodeGetVolumeStatsResponse&,
                            Rpc&) const;
  Status NodeGetVolumeHealth(const pb::NodeGetVolumeHealthRequest&, pb::NodeGetVolumeHealthResponse&,
                             Rpc&) const;
  Status NodeGetStorageHealth(const pb::NodeGetStorageHealthRequest&, pb::NodeGetStorageHealthResponse&,
                              Rpc&) const;
  Status NodeExpandVolume(const pb::NodeExpandVolumeRequest&, pb::NodeExpandVolumeResponse&, Rpc&) const;
  Status NodeGetCapabilities(const pb::NodeGetCapabilitiesRequest&, pb::NodeGetCapabilitiesResponse&,
                             Rpc&) const;
  Status NodeGetInfo(const pb::NodeGetInfoRequest&, pb::NodeGetInfoResponse&, Rpc&) const;

 private:
  bool Alpha() const { return rules_.v1_features && plugin_.alpha; }
  // For ControllerGetVolumeHealth and NodeGetVolumeHealth, which give the same answer.
  Status FillHealth(const std::string& volume_id, pb::VolumeHealth& health, const Call& call) const;

  const Plugin& plugin_;
  engine::Engine& engine_;
  const Rules rules_;
};

}  // namespace quarry::csi::v1
