// What a volume is made of: its type, its number of legs, and the sizes that follow from them. Values in,
// values out, as in layout.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace quarry::lvm {

enum class VolumeType { kLinear, kStriped, kRaid0, kRaid1, kRaid4, kRaid5, kRaid6, kRaid10 };

// "linear", "raid5", …: the values of the `type` parameter, and of LVM's --type.
std::string_view TypeName(VolumeType type);
// kInvalidArgument listing the valid words.
Result<VolumeType> ParseVolumeType(std::string_view word);

// A request for a geometry, unchecked. Geometry::Make checks it and fills in the defaults.
struct GeometryRequest {
  VolumeType type = VolumeType::kLinear;
  uint32_t stripes = 0;  // data stripes; 0: the minimum of the type
  uint32_t mirrors = 0;  // copies beyond the first, for raid1 and raid10; 0 means 1
  Bytes stripe_size;     // 0: 64 KiB where the type has stripes
  Bytes region_size;     // 0: 2 MiB (never less than the stripe size) where the type has regions
  bool integrity = false;
};

class Geometry {
 public:
  // kInvalidArgument names the parameter ("stripes", "mirrors", "stripesize", "regionsize", "integrity") and
  // its valid values. Examples: stripes for a type without stripes, fewer stripes than the type needs, a size
  // that is not a power of two. The limits are those of lvcreate (tools/lvcreate.c) and dm-raid. integrity is
  // always refused: Quarry cannot plan where LVM puts the checksums (docs/capacity.md).
  static Result<Geometry> Make(const GeometryRequest& request);

  VolumeType type() const { return type_; }
  // D: legs with data of their own. 1 for linear and raid1.
  uint32_t data_legs() const { return data_legs_; }
  // N: all legs, each on a PV of its own. 1 for linear.
  uint32_t legs() const { return legs_; }
  uint32_t mirrors() const { return mirrors_; }
  // 0 where the type has none.
  Bytes stripe_size() const { return stripe_size_; }
  // 0 where the type has none. LVM halves it if the volume is smaller than one region, and doubles it if
  // there would be more than 2^21 regions.
  Bytes region_size() const { return region_size_; }
  // Always false: Make() refuses true.
  bool integrity() const { return false; }
  // raid1/4/5/6/10 keep a metadata sub-volume per leg; linear, striped and raid0 do not.
  bool has_metadata() const;
  // "raid5 with 3 stripes", for messages.
  std::string Describe() const;

 private:
  Geometry() = default;
  VolumeType type_ = VolumeType::kLinear;
  uint32_t data_legs_ = 1;
  uint32_t legs_ = 1;
  uint32_t mirrors_ = 0;
  Bytes stripe_size_;
  Bytes region_size_;
};

// From this extent size on, a leg's metadata sub-volume is one extent, however large the leg grows. It needs
// 8 KiB and one bit for each region. There are at most 2^21 regions, so it needs at most 264 KiB. LVM sizes
// it at creation and never extends it.
inline constexpr Bytes kMinRaidExtent{512 * kKiB.value};
inline constexpr uint64_t kMetadataExtents = 1;

// Whether a group with this extent size can hold such volumes at all. kOutOfRange: the stripe size does not
// divide the extent size, or the type has metadata and extents are smaller than kMinRaidExtent.
Status CheckExtentSize(const Geometry& geometry, Bytes extent_size);

// The size that a request becomes: rounded up to whole extents and to a multiple of data_legs extents, and at
// least one granule.
Extents RoundUp(const Geometry& geometry, Bytes size, Bytes extent_size);
// The smallest step between two possible sizes.
Bytes Granule(const Geometry& geometry, Bytes extent_size);

}  // namespace quarry::lvm
