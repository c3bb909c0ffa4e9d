#include "cosi/server.h"

#include <fmt/format.h>
#include <grpcpp/server.h>

#include "cosi/errors.h"
#include "cosi/fields.h"
#include "cosi/services.h"
#include "csi/cancel_watch.h"
#include "csi/private_socket.h"

namespace quarry::cosi {

// Destroyed from the bottom up: first the server, then the objects that its services use.
struct Server::State {
  State(const ServerConfig& config, bucket::BucketApi& buckets, csi::CallHistory& history, const Logger& log)
      : calls(config.driver_name, buckets),
        v1alpha1_edge(log, watch, history,
                      {.version = "cosi.v1alpha1", .codes = &v1alpha1::ToGrpcCode, .longest = &LongestText},
                      config.observe),
        v1alpha2_edge(log, watch, history,
                      {.version = "cosi.v1alpha2", .codes = &v1alpha2::ToGrpcCode, .longest = &LongestText},
                      config.observe) {}

  csi::CancelWatch watch;
  const v1alpha2::Calls calls;
  csi::Edge v1alpha1_edge, v1alpha2_edge;
  Services services;
  std::unique_ptr<grpc::Server> server;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  Shutdown(std::chrono::milliseconds::zero());
}

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, bucket::BucketApi& buckets,
                                              csi::CallHistory& history, const Logger& log) {
  QUARRY_TRY(CheckDriverName(config.driver_name));
  if (!config.socket.str().ends_with(".sock")) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the name of COSI's socket must end in '.sock', is '{}'", config.socket.str()));
  }
  auto state = std::make_unique<State>(config, buckets, history, log);
  State& s = *state;
  for (const Services& version :
       {v1alpha1::MakeServices(s.calls, s.v1alpha1_edge), v1alpha2::MakeServices(s.calls, s.v1alpha2_edge)}) {
    s.services.insert(s.services.end(), version.begin(), version.end());
  }
  QUARRY_ASSIGN(s.server, csi::ServePrivately(config.socket, s.services));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  state_->server->Shutdown(std::chrono::system_clock::now() + grace);
}

}  // namespace quarry::cosi
