#include "lvm/read/text_extents.h"

#include <algorithm>

#include <fmt/format.h>

#include "lvm/read/text_fields.h"

namespace quarry::lvm::text {

bool UsedExtents::Name(std::string_view name, size_t pv) {
  return by_name_.emplace(name, pv).second;
}

Result<SegmentArea> UsedExtents::Use(std::string_view name, ExtentRange range) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return AskLvm(fmt::format("a stripe on {}, which is not a PV", name));
  }
  const PhysicalVolume& pv = group_.pvs[found->second];
  if (range.end() > pv.extent_count) {
    return AskLvm("a stripe beyond the end of its PV");
  }
  used_[found->second].push_back(range);
  return SegmentArea{pv.uuid, "", range};
}

Status UsedExtents::CountFree() {
  for (size_t i = 0; i < group_.pvs.size(); ++i) {
    PhysicalVolume& pv = group_.pvs[i];
    std::vector<ExtentRange>& used = used_[i];
    std::ranges::sort(used);
    Extents at;
    for (const ExtentRange& range : used) {
      if (range.first < at) {
        return AskLvm(fmt::format("extents of PV {} are used twice", pv.uuid));
      }
      AddFree(pv, {at, range.first - at});
      at = range.end();
    }
    AddFree(pv, {at, pv.extent_count - at});
  }
  return Ok();
}

void UsedExtents::AddFree(PhysicalVolume& pv, ExtentRange range) {
  if (range.count.value > 0) {
    group_.free_count += range.count;
    pv.free.push_back(range);
  }
}

}  // namespace quarry::lvm::text
