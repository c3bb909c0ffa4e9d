#include <csi/v1/csi.grpc.pb.h>

#include "csi/fields.h"
#include "csi/v1/calls.h"
#include "csi/v1/requests.h"
#include "csi/v1/responses.h"
#include "csi/v1/services.h"

namespace quarry::csi::v1 {
namespace {

using grpc::ServerContext;
using Capability = pb::NodeServiceCapability::RPC;

class NodeService final : public pb::Node::Service {
 public:
  NodeService(const Plugin& plugin, engine::Engine& engine, Edge& edge)
      : plugin_(plugin), engine_(engine), edge_(edge), calls_(plugin, engine, kV1Rules) {}

  grpc::Status NodeStageVolume(ServerContext* context, const pb::NodeStageVolumeRequest* request,
                               pb::NodeStageVolumeResponse* /*response*/) override {
    return edge_.Serve({"NodeStageVolume", true}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) -> Status {
                         QUARRY_ASSIGN(const engine::StageRequest stage, ParseStage(*request));
                         return engine_.volumes().Stage(stage, rpc.call());
                       });
  }

  grpc::Status NodeUnstageVolume(ServerContext* context, const pb::NodeUnstageVolumeRequest* request,
                                 pb::NodeUnstageVolumeResponse* /*response*/) override {
    return edge_.Serve({"NodeUnstageVolume", true}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) -> Status {
                         QUARRY_ASSIGN(const VolumeAtPath staged, ParseUnstage(*request));
                         return engine_.volumes().Unstage(staged.id, staged.path, rpc.call());
                       });
  }

  grpc::Status NodePublishVolume(ServerContext* context, const pb::NodePublishVolumeRequest* request,
                                 pb::NodePublishVolumeResponse* response) override {
    return edge_.Serve({"NodePublishVolume", true}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) { return calls_.NodePublishVolume(*request, *response, rpc); });
  }

  grpc::Status NodeUnpublishVolume(ServerContext* context, const pb::NodeUnpublishVolumeRequest* request,
                                   pb::NodeUnpublishVolumeResponse* response) override {
    return edge_.Serve({"NodeUnpublishVolume", true}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) { return calls_.NodeUnpublishVolume(*request, *response, rpc); });
  }

  grpc::Status NodeGetVolumeStats(ServerContext* context, const pb::NodeGetVolumeStatsRequest* request,
                                  pb::NodeGetVolumeStatsResponse* response) override {
    return edge_.Serve(
        {"NodeGetVolumeStats"}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
          QUARRY_TRY(CheckStats(*request));
          const engine::Show show = plugin_.alpha ? engine::Show::kHealth : engine::Show::kFacts;
          QUARRY_ASSIGN(
              const engine::VolumeStats stats,
              engine_.volumes().Stats(request->volume_id(), request->volume_path(), rpc.call(), show));
          Fill(*response, stats);
          return Ok();
        });
  }

  // The paths may belong to a failed publication. Problems are looked for at all paths of the volume.
  grpc::Status NodeGetVolumeHealth(ServerContext* context, const pb::NodeGetVolumeHealthRequest* request,
                                   pb::NodeGetVolumeHealthResponse* response) override {
    return edge_.Serve({"NodeGetVolumeHealth"}, *context, *request, request->volume_id(), [&](Rpc& rpc) {
      return calls_.GetVolumeHealth(request->volume_id(), *response->mutable_volume_health(), rpc);
    });
  }

  grpc::Status NodeGetStorageHealth(ServerContext* context, const pb::NodeGetStorageHealthRequest* request,
                                    pb::NodeGetStorageHealthResponse* response) override {
    return edge_.Serve({"NodeGetStorageHealth"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const std::vector<engine::PoolFigures> pools, engine_.lifecycle().Pools(rpc.call()));
      Fill(*response, pools);
      return Ok();
    });
  }

  grpc::Status NodeExpandVolume(ServerContext* context, const pb::NodeExpandVolumeRequest* request,
                                pb::NodeExpandVolumeResponse* response) override {
    return edge_.Serve({"NodeExpandVolume", true}, *context, *request, request->volume_id(),
                       [&](Rpc& rpc) -> Status {
                         QUARRY_ASSIGN(const engine::NodeExpandRequest expand, ParseNodeExpand(*request));
                         QUARRY_ASSIGN(const Bytes size, engine_.volumes().NodeExpand(expand, rpc.call()));
                         response->set_capacity_bytes(ToInt64(size));
                         return Ok();
                       });
  }

  grpc::Status NodeGetCapabilities(ServerContext* context, const pb::NodeGetCapabilitiesRequest* request,
                                   pb::NodeGetCapabilitiesResponse* response) override {
    return edge_.Serve({"NodeGetCapabilities"}, *context, *request, "", [&](Rpc&) {
      for (const auto type : {Capability::STAGE_UNSTAGE_VOLUME, Capability::GET_VOLUME_STATS,
                              Capability::EXPAND_VOLUME, Capability::VOLUME_MOUNT_GROUP}) {
        response->add_capabilities()->mutable_rpc()->set_type(type);
      }
      if (plugin_.alpha) {
        for (const auto type : {Capability::SINGLE_NODE_MULTI_WRITER, Capability::VOLUME_CONDITION,
                                Capability::GET_VOLUME_HEALTH, Capability::GET_STORAGE_HEALTH}) {
          response->add_capabilities()->mutable_rpc()->set_type(type);
        }
      }
      return Ok();
    });
  }

  grpc::Status NodeGetInfo(ServerContext* context, const pb::NodeGetInfoRequest* request,
                           pb::NodeGetInfoResponse* response) override {
    return edge_.Serve({"NodeGetInfo"}, *context, *request, "",
                       [&](Rpc& rpc) { return calls_.NodeGetInfo(*request, *response, rpc); });
  }

 private:
  const Plugin& plugin_;
  engine::Engine& engine_;
  Edge& edge_;
  const Calls calls_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeNode(const Plugin& plugin, engine::Engine& engine, Edge& edge) {
  return std::make_shared<NodeService>(plugin, engine, edge);
}

}  // namespace quarry::csi::v1
