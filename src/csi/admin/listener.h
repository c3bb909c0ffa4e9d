// The socket of quarry.admin.v1. Connections are accepted here and then given to gRPC, because gRPC tells
// nobody which process is at the other end of one that it has accepted itself.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace quarry::csi::admin {

// Who made each connection, by its descriptor. Thread-safe.
class Peers {
 public:
  void Set(int fd);
  // `peer` as ServerContext::peer() has it. "pid 12, uid 0"; the pid is 0 if it is not to be seen in our PID
  // namespace. Empty: not a connection of this listener's.
  std::string Of(const std::string& peer) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::string> words_;  // at most one for each descriptor that the process may have
};

class Listener {
 public:
  // Listens with mode 0600 until destroyed; `server` and `peers` outlive it, and `server` runs as long.
  // kUnavailable if the socket could not be bound.
  static Result<std::unique_ptr<Listener>> Start(const AbsolutePath& socket, grpc::Server& server,
                                                 Peers& peers);
  // Takes no more connections, and removes the socket.
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
  std::jthread thread_;  // last: it uses the rest
};

}  // namespace quarry::csi::admin
