// A volume group on a guest's blank disks, and what LVM's own tools say about it: the second opinion that
// tests hold against what quarryd says.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::vm {

// Device node of the disk with serial number quarry<number>; empty if there is none now.
std::string DiskNode(int number);
// Disks 1, 2, … as long as there are any.
std::vector<std::string> DiskNodes();

// The logical volume's name in the id of a volume that Quarry made, "<pool>.<hash>.<name>" or without the
// hash.
std::string LvNameIn(const std::string& id);

struct Lv {
  std::string name;
  int64_t size = 0;
  std::string type;  // segment type
  std::vector<std::string> tags;
  bool active = false;
};

// Removed with all that is in it when the object goes, unless it is to be kept. Removing what is not there is
// fine.
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

  // `how`: more of vgcreate's arguments.
  Status Make(const std::vector<std::string>& how = {"--metadatasize", "64m"});
  // Whoever made it; what is not there is fine.
  void Remove();
  // It outlives this object, also if it is made only now.
  void Keep() {
    kept_ = true;
    made_ = false;
  }
  // Removes every LV, whoever made it; the group stays.
  Status Empty();

  const std::string& name() const { return name_; }
  const std::vector<std::string>& devices() const { return devices_; }

  Result<int64_t> FreeExtents() const;
  // Those that LVM shows without -a, by name.
  Result<std::map<std::string, Lv>> Lvs() const;
  // Which devices each leg of an LV lies on, as `lvs -a -o devices` reports it; the metadata sub-volume of a
  // raid leg belongs to the leg.
  Result<std::vector<std::set<std::string>>> LegDevices(const std::string& lv) const;

 private:
  std::string name_;
  std::vector<std::string> devices_;
  bool made_ = false;  // and to be removed
  bool kept_ = false;
};

// Whether no device serves two legs.
bool Disjoint(const std::vector<std::set<std::string>>& legs);

}  // namespace quarry::vm
