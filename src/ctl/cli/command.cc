#include "ctl/cli/command.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/path.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "daemon/settings/values.h"
#include "dm/dm_kernel.h"
#include "lvm/run/lvm_config.h"
#include "lvm/run/lvm_spawn.h"

namespace quarry::ctl {
namespace {

constexpr const char* kUsualEndpoint = "unix:///run/quarry/admin.sock";
constexpr const char* kUsualCsiEndpoint = "unix:///run/quarry/csi.sock";

bool IsServed(const AbsolutePath& path) {
  const auto address = UnixAddress(path);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return address.has_value() &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0;
}

// Earlier builds of quarryd have no admin socket and answer on their CSI socket. Later builds do not.
Result<AbsolutePath> SocketToAsk(const std::string& endpoint) {
  if (!endpoint.empty()) {
    return daemon::ParseEndpoint(endpoint).Context("--endpoint");
  }
  QUARRY_ASSIGN(AbsolutePath usual, daemon::ParseEndpoint(kUsualEndpoint));
  if (IsServed(usual)) {
    return usual;
  }
  const char* const said = getenv("CSI_ENDPOINT");  // NOLINT(concurrency-mt-unsafe): no other thread here
  const auto csi = daemon::ParseEndpoint(said != nullptr ? said : kUsualCsiEndpoint);
  if (!csi.has_value() || !IsServed(*csi)) {
    return usual;
  }
  std::cerr << fmt::format("quarryctl: no quarryd answers on {}; trying {}, which an older quarryd serves\n",
                           usual.str(), csi->str());
  return *csi;
}

}  // namespace

Result<engine::Parameters> ParseParameters(const std::vector<std::string>& words) {
  engine::Parameters parameters;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return Error(Code::kInvalidArgument,
                   fmt::format("'{}': a parameter must be KEY=VALUE, as in type=raid1", word));
    }
    parameters[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return parameters;
}

Result<daemon::Options> LoadOptions(const Common& common, bool own_node) {
  std::vector<std::string> flags = {"--endpoint", "unix:///run/quarryctl.sock"};
  if (!own_node) {
    flags.insert(flags.end(), {"--node-id", "quarryctl"});
  }
  for (const std::string& pool : common.pools) {
    flags.insert(flags.end(), {"--pool", pool});
  }
  if (!common.config.empty()) {
    flags.insert(flags.end(), {"--config", common.config});
  }
  daemon::Environment environment;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  QUARRY_ASSIGN(daemon::Loaded loaded, daemon::Load(flags, environment, QUARRY_VERSION));
  return std::move(loaded.options);
}

Result<ScratchFolder> MakeOwnFolder(const std::string& state_dir) {
  QUARRY_ASSIGN(const AbsolutePath state, AbsolutePath::Parse(state_dir));
  return ScratchFolder::Make(state.Parent().str() + "/quarryctl-XXXXXX")
      .Context("beside the state directory");
}

Run ReadGroups(const Common& common,
               const std::function<Result<std::string>(const Bench&, const Call&)>& show) {
  return [&common, show](int&) -> Result<std::string> {
    QUARRY_ASSIGN(const daemon::Options options, LoadOptions(common));
    const Call call = CallWithin(kPatience);
    SpawnSubprocess subprocess;
    QUARRY_ASSIGN(const ScratchFolder folder, MakeOwnFolder(options.state_dir));
    const std::string system_dir = folder.path() + "/lvm";
    QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = system_dir}));
    QUARRY_ASSIGN(const auto lvm, lvm::LvmSpawn::Make(subprocess, {.system_dir = system_dir}, call));
    dm::DmKernel dm;
    return show({*lvm, dm, options.pools, common.json}, call);
  };
}

Run AskQuarryd(CLI::App& sub, const Common& common,
               const std::function<Result<std::string>(AdminClient&, int& exit_status)>& ask) {
  const auto endpoint = std::make_shared<std::string>();  // empty: quarryd's default socket
  sub.add_option("--endpoint", *endpoint, fmt::format("quarryd's --admin-endpoint [{}]", kUsualEndpoint))
      ->envname("QUARRY_ADMIN_ENDPOINT");
  return [endpoint, &common, ask](int& exit_status) -> Result<std::string> {
    QUARRY_ASSIGN(const AbsolutePath socket, SocketToAsk(*endpoint));
    AdminClient client(socket, common.json);
    return ask(client, exit_status);
  };
}

void AddDryRun(CLI::App& sub, bool& dry_run) {
  sub.add_flag("--dry-run", dry_run, "check everything, change nothing");
}

}  // namespace quarry::ctl
