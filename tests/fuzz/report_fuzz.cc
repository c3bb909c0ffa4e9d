// LVM's report, and the tags in it, on any bytes: no crash, and what is accepted adds up. Entry point for
// libFuzzer; a unit test feeds it mutations of real reports as well. Seeds: tests/fixtures/lvm/*/*.json.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lvm/layout.h"
#include "lvm/names.h"
#include "lvm/report_parser.h"

namespace {

using namespace quarry::lvm;

void Require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void CheckPv(const PhysicalVolume& pv) {
  quarry::Extents next;
  for (const ExtentRange& range : pv.free) {
    Require(range.count.value > 0 && range.first >= next && range.end() <= pv.extent_count);
    next = range.end() + quarry::Extents{1};  // neighbours are merged, so something lies between
  }
}

void CheckLv(const VolumeGroup& group, const LogicalVolume& lv) {
  Require(!lv.segments.empty() && !lv.name.empty() && group.FindLv(lv.name) == &lv);
  for (const Segment& segment : lv.segments) {
    for (const SegmentArea& area : segment.areas) {
      Require(area.pv_uuid.empty() != area.lv_name.empty());
      Require(area.pv_uuid.empty() || group.FindPv(area.pv_uuid) != nullptr);
      Require(area.lv_name.empty() || group.FindLv(area.lv_name) != nullptr);
    }
  }
  // Whatever is asked of a snapshot ends and stays within it.
  for (const PhysicalRange& range : PhysicalExtents(group, lv)) {
    Require(group.FindPv(range.pv_uuid) != nullptr);
  }
  (void)SharedPv(group, lv);
  const auto tags = ParseTags(lv.tags);
  if (tags.has_value() && tags->has_value() && (*tags)->state != VolumeState::kCreating) {
    const auto again = ParseTags(BuildTags(**tags));
    Require(again.has_value() && again->has_value() && (*again)->co_name == (*tags)->co_name);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto group = ParseReport({reinterpret_cast<const char*>(data), size});
  if (!group.has_value()) {
    Require(group.error().code() == quarry::Code::kCorrupt);
    return 0;
  }
  Require(group->extent_size.value > 0);
  for (const PhysicalVolume& pv : group->pvs) {
    CheckPv(pv);
  }
  for (const LogicalVolume& lv : group->lvs) {
    CheckLv(*group, lv);
  }
  return 0;
}
