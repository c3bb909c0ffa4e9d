// The way of an RPC, the same in every version of CSI: a Passage checks the request and converts it to a
// message of v1, v1::Calls does the work, and the Passage converts the response back. The messages of v1
// itself are not converted.
//
// The services of a version (v1/services.cc, v0/services.cc, v0_1/services.cc) list their RPCs with
// QUARRY_RPC.
#pragma once

#include <concepts>
#include <string_view>

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "csi/edge.h"
#include "csi/v1/calls.h"

namespace quarry::csi {

// A service of one version. `GeneratedService` is the generated base class, such as pb::Identity::Service.
// `Wire` knows the version. Check(request) applies the rules of that version alone. Raise(request, v1
// request) and Lower(v1 response, response) convert. Lower fails if the version cannot express the response.
// Thread-safe; the arguments outlive it.
template <typename GeneratedService, typename Wire>
class Passage : public GeneratedService {
 public:
  Passage(const v1::Calls& calls, Edge& edge) : calls_(calls), edge_(edge) {}

 protected:
  // Serves an RPC that v1 has too, perhaps under another name.
  template <typename Request, typename Response, typename V1Request, typename V1Response>
  grpc::Status Serve(const RpcName& name, const grpc::ServerContext* context, const Request* request,
                     Response* response,
                     Status (v1::Calls::*call)(const V1Request&, V1Response&, Rpc&) const) const {
    return Answer(name, context, request, [&](Rpc& rpc) -> Status {
      if constexpr (std::same_as<Request, V1Request> && std::same_as<Response, V1Response>) {
        return (calls_.*call)(*request, *response, rpc);
      } else {
        V1Request raised;
        V1Response answer;
        Wire::Raise(*request, raised);
        QUARRY_TRY((calls_.*call)(raised, answer, rpc));
        return Wire::Lower(answer, *response);
      }
    });
  }

  // Serves an RPC that only this version has.
  template <typename Request, typename Body>
  grpc::Status Answer(const RpcName& name, const grpc::ServerContext* context, const Request* request,
                      const Body& body) const {
    std::string_view volume;
    if constexpr (requires { request->volume_id(); }) {
      volume = request->volume_id();
    }
    return edge_.Serve(name, *context, *request, volume, [&](Rpc& rpc) -> Status {
      QUARRY_TRY(Wire::Check(*request));
      return body(rpc);
    });
  }

  const v1::Calls& calls_;

 private:
  Edge& edge_;
};

}  // namespace quarry::csi

// In a class derived from Passage: overrides the generated method `rpc`, which `call` of v1::Calls serves.
// `pb` is the version's protobuf package. The last argument is RpcName::changes_things.
#define QUARRY_RPC(rpc, call, changes_things)                                           \
  grpc::Status rpc(grpc::ServerContext* context, const pb::rpc##Request* request,       \
                   pb::rpc##Response* response) final {                                 \
    return Serve({#rpc, changes_things}, context, request, response, &v1::Calls::call); \
  }
