#include "csi/services.h"

#include <semaphore>

#include <csi/v1/csi.grpc.pb.h>

#include "csi/passage.h"

namespace quarry::csi::v1 {
namespace {

// These messages are those of v1::Calls. v1/requests.h checks them.
struct Wire {
  template <typename Request>
  static Status Check(const Request& /*request*/) {
    return Ok();
  }
};

class IdentityService final : public Passage<pb::Identity::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(GetPluginInfo, GetPluginInfo, false)
  QUARRY_RPC(GetPluginCapabilities, GetPluginCapabilities, false)
  QUARRY_RPC(Probe, Probe, false)
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
  QUARRY_RPC(CreateSnapshot, CreateSnapshot, true)
  QUARRY_RPC(DeleteSnapshot, DeleteSnapshot, true)
  QUARRY_RPC(ListSnapshots, ListSnapshots, false)
  QUARRY_RPC(GetSnapshot, GetSnapshot, false)
  QUARRY_RPC(ControllerGetVolume, ControllerGetVolume, false)
  QUARRY_RPC(ControllerGetVolumeHealth, ControllerGetVolumeHealth, false)
  QUARRY_RPC(ControllerListVolumeHealth, ControllerListVolumeHealth, false)

  grpc::Status ControllerExpandVolume(grpc::ServerContext* context,
                                      const pb::ControllerExpandVolumeRequest* request,
                                      pb::ControllerExpandVolumeResponse* response) override {
    if (!calls_.OffersControllerExpand()) {
      return Service::ControllerExpandVolume(context, request, response);  // UNIMPLEMENTED
    }
    return Serve({"ControllerExpandVolume", true}, context, request, response,
                 &Calls::ControllerExpandVolume);
  }
};

class GroupControllerService final : public Passage<pb::GroupController::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(GroupControllerGetCapabilities, GroupControllerGetCapabilities, false)
  QUARRY_RPC(CreateVolumeGroupSnapshot, CreateVolumeGroupSnapshot, true)
  QUARRY_RPC(DeleteVolumeGroupSnapshot, DeleteVolumeGroupSnapshot, true)
  QUARRY_RPC(GetVolumeGroupSnapshot, GetVolumeGroupSnapshot, false)
};

class NodeService final : public Passage<pb::Node::Service, Wire> {
 public:
  using Passage::Passage;

  QUARRY_RPC(NodeStageVolume, NodeStageVolume, true)
  QUARRY_RPC(NodeUnstageVolume, NodeUnstageVolume, true)
  QUARRY_RPC(NodePublishVolume, NodePublishVolume, true)
  QUARRY_RPC(NodeUnpublishVolume, NodeUnpublishVolume, true)
  QUARRY_RPC(NodeGetVolumeStats, NodeGetVolumeStats, false)
  QUARRY_RPC(NodeGetVolumeHealth, NodeGetVolumeHealth, false)
  QUARRY_RPC(NodeGetStorageHealth, NodeGetStorageHealth, false)
  QUARRY_RPC(NodeExpandVolume, NodeExpandVolume, true)
  QUARRY_RPC(NodeGetCapabilities, NodeGetCapabilities, false)
  QUARRY_RPC(NodeGetInfo, NodeGetInfo, false)
};

// Lists of changed blocks. Each occupies a thread for as long as its caller takes to read it.
class SnapshotMetadataService final : public Passage<pb::SnapshotMetadata::Service, Wire> {
 public:
  using Passage::Passage;

  grpc::Status GetMetadataAllocated(grpc::ServerContext* context,
                                    const pb::GetMetadataAllocatedRequest* request,
                                    grpc::ServerWriter<pb::GetMetadataAllocatedResponse>* writer) final {
    return Stream("GetMetadataAllocated", context, request, writer, &Calls::GetMetadataAllocated);
  }
  grpc::Status GetMetadataDelta(grpc::ServerContext* context, const pb::GetMetadataDeltaRequest* request,
                                grpc::ServerWriter<pb::GetMetadataDeltaResponse>* writer) final {
    return Stream("GetMetadataDelta", context, request, writer, &Calls::GetMetadataDelta);
  }

 private:
  static constexpr int kMostStreams = 16;

  template <typename Request, typename Response>
  grpc::Status Stream(std::string_view method, grpc::ServerContext* context, const Request* request,
                      grpc::ServerWriter<Response>* writer,
                      Status (Calls::*call)(const Request&, const Send<Response>&, Rpc&) const) {
    const RpcName name{.method = method, .changes_things = false, .streams = true};
    return Answer(name, context, request, [&](Rpc& rpc) -> Status {
      if (!free_.try_acquire()) {
        return Error(Code::kUnavailable,
                     "16 lists of changed blocks are being read, which is the most: try again later");
      }
      const std::unique_ptr<std::counting_semaphore<kMostStreams>, Release> place(&free_);
      return (calls_.*call)(*request, [&](const Response& part) { return writer->Write(part); }, rpc);
    });
  }

  struct Release {
    void operator()(std::counting_semaphore<kMostStreams>* places) const { places->release(); }
  };
  std::counting_semaphore<kMostStreams> free_{kMostStreams};
};

}  // namespace

Services MakeServices(const Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge), std::make_shared<GroupControllerService>(calls, edge),
          std::make_shared<SnapshotMetadataService>(calls, edge)};
}

}  // namespace quarry::csi::v1
