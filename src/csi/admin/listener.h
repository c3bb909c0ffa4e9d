// The socket of quarry.admin.v1. Quarry accepts the connections and then gives them to gRPC, because gRPC
// does not report the client process of a connection that it accepts itself.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace quarry::csi::admin {

// The client of each connection, by its descriptor. Thread-safe.
class Peers {
 public:
  void Set(int fd);
  // `peer` is the text of ServerContext::peer(). The result is like "pid 12, uid 0". The pid is 0 for a
  // process outside our PID namespace. Empty: the connection is not from this listener.
  std::string Of(const std::string& peer) const;

 private:
  mutable Mutex mutex_;
  // At most one for each descriptor that the process may open.
  std::map<int, std::string> words_ ABSL_GUARDED_BY(mutex_);
};

class Listener {
 public:
  // Listens with mode 0600 until destroyed. `server` and `peers` outlive the listener, and `server` runs that
  // long. kUnavailable if the socket could not be bound.
  static Result<std::unique_ptr<Listener>> Start(const AbsolutePath& socket, grpc::Server& server,
                                                 Peers& peers);
  // Accepts no more connections, and removes the socket.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  Listener(AbsolutePath socket, UniqueFd listening, UniqueFd wake, grpc::Server& server, Peers& peers);
  void Run(const std::stop_token& stop);

  const AbsolutePath socket_;
  const UniqueFd listening_, wake_;
  grpc::Server& server_;
  Peers& peers_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace quarry::csi::admin
