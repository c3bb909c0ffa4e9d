#include "lvm/geometry.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

// The limits here are lvcreate's (lvm2 2.03.16 … 2.03.31, tools/lvcreate.c and tools/toollib.c) and
// dm-raid's.
constexpr Bytes kDefaultStripe{64 * kKiB.value};
constexpr Bytes kDefaultRegion{2 * kMiB.value};
constexpr Bytes kSmallestUnit{4 * kKiB.value};  // a page: the smallest stripe or region that LVM accepts
constexpr Bytes kLargestUnit{kGiB};
constexpr uint32_t kMaxStripedLegs = 128;  // MAX_STRIPES
constexpr uint32_t kMaxRaidLegs = 64;      // DEFAULT_RAID_MAX_IMAGES

struct TypeFacts {
  VolumeType type;
  std::string_view name;
  uint32_t min_stripes;  // 0: the type has no stripes
  uint32_t max_stripes;
  uint32_t parity;  // legs beyond the stripes
  bool mirrored;
  bool metadata;
};

constexpr std::array<TypeFacts, 8> kTypes = {{
    {VolumeType::kLinear, "linear", 0, 0, 0, false, false},
    {VolumeType::kStriped, "striped", 2, kMaxStripedLegs, 0, false, false},
    {VolumeType::kRaid0, "raid0", 2, kMaxRaidLegs, 0, false, false},
    {VolumeType::kRaid1, "raid1", 0, 0, 0, true, true},
    {VolumeType::kRaid4, "raid4", 2, kMaxRaidLegs - 1, 1, false, true},
    {VolumeType::kRaid5, "raid5", 2, kMaxRaidLegs - 1, 1, false, true},
    {VolumeType::kRaid6, "raid6", 3, kMaxRaidLegs - 2, 2, false, true},
    {VolumeType::kRaid10, "raid10", 2, kMaxRaidLegs / 2, 0, true, true},
}};

const TypeFacts& FactsOf(VolumeType type) {
  return *std::ranges::find(kTypes, type, &TypeFacts::type);
}

Error Invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

Result<uint32_t> StripesFor(const TypeFacts& facts, uint32_t asked) {
  if (facts.min_stripes == 0) {
    if (asked != 0) {
      return Invalid(fmt::format("stripes: {} has no stripes", facts.name));
    }
    return uint32_t{1};
  }
  const uint32_t stripes = asked == 0 ? facts.min_stripes : asked;
  if (stripes < facts.min_stripes || stripes > facts.max_stripes) {
    return Invalid(fmt::format("stripes: {} takes {} to {}, not {}", facts.name, facts.min_stripes,
                               facts.max_stripes, asked));
  }
  return stripes;
}

Result<uint32_t> MirrorsFor(const TypeFacts& facts, uint32_t asked) {
  if (!facts.mirrored) {
    if (asked != 0) {
      return Invalid(fmt::format("mirrors: {} has no mirrors", facts.name));
    }
    return uint32_t{0};
  }
  const uint32_t mirrors = asked == 0 ? 1 : asked;
  const uint32_t most = facts.type == VolumeType::kRaid10 ? 1 : kMaxRaidLegs - 1;
  if (mirrors > most) {
    return Invalid(most == 1
                       ? fmt::format("mirrors: LVM makes {} with mirrors=1 only, not {}", facts.name, asked)
                       : fmt::format("mirrors: {} takes 1 to {}, not {}", facts.name, most, asked));
  }
  return mirrors;
}

Result<Bytes> UnitFor(std::string_view parameter, const TypeFacts& facts, bool allowed, Bytes asked,
                      Bytes otherwise) {
  if (!allowed) {
    if (asked.value != 0) {
      return Invalid(fmt::format("{}: {} has none", parameter, facts.name));
    }
    return Bytes{};
  }
  if (asked.value == 0) {
    return otherwise;
  }
  if (!std::has_single_bit(asked.value) || asked < kSmallestUnit || asked > kLargestUnit) {
    return Invalid(fmt::format("{}: must be a power of two from {} to {}, not {} ({} bytes)", parameter,
                               HumanBytes(kSmallestUnit), HumanBytes(kLargestUnit), HumanBytes(asked),
                               asked.value));
  }
  return asked;
}

}  // namespace

std::string_view TypeName(VolumeType type) {
  return FactsOf(type).name;
}

Result<VolumeType> ParseVolumeType(std::string_view word) {
  const auto* found = std::ranges::find(kTypes, word, &TypeFacts::name);
  if (found == kTypes.end()) {
    return Invalid(fmt::format(
        "type: must be linear, striped, raid0, raid1, raid4, raid5, raid6 or raid10, not '{}'", word));
  }
  return found->type;
}

Result<Geometry> Geometry::Make(const GeometryRequest& request) {
  const TypeFacts& facts = FactsOf(request.type);
  if (request.integrity) {
    return Invalid("integrity: not offered, because Quarry cannot plan where LVM puts the checksums");
  }
  QUARRY_ASSIGN(const uint32_t stripes, StripesFor(facts, request.stripes));
  QUARRY_ASSIGN(const uint32_t mirrors, MirrorsFor(facts, request.mirrors));
  QUARRY_ASSIGN(const Bytes stripe_size,
                UnitFor("stripesize", facts, facts.min_stripes != 0, request.stripe_size, kDefaultStripe));
  QUARRY_ASSIGN(const Bytes region_size, UnitFor("regionsize", facts, facts.metadata, request.region_size,
                                                 std::max(kDefaultRegion, stripe_size)));
  if (facts.metadata && region_size < stripe_size) {
    return Invalid(fmt::format("regionsize: {} is less than the stripe size of {}", HumanBytes(region_size),
                               HumanBytes(stripe_size)));
  }
  Geometry made;
  made.type_ = request.type;
  made.data_legs_ = stripes;
  made.mirrors_ = mirrors;
  made.legs_ = stripes * (mirrors + 1) + facts.parity;
  made.stripe_size_ = stripe_size;
  made.region_size_ = region_size;
  return made;
}

bool Geometry::has_metadata() const {
  return FactsOf(type_).metadata;
}

std::string Geometry::Describe() const {
  const TypeFacts& facts = FactsOf(type_);
  if (facts.min_stripes != 0) {
    return fmt::format("{} with {} stripes", facts.name, data_legs_);
  }
  if (facts.mirrored) {
    return fmt::format("{} with {} mirror{}", facts.name, mirrors_, mirrors_ == 1 ? "" : "s");
  }
  return std::string(facts.name);
}

Status CheckExtentSize(const Geometry& geometry, Bytes extent_size) {
  const Bytes stripe = geometry.stripe_size();
  if (stripe.value != 0 && extent_size.value % stripe.value != 0) {
    return Error(Code::kOutOfRange, fmt::format("stripesize: {} does not divide the group's extents of {}",
                                                HumanBytes(stripe), HumanBytes(extent_size)));
  }
  if (geometry.has_metadata() && extent_size < kMinRaidExtent) {
    return Error(Code::kOutOfRange,
                 fmt::format("{} needs a group with extents of at least {}, this one has {}",
                             TypeName(geometry.type()), HumanBytes(kMinRaidExtent), HumanBytes(extent_size)));
  }
  return Ok();
}

Extents RoundUp(const Geometry& geometry, Bytes size, Bytes extent_size) {
  const uint64_t extents = std::max<uint64_t>(CeilToExtents(size, extent_size).value, 1);
  const uint64_t step = geometry.data_legs();
  return {(extents + step - 1) / step * step};
}

Bytes Granule(const Geometry& geometry, Bytes extent_size) {
  return ToBytes(Extents{geometry.data_legs()}, extent_size);
}

}  // namespace quarry::lvm
