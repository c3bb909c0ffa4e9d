// A laboratory for the real lvm2: a volume group on its own disks, with a private configuration that shows
// LVM nothing else. On loop devices without device-mapper (metadata only), or in a guest on real disks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "lvm/lvm_api.h"

namespace quarry::lvm::testing {

inline constexpr char kLabGroup[] = "quarrylab";

// A loop device over memory without a name. The kernel detaches it when the last descriptor is closed, so
// nothing is left behind, however the process ends.
class LoopDisk {
 public:
  // kUnavailable if this host gives no loop devices.
  static Result<LoopDisk> Make(Bytes size);
  const std::string& path() const { return path_; }

 private:
  LoopDisk(std::string path, UniqueFd memory, UniqueFd device)
      : path_(std::move(path)), memory_(std::move(memory)), device_(std::move(device)) {}
  std::string path_;
  UniqueFd memory_;
  UniqueFd device_;
};

class LvmLab {
 public:
  // kNotFound if lvm is not installed. `devices` are overwritten. With `driver_loaded` false LVM changes
  // metadata only.
  static Result<std::unique_ptr<LvmLab>> Make(const std::vector<std::string>& devices, bool driver_loaded);
  ~LvmLab();

  // Makes the first devices PVs, the i-th with space for sizes[i] bytes of extents, and destroys their
  // contents. The sizes last for one group, because vgremove makes PVs as large as their devices. Without
  // MakePvs they have that size from the start.
  Status MakePvs(const std::vector<Bytes>& sizes);
  // Makes a new group on the first `pvs` devices. Removes the previous group with all its volumes.
  Status MakeGroup(size_t pvs, Bytes extent_size);
  Status RemoveGroup();
  Status SetAllocatable(size_t pv, bool allocatable);

  // The group as LVM reports it. kInternal if the parsed text on the disks differs (text_agreement.h).
  Result<Snapshot> Read();
  // Run the verbs of lvm/change.h.
  Status Create(const CreateLv& spec);
  Status Extend(const ExtendLv& spec);
  Status Remove(const std::string& name);
  // Runs any other command. If lvm fails, this call still succeeds.
  Result<Finished> Run(std::vector<std::string> arguments);
  // Must: the command must succeed. MustOnceUnused: repeats it while a device is in use.
  Status Must(std::vector<std::string> arguments);
  Status MustOnceUnused(const std::vector<std::string>& arguments);

  // The path under which LVM knows a device.
  const std::string& PvPath(size_t pv) const { return links_[pv]; }
  size_t DeviceCount() const { return links_.size(); }

 private:
  explicit LvmLab(std::string dir, bool driver_loaded)
      : dir_(std::move(dir)), driver_loaded_(driver_loaded) {}

  std::string dir_;
  bool driver_loaded_;
  bool has_group_ = false;
  std::vector<std::string> links_;
  SpawnSubprocess subprocess_;
};

}  // namespace quarry::lvm::testing
