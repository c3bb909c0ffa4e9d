#include "csi/services.h"

#include <csi/v0_1/csi.grpc.pb.h>

#include "csi/passage.h"
#include "csi/v0_1/wire.h"

namespace quarry::csi::v0_1 {
namespace {

using grpc::ServerContext;
using v1::Calls;

class IdentityService final : public SharedIdentity<pb::Identity::Service, Wire> {
 public:
  using SharedIdentity::SharedIdentity;

  // v1 has no such RPC.
  grpc::Status GetSupportedVersions(ServerContext* context, const pb::GetSupportedVersionsRequest* request,
                                    pb::GetSupportedVersionsResponse* response) override {
    return passage_.Answer({"GetSupportedVersions"}, context, request, [&](Rpc&) {
      *response->add_supported_versions() = ServedVersion();
      return Ok();
    });
  }
};

class ControllerService final : public SharedController<pb::Controller::Service, Wire> {
 public:
  using SharedController::SharedController;

  grpc::Status ControllerProbe(ServerContext* context, const pb::ControllerProbeRequest* request,
                               pb::ControllerProbeResponse* response) override {
    return passage_.Serve({"ControllerProbe"}, context, request, response, &Calls::Probe);
  }
};

class NodeService final : public SharedNode<pb::Node::Service, Wire> {
 public:
  using SharedNode::SharedNode;

  grpc::Status GetNodeID(ServerContext* context, const pb::GetNodeIDRequest* request,
                         pb::GetNodeIDResponse* response) override {
    return passage_.Serve({"GetNodeID"}, context, request, response, &Calls::NodeGetInfo);
  }

  grpc::Status NodeProbe(ServerContext* context, const pb::NodeProbeRequest* request,
                         pb::NodeProbeResponse* response) override {
    return passage_.Serve({"NodeProbe"}, context, request, response, &Calls::Probe);
  }
};

}  // namespace

Services MakeServices(const Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v0_1
