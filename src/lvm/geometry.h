// What a volume is made of: its type, how many legs it has, and the sizes that follow from them. Values in,
// values out, as in layout.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace quarry::lvm {

enum class VolumeType { kLinear, kStriped, kRaid0, kRaid1, kRaid4, kRaid5, kRaid6, kRaid10 };

// "linear", "raid5", …: the words of the `type` parameter, and LVM's --type argument.
std::string_view TypeName(VolumeType type);
// kInvalidArgument listing the words there are.
Result<VolumeType> ParseVolumeType(std::string_view word);

// What a volume is made of. Valid by construction: made by Geometry::Make only.
struct GeometryRequest {
  VolumeType type = VolumeType::kLinear;
  uint32_t stripes = 0;  // data stripes; 0: the least the type allows
  uint32_t mirrors = 0;  // copies beyond the first, raid1 and raid10; 0: 1
  Bytes stripe_size;     // 0: 64 KiB where the type has stripes
  Bytes region_size;     // 0: 2 MiB (never less than the stripe size) where the type has regions
  bool integrity = false;
};

class Geometry {
 public:
  // kInvalidArgument naming the parameter ("stripes", "mirrors", "stripesize", "regionsize", "integrity") and
  // the values it may have: a type without stripes given stripes, fewer than it allows, sizes that are no
  // power of two, … The limits are those of lvcreate (tools/lvcreate.c) and dm-raid. integrity is always
  // refused: where LVM would put its checksums cannot be planned (docs/capacity.md).
  static Result<Geometry> Make(const GeometryRequest& request);

  VolumeType type() const { return type_; }
  // D: legs that hold data of their own. 1 for linear and raid1.
  uint32_t data_legs() const { return data_legs_; }
  // N: legs in all, each on a PV of its own. 1 for linear.
  uint32_t legs() const { return legs_; }
  uint32_t mirrors() const { return mirrors_; }
  // 0 where the type has none.
  Bytes stripe_size() const { return stripe_size_; }
  // 0 where the type has none. LVM halves it for a volume that is smaller and doubles it beyond 2^21 regions.
  Bytes region_size() const { return region_size_; }
  // False: Make() refuses true.
  bool integrity() const { return false; }
  // raid1/4/5/6/10 keep a metadata sub-volume per leg; linear, striped and raid0 do not.
  bool has_metadata() const;
  // "raid5 with 3 stripes": for messages.
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

// From this extent size on a leg's metadata sub-volume is one extent, however large the leg grows: 8 KiB and
// one bit for each of at most 2^21 regions. LVM sizes it at creation and never extends it.
inline constexpr Bytes kMinRaidExtent{512 * kKiB.value};
inline constexpr uint64_t kMetadataExtents = 1;

// Whether a group with extents of this size can hold such volumes at all. kOutOfRange: the stripe size does
// not divide the extent size, or a type with metadata on extents below kMinRaidExtent.
Status CheckExtentSize(const Geometry& geometry, Bytes extent_size);

// Size that a request becomes: rounded up to whole extents and to a multiple of data_legs extents. At least
// one granule.
Extents RoundUp(const Geometry& geometry, Bytes size, Bytes extent_size);
// Smallest step between two possible sizes.
Bytes Granule(const Geometry& geometry, Bytes extent_size);

}  // namespace quarry::lvm
