// A volume group on a guest's blank disks, and what LVM's own tools report about it: the second opinion with
// which tests compare what quarryd reports.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::vm {

// Device node of the disk with serial number quarry<number>. Empty if the disk is not present.
std::string DiskNode(int number);
// The nodes of disks 1, 2, … up to the first that is not present.
std::vector<std::string> DiskNodes();

// The logical volume's name in the id of a volume that Quarry made: "<pool>.<hash>.<name>", or an id without
// the hash.
std::string LvNameIn(const std::string& id);

struct Lv {
  std::string name;
  int64_t size = 0;
  std::string type;  // segment type
  std::vector<std::string> tags;
  bool active = false;
};

// The destructor removes the group with all its volumes, unless it is to be kept. Removing a missing group is
// no error.
class VolumeGroup {
 public:
  VolumeGroup(std::string name, std::vector<std::string> devices)
      : name_(std::move(name)), devices_(std::move(devices)) {}
  ~VolumeGroup() {
    if (made_) {
      Remove();
    }
  }
  VolumeGroup(const VolumeGroup&) = delete;
  VolumeGroup& operator=(const VolumeGroup&) = delete;

  // `how` has further arguments of vgcreate.
  Status Make(const std::vector<std::string>& how = {"--metadatasize", "64m"});
  // Removes the group, even if this object did not make it. A missing group is no error.
  void Remove();
  // The group outlives this object, also if it is made later.
  void Keep() {
    kept_ = true;
    made_ = false;
  }
  // Removes every LV, whichever process made it. The group stays.
  Status Empty();

  const std::string& name() const { return name_; }
  const std::vector<std::string>& devices() const { return devices_; }

  Result<int64_t> FreeExtents() const;
  // The logical volumes that LVM shows without -a, by name.
  Result<std::map<std::string, Lv>> Lvs() const;
  // The devices of each leg of an LV, from `lvs -a -o devices`. The metadata sub-volume of a RAID leg belongs
  // to the leg.
  Result<std::vector<std::set<std::string>>> LegDevices(const std::string& lv) const;

 private:
  std::string name_;
  std::vector<std::string> devices_;
  bool made_ = false;  // the destructor removes it
  bool kept_ = false;
};

// True if no device serves two legs.
bool Disjoint(const std::vector<std::set<std::string>>& legs);

}  // namespace quarry::vm
