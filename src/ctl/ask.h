// One request to quarryd, of whatever service.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "base/call.h"
#include "base/result.h"

namespace quarry::ctl {

// Keeps what quarryctl tells apart: wrong usage (kInvalidArgument, exit status 2), unavailable and busy
// (kUnavailable, kBusy, kTimeout: waiting goes on), and not found (kNotFound). Most errors come from quarryd,
// and their messages stand alone. UNAVAILABLE and UNIMPLEMENTED may come from gRPC itself.
Error ErrorOf(const grpc::Status& status);

// Calls `method` of a service's stub: Ask<pb::Admin>(channel, &pb::Admin::Stub::Scrub, request, call). `call`
// limits the time.
template <typename Service, typename Request, typename Response>
Result<Response> Ask(const std::shared_ptr<grpc::Channel>& channel,
                     grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request, const Call& call) {
  const auto stub = Service::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + call.Remaining());
  Response response;
  const grpc::Status status = (stub.get()->*method)(&context, request, &response);
  return status.ok() ? Result<Response>(std::move(response)) : ErrorOf(status);
}

}  // namespace quarry::ctl
