#include "lvm/ownership.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::lvm {
namespace {

// Raid types that LVM creates or converts to. Their legs are hidden volumes called "<volume>_rimage_<n>".
constexpr auto kRaidTypes = std::to_array<std::string_view>(
    {"raid0",    "raid0_meta", "raid1",      "raid10",     "raid10_near", "raid4",      "raid5",
     "raid5_ls", "raid5_la",   "raid5_rs",   "raid5_ra",   "raid5_n",     "raid6",      "raid6_zr",
     "raid6_nr", "raid6_nc",   "raid6_ls_6", "raid6_la_6", "raid6_rs_6",  "raid6_ra_6", "raid6_n_6"});

bool IsRaid(std::string_view type) {
  return std::ranges::find(kRaidTypes, type) != kRaidTypes.end();
}

Error Stacked(std::string message) {
  return {Code::kPrecondition, std::move(message)};
}
Error Unknown(std::string message) {
  return {Code::kUnsupported, std::move(message)};
}

// "<lv>_rimage_<n>".
bool IsLegName(std::string_view name, std::string_view lv) {
  return IsLegOf(name, lv) && name.substr(lv.size()).starts_with("_rimage_");
}

// A leg, or a leg's metadata, as LVM names it.
bool IsPartName(std::string_view name, std::string_view lv) {
  constexpr std::string_view kMetadata = "_rmeta_";
  return IsLegName(name, lv) || (name.starts_with(lv) && name.substr(lv.size()).starts_with(kMetadata) &&
                                 !name.ends_with("_extracted"));
}

class Proof {
 public:
  // `with_stores`: stores of copies may be bound to the volume. `thin_pool`: of which the volume is a part.
  Proof(const VolumeGroup& group, const LogicalVolume& lv, bool with_stores = false,
        const LogicalVolume* thin_pool = nullptr)
      : group_(group), lv_(lv), with_stores_(with_stores), thin_pool_(thin_pool), parts_{lv.name} {}

  Result<std::vector<PhysicalRange>> Make() {
    if (lv_.hidden && thin_pool_ == nullptr) {
      return Stacked("it is a hidden part of another logical volume: take that apart first");
    }
    QUARRY_TRY(NothingStandsOn(lv_.name));
    Extents at;
    for (const Segment& segment : lv_.segments) {
      if (segment.logical.first != at) {
        return Unknown("its segments have gaps or overlap");
      }
      at = segment.logical.end();
      QUARRY_TRY(TakeSegment(segment));
    }
    if (lv_.segments.empty() || ToBytes(at, group_.extent_size) != lv_.size) {
      return Unknown("its segments do not add up to its size");
    }
    if (!lv_.origin.empty() && IsOurLvName(lv_.name) && IsCowStore(lv_.tags)) {
      return Error(
          Code::kUnavailable,
          fmt::format("it keeps the bytes of {} for a copy; wait until that ends", Path(lv_.origin)));
    }
    const auto is_bound = [&](const LogicalVolume& other) { return IsBoundStore(other, lv_.name); };
    if (!lv_.independent && thin_pool_ == nullptr &&
        !(with_stores_ && std::ranges::any_of(group_.lvs, is_bound))) {
      return Stacked(
          "it is the origin or a part of another logical volume (see lv_role of lvs): remove that first");
    }
    QUARRY_TRY(CheckRanges());
    QUARRY_TRY(CheckOthers());
    return std::move(ranges_);
  }

  // For a volume that may be half made: legs are recognized by name.
  Status IsUncovered() {
    for (const LogicalVolume& part : group_.lvs) {
      if (IsPartName(part.name, lv_.name)) {
        parts_.insert(part.name);
      }
    }
    for (const std::string& part : parts_) {
      QUARRY_TRY(NothingStandsOn(part));
      for (const Segment& segment : group_.FindLv(part)->segments) {
        if (segment.type.starts_with("cache") || segment.type == "writecache" ||
            segment.type.ends_with("-pool")) {
          return Refuse(segment);
        }
        for (const SegmentArea& area : segment.areas) {
          if (const LogicalVolume* below = group_.FindLv(area.lv_name);
              below != nullptr && IsPvmove(*below)) {
            return Below(area.lv_name, part == lv_.name ? "it" : "its leg " + Path(part));
          }
        }
      }
    }
    return CheckOthers();
  }

 private:
  std::string Path(std::string_view name) const { return fmt::format("{}/{}", group_.name, name); }

  static bool IsBoundStore(const LogicalVolume& other, std::string_view name) {
    return other.origin == name && IsOurLvName(other.name) && IsCowStore(other.tags);
  }

  // Fails if an LV has `name` (the volume or one of its legs) as its origin or its pool.
  Status NothingStandsOn(std::string_view name) const {
    for (const LogicalVolume& other : group_.lvs) {
      if (other.origin == name && !(with_stores_ && IsBoundStore(other, lv_.name))) {
        return StandsAsSnapshot(other);
      }
    }
    for (const LogicalVolume& other : group_.lvs) {
      if (other.pool == name) {
        return Stacked(fmt::format(
            "it was made a pool ({}) in which {} lies: remove both (lvremove) if they are no longer needed",
            lv_.segment_type, Path(other.name)));
      }
    }
    return Ok();
  }

  Status StandsAsSnapshot(const LogicalVolume& other) const {
    if (other.hidden && !other.segment_type.starts_with("thin")) {
      return Error(
          Code::kUnavailable,
          fmt::format("the snapshot {} is being merged into it; wait until that ends", Path(other.name)));
    }
    if (IsOurLvName(other.name) && IsCowStore(other.tags)) {
      return Error(Code::kUnavailable,
                   fmt::format("it is being copied, or was a moment ago (to {}); wait until that ends",
                               Path(other.name)));
    }
    if (other.segment_type == "thin") {
      return Stacked(fmt::format("{} is a thin clone of it: remove that first", Path(other.name)));
    }
    return Stacked(fmt::format("{} is a snapshot of it: remove that first", Path(other.name)));
  }

  Status TakeSegment(const Segment& segment) {
    if (segment.type == "linear" || segment.type == "striped") {
      return TakeAreas(segment, "it");
    }
    if (segment.type == "error" && segment.areas.empty()) {
      return Ok();
    }
    if (IsRaid(segment.type)) {
      return TakeLegs(segment);
    }
    return Refuse(segment);
  }

  Error Refuse(const Segment& segment) const {
    if (segment.type == "cache" || segment.type == "writecache") {
      const std::string pool = lv_.pool.empty() ? "another logical volume" : Path(lv_.pool);
      return Stacked(fmt::format("it is cached by {} ({}): take that off first (lvconvert --splitcache {})",
                                 pool, segment.type, Path(lv_.name)));
    }
    if (segment.type.ends_with("-pool")) {
      return Stacked(fmt::format("it was made a {}: remove it (lvremove {}) if it is no longer needed",
                                 segment.type, Path(lv_.name)));
    }
    if (segment.type == "thin") {
      return Stacked(
          fmt::format("it is a thin volume: its bytes lie in thin pool {}, not on extents of its own",
                      Path(lv_.pool.empty() ? "(unknown)" : lv_.pool)));
    }
    return Unknown(fmt::format("it has a segment of type {}, which Quarry does not know", segment.type));
  }

  // Collects the areas of a linear or striped segment. `what` names the volume or leg that has the segment.
  Status TakeAreas(const Segment& segment, std::string_view what) {
    if (segment.areas.empty()) {
      return Unknown(fmt::format("{} has a segment of type {} without extents", what, segment.type));
    }
    for (const SegmentArea& area : segment.areas) {
      if (area.pv_uuid.empty()) {
        return Below(area.lv_name, what);
      }
      if (area.range.count.value * segment.areas.size() != segment.logical.count.value) {
        return Unknown(
            fmt::format("{} has a {} segment whose parts do not add up to its size", what, segment.type));
      }
      ranges_.push_back({area.pv_uuid, area.range});
    }
    return Ok();
  }

  // The error for a volume found where extents of PVs should be.
  Error Below(std::string_view name, std::string_view what) const {
    const LogicalVolume* const below = group_.FindLv(name);
    if (below == nullptr || !IsPvmove(*below)) {
      return Unknown(fmt::format("{} lies on {}, which is not a disk", what, Path(name)));
    }
    const auto from = std::ranges::find(group_.pvs, below->leaves, &PhysicalVolume::device);
    if (below->leaves.empty() || from == group_.pvs.end()) {
      return {Code::kUnavailable,
              fmt::format("{} is being moved ({}); wait until that ends", what, Path(name))};
    }
    return {
        Code::kUnavailable,
        fmt::format("{} is being moved off disk {} ({}); wait until that ends. If the move was abandoned, "
                    "`pvmove` of that disk resumes it, and `pvmove --abort` cancels it",
                    what, from->uuid, Path(name))};
  }

  Status TakeLegs(const Segment& segment) {
    if (lv_.segments.size() != 1 || segment.areas.empty()) {
      return Unknown(fmt::format("it is of type {}, but does not consist of exactly one segment with legs",
                                 segment.type));
    }
    for (const SegmentArea& area : segment.areas) {
      const LogicalVolume* const leg = group_.FindLv(area.lv_name);
      if (leg == nullptr || !IsLegName(area.lv_name, lv_.name) || !parts_.insert(leg->name).second) {
        return Unknown(fmt::format("it has a leg '{}' that is not its own", area.lv_name));
      }
      if (!leg->hidden) {
        return Stacked(
            fmt::format("its leg {0} is split off and its changes are tracked: merge it back first "
                        "(lvconvert --merge {0})",
                        Path(leg->name)));
      }
      if (area.range.first != Extents{} || ToBytes(area.range.count, group_.extent_size) != leg->size) {
        return Unknown(fmt::format("it does not use exactly the whole of its leg {}", Path(leg->name)));
      }
      QUARRY_TRY(TakeLeg(*leg));
      if (segment.type != "raid0") {
        QUARRY_TRY(TakeMetadata(*leg));
      }
    }
    return Ok();
  }

  Status TakeMetadata(const LogicalVolume& leg) {
    const std::string name = MetadataLvName(leg.name);
    const LogicalVolume* const metadata = group_.FindLv(name);
    if (metadata == nullptr || !metadata->hidden || !parts_.insert(name).second) {
      return Unknown(fmt::format("its leg {} has no metadata of its own", Path(leg.name)));
    }
    return TakeLeg(*metadata);
  }

  // Collects a leg or its metadata: linear on PVs, or replaced by an error segment.
  Status TakeLeg(const LogicalVolume& leg) {
    const std::string what = "its leg " + Path(leg.name);
    QUARRY_TRY(NothingStandsOn(leg.name));
    Extents at;
    for (const Segment& segment : leg.segments) {
      if (segment.logical.first != at) {
        return Unknown(what + " has segments with gaps");
      }
      at = segment.logical.end();
      if (segment.type == "integrity") {
        return Stacked(
            fmt::format("its legs have checksums (dm-integrity): take them off first (lvconvert "
                        "--raidintegrity n {})",
                        Path(lv_.name)));
      }
      if (segment.type == "linear" && segment.areas.size() == 1) {
        QUARRY_TRY(TakeAreas(segment, what));
      } else if (segment.type != "error" || !segment.areas.empty()) {
        return Unknown(fmt::format("{} is of type {}", what, segment.type));
      }
    }
    return ToBytes(at, group_.extent_size) == leg.size
               ? Ok()
               : Status(Unknown(what + " has segments that do not add up to its size"));
  }

  // The PVs have these extents, each occurs once, and none of them is free.
  Status CheckRanges() {
    for (const PhysicalRange& range : ranges_) {
      by_pv_[range.pv_uuid].push_back(range.range);
    }
    for (auto& [uuid, ranges] : by_pv_) {
      std::ranges::sort(ranges);
      const PhysicalVolume* const pv = group_.FindPv(uuid);
      if (pv == nullptr || ranges.back().end() > pv->extent_count) {
        return Unknown(fmt::format("it has extents that disk {} does not have", uuid));
      }
      for (size_t i = 1; i < ranges.size(); ++i) {
        if (ranges[i - 1].end() > ranges[i].first) {
          return Unknown(fmt::format("it has extents of disk {} twice", uuid));
        }
      }
      for (const ExtentRange& free : pv->free) {
        if (Meets(uuid, free)) {
          return Unknown(fmt::format("it has extents of disk {} that LVM reports as free", uuid));
        }
      }
    }
    return Ok();
  }

  // No other volume names this volume, a leg of it, or an extent of either (if the extents were collected).
  Status CheckOthers() const {
    for (const LogicalVolume& other : group_.lvs) {
      if (parts_.contains(other.name) || &other == thin_pool_) {
        continue;
      }
      for (const Segment& segment : other.segments) {
        if (segment.thin_pool.has_value() && parts_.contains(segment.thin_pool->metadata_lv)) {
          return Stacked(fmt::format("it has the metadata of thin pool {}", Path(other.name)));
        }
        for (const SegmentArea& area : segment.areas) {
          if (parts_.contains(area.lv_name)) {
            return Stacked(
                fmt::format("{} is made of it, or of a leg of it: take that apart first", Path(other.name)));
          }
          if (Meets(area.pv_uuid, area.range)) {
            return Unknown(
                fmt::format("{} has some of the same extents on disk {}", Path(other.name), area.pv_uuid));
          }
        }
      }
    }
    return Ok();
  }

  bool Meets(const std::string& pv, const ExtentRange& range) const {
    const auto found = by_pv_.find(pv);
    if (found == by_pv_.end()) {
      return false;
    }
    // Our ranges are disjoint, so only the last one that begins before the end of `range` can overlap it.
    const auto after = std::ranges::lower_bound(found->second, range.end(), {}, &ExtentRange::first);
    return after != found->second.begin() && std::prev(after)->end() > range.first;
  }

  const VolumeGroup& group_;
  const LogicalVolume& lv_;
  const bool with_stores_;
  const LogicalVolume* const thin_pool_;
  std::set<std::string, std::less<>> parts_;  // the volume, its legs and their metadata, by name
  std::vector<PhysicalRange> ranges_;
  std::map<std::string, std::vector<ExtentRange>, std::less<>> by_pv_;
};

}  // namespace

Status RemovesAlone(const VolumeGroup& group, const LogicalVolume& lv) {
  return IsHalfMadeStore(group, lv) ? Ok() : Proof(group, lv).IsUncovered();
}

std::optional<PoolParts> PartsOfPool(const VolumeGroup& group, const LogicalVolume& lv) {
  if (lv.hidden || lv.segments.size() != 1 || !lv.segments.front().thin_pool.has_value() ||
      lv.segments.front().areas.size() != 1) {
    return std::nullopt;
  }
  const Segment& segment = lv.segments.front();
  const PoolParts parts{group.FindLv(segment.areas.front().lv_name),
                        group.FindLv(segment.thin_pool->metadata_lv)};
  const bool usual = parts.data != nullptr && parts.data->hidden &&
                     parts.data->name == ThinDataName(lv.name) && parts.metadata != nullptr &&
                     parts.metadata->hidden && parts.metadata->name == ThinMetadataName(lv.name);
  return usual ? std::optional(parts) : std::nullopt;
}

const LogicalVolume* PoolOfPart(const VolumeGroup& group, const LogicalVolume& part) {
  if (!part.hidden || !IsThinPartName(part.name)) {
    return nullptr;
  }
  const auto found = std::ranges::find_if(group.lvs, [&](const LogicalVolume& lv) {
    const auto parts = PartsOfPool(group, lv);
    return parts.has_value() && (parts->data == &part || parts->metadata == &part);
  });
  return found == group.lvs.end() ? nullptr : &*found;
}

Status IsAlonePart(const VolumeGroup& group, const LogicalVolume& part) {
  const LogicalVolume* const pool = PoolOfPart(group, part);
  if (pool == nullptr) {
    return Unknown("it is no part of a thin pool");
  }
  QUARRY_TRY(Proof(group, part, false, pool).Make());
  return Ok();
}

Status IsSoundStore(const VolumeGroup& group, const LogicalVolume& pool) {
  const auto parts = PartsOfPool(group, pool);
  if (!parts.has_value()) {
    return Unknown("it is no thin pool of the usual form");
  }
  QUARRY_TRY(IsAlonePart(group, *parts->data).Context("its data"));
  return IsAlonePart(group, *parts->metadata).Context("its metadata");
}

Status IsAloneInPool(const VolumeGroup& group, const LogicalVolume& lv) {
  if (lv.hidden || lv.segments.size() != 1 || !lv.segments.front().thin_volume.has_value()) {
    return Unknown("it is no thin volume of the usual form");
  }
  const LogicalVolume* const pool = group.FindLv(lv.pool);
  if (pool == nullptr || !PartsOfPool(group, *pool).has_value()) {
    return Unknown(fmt::format("it is in '{}', which is no thin pool of the usual form", lv.pool));
  }
  if (!lv.origin.empty()) {
    return Stacked(fmt::format("another command has made it a snapshot of {}/{}", group.name, lv.origin));
  }
  QUARRY_TRY(Proof(group, lv).IsUncovered());
  const uint32_t id = lv.segments.front().thin_volume->device_id;
  for (const LogicalVolume& other : group.lvs) {
    if (&other != &lv && other.pool == lv.pool && other.segments.size() == 1 &&
        other.segments.front().thin_volume.has_value() &&
        other.segments.front().thin_volume->device_id == id) {
      return Unknown(fmt::format("{}/{} has the same device of the pool, {}", group.name, other.name, id));
    }
  }
  return Ok();
}

bool IsHalfMadeStore(const VolumeGroup& group, const LogicalVolume& lv) {
  const auto parts = IsOurLvName(lv.name) ? PartsOfPool(group, lv) : std::nullopt;
  if (!parts.has_value()) {
    return false;
  }
  const auto is_marker = [](const std::string& tag) { return tag == kCreatingTag; };
  const auto has_volume = [&](const LogicalVolume& other) { return other.pool == lv.name; };
  return std::ranges::all_of(TagsOfOurs(lv.tags), is_marker) &&
         std::ranges::any_of(parts->metadata->tags, is_marker) &&
         std::ranges::none_of(group.lvs, has_volume) && IsSoundStore(group, lv).has_value();
}

Status IsAloneButForStores(const VolumeGroup& group, const LogicalVolume& lv) {
  QUARRY_TRY(Proof(group, lv, true).Make());
  return Ok();
}

bool IsPvmove(const LogicalVolume& lv) {
  return lv.hidden && lv.name.starts_with("pvmove");
}

Result<std::vector<PhysicalRange>> OwnedExtents(const VolumeGroup& group, const LogicalVolume& lv) {
  return Proof(group, lv).Make();
}

}  // namespace quarry::lvm
