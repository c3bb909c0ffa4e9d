// The gRPC servers: one unix socket with every CSI service that this process offers, in every version of CSI;
// and one with what quarryctl asks for (proto/quarry/admin/v1), which is not for whoever may ask for volumes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "csi/edge.h"
#include "csi/v1/plugin.h"
#include "engine/engine.h"

namespace quarry::csi {

// Which services a process offers. Identity always; the RPCs of the others answer UNIMPLEMENTED.
enum class Mode { kAll, kController, kNode };

struct ServerConfig {
  AbsolutePath socket;  // its directory exists, and nothing that must stay is at the path
  // Likewise; nullopt: quarryctl is not served.
  std::optional<AbsolutePath> admin_socket = {};
  Mode mode = Mode::kAll;
  v1::Plugin plugin;
  // Whether v1 callers wait where they would be told that the volume is busy, as those of the older versions
  // always do.
  bool patient = false;
  // Hears of every RPC, on its thread; may be empty.
  RpcObserver observe;
};

class Server {
 public:
  // Binds with mode 0600 and answers from here on. Changes the process's umask for a moment, so call it while
  // no other thread creates files. `engine` and `log` outlive the server. kUnavailable if a socket could not
  // be bound.
  static Result<std::unique_ptr<Server>> Start(const ServerConfig& config, engine::Engine& engine,
                                               const Logger& log);
  // Cancels what is in flight and waits for it: call Shutdown first to be gentle.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes no new calls, waits `grace` for those in flight, then cancels the rest (their stop tokens fire) and
  // waits for them to return. Removes the sockets.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// gRPC writes warnings and errors of its own to standard error, in a form of its own: this makes them lines
// of `log`, which must live until the process ends. For the whole process.
void SendGrpcLogTo(const Logger& log);

}  // namespace quarry::csi
