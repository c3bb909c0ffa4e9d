// quarry-demo: shows the life of volumes through quarryd's real socket, and makes single calls by name.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "tests/demo/call.h"
#include "tests/demo/story.h"
#include "tests/vm/kit/shell.h"

namespace quarry::demo {
namespace {

constexpr size_t kDisks = 4;

std::string System() {
  const std::string release = vm::Trim(vm::Sh(". /etc/os-release && echo \"$PRETTY_NAME\"").out);
  const std::string kernel = vm::Trim(vm::Tool({"uname", "-r"}).out);
  const std::string lvm =
      vm::Trim(vm::Sh("lvm version | sed -n 's/.*LVM version: *\\([^ (]*\\).*/\\1/p'").out);
  return fmt::format("{}, kernel {}, lvm2 {}", release, kernel, lvm);
}

int Tell(Setting setting, bool colours) {
  Narrator narrator(colours);
  if (setting.devices.empty()) {
    setting.devices = vm::DiskNodes();
  }
  if (setting.devices.size() != kDisks) {
    narrator.Failure(fmt::format("{} blank disks are needed, there are {}", kDisks, setting.devices.size()));
    return 1;
  }
  narrator.Title("Quarry: local disks as volumes, behind the Container Storage Interface",
                 fmt::format("{}; {}", setting.where, System()));
  const auto started = std::chrono::steady_clock::now();
  const bool keep = setting.keep;
  const std::string socket = setting.folder + "/csi.sock";
  const std::string log = setting.folder + "/quarryd.log";
  const std::string group = setting.group;
  {
    Story story(std::move(setting), narrator);
    const auto told = story.Tell();
    if (!told.has_value()) {
      narrator.Failure(told.error().message());
      narrator.Say("The end of quarryd's log, " + log + ":");
      fmt::print("{}\n", vm::Tool({"tail", "-n", "15", log}).out);
      return 1;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  narrator.End(fmt::format("All of it held, in {:.0f} s.", took.count()));
  if (keep) {
    narrator.Say(fmt::format(
        "quarryd is still running, on unix://{} (csi.v1). Its log is {}. For example:", socket, log));
    narrator.Command(fmt::format(
        "quarry-demo --socket {} --call Controller/GetCapacity '{{\"parameters\":{{\"type\":\"raid1\"}}}}'",
        socket));
    narrator.Command("quarry-demo --socket " + socket + " --call Controller/ListVolumes");
    narrator.Command(fmt::format("quarryctl --pool {0}={0} capacity", group));
  }
  return 0;
}

int Call(const std::string& socket, const std::string& method, const std::string& json) {
  const auto answer = CallByName(socket, method, json);
  if (!answer.has_value()) {
    fmt::print(stderr, "{}\n", answer.error().message());
    return 1;
  }
  fmt::print("{}\n", *answer);
  return 0;
}

}  // namespace
}  // namespace quarry::demo

int main(int argc, char** argv) {
  quarry::demo::Setting setting;
  bool colours = ::isatty(STDOUT_FILENO) == 1;
  std::string socket = setting.folder + "/csi.sock";
  std::string method;
  std::string json;
  CLI::App app("Shows what quarryd does, on four blank disks that it may overwrite.", "quarry-demo");
  app.add_option("--device", setting.devices,
                 "a blank disk; give it four times (default: the disks with serials quarry1 to quarry4)");
  app.add_option("--where", setting.where, "description of the machine, for the title");
  app.add_option("--group", setting.group, "name of the volume group to create");
  app.add_option("--folder", setting.folder, "folder for socket, log and mount points");
  app.add_flag("--pull", setting.vmctl,
               "pull a disk during the demo (in a guest of scripts/vmtest whose disks 1 to 4 these are)");
  app.add_flag("--keep", setting.keep, "leave quarryd running at the end");
  app.add_flag("--color", colours, "use colours for any kind of output");
  app.add_option("--call", method, "make one call instead, e.g. Controller/ListVolumes");
  app.add_option("json", json, "the call's request");
  app.add_option("--socket", socket, "socket of the quarryd to call");
  CLI11_PARSE(app, argc, argv);
  return method.empty() ? quarry::demo::Tell(std::move(setting), colours)
                        : quarry::demo::Call(socket, method, json);
}
