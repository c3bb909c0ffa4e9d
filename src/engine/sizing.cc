#include "engine/sizing.h"

#include <algorithm>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

std::string SizeText(Bytes bytes) {
  return fmt::format("{} ({} bytes)", HumanBytes(bytes), bytes.value);
}

// The largest size of whole granules that is at most `limit`.
Extents RoundDown(const lvm::Geometry& geometry, Bytes limit, Bytes extent_size) {
  const Bytes granule = lvm::Granule(geometry, extent_size);
  return {limit.value / granule.value * (granule.value / extent_size.value)};
}

Error NoSizeFits(Bytes limit, Extents above, const lvm::Geometry& geometry, Bytes extent_size) {
  const Extents below = RoundDown(geometry, limit, extent_size);
  return Error(
      Code::kOutOfRange,
      fmt::format(
          "capacity_range.limit_bytes: sizes of {} are multiples of {}; nearest to the limit of {} bytes "
          "are {} and {}",
          geometry.Describe(), SizeText(lvm::Granule(geometry, extent_size)), limit.value,
          SizeText(ToBytes(below, extent_size)), SizeText(ToBytes(above, extent_size))));
}

}  // namespace

Result<Extents> SizeForCreate(const CapacityRange& range, const lvm::Geometry& geometry, Bytes extent_size,
                              Bytes default_size, Bytes least) {
  const bool limited = range.limit > Bytes{0};
  if (limited && range.limit < least) {
    return Error(Code::kOutOfRange,
                 fmt::format("capacity_range.limit_bytes: is {}, the smallest volume of this kind is {}",
                             range.limit.value, SizeText(least)));
  }
  Bytes wanted = range.required;
  if (wanted == Bytes{0}) {
    wanted = limited ? std::min(default_size, range.limit) : default_size;
    if (limited && ToBytes(lvm::RoundUp(geometry, wanted, extent_size), extent_size) > range.limit) {
      wanted = ToBytes(RoundDown(geometry, range.limit, extent_size), extent_size);
    }
  }
  wanted = std::max({wanted, least, Bytes{1}});
  const Extents size = lvm::RoundUp(geometry, wanted, extent_size);
  if (limited && ToBytes(size, extent_size) > range.limit) {
    return NoSizeFits(range.limit, size, geometry, extent_size);
  }
  return size;
}

Result<Extents> SizeForExpand(const CapacityRange& range, const lvm::Geometry& geometry, Bytes extent_size,
                              Extents current) {
  const bool limited = range.limit > Bytes{0};
  const Bytes now = ToBytes(current, extent_size);
  if (limited && now > range.limit) {
    return Error(Code::kOutOfRange,
                 fmt::format("capacity_range.limit_bytes: is {}, the volume already has {} and cannot shrink",
                             range.limit.value, SizeText(now)));
  }
  if (now >= range.required) {
    return current;
  }
  const Extents size = lvm::RoundUp(geometry, range.required, extent_size);
  if (limited && ToBytes(size, extent_size) > range.limit) {
    return NoSizeFits(range.limit, size, geometry, extent_size);
  }
  return size;
}

lvm::FreeSpace PoolSpace(const lvm::VolumeGroup& group, Bytes reserve) {
  lvm::FreeSpace space = lvm::FreeSpaceOf(group);
  space.reserve = CeilToExtents(reserve, group.extent_size);
  return space;
}

Bytes ErasingBytes(const Catalog& catalog) {
  Bytes sum;
  for (const Record& record : catalog.records) {
    if (record.tags.state == lvm::VolumeState::kErasing) {
      for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(*catalog.group, *record.lv)) {
        sum = sum + ToBytes(range.range.count, catalog.group->extent_size);
      }
    }
  }
  return sum;
}

lvm::FreeSpace PoolSpaceAfterErasing(const Catalog& catalog, Bytes reserve) {
  lvm::VolumeGroup later = *catalog.group;
  for (const Record& record : catalog.records) {
    if (record.tags.state != lvm::VolumeState::kErasing) {
      continue;
    }
    for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(*catalog.group, *record.lv)) {
      for (lvm::PhysicalVolume& pv : later.pvs) {
        if (pv.uuid == range.pv_uuid) {
          pv.free.push_back(range.range);
        }
      }
    }
  }
  for (lvm::PhysicalVolume& pv : later.pvs) {
    std::sort(pv.free.begin(), pv.free.end());
    std::vector<lvm::ExtentRange> merged;
    for (const lvm::ExtentRange& range : pv.free) {
      if (!merged.empty() && merged.back().end() == range.first) {
        merged.back().count += range.count;
      } else {
        merged.push_back(range);
      }
    }
    pv.free = std::move(merged);
  }
  return PoolSpace(later, reserve);
}

Status CheckTarget(dm::DmApi& dm, const lvm::Geometry& geometry) {
  std::string target = "raid";
  if (geometry.type() == lvm::VolumeType::kLinear) {
    target = "linear";
  } else if (geometry.type() == lvm::VolumeType::kStriped) {
    target = "striped";
  }
  QUARRY_ASSIGN(const bool there, dm.HasTarget(target));
  if (!there) {
    return Error(
        Code::kInvalidArgument,
        fmt::format(
            "parameters['type']: {} needs the device-mapper target '{}', which this kernel does not have",
            lvm::TypeName(geometry.type()), target));
  }
  return Ok();
}

}  // namespace quarry::engine
