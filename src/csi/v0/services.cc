#include "csi/services.h"

#include <csi/v0/csi.grpc.pb.h>

#include "csi/passage.h"
#include "csi/v0/wire.h"

namespace quarry::csi::v0 {
namespace {

using grpc::ServerContext;
using v1::Calls;

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

using ControllerService = SharedController<pb::Controller::Service, Wire>;

class NodeService final : public SharedNode<pb::Node::Service, Wire> {
 public:
  using SharedNode::SharedNode;

  grpc::Status NodeGetInfo(ServerContext* context, const pb::NodeGetInfoRequest* request,
                           pb::NodeGetInfoResponse* response) override {
    return passage_.Serve({"NodeGetInfo"}, context, request, response, &Calls::NodeGetInfo);
  }

  grpc::Status NodeGetId(ServerContext* context, const pb::NodeGetIdRequest* request,
                         pb::NodeGetIdResponse* response) override {
    return passage_.Serve({"NodeGetId"}, context, request, response, &Calls::NodeGetInfo);
  }
};

}  // namespace

Services MakeServices(const Calls& calls, Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ControllerService>(calls, edge),
          std::make_shared<NodeService>(calls, edge)};
}

}  // namespace quarry::csi::v0
