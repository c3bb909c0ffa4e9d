#include "csi/v1/calls.h"

#include <fmt/format.h>

#include "csi/fields.h"
#include "csi/v1/requests.h"
#include "csi/v1/responses.h"

namespace quarry::csi::v1 {
namespace {

using Offer = pb::PluginCapability::Service;
using ControllerOffer = pb::ControllerServiceCapability::RPC;
using NodeOffer = pb::NodeServiceCapability::RPC;

// Announces capabilities of the controller or of the node.
template <typename Response, typename Type>
void Announce(Response& response, std::initializer_list<Type> types) {
  for (const Type type : types) {
    response.add_capabilities()->mutable_rpc()->set_type(type);
  }
}

// Turns an error of the engine into an answer of Probe. CSI has three answers: ready, not ready, and
// FAILED_PRECONDITION for an unhealthy plugin.
Result<engine::Readiness> AsReadiness(Result<engine::Readiness> probed) {
  if (probed.has_value()) {
    return probed;
  }
  switch (probed.error().code()) {
    case Code::kUnavailable:
      return engine::Readiness{.ready = false, .message = probed.error().message()};
    case Code::kTimeout:
    case Code::kCancelled:
      return probed;
    default:
      return std::move(probed.error()).As(Code::kPrecondition);
  }
}

Result<engine::ValidateResult> Validate(engine::Engine& engine,
                                        const pb::ValidateVolumeCapabilitiesRequest& request,
                                        const Call& call) {
  const Result<engine::ValidateRequest> parsed = ParseValidate(request);
  if (parsed.has_value()) {
    return engine.volumes().Validate(*parsed, call);
  }
  if (parsed.error().code() != Code::kUnsupported) {
    return parsed.error();
  }
  QUARRY_TRY(engine.volumes().Get(request.volume_id(), call));
  return engine::ValidateResult{.confirmed = false, .message = parsed.error().message()};
}

Result<engine::CapacityResult> Capacity(engine::Engine& engine, const pb::GetCapacityRequest& request,
                                        const NodeTopology& here, const Call& call) {
  const Result<CapacityQuestion> parsed = ParseCapacity(request, here);
  if (parsed.has_value()) {
    return engine.volumes().Capacity(parsed->capabilities, parsed->parameters, call);
  }
  if (parsed.error().code() != Code::kUnsupported) {
    return parsed.error();
  }
  engine::CapacityResult none;
  none.reason = parsed.error().message();
  return none;
}

// Ranges that are read from the store at a time.
constexpr size_t kBatch = 4096;

// Sends all batches that `read` gives, from the offset of the question on.
template <typename Read, typename Response>
Status StreamBlocks(const BlockQuestion& question, const Read& read, const Send<Response>& send, Rpc& rpc) {
  uint64_t ranges = 0;
  Bytes at = question.offset;
  for (bool more = true; more;) {
    QUARRY_ASSIGN(const engine::ChangedBatch batch, read(at));
    Response message;
    message.set_block_metadata_type(pb::VARIABLE_LENGTH);
    message.set_volume_capacity_bytes(ToInt64(batch.capacity));
    for (size_t i = 0; i < batch.ranges.size(); ++i) {
      auto& range = *message.add_block_metadata();
      range.set_byte_offset(ToInt64(batch.ranges[i].offset));
      range.set_size_bytes(ToInt64(batch.ranges[i].length));
      const bool full = static_cast<size_t>(message.block_metadata_size()) == question.most;
      if (!full && i + 1 < batch.ranges.size()) {
        continue;
      }
      if (!send(message)) {
        return Error(Code::kCancelled, "the caller has ended the stream, or did not read it in time");
      }
      message.clear_block_metadata();
    }
    ranges += batch.ranges.size();
    at = batch.end;
    more = !batch.whole;
  }
  rpc.note = fmt::format("{} ranges", ranges);
  return Ok();
}

}  // namespace

Status Calls::GetPluginInfo(const pb::GetPluginInfoRequest&, pb::GetPluginInfoResponse& response,
                            Rpc&) const {
  response.set_name(plugin_.driver_name);
  response.set_vendor_version(plugin_.version);
  (*response.mutable_manifest())["csi"] = rules_.csi;
  return Ok();
}

Status Calls::GetPluginCapabilities(const pb::GetPluginCapabilitiesRequest&,
                                    pb::GetPluginCapabilitiesResponse& response, Rpc&) const {
  response.add_capabilities()->mutable_service()->set_type(Offer::CONTROLLER_SERVICE);
  if (rules_.v1_features) {
    // 0.3 has this too. But callers of 0.2 use the same package, and they refuse unknown values.
    response.add_capabilities()->mutable_service()->set_type(Offer::VOLUME_ACCESSIBILITY_CONSTRAINTS);
    response.add_capabilities()->mutable_volume_expansion()->set_type(
        pb::PluginCapability::VolumeExpansion::ONLINE);
    if (engine_.group_snapshots().AreOffered()) {
      response.add_capabilities()->mutable_service()->set_type(Offer::GROUP_CONTROLLER_SERVICE);
    }
    if (engine_.changed_blocks().IsOffered()) {
      response.add_capabilities()->mutable_service()->set_type(Offer::SNAPSHOT_METADATA_SERVICE);
    }
  }
  return Ok();
}

Status Calls::Probe(const pb::ProbeRequest&, pb::ProbeResponse& response, Rpc& rpc) const {
  QUARRY_ASSIGN(const engine::Readiness readiness, AsReadiness(engine_.lifecycle().Probe(rpc.call)));
  response.mutable_ready()->set_value(readiness.ready);
  rpc.note = readiness.message;
  return Ok();
}

Status Calls::CreateVolume(const pb::CreateVolumeRequest& request, pb::CreateVolumeResponse& response,
                           Rpc& rpc) const {
  QUARRY_ASSIGN(engine::CreateRequest create, ParseCreate(request, plugin_.here));
  if (create.source.is_snapshot && !rules_.v1_features) {
    return Unsupported("volume_content_source", "volumes are made from snapshots with CSI v1 only");
  }
  create.elsewhere = create.elsewhere && rules_.goes_elsewhere;
  QUARRY_ASSIGN(const engine::CreateResult result, engine_.volumes().Create(create, rpc.call));
  rpc.volume = result.volume.id;
  rpc.note = result.created ? "created" : "was there already";
  Fill(*response.mutable_volume(), result.volume, plugin_.here);
  return Ok();
}

Status Calls::DeleteVolume(const pb::DeleteVolumeRequest& request, pb::DeleteVolumeResponse&,
                           Rpc& rpc) const {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_ASSIGN(const engine::DeleteResult result, engine_.volumes().Delete(request.volume_id(), rpc.call));
  rpc.note = result.deleted ? "deleted" : "was not there";
  return Ok();
}

Status Calls::ValidateVolumeCapabilities(const pb::ValidateVolumeCapabilitiesRequest& request,
                                         pb::ValidateVolumeCapabilitiesResponse& response, Rpc& rpc) const {
  QUARRY_ASSIGN(const engine::ValidateResult result, Validate(engine_, request, rpc.call));
  if (!result.confirmed) {
    response.set_message(result.message);
    return Ok();
  }
  auto& confirmed = *response.mutable_confirmed();
  *confirmed.mutable_volume_context() = request.volume_context();
  *confirmed.mutable_volume_capabilities() = request.volume_capabilities();
  *confirmed.mutable_parameters() = request.parameters();
  return Ok();
}

Status Calls::ListVolumes(const pb::ListVolumesRequest& request, pb::ListVolumesResponse& response,
                          Rpc& rpc) const {
  QUARRY_ASSIGN(const uint32_t max_entries, ParseMaxEntries(request.max_entries()));
  const engine::Show show = Alpha() ? engine::Show::kHealth : engine::Show::kFacts;
  QUARRY_ASSIGN(const engine::ListResult list,
                engine_.volumes().List(max_entries, request.starting_token(), rpc.call, show));
  for (const engine::Volume& volume : list.volumes) {
    auto& entry = *response.add_entries();
    Fill(*entry.mutable_volume(), volume, plugin_.here);
    if (show == engine::Show::kHealth) {
      Fill(*entry.mutable_status()->mutable_volume_condition(), volume.health.value_or(engine::Health()));
    }
  }
  response.set_next_token(list.next_token);
  return Ok();
}

Status Calls::GetCapacity(const pb::GetCapacityRequest& request, pb::GetCapacityResponse& response,
                          Rpc& rpc) const {
  QUARRY_ASSIGN(const engine::CapacityResult capacity, Capacity(engine_, request, plugin_.here, rpc.call));
  rpc.note = capacity.reason;
  Fill(response, capacity, Alpha());
  return Ok();
}

Status Calls::ControllerGetCapabilities(const pb::ControllerGetCapabilitiesRequest&,
                                        pb::ControllerGetCapabilitiesResponse& response, Rpc&) const {
  Announce(response, {ControllerOffer::CREATE_DELETE_VOLUME, ControllerOffer::LIST_VOLUMES,
                      ControllerOffer::GET_CAPACITY});
  if (rules_.v1_features) {
    Announce(response, {ControllerOffer::CLONE_VOLUME, ControllerOffer::CREATE_DELETE_SNAPSHOT,
                        ControllerOffer::LIST_SNAPSHOTS});
  }
  if (OffersControllerExpand()) {
    Announce(response, {ControllerOffer::EXPAND_VOLUME});
  }
  if (Alpha()) {
    Announce(response, {ControllerOffer::GET_VOLUME, ControllerOffer::SINGLE_NODE_MULTI_WRITER,
                        ControllerOffer::VOLUME_CONDITION, ControllerOffer::GET_VOLUME_HEALTH,
                        ControllerOffer::LIST_VOLUME_HEALTH, ControllerOffer::GET_SNAPSHOT});
  }
  return Ok();
}

Status Calls::CreateSnapshot(const pb::CreateSnapshotRequest& request, pb::CreateSnapshotResponse& response,
                             Rpc& rpc) const {
  QUARRY_ASSIGN(const engine::SnapshotRequest create, ParseCreateSnapshot(request, plugin_.here));
  rpc.volume = create.source;
  QUARRY_ASSIGN(const engine::SnapshotResult result, engine_.snapshots().Create(create, rpc.call));
  rpc.note =
      fmt::format("snapshot {} {}", result.snapshot.id, result.created ? "created" : "was there already");
  Fill(*response.mutable_snapshot(), result.snapshot, plugin_.here, Alpha());
  return Ok();
}

Status Calls::DeleteSnapshot(const pb::DeleteSnapshotRequest& request, pb::DeleteSnapshotResponse&,
                             Rpc& rpc) const {
  QUARRY_TRY(CheckRequired("snapshot_id", request.snapshot_id()));
  rpc.volume = request.snapshot_id();
  QUARRY_ASSIGN(const bool deleted, engine_.snapshots().Delete(request.snapshot_id(), rpc.call));
  rpc.note = deleted ? "deleted" : "was not there";
  return Ok();
}

Status Calls::ListSnapshots(const pb::ListSnapshotsRequest& request, pb::ListSnapshotsResponse& response,
                            Rpc& rpc) const {
  QUARRY_ASSIGN(const uint32_t max_entries, ParseMaxEntries(request.max_entries()));
  QUARRY_ASSIGN(const engine::SnapshotList list,
                engine_.snapshots().List({.id = request.snapshot_id(), .source = request.source_volume_id()},
                                         max_entries, request.starting_token(), rpc.call));
  for (const engine::VolumeSnapshot& snapshot : list.snapshots) {
    Fill(*response.add_entries()->mutable_snapshot(), snapshot, plugin_.here, Alpha());
  }
  response.set_next_token(list.next_token);
  return Ok();
}

Status Calls::GetSnapshot(const pb::GetSnapshotRequest& request, pb::GetSnapshotResponse& response,
                          Rpc& rpc) const {
  QUARRY_TRY(CheckRequired("snapshot_id", request.snapshot_id()));
  rpc.volume = request.snapshot_id();
  QUARRY_ASSIGN(const engine::VolumeSnapshot snapshot,
                engine_.snapshots().Get(request.snapshot_id(), rpc.call));
  Fill(*response.mutable_snapshot(), snapshot, plugin_.here, Alpha());
  return Ok();
}

Status Calls::GroupControllerGetCapabilities(const pb::GroupControllerGetCapabilitiesRequest&,
                                             pb::GroupControllerGetCapabilitiesResponse& response,
                                             Rpc&) const {
  if (engine_.group_snapshots().AreOffered()) {
    Announce(response, {pb::GroupControllerServiceCapability::RPC::CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT});
  }
  return Ok();
}

Status Calls::CreateVolumeGroupSnapshot(const pb::CreateVolumeGroupSnapshotRequest& request,
                                        pb::CreateVolumeGroupSnapshotResponse& response, Rpc& rpc) const {
  QUARRY_TRY(CheckName("name", request.name()));
  QUARRY_ASSIGN(const engine::GroupSnapshot group,
                engine_.group_snapshots().Create(
                    {.name = request.name(),
                     .sources = {request.source_volume_ids().begin(), request.source_volume_ids().end()},
                     .parameters = {request.parameters().begin(), request.parameters().end()}},
                    rpc.call));
  rpc.note = fmt::format("group snapshot {} of {} volumes", group.id, group.members.size());
  Fill(*response.mutable_group_snapshot(), group, plugin_.here, Alpha());
  return Ok();
}

Status Calls::DeleteVolumeGroupSnapshot(const pb::DeleteVolumeGroupSnapshotRequest& request,
                                        pb::DeleteVolumeGroupSnapshotResponse&, Rpc& rpc) const {
  QUARRY_TRY(CheckRequired("group_snapshot_id", request.group_snapshot_id()));
  rpc.volume = request.group_snapshot_id();
  QUARRY_ASSIGN(const bool deleted,
                engine_.group_snapshots().Delete(
                    request.group_snapshot_id(),
                    {request.snapshot_ids().begin(), request.snapshot_ids().end()}, rpc.call));
  rpc.note = deleted ? "deleted" : "was not there";
  return Ok();
}

Status Calls::GetVolumeGroupSnapshot(const pb::GetVolumeGroupSnapshotRequest& request,
                                     pb::GetVolumeGroupSnapshotResponse& response, Rpc& rpc) const {
  QUARRY_TRY(CheckRequired("group_snapshot_id", request.group_snapshot_id()));
  rpc.volume = request.group_snapshot_id();
  QUARRY_ASSIGN(const engine::GroupSnapshot group,
                engine_.group_snapshots().Get(request.group_snapshot_id(),
                                              {request.snapshot_ids().begin(), request.snapshot_ids().end()},
                                              rpc.call));
  Fill(*response.mutable_group_snapshot(), group, plugin_.here, Alpha());
  return Ok();
}

Status Calls::GetMetadataAllocated(const pb::GetMetadataAllocatedRequest& request,
                                   const Send<pb::GetMetadataAllocatedResponse>& send, Rpc& rpc) const {
  QUARRY_ASSIGN(const BlockQuestion question, ParseBlocks(request));
  rpc.volume = request.snapshot_id();
  const auto read = [&](Bytes offset) {
    return engine_.changed_blocks().Allocated(request.snapshot_id(), offset, kBatch, rpc.call);
  };
  return StreamBlocks(question, read, send, rpc);
}

Status Calls::GetMetadataDelta(const pb::GetMetadataDeltaRequest& request,
                               const Send<pb::GetMetadataDeltaResponse>& send, Rpc& rpc) const {
  QUARRY_ASSIGN(const BlockQuestion question, ParseBlocks(request));
  rpc.volume = request.target_snapshot_id();
  const auto read = [&](Bytes offset) {
    return engine_.changed_blocks().Delta(request.base_snapshot_id(), request.target_snapshot_id(), offset,
                                          kBatch, rpc.call);
  };
  return StreamBlocks(question, read, send, rpc);
}

Status Calls::ControllerExpandVolume(const pb::ControllerExpandVolumeRequest& request,
                                     pb::ControllerExpandVolumeResponse& response, Rpc& rpc) const {
  QUARRY_ASSIGN(const ExpandQuestion question, ParseExpand(request));
  QUARRY_ASSIGN(const engine::ExpandResult result,
                engine_.volumes().Expand(question.id, question.range, question.capability, rpc.call));
  response.set_capacity_bytes(ToInt64(result.size));
  response.set_node_expansion_required(result.node_expansion_required);
  return Ok();
}

Status Calls::ControllerGetVolume(const pb::ControllerGetVolumeRequest& request,
                                  pb::ControllerGetVolumeResponse& response, Rpc& rpc) const {
  QUARRY_TRY(CheckRequired("volume_id", request.volume_id()));
  QUARRY_ASSIGN(const engine::Volume volume,
                engine_.volumes().Get(request.volume_id(), rpc.call, engine::Show::kHealth));
  Fill(*response.mutable_volume(), volume, plugin_.here);
  Fill(*response.mutable_status()->mutable_volume_condition(), *volume.health);
  return Ok();
}

Status Calls::FillHealth(const std::string& volume_id, pb::VolumeHealth& health, const Call& call) const {
  QUARRY_TRY(CheckRequired("volume_id", volume_id));
  QUARRY_ASSIGN(const engine::Volume volume, engine_.volumes().Get(volume_id, call, engine::Show::kHealth));
  Fill(health, volume.id, *volume.health);
  return Ok();
}

Status Calls::ControllerGetVolumeHealth(const pb::ControllerGetVolumeHealthRequest& request,
                                        pb::ControllerGetVolumeHealthResponse& response, Rpc& rpc) const {
  return FillHealth(request.volume_id(), *response.mutable_volume_health(), rpc.call);
}

Status Calls::ControllerListVolumeHealth(const pb::ControllerListVolumeHealthRequest& request,
                                         pb::ControllerListVolumeHealthResponse& response, Rpc& rpc) const {
  QUARRY_ASSIGN(const uint32_t max_entries, ParseMaxEntries(request.max_entries()));
  QUARRY_ASSIGN(const engine::ListResult list, engine_.volumes().List(max_entries, request.starting_token(),
                                                                      rpc.call, engine::Show::kAiling));
  for (const engine::Volume& volume : list.volumes) {
    Fill(*response.add_entries(), volume.id, *volume.health);
  }
  response.set_next_token(list.next_token);
  return Ok();
}

Status Calls::NodeStageVolume(const pb::NodeStageVolumeRequest& request, pb::NodeStageVolumeResponse&,
                              Rpc& rpc) const {
  QUARRY_ASSIGN(const engine::StageRequest stage, ParseStage(request));
  return engine_.volumes().Stage(stage, rpc.call);
}

Status Calls::NodeUnstageVolume(const pb::NodeUnstageVolumeRequest& request, pb::NodeUnstageVolumeResponse&,
                                Rpc& rpc) const {
  QUARRY_ASSIGN(const VolumeAtPath staged, ParseUnstage(request));
  return engine_.volumes().Unstage(staged.id, staged.path, rpc.call);
}

Status Calls::NodePublishVolume(const pb::NodePublishVolumeRequest& request, pb::NodePublishVolumeResponse&,
                                Rpc& rpc) const {
  if (rules_.inline_volumes) {
    QUARRY_ASSIGN(const auto ephemeral, ParseEphemeral(request));
    if (ephemeral.has_value()) {
      return engine_.volumes().PublishEphemeral(*ephemeral, rpc.call);
    }
  }
  QUARRY_ASSIGN(engine::PublishRequest publish,
                rules_.staging ? ParsePublish(request) : ParsePublishUnstaged(request));
  publish.target_owner = rules_.target_owner;
  return engine_.volumes().Publish(publish, rpc.call);
}

Status Calls::NodeUnpublishVolume(const pb::NodeUnpublishVolumeRequest& request,
                                  pb::NodeUnpublishVolumeResponse&, Rpc& rpc) const {
  QUARRY_ASSIGN(const VolumeAtPath published, ParseUnpublish(request));
  return engine_.volumes().Unpublish(published.id, published.path, rpc.call, rules_.target_owner);
}

Status Calls::NodeGetVolumeStats(const pb::NodeGetVolumeStatsRequest& request,
                                 pb::NodeGetVolumeStatsResponse& response, Rpc& rpc) const {
  QUARRY_TRY(CheckStats(request));
  const engine::Show show = Alpha() ? engine::Show::kHealth : engine::Show::kFacts;
  QUARRY_ASSIGN(const engine::VolumeStats stats,
                engine_.volumes().Stats(request.volume_id(), request.volume_path(), rpc.call, show));
  Fill(response, stats);
  return Ok();
}

// The paths may belong to a failed publication. Problems are looked for at all paths of the volume.
Status Calls::NodeGetVolumeHealth(const pb::NodeGetVolumeHealthRequest& request,
                                  pb::NodeGetVolumeHealthResponse& response, Rpc& rpc) const {
  return FillHealth(request.volume_id(), *response.mutable_volume_health(), rpc.call);
}

Status Calls::NodeGetStorageHealth(const pb::NodeGetStorageHealthRequest&,
                                   pb::NodeGetStorageHealthResponse& response, Rpc& rpc) const {
  QUARRY_ASSIGN(const std::vector<engine::PoolFigures> pools, engine_.lifecycle().Pools(rpc.call));
  Fill(response, pools);
  return Ok();
}

Status Calls::NodeExpandVolume(const pb::NodeExpandVolumeRequest& request,
                               pb::NodeExpandVolumeResponse& response, Rpc& rpc) const {
  QUARRY_ASSIGN(const engine::NodeExpandRequest expand, ParseNodeExpand(request));
  QUARRY_ASSIGN(const Bytes size, engine_.volumes().NodeExpand(expand, rpc.call));
  response.set_capacity_bytes(ToInt64(size));
  return Ok();
}

Status Calls::NodeGetCapabilities(const pb::NodeGetCapabilitiesRequest&,
                                  pb::NodeGetCapabilitiesResponse& response, Rpc&) const {
  if (rules_.staging) {
    Announce(response, {NodeOffer::STAGE_UNSTAGE_VOLUME});
  }
  if (rules_.v1_features) {
    Announce(response,
             {NodeOffer::GET_VOLUME_STATS, NodeOffer::EXPAND_VOLUME, NodeOffer::VOLUME_MOUNT_GROUP});
  }
  if (Alpha()) {
    Announce(response, {NodeOffer::SINGLE_NODE_MULTI_WRITER, NodeOffer::VOLUME_CONDITION,
                        NodeOffer::GET_VOLUME_HEALTH, NodeOffer::GET_STORAGE_HEALTH});
  }
  return Ok();
}

Status Calls::NodeGetInfo(const pb::NodeGetInfoRequest&, pb::NodeGetInfoResponse& response, Rpc&) const {
  response.set_node_id(plugin_.here.node_id());
  response.set_max_volumes_per_node(plugin_.max_volumes);
  Fill(*response.mutable_accessible_topology(), plugin_.here);
  return Ok();
}

}  // namespace quarry::csi::v1
