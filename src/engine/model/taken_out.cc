#include "engine/model/taken_out.h"

#include <algorithm>

namespace quarry::engine {
namespace {

bool BearsTagOfOurs(const lvm::LogicalVolume& lv) {
  return !lvm::TagsOfOurs(lv.tags).empty();
}

const Record* VolumeNamed(const Catalog& catalog, std::string_view lv_name) {
  const auto found = std::ranges::find_if(catalog.records, [&](const Record& record) {
    return record.lv->name == lv_name && record.tags.state != lvm::VolumeState::kCreating;
  });
  return found == catalog.records.end() ? nullptr : &*found;
}

// Whether the volume has a leg of the same size as `leg`.
bool HasLegsLike(const Record& volume, const lvm::LogicalVolume& leg) {
  if (!volume.lv->IsRaid()) {
    return false;
  }
  return std::ranges::any_of(volume.lv->segments.front().areas, [&](const lvm::SegmentArea& area) {
    const lvm::LogicalVolume* const other = volume.group->FindLv(area.lv_name);
    return other != nullptr && other->size == leg.size;
  });
}

bool IsRecord(const Catalog& catalog, const lvm::LogicalVolume& lv) {
  return VolumeNamed(catalog, lv.name) != nullptr;
}

}  // namespace

bool IsEndedLeg(const lvm::LogicalVolume& lv, const Result<std::optional<lvm::VolumeTags>>& tags) {
  return !lvm::TakenOutOf(lv.name).empty() && tags.has_value() && tags->has_value() &&
         (*tags)->state == lvm::VolumeState::kErasing && (*tags)->id.ends_with("." + lv.name);
}

void FindTakenOut(Catalog& catalog) {
  const lvm::VolumeGroup& group = *catalog.group;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    const std::string_view volume = lvm::TakenOutOf(lv.name);
    const bool stray = std::ranges::find(catalog.stray_legs, lv.name) != catalog.stray_legs.end();
    if (lv.hidden || volume.empty() || stray || IsRecord(catalog, lv)) {
      continue;
    }
    const Record* const record = VolumeNamed(catalog, volume);
    const std::string twin = lvm::MetadataLvName(lv.name);  // empty: `lv` is metadata
    if (twin.empty()) {
      const bool alone = std::ranges::none_of(group.lvs, [&](const lvm::LogicalVolume& leg) {
        return lvm::MetadataLvName(leg.name) == lv.name && !IsRecord(catalog, leg);
      });
      if (alone && record != nullptr && BearsTagOfOurs(lv)) {
        catalog.taken_out.push_back({std::string(volume), {&lv}});
      }
      continue;
    }
    const lvm::LogicalVolume* const metadata = group.FindLv(twin);
    if (record == nullptr || !HasLegsLike(*record, lv) || metadata == nullptr || metadata->hidden ||
        !BearsTagOfOurs(*metadata)) {
      catalog.unproven_legs.push_back(lv.name);
      continue;
    }
    catalog.taken_out.push_back({std::string(volume), {&lv, metadata}});
  }
}

const Record* VolumeOf(const Catalog& catalog, const TakenOut& taken) {
  return VolumeNamed(catalog, taken.volume);
}

}  // namespace quarry::engine
