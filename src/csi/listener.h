// A unix socket whose connections Quarry accepts and then gives to gRPC. gRPC does not report the client
// process of a connection that it accepts itself, and it cannot bind a path again that was removed.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "base/unix_socket.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace quarry::csi {

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
  // What becomes of the socket's file when the listener ends.
  enum class AtEnd { kRemove, kKeep };

  // Listens with mode 0600 until destroyed. `server` and `peers` outlive the listener, and `server` runs that
  // long. kUnavailable if the socket could not be bound.
  static Result<std::unique_ptr<Listener>> Start(const AbsolutePath& socket, grpc::Server& server,
                                                 Peers& peers, AtEnd at_end = AtEnd::kRemove);
  // Accepts no more connections.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const SocketFile& file() const { return file_; }

 private:
  Listener(AbsolutePath socket, AtEnd at_end, UniqueFd listening, UniqueFd wake, grpc::Server& server,
           Peers& peers);
  void Run(const std::stop_token& stop);

  const SocketFile file_;
  const AtEnd at_end_;
  const UniqueFd listening_, wake_;
  grpc::Server& server_;
  Peers& peers_;
  std::jthread thread_;  // last: it uses everything above
};

}  // namespace quarry::csi
