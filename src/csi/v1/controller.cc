#include <csi/v1/csi.grpc.pb.h>

#include "csi/fields.h"
#include "csi/v1/calls.h"
#include "csi/v1/requests.h"
#include "csi/v1/responses.h"
#include "csi/v1/services.h"

namespace quarry::csi::v1 {
namespace {

using grpc::ServerContext;
using Capability = pb::ControllerServiceCapability::RPC;

class ControllerService final : public pb::Controller::Service {
 public:
  ControllerService(const Plugin& plugin, engine::Engine& engine, Edge& edge)
      : plugin_(plugin), engine_(engine), edge_(edge), calls_(plugin, engine, kV1Rules) {}

  grpc::Status CreateVolume(ServerContext* context, const pb::CreateVolumeRequest* request,
                            pb::CreateVolumeResponse* response) override {
    return edge_.Serve({"CreateVolume", true}, *context, *request, "",
                       [&](Rpc& rpc) { return calls_.CreateVolume(*request, *response, rpc); });
  }

  grpc::Status DeleteVolume(ServerContext* context, const pb::DeleteVolumeRequest* request,
                            pb::DeleteVolumeResponse* response) override {
    return edge_.Serve({"DeleteVolume", true}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) { return calls_.DeleteVolume(*request, *response, rpc); });
  }

  grpc::Status ValidateVolumeCapabilities(ServerContext* context,
                                          const pb::ValidateVolumeCapabilitiesRequest* request,
                                          pb::ValidateVolumeCapabilitiesResponse* response) override {
    return edge_.Serve({"ValidateVolumeCapabilities"}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) { return calls_.ValidateVolumeCapabilities(*request, *response, rpc); });
  }

  grpc::Status ListVolumes(ServerContext* context, const pb::ListVolumesRequest* request,
                           pb::ListVolumesResponse* response) override {
    return edge_.Serve({"ListVolumes"}, *context, *request, "",
                       [&](Rpc& rpc) { return calls_.ListVolumes(*request, *response, rpc); });
  }

  grpc::Status GetCapacity(ServerContext* context, const pb::GetCapacityRequest* request,
                           pb::GetCapacityResponse* response) override {
    return edge_.Serve({"GetCapacity"}, *context, *request, "",
                       [&](Rpc& rpc) { return calls_.GetCapacity(*request, *response, rpc); });
  }

  grpc::Status ControllerGetCapabilities(ServerContext* context,
                                         const pb::ControllerGetCapabilitiesRequest* request,
                                         pb::ControllerGetCapabilitiesResponse* response) override {
    return edge_.Serve({"ControllerGetCapabilities"}, *context, *request, "", [&](Rpc&) {
      for (const auto type : {Capability::CREATE_DELETE_VOLUME, Capability::LIST_VOLUMES,
                              Capability::GET_CAPACITY, Capability::EXPAND_VOLUME}) {
        if (type != Capability::EXPAND_VOLUME || !plugin_.expand_on_node) {
          response->add_capabilities()->mutable_rpc()->set_type(type);
        }
      }
      if (plugin_.alpha) {
        for (const auto type :
             {Capability::GET_VOLUME, Capability::SINGLE_NODE_MULTI_WRITER, Capability::VOLUME_CONDITION,
              Capability::GET_VOLUME_HEALTH, Capability::LIST_VOLUME_HEALTH}) {
          response->add_capabilities()->mutable_rpc()->set_type(type);
        }
      }
      return Ok();
    });
  }

  grpc::Status ControllerExpandVolume(ServerContext* context,
                                      const pb::ControllerExpandVolumeRequest* request,
                                      pb::ControllerExpandVolumeResponse* response) override {
    if (plugin_.expand_on_node) {
      return pb::Controller::Service::ControllerExpandVolume(context, request, response);  // UNIMPLEMENTED
    }
    return edge_.Serve(
        {"ControllerExpandVolume", true}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
          QUARRY_ASSIGN(const ExpandQuestion question, ParseExpand(*request));
          QUARRY_ASSIGN(
              const engine::ExpandResult result,
              engine_.volumes().Expand(question.id, question.range, question.capability, rpc.call()));
          response->set_capacity_bytes(ToInt64(result.size));
          response->set_node_expansion_required(result.node_expansion_required);
          return Ok();
        });
  }

  grpc::Status ControllerGetVolume(ServerContext* context, const pb::ControllerGetVolumeRequest* request,
                                   pb::ControllerGetVolumeResponse* response) override {
    return edge_.Serve(
        {"ControllerGetVolume"}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
          QUARRY_TRY(CheckRequired("volume_id", request->volume_id()));
          QUARRY_ASSIGN(const engine::Volume volume,
                        engine_.volumes().Get(request->volume_id(), rpc.call(), engine::Show::kHealth));
          Fill(*response->mutable_volume(), volume, plugin_.here);
          Fill(*response->mutable_status()->mutable_volume_condition(), *volume.health);
          return Ok();
        });
  }

  grpc::Status ControllerGetVolumeHealth(ServerContext* context,
                                         const pb::ControllerGetVolumeHealthRequest* request,
                                         pb::ControllerGetVolumeHealthResponse* response) override {
    return edge_.Serve(
        {"ControllerGetVolumeHealth"}, *context, *request, request->volume_id(), [&](Rpc& rpc) {
          return calls_.GetVolumeHealth(request->volume_id(), *response->mutable_volume_health(), rpc);
        });
  }

  grpc::Status ControllerListVolumeHealth(ServerContext* context,
                                          const pb::ControllerListVolumeHealthRequest* request,
                                          pb::ControllerListVolumeHealthResponse* response) override {
    return edge_.Serve({"ControllerListVolumeHealth"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const uint32_t max_entries, ParseMaxEntries(request->max_entries()));
      QUARRY_ASSIGN(
          const engine::ListResult list,
          engine_.volumes().List(max_entries, request->starting_token(), rpc.call(), engine::Show::kAiling));
      for (const engine::Volume& volume : list.volumes) {
        Fill(*response->add_entries(), volume.id, *volume.health);
      }
      response->set_next_token(list.next_token);
      return Ok();
    });
  }

 private:
  const Plugin& plugin_;
  engine::Engine& engine_;
  Edge& edge_;
  const Calls calls_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeController(const Plugin& plugin, engine::Engine& engine, Edge& edge) {
  return std::make_shared<ControllerService>(plugin, engine, edge);
}

}  // namespace quarry::csi::v1
