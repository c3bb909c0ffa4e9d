// versitygw's flags override its environment, so gateway.env cannot take back what is decided here.
#include "gateway/gateway_command.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>

namespace quarry::gateway {

std::vector<std::string> GatewayCommand(const std::string& versitygw, const AbsolutePath& folder) {
  const std::string& base = folder.str();
  return {
      versitygw, "--quiet",
      // Without it, a client whose PUT over TLS is refused sees a broken connection instead of the reason.
      "--keep-alive",
      // Policies alone decide. Otherwise an object's owner could give it to others.
      "--disable-acl", "--health", "/healthz", "--iam-dir", base + "/iam",
      // quarryd rewrites users.json. A cached account would outlive its revocation, or keep an old secret.
      "--iam-cache-disable",
      // Without it, the admin interface is on the port of the clients.
      "--admin-port", base + "/private/admin.sock", "--socket-perm", "0600",
      // What quarryd counts requests by. versitygw drops the reports that it cannot deliver.
      "--metrics-dogstatsd-servers", "unixgram://" + base + "/reports.sock", "--metrics-service-name",
      "quarry", "posix",
      // Each request may keep a thread that waits for a disk, and the unit has a limit of threads (TasksMax).
      "--concurrency", "1000", "--bucketlinks", base + "/root"};
}

Result<std::string> FindVersitygw(const std::string& beside, const std::string& path) {
  std::vector<std::string> folders = {beside, beside + "/../libexec/quarry"};
  std::istringstream words(path);
  for (std::string folder; std::getline(words, folder, ':');) {
    if (folder.starts_with('/')) {
      folders.push_back(folder);
    }
  }
  for (const std::string& folder : folders) {
    const std::filesystem::path program = std::filesystem::path(folder) / "versitygw";
    std::error_code ignored;
    if (std::filesystem::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0) {
      return program.lexically_normal().string();
    }
  }
  return Error(Code::kNotFound,
               "there is no versitygw, the S3 gateway: the Debian package quarry-s3-gateway has it, and "
               "scripts/gateway "
               "builds it; --versitygw names its program");
}

}  // namespace quarry::gateway
