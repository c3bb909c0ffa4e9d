#include "lvm/thin_pool.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

// Of each `set` legs in a row, at most `most` may be missing.
struct Redundancy {
  size_t set = 1;
  size_t most = 0;
};

// Of LVM's type names ("raid5_ls"), the start says how many legs may be missing.
Result<Redundancy> RedundancyOf(const LogicalVolume& part, size_t legs) {
  const std::string& type = part.segment_type;
  if (type == "linear" || type == "striped" || type.starts_with("raid0")) {
    return Redundancy{.set = legs, .most = 0};
  }
  if (type.starts_with("raid4") || type.starts_with("raid5")) {
    return Redundancy{.set = legs, .most = 1};
  }
  if (type.starts_with("raid6")) {
    return Redundancy{.set = legs, .most = 2};
  }
  const size_t data_legs = part.segments.front().data_stripes;
  if ((type == "raid1" || type == "raid10" || type == "raid10_near") && data_legs > 0 &&
      legs % data_legs == 0) {
    const size_t copies = legs / data_legs;
    return Redundancy{.set = copies, .most = copies - 1};
  }
  return Error(Code::kUnsupported,
               fmt::format("has {} of type {}, which Quarry does not know", part.name, type));
}

Status PartMayStart(const VolumeGroup& group, const std::string& name) {
  const LogicalVolume* const part = group.FindLv(name);
  if (part == nullptr || part->segments.empty()) {
    return Error(Code::kUnsupported, fmt::format("lacks its part {}", name));
  }
  const std::vector<bool> lost = LostLegs(group, *part);
  QUARRY_ASSIGN(const Redundancy redundancy, RedundancyOf(*part, lost.size()));
  for (auto set = lost.begin(); set != lost.end(); set += static_cast<std::ptrdiff_t>(redundancy.set)) {
    const auto missing =
        static_cast<size_t>(std::count(set, set + static_cast<std::ptrdiff_t>(redundancy.set), true));
    if (missing > redundancy.most) {
      return Error(Code::kUnavailable, fmt::format("lacks too many disks of its part {} ({}): plug them in",
                                                   name, part->segment_type));
    }
  }
  return Ok();
}

}  // namespace

Status MayStartDegraded(const VolumeGroup& group, const LogicalVolume& pool) {
  if (pool.segments.size() != 1 || !pool.segments.front().thin_pool.has_value() ||
      pool.segments.front().areas.size() != 1) {
    return Error(Code::kUnsupported, "is not a thin pool");
  }
  const Segment& segment = pool.segments.front();
  QUARRY_TRY(PartMayStart(group, segment.areas.front().lv_name));
  return PartMayStart(group, segment.thin_pool->metadata_lv);
}

// lib/activate/dev_manager.c and device_mapper/libdm-deptree.c of lvm2.
PoolRefusal RefusalIn(std::string_view message) {
  if (message.contains("Manual repair required")) {
    return PoolRefusal::kDamaged;
  }
  return message.contains("transaction_id is") ? PoolRefusal::kMismatch : PoolRefusal::kOther;
}

}  // namespace quarry::lvm
