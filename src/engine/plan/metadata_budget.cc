#include "engine/plan/metadata_budget.h"

#include <variant>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

constexpr uint64_t kTagsText = 1024;  // for a volume with a name of the usual length

// The tag "formatted" is still to be added, "erasing" is longer than "ready", and sizes get more digits.
constexpr uint64_t kKeptPerVolume = 128;
// The text that LVM adds temporarily while it changes a RAID volume, and the sequence number.
constexpr uint64_t kKeptForLvm = 4096;

// The PV with the fullest metadata area. It decides, because each commit is written to all areas.
const lvm::PhysicalVolume* Fullest(const lvm::VolumeGroup& group) {
  const lvm::PhysicalVolume* fullest = nullptr;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    const bool used = !pv.missing && pv.metadata_size > Bytes{0};
    if (used && (fullest == nullptr || pv.metadata_free < fullest->metadata_free)) {
      fullest = &pv;
    }
  }
  return fullest;
}

}  // namespace

MetadataArea FullestArea(const lvm::VolumeGroup& group) {
  const lvm::PhysicalVolume* const fullest = Fullest(group);
  return fullest == nullptr ? MetadataArea{} : MetadataArea{fullest->metadata_size, fullest->metadata_free};
}

Bytes MetadataFor(const Plan& plan) {
  uint64_t sum = 0;
  for (const Action& action : plan) {
    const auto* const change = std::get_if<lvm::Change>(&action);
    sum += change == nullptr ? 0 : lvm::MetadataTextOf(*change).value;
  }
  return {sum};
}

Bytes MetadataForVolume(const lvm::Geometry& geometry) {
  return {lvm::MetadataTextOf(geometry).value + kTagsText};
}

Status CheckMetadataRoom(const Catalog& catalog, Bytes more) {
  const lvm::PhysicalVolume* fullest = Fullest(*catalog.group);
  const Bytes kept{kKeptForLvm + kKeptPerVolume * catalog.records.size()};
  if (fullest == nullptr || fullest->metadata_free >= kept + more) {
    return Ok();
  }
  return Error(
      Code::kNoSpace,
      fmt::format("the metadata area of volume group {} is full: {} has {} left, {} are kept for the use and "
                  "deletion of existing volumes, and this change takes up to {}. Delete volumes, or give the "
                  "group larger metadata areas",
                  catalog.group->name, fullest->device, HumanBytes(fullest->metadata_free), HumanBytes(kept),
                  HumanBytes(more)));
}

}  // namespace quarry::engine
