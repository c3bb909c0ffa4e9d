// CSI v1 requests as the engine understands them. Each Parse checks everything that can be said without
// looking at any volume: what is required, then what is well-formed. Pure.
//
// kInvalidArgument: can never be right. kUnsupported: well-formed, but not offered here (a volume on several
// nodes, say); where CSI wants an answer other than an error for that, the caller gives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <csi/v1/csi.pb.h>

#include "base/result.h"
#include "csi/topology.h"
#include "engine/model/types.h"

namespace quarry::csi::v1 {

namespace pb = ::csi::v1;

using Capabilities = google::protobuf::RepeatedPtrField<pb::VolumeCapability>;

// `field` is where it stands in the request. Any known access mode.
Result<engine::Capability> ParseCapability(const std::string& field, const pb::VolumeCapability& capability);
Result<std::vector<engine::Capability>> ParseCapabilities(const std::string& field,
                                                          const Capabilities& capabilities);
// kUnsupported for a mode that lets several nodes have the volume.
Status CheckSingleNode(const std::string& field, const engine::Capability& capability);
Status CheckSingleNode(const std::string& field, const std::vector<engine::Capability>& capabilities);

// Of the field "capacity_range", which is there.
Result<engine::CapacityRange> ParseRange(const pb::CapacityRange& range);

// `elsewhere` is set if this node is the only place that is asked for.
Result<engine::CreateRequest> ParseCreate(const pb::CreateVolumeRequest& request, const NodeTopology& here);
// kUnsupported: not confirmed, once it is known that the volume exists.
Result<engine::ValidateRequest> ParseValidate(const pb::ValidateVolumeCapabilitiesRequest& request);
Result<uint32_t> ParseMaxEntries(int32_t max_entries);

struct CapacityQuestion {
  std::vector<engine::Capability> capabilities;
  engine::Parameters parameters;
};
// kUnsupported: the answer is 0.
Result<CapacityQuestion> ParseCapacity(const pb::GetCapacityRequest& request, const NodeTopology& here);

struct ExpandQuestion {
  std::string id;
  engine::CapacityRange range;
  std::optional<engine::Capability> capability;
};
Result<ExpandQuestion> ParseExpand(const pb::ControllerExpandVolumeRequest& request);

Result<engine::StageRequest> ParseStage(const pb::NodeStageVolumeRequest& request);
// kPrecondition without a staging path: staging is announced, so the caller skipped a step.
Result<engine::PublishRequest> ParsePublish(const pb::NodePublishVolumeRequest& request);
// Where staging is not announced: a staging path says nothing and is not looked at.
Result<engine::PublishRequest> ParsePublishUnstaged(const pb::NodePublishVolumeRequest& request);

// The inline volume that kubelet wants published (csi-spec has none; Kubernetes' "CSI ephemeral volumes"):
// one whose volume_context says so, beside what a storage class' parameters would say, and "size". nullopt: a
// persistent volume.
Result<std::optional<engine::EphemeralRequest>> ParseEphemeral(const pb::NodePublishVolumeRequest& request);

struct VolumeAtPath {
  std::string id;
  AbsolutePath path;
};
Result<VolumeAtPath> ParseUnstage(const pb::NodeUnstageVolumeRequest& request);
Result<VolumeAtPath> ParseUnpublish(const pb::NodeUnpublishVolumeRequest& request);

// The path stays as it is: whether there is such a volume is asked before whether the path makes sense.
Status CheckStats(const pb::NodeGetVolumeStatsRequest& request);
Result<engine::NodeExpandRequest> ParseNodeExpand(const pb::NodeExpandVolumeRequest& request);

}  // namespace quarry::csi::v1
