// The kernel as a world for device-mapper and for erasing. Needs root; DmWorld needs device-mapper.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dm/block_eraser.h"
#include "dm/dm_kernel.h"
#include "tests/contract/dm_contract.h"
#include "tests/contract/loop_device.h"

namespace quarry::contract {

class KernelDmWorld final : public DmWorld {
 public:
  ~KernelDmWorld() override;
  dm::DmApi& api() override { return dm_; }
  void Add(const std::string& uuid, const std::string& name, Bytes size) override;
  void AddOnDisk(const std::string& uuid, const std::string& name, Bytes offset, Bytes length) override;
  void AddThinPool(const std::string& uuid, const std::string& name, bool has_volumes) override;
  void AddThin(const std::string& uuid, const std::string& name, const std::string& pool, dm::ThinId id,
               Bytes size) override;
  std::string Disk() override;
  bool Remove(const std::string& uuid) override;
  // `table` as for `dmsetup create`.
  void AddTable(const std::string& uuid, const std::string& name, const std::string& table);
  // "major:minor" of an active device, for tables: udevd makes its node a moment later.
  std::string Number(const std::string& uuid);

 private:
  dm::DmKernel dm_;
  std::optional<LoopDevice> disk_;
  std::vector<LoopDevice> pool_disks_;
  std::vector<std::pair<std::string, std::string>> made_;  // uuid and name, those below first
};

// A physical volume made by this machine's LVM, on a loop device or on a disk.
class KernelEraseWorld final : public EraseWorld {
 public:
  explicit KernelEraseWorld(LoopDevice disk);
  KernelEraseWorld(LoopDevice disk, const std::vector<std::string>& pvcreate_options);
  // Destroys the content of the disk.
  explicit KernelEraseWorld(std::string disk);
  dm::EraseApi& api() override { return eraser_; }
  std::string device() const override { return node_; }
  std::string pv_uuid() const override { return uuid_; }
  Bytes first_extent() const override { return first_extent_; }

 private:
  // Makes the disk a PV. For a size used before, copies that PV.
  void Become();

  dm::BlockEraser eraser_;
  std::optional<LoopDevice> loop_;
  std::string node_;
  std::string uuid_;
  Bytes first_extent_;
};

}  // namespace quarry::contract
