#include "daemon/node_world.h"

#include <sys/stat.h>

#include <cerrno>

#include <fmt/format.h>

#include "base/subprocess.h"
#include "daemon/late_lvm.h"
#include "dm/block_eraser.h"
#include "dm/dm_kernel.h"
#include "lvm/fresh_lvm.h"
#include "lvm/lvm_config.h"
#include "lvm/lvm_spawn.h"
#include "lvm/metadata_header_reader.h"
#include "mount/kernel_mount.h"

namespace quarry::daemon {
namespace {

Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(fmt::format("making the state directory '{}'", path));
  }
  return Ok();
}

}  // namespace

// Each may refer to those above it.
struct NodeWorld::Parts {
  explicit Parts(const std::string& lvm_system_dir)
      : asked([this, lvm_system_dir](const Call& call) -> Result<std::unique_ptr<lvm::LvmApi>> {
          return lvm::LvmSpawn::Make(subprocess, {.system_dir = lvm_system_dir}, call);
        }),
        lvm(asked, headers),
        mount(subprocess) {}

  SystemClock clock;
  SpawnSubprocess subprocess;
  LateLvm asked;
  lvm::HeaderReader headers;
  lvm::FreshLvm lvm;
  dm::DmKernel dm;
  dm::BlockEraser erase;
  mount::KernelMount mount;
};

NodeWorld::NodeWorld(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

NodeWorld::~NodeWorld() = default;

Result<std::unique_ptr<NodeWorld>> NodeWorld::Make(const Options& options) {
  const std::string lvm_system_dir = options.state_dir + "/lvm";
  QUARRY_TRY(MakePrivateDirectory(options.state_dir));
  QUARRY_TRY(lvm::WriteLvmConfig({.system_dir = lvm_system_dir}).Context("LVM's private configuration"));
  return std::unique_ptr<NodeWorld>(new NodeWorld(std::make_unique<Parts>(lvm_system_dir)));
}

engine::World NodeWorld::world() {
  return {.lvm = parts_->lvm,
          .dm = parts_->dm,
          .erase = parts_->erase,
          .mount = parts_->mount,
          .clock = parts_->clock};
}

}  // namespace quarry::daemon
