#include "csi/v0_1/services.h"

#include <csi/v0_1/csi.grpc.pb.h>

#include "csi/v0_1/wire.h"

namespace quarry::csi::v0_1 {
namespace {

using grpc::ServerContext;
using Capability = pb::ControllerServiceCapability::RPC;

class IdentityService final : public pb::Identity::Service {
 public:
  IdentityService(const v1::Calls& calls, Edge& edge) : passage_(calls, edge) {}

  grpc::Status GetSupportedVersions(ServerContext* context, const pb::GetSupportedVersionsRequest* request,
                                    pb::GetSupportedVersionsResponse* response) override {
    return passage_.Answer({"GetSupportedVersions"}, *context, *request, [&](Rpc&) {
      *response->add_supported_versions() = ServedVersion();
      return Ok();
    });
  }

  grpc::Status GetPluginInfo(ServerContext* context, const pb::GetPluginInfoRequest* request,
                             pb::GetPluginInfoResponse* response) override {
    return passage_.Serve({"GetPluginInfo"}, *context, *request, *response, &v1::Calls::GetPluginInfo);
  }

 private:
  const Passage<Wire> passage_;
};

class ControllerService final : public pb::Controller::Service {
 public:
  ControllerService(const v1::Calls& calls, Edge& edge) : passage_(calls, edge) {}

  grpc::Status CreateVolume(ServerContext* context, const pb::CreateVolumeRequest* request,
                            pb::CreateVolumeResponse* response) override {
    return passage_.Serve({"CreateVolume", true}, *context, *request, *response, &v1::Calls::CreateVolume);
  }

  grpc::Status DeleteVolume(ServerContext* context, const pb::DeleteVolumeRequest* request,
                            pb::DeleteVolumeResponse* response) override {
    return passage_.Serve({"DeleteVolume", true}, *context, *request, *response, &v1::Calls::DeleteVolume);
  }

  grpc::Status ValidateVolumeCapabilities(ServerContext* context,
                                          const pb::ValidateVolumeCapabilitiesRequest* request,
                                          pb::ValidateVolumeCapabilitiesResponse* response) override {
    return passage_.Serve({"ValidateVolumeCapabilities"}, *context, *request, *response,
                          &v1::Calls::ValidateVolumeCapabilities);
  }

  grpc::Status ListVolumes(ServerContext* context, const pb::ListVolumesRequest* request,
                           pb::ListVolumesResponse* response) override {
    return passage_.Serve({"ListVolumes"}, *context, *request, *response, &v1::Calls::ListVolumes);
  }

  grpc::Status GetCapacity(ServerContext* context, const pb::GetCapacityRequest* request,
                           pb::GetCapacityResponse* response) override {
    return passage_.Serve({"GetCapacity"}, *context, *request, *response, &v1::Calls::GetCapacity);
  }

  grpc::Status ControllerProbe(ServerContext* context, const pb::ControllerProbeRequest* request,
                               pb::ControllerProbeResponse* response) override {
    return passage_.Serve({"ControllerProbe"}, *context, *request, *response, &v1::Calls::Probe);
  }

  grpc::Status ControllerGetCapabilities(ServerContext* context,
                                         const pb::ControllerGetCapabilitiesRequest* request,
                                         pb::ControllerGetCapabilitiesResponse* response) override {
    return passage_.Answer({"ControllerGetCapabilities"}, *context, *request, [&](Rpc&) {
      for (const auto type :
           {Capability::CREATE_DELETE_VOLUME, Capability::LIST_VOLUMES, Capability::GET_CAPACITY}) {
        response->add_capabilities()->mutable_rpc()->set_type(type);
      }
      return Ok();
    });
  }

 private:
  const Passage<Wire> passage_;
};

class NodeService final : public pb::Node::Service {
 public:
  NodeService(const v1::Calls& calls, Edge& edge) : passage_(calls, edge) {}

  grpc::Status NodePublishVolume(ServerContext* context, const pb::NodePublishVolumeRequest* request,
                                 pb::NodePublishVolumeResponse* response) override {
    return passage_.Serve({"NodePublishVolume", true}, *context, *request, *response,
                          &v1::Calls::NodePublishVolume);
  }

  grpc::Status NodeUnpublishVolume(ServerContext* context, const pb::NodeUnpublishVolumeRequest* request,
                                   pb::NodeUnpublishVolumeResponse* response) override {
    return passage_.Serve({"NodeUnpublishVolume", true}, *context, *request, *response,
                          &v1::Calls::NodeUnpublishVolume);
  }

  grpc::Status GetNodeID(ServerContext* context, const pb::GetNodeIDRequest* request,
                         pb::GetNodeIDResponse* response) override {
    return passage_.Serve({"GetNodeID"}, *context, *request, *response, &v1::Calls::NodeGetInfo);
  }

  grpc::Status NodeProbe(ServerContext* context, const pb::NodeProbeRequest* request,
                         pb::NodeProbeResponse* response) override {
    return passage_.Serve({"NodeProbe"}, *context, *request, *response, &v1::Calls::Probe);
  }

  // None: publishing includes all that staging would do.
  grpc::Status NodeGetCapabilities(ServerContext* context, const pb::NodeGetCapabilitiesRequest* request,
                                   pb::NodeGetCapabilitiesResponse* /*response*/) override {
    return passage_.Answer({"NodeGetCapabilities"}, *context, *request, [](Rpc&) { return Ok(); });
  }

 private:
  const Passage<Wire> passage_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeIdentity(const v1::Calls& calls, Edge& edge) {
  return std::make_shared<IdentityService>(calls, edge);
}

std::shared_ptr<grpc::Service> MakeController(const v1::Calls& calls, Edge& edge) {
  return std::make_shared<ControllerService>(calls, edge);
}

std::shared_ptr<grpc::Service> MakeNode(const v1::Calls& calls, Edge& edge) {
  return std::make_shared<NodeService>(calls, edge);
}

}  // namespace quarry::csi::v0_1
