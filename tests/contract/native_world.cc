#include "tests/contract/native_world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "lvm/run/lvm_config.h"

namespace quarry::contract {
namespace {

namespace fs = std::filesystem;

Call Patient() {
  return CallWithin(std::chrono::minutes(2));
}

}  // namespace

NativeWorld::NativeWorld(Subprocess& runner, std::string root)
    : counter_(runner), root_(std::move(root)), group_(fmt::format("quarry{}", getpid())) {}

Result<std::unique_ptr<NativeWorld>> NativeWorld::Make(Subprocess& runner, View view, size_t disks,
                                                       Bytes disk_size) {
  std::string root = (fs::temp_directory_path() / "quarry-native-XXXXXX").string();
  if (mkdtemp(root.data()) == nullptr) {
    return ErrnoError("mkdtemp").As(Code::kUnavailable);
  }
  std::unique_ptr<NativeWorld> world(new NativeWorld(runner, root));
  for (const char* folder : {"lock", "shell", "sys", "dev", "all"}) {
    fs::create_directory(world->Under(folder));
  }
  for (size_t i = 0; i < disks; ++i) {
    QUARRY_ASSIGN(auto disk, lvm::testing::LoopDisk::Make(disk_size));
    world->disks_.push_back(std::move(disk));
    world->Link(i);
    world->Show(i);
  }
  const auto config = [&](const std::string& name, const std::string& scan) {
    return lvm::LvmConfig{.system_dir = world->Under(name),
                          .locking_dir = world->Under("lock"),
                          .scan_dirs = {world->Under(scan)}};
  };
  QUARRY_TRY(lvm::WriteLvmConfig(config("etc-all", "all")));
  QUARRY_TRY(lvm::WriteLvmConfig(config("etc-pool", "pv")));
  QUARRY_ASSIGN(world->links_, lvm::PvLinks::Make(world->headers_, {.folder = world->Under("pv"),
                                                                    .groups = {world->group_},
                                                                    .sysfs = world->Under("sys"),
                                                                    .dev = world->Under("dev")}));
  const auto options = [&](const std::string& name) {
    return lvm::LvmSpawnOptions{.system_dir = world->Under(name),
                                .driver_loaded = false,
                                .sysfs = world->Under("sys"),
                                .dev = world->Under("dev")};
  };
  const std::string etc = view == View::kLinks ? "etc-pool" : "etc-all";
  QUARRY_ASSIGN(world->lvm_, lvm::LvmSpawn::Make(world->counter_, options(etc), Patient()));
  QUARRY_ASSIGN(world->wide_, lvm::LvmSpawn::Make(world->shell_, options("etc-all"), Patient()));
  return world;
}

NativeWorld::~NativeWorld() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

std::string NativeWorld::Shell(std::vector<std::string> arguments) {
  Command command;
  command.argv = {"/usr/sbin/lvm"};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.argv.insert(command.argv.begin() + 2, {"--driverloaded", "n"});
  command.env = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                 {"LC_ALL", "C"},
                 {"LVM_SYSTEM_DIR", Under("etc-all")},
                 {"LVM_SUPPRESS_FD_WARNINGS", "1"}};
  const auto finished = shell_.Run(command, Patient());
  EXPECT_TRUE(finished.has_value() && finished->ok())
      << arguments[0] << ": " << (finished.has_value() ? finished->err : finished.error().message());
  return finished.has_value() ? finished->out : "";
}

std::string NativeWorld::ShellPath(size_t disk) const {
  return fmt::format("{}/all/d{}", root_, disk);
}

void NativeWorld::Blank() {
  for (const auto& disk : disks_) {
    const UniqueFd fd(open(disk.path().c_str(), O_WRONLY | O_CLOEXEC));
    const std::vector<char> zeros(2 * kMiB.value);
    ASSERT_TRUE(fd.valid());
    ASSERT_EQ(pwrite(fd.get(), zeros.data(), zeros.size(), 0), static_cast<ssize_t>(zeros.size()));
    ASSERT_EQ(fsync(fd.get()), 0);
  }
}

void NativeWorld::Unlink(size_t disk) {
  fs::remove(ShellPath(disk));
}

void NativeWorld::Link(size_t disk) {
  if (!fs::is_symlink(ShellPath(disk))) {
    fs::create_symlink(device(disk), ShellPath(disk));
  }
}

void NativeWorld::Hide(size_t disk) {
  const std::string name = fs::path(device(disk)).filename();
  fs::remove(Under("sys/" + name));
  fs::remove(Under("dev/" + name));
}

void NativeWorld::Show(size_t disk) {
  const std::string name = fs::path(device(disk)).filename();
  fs::create_symlink("/sys/class/block/" + name, Under("sys/" + name));
  fs::create_symlink(device(disk), Under("dev/" + name));
}

}  // namespace quarry::contract
