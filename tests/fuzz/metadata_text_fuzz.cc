// Parses any bytes as the text of a group's metadata: no crash, and accepted extents add up. Entry point for
// libFuzzer; a unit test feeds it mutations of real texts too. Seeds: tests/fixtures/lvm/texts/*/*.text.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lvm/read/metadata_text.h"
#include "lvm/read/text_snapshot.h"
#include "tests/fuzz/snapshot_checks.h"

namespace {

using namespace quarry;
using namespace quarry::lvm;

// Every extent of every PV is free or in one segment.
void CheckExtents(const VolumeGroup& group) {
  uint64_t used = 0;
  uint64_t free = 0;
  for (const LogicalVolume& lv : group.lvs) {
    for (const Segment& segment : lv.segments) {
      for (const SegmentArea& area : segment.areas) {
        used += area.pv_uuid.empty() ? 0 : area.range.count.value;
      }
    }
  }
  for (const PhysicalVolume& pv : group.pvs) {
    for (const ExtentRange& range : pv.free) {
      free += range.count.value;
    }
  }
  fuzz::Require(free == group.free_count.value && used + free == group.extent_count.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<TextPv> pvs;
  if (const auto members = ParseGroupMembers(text); members.has_value()) {
    for (const std::string& uuid : std::set(members->pv_uuids.begin(), members->pv_uuids.end())) {
      pvs.push_back({uuid, "/dev/" + uuid, kMiB});
    }
  }
  const auto group = SnapshotFromText(text, pvs);
  if (!group.has_value()) {
    fuzz::Require(group.error().code() == Code::kCorrupt || group.error().code() == Code::kUnsupported);
    return 0;
  }
  fuzz::Require(group->pvs.size() == pvs.size());
  fuzz::CheckGroup(*group);
  CheckExtents(*group);
  return 0;
}
