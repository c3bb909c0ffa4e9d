#include "tests/vm/kit/csi_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <chrono>
#include <functional>

namespace quarry::vm {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& socket) {
  grpc::ChannelArguments arguments;
  // Notice a restarted server at once, without gRPC's growing pauses.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // Each client has its own connection, as separate processes would.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Most callers send this authority. Old ones send a path derived from the socket.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel("unix://" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// Repeats the call while the answer asks for it, as any caller does.
template <typename Response>
Reply<Response> Patiently(std::chrono::milliseconds limit, const std::function<Reply<Response>()>& call) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (true) {
    Reply<Response> reply = call();
    if (reply.code() != grpc::StatusCode::UNAVAILABLE ||
        reply.text().find("ask again") == std::string::npos || std::chrono::steady_clock::now() > end) {
      return reply;
    }
  }
}

}  // namespace

v1::VolumeCapability MountCapability(const std::string& fs_type,
                                     v1::VolumeCapability::AccessMode::Mode mode) {
  v1::VolumeCapability capability;
  capability.mutable_mount()->set_fs_type(fs_type);
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

v1::VolumeCapability BlockCapability(v1::VolumeCapability::AccessMode::Mode mode) {
  v1::VolumeCapability capability;
  capability.mutable_block();
  capability.mutable_access_mode()->set_mode(mode);
  return capability;
}

std::map<std::string, std::string> TypeParameters(const std::string& type,
                                                  const std::map<std::string, std::string>& more) {
  std::map<std::string, std::string> parameters = more;
  parameters["type"] = type;
  return parameters;
}

CsiClient::CsiClient(const std::string& socket, std::chrono::milliseconds limit)
    : limit_(limit),
      channel_(Connect(socket)),
      identity_(v1::Identity::NewStub(channel_)),
      controller_(v1::Controller::NewStub(channel_)),
      node_(v1::Node::NewStub(channel_)),
      groups_(v1::GroupController::NewStub(channel_)) {}

Reply<v1::ProbeResponse> CsiClient::Probe() {
  return Invoke(identity(), &v1::Identity::Stub::Probe, v1::ProbeRequest());
}

Reply<v1::GetPluginInfoResponse> CsiClient::PluginInfo() {
  return Invoke(identity(), &v1::Identity::Stub::GetPluginInfo, v1::GetPluginInfoRequest());
}

v1::CreateVolumeRequest CsiClient::CreateRequest(const VolumeSpec& spec) {
  v1::CreateVolumeRequest request;
  request.set_name(spec.name);
  if (spec.size != 0 || spec.limit != 0) {
    request.mutable_capacity_range()->set_required_bytes(spec.size);
    request.mutable_capacity_range()->set_limit_bytes(spec.limit);
  }
  *request.add_volume_capabilities() = spec.capability;
  request.mutable_parameters()->insert(spec.parameters.begin(), spec.parameters.end());
  if (!spec.source.empty()) {
    request.mutable_volume_content_source()->mutable_volume()->set_volume_id(spec.source);
  }
  if (!spec.snapshot.empty()) {
    request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(spec.snapshot);
  }
  return request;
}

Reply<v1::CreateVolumeResponse> CsiClient::Create(const VolumeSpec& spec) {
  return Patiently<v1::CreateVolumeResponse>(
      limit_, [&] { return Invoke(controller(), &v1::Controller::Stub::CreateVolume, CreateRequest(spec)); });
}

Reply<v1::DeleteVolumeResponse> CsiClient::Delete(const std::string& id) {
  v1::DeleteVolumeRequest request;
  request.set_volume_id(id);
  return Invoke(controller(), &v1::Controller::Stub::DeleteVolume, request);
}

Reply<std::vector<v1::Volume>> CsiClient::List(int32_t max_entries) {
  Reply<std::vector<v1::Volume>> all;
  v1::ListVolumesRequest request;
  request.set_max_entries(max_entries);
  do {
    auto page = Invoke(controller(), &v1::Controller::Stub::ListVolumes, request);
    all.status = page.status;
    for (const auto& entry : page.value.entries()) {
      all.value.push_back(entry.volume());
    }
    request.set_starting_token(page.value.next_token());
  } while (all.ok() && !request.starting_token().empty());
  return all;
}

Reply<v1::CreateSnapshotResponse> CsiClient::Snapshot(const std::string& name, const std::string& source,
                                                      const std::map<std::string, std::string>& parameters) {
  v1::CreateSnapshotRequest request;
  request.set_name(name);
  request.set_source_volume_id(source);
  request.mutable_parameters()->insert(parameters.begin(), parameters.end());
  return Patiently<v1::CreateSnapshotResponse>(
      limit_, [&] { return Invoke(controller(), &v1::Controller::Stub::CreateSnapshot, request); });
}

Reply<v1::DeleteSnapshotResponse> CsiClient::DeleteSnapshot(const std::string& id) {
  v1::DeleteSnapshotRequest request;
  request.set_snapshot_id(id);
  return Invoke(controller(), &v1::Controller::Stub::DeleteSnapshot, request);
}

Reply<v1::ListSnapshotsResponse> CsiClient::Snapshots(const std::string& source) {
  v1::ListSnapshotsRequest request;
  request.set_source_volume_id(source);
  return Invoke(controller(), &v1::Controller::Stub::ListSnapshots, request);
}

Reply<v1::CreateVolumeGroupSnapshotResponse> CsiClient::SnapshotGroup(
    const std::string& name, const std::vector<std::string>& sources) {
  v1::CreateVolumeGroupSnapshotRequest request;
  request.set_name(name);
  request.mutable_source_volume_ids()->Assign(sources.begin(), sources.end());
  return Patiently<v1::CreateVolumeGroupSnapshotResponse>(limit_, [&] {
    return Invoke(groups(), &v1::GroupController::Stub::CreateVolumeGroupSnapshot, request);
  });
}

Reply<v1::DeleteVolumeGroupSnapshotResponse> CsiClient::DeleteGroup(const std::string& id,
                                                                    const std::vector<std::string>& members) {
  v1::DeleteVolumeGroupSnapshotRequest request;
  request.set_group_snapshot_id(id);
  request.mutable_snapshot_ids()->Assign(members.begin(), members.end());
  return Invoke(groups(), &v1::GroupController::Stub::DeleteVolumeGroupSnapshot, request);
}

Reply<v1::GetVolumeGroupSnapshotResponse> CsiClient::GetGroup(const std::string& id) {
  v1::GetVolumeGroupSnapshotRequest request;
  request.set_group_snapshot_id(id);
  return Invoke(groups(), &v1::GroupController::Stub::GetVolumeGroupSnapshot, request);
}

Reply<v1::GetCapacityResponse> CsiClient::Capacity(const std::map<std::string, std::string>& parameters) {
  v1::GetCapacityRequest request;
  request.mutable_parameters()->insert(parameters.begin(), parameters.end());
  return Invoke(controller(), &v1::Controller::Stub::GetCapacity, request);
}

Reply<v1::ControllerExpandVolumeResponse> CsiClient::Expand(const std::string& id, int64_t size,
                                                            int64_t limit) {
  v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(id);
  request.mutable_capacity_range()->set_required_bytes(size);
  request.mutable_capacity_range()->set_limit_bytes(limit);
  return Patiently<v1::ControllerExpandVolumeResponse>(
      limit_, [&] { return Invoke(controller(), &v1::Controller::Stub::ControllerExpandVolume, request); });
}

Reply<v1::NodeStageVolumeResponse> CsiClient::Stage(const v1::Volume& volume, const std::string& staging,
                                                    const v1::VolumeCapability& capability) {
  v1::NodeStageVolumeRequest request;
  request.set_volume_id(volume.volume_id());
  request.set_staging_target_path(staging);
  *request.mutable_volume_capability() = capability;
  *request.mutable_volume_context() = volume.volume_context();
  return Invoke(node(), &v1::Node::Stub::NodeStageVolume, request);
}

Reply<v1::NodeUnstageVolumeResponse> CsiClient::Unstage(const std::string& id, const std::string& staging) {
  v1::NodeUnstageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging);
  return Invoke(node(), &v1::Node::Stub::NodeUnstageVolume, request);
}

Reply<v1::NodePublishVolumeResponse> CsiClient::Publish(const v1::Volume& volume, const std::string& staging,
                                                        const std::string& target,
                                                        const v1::VolumeCapability& capability,
                                                        bool read_only) {
  v1::NodePublishVolumeRequest request;
  request.set_volume_id(volume.volume_id());
  request.set_staging_target_path(staging);
  request.set_target_path(target);
  *request.mutable_volume_capability() = capability;
  request.set_readonly(read_only);
  *request.mutable_volume_context() = volume.volume_context();
  return Invoke(node(), &v1::Node::Stub::NodePublishVolume, request);
}

Reply<v1::NodeUnpublishVolumeResponse> CsiClient::Unpublish(const std::string& id,
                                                            const std::string& target) {
  v1::NodeUnpublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_target_path(target);
  return Invoke(node(), &v1::Node::Stub::NodeUnpublishVolume, request);
}

Reply<v1::NodeGetVolumeStatsResponse> CsiClient::Stats(const std::string& id, const std::string& path) {
  v1::NodeGetVolumeStatsRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  return Invoke(node(), &v1::Node::Stub::NodeGetVolumeStats, request);
}

Reply<v1::NodeExpandVolumeResponse> CsiClient::NodeExpand(const std::string& id, const std::string& path,
                                                          const std::string& staging, int64_t size) {
  v1::NodeExpandVolumeRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  request.set_staging_target_path(staging);
  if (size != 0) {
    request.mutable_capacity_range()->set_required_bytes(size);
  }
  return Invoke(node(), &v1::Node::Stub::NodeExpandVolume, request);
}

Reply<v1::NodeGetInfoResponse> CsiClient::NodeInfo() {
  return Invoke(node(), &v1::Node::Stub::NodeGetInfo, v1::NodeGetInfoRequest());
}

}  // namespace quarry::vm
