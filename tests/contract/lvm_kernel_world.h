// A real volume group for the LvmApi contract, on the disks named in QUARRY_TEST_DISKS (seven of 1 GiB,
// separated by blanks). It overwrites these disks. Run as root in a guest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "lvm/run/lvm_spawn.h"
#include "lvm/run/zygote.h"
#include "tests/unit/lvm/text_agreement.h"

namespace quarry::contract {

class LvmKernelWorld {
 public:
  // `zygote`: the program quarry-lvm, which then runs the commands; empty: lvm is started for each command.
  explicit LvmKernelWorld(const std::string& zygote = {});
  ~LvmKernelWorld();
  LvmKernelWorld(const LvmKernelWorld&) = delete;
  LvmKernelWorld& operator=(const LvmKernelWorld&) = delete;

  static std::string TextDifference(const lvm::VolumeGroup& report) {
    return lvm::testing::TextDifference(report);
  }

  void Reset();
  lvm::LvmApi& lvm() { return *lvm_; }
  std::string group() const { return "qtest"; }
  std::shared_ptr<void> Hold(const std::string& lv);
  // LVM looks for PVs among links in a private directory: a disk without a link is gone for LVM.
  void HideDisk(size_t index);
  void ShowDisk(size_t index);
  std::string SpareDisk();

  // --- For tests of LvmSpawn alone.
  const std::vector<std::string>& disks() const { return disks_; }
  std::string system_dir() const { return root_ + "/lvm"; }
  std::string link_dir() const { return root_ + "/pv"; }
  std::string device(const std::string& lv) const { return "/dev/" + group() + "/" + lv; }
  // Runs a program and returns its output. The test fails if the program does.
  std::string Run(const std::vector<std::string>& argv);
  std::string RunLvm(std::vector<std::string> arguments);

 private:
  void MakeGroup();
  bool IsWhole();
  Result<Finished> Start(const std::vector<std::string>& argv);
  std::string Link(size_t index) const { return link_dir() + "/disk" + std::to_string(index); }

  SpawnSubprocess subprocess_;
  std::unique_ptr<lvm::ZygoteSubprocess> zygote_;
  std::string root_;
  std::vector<std::string> disks_;
  bool spare_used_ = false;  // since the last Reset
  std::unique_ptr<lvm::LvmSpawn> lvm_;
};

// The same with the zygote, whose program is named in QUARRY_TEST_ZYGOTE.
class LvmZygoteKernelWorld : public LvmKernelWorld {
 public:
  LvmZygoteKernelWorld();
};

}  // namespace quarry::contract
