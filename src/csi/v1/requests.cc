#include "csi/v1/requests.h"

#include <fmt/format.h>

#include "base/units.h"
#include "csi/fields.h"

namespace quarry::csi::v1 {
namespace {

using google::protobuf::RepeatedPtrField;

std::map<std::string, std::string> ToMap(const google::protobuf::Map<std::string, std::string>& map) {
  return {map.begin(), map.end()};
}

std::vector<Segments> ToPlaces(const RepeatedPtrField<pb::Topology>& places) {
  std::vector<Segments> segments;
  for (const pb::Topology& place : places) {
    segments.push_back(ToMap(place.segments()));
  }
  return segments;
}

// A volume is either formatted and mounted, or raw; never both.
Status CheckOneAccessType(const std::string& field, const std::vector<engine::Capability>& capabilities) {
  for (size_t i = 1; i < capabilities.size(); ++i) {
    if (capabilities[i].access != capabilities[0].access) {
      return Unsupported(
          fmt::format("{}[{}]", field, i),
          fmt::format("has another access type than {}[0]; a volume is block or mount", field));
    }
  }
  return Ok();
}

template <typename Request>
Result<std::vector<engine::Capability>> ParseRequiredCapabilities(const Request& request) {
  if (request.volume_capabilities().empty()) {
    return Invalid("volume_capabilities", "is required");
  }
  return ParseCapabilities("volume_capabilities", request.volume_capabilities());
}

template <typename Request>
Result<engine::Capability> ParseNodeCapability(const Request& request) {
  QUARRY_ASSIGN(engine::Capability capability,
                ParseCapability("volume_capability", request.volume_capability()));
  QUARRY_TRY(CheckSingleNode("volume_capability", capability));
  return capability;
}

// kubelet sets this key if the CSIDriver object says podInfoOnMount. The value is "false" for persistent
// volumes.
constexpr std::string_view kEphemeralKey = "csi.storage.k8s.io/ephemeral";
constexpr std::string_view kSizeKey = "size";

// A mount at the staging path would hide the staged mount. A mount below it would lie inside the volume.
Status CheckApart(const AbsolutePath& staging, const AbsolutePath& target) {
  if (target.str() == staging.str() || target.str().starts_with(staging.str() + "/")) {
    return Invalid("target_path", "must not be staging_target_path or below it");
  }
  return Ok();
}

// A message with this many ranges is far below gRPC's limit of 4 MiB.
constexpr int32_t kMostResults = 4096;
constexpr int32_t kUsualResults = 256;

Result<BlockQuestion> BlocksFrom(int64_t offset, int32_t max_results) {
  if (offset < 0) {
    return Error(Code::kOutOfRange, fmt::format("starting_offset: must not be negative, is {}", offset));
  }
  if (max_results < 0) {
    return Invalid("max_results", fmt::format("must not be negative, is {}", max_results));
  }
  return BlockQuestion{
      .offset = {static_cast<uint64_t>(offset)},
      .most = static_cast<size_t>(max_results == 0 ? kUsualResults : std::min(max_results, kMostResults))};
}

}  // namespace

Result<engine::CreateRequest> ParseCreate(const pb::CreateVolumeRequest& request, const NodeTopology& here) {
  QUARRY_TRY(CheckName("name", request.name()));
  engine::CreateRequest create;
  create.name = request.name();
  create.parameters = ToMap(request.parameters());
  QUARRY_ASSIGN(create.capabilities, ParseRequiredCapabilities(request));
  QUARRY_TRY(CheckSingleNode("volume_capabilities", create.capabilities));
  QUARRY_TRY(CheckOneAccessType("volume_capabilities", create.capabilities));
  if (request.has_capacity_range()) {
    QUARRY_ASSIGN(create.range, ParseRange(request.capacity_range()));
  }
  if (request.has_volume_content_source()) {
    const pb::VolumeContentSource& source = request.volume_content_source();
    if (source.has_snapshot()) {
      QUARRY_TRY(
          CheckRequired("volume_content_source.snapshot.snapshot_id", source.snapshot().snapshot_id()));
      create.source = {source.snapshot().snapshot_id(), true};
    } else if (source.has_volume()) {
      QUARRY_TRY(CheckRequired("volume_content_source.volume.volume_id", source.volume().volume_id()));
      create.source = {source.volume().volume_id()};
    } else {
      return Invalid("volume_content_source", "must be a volume or a snapshot");
    }
  }
  if (!request.mutable_parameters().empty()) {
    return Unsupported("mutable_parameters", "volumes cannot be modified; use parameters");
  }
  const pb::TopologyRequirement& places = request.accessibility_requirements();
  QUARRY_TRY(here.CheckRequirement("accessibility_requirements", ToPlaces(places.requisite()),
                                   ToPlaces(places.preferred())));
  create.elsewhere = here.IsJustHere(ToPlaces(places.requisite()));
  return create;
}

Result<engine::ValidateRequest> ParseValidate(const pb::ValidateVolumeCapabilitiesRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  engine::ValidateRequest validate;
  validate.id = request.volume_id();
  validate.parameters = ToMap(request.parameters());
  validate.context = ToMap(request.volume_context());
  QUARRY_ASSIGN(validate.capabilities, ParseRequiredCapabilities(request));
  QUARRY_TRY(CheckSingleNode("volume_capabilities", validate.capabilities));
  if (!request.mutable_parameters().empty()) {
    return Unsupported("mutable_parameters", "volumes cannot be modified");
  }
  return validate;
}

Result<engine::SnapshotRequest> ParseCreateSnapshot(const pb::CreateSnapshotRequest& request,
                                                    const NodeTopology& here) {
  QUARRY_TRY(CheckRequired("source_volume_id", request.source_volume_id()));
  QUARRY_TRY(CheckName("name", request.name()));
  const pb::TopologyRequirement& places = request.accessibility_requirements();
  QUARRY_TRY(here.CheckRequirement("accessibility_requirements", ToPlaces(places.requisite()),
                                   ToPlaces(places.preferred())));
  return engine::SnapshotRequest{.name = request.name(),
                                 .source = request.source_volume_id(),
                                 .parameters = ToMap(request.parameters())};
}

Result<uint32_t> ParseMaxEntries(int32_t max_entries) {
  if (max_entries < 0) {
    return Invalid("max_entries", fmt::format("must not be negative, is {}", max_entries));
  }
  return static_cast<uint32_t>(max_entries);
}

Result<CapacityQuestion> ParseCapacity(const pb::GetCapacityRequest& request, const NodeTopology& here) {
  CapacityQuestion question;
  question.parameters = ToMap(request.parameters());
  const Segments place = ToMap(request.accessible_topology().segments());
  QUARRY_TRY(CheckSegments("accessible_topology.segments", place));
  QUARRY_ASSIGN(question.capabilities,
                ParseCapabilities("volume_capabilities", request.volume_capabilities()));
  QUARRY_TRY(CheckSingleNode("volume_capabilities", question.capabilities));
  QUARRY_TRY(CheckOneAccessType("volume_capabilities", question.capabilities));
  if (!here.Matches(place)) {
    return Unsupported("accessible_topology", fmt::format("is not this node ({})", here.node_id()));
  }
  return question;
}

Result<BlockQuestion> ParseBlocks(const pb::GetMetadataAllocatedRequest& request) {
  QUARRY_TRY(CheckRequired("snapshot_id", request.snapshot_id()));
  return BlocksFrom(request.starting_offset(), request.max_results());
}

Result<BlockQuestion> ParseBlocks(const pb::GetMetadataDeltaRequest& request) {
  QUARRY_TRY(CheckRequired("base_snapshot_id", request.base_snapshot_id()));
  QUARRY_TRY(CheckRequired("target_snapshot_id", request.target_snapshot_id()));
  return BlocksFrom(request.starting_offset(), request.max_results());
}

Result<ExpandQuestion> ParseExpand(const pb::ControllerExpandVolumeRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  if (!request.has_capacity_range()) {
    return Invalid("capacity_range", "is required");
  }
  ExpandQuestion question{.id = request.volume_id(), .range = {}, .capability = std::nullopt};
  QUARRY_ASSIGN(question.range, ParseRange(request.capacity_range()));
  if (request.has_volume_capability()) {
    QUARRY_ASSIGN(question.capability, ParseNodeCapability(request));
  }
  return question;
}

Result<engine::StageRequest> ParseStage(const pb::NodeStageVolumeRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_TRY(CheckRequired("staging_target_path", request.staging_target_path()));
  if (!request.has_volume_capability()) {
    return Invalid("volume_capability", "is required");
  }
  QUARRY_ASSIGN(AbsolutePath staging, ParsePath("staging_target_path", request.staging_target_path()));
  QUARRY_ASSIGN(engine::Capability capability, ParseNodeCapability(request));
  return engine::StageRequest{
      .id = request.volume_id(), .staging_path = std::move(staging), .capability = std::move(capability)};
}

Result<engine::PublishRequest> ParsePublishUnstaged(const pb::NodePublishVolumeRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_TRY(CheckRequired("target_path", request.target_path()));
  if (!request.has_volume_capability()) {
    return Invalid("volume_capability", "is required");
  }
  QUARRY_ASSIGN(AbsolutePath target, ParsePath("target_path", request.target_path()));
  QUARRY_ASSIGN(engine::Capability capability, ParseNodeCapability(request));
  return engine::PublishRequest{.id = request.volume_id(),
                                .staging_path = std::nullopt,
                                .target_path = std::move(target),
                                .capability = std::move(capability),
                                .read_only = request.readonly()};
}

Result<engine::PublishRequest> ParsePublish(const pb::NodePublishVolumeRequest& request) {
  QUARRY_ASSIGN(engine::PublishRequest publish, ParsePublishUnstaged(request));
  if (request.staging_target_path().empty()) {
    return Error(Code::kPrecondition,
                 "staging_target_path: is not set; the volume must be staged with NodeStageVolume first");
  }
  QUARRY_ASSIGN(AbsolutePath staging, ParsePath("staging_target_path", request.staging_target_path()));
  QUARRY_TRY(CheckApart(staging, publish.target_path));
  publish.staging_path = std::move(staging);
  return publish;
}

Result<std::optional<engine::EphemeralRequest>> ParseEphemeral(const pb::NodePublishVolumeRequest& request) {
  const auto inlined = request.volume_context().find(std::string(kEphemeralKey));
  if (inlined == request.volume_context().end() || inlined->second == "false") {
    return std::optional<engine::EphemeralRequest>();
  }
  if (inlined->second != "true") {
    return Invalid(fmt::format("volume_context['{}']", kEphemeralKey), "must be 'true' or 'false'");
  }
  if (!request.staging_target_path().empty()) {
    return Invalid("staging_target_path", "must be empty: an inline volume is not staged");
  }
  QUARRY_ASSIGN(engine::PublishRequest publish, ParsePublishUnstaged(request));
  QUARRY_TRY(CheckName("volume_id", publish.id));
  engine::EphemeralRequest ephemeral{
      .publish = std::move(publish), .size = {}, .parameters = ToMap(request.volume_context())};
  if (const auto size = ephemeral.parameters.extract(std::string(kSizeKey)); !size.empty()) {
    QUARRY_ASSIGN(ephemeral.size, ParseSize(size.mapped()).Context("volume_context['size']"));
    if (ephemeral.size == Bytes{0}) {
      return Invalid("volume_context['size']", "must not be 0");
    }
  }
  return std::optional(std::move(ephemeral));
}

Result<VolumeAtPath> ParseUnstage(const pb::NodeUnstageVolumeRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_ASSIGN(AbsolutePath path, ParsePath("staging_target_path", request.staging_target_path()));
  return VolumeAtPath{request.volume_id(), std::move(path)};
}

Result<VolumeAtPath> ParseUnpublish(const pb::NodeUnpublishVolumeRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_ASSIGN(AbsolutePath path, ParsePath("target_path", request.target_path()));
  return VolumeAtPath{request.volume_id(), std::move(path)};
}

Status CheckStats(const pb::NodeGetVolumeStatsRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  return CheckRequired("volume_path", request.volume_path());
}

Result<engine::NodeExpandRequest> ParseNodeExpand(const pb::NodeExpandVolumeRequest& request) {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_TRY(CheckRequired("volume_path", request.volume_path()));
  engine::NodeExpandRequest expand{.id = request.volume_id(),
                                   .volume_path = request.volume_path(),
                                   .staging_path = request.staging_target_path(),
                                   .range = {}};
  if (request.has_capacity_range()) {
    QUARRY_ASSIGN(expand.range, ParseRange(request.capacity_range()));
  }
  if (request.has_volume_capability()) {
    QUARRY_TRY(ParseNodeCapability(request));
  }
  return expand;
}

}  // namespace quarry::csi::v1
