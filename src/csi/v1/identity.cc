#include <csi/v1/csi.grpc.pb.h>

#include "csi/v1/calls.h"
#include "csi/v1/services.h"

namespace quarry::csi::v1 {
namespace {

namespace pb = ::csi::v1;
using grpc::ServerContext;
using Offer = pb::PluginCapability::Service;
using Expansion = pb::PluginCapability::VolumeExpansion;

class IdentityService final : public pb::Identity::Service {
 public:
  IdentityService(const Plugin& plugin, engine::Engine& engine, Edge& edge)
      : edge_(edge), calls_(plugin, engine, kV1Rules) {}

  grpc::Status GetPluginInfo(ServerContext* context, const pb::GetPluginInfoRequest* request,
                             pb::GetPluginInfoResponse* response) override {
    return edge_.Serve({"GetPluginInfo"}, *context, *request, "",
                       [&](Rpc& rpc) { return calls_.GetPluginInfo(*request, *response, rpc); });
  }

  grpc::Status GetPluginCapabilities(ServerContext* context, const pb::GetPluginCapabilitiesRequest* request,
                                     pb::GetPluginCapabilitiesResponse* response) override {
    return edge_.Serve({"GetPluginCapabilities"}, *context, *request, "", [&](Rpc&) {
      for (const auto type : {Offer::CONTROLLER_SERVICE, Offer::VOLUME_ACCESSIBILITY_CONSTRAINTS}) {
        response->add_capabilities()->mutable_service()->set_type(type);
      }
      response->add_capabilities()->mutable_volume_expansion()->set_type(Expansion::ONLINE);
      return Ok();
    });
  }

  grpc::Status Probe(ServerContext* context, const pb::ProbeRequest* request,
                     pb::ProbeResponse* response) override {
    return edge_.Serve({"Probe"}, *context, *request, "",
                       [&](Rpc& rpc) { return calls_.Probe(*request, *response, rpc); });
  }

 private:
  Edge& edge_;
  const Calls calls_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeIdentity(const Plugin& plugin, engine::Engine& engine, Edge& edge) {
  return std::make_shared<IdentityService>(plugin, engine, edge);
}

}  // namespace quarry::csi::v1
