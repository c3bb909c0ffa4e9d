#include "csi/server.h"

#include <vector>

#include <csi/v1/csi.grpc.pb.h>
#include <fmt/format.h>
#include <grpc/support/log.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "csi/admin/bucket_services.h"
#include "csi/admin/services.h"
#include "csi/edge.h"
#include "csi/errors.h"
#include "csi/listener.h"
#include "csi/private_socket.h"
#include "csi/services.h"

namespace quarry::csi {
namespace {

const Logger* g_grpc_log = nullptr;

void LogGrpcLine(gpr_log_func_args* args) {
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kError
                         : args->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  g_grpc_log->Log(level, "grpc", {{"detail", args->message}});
}

// What quarryctl is told about the plugin: volumes grow through the controller service.
v1::Plugin ForAdministrators(v1::Plugin plugin) {
  plugin.expand_on_node = false;
  return plugin;
}

}  // namespace

// Destroyed from the bottom up: first the server, then the objects that its services use.
struct Server::State {
  // Of all callers, only Mesos still uses the older versions. Most errors end a Mesos operation for good, so
  // its calls wait instead (`patient`).
  State(const ServerConfig& config, engine::Engine& engine, const Logger& log)
      : plugin(config.plugin),
        v1_edge(log, watch, history, {"v1", &v1::ToGrpcCode, config.patient}, config.observe),
        admin_edge(
            log, watch, history,
            {"admin", &v1::ToGrpcCode, false, [this](const std::string& peer) { return peers.Of(peer); }},
            config.observe),
        v0_edge(log, watch, history, {"v0", &v0::ToGrpcCode, true}, config.observe),
        v0_1_edge(log, watch, history, {"v0.1", &v0_1::ToGrpcCode, true}, config.observe),
        admin_plugin(ForAdministrators(config.plugin)),
        v1_calls(plugin, engine, v1::kV1Rules),
        admin_calls(admin_plugin, engine, v1::kAdminRules),
        v0_calls(plugin, engine, v1::kV0Rules),
        v0_1_calls(plugin, engine, v1::kV0_1Rules) {}

  const v1::Plugin plugin;
  CancelWatch watch;
  CallHistory history;
  Peers peers;
  Edge v1_edge, admin_edge, v0_edge, v0_1_edge;
  const v1::Plugin admin_plugin;
  const v1::Calls v1_calls, admin_calls, v0_calls, v0_1_calls;
  std::vector<std::shared_ptr<grpc::Service>> services;
  std::vector<std::shared_ptr<grpc::Service>> admin_services;
  std::unique_ptr<grpc::Server> server, admin_server;
  std::unique_ptr<Listener> admin_listener;
  std::unique_ptr<::csi::v1::Identity::Stub> own;  // the server's calls to itself
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  Shutdown(std::chrono::milliseconds::zero());
}

Result<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, engine::Engine& engine,
                                              const Logger& log) {
  auto state = std::make_unique<State>(config, engine, log);
  State& s = *state;
  for (const Services& version :
       {v1::MakeServices(s.v1_calls, s.v1_edge), v0::MakeServices(s.v0_calls, s.v0_edge),
        v0_1::MakeServices(s.v0_1_calls, s.v0_1_edge)}) {
    s.services.push_back(version.identity);
    if (config.mode != Mode::kNode) {
      s.services.push_back(version.controller);
      if (version.group_controller != nullptr) {
        s.services.push_back(version.group_controller);
      }
      if (version.snapshot_metadata != nullptr) {
        s.services.push_back(version.snapshot_metadata);
      }
    }
    if (config.mode != Mode::kController) {
      s.services.push_back(version.node);
    }
  }

  QUARRY_ASSIGN(s.server, ServePrivately(config.socket, s.services));
  s.own = ::csi::v1::Identity::NewStub(
      grpc::CreateChannel("unix:" + config.socket.str(), grpc::InsecureChannelCredentials()));
  if (config.admin_socket.has_value()) {
    const Services csi = v1::MakeServices(s.admin_calls, s.admin_edge);
    s.admin_services = {admin::MakeAdmin(engine, s.admin_edge, s.history, config.reload),
                        admin::MakeBuckets(config.buckets, s.admin_edge), csi.controller, csi.node};
    grpc::ServerBuilder admin_builder;
    for (const auto& service : s.admin_services) {
      admin_builder.RegisterService(service.get());
    }
    s.admin_server = admin_builder.BuildAndStart();
    if (!s.admin_server) {
      return Error(Code::kInternal, "gRPC could not create the server for quarryctl");
    }
    QUARRY_ASSIGN(s.admin_listener, Listener::Start(*config.admin_socket, *s.admin_server, s.peers));
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

bool Server::Answers(std::chrono::milliseconds limit) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + limit);
  context.set_wait_for_ready(true);  // also after a connection that broke
  ::csi::v1::GetPluginInfoResponse ignored;
  // A refusal, as when there are too many calls, is an answer.
  const auto code = state_->own->GetPluginInfo(&context, {}, &ignored).error_code();
  return code != grpc::StatusCode::DEADLINE_EXCEEDED && code != grpc::StatusCode::UNAVAILABLE;
}

CallHistory& Server::history() {
  return state_->history;
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  const auto deadline = std::chrono::system_clock::now() + grace;
  state_->admin_listener.reset();
  if (state_->admin_server) {
    state_->admin_server->Shutdown(deadline);
  }
  state_->server->Shutdown(deadline);
}

void SendGrpcLogTo(const Logger& log) {
  g_grpc_log = &log;
  gpr_set_log_function(&LogGrpcLine);
}

}  // namespace quarry::csi
