// The gRPC server of COSI: one unix socket with Identity and Provisioner of both versions. Whoever reaches
// the socket may make and delete buckets and gets keys, so only root may connect.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"
#include "bucket/bucket_api.h"
#include "csi/call_history.h"
#include "csi/edge.h"

namespace quarry::cosi {

struct ServerConfig {
  AbsolutePath socket;  // ends in ".sock"; the directory exists, and the path is free or holds a stale socket
  std::string driver_name;        // of this node alone: COSI knows no nodes
  csi::RpcObserver observe = {};  // called for every RPC, on the thread of the RPC
};

class Server {
 public:
  // Binds with mode 0600 and serves at once. Changes the umask of the process for a moment, so call it while
  // no other thread creates files. The other arguments outlive the server; `history` may be that of other
  // servers. kInvalidArgument: the driver name or the socket's name. kUnavailable: the socket could not be
  // bound.
  static Result<std::unique_ptr<Server>> Start(const ServerConfig& config, bucket::BucketApi& buckets,
                                               csi::CallHistory& history, const Logger& log);
  // Cancels the calls in flight and waits for them. Call Shutdown first to let them finish.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Refuses new calls and waits `grace` for the calls in flight. Then cancels the rest and waits until they
  // return. Removes the socket.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quarry::cosi
