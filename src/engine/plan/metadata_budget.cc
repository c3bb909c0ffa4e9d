#include "engine/plan/metadata_budget.h"

#include <algorithm>
#include <optional>
#include <variant>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

// In LVM's texts (tests/fixtures/lvm/texts) a linear volume of one segment takes some 350 bytes besides its
// tags. A RAID leg, and its metadata leg, take 310 bytes each and their name once more. Each further segment
// takes 125. The constants leave space for longer names.
constexpr uint64_t kLvText = 600;
constexpr uint64_t kSegmentText = 220;
constexpr uint64_t kTagsText = 1024;  // for a volume with a name of the usual length
constexpr uint64_t kTagPunctuation = 4;

// The tag "formatted" is still to be added, "erasing" is longer than "ready", and sizes get more digits.
constexpr uint64_t kKeptPerVolume = 128;
// The text that LVM adds temporarily while it changes a RAID volume, and the sequence number.
constexpr uint64_t kKeptForLvm = 4096;

uint64_t LvsOf(const lvm::Geometry& geometry) {
  const uint64_t per_leg = geometry.has_metadata() ? 2 : 1;
  return 1 + (geometry.legs() > 1 ? geometry.legs() * per_leg : 0);
}

uint64_t TextOf(const std::vector<std::string>& tags) {
  uint64_t sum = 0;
  for (const std::string& tag : tags) {
    sum += tag.size() + kTagPunctuation;
  }
  return sum;
}

uint64_t TextOf(const Action& action) {
  if (const auto* create = std::get_if<CreateLvAction>(&action); create != nullptr) {
    const uint64_t lvs = LvsOf(create->spec.geometry);
    return lvs * (kLvText + TextOf(create->spec.tags));  // LVM copies the tags onto metadata legs
  }
  if (const auto* extend = std::get_if<ExtendLvAction>(&action); extend != nullptr) {
    return (1 + extend->spec.geometry.legs()) * kSegmentText;
  }
  const auto* retag = std::get_if<RetagAction>(&action);
  return retag != nullptr ? TextOf(retag->add) : 0;
}

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

Bytes MetadataFor(const Plan& plan) {
  uint64_t sum = 0;
  for (const Action& action : plan) {
    sum += TextOf(action);
  }
  return {sum};
}

Bytes MetadataForVolume(const lvm::Geometry& geometry) {
  return {LvsOf(geometry) * kLvText + kTagsText};
}

Bytes MetadataKept(const Catalog& catalog) {
  return {kKeptForLvm + kKeptPerVolume * catalog.records.size()};
}

Status CheckMetadataRoom(const Catalog& catalog, Bytes more) {
  const lvm::PhysicalVolume* fullest = Fullest(*catalog.group);
  const Bytes kept = MetadataKept(catalog);
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
