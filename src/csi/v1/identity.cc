#include <csi/v1/csi.grpc.pb.h>

#include "csi/v1/services.h"

namespace quarry::csi::v1 {
namespace {

namespace pb = ::csi::v1;
using grpc::ServerContext;
using Offer = pb::PluginCapability::Service;
using Expansion = pb::PluginCapability::VolumeExpansion;

// What Probe has to say about an engine that could not even be asked. CSI knows three answers: ready, not
// yet, and FAILED_PRECONDITION for a plugin that is not healthy.
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

class IdentityService final : public pb::Identity::Service {
 public:
  IdentityService(const Plugin& plugin, engine::Engine& engine, Edge& edge)
      : plugin_(plugin), engine_(engine), edge_(edge) {}

  grpc::Status GetPluginInfo(ServerContext* context, const pb::GetPluginInfoRequest* request,
                             pb::GetPluginInfoResponse* response) override {
    return edge_.Serve({"GetPluginInfo"}, *context, *request, "", [&](Rpc&) {
      response->set_name(plugin_.driver_name);
      response->set_vendor_version(plugin_.version);
      (*response->mutable_manifest())["csi"] = "1.13";
      return Ok();
    });
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
    return edge_.Serve({"Probe"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const engine::Readiness readiness, AsReadiness(engine_.Probe(rpc.call())));
      response->mutable_ready()->set_value(readiness.ready);
      rpc.Note(readiness.message);
      return Ok();
    });
  }

 private:
  const Plugin& plugin_;
  engine::Engine& engine_;
  Edge& edge_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeIdentity(const Plugin& plugin, engine::Engine& engine, Edge& edge) {
  return std::make_shared<IdentityService>(plugin, engine, edge);
}

}  // namespace quarry::csi::v1
