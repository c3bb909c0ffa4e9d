// The gRPC servers. One unix socket offers every CSI service of this process, in every version of CSI.
// Another one serves quarryctl (proto/quarry/admin/v1, and the controller and node services of CSI v1);
// callers of the first socket have no access to it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "bucket/bucket_api.h"
#include "csi/call_history.h"
#include "csi/edge.h"
#include "csi/reload.h"
#include "csi/v1/plugin.h"
#include "engine/engine.h"

namespace quarry::csi {

// Which services a process offers. Identity is always offered. RPCs of services that are not offered answer
// UNIMPLEMENTED.
enum class Mode { kAll, kController, kNode };

struct ServerConfig {
  AbsolutePath socket;  // the directory exists, and the path is free or holds a stale socket
  // The same for quarryctl's socket; nullopt: quarryctl is not served.
  std::optional<AbsolutePath> admin_socket = {};
  Mode mode = Mode::kAll;
  v1::Plugin plugin;
  // Whether callers of v1 wait instead of getting "busy". Callers of older versions always wait.
  bool patient = false;
  // For quarryctl; outlives the server. nullptr: this process serves no buckets.
  bucket::BucketApi* buckets = nullptr;
  // For quarryctl. Empty: this process cannot read its settings again.
  ReloadSettings reload = {};
  // Called for every RPC, on the thread of the RPC. May be empty.
  RpcObserver observe;
};

class Server {
 public:
  // Binds with mode 0600 and serves at once. Changes the umask of the process for a moment, so call it while
  // no other thread creates files. `engine` and `log` outlive the server. kUnavailable if a socket could not
  // be bound.
  static Result<std::unique_ptr<Server>> Start(const ServerConfig& config, engine::Engine& engine,
                                               const Logger& log);
  // Cancels the calls in flight and waits for them. Call Shutdown first to let them finish.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Makes a call to its own CSI socket that concerns no volume, and waits `limit` for the answer. False: no
  // answer. A call that waits for a disk delays no other call, so disks do not matter here.
  bool Answers(std::chrono::milliseconds limit);

  // Where quarryctl sees calls. Other servers of this process may add theirs while this one lives.
  // Thread-safe.
  CallHistory& history();

  // Refuses new calls and waits `grace` for the calls in flight. Then cancels the rest (their stop tokens
  // fire) and waits until they return. Removes the sockets.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// gRPC writes its own warnings and errors to standard error in its own format. This makes them lines of
// `log`, for the whole process. `log` must live until the process ends.
void SendGrpcLogTo(const Logger& log);

}  // namespace quarry::csi
