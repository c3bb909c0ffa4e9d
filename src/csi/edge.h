// The common path of every RPC: it gives the call its id, sets deadline and cancellation, checks size limits,
// catches exceptions, maps the error code, logs one line, and keeps the call's steps (call_history.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <grpcpp/support/status.h>

#include "base/call.h"
#include "base/log.h"
#include "base/result.h"
#include "csi/call_history.h"
#include "csi/cancel_watch.h"
#include "csi/fields.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf
namespace grpc {
class ServerContext;
}  // namespace grpc

namespace quarry::csi {

// Maps Quarry's error codes to the gRPC codes of one version of an interface.
using CodeMap = grpc::StatusCode (*)(Code);

// The longest time that any call gets, whatever its deadline. Callers usually set 10 s to 2 min.
inline constexpr std::chrono::minutes kLongestCall{10};

// How the callers of one version of CSI or COSI differ from others.
struct Dialect {
  std::string_view version;  // for the log: "v1"
  CodeMap codes;
  bool patient = false;  // Call::patient of their calls
  // Describes the caller for the log, from ServerContext::peer(). May be empty: then callers are not
  // described.
  std::function<std::string(const std::string& peer)> caller = {};
  // The size limits of their requests.
  TextLimit longest = &LongestText;
  std::chrono::milliseconds longest_call = kLongestCall;
};

// A running RPC, as its body sees it.
struct Rpc {
  const Call call;
  std::string volume;  // for the log; the body sets it if the request does not name the volume by id
  std::string note;    // for the log line of an RPC that succeeds
};

// The result of an RPC, for monitoring.
struct RpcOutcome {
  std::string_view service;  // "csi.v1.Node"
  std::string_view method;
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::chrono::duration<double> took{0};
};
// Called on the RPC's thread.
using RpcObserver = std::function<void(const RpcOutcome&)>;

struct RpcName {
  std::string_view method;      // "CreateVolume"
  bool changes_things = false;  // a success is logged at info if true, else at debug
  // The response is a stream. A caller that does not read it makes the body wait for as long as the RPC
  // lives, so the RPC is cancelled at the deadline of the call.
  bool streams = false;
};

// Thread-safe; outlives the services that use it.
class Edge {
 public:
  // Several edges may share `watch` and `history`. `observe` may be empty.
  Edge(const Logger& log, CancelWatch& watch, CallHistory& history, const Dialect& dialect,
       RpcObserver observe)
      : log_(log), watch_(watch), history_(history), dialect_(dialect), observe_(std::move(observe)) {}

  // Runs `body` for `request`. `volume` is the volume id of the request; empty if the request has none. The
  // returned status has a message and no details.
  grpc::Status Serve(const RpcName& name, const grpc::ServerContext& context,
                     const google::protobuf::Message& request, std::string_view volume,
                     const std::function<Status(Rpc&)>& body);

 private:
  void LogOutcome(const RpcName& name, const Rpc& rpc, const std::string& caller, const Status& outcome,
                  std::chrono::steady_clock::duration took) const;

  const Logger& log_;
  CancelWatch& watch_;
  CallHistory& history_;
  const Dialect dialect_;
  const RpcObserver observe_;
};

}  // namespace quarry::csi
