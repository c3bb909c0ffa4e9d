// Volume groups as values, for tests of pure functions.
#pragma once

#include <string>
#include <vector>

#include "engine/model/catalog.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// Extents have 4 MiB. PVs are "/dev/pv0"… with uuid "pv0"…, all free at first.
class GroupBuilder {
 public:
  explicit GroupBuilder(std::vector<uint64_t> pv_extents);

  // A linear LV on one PV, with these tags.
  GroupBuilder& Linear(const std::string& name, size_t pv, lvm::ExtentRange range,
                       std::vector<std::string> tags);
  lvm::VolumeGroup& group() { return group_; }
  // The catalog of the group built so far, as pool "default".
  Catalog Build() const;

 private:
  lvm::VolumeGroup group_;
};

// Tags of a ready volume of `extents` extents, for mounting with ext4, with the default profile.
lvm::VolumeTags ReadyTags(const std::string& lv_name, const std::string& co_name, uint64_t extents);

}  // namespace quarry::engine
