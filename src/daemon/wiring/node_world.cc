#include "daemon/wiring/node_world.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/guarded_subprocess.h"
#include "daemon/locking/node_lock.h"
#include "daemon/wiring/late_lvm.h"
#include "daemon/wiring/lvm_by_group.h"
#include "dm/block_eraser.h"
#include "dm/block_raid_legs.h"
#include "dm/dm_kernel.h"
#include "lvm/fresh/fresh_lvm.h"
#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/fresh/pv_links.h"
#include "lvm/run/lvm_config.h"
#include "lvm/run/lvm_spawn.h"
#include "lvm/run/zygote.h"
#include "mount/kernel_mount.h"
#include "thin/pool_reader.h"
#include "thin/repair_tools.h"
#include "udev/kernel_udev.h"
#include "udev/nvme_health.h"
#include "udev/smart_health.h"

namespace quarry::daemon {
namespace {

Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(fmt::format("making the directory '{}'", path));
  }
  return Ok();
}

// What LVM sees of one group. A group belongs to one quarryd per node. Its name therefore makes these folders
// unique even if several quarryd share a state directory.
struct Places {
  Places(const Options& options, const std::string& of)
      : group(of), own(PoolsFolder(options) + "/" + of), pool(own + "/lvm"), links(own + "/pv") {}

  std::string group;
  std::string own;
  std::string pool;   // an LVM_SYSTEM_DIR that scans only `links`
  std::string links;  // links to the PVs of the group
};

// An LVM_SYSTEM_DIR that scans all of /dev. quarryctl uses it too.
std::string PlaceOfEverything(const Options& options) {
  return options.state_dir + "/lvm";
}

// A command that the zygote does not support is started as a process, as intended (debug). A missing zygote
// is a fault (warning).
void TellOfSpawn(const Logger& log, const Command& command, const Error& why) {
  log.Log(why.code() == Code::kUnsupported ? LogLevel::kDebug : LogLevel::kWarning,
          "LVM was started as a process for a command that the zygote did not run",
          {{"command", command.argv.at(1)}, {"reason", why.message()}});
}

// LVM for one group. It sees the disks of no other group, and waits for none of them. Each member may refer
// to those above it.
struct PoolLvm {
  PoolLvm(const Places& places, const std::string& everything, const Options& options, const Logger& log,
          lvm::HeaderReader& headers, std::unique_ptr<lvm::PvLinks> pv_links, GuardedSubprocess::Tell observe,
          lvm::GroupLocks* group_locks)
      : locks(group_locks),
        zygote(lvm::ZygoteProgram(), subprocess,
               [&log](const Command& command, const Error& why) { TellOfSpawn(log, command, why); }),
        guarded(options.lvm == LvmBy::kZygote ? static_cast<Subprocess&>(zygote) : subprocess,
                options.stuck_limit, std::move(observe)),
        links(std::move(pv_links)),
        asked([this, places](const Call& call) { return MakeAsked(places, call); }),
        maker([this, everything](const Call& call) -> Result<std::unique_ptr<lvm::LvmApi>> {
          return lvm::LvmSpawn::Make(subprocess, {.system_dir = everything, .locks = locks}, call);
        }),
        fresh(asked, headers, links.get(), &maker, group_locks) {}

  // Makes an LVM that sees nothing but the group's PVs. The links are not changed while another process uses
  // them. That process may be an earlier build, which holds the group's lock by name, or a quarryd with
  // another /run.
  Result<std::unique_ptr<lvm::LvmApi>> MakeAsked(const Places& places, const Call& call) {
    if (locks != nullptr) {
      QUARRY_TRY(locks->ClaimName(places.group));
      if (!folder.has_value()) {
        QUARRY_ASSIGN(
            NodeLock lock,
            NodeLock::TakeFolder(places.own,
                                 fmt::format("volume group '{}' belongs to another quarryd", places.group)));
        folder.emplace(std::move(lock));
      }
    }
    QUARRY_TRY(links->Update(call).Context("looking for the pool's disks"));
    return lvm::LvmSpawn::Make(guarded,
                               {.system_dir = places.pool,
                                .locks = locks,
                                .uuid_of = [this](const std::string& group) { return links->UuidOf(group); }},
                               call);
  }

  lvm::GroupLocks* const locks;
  // Locks the folder of the links. Only MakeAsked uses it, and `asked` calls that under its mutex.
  std::optional<NodeLock> folder;
  SpawnSubprocess subprocess;
  lvm::ZygoteSubprocess zygote;
  GuardedSubprocess guarded;
  std::unique_ptr<lvm::PvLinks> links;
  LateLvm asked;
  LateLvm maker;  // creates the group, whose disks are not PVs yet
  lvm::FreshLvm fresh;
};

Result<std::unique_ptr<PoolLvm>> MakePoolLvm(const std::string& group, const Options& options,
                                             const Logger& log, lvm::HeaderReader& headers,
                                             GuardedSubprocess::Tell observe, lvm::GroupLocks* locks) {
  const Places places(options, group);
  QUARRY_TRY(MakePrivateDirectory(places.own));
  QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = places.pool, .scan_dirs = {places.links}})
                 .Context("LVM's private configuration"));
  QUARRY_ASSIGN(auto links, lvm::PvLinks::Make(headers, {.folder = places.links, .groups = {group}}));
  return std::make_unique<PoolLvm>(places, PlaceOfEverything(options), options, log, headers,
                                   std::move(links), std::move(observe), locks);
}

// For a process that took no locks (quarryctl): it may change no group.
class NoLocks final : public lvm::GroupLocks {
 public:
  Status ClaimName(const std::string& group) override { return Check(group); }
  Result<bool> Claim(const std::string& group, const std::string& /*uuid*/) override { return Refuse(group); }
  Status Check(const std::string& group) const override { return Refuse(group); }
  Result<int> ForCommand(const std::string& group) const override { return Refuse(group); }

 private:
  static Error Refuse(const std::string& group) {
    return Error(Code::kInternal, fmt::format("volume group '{}' is not locked by this process", group));
  }
};

// The stuck commands of all pools and of `others`.
class Everything final : public Subprocess {
 public:
  Everything(Subprocess& others, const std::map<std::string, std::unique_ptr<PoolLvm>>& pools)
      : others_(others), pools_(pools) {}
  Result<Finished> Run(const Command& command, const Call& call) override {
    return others_.Run(command, call);
  }
  StuckChildren Stuck() override {
    StuckChildren out = others_.Stuck();
    for (const auto& [group, pool] : pools_) {
      std::ranges::move(pool->guarded.Stuck(), std::back_inserter(out));
    }
    return out;
  }

 private:
  Subprocess& others_;
  const std::map<std::string, std::unique_ptr<PoolLvm>>& pools_;
};

}  // namespace

// Each member may refer to those above it.
struct NodeWorld::Parts {
  explicit Parts(lvm::GroupLocks* locks)
      : may_write(locks == nullptr ? static_cast<const lvm::GroupLocks&>(no_locks) : *locks) {}

  const NoLocks no_locks;
  const lvm::GroupLocks& may_write;
  SystemClock clock;
  SpawnSubprocess subprocess;
  lvm::HeaderReader headers;
  std::map<std::string, std::unique_ptr<PoolLvm>> pools;  // by group
  Everything children{subprocess, pools};
  std::unique_ptr<LvmByGroup> lvm;
  dm::DmKernel dm;
  dm::BlockEraser erase;
  dm::BlockRaidLegs raid_legs;
  thin::PoolReader thin;
  thin::RepairTools thin_repair{subprocess};
  mount::KernelMount mount{subprocess, {.for_the_host = true, .exclusive_probe = &may_write != &no_locks}};
  udev::KernelUdev udev;
  std::shared_ptr<udev::DiskHealthApi> health = std::make_shared<udev::EveryDiskHealth>(
      std::make_unique<udev::NvmeHealth>(), std::make_unique<udev::SmartHealth>());
  lvm::HeaderPvReader pvs{headers};
};

std::string PoolsFolder(const Options& options) {
  return options.state_dir + "/pools";
}

NodeWorld::NodeWorld(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

NodeWorld::~NodeWorld() = default;

Result<std::unique_ptr<NodeWorld>> NodeWorld::Make(const Options& options, const Logger& log,
                                                   GuardedSubprocess::Tell observe, lvm::GroupLocks* locks) {
  for (const std::string& path : {options.state_dir, PoolsFolder(options)}) {
    QUARRY_TRY(MakePrivateDirectory(path));
  }
  QUARRY_TRY(
      lvm::WriteLvmConfig({.system_dir = PlaceOfEverything(options)}).Context("LVM's private configuration"));
  if (options.health_interval.count() > 0 && udev::FindSmartctl().empty()) {
    log.Info(
        "smartctl is not installed: the health of SATA and SAS disks is not polled until the package "
        "smartmontools is installed");
  }
  auto parts = std::make_unique<Parts>(locks);
  std::map<std::string, lvm::LvmApi*> groups;
  for (const engine::PoolConfig& pool : options.pools) {
    QUARRY_ASSIGN(auto made, MakePoolLvm(pool.group, options, log, parts->headers, observe, locks));
    groups[pool.group] = &made->fresh;
    parts->pools[pool.group] = std::move(made);
  }
  parts->lvm = std::make_unique<LvmByGroup>(std::move(groups));
  return std::unique_ptr<NodeWorld>(new NodeWorld(std::move(parts)));
}

engine::World NodeWorld::world() {
  std::map<std::string, Subprocess*> children_of;
  for (const auto& [group, pool] : parts_->pools) {
    children_of[group] = &pool->guarded;
  }
  return {.lvm = *parts_->lvm,
          .dm = parts_->dm,
          .erase = parts_->erase,
          .mount = parts_->mount,
          .clock = parts_->clock,
          .children = parts_->children,
          .udev = parts_->udev,
          .pvs = parts_->pvs,
          .health = parts_->health,
          .raid_legs = parts_->raid_legs,
          .thin = parts_->thin,
          .thin_repair = parts_->thin_repair,
          .locks = parts_->may_write,
          .children_of = std::move(children_of)};
}

}  // namespace quarry::daemon
