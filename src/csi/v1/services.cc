#include "csi/services.h"

#include <csi/v1/csi.grpc.pb.h>

#include "csi/passage.h"

namespace quarry::csi::v1 {
namespace {

using grpc::ServerContext;

// These messages are those of v1::Calls. v1/requests.h checks them.
struct Wire {
  template <typename Request>
  static Status Check(const Request& /*request*/) {
    return Ok();
  }
};

class IdentityService final : public SharedIdentity<pb::Identity::Service, Wire> {
 public:
  using SharedIdentity::SharedIdentity;

  grpc::Status GetPluginCapabilities(ServerContext* context, const pb::GetPluginCapabilitiesRequest* request,
                                     pb::GetPluginCapabilitiesResponse* response) override {
    return passage_.Serve({"GetPluginCapabilities"}, context, request, response,
                          &Calls::GetPluginCapabilities);
  }

  grpc::Status Probe(ServerContext* context, const pb::ProbeRequest* request,
                     pb::ProbeResponse* response) override {
    return passage_.Serve({"Probe"}, context, request, response, &Calls::Probe);
  }
};

class ControllerService final : public SharedController<pb::Controller::Service, Wire> {
 public:
  ControllerService(const Calls& calls, Edge& edge) : SharedController(calls, edge), calls_(calls) {}

  grpc::Status ControllerExpandVolume(ServerContext* context,
                                      const pb::ControllerExpandVolumeRequest* request,
                                      pb::ControllerExpandVolumeResponse* response) override {
    if (!calls_.OffersControllerExpand()) {
      return pb::Controller::Service::ControllerExpandVolume(context, request, response);  // UNIMPLEMENTED
    }
    return passage_.Serve({"ControllerExpandVolume", true}, context, request, response,
                          &Calls::ControllerExpandVolume);
  }

  grpc::Status ControllerGetVolume(ServerContext* context, const pb::ControllerGetVolumeRequest* request,
                                   pb::ControllerGetVolumeResponse* response) override {
    return passage_.Serve({"ControllerGetVolume"}, context, request, response, &Calls::ControllerGetVolume);
  }

  grpc::Status ControllerGetVolumeHealth(ServerContext* context,
                                         const pb::ControllerGetVolumeHealthRequest* request,
                                         pb::ControllerGetVolumeHealthResponse* response) override {
    return passage_.Serve({"ControllerGetVolumeHealth"}, context, request, response,
                          &Calls::ControllerGetVolumeHealth);
  }

  grpc::Status ControllerListVolumeHealth(ServerContext* context,
                                          const pb::ControllerListVolumeHealthRequest* request,
                                          pb::ControllerListVolumeHealthResponse* response) override {
    return passage_.Serve({"ControllerListVolumeHealth"}, context, request, response,
                          &Calls::ControllerListVolumeHealth);
  }

 private:
  const Calls& calls_;
};

class NodeService final : public SharedNode<pb::Node::Service, Wire> {
 public:
  using SharedNode::SharedNode;

  grpc::Status NodeStageVolume(ServerContext* context, const pb::NodeStageVolumeRequest* request,
                               pb::NodeStageVolumeResponse* response) override {
    return passage_.Serve({"NodeStageVolume", true}, context, request, response, &Calls::NodeStageVolume);
  }

  grpc::Status NodeUnstageVolume(ServerContext* context, const pb::NodeUnstageVolumeRequest* request,
                                 pb::NodeUnstageVolumeResponse* response) override {
    return passage_.Serve({"NodeUnstageVolume", true}, context, request, response, &Calls::NodeUnstageVolume);
  }

  grpc::Status NodeGetVolumeStats(ServerContext* context, const pb::NodeGetVolumeStatsRequest* request,
                                  pb::NodeGetVolumeStatsResponse* response) override {
    return passage_.Serve({"NodeGetVolumeStats"}, context, request, response, &Calls::NodeGetVolumeStats);
  }

  grpc::Status NodeGetVolumeHealth(ServerContext* context, const pb::NodeGetVolumeHealthRequest* request,
                                   pb::NodeGetVolumeHealthResponse* response) override {
    return passage_.Serve({"NodeGetVolumeHealth"}, context, request, response, &Calls::NodeGetVolumeHealth);
  }

  grpc::Status NodeGetStorageHealth(ServerContext* context, const pb::NodeGetStorageHealthRequest* request,
                                    pb::NodeGetStorageHealthResponse* response) override {
    return passage_.Serve({"NodeGetStorageHealth"}, context, request, response, &Calls::NodeGetStorageHealth);
  }

  grpc::Status NodeExpandVolume(ServerContext* context, const pb::NodeExpandVolumeRequest* request,
                                pb::NodeExpandVolumeResponse* response) override {
    return passage_.Serve({"NodeExpandVolume", true}, context, request, response, &Calls::NodeExpandVolume);
  }

  grpc::Status NodeGetInfo(ServerContext* context, const pb::NodeGetInfoRequest* request,
                           pb::NodeGetInfoResponse* response) override {
    return passage_.Serve({"NodeGetInfo"}, context, request, response, &Calls::NodeGetInfo);
  }
};

}  // namespace

Services MakeServices(const Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v1
