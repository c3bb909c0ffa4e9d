// check.
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/path.h"
#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "ctl/check.h"
#include "ctl/cli/tables.h"

namespace quarry::ctl {
namespace {

constexpr const char* kWarning = "10%";
constexpr const char* kCritical = "5%";
// Monitoring systems give a plugin a minute at most.
constexpr uint32_t kPatienceSeconds = 20;
constexpr uint32_t kMostSeconds = 3600;

struct Wish {
  std::vector<std::string> warning, critical;
  uint32_t timeout = kPatienceSeconds;
};

// gRPC does not say why it cannot connect.
bool IsPermitted(const AbsolutePath& socket_path) {
  const auto address = UnixAddress(socket_path);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return !address.has_value() ||
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 ||
         (errno != EACCES && errno != EPERM);
}

Result<CheckReport> Ask(AdminClient& client, const Wish& wish) {
  CheckLimits limits;
  QUARRY_ASSIGN(limits.warning, FreeLimits::Parse(wish.warning, kWarning).Context("--warning"));
  QUARRY_ASSIGN(limits.critical, FreeLimits::Parse(wish.critical, kCritical).Context("--critical"));
  return client.Check(limits, CallWithin(std::chrono::seconds(wish.timeout)));
}

Run SetUpCheck(CLI::App& sub, const Common& common) {
  const auto wish = std::make_shared<Wish>();
  sub.add_option("-w,--warning", wish->warning,
                 fmt::format("warn if a pool has less free space than this: a size, a percentage, or "
                             "POOL=SIZE for one pool; repeatable; 0 for never [{}]",
                             kWarning))
      ->allow_extra_args(false);
  sub.add_option("-c,--critical", wish->critical,
                 fmt::format("the same for the status CRITICAL [{}]", kCritical))
      ->allow_extra_args(false);
  sub.add_option("-t,--timeout", wish->timeout,
                 fmt::format("seconds to wait for quarryd's answer [{}]", kPatienceSeconds))
      ->check(CLI::Range(1U, kMostSeconds));
  sub.footer(
      "Exit status: 0 OK, 1 WARNING, 2 CRITICAL (also if quarryd does not answer), 3 UNKNOWN.\n"
      "Example: quarryctl check --warning 20% --critical fast=50GiB");
  return AskQuarryd(sub, common, [wish, &common](AdminClient& client, int& exit_status) {
    const auto asked = Ask(client, *wish);
    const CheckReport report =
        asked.has_value() ? *asked : CheckFailed(asked.error(), IsPermitted(client.socket()));
    exit_status = static_cast<int>(report.status);
    return Result<std::string>(common.json ? CheckJson(report) : CheckText(report));
  });
}

}  // namespace

std::vector<Command> MonitoringCommands() {
  return {
      {kCheckCommand,
       "whether the node is well, in one line, with the exit status of a monitoring plugin (Nagios, Icinga)",
       &SetUpCheck},
  };
}

}  // namespace quarry::ctl
