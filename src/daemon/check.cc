#include "daemon/check.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "base/scratch_folder.h"
#include "daemon/wiring/node_world.h"
#include "engine/engine.h"

namespace quarry::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kPatience{2};

class Findings {
 public:
  void Tell(const std::string& line) { Print(line); }
  void Problem(const std::string& line) {
    ++problems_;
    Print("problem: " + line);
  }
  size_t problems() const { return problems_; }

 private:
  // A line is a line, whatever the settings contain.
  static void Print(std::string line) {
    std::ranges::replace_if(line, [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
    std::printf("%s\n", line.c_str());
  }
  size_t problems_ = 0;
};

// For LVM's private configuration, beside the state folder: that one belongs to a running quarryd.
Result<ScratchFolder> MakeScratch(const std::string& state_dir) {
  QUARRY_ASSIGN(const AbsolutePath state, AbsolutePath::Parse(state_dir));
  return ScratchFolder::Make(state.Parent().str() + "/quarryd-check-XXXXXX")
      .Context("beside the state directory");
}

// quarryd makes its state folder, and no other folder for a socket.
void CheckFolder(const std::string& setting, const AbsolutePath& socket, const Options& options,
                 Findings& findings) {
  const std::string folder = socket.Parent().str();
  if (folder != options.state_dir && !fs::is_directory(folder)) {
    findings.Problem(fmt::format("{}: there is no directory '{}': make it", setting, folder));
  }
}

void CheckFolders(const Options& options, Findings& findings) {
  const std::string above = fs::path(options.state_dir).parent_path();
  if (!fs::is_directory(above)) {
    findings.Problem(fmt::format("state-dir: there is no directory '{}': make it", above));
  }
  CheckFolder("endpoint", *options.endpoint, options, findings);
  if (options.admin_endpoint.has_value()) {
    CheckFolder("admin-endpoint", *options.admin_endpoint, options, findings);
  }
  if (options.metrics.has_value() && options.metrics->socket.has_value()) {
    CheckFolder("metrics-address", *options.metrics->socket, options, findings);
  }
  if (options.registration_socket.has_value()) {
    CheckFolder("kubelet-dir", *options.registration_socket, options, findings);
  }
}

std::string PoolLine(const engine::PoolConfig& pool) {
  std::string line = fmt::format("pool {}: volume group {}", pool.name, pool.group);
  if (pool.reserve.value > 0) {
    line += fmt::format(", reserve {}", HumanBytes(pool.reserve));
  }
  for (const auto& [type, percent] : pool.shares) {
    line += fmt::format(", {} at most {} %", lvm::TypeName(type), percent);
  }
  for (const engine::StoreConfig& store : pool.stores) {
    line += fmt::format(", thin store {} of {} ({}, chunks of {})", store.name, HumanBytes(store.size),
                        store.geometry.Describe(), HumanBytes(store.chunk));
  }
  for (const engine::DeviceRule& rule : pool.devices) {
    line += fmt::format(", devices [{}]", rule.Text());
  }
  for (const engine::DeviceRule& rule : pool.exclude) {
    line += fmt::format(", not [{}]", rule.Text());
  }
  return line;
}

// The group of a pool as LVM has it, or the disks that it would be made of.
void CheckPool(const engine::PoolConfig& pool, lvm::LvmApi& lvm,
               const std::vector<engine::DeviceReport>& disks, const Call& call, Findings& findings) {
  const auto wanted = std::ranges::count_if(
      disks, [&](const engine::DeviceReport& disk) { return disk.wanted && disk.pool == pool.name; });
  const auto group = lvm.Read(pool.group, call);
  if (group.has_value()) {
    const lvm::VolumeGroup& vg = **group;
    findings.Tell(
        fmt::format("pool {}: {} disks, {} logical volumes, {} of {} free; {} blank disks would join",
                    pool.name, vg.pvs.size(), std::ranges::count(vg.lvs, false, &lvm::LogicalVolume::hidden),
                    HumanBytes(ToBytes(vg.free_count, vg.extent_size)),
                    HumanBytes(ToBytes(vg.extent_count, vg.extent_size)), wanted));
    if (vg.MissingPvs() > 0) {
      findings.Problem(fmt::format("pool {}: {} disks of volume group {} are missing", pool.name,
                                   vg.MissingPvs(), pool.group));
    }
    if (vg.exported) {
      findings.Problem(fmt::format("pool {}: volume group {} is exported: vgimport makes it usable",
                                   pool.name, pool.group));
    }
  } else if (group.error().code() == Code::kNotFound && wanted > 0) {
    findings.Tell(fmt::format("pool {}: volume group {} would be made of {} blank disks", pool.name,
                              pool.group, wanted));
  } else if (group.error().code() == Code::kNotFound && !pool.devices.empty()) {
    findings.Problem(
        fmt::format("pool {}: there is no volume group {}, and no blank disk meets its rules: `quarryctl "
                    "devices` or `quarryctl plan` has the reason for each disk",
                    pool.name, pool.group));
  } else {
    findings.Problem(fmt::format("pool {}: {}", pool.name, group.error().message()));
  }
}

// Looks at the disks and groups as a starting quarryd does, but starts no pool.
Status CheckNode(Options options, Findings& findings) {
  QUARRY_ASSIGN(const ScratchFolder scratch, MakeScratch(options.state_dir));
  const Call call = CallWithin(kPatience);
  const Logger quiet(LogLevel::kError, LogFormat::kText);
  options.lvm = LvmBy::kSpawn;
  options.state_dir = scratch.path();
  options.memory_dir.clear();
  QUARRY_ASSIGN(const auto world, NodeWorld::Make(options, quiet, {}));
  engine::EngineConfig config = options;
  engine::Engine engine(std::move(config), world->world(), quiet);
  const auto disks = engine.disks().Devices(call);
  if (!disks.has_value()) {
    findings.Problem(fmt::format("the disks cannot be listed: {}", disks.error().message()));
  }
  for (const engine::PoolConfig& pool : options.pools) {
    CheckPool(pool, world->world().lvm, disks.value_or(std::vector<engine::DeviceReport>{}), call, findings);
  }
  return Ok();
}

}  // namespace

bool WantsCheck(const std::vector<std::string>& args) {
  return std::ranges::find(args, "--check") != args.end();
}

int Check(const std::vector<std::string>& args, const Environment& environment, const std::string& version) {
  Findings findings;
  const SettingsReport report = ReportSettings(args, environment, version);
  for (const std::string& given : report.given) {
    findings.Tell(given);
  }
  findings.Tell("every other setting has its default");
  for (const Error& problem : report.problems) {
    findings.Problem(problem.message());
  }
  if (report.options.has_value()) {
    const Options& options = *report.options;
    findings.Tell(fmt::format("node id: {}, driver: {}, endpoint: {}", options.node, options.driver_name,
                              options.endpoint->str()));
    for (const engine::PoolConfig& pool : options.pools) {
      findings.Tell(PoolLine(pool));
    }
    CheckFolders(options, findings);
    if (const Status looked = CheckNode(options, findings); !looked.has_value()) {
      findings.Problem(looked.error().message());
    }
  }
  findings.Tell(findings.problems() == 0
                    ? "no problems"
                    : fmt::format("{} problem{}", findings.problems(), findings.problems() == 1 ? "" : "s"));
  return findings.problems() == 0 ? 0 : 1;
}

}  // namespace quarry::daemon
