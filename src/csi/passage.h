// The way of an RPC, the same in every version of CSI: a Passage checks the request and converts it to a
// message of v1, v1::Calls does the work, and the Passage converts the response back. The messages of v1
// itself are not converted.
//
// Below it are the RPCs that every version has, once for all versions. The services of a version derive from
// them and add the rest (v1/services.cc, v0/services.cc, v0_1/services.cc).
#pragma once

#include <concepts>
#include <string_view>

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "csi/edge.h"
#include "csi/v1/calls.h"

namespace quarry::csi {

template <typename Request>
std::string_view VolumeIdOf(const Request& request) {
  if constexpr (requires { request.volume_id(); }) {
    return request.volume_id();
  } else {
    return {};
  }
}

// `Wire` knows one version. Check(request) applies the rules of that version alone. Raise(request, v1
// request) and Lower(v1 response, response) convert. Lower fails if the version cannot express the response.
// Thread-safe; the arguments outlive it.
template <typename Wire>
class Passage {
 public:
  Passage(const v1::Calls& calls, Edge& edge) : calls_(calls), edge_(edge) {}

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
    return edge_.Serve(name, *context, *request, VolumeIdOf(*request), [&](Rpc& rpc) -> Status {
      QUARRY_TRY(Wire::Check(*request));
      return body(rpc);
    });
  }

 private:
  const v1::Calls& calls_;
  Edge& edge_;
};

// The messages of a generated method, such as RequestOf<&pb::Identity::Service::Probe>.
template <typename Method>
struct Messages;
template <typename Service, typename RequestMessage, typename ResponseMessage>
struct Messages<grpc::Status (Service::*)(grpc::ServerContext*, const RequestMessage*, ResponseMessage*)> {
  using Request = RequestMessage;
  using Response = ResponseMessage;
};
template <auto kMethod>
using RequestOf = typename Messages<decltype(kMethod)>::Request;
template <auto kMethod>
using ResponseOf = typename Messages<decltype(kMethod)>::Response;

// `Service` is the generated class of one version: pb::Identity::Service.
template <typename Service, typename Wire>
class SharedIdentity : public Service {
 public:
  SharedIdentity(const v1::Calls& calls, Edge& edge) : passage_(calls, edge) {}

  grpc::Status GetPluginInfo(grpc::ServerContext* context, const RequestOf<&Service::GetPluginInfo>* request,
                             ResponseOf<&Service::GetPluginInfo>* response) final {
    return passage_.Serve({"GetPluginInfo"}, context, request, response, &v1::Calls::GetPluginInfo);
  }

 protected:
  const Passage<Wire> passage_;
};

template <typename Service, typename Wire>
class SharedController : public Service {
 public:
  SharedController(const v1::Calls& calls, Edge& edge) : passage_(calls, edge) {}

  grpc::Status CreateVolume(grpc::ServerContext* context, const RequestOf<&Service::CreateVolume>* request,
                            ResponseOf<&Service::CreateVolume>* response) final {
    return passage_.Serve({"CreateVolume", true}, context, request, response, &v1::Calls::CreateVolume);
  }

  grpc::Status DeleteVolume(grpc::ServerContext* context, const RequestOf<&Service::DeleteVolume>* request,
                            ResponseOf<&Service::DeleteVolume>* response) final {
    return passage_.Serve({"DeleteVolume", true}, context, request, response, &v1::Calls::DeleteVolume);
  }

  grpc::Status ValidateVolumeCapabilities(grpc::ServerContext* context,
                                          const RequestOf<&Service::ValidateVolumeCapabilities>* request,
                                          ResponseOf<&Service::ValidateVolumeCapabilities>* response) final {
    return passage_.Serve({"ValidateVolumeCapabilities"}, context, request, response,
                          &v1::Calls::ValidateVolumeCapabilities);
  }

  grpc::Status ListVolumes(grpc::ServerContext* context, const RequestOf<&Service::ListVolumes>* request,
                           ResponseOf<&Service::ListVolumes>* response) final {
    return passage_.Serve({"ListVolumes"}, context, request, response, &v1::Calls::ListVolumes);
  }

  grpc::Status GetCapacity(grpc::ServerContext* context, const RequestOf<&Service::GetCapacity>* request,
                           ResponseOf<&Service::GetCapacity>* response) final {
    return passage_.Serve({"GetCapacity"}, context, request, response, &v1::Calls::GetCapacity);
  }

  grpc::Status ControllerGetCapabilities(grpc::ServerContext* context,
                                         const RequestOf<&Service::ControllerGetCapabilities>* request,
                                         ResponseOf<&Service::ControllerGetCapabilities>* response) final {
    return passage_.Serve({"ControllerGetCapabilities"}, context, request, response,
                          &v1::Calls::ControllerGetCapabilities);
  }

 protected:
  const Passage<Wire> passage_;
};

template <typename Service, typename Wire>
class SharedNode : public Service {
 public:
  SharedNode(const v1::Calls& calls, Edge& edge) : passage_(calls, edge) {}

  grpc::Status NodePublishVolume(grpc::ServerContext* context,
                                 const RequestOf<&Service::NodePublishVolume>* request,
                                 ResponseOf<&Service::NodePublishVolume>* response) final {
    return passage_.Serve({"NodePublishVolume", true}, context, request, response,
                          &v1::Calls::NodePublishVolume);
  }

  grpc::Status NodeUnpublishVolume(grpc::ServerContext* context,
                                   const RequestOf<&Service::NodeUnpublishVolume>* request,
                                   ResponseOf<&Service::NodeUnpublishVolume>* response) final {
    return passage_.Serve({"NodeUnpublishVolume", true}, context, request, response,
                          &v1::Calls::NodeUnpublishVolume);
  }

  grpc::Status NodeGetCapabilities(grpc::ServerContext* context,
                                   const RequestOf<&Service::NodeGetCapabilities>* request,
                                   ResponseOf<&Service::NodeGetCapabilities>* response) final {
    return passage_.Serve({"NodeGetCapabilities"}, context, request, response,
                          &v1::Calls::NodeGetCapabilities);
  }

 protected:
  const Passage<Wire> passage_;
};

}  // namespace quarry::csi
