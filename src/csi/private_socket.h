// A gRPC server on a unix socket that only this process's user may connect to.
#pragma once

#include <memory>
#include <vector>

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>

#include "base/path.h"
#include "base/result.h"

namespace quarry::csi {

// The socket has mode 0600 from its first moment, and serves at once. Changes the umask of the process for a
// moment, so call it while no other thread creates files. kUnavailable: the socket could not be bound.
Result<std::unique_ptr<grpc::Server>> ServePrivately(
    const AbsolutePath& socket, const std::vector<std::shared_ptr<grpc::Service>>& services);

}  // namespace quarry::csi
