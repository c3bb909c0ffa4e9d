// A place to try things with the real lvm2: a volume group on disks of its own, seen through a private
// configuration that shows lvm nothing else. On loop devices without device-mapper (metadata only), or in a
// guest on real disks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "lvm/lvm_api.h"

namespace quarry::lvm::testing {

inline constexpr char kLabGroup[] = "quarrylab";

// A loop device over memory that has no name. The kernel detaches it when the last descriptor is closed, so
// nothing is left behind however the process ends.
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

  // Makes the first devices PVs, the i-th with room for sizes[i] bytes of extents. What was on them is gone.
  // The sizes last for one group: vgremove makes PVs as large as their devices. Without this they are that
  // from the start.
  Status MakePvs(const std::vector<Bytes>& sizes);
  // A fresh group on the first `pvs` of them. The group before is removed, with all that is in it.
  Status MakeGroup(size_t pvs, Bytes extent_size);
  Status RemoveGroup();
  Status SetAllocatable(size_t pv, bool allocatable);

  // What LVM reports. kInternal if the text on the disks is read to say something else (text_agreement.h).
  Result<Snapshot> Read();
  // The commands of lvm_command.h, run here.
  Status Create(const CreateLv& spec);
  Status Extend(const ExtendLv& spec);
  Status Remove(const std::string& name);
  // Any other command; a failure of lvm is not one of this call.
  Result<Finished> Run(std::vector<std::string> arguments);
  // The same, to success.
  Status Must(std::vector<std::string> arguments);
  Status MustOnceUnused(const std::vector<std::string>& arguments);

  // Path under which lvm knows a device.
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
