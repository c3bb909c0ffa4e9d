// The real lvm2 on this host: a few loop devices over nameless memory, metadata only (no device-mapper
// needed), seen through a configuration of its own that shows lvm nothing else. For LvmApi, and for all that
// keeps its answers fresh.
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

// Counts what it passes on.
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
  // What the LVM under test sees: what the finder of PVs links, as quarryd's does, or what the shell sees.
  enum class View { kLinks, kAll };

  // kUnavailable, kNotFound: this host has no loop devices or no lvm2. `runner` runs what is under test.
  static Result<std::unique_ptr<NativeWorld>> Make(Subprocess& runner, View view, size_t disks,
                                                   Bytes disk_size);
  ~NativeWorld();
  NativeWorld(const NativeWorld&) = delete;
  NativeWorld& operator=(const NativeWorld&) = delete;

  // Nobody else's, also if several such tests run at once.
  const std::string& group() const { return group_; }
  // Of LVM's locks.
  std::string locking_dir() const { return Under("lock"); }

  // What another shell does: an lvm that sees all disks, to success.
  std::string Shell(std::vector<std::string> arguments);
  // Path under which that shell knows a disk. The device itself.
  std::string ShellPath(size_t disk) const;
  const std::string& device(size_t disk) const { return disks_[disk].path(); }
  // Makes the disks blank.
  void Blank();
  // Takes a disk out of what the shell sees, and back.
  void Unlink(size_t disk);
  void Link(size_t disk);
  // Plugs a disk out of and into what the finder of PVs sees, without a word of the kernel.
  void Hide(size_t disk);
  void Show(size_t disk);

  // Under test.
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
