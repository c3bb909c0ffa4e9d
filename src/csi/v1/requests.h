// Parses CSI v1 requests into the engine's types. Each function checks everything that needs no look at a
// volume: first required fields, then their form. Pure.
//
// kInvalidArgument: the request can never be right. kUnsupported: the request is well-formed, but not offered
// here, for example a volume on several nodes. Where CSI wants a normal response to such a request, the
// caller makes it from the error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <csi/v1/csi.pb.h>

#include "base/result.h"
#include "csi/topology.h"
#include "engine/volumes.h"

namespace quarry::csi::v1 {

namespace pb = ::csi::v1;

using Capabilities = google::protobuf::RepeatedPtrField<pb::VolumeCapability>;

// `field` is the path of the capability in the request. Accepts any known access mode.
Result<engine::Capability> ParseCapability(const std::string& field, const pb::VolumeCapability& capability);
Result<std::vector<engine::Capability>> ParseCapabilities(const std::string& field,
                                                          const Capabilities& capabilities);
// kUnsupported for a mode in which several nodes use the volume.
Status CheckSingleNode(const std::string& field, const engine::Capability& capability);
Status CheckSingleNode(const std::string& field, const std::vector<engine::Capability>& capabilities);

// Parses the field "capacity_range", which must be present.
Result<engine::CapacityRange> ParseRange(const pb::CapacityRange& range);

// Sets `elsewhere` if this node is the only place that the request names.
Result<engine::CreateRequest> ParseCreate(const pb::CreateVolumeRequest& request, const NodeTopology& here);
// kUnsupported means "not confirmed", provided that the volume exists.
Result<engine::ValidateRequest> ParseValidate(const pb::ValidateVolumeCapabilitiesRequest& request);
Result<uint32_t> ParseMaxEntries(int32_t max_entries);

struct CapacityQuestion {
  std::vector<engine::Capability> capabilities;
  engine::Parameters parameters;
};
// kUnsupported means that the response is 0.
Result<CapacityQuestion> ParseCapacity(const pb::GetCapacityRequest& request, const NodeTopology& here);

Result<engine::SnapshotRequest> ParseCreateSnapshot(const pb::CreateSnapshotRequest& request,
                                                    const NodeTopology& here);

// Where a list of changed blocks begins, and how many ranges a message of it has at most.
struct BlockQuestion {
  Bytes offset;
  size_t most = 0;
};
// kOutOfRange: the offset is negative.
Result<BlockQuestion> ParseBlocks(const pb::GetMetadataAllocatedRequest& request);
Result<BlockQuestion> ParseBlocks(const pb::GetMetadataDeltaRequest& request);

struct ExpandQuestion {
  std::string id;
  engine::CapacityRange range;
  std::optional<engine::Capability> capability;
};
Result<ExpandQuestion> ParseExpand(const pb::ControllerExpandVolumeRequest& request);

Result<engine::StageRequest> ParseStage(const pb::NodeStageVolumeRequest& request);
// kPrecondition without a staging path: staging is announced, so the caller skipped a step.
Result<engine::PublishRequest> ParsePublish(const pb::NodePublishVolumeRequest& request);
// For versions that do not announce staging: a staging path has no meaning and is ignored.
Result<engine::PublishRequest> ParsePublishUnstaged(const pb::NodePublishVolumeRequest& request);

// The inline volume that kubelet wants to publish. csi-spec has no such volumes; Kubernetes calls them "CSI
// ephemeral volumes". The volume_context marks the volume as inline, and has the parameters of a storage
// class and "size". nullopt: a persistent volume.
Result<std::optional<engine::EphemeralRequest>> ParseEphemeral(const pb::NodePublishVolumeRequest& request);

struct VolumeAtPath {
  std::string id;
  AbsolutePath path;
};
Result<VolumeAtPath> ParseUnstage(const pb::NodeUnstageVolumeRequest& request);
Result<VolumeAtPath> ParseUnpublish(const pb::NodeUnpublishVolumeRequest& request);

// Does not check the form of the path, because the volume's existence has to be checked first.
Status CheckStats(const pb::NodeGetVolumeStatsRequest& request);
Result<engine::NodeExpandRequest> ParseNodeExpand(const pb::NodeExpandVolumeRequest& request);

}  // namespace quarry::csi::v1
