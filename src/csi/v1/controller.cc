#include <csi/v1/csi.grpc.pb.h>

#include "csi/fields.h"
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
      : plugin_(plugin), engine_(engine), edge_(edge) {}

  grpc::Status CreateVolume(ServerContext* context, const pb::CreateVolumeRequest* request,
                            pb::CreateVolumeResponse* response) override {
    return edge_.Serve({"CreateVolume", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const engine::CreateRequest create, ParseCreate(*request, plugin_.here));
      QUARRY_ASSIGN(const engine::CreateResult result, engine_.Create(create, rpc.call()));
      rpc.SetVolume(result.volume.id);
      rpc.Note(result.created ? "created" : "was there already");
      Fill(*response->mutable_volume(), result.volume, plugin_.here);
      return Ok();
    });
  }

  grpc::Status DeleteVolume(ServerContext* context, const pb::DeleteVolumeRequest* request,
                            pb::DeleteVolumeResponse* /*response*/) override {
    return edge_.Serve(
        {"DeleteVolume", true}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
          QUARRY_TRY(CheckRequired("volume_id", request->volume_id()));
          QUARRY_ASSIGN(const engine::DeleteResult result, engine_.Delete(request->volume_id(), rpc.call()));
          rpc.Note(result.deleted ? "deleted" : "was not there");
          return Ok();
        });
  }

  grpc::Status ValidateVolumeCapabilities(ServerContext* context,
                                          const pb::ValidateVolumeCapabilitiesRequest* request,
                                          pb::ValidateVolumeCapabilitiesResponse* response) override {
    return edge_.Serve({"ValidateVolumeCapabilities"}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) -> Status {
                         QUARRY_ASSIGN(const engine::ValidateResult result, Validate(*request, rpc.call()));
                         if (!result.confirmed) {
                           response->set_message(result.message);
                           return Ok();
                         }
                         auto& confirmed = *response->mutable_confirmed();
                         *confirmed.mutable_volume_context() = request->volume_context();
                         *confirmed.mutable_volume_capabilities() = request->volume_capabilities();
                         *confirmed.mutable_parameters() = request->parameters();
                         return Ok();
                       });
  }

  grpc::Status ListVolumes(ServerContext* context, const pb::ListVolumesRequest* request,
                           pb::ListVolumesResponse* response) override {
    return edge_.Serve({"ListVolumes"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const uint32_t max_entries, ParseMaxEntries(*request));
      QUARRY_ASSIGN(const engine::ListResult list,
                    engine_.List(max_entries, request->starting_token(), rpc.call()));
      for (const engine::Volume& volume : list.volumes) {
        Fill(*response->add_entries()->mutable_volume(), volume, plugin_.here);
      }
      response->set_next_token(list.next_token);
      return Ok();
    });
  }

  grpc::Status GetCapacity(ServerContext* context, const pb::GetCapacityRequest* request,
                           pb::GetCapacityResponse* response) override {
    return edge_.Serve({"GetCapacity"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const engine::CapacityResult capacity, Capacity(*request, rpc.call()));
      rpc.Note(capacity.reason);
      Fill(*response, capacity, plugin_.alpha);
      return Ok();
    });
  }

  grpc::Status ControllerGetCapabilities(ServerContext* context,
                                         const pb::ControllerGetCapabilitiesRequest* request,
                                         pb::ControllerGetCapabilitiesResponse* response) override {
    return edge_.Serve({"ControllerGetCapabilities"}, *context, *request, "", [&](Rpc&) {
      for (const auto type : {Capability::CREATE_DELETE_VOLUME, Capability::LIST_VOLUMES,
                              Capability::GET_CAPACITY, Capability::EXPAND_VOLUME}) {
        response->add_capabilities()->mutable_rpc()->set_type(type);
      }
      if (plugin_.alpha) {
        for (const auto type : {Capability::GET_VOLUME, Capability::SINGLE_NODE_MULTI_WRITER}) {
          response->add_capabilities()->mutable_rpc()->set_type(type);
        }
      }
      return Ok();
    });
  }

  grpc::Status ControllerExpandVolume(ServerContext* context,
                                      const pb::ControllerExpandVolumeRequest* request,
                                      pb::ControllerExpandVolumeResponse* response) override {
    return edge_.Serve(
        {"ControllerExpandVolume", true}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
          QUARRY_ASSIGN(const ExpandQuestion question, ParseExpand(*request));
          QUARRY_ASSIGN(const engine::ExpandResult result,
                        engine_.Expand(question.id, question.range, question.capability, rpc.call()));
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
          QUARRY_ASSIGN(const engine::Volume volume, engine_.Get(request->volume_id(), rpc.call()));
          Fill(*response->mutable_volume(), volume, plugin_.here);
          response->mutable_status();  // required, though we announce nothing that fills it
          return Ok();
        });
  }

 private:
  Result<engine::ValidateResult> Validate(const pb::ValidateVolumeCapabilitiesRequest& request,
                                          const Call& call) {
    const Result<engine::ValidateRequest> parsed = ParseValidate(request);
    if (parsed.has_value()) {
      return engine_.Validate(*parsed, call);
    }
    if (parsed.error().code() != Code::kUnsupported) {
      return parsed.error();
    }
    QUARRY_TRY(engine_.Get(request.volume_id(), call));
    return engine::ValidateResult{.confirmed = false, .message = parsed.error().message()};
  }

  Result<engine::CapacityResult> Capacity(const pb::GetCapacityRequest& request, const Call& call) {
    const Result<CapacityQuestion> parsed = ParseCapacity(request, plugin_.here);
    if (parsed.has_value()) {
      return engine_.Capacity(parsed->capabilities, parsed->parameters, call);
    }
    if (parsed.error().code() != Code::kUnsupported) {
      return parsed.error();
    }
    engine::CapacityResult none;
    none.reason = parsed.error().message();
    return none;
  }

  const Plugin& plugin_;
  engine::Engine& engine_;
  Edge& edge_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeController(const Plugin& plugin, engine::Engine& engine, Edge& edge) {
  return std::make_shared<ControllerService>(plugin, engine, edge);
}

}  // namespace quarry::csi::v1
