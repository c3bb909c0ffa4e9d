#include <cosi/v1alpha2/cosi.grpc.pb.h>
#include <grpcpp/server_context.h>

#include "cosi/services.h"

namespace quarry::cosi::v1alpha2 {
namespace {

// Overrides the generated method `rpc`, which `call` of Calls serves.
#define QUARRY_COSI_RPC(rpc, call, changes_things)                                            \
  grpc::Status rpc(grpc::ServerContext* context, const pb::rpc##Request* request,             \
                   pb::rpc##Response* response) final {                                       \
    return edge_.Serve({#rpc, changes_things}, *context, *request, "",                        \
                       [&](csi::Rpc& one) { return calls_.call(*request, *response, one); }); \
  }

class IdentityService final : public pb::Identity::Service {
 public:
  IdentityService(const Calls& calls, csi::Edge& edge) : calls_(calls), edge_(edge) {}
  QUARRY_COSI_RPC(DriverGetInfo, GetInfo, false)

 private:
  const Calls& calls_;
  csi::Edge& edge_;
};

class ProvisionerService final : public pb::Provisioner::Service {
 public:
  ProvisionerService(const Calls& calls, csi::Edge& edge) : calls_(calls), edge_(edge) {}
  QUARRY_COSI_RPC(DriverCreateBucket, Create, true)
  QUARRY_COSI_RPC(DriverGetExistingBucket, GetExisting, false)
  QUARRY_COSI_RPC(DriverDeleteBucket, Delete, true)
  QUARRY_COSI_RPC(DriverGrantBucketAccess, Grant, true)
  QUARRY_COSI_RPC(DriverRevokeBucketAccess, Revoke, true)

 private:
  const Calls& calls_;
  csi::Edge& edge_;
};

#undef QUARRY_COSI_RPC

}  // namespace

Services MakeServices(const Calls& calls, csi::Edge& edge) {
  return {std::make_shared<IdentityService>(calls, edge), std::make_shared<ProvisionerService>(calls, edge)};
}

}  // namespace quarry::cosi::v1alpha2
