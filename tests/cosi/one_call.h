#pragma once

#include <chrono>

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

namespace quarry::cosi_check {

// Calls `method` of a stub, with a limit that only a driver that hangs reaches.
template <typename Stub, typename Request, typename Response>
grpc::Status OneCall(Stub& stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const std::type_identity_t<Request>& request, Response& response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return (stub.*method)(&context, request, &response);
}

}  // namespace quarry::cosi_check
