// capacity, map, plan, devices, status.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>

#include "base/units.h"
#include "ctl/cli/tables.h"
#include "daemon/wiring/node_world.h"

namespace quarry::ctl {
namespace {

constexpr std::chrono::seconds kWatchInterval{2};

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

// Looks at the disks as a starting quarryd would, but never starts the engine.
Result<std::string> RunDiskPlan(const Common& common, const std::vector<std::string>& parameters) {
  QUARRY_ASSIGN(daemon::Options options, LoadOptions(common));
  if (!parameters.empty()) {
    return Error(Code::kInvalidArgument, "--size is missing: the size of the volume to plan");
  }
  const Call call = CallWithin(kPatience);
  const Logger quiet(LogLevel::kError, LogFormat::kText);
  options.lvm = daemon::LvmBy::kSpawn;
  QUARRY_ASSIGN(const ScratchFolder folder, MakeOwnFolder(options.state_dir));
  options.state_dir = folder.path();
  QUARRY_ASSIGN(const auto world, daemon::NodeWorld::Make(options, quiet, {}));
  engine::EngineConfig config;
  config.pools = options.pools;
  engine::Engine engine(std::move(config), world->world(), quiet);
  QUARRY_ASSIGN(const auto disks, engine.disks().Devices(call));
  return DiskPlan(disks, options.pools, common.json);
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

}  // namespace

std::vector<Command> PoolCommands() {
  return {
      {"capacity", "the largest volume that each profile can get now", &SetUpCapacity},
      {"map", "the layout of each disk", &SetUpMap},
      {"plan",
       "without --size: the disks that quarryd would take; with --size: the steps to create such a volume",
       &SetUpPlan},
      {"devices", "every disk: what it is, which pool's rule it matches, and why it is or is not in the pool",
       &SetUpDevices},
      {"status", "state of pools, disks and volumes", &SetUpStatus},
  };
}

}  // namespace quarry::ctl
