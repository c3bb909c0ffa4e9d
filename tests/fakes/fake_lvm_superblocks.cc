// What dm-raid has recorded on the legs of FakeLvm's volumes: each leg that is there knows which legs are
// missing, as if their disks had gone away while the array was in use. An array that lacks no leg was never
// started, and a deleted volume is erased: their superblocks are zeroes. A test that starts and stops arrays
// has a RaidLegsApi of its own.
#include <algorithm>
#include <optional>
#include <vector>

#include "lvm/names.h"
#include "tests/fakes/fake_lvm.h"

namespace quarry::fakes {
namespace {

// Whether the superblock in `metadata` begins at `place`.
bool LiesAt(const lvm::VolumeGroup& group, const lvm::LogicalVolume* metadata, const dm::EraseRange& place) {
  if (metadata == nullptr) {
    return false;
  }
  const std::vector<lvm::PhysicalRange> ranges = lvm::PhysicalExtents(group, *metadata);
  const lvm::PhysicalVolume* const pv = group.FindPv(place.pv_uuid);
  return !ranges.empty() && pv != nullptr && ranges.front().pv_uuid == place.pv_uuid &&
         pv->pe_start + ToBytes(ranges.front().range.first, group.extent_size) == place.offset;
}

// The superblock at `place` if a leg of `lv` has it there.
std::optional<dm::RaidSuperblock> SuperblockOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                               const dm::EraseRange& place) {
  const std::vector<bool> lost = lvm::LostLegs(group, lv);
  const bool erased = std::ranges::find(lv.tags, lvm::StateTag(lvm::VolumeState::kErasing)) != lv.tags.end();
  if (!lv.segment_type.starts_with("raid") || lv.segments.empty() || erased ||
      std::ranges::find(lost, true) == lost.end()) {
    return std::nullopt;
  }
  const auto& areas = lv.segments.front().areas;
  for (size_t i = 0; i < areas.size() && i < lost.size(); ++i) {
    if (LiesAt(group, group.FindLv(lvm::MetadataLvName(areas[i].lv_name)), place)) {
      return dm::RaidSuperblock{.legs = static_cast<uint32_t>(areas.size()),
                                .role = static_cast<uint32_t>(i),
                                .events = lost[i] ? 1U : 2U,
                                .failed = lost[i] ? std::vector<bool>(lost.size()) : lost};
    }
  }
  return std::nullopt;
}

}  // namespace

Result<dm::RaidSuperblock> FakeLvm::Superblocks::Read(const dm::EraseRange& place) {
  const std::lock_guard lock(lvm_.mutex_);
  for (const auto& [name, group] : lvm_.groups_) {
    for (const lvm::LogicalVolume& lv : group.now.lvs) {
      if (auto superblock = SuperblockOf(group.now, lv, place); superblock.has_value()) {
        return std::move(*superblock);
      }
    }
  }
  return Error(Code::kNotFound, "only zeroes");
}

Result<dm::RaidBitmap> FakeLvm::Superblocks::ReadBitmap(const dm::EraseRange& /*place*/) {
  return Error(Code::kNotFound, "only zeroes");
}

Status FakeLvm::Superblocks::Write(const dm::EraseRange& /*place*/, const dm::RaidSuperblock& /*was*/,
                                   const dm::RaidStart& /*start*/) {
  return Error(Code::kInternal, "this fake does not start arrays");
}

}  // namespace quarry::fakes
