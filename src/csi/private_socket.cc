#include "csi/private_socket.h"

#include <fmt/format.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

namespace quarry::csi {

Result<std::unique_ptr<grpc::Server>> ServePrivately(
    const AbsolutePath& socket, const std::vector<std::shared_ptr<grpc::Service>>& services) {
  grpc::ServerBuilder builder;
  for (const auto& service : services) {
    builder.RegisterService(service.get());
  }
  builder.AddListeningPort("unix:" + socket.str(), grpc::InsecureServerCredentials());
  // bind(2) creates the socket with the mode that the umask leaves: 0600 from the first moment.
  const mode_t before = umask(0177);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  umask(before);
  if (!server) {
    return Error(Code::kUnavailable, fmt::format("cannot listen on '{}'", socket.str()));
  }
  return server;
}

}  // namespace quarry::csi
