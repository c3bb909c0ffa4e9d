// slrp_sim: one provider of one generation of Mesos against a running plugin. Exit status 0 without
// violations, 1 with violations, 2 for bad arguments.
#include <cstdlib>
#include <iostream>

#include <CLI/CLI.hpp>

#include "tests/slrp/scenario.h"

namespace {

using namespace quarry;

struct Arguments {
  std::string generation = "1.8";
  std::string socket, profiles, provider, books, mount_root = "/tmp/slrp-mounts", prefix = "slrp",
                                                 half = "both", kill;
  std::vector<std::string> only, adopt;
  slrp::Scenario scenario;
  double time_scale = 1;
};

int Refuse(const std::string& why) {
  std::cerr << "slrp_sim: " << why << '\n';
  return 2;
}

Result<std::vector<slrp::Profile>> ReadProfiles(const Arguments& arguments) {
  QUARRY_ASSIGN(const std::string text, slrp::ReadFile(arguments.profiles));
  QUARRY_ASSIGN(std::vector<slrp::Profile> profiles, slrp::ParseProfiles(text));
  std::string plugin_type;
  if (!arguments.provider.empty()) {
    QUARRY_ASSIGN(const std::string provider, slrp::ReadFile(arguments.provider));
    QUARRY_ASSIGN(const slrp::ProviderConfig config, slrp::ParseProvider(provider));
    plugin_type = config.plugin_type;
  }
  // The agent selects profiles by plugin type. --profile selects further.
  std::erase_if(profiles, [&](const slrp::Profile& profile) {
    const auto& only = arguments.only;
    return (!plugin_type.empty() && profile.plugin_type != plugin_type) ||
           (!only.empty() && std::find(only.begin(), only.end(), profile.name) == only.end());
  });
  if (profiles.empty()) {
    return Error(Code::kInvalidArgument, "no profile is left to use");
  }
  return profiles;
}

int Run(Arguments arguments) {
  const slrp::Generation* generation = slrp::FindGeneration(arguments.generation);
  if (generation == nullptr) {
    return Refuse("--generation: there are 1.5, 1.6, 1.7, 1.8, 1.9, 1.10 and 1.11");
  }
  auto profiles = ReadProfiles(arguments);
  if (!profiles.has_value()) {
    return Refuse(profiles.error().message());
  }
  slrp::Books books;
  if (arguments.half == "after") {
    auto loaded = slrp::Books::Load(arguments.books);
    if (!loaded.has_value()) {
      return Refuse(loaded.error().message());
    }
    books = std::move(*loaded);
  }
  if (!arguments.kill.empty()) {
    arguments.scenario.kill = [&] { (void)std::system(arguments.kill.c_str()); };
  }
  for (const std::string& pair : arguments.adopt) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) {
      return Refuse("--adopt: ID=PROFILE");
    }
    arguments.scenario.adopt.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  slrp::Report report;
  slrp::ProviderOptions options;
  options.generation = *generation;
  options.socket = arguments.socket;
  options.mount_root = arguments.mount_root;
  options.prefix = arguments.prefix;
  options.profiles = std::move(*profiles);
  options.time_scale = arguments.time_scale;
  slrp::Provider provider(std::move(options), books, report);
  if (arguments.half != "after") {
    slrp::BeforeReboot(provider, books, arguments.scenario);
  }
  if (arguments.half != "before") {
    slrp::AfterReboot(provider, books, arguments.scenario);
  }
  std::cout << "Mesos " << arguments.generation << ", " << arguments.half << ": " << report.Text();
  if (!arguments.books.empty()) {
    if (const auto saved = books.Save(arguments.books); !saved.has_value()) {
      return Refuse(saved.error().message());
    }
  }
  return report.violations().empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Plays the storage local resource provider of a Mesos agent against a CSI plugin."};
  app.add_option("--generation", arguments.generation, "1.5, 1.6, 1.7 or 1.8 (1.9, 1.10, 1.11)");
  app.add_option("--socket", arguments.socket, "path of the plugin's socket")->required();
  app.add_option("--profiles", arguments.profiles, "profile_matrix JSON")->required();
  app.add_option("--provider", arguments.provider, "provider JSON; uses only profiles for its plugin type");
  app.add_option("--profile", arguments.only, "only these profiles");
  app.add_option("--half", arguments.half, "half of the scenario; the reboot is between the halves")
      ->check(CLI::IsMember({"before", "after", "both"}));
  app.add_option("--books", arguments.books, "file for the checkpoints; --half after reads it first");
  app.add_option("--mount-root", arguments.mount_root, "target paths are below it");
  app.add_option("--prefix", arguments.prefix, "prefix of volume names");
  app.add_option("--disks", arguments.scenario.disks, "number of disks to make");
  app.add_option("--published", arguments.scenario.published, "number of disks to publish");
  app.add_option("--destroyed", arguments.scenario.destroyed,
                 "number of disks to destroy at the end (default: all)")
      ->each([&](const std::string&) { arguments.scenario.leave_nothing = false; });
  app.add_option("--size", arguments.scenario.size, "size of a disk, in bytes")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--at-once", arguments.scenario.at_once, "number of disk operations at a time");
  app.add_option("--adopt", arguments.adopt, "ID=PROFILE of a pre-existing volume");
  app.add_option("--kill", arguments.kill, "shell command that kills the plugin and starts it again");
  app.add_option("--time-scale", arguments.time_scale, "multiplies deadlines, for emulated machines")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return Run(std::move(arguments));
}
