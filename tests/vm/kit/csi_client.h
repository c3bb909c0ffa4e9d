// A client of csi.v1 over a unix socket: typed calls, and short forms of the requests that tests make most
// often. All other calls use the generated messages and Invoke().
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "csi/v1/csi.grpc.pb.h"

namespace quarry::vm {

namespace v1 = csi::v1;

template <typename Response>
struct Reply {
  grpc::Status status;
  Response value;  // meaningful if ok()
  bool ok() const { return status.ok(); }
  grpc::StatusCode code() const { return status.error_code(); }
  std::string text() const { return status.error_message(); }
};

v1::VolumeCapability MountCapability(
    const std::string& fs_type = "ext4",
    v1::VolumeCapability::AccessMode::Mode mode = v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
v1::VolumeCapability BlockCapability(
    v1::VolumeCapability::AccessMode::Mode mode = v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);

inline constexpr int64_t kMi = int64_t{1} << 20;

struct VolumeSpec {
  std::string name;
  std::map<std::string, std::string> parameters;
  v1::VolumeCapability capability = MountCapability();
  int64_t size = 64 * kMi;
  int64_t limit = 0;
  std::string source = {};    // id of the volume to copy; empty: none
  std::string snapshot = {};  // id of the snapshot to make it from; empty: none
};

// The parameters of a volume of this type, for example ("raid5", {{"stripes", "3"}}).
std::map<std::string, std::string> TypeParameters(const std::string& type,
                                                  const std::map<std::string, std::string>& more = {});

// One connection. Calls may be made from several threads.
class CsiClient {
 public:
  // `limit` is the deadline of every call. Connects at the first call, and again after the server went away.
  explicit CsiClient(const std::string& socket, std::chrono::milliseconds limit = std::chrono::seconds(120));

  v1::Identity::Stub& identity() { return *identity_; }
  v1::Controller::Stub& controller() { return *controller_; }
  v1::Node::Stub& node() { return *node_; }
  v1::GroupController::Stub& groups() { return *groups_; }

  // client.Invoke(client.node(), &v1::Node::Stub::NodeGetInfo, request)
  template <typename Stub, typename Request, typename Response>
  Reply<Response> Invoke(Stub& stub,
                         grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                         const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + limit_);
    // If set, the call waits for a server that is starting, until the deadline. Otherwise a refused
    // connection fails it.
    context.set_wait_for_ready(wait_for_ready_);
    Reply<Response> reply;
    reply.status = (stub.*method)(&context, request, &reply.value);
    return reply;
  }

  // If true, calls wait for a server that is not there yet, until their deadline. By default they fail at
  // once.
  void set_wait_for_ready(bool wait) { wait_for_ready_ = wait; }

  Reply<v1::ProbeResponse> Probe();
  Reply<v1::GetPluginInfoResponse> PluginInfo();

  static v1::CreateVolumeRequest CreateRequest(const VolumeSpec& spec);
  // Create and Expand are repeated while the answer is that space is being zeroed.
  Reply<v1::CreateVolumeResponse> Create(const VolumeSpec& spec);
  Reply<v1::DeleteVolumeResponse> Delete(const std::string& id);
  // All pages, in order. max_entries: size of a page, 0 for one page.
  Reply<std::vector<v1::Volume>> List(int32_t max_entries = 0);
  // Repeated while the answer is that bytes are being copied, or space is being zeroed.
  Reply<v1::CreateSnapshotResponse> Snapshot(const std::string& name, const std::string& source,
                                             const std::map<std::string, std::string>& parameters = {});
  Reply<v1::DeleteSnapshotResponse> DeleteSnapshot(const std::string& id);
  // The snapshots of this volume; empty: all.
  Reply<v1::ListSnapshotsResponse> Snapshots(const std::string& source = {});
  // A group snapshot. `members` of DeleteGroup: the ids of its snapshots, or none.
  Reply<v1::CreateVolumeGroupSnapshotResponse> SnapshotGroup(const std::string& name,
                                                             const std::vector<std::string>& sources);
  Reply<v1::DeleteVolumeGroupSnapshotResponse> DeleteGroup(const std::string& id,
                                                           const std::vector<std::string>& members = {});
  Reply<v1::GetVolumeGroupSnapshotResponse> GetGroup(const std::string& id);
  Reply<v1::GetCapacityResponse> Capacity(const std::map<std::string, std::string>& parameters = {});
  Reply<v1::ControllerExpandVolumeResponse> Expand(const std::string& id, int64_t size, int64_t limit = 0);

  Reply<v1::NodeStageVolumeResponse> Stage(const v1::Volume& volume, const std::string& staging,
                                           const v1::VolumeCapability& capability);
  Reply<v1::NodeUnstageVolumeResponse> Unstage(const std::string& id, const std::string& staging);
  Reply<v1::NodePublishVolumeResponse> Publish(const v1::Volume& volume, const std::string& staging,
                                               const std::string& target,
                                               const v1::VolumeCapability& capability,
                                               bool read_only = false);
  Reply<v1::NodeUnpublishVolumeResponse> Unpublish(const std::string& id, const std::string& target);
  Reply<v1::NodeGetVolumeStatsResponse> Stats(const std::string& id, const std::string& path);
  Reply<v1::NodeExpandVolumeResponse> NodeExpand(const std::string& id, const std::string& path,
                                                 const std::string& staging, int64_t size);
  Reply<v1::NodeGetInfoResponse> NodeInfo();

 private:
  std::chrono::milliseconds limit_;
  bool wait_for_ready_ = false;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Identity::Stub> identity_;
  std::unique_ptr<v1::Controller::Stub> controller_;
  std::unique_ptr<v1::Node::Stub> node_;
  std::unique_ptr<v1::GroupController::Stub> groups_;
};

}  // namespace quarry::vm
