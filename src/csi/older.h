// Serves the CSI versions older than v1: requests are converted to messages of v1, v1::Calls does the work,
// and responses are converted back. Apart from a few messages v1 is a wire superset of its predecessors
// (proto/README.md). Most messages are therefore converted by parsing their bytes as the other type. The few
// exceptions belong to each version.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "csi/edge.h"
#include "csi/fields.h"
#include "csi/v1/calls.h"

namespace quarry::csi {

// Parses the bytes of `from` as another message with the same fields under the same numbers. Only fields that
// both messages know pass: a field of the later version must not gain a meaning in the older one.
template <typename From, typename To>
void Reread(const From& from, To& to) {
  From known = from;
  known.DiscardUnknownFields();
  // Cannot fail: fields that both know have the same types, and strings were checked to be UTF-8 when `from`
  // was parsed.
  to.ParseFromString(known.SerializeAsString());
  to.DiscardUnknownFields();
}

// kUnsupported for an access mode that the caller's version does not have, even if a later version gives its
// number a meaning.
template <typename Capability>
Status CheckMode(const std::string& field, const Capability& capability) {
  const auto mode = capability.access_mode().mode();
  return Capability::AccessMode::Mode_IsValid(mode)
             ? Ok()
             : Status(Unsupported(field + ".access_mode",
                                  fmt::format("mode {} is not known", static_cast<int>(mode))));
}

template <typename Request>
Status CheckModes(const Request& request) {
  if constexpr (requires { request.volume_capabilities(); }) {
    for (int i = 0; i < request.volume_capabilities_size(); ++i) {
      QUARRY_TRY(CheckMode(fmt::format("volume_capabilities[{}]", i), request.volume_capabilities(i)));
    }
  }
  if constexpr (requires { request.volume_capability(); }) {
    QUARRY_TRY(CheckMode("volume_capability", request.volume_capability()));
  }
  return Ok();
}

template <typename Request>
std::string_view VolumeIdOf(const Request& request) {
  if constexpr (requires { request.volume_id(); }) {
    return request.volume_id();
  } else {
    return {};
  }
}

// `Wire` knows one version. Check(request) applies the rules of that version alone. Raise(request, v1
// request) and Lower(v1 response, response) convert. Lower fails if the older version cannot express the
// response. Thread-safe; the arguments outlive it.
template <typename Wire>
class Passage {
 public:
  Passage(const v1::Calls& calls, Edge& edge) : calls_(calls), edge_(edge) {}

  // Serves an RPC that v1 has too.
  template <typename Request, typename Response, typename V1Request, typename V1Response>
  grpc::Status Serve(const RpcName& name, const grpc::ServerContext& context, const Request& request,
                     Response& response,
                     Status (v1::Calls::*call)(const V1Request&, V1Response&, Rpc&) const) const {
    return Answer(name, context, request, [&](Rpc& rpc) -> Status {
      V1Request raised;
      V1Response answer;
      Wire::Raise(request, raised);
      QUARRY_TRY((calls_.*call)(raised, answer, rpc));
      return Wire::Lower(answer, response);
    });
  }

  // Serves an RPC that only this version has.
  template <typename Request, typename Body>
  grpc::Status Answer(const RpcName& name, const grpc::ServerContext& context, const Request& request,
                      const Body& body) const {
    return edge_.Serve(name, context, request, VolumeIdOf(request), [&](Rpc& rpc) -> Status {
      QUARRY_TRY(Wire::Check(request));
      return body(rpc);
    });
  }

 private:
  const v1::Calls& calls_;
  Edge& edge_;
};

}  // namespace quarry::csi
