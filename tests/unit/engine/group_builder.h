// Volume groups as values, for tests of pure functions.
#pragma once

#include <string>
#include <vector>

#include "engine/model/catalog.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Extents of 4 MiB; PVs "/dev/pv0"… with uuid "pv0"…, all free to begin with.
class GroupBuilder {
 public:
  explicit GroupBuilder(std::vector<uint64_t> pv_extents);

  // A linear LV on one PV, with these tags.
  GroupBuilder& Linear(const std::string& name, size_t pv, lvm::ExtentRange range,
                       std::vector<std::string> tags);
  lvm::VolumeGroup& group() { return group_; }
  // The catalog of what was built so far, as pool "default".
  Catalog Build() const;

 private:
  lvm::VolumeGroup group_;
};

// Tags of a ready volume of `extents` extents, for mounting with ext4, default profile.
lvm::VolumeTags ReadyTags(const std::string& lv_name, const std::string& co_name, uint64_t extents);

}  // namespace quarry::engine
