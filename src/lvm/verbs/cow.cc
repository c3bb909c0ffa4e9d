#include "lvm/verbs/cow.h"

#include <fmt/format.h>

#include "lvm/verbs/volume.h"

namespace quarry::lvm {
namespace {

// LVM's text has a hidden LV for the bond between volume and store, of some 300 bytes.
constexpr uint64_t kBondText = 500;

}  // namespace

Extents CowStoreSize(Bytes volume, Bytes extent_size) {
  constexpr uint64_t kRecord = 16;
  const uint64_t chunk = kCowChunk.value;
  const uint64_t chunks = (volume.value + chunk - 1) / chunk;
  const uint64_t per_area = chunk / kRecord;
  const uint64_t areas = (chunks + per_area) / per_area;  // the last one ends with a free record
  return CeilToExtents({(1 + chunks + areas) * chunk}, extent_size);
}

std::string CreateCow::Text() const {
  return fmt::format("keep the present bytes of {} in {}: {} extents on {}", Object(), store,
                     step.logical_extents.value, fmt::join(step.pv_arguments, " "));
}

Result<Words> CreateCow::Arguments() const {
  QUARRY_TRY(CheckNames(group, name));
  QUARRY_TRY(CheckNames(group, store));
  Words out = {"lvcreate",
               "-y",
               "--snapshot",
               "--name",
               store,
               "--extents",
               fmt::format("{}", step.logical_extents.value),
               "--chunksize",
               Kib(kCowChunk),
               "--alloc",
               step.alloc,
               "--setactivationskip",
               "y"};
  AppendTags(out, tags, {});
  Append(out, {"--", Object()});
  Append(out, step.pv_arguments);
  return out;
}

Bytes CreateCow::MetadataText() const {
  uint64_t text = kBondText;
  for (const std::string& tag : tags) {
    text += tag.size() + 4;
  }
  return {MetadataTextOf(Geometry::Make({}).value()).value + text};
}

std::string SplitCow::Text() const {
  return fmt::format("separate {} from {}, whose former bytes it keeps", Object(), name);
}

Result<Words> SplitCow::Arguments() const {
  QUARRY_TRY(CheckNames(group, store));
  return Words{"lvconvert", "-y", "--splitsnapshot", "--", Object()};
}

std::string DropCow::Text() const {
  return fmt::format("remove {}, whose disks are missing, from {}", Object(), name);
}

// lvremove has no --activationmode, but obeys the setting. Without it, LVM refuses to reload the volume.
Result<Words> DropCow::Arguments() const {
  QUARRY_TRY(CheckNames(group, store));
  return Words{"lvremove", "-y", "--config", "activation/activation_mode=partial", "--", Object()};
}

}  // namespace quarry::lvm
