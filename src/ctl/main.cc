// quarryctl: the command line tool of a node's administrator.
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/path.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "base/unix_socket.h"
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

// The flags of every command.
struct Common {
  std::string config;
  std::vector<std::string> pools;
  bool json = false;
};

// Returns the text to print. `exit_status` becomes 1 if the text is complete but reports a failure.
using Run = std::function<Result<std::string>(int& exit_status)>;

// Adds the options of a command to `sub`. The returned function owns their values. `common` outlives it.
using SetUp = Run (*)(CLI::App& sub, const Common& common);

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
Result<daemon::Options> LoadOptions(const Common& common) {
  std::vector<std::string> flags = {"--endpoint", "unix:///run/quarryctl.sock", "--node-id", "quarryctl"};
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

// LVM's private configuration lies here, and the links to the disks that LVM sees. It is a folder of its own,
// beside the state folder: that belongs to quarryd, which may be running.
class OwnFolder {
 public:
  static Result<OwnFolder> Make(const std::string& state_dir) {
    QUARRY_ASSIGN(const AbsolutePath state, AbsolutePath::Parse(state_dir));
    std::string path = state.Parent().str() + "/quarryctl-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return ErrnoError(fmt::format("making the directory '{}' beside the state directory", path));
    }
    return OwnFolder(path);
  }
  ~OwnFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  OwnFolder(OwnFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  OwnFolder& operator=(OwnFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit OwnFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Looks at the disks as a starting quarryd would, but never starts the engine.
Result<std::string> RunDiskPlan(const Common& common, const std::vector<std::string>& parameters) {
  QUARRY_ASSIGN(daemon::Options options, LoadOptions(common));
  if (!parameters.empty()) {
    return Error(Code::kInvalidArgument, "--size is missing: the size of the volume to plan");
  }
  const Call call = CallWithin(kPatience);
  const Logger quiet(LogLevel::kError, LogFormat::kText);
  options.lvm = daemon::LvmBy::kSpawn;
  QUARRY_ASSIGN(const OwnFolder folder, OwnFolder::Make(options.state_dir));
  options.state_dir = folder.path();
  QUARRY_ASSIGN(const auto world, daemon::NodeWorld::Make(options, quiet, {}));
  engine::EngineConfig config;
  config.pools = options.pools;
  engine::Engine engine(std::move(config), world->world(), quiet);
  QUARRY_ASSIGN(const auto disks, engine.disks().Devices(call));
  return DiskPlan(disks, options.pools, common.json);
}

// A command that reads the groups through LVM itself.
Run ReadGroups(const Common& common,
               const std::function<Result<std::string>(const Bench&, const Call&)>& show) {
  return [&common, show](int&) -> Result<std::string> {
    QUARRY_ASSIGN(const daemon::Options options, LoadOptions(common));
    const Call call = CallWithin(kPatience);
    SpawnSubprocess subprocess;
    QUARRY_ASSIGN(const OwnFolder folder, OwnFolder::Make(options.state_dir));
    const std::string system_dir = folder.path() + "/lvm";
    QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = system_dir}));
    QUARRY_ASSIGN(const auto lvm, lvm::LvmSpawn::Make(subprocess, {.system_dir = system_dir}, call));
    dm::DmKernel dm;
    return show({*lvm, dm, options.pools, common.json}, call);
  };
}

Run SetUpCapacity(CLI::App& sub, const Common& common) {
  const auto words = std::make_shared<std::vector<std::string>>();
  sub.add_option("parameters", *words, "only this profile: KEY=VALUE…, as in a StorageClass");
  return ReadGroups(common, [words](const Bench& bench, const Call& call) -> Result<std::string> {
    QUARRY_ASSIGN(const engine::Parameters parameters, ParseParameters(*words));
    return ShowCapacity(bench, parameters, call);
  });
}

Run SetUpMap(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string colour = "auto";
    size_t width = 0;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("--width", wish->width, "width in columns [the terminal's width, else 80]");
  sub.add_option("--color,--colour", wish->colour, "auto, always or never [auto]")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  return ReadGroups(common, [wish](const Bench& bench, const Call& call) {
    return ShowMap(bench, wish->width > 0 ? wish->width : TerminalWidth(), UseColour(wish->colour), call);
  });
}

Run SetUpPlan(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string size;
    std::vector<std::string> parameters;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("--size", wish->size, "size of the volume, such as 10GiB");
  sub.add_option("parameters", wish->parameters, "KEY=VALUE…, as in a StorageClass");
  const Run show_steps =
      ReadGroups(common, [wish](const Bench& bench, const Call& call) -> Result<std::string> {
        QUARRY_ASSIGN(const engine::Parameters parameters, ParseParameters(wish->parameters));
        QUARRY_ASSIGN(const Bytes size, ParseSize(wish->size));
        return ShowPlan(bench, parameters, size, call);
      });
  return [wish, show_steps, &common](int& exit_status) {
    return wish->size.empty() ? RunDiskPlan(common, wish->parameters) : show_steps(exit_status);
  };
}

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

// Adds --endpoint. The command connects to quarryd and calls `ask`.
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

Result<std::string> AdoptOne(AdminClient& client, AdoptWish wish) {
  const size_t slash = wish.group.find('/');
  if (slash == std::string::npos) {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}': must be VOLUME-GROUP/LOGICAL-VOLUME, as in vg0/data", wish.group));
  }
  wish.lv_name = wish.group.substr(slash + 1);
  wish.group.resize(slash);
  return client.Adopt(wish, CallWithin(kPatience));
}

Run SetUpAdopt(CLI::App& sub, const Common& common) {
  struct Wish : AdoptWish {
    bool csilvm = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("VG/LV", wish->group, "the logical volume; with --csilvm the volume group")->required();
  sub.add_option("--name", wish->name, "name of the volume for the orchestrator [VG/LV]");
  sub.add_option(
      "--fs", wish->fs_type,
      "file system to create if the logical volume is blank; otherwise the file system that it must hold");
  sub.add_option("--erase", wish->erase,
                 "what happens to the bytes when the volume is deleted: zero, discard or none [zero]");
  sub.add_flag("--csilvm", wish->csilvm, "adopt all csilvm volumes of the group, under their present names")
      ->excludes("--name");
  AddDryRun(sub, wish->dry_run);
  return AskQuarryd(sub, common, [wish](AdminClient& client, int& exit_status) -> Result<std::string> {
    if (!wish->csilvm) {
      return AdoptOne(client, *wish);
    }
    QUARRY_ASSIGN(AdminClient::Bulk bulk, client.AdoptCsilvm(*wish, kPatience));
    exit_status = bulk.refused == 0 ? 0 : 1;
    return std::move(bulk.text);
  });
}

Run SetUpRelease(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string id;
    bool dry_run = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ID", wish->id, "id of the volume")->required();
  AddDryRun(sub, wish->dry_run);
  return AskQuarryd(sub, common, [wish](AdminClient& client, int&) {
    return client.Release(wish->id, wish->dry_run, CallWithin(kPatience));
  });
}

Run SetUpDevices(CLI::App& sub, const Common& common) {
  return AskQuarryd(sub, common,
                    [](AdminClient& client, int&) { return client.Devices(CallWithin(kPatience)); });
}

// Redraws the page again and again in place. If quarryd restarts in the meantime, waits for it. Returns if
// quarryd reports an error, or if nothing reads standard output any more.
Result<std::string> Watch(const Run& show) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  while (true) {
    int ignored = 0;
    auto text = show(ignored);
    if (!text.has_value() && text.error().code() != Code::kUnavailable) {
      return text;
    }
    std::cout << (terminal ? "\x1b[H\x1b[2J" : "")
              << (text.has_value() ? *text : text.error().message() + "\n");
    if (!std::cout.flush()) {
      return std::string();  // Main flushes the failed stream again: exit status 1
    }
    std::this_thread::sleep_for(kWatchInterval);
  }
}

Run SetUpStatus(CLI::App& sub, const Common& common) {
  const auto watch = std::make_shared<bool>(false);
  sub.add_flag("--watch", *watch, "refresh every 2 s until interrupted");
  const Run show = AskQuarryd(
      sub, common, [](AdminClient& client, int&) { return client.ShowStatus(CallWithin(kPatience)); });
  return [watch, show](int& exit_status) { return *watch ? Watch(show) : show(exit_status); };
}

Run SetUpRepair(CLI::App& sub, const Common& common) {
  const auto ids = std::make_shared<std::vector<std::string>>();
  sub.add_option("ID", *ids,
                 "ids of volumes to start from the legs that are present, although legs that cannot be "
                 "read may be newer; data that only those legs have is lost");
  return AskQuarryd(sub, common, [ids](AdminClient& client, int& exit_status) -> Result<std::string> {
    QUARRY_ASSIGN(AdminClient::Repaired repaired, client.Repair(*ids, CallWithin(kRepairPatience)));
    exit_status = repaired.obstacles == 0 ? 0 : 1;
    return std::move(repaired.text);
  });
}

// For evacuate and replace. `kRebuild`: RAID legs are not read from the disk.
template <bool kRebuild>
Run SetUpEvacuate(CLI::App& sub, const Common& common) {
  struct Wish : AdminClient::EvacuateWish {
    bool no_wait = false;
  };
  const auto wish = std::make_shared<Wish>();
  wish->rebuild = kRebuild;
  sub.add_option("DISK", wish->disk, "UUID of the disk's physical volume, or any path of the disk")
      ->required();
  sub.add_flag("--cancel", wish->cancel,
               "stop the evacuation and keep the disk; data that has already moved stays where it is");
  sub.add_flag("--no-wait", wish->no_wait, "do not wait until the disk is empty");
  AddDryRun(sub, wish->dry_run);
  return AskQuarryd(sub, common, [wish, &common](AdminClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(AdminClient::Evacuation evacuation, client.Evacuate(*wish, CallWithin(kPatience)));
    if (wish->cancel || wish->dry_run || wish->no_wait) {
      return std::move(evacuation.text);
    }
    std::cerr << (common.json ? "" : evacuation.text);
    QUARRY_TRY(WaitForEvacuation(client, evacuation));
    return common.json ? evacuation.text
                       : fmt::format(
                             "disk {} has left its group. It still has the label of a physical volume: "
                             "`pvremove` makes the disk blank\n",
                             evacuation.pv_uuid);
  });
}

Run SetUpScrub(CLI::App& sub, const Common& common) {
  struct Wish {
    std::vector<std::string> ids;
    bool repair = false, no_wait = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ID", wish->ids, "ids of the volumes [every RAID volume]");
  sub.add_flag("--repair", wish->repair,
               "correct differences: copies from the first leg, parity from the data");
  sub.add_flag("--no-wait", wish->no_wait, "do not wait until the scrub is done");
  return AskQuarryd(
      sub, common, [wish, &common](AdminClient& client, int& exit_status) -> Result<std::string> {
        QUARRY_ASSIGN(const AdminClient::Scrubbing scrubbing,
                      client.Scrub(wish->ids, wish->repair, CallWithin(kPatience)));
        if (!wish->no_wait) {
          return WaitForScrubs(client, scrubbing, common.json, exit_status);
        }
        const bool refused = std::ranges::any_of(
            scrubbing.volumes,
            [](const AdminClient::Scrubbing::Volume& volume) { return !volume.refusal.empty(); });
        exit_status = refused ? 1 : 0;
        return ScrubsBegun(scrubbing, common.json);
      });
}

struct Command {
  const char* name;
  const char* description;
  SetUp set_up;
};

// In the order of the help text.
constexpr auto kCommands = std::to_array<Command>({
    {"capacity", "the largest volume that each profile can get now", &SetUpCapacity},
    {"map", "the layout of each disk", &SetUpMap},
    {"plan",
     "without --size: the disks that quarryd would take; with --size: the steps to create such a volume",
     &SetUpPlan},
    {"adopt", "turn an existing logical volume into a volume of its pool, without changing its data",
     &SetUpAdopt},
    {"release", "make Quarry forget a volume; its logical volume keeps its name and data", &SetUpRelease},
    {"devices", "every disk: what it is, which pool's rule it matches, and why it is or is not in the pool",
     &SetUpDevices},
    {"status", "state of pools, disks and volumes", &SetUpStatus},
    {"repair",
     "rebuild missing RAID legs, take back returned disks and remove empty missing disks from their groups "
     "now, whatever quarryd's --repair setting is",
     &SetUpRepair},
    {"evacuate",
     "move all data off a disk while its volumes stay in use and as redundant as before, then remove the "
     "disk from its group",
     &SetUpEvacuate<false>},
    {"replace",
     "like evacuate, for a failing disk: RAID legs are rebuilt from the other legs and not read from the "
     "disk",
     &SetUpEvacuate<true>},
    {"scrub", "compare the legs of RAID volumes with each other while the volumes are in use", &SetUpScrub},
});

int Main(int argc, char** argv) {
  CLI::App app{
      "quarryctl: inspects the pools and disks of this node; makes quarryd adopt, release, repair and scrub "
      "volumes and evacuate disks",
      "quarryctl"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "quarryctl " QUARRY_VERSION);
  Common common;
  app.add_option("--config", common.config,
                 fmt::format("quarryd's configuration file [{} if it exists]", daemon::kDefaultConfig));
  app.add_option("--pool", common.pools, "pool and its volume group, NAME=VG[,reserve=SIZE]; repeatable")
      ->allow_extra_args(false);
  app.add_flag("--json", common.json, "print JSON");
  std::map<const CLI::App*, Run> runs;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->fallthrough();  // --json and --pool may come after the command too
    runs[sub] = command.set_up(*sub, common);
  }
  CLI11_PARSE(app, argc, argv);

  int exit_status = 0;
  const auto text = runs.at(app.get_subcommands().front())(exit_status);
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
