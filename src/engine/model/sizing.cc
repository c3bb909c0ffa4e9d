#include "engine/model/sizing.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/config.h"
#include "engine/model/failing_disks.h"

namespace quarry::engine {
namespace {

std::string SizeText(Bytes bytes) {
  return fmt::format("{} ({} bytes)", HumanBytes(bytes), bytes.value);
}

// The largest size in whole granules that is not above `limit`.
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

// Type of an LV as LVM reports it: "raid5_ls" is raid5. Unknown types count as linear.
lvm::VolumeType TypeOf(const lvm::LogicalVolume& lv) {
  const std::string_view word = std::string_view(lv.segment_type).substr(0, lv.segment_type.find('_'));
  return lvm::ParseVolumeType(word).value_or(lvm::VolumeType::kLinear);
}

// Largest size of a volume, or of a growth, whose legs together take at most `raw` extents. `fresh`: a new
// volume, which has metadata.
Extents DataWithin(const lvm::Geometry& geometry, Extents raw, bool fresh) {
  const uint64_t per_leg = raw.value / geometry.legs();
  const uint64_t metadata = fresh && geometry.has_metadata() ? lvm::kMetadataExtents : 0;
  return {(per_leg - std::min(per_leg, metadata)) * geometry.data_legs()};
}

lvm::FreeSpace PromisedSpace(const lvm::VolumeGroup& group, const UnhealthyDisks& weak,
                             const PoolConfig& pool) {
  lvm::FreeSpace space = Without(lvm::FreeSpaceOf(group), Excluded(group, weak));
  space.reserve = CeilToExtents(pool.reserve, group.extent_size);
  return space;
}

// Whether the eraser works on it or will, so that its extents become free soon. A store of a copy that is
// still bound to its volume may be so for long (plan/plan_cow.h).
bool WillGo(const Catalog& catalog, const Record& record) {
  return IsErasing(record) && !catalog.copying.contains(record.lv->name) && record.lv->origin.empty();
}

bool IsFreeZeroing(const Catalog& catalog, const Record& record) {
  return std::ranges::find(catalog.free_zeroing, record.lv->name) != catalog.free_zeroing.end();
}

// The bytes of all records that `are`.
Bytes SumOf(const Catalog& catalog, const auto& are) {
  Bytes sum;
  for (const Record& record : catalog.records) {
    for (const lvm::PhysicalRange& range :
         are(record) ? lvm::PhysicalExtents(*catalog.group, *record.lv) : std::vector<lvm::PhysicalRange>()) {
      sum = sum + ToBytes(range.range.count, catalog.group->extent_size);
    }
  }
  return sum;
}

// The pool's space as if all records that `are` were gone.
lvm::FreeSpace SpaceWithout(const Catalog& catalog, const PoolConfig& pool, const auto& are) {
  if (std::ranges::none_of(catalog.records, are)) {
    return PromisedSpace(*catalog.group, catalog.weak, pool);
  }
  lvm::VolumeGroup later = *catalog.group;
  for (const Record& record : catalog.records) {
    if (!are(record)) {
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
  return PromisedSpace(later, catalog.weak, pool);
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

lvm::FreeSpace PoolSpace(const Catalog& catalog, const PoolConfig& pool) {
  return PromisedSpace(*catalog.group, catalog.weak, pool);
}

Extents ShareLeft(const Catalog& catalog, const PoolConfig& pool, lvm::VolumeType type) {
  const lvm::VolumeGroup& group = *catalog.group;
  if (pool.shares.empty()) {
    return group.extent_count;
  }
  const auto named = [&](lvm::VolumeType t) { return pool.shares.contains(t); };
  uint64_t percent = 100;
  if (named(type)) {
    percent = pool.shares.at(type);
  } else {
    for (const auto& [unused, share] : pool.shares) {
      percent -= std::min<uint64_t>(percent, share);
    }
  }
  uint64_t taken = 0;
  for (const Record& record : catalog.records) {
    if (IsFreeZeroing(catalog, record)) {
      continue;
    }
    const auto theirs = TypeOf(*record.lv);
    if (theirs == type || (!named(type) && !named(theirs))) {
      for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(group, *record.lv)) {
        taken += range.range.count.value;
      }
    }
  }
  for (const Store& store : catalog.stores) {
    const auto theirs = TypeOf(*store.data);
    if (theirs == type || (!named(type) && !named(theirs))) {
      for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(group, *store.lv)) {
        taken += range.range.count.value;
      }
    }
  }
  const uint64_t reserve = std::min(CeilToExtents(pool.reserve, group.extent_size), group.extent_count).value;
  // Divide first. Extent counts times 100 would overflow only in groups larger than any real disk, but this
  // order costs nothing.
  const uint64_t usable = group.extent_count.value - reserve;
  const uint64_t share = usable / 100 * percent + usable % 100 * percent / 100;
  return {share - std::min(share, taken)};
}

Status CheckShare(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry, Extents more,
                  bool fresh) {
  const Extents left = ShareLeft(catalog, pool, geometry.type());
  if (pool.shares.empty() || more <= DataWithin(geometry, left, fresh)) {
    return Ok();
  }
  const Bytes extent = catalog.group->extent_size;
  return Error(Code::kNoSpace, fmt::format("the share of {} volumes has {} left, which is {} of data",
                                           TypeName(geometry.type()), SizeText(ToBytes(left, extent)),
                                           SizeText(ToBytes(DataWithin(geometry, left, fresh), extent))));
}

Extents Largest(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry) {
  const Extents placeable = lvm::MaxExtents(PoolSpaceAfterZeroing(catalog, pool), geometry);
  return pool.shares.empty()
             ? placeable
             : std::min(placeable, DataWithin(geometry, ShareLeft(catalog, pool, geometry.type()), true));
}

Status CheckRoom(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry,
                 Extents size) {
  QUARRY_TRY(CheckShare(catalog, pool, geometry, size, true));
  auto placed = lvm::Place(PoolSpaceAfterZeroing(catalog, pool), geometry, size, *catalog.group);
  return placed.has_value() ? Ok() : Status(ReportExcluded(std::move(placed.error()), catalog));
}

Bytes ErasingBytes(const Catalog& catalog) {
  return SumOf(catalog, [&](const Record& record) { return WillGo(catalog, record); });
}

Bytes FreeZeroingBytes(const Catalog& catalog) {
  return SumOf(catalog, [&](const Record& record) { return IsFreeZeroing(catalog, record); });
}

lvm::FreeSpace PoolSpaceAfterZeroing(const Catalog& catalog, const PoolConfig& pool) {
  return SpaceWithout(catalog, pool, [&](const Record& record) { return IsFreeZeroing(catalog, record); });
}

lvm::FreeSpace PoolSpaceAfterErasing(const Catalog& catalog, const PoolConfig& pool) {
  return SpaceWithout(catalog, pool, [&](const Record& record) {
    return WillGo(catalog, record) || IsFreeZeroing(catalog, record);
  });
}

Status CheckTarget(dm::DmApi& dm, const lvm::Geometry& geometry) {
  const lvm::VolumeType type = geometry.type();
  const std::string target = type == lvm::VolumeType::kLinear    ? "linear"
                             : type == lvm::VolumeType::kStriped ? "striped"
                                                                 : "raid";
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

Status CheckVolumeLimit(const Catalog& catalog) {
  const lvm::VolumeGroup& group = *catalog.group;
  const auto shown = static_cast<uint64_t>(std::ranges::count(group.lvs, false, &lvm::LogicalVolume::hidden));
  if (group.max_lvs == 0 || shown < group.max_lvs) {
    return Ok();
  }
  const bool going =
      std::ranges::any_of(catalog.records, [&](const Record& record) { return WillGo(catalog, record); });
  return Error(going ? Code::kUnavailable : Code::kNoSpace,
               fmt::format("volume group {} may have {} logical volumes and has {}{}; `vgchange "
                           "--maxlogicalvolumes 0 {}` lifts the limit",
                           group.name, group.max_lvs, shown,
                           going ? "; some of them are being erased and will make room" : "", group.name));
}

}  // namespace quarry::engine
