// The real lvm2 of this host on a few loop devices over unnamed memory, metadata only (no device-mapper
// needed). A private configuration shows lvm nothing else. For LvmApi, and for everything that keeps its
// answers fresh.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "lvm/fresh/fresh_lvm.h"
#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/fresh/pv_links.h"
#include "lvm/run/lvm_spawn.h"
#include "tests/property/lvm_lab.h"

namespace quarry::contract {

// Counts the commands that it passes on.
class CountingSubprocess final : public Subprocess {
 public:
  explicit CountingSubprocess(Subprocess& inner) : inner_(inner) {}
  Result<Finished> Run(const Command& command, const Call& call) override {
    ++runs;
    return inner_.Run(command, call);
  }
  std::vector<std::pair<int, std::string>> Stuck() override { return inner_.Stuck(); }
  int runs = 0;

 private:
  Subprocess& inner_;
};

class NativeWorld {
 public:
  // What the LVM under test sees: the links of the PV finder, as in quarryd, or everything that the shell
  // sees.
  enum class View { kLinks, kAll };

  // kUnavailable, kNotFound: this host has no loop devices or no lvm2. `runner` runs the LVM under test.
  static Result<std::unique_ptr<NativeWorld>> Make(Subprocess& runner, View view, size_t disks,
                                                   Bytes disk_size);
  ~NativeWorld();
  NativeWorld(const NativeWorld&) = delete;
  NativeWorld& operator=(const NativeWorld&) = delete;

  // A unique name, also if several such tests run at once.
  const std::string& group() const { return group_; }
  // The directory of LVM's locks.
  std::string locking_dir() const { return Under("lock"); }

  // Runs lvm as another shell, which sees all disks. The command must succeed.
  std::string Shell(std::vector<std::string> arguments);
  // The path under which that shell sees a disk. The next call returns the device itself.
  std::string ShellPath(size_t disk) const;
  const std::string& device(size_t disk) const { return disks_[disk].path(); }
  // Makes the disks blank.
  void Blank();
  // Removes a disk from the shell's view, and restores it.
  void Unlink(size_t disk);
  void Link(size_t disk);
  // Unplugs a disk from the PV finder's view, and plugs it in again, without a kernel event.
  void Hide(size_t disk);
  void Show(size_t disk);

  // The LVM under test.
  lvm::LvmSpawn& lvm() { return *lvm_; }
  // Not under test; sees what the shell sees.
  lvm::LvmSpawn& wide() { return *wide_; }
  lvm::PvLinks& links() { return *links_; }
  lvm::HeaderReader& headers() { return headers_; }
  int runs() const { return counter_.runs; }

 private:
  NativeWorld(Subprocess& runner, std::string root);
  std::string Under(const std::string& name) const { return root_ + "/" + name; }

  CountingSubprocess counter_;
  SpawnSubprocess shell_;
  const std::string root_;
  const std::string group_;
  std::vector<lvm::testing::LoopDisk> disks_;
  lvm::HeaderReader headers_;
  std::unique_ptr<lvm::PvLinks> links_;
  std::unique_ptr<lvm::LvmSpawn> lvm_;
  std::unique_ptr<lvm::LvmSpawn> wide_;
};

}  // namespace quarry::contract
