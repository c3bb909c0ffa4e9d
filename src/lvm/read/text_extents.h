// The PVs that a metadata text names, and which of their extents its segments use. For text_snapshot.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm::text {

class UsedExtents {
 public:
  // `group` is the group that is being read. It must outlive this object.
  explicit UsedExtents(VolumeGroup& group) : group_(group) {}

  // The text calls this PV of the group `name`. False if another PV has that name.
  bool Name(std::string_view name, size_t pv);
  size_t pvs() const { return by_name_.size(); }
  // Marks the extents as used. kUnsupported if the text names no such PV, or the PV does not have them.
  Result<SegmentArea> Use(std::string_view name, ExtentRange range);
  // Gives the PVs and the group the extents that no segment uses. kUnsupported if two segments use one.
  Status CountFree();

 private:
  void AddFree(PhysicalVolume& pv, ExtentRange range);

  VolumeGroup& group_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<size_t, std::vector<ExtentRange>> used_;  // by PV
};

}  // namespace quarry::lvm::text
