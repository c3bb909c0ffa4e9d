#include "daemon/node_world.h"

#include <sys/stat.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/guarded_subprocess.h"
#include "daemon/late_lvm.h"
#include "dm/block_eraser.h"
#include "dm/block_raid_legs.h"
#include "dm/dm_kernel.h"
#include "lvm/fresh_lvm.h"
#include "lvm/header_pv_reader.h"
#include "lvm/lvm_config.h"
#include "lvm/lvm_spawn.h"
#include "lvm/metadata_header_reader.h"
#include "lvm/pv_links.h"
#include "lvm/zygote.h"
#include "mount/kernel_mount.h"
#include "udev/kernel_udev.h"
#include "udev/nvme_health.h"

namespace quarry::daemon {
namespace {

Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(fmt::format("making the directory '{}'", path));
  }
  return Ok();
}

// What LVM is shown. A group belongs to one quarryd of a node, so the name of its first one makes the place
// its own, should several share a state directory.
struct Places {
  explicit Places(const Options& options)
      : everything(options.state_dir + "/lvm"),
        pools(options.state_dir + "/pools"),
        own(pools + "/" + options.pools.front().group),
        pool(own + "/lvm"),
        links(own + "/pv"),
        lvm(options.lvm) {}

  std::string everything;  // LVM_SYSTEM_DIR in which all of /dev is scanned; quarryctl's too
  std::string pools;
  std::string own;
  std::string pool;   // LVM_SYSTEM_DIR in which only `links` is
  std::string links;  // to the PVs of our groups
  LvmBy lvm;
};

// A command that is no plain line goes by itself, which is as it should be. That there is no zygote is not.
void TellOfSpawn(const Logger& log, const Command& command, const Error& why) {
  log.Log(why.code() == Code::kUnsupported ? LogLevel::kDebug : LogLevel::kWarning,
          "LVM was started for a command that the zygote did not run",
          {{"command", command.argv.at(1)}, {"reason", why.message()}});
}

std::vector<std::string> GroupsOf(const Options& options) {
  std::vector<std::string> groups;
  for (const engine::PoolConfig& pool : options.pools) {
    groups.push_back(pool.group);
  }
  return groups;
}

}  // namespace

// Each may refer to those above it.
struct NodeWorld::Parts {
  Parts(const Places& places, const Options& options, const Logger& log, GuardedSubprocess::Tell observe)
      : zygote(lvm::ZygoteProgram(), subprocess,
               [&log](const Command& command, const Error& why) { TellOfSpawn(log, command, why); }),
        guarded(places.lvm == LvmBy::kZygote ? static_cast<Subprocess&>(zygote) : subprocess,
                options.stuck_limit, std::move(observe)),
        asked([this, places](const Call& call) { return MakeAsked(places, call); }),
        maker([this, places](const Call& call) -> Result<std::unique_ptr<lvm::LvmApi>> {
          return lvm::LvmSpawn::Make(subprocess, {.system_dir = places.everything}, call);
        }),
        mount(subprocess) {}

  // Runs commands that see nothing but the pools' PVs.
  Result<std::unique_ptr<lvm::LvmApi>> MakeAsked(const Places& places, const Call& call) {
    QUARRY_TRY(links->Update(call).Context("looking for the pools' disks"));
    return lvm::LvmSpawn::Make(guarded, {.system_dir = places.pool}, call);
  }

  SystemClock clock;
  SpawnSubprocess subprocess;
  lvm::ZygoteSubprocess zygote;
  GuardedSubprocess guarded;
  lvm::HeaderReader headers;
  std::unique_ptr<lvm::PvLinks> links;
  LateLvm asked;
  LateLvm maker;  // of groups: their disks are no PVs yet
  std::unique_ptr<lvm::FreshLvm> lvm;
  dm::DmKernel dm;
  dm::BlockEraser erase;
  dm::BlockRaidLegs raid_legs;
  mount::KernelMount mount;
  udev::KernelUdev udev;
  std::shared_ptr<udev::NvmeHealth> health = std::make_shared<udev::NvmeHealth>();
  lvm::HeaderPvReader pvs{headers};
};

NodeWorld::NodeWorld(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

NodeWorld::~NodeWorld() = default;

Result<std::unique_ptr<NodeWorld>> NodeWorld::Make(const Options& options, const Logger& log,
                                                   GuardedSubprocess::Tell observe) {
  const Places places(options);
  for (const std::string& path : {options.state_dir, places.pools, places.own}) {
    QUARRY_TRY(MakePrivateDirectory(path));
  }
  QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = places.everything}).Context("LVM's private configuration"));
  QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = places.pool, .scan_dirs = {places.links}})
                 .Context("LVM's private configuration"));
  auto parts = std::make_unique<Parts>(places, options, log, std::move(observe));
  QUARRY_ASSIGN(parts->links,
                lvm::PvLinks::Make(parts->headers, {.folder = places.links, .groups = GroupsOf(options)}));
  parts->lvm =
      std::make_unique<lvm::FreshLvm>(parts->asked, parts->headers, parts->links.get(), &parts->maker);
  return std::unique_ptr<NodeWorld>(new NodeWorld(std::move(parts)));
}

engine::World NodeWorld::world() {
  return {.lvm = *parts_->lvm,
          .dm = parts_->dm,
          .erase = parts_->erase,
          .mount = parts_->mount,
          .clock = parts_->clock,
          .children = &children(),
          .udev = &parts_->udev,
          .pvs = &parts_->pvs,
          .health = parts_->health,
          .raid_legs = &parts_->raid_legs};
}

udev::UdevApi& NodeWorld::udev() {
  return parts_->udev;
}

Subprocess& NodeWorld::children() {
  return parts_->guarded;
}

}  // namespace quarry::daemon
