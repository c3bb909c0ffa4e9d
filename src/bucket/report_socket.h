// The socket on which the gateway reports its requests.
#pragma once

#include <functional>
#include <stop_token>
#include <string_view>

#include "base/path.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "bucket/files.h"

namespace quarry::bucket {

// A unix socket of datagrams at `path` that only `sender`, and root, may send to. Replaces a socket of an
// earlier process in one step, so that the gateway always finds one. The folder must be one that no other
// user can change. kInvalidArgument: the path is too long for a socket.
Result<UniqueFd> MakeReportSocket(const AbsolutePath& path, Owner sender);

// Calls `take` with each line of each datagram, in this thread, until `stop` is requested. Then the socket
// receives nothing any more. Datagrams that are larger than those of the gateway are dropped.
void ReceiveReports(int socket, const std::stop_token& stop,
                    const std::function<void(std::string_view line)>& take);

}  // namespace quarry::bucket
