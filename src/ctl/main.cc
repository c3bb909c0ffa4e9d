// quarryctl: the command line tool of a node's administrator.
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/sizes.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "ctl/admin.h"
#include "ctl/commands.h"
#include "ctl/waiting.h"
#include "daemon/settings/options.h"
#include "daemon/settings/values.h"
#include "daemon/wiring/node_world.h"
#include "dm/dm_kernel.h"
#include "lvm/run/lvm_config.h"
#include "lvm/run/lvm_spawn.h"

namespace quarry::ctl {
namespace {

constexpr std::chrono::milliseconds kPatience{120000};
// Each leg to rebuild takes several LVM commands. The command does not wait for the rebuild itself.
constexpr std::chrono::milliseconds kRepairPatience{1800000};
constexpr std::chrono::seconds kWatchInterval{2};
constexpr const char* kUsualEndpoint = "unix:///run/quarry/admin.sock";
constexpr const char* kUsualCsiEndpoint = "unix:///run/quarry/csi.sock";

struct Arguments {
  std::string config;
  std::vector<std::string> pools;
  std::vector<std::string> parameters;
  std::string size;
  std::string colour = "auto";
  size_t width = 0;
  bool json = false;
  // For the commands that quarryd carries out.
  std::string endpoint;  // empty: quarryd's default socket
  std::string object;    // VG/LV, VG or a volume id
  std::string name, fs_type, erase;
  bool csilvm = false, dry_run = false;
  bool cancel = false, no_wait = false;
  std::vector<std::string> ids;
  bool repair = false;
  bool watch = false;
};

size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return 80;
}

bool UseColour(const std::string& wish) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread here
  return wish == "always" || (wish == "auto" && isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nullptr);
}

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

// The pools as quarryd would see them, from flags, environment and file. Settings that only a server needs
// are filled in.
Result<daemon::Options> LoadOptions(const Arguments& arguments) {
  std::vector<std::string> flags = {"--endpoint", "unix:///run/quarryctl.sock", "--node-id", "quarryctl"};
  for (const std::string& pool : arguments.pools) {
    flags.insert(flags.end(), {"--pool", pool});
  }
  if (!arguments.config.empty()) {
    flags.insert(flags.end(), {"--config", arguments.config});
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

// Looks as a starting quarryd would. The engine is never started.
Result<std::string> RunDiskPlan(daemon::Options options, bool json, const Call& call) {
  const Logger quiet(LogLevel::kError, LogFormat::kText);
  options.lvm = daemon::LvmBy::kSpawn;
  QUARRY_ASSIGN(const auto world, daemon::NodeWorld::Make(options, quiet, {}));
  engine::EngineConfig config;
  config.pools = options.pools;
  engine::Engine engine(std::move(config), world->world(), quiet);
  QUARRY_ASSIGN(const auto disks, engine.disks().Devices(call));
  return DiskPlan(disks, options.pools, json);
}

Result<std::string> RunCommand(const std::string& name, const Arguments& arguments) {
  QUARRY_ASSIGN(const daemon::Options options, LoadOptions(arguments));
  const Call call = CallWithin(kPatience);
  if (name == "plan" && arguments.size.empty()) {
    if (!arguments.parameters.empty()) {
      return Error(Code::kInvalidArgument, "--size is missing: the size of the volume to plan");
    }
    return RunDiskPlan(options, arguments.json, call);
  }
  SpawnSubprocess subprocess;
  const std::string system_dir = options.state_dir + "/lvm";
  QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = system_dir}));
  QUARRY_ASSIGN(const auto lvm, lvm::LvmSpawn::Make(subprocess, {.system_dir = system_dir}, call));
  dm::DmKernel dm;
  const Bench bench{*lvm, dm, options.pools, arguments.json};
  QUARRY_ASSIGN(const engine::Parameters parameters, ParseParameters(arguments.parameters));
  const ProfileWish wish{parameters, arguments.size};
  if (name == "map") {
    return ShowMap(bench, arguments.width > 0 ? arguments.width : TerminalWidth(),
                   UseColour(arguments.colour), call);
  }
  if (name == "plan") {
    QUARRY_ASSIGN(const Bytes size, ParseSize(arguments.size));
    return ShowPlan(bench, wish, size, call);
  }
  return ShowCapacity(bench, wish, call);
}

Result<std::string> RunAdopt(AdminClient& client, const Arguments& arguments, int& exit_status) {
  const Call call = CallWithin(kPatience);
  AdoptWish wish{.group = arguments.object,
                 .lv_name = "",
                 .name = arguments.name,
                 .fs_type = arguments.fs_type,
                 .erase = arguments.erase,
                 .dry_run = arguments.dry_run};
  if (arguments.csilvm) {
    QUARRY_ASSIGN(const AdminClient::Bulk bulk, client.AdoptCsilvm(wish, kPatience));
    exit_status = bulk.refused == 0 ? 0 : 1;
    return bulk.text;
  }
  const size_t slash = arguments.object.find('/');
  if (slash == std::string::npos) {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}': must be VOLUME-GROUP/LOGICAL-VOLUME, as in vg0/data", arguments.object));
  }
  wish.group = arguments.object.substr(0, slash);
  wish.lv_name = arguments.object.substr(slash + 1);
  return client.Adopt(wish, call);
}

Result<std::string> RunEvacuate(AdminClient& client, bool rebuild, const Arguments& arguments) {
  QUARRY_ASSIGN(const AdminClient::Evacuation evacuation, client.Evacuate({.disk = arguments.object,
                                                                           .rebuild = rebuild,
                                                                           .cancel = arguments.cancel,
                                                                           .dry_run = arguments.dry_run},
                                                                          CallWithin(kPatience)));
  if (arguments.cancel || arguments.dry_run || arguments.no_wait) {
    return evacuation.text;
  }
  std::cerr << (arguments.json ? "" : evacuation.text);
  QUARRY_TRY(WaitForEvacuation(client, evacuation));
  return arguments.json ? evacuation.text
                        : fmt::format(
                              "disk {} has left its group. It still has the label of a physical volume: "
                              "`pvremove` makes the disk blank\n",
                              evacuation.pv_uuid);
}

Result<std::string> RunScrub(AdminClient& client, const Arguments& arguments, int& exit_status) {
  QUARRY_ASSIGN(const AdminClient::Scrubbing scrubbing,
                client.Scrub(arguments.ids, arguments.repair, CallWithin(kPatience)));
  if (!arguments.no_wait) {
    return WaitForScrubs(client, scrubbing, arguments.json, exit_status);
  }
  const bool refused = std::ranges::any_of(
      scrubbing.volumes,
      [](const AdminClient::Scrubbing::Volume& volume) { return !volume.refusal.empty(); });
  exit_status = refused ? 1 : 0;
  return ScrubsBegun(scrubbing, arguments.json);
}

bool IsServed(const AbsolutePath& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.str().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// A quarryd from before the admin socket answers on its CSI socket. A current one does not.
Result<AbsolutePath> SocketToAsk(const Arguments& arguments) {
  if (!arguments.endpoint.empty()) {
    return daemon::ParseEndpoint(arguments.endpoint).Context("--endpoint");
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

// Requests that quarryd carries out. `exit_status` becomes 1 if the output is complete but reports a failure.
Result<std::string> RunRequest(const std::string& name, const Arguments& arguments, int& exit_status) {
  QUARRY_ASSIGN(const AbsolutePath socket, SocketToAsk(arguments));
  AdminClient client(socket, arguments.json);
  if (name == "devices") {
    return client.Devices(CallWithin(kPatience));
  }
  if (name == "status") {
    return client.ShowStatus(CallWithin(kPatience));
  }
  if (name == "repair") {
    QUARRY_ASSIGN(AdminClient::Repaired repaired, client.Repair(arguments.ids, CallWithin(kRepairPatience)));
    exit_status = repaired.obstacles == 0 ? 0 : 1;
    return std::move(repaired.text);
  }
  if (name == "evacuate" || name == "replace") {
    return RunEvacuate(client, name == "replace", arguments);
  }
  if (name == "scrub") {
    return RunScrub(client, arguments, exit_status);
  }
  return name == "adopt" ? RunAdopt(client, arguments, exit_status)
                         : client.Release(arguments.object, arguments.dry_run, CallWithin(kPatience));
}

void AddRequests(CLI::App& app, Arguments& arguments) {
  CLI::App* adopt = app.add_subcommand(
      "adopt", "turn an existing logical volume into a volume of its pool, without changing its data");
  adopt->add_option("VG/LV", arguments.object, "the logical volume; with --csilvm the volume group")
      ->required();
  adopt->add_option("--name", arguments.name, "name of the volume for the orchestrator [VG/LV]");
  adopt->add_option(
      "--fs", arguments.fs_type,
      "file system to create if the logical volume is blank; otherwise the file system that it must hold");
  adopt->add_option("--erase", arguments.erase,
                    "what happens to the bytes when the volume is deleted: zero, discard or none [zero]");
  adopt
      ->add_flag("--csilvm", arguments.csilvm,
                 "adopt all csilvm volumes of the group, under their present names")
      ->excludes("--name");
  CLI::App* release = app.add_subcommand(
      "release", "make Quarry forget a volume; its logical volume keeps its name and data");
  release->add_option("ID", arguments.object, "id of the volume")->required();
  CLI::App* devices = app.add_subcommand(
      "devices", "every disk: what it is, which pool's rule it matches, and why it is or is not in the pool");
  CLI::App* status = app.add_subcommand("status", "state of pools, disks and volumes");
  status->add_flag("--watch", arguments.watch, "refresh every 2 s until interrupted");
  CLI::App* repair = app.add_subcommand(
      "repair",
      "rebuild lost RAID legs, take back returned disks and reduce groups now, whatever the repair policy");
  repair->add_option("ID", arguments.ids,
                     "ids of volumes to start from the legs that are present, although legs that cannot be "
                     "read may be newer; data that only those legs have is lost");
  CLI::App* evacuate = app.add_subcommand("evacuate",
                                          "move all data off a disk while its volumes stay in use and as "
                                          "redundant as before, then remove the disk from its group");
  CLI::App* replace = app.add_subcommand("replace",
                                         "like evacuate, for a failing disk: RAID legs are rebuilt from the "
                                         "other legs and not read from the disk");
  for (CLI::App* sub : {evacuate, replace}) {
    sub->add_option("DISK", arguments.object, "UUID of the disk's physical volume, or any path of the disk")
        ->required();
    sub->add_flag("--cancel", arguments.cancel,
                  "stop the evacuation and keep the disk; data that has already moved stays where it is");
    sub->add_flag("--no-wait", arguments.no_wait, "do not wait until the disk is empty");
  }
  CLI::App* scrub = app.add_subcommand(
      "scrub", "compare the legs of RAID volumes with each other while the volumes are in use");
  scrub->add_option("ID", arguments.ids, "ids of the volumes [every RAID volume]");
  scrub->add_flag("--repair", arguments.repair,
                  "correct differences: copies from the first leg, parity from the data");
  scrub->add_flag("--no-wait", arguments.no_wait, "do not wait until the scrub is done");
  for (CLI::App* sub : {adopt, release, evacuate, replace}) {
    sub->add_flag("--dry-run", arguments.dry_run, "check everything, change nothing");
  }
  for (CLI::App* sub : {adopt, release, devices, status, repair, evacuate, replace, scrub}) {
    sub->add_option("--endpoint", arguments.endpoint,
                    fmt::format("quarryd's --admin-endpoint [{}]", kUsualEndpoint))
        ->envname("QUARRY_ADMIN_ENDPOINT");
    sub->fallthrough();
  }
}

bool IsRequest(const std::string& name) {
  constexpr auto kRequests = std::to_array<std::string_view>(
      {"adopt", "release", "devices", "status", "repair", "evacuate", "replace", "scrub"});
  return std::ranges::find(kRequests, name) != kRequests.end();
}

// Redraws the page again and again in place. If quarryd restarts in the meantime, waits for it.
int Watch(const Arguments& arguments) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  while (true) {
    int ignored = 0;
    const auto text = RunRequest("status", arguments, ignored);
    if (!text.has_value() && text.error().code() != Code::kUnavailable) {
      std::cerr << "quarryctl: " << text.error().message() << '\n';
      return text.error().code() == Code::kInvalidArgument ? 2 : 1;
    }
    std::cout << (terminal ? "\x1b[H\x1b[2J" : "")
              << (text.has_value() ? *text : text.error().message() + "\n");
    if (!std::cout.flush()) {
      return 1;
    }
    std::this_thread::sleep_for(kWatchInterval);
  }
}

int Main(int argc, char** argv) {
  CLI::App app{
      "quarryctl: inspects the pools and disks of this node; makes quarryd adopt, release, repair and scrub "
      "volumes and evacuate disks",
      "quarryctl"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "quarryctl " QUARRY_VERSION);
  Arguments arguments;
  app.add_option("--config", arguments.config,
                 fmt::format("quarryd's configuration file [{} if it exists]", daemon::kDefaultConfig));
  app.add_option("--pool", arguments.pools, "pool and its volume group, NAME=VG[,reserve=SIZE]; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--json", arguments.json, "print JSON");

  CLI::App* capacity = app.add_subcommand("capacity", "the largest volume that each profile can get now");
  capacity->add_option("parameters", arguments.parameters,
                       "only this profile: KEY=VALUE…, as in a StorageClass");
  CLI::App* map = app.add_subcommand("map", "the layout of each disk");
  map->add_option("--width", arguments.width, "width in columns [the terminal's width, else 80]");
  map->add_option("--color,--colour", arguments.colour, "auto, always or never [auto]")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  CLI::App* plan = app.add_subcommand(
      "plan",
      "without --size: the disks that quarryd would take; with --size: the steps to create such a volume");
  plan->add_option("--size", arguments.size, "size of the volume, such as 10GiB");
  plan->add_option("parameters", arguments.parameters, "KEY=VALUE…, as in a StorageClass");
  for (CLI::App* sub : {capacity, map, plan}) {
    sub->fallthrough();  // --json and --pool may come after the command too
  }
  AddRequests(app, arguments);
  CLI11_PARSE(app, argc, argv);

  const std::string name = app.get_subcommands().front()->get_name();
  int exit_status = 0;
  if (arguments.watch) {
    return Watch(arguments);
  }
  const auto text = IsRequest(name) ? RunRequest(name, arguments, exit_status) : RunCommand(name, arguments);
  if (!text.has_value()) {
    std::cerr << "quarryctl: " << text.error().message() << '\n';
    return text.error().code() == Code::kInvalidArgument ? 2 : 1;
  }
  std::cout << *text;
  return std::cout.flush() ? exit_status : 1;
}

}  // namespace
}  // namespace quarry::ctl

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return quarry::ctl::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "quarryctl: " << error.what() << '\n';
    return 1;
  }
}
