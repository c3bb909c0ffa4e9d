#include "tests/contract/lvm_kernel_world.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "lvm/run/lvm_config.h"
#include "tests/contract/lvm_contract.h"

namespace quarry::contract {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Words(const char* text) {
  std::istringstream in(text == nullptr ? "" : text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) {
    out.push_back(word);
  }
  return out;
}

// Clears the label, the metadata area, and other signatures that LVM might find.
void Blank(const std::string& disk) {
  const UniqueFd fd(open(disk.c_str(), O_WRONLY | O_CLOEXEC));
  const std::vector<char> zeros(4 * kMiB.value);
  ASSERT_TRUE(fd.valid()) << disk;
  ASSERT_EQ(pwrite(fd.get(), zeros.data(), zeros.size(), 0), static_cast<ssize_t>(zeros.size())) << disk;
  ASSERT_EQ(fsync(fd.get()), 0) << disk;
}

}  // namespace

LvmKernelWorld::LvmKernelWorld(const std::string& zygote) : disks_(Words(getenv("QUARRY_TEST_DISKS"))) {
  std::string name = "/run/quarry-contract-XXXXXX";
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  root_ = name;
  fs::create_directory(link_dir());
  EXPECT_EQ(disks_.size(), kDisks + 1) << "QUARRY_TEST_DISKS must name seven blank disks";
  if (disks_.size() != kDisks + 1) {
    std::abort();  // no later test would be meaningful
  }
  const Status written = lvm::WriteLvmConfig({.system_dir = system_dir(), .scan_dirs = {link_dir()}});
  EXPECT_TRUE(written.has_value()) << written.error().message();
  Subprocess* runner = &subprocess_;
  if (!zygote.empty()) {
    zygote_ = std::make_unique<lvm::ZygoteSubprocess>(zygote, subprocess_);
    runner = zygote_.get();
  }
  auto made = lvm::LvmSpawn::Make(*runner, {.system_dir = system_dir()}, Patient());
  EXPECT_TRUE(made.has_value()) << made.error().message();
  lvm_ = std::move(*made);
}

LvmKernelWorld::~LvmKernelWorld() {
  if (zygote_ != nullptr) {
    const auto counts = zygote_->counts();
    EXPECT_GT(counts.run, 0U);
    EXPECT_EQ(counts.starts, 1U) << "the zygote died";
    EXPECT_EQ(counts.passed_on, 0U) << "the tests did not use the zygote";
  }
  if (IsWhole()) {
    RunLvm({"vgremove", "-y", group()});
  }
  if (spare_used_) {
    Blank(disks_.back());
  }
  fs::remove_all(root_);
}

LvmZygoteKernelWorld::LvmZygoteKernelWorld()
    : LvmKernelWorld(getenv("QUARRY_TEST_ZYGOTE") == nullptr ? "" : getenv("QUARRY_TEST_ZYGOTE")) {
  EXPECT_NE(getenv("QUARRY_TEST_ZYGOTE"), nullptr) << "must name the program quarry-lvm";
}

// Rebuilds the group only if the last test left it damaged: each lvm command takes a guest most of a second.
void LvmKernelWorld::Reset() {
  for (size_t i = 0; i < kDisks; ++i) {
    ShowDisk(i);
  }
  if (!IsWhole()) {
    MakeGroup();
  }
  if (std::exchange(spare_used_, false)) {
    // A group of this name on the disk would be a second one for commands that look everywhere.
    HideDisk(kDisks);
    Blank(disks_.back());
  }
}

bool LvmKernelWorld::IsWhole() {
  const auto read = lvm_->Read(group(), Patient());
  if (!read.has_value() || (*read)->MissingPvs() > 0 || (*read)->pvs.size() != kDisks) {
    return false;
  }
  return (*read)->lvs.empty() ||
         Start({"/usr/sbin/lvm", "lvremove", "-y", group()}).value_or(Finished{}).ok();
}

void LvmKernelWorld::MakeGroup() {
  (void)Start({"/usr/sbin/lvm", "vgchange", "-y", "--activate", "n",
               group()});  // the group may be in any state, or absent
  std::vector<std::string> create = {"vgcreate", "-y", "--physicalextentsize", "4m", group()};
  for (size_t i = 0; i < kDisks; ++i) {
    Blank(disks_[i]);
    create.push_back(Link(i));
  }
  HideDisk(kDisks);
  RunLvm(create);
}

std::string LvmKernelWorld::SpareDisk() {
  Blank(disks_.back());
  ShowDisk(kDisks);
  spare_used_ = true;
  return Link(kDisks);
}

std::shared_ptr<void> LvmKernelWorld::Hold(const std::string& lv) {
  auto fd = std::make_shared<UniqueFd>(open(device(lv).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd->valid()) << device(lv) << ": " << errno;
  return fd;
}

void LvmKernelWorld::HideDisk(size_t index) {
  fs::remove(Link(index));
}

void LvmKernelWorld::ShowDisk(size_t index) {
  if (!fs::is_symlink(Link(index))) {
    fs::create_symlink(disks_[index], Link(index));
  }
}

Result<Finished> LvmKernelWorld::Start(const std::vector<std::string>& argv) {
  Command command;
  command.argv = argv;
  command.env = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
                 {"LC_ALL", "C"},
                 {"LVM_SYSTEM_DIR", system_dir()},
                 {"LVM_SUPPRESS_FD_WARNINGS", "1"}};
  return subprocess_.Run(command, Patient());
}

std::string LvmKernelWorld::Run(const std::vector<std::string>& argv) {
  const auto finished = Start(argv);
  EXPECT_TRUE(finished.has_value() && finished->ok())
      << argv[0] << " " << argv[1] << ": "
      << (finished.has_value() ? finished->err : finished.error().message());
  return finished.has_value() ? finished->out : "";
}

std::string LvmKernelWorld::RunLvm(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/usr/sbin/lvm");
  return Run(arguments);
}

}  // namespace quarry::contract
