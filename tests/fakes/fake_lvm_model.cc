#include "tests/fakes/fake_lvm_model.h"

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"

namespace quarry::fakes {
namespace {

using lvm::ExtentRange;
using lvm::Geometry;
using lvm::LogicalVolume;
using lvm::PhysicalRange;
using lvm::PhysicalVolume;
using lvm::Segment;
using lvm::SegmentArea;
using lvm::VolumeGroup;
using lvm::VolumeType;

bool IsRaid(VolumeType type) {
  return type != VolumeType::kLinear && type != VolumeType::kStriped;
}

uint64_t ExtentsOf(const LogicalVolume& lv) {
  return lv.segments.empty() ? 0 : lv.segments.back().logical.end().value;
}

// Appends a segment at the end, and merges it with the last one if it continues that one in every area.
void AppendSegment(LogicalVolume& lv, Segment segment) {
  if (!lv.segments.empty()) {
    Segment& last = lv.segments.back();
    const bool continues =
        last.type == segment.type && last.stripe_size == segment.stripe_size &&
        std::ranges::equal(last.areas, segment.areas, [](const auto& a, const auto& b) {
          return a.pv_uuid == b.pv_uuid && a.lv_name == b.lv_name && a.range.end() == b.range.first;
        });
    if (continues) {
      last.logical.count += segment.logical.count;
      for (size_t i = 0; i < last.areas.size(); ++i) {
        last.areas[i].range.count += segment.areas[i].range.count;
      }
      return;
    }
  }
  lv.segments.push_back(std::move(segment));
}

void AppendLinear(LogicalVolume& lv, const std::vector<PhysicalRange>& ranges) {
  for (const PhysicalRange& range : ranges) {
    AppendSegment(lv, {.type = "linear",
                       .logical = {{ExtentsOf(lv)}, range.range.count},
                       .areas = {{.pv_uuid = range.pv_uuid, .lv_name = "", .range = range.range}}});
  }
}

void AppendStripes(LogicalVolume& lv, const Geometry& geometry, const std::vector<AllocatedLeg>& legs) {
  for (size_t round = 0; round < legs.front().data.size(); ++round) {
    Segment segment{.type = "striped",
                    .logical = {{ExtentsOf(lv)}, {0}},
                    .data_stripes = geometry.data_legs(),
                    .stripe_size = geometry.stripe_size()};
    for (const AllocatedLeg& leg : legs) {
      segment.areas.push_back(
          {.pv_uuid = leg.data[round].pv_uuid, .lv_name = "", .range = leg.data[round].range});
      segment.logical.count += leg.data[round].range.count;
    }
    AppendSegment(lv, std::move(segment));
  }
}

std::string LegName(const std::string& lv, size_t leg) {
  return fmt::format("{}_rimage_{}", lv, leg);
}

Segment RaidSegment(const Geometry& geometry, const std::string& lv, Bytes rate) {
  Segment segment{.type = std::string(lvm::TypeName(geometry.type())),
                  .data_stripes = geometry.data_legs(),
                  .stripe_size = geometry.type() == VolumeType::kRaid1 ? Bytes{} : geometry.stripe_size(),
                  .region_size = geometry.has_metadata() ? geometry.region_size() : Bytes{},
                  .max_recovery_rate = geometry.has_metadata() ? rate : Bytes{}};
  for (size_t i = 0; i < geometry.legs(); ++i) {
    segment.areas.push_back({.pv_uuid = "", .lv_name = LegName(lv, i), .range = {}});
  }
  return segment;
}

}  // namespace

LogicalVolume* Find(VolumeGroup& group, const std::string& name) {
  const auto found = std::ranges::find(group.lvs, name, &LogicalVolume::name);
  return found == group.lvs.end() ? nullptr : &*found;
}

bool IsOf(const LogicalVolume& part, const std::string& lv) {
  return part.hidden && (part.name.starts_with(lv + "_rimage_") || part.name.starts_with(lv + "_rmeta_"));
}

void SetTags(LogicalVolume& lv, const std::vector<std::string>& add, const std::vector<std::string>& remove) {
  std::set<std::string> tags(lv.tags.begin(), lv.tags.end());
  for (const std::string& tag : remove) {
    tags.erase(tag);
  }
  tags.insert(add.begin(), add.end());
  lv.tags.assign(tags.begin(), tags.end());
}

// Where the legs of an existing volume begin and end.
std::vector<AllocationRequest::Tail> Tails(const VolumeGroup& group, const LogicalVolume& lv,
                                           const Geometry& geometry) {
  std::vector<AllocationRequest::Tail> out;
  for (size_t i = 0; i < geometry.legs(); ++i) {
    const LogicalVolume* leg = IsRaid(geometry.type()) ? group.FindLv(LegName(lv.name, i)) : &lv;
    const size_t area = IsRaid(geometry.type()) ? 0 : i;
    if (leg == nullptr || leg->segments.empty() || leg->segments.back().areas.size() <= area) {
      return {};
    }
    const SegmentArea& last = leg->segments.back().areas[area];
    out.push_back({leg->segments.front().areas[area].pv_uuid, last.pv_uuid, last.range.end().value});
  }
  return out;
}

void Grow(VolumeGroup& group, LogicalVolume& lv, const Geometry& geometry,
          const std::vector<AllocatedLeg>& legs) {
  if (geometry.type() == VolumeType::kLinear) {
    AppendLinear(lv, legs[0].data);
    return;
  }
  if (geometry.type() == VolumeType::kStriped) {
    AppendStripes(lv, geometry, legs);
    return;
  }
  Segment& segment = lv.segments.front();
  for (size_t i = 0; i < legs.size(); ++i) {
    LogicalVolume* leg = Find(group, LegName(lv.name, i));
    AppendLinear(*leg, legs[i].data);
    segment.areas[i].range = {{0}, {ExtentsOf(*leg)}};
  }
  segment.logical.count = {ExtentsOf(*Find(group, LegName(lv.name, 0))) * geometry.data_legs()};
}

void AddVolume(VolumeGroup& group, const lvm::CreateLv& spec, const std::vector<AllocatedLeg>& legs,
               bool in_sync, const std::function<std::string()>& new_uuid) {
  const Geometry& geometry = spec.geometry;
  LogicalVolume lv{.name = spec.name,
                   .uuid = new_uuid(),
                   .created = static_cast<uint64_t>(std::time(nullptr)),
                   .active = true};
  SetTags(lv, spec.tags, {});
  if (!IsRaid(geometry.type())) {
    Grow(group, lv, geometry, legs);
    group.lvs.push_back(std::move(lv));
    return;
  }
  lv.segments.push_back(RaidSegment(geometry, spec.name, spec.max_recovery_rate));
  if (geometry.has_metadata()) {
    lv.sync_percent = in_sync ? 100 : 0;
    lv.sync_action = in_sync ? "idle" : "resync";
  }
  const std::vector<std::string> tags = lv.tags;
  group.lvs.push_back(std::move(lv));
  for (size_t i = 0; i < legs.size(); ++i) {
    group.lvs.push_back({.name = LegName(spec.name, i),
                         .uuid = new_uuid(),
                         .hidden = true,
                         .independent = false,
                         .active = true});
  }
  for (size_t i = 0; i < legs.size() && geometry.has_metadata(); ++i) {
    // lvcreate copies the tags onto these LVs only.
    LogicalVolume metadata{.name = lvm::MetadataLvName(LegName(spec.name, i)),
                           .uuid = new_uuid(),
                           .hidden = true,
                           .tags = tags,
                           .independent = false,
                           .active = true};
    AppendLinear(metadata, legs[i].metadata);
    group.lvs.push_back(std::move(metadata));
  }
  Grow(group, *Find(group, spec.name), geometry, legs);
}

Status ReplaceLegs(VolumeGroup& group, const LogicalVolume& lv, const std::string& leave,
                   const std::vector<std::string>& pv_arguments) {
  std::vector<LogicalVolume*> lost;
  for (LogicalVolume& part : group.lvs) {
    const bool leaves = leave.empty()
                            ? part.partial
                            : std::ranges::any_of(lvm::PhysicalExtents(group, part),
                                                  [&](const auto& r) { return r.pv_uuid == leave; });
    if (leaves && IsOf(part, lv.name) && part.name.starts_with(lv.name + "_rimage_")) {
      lost.push_back(&part);
    }
  }
  if (lost.empty()) {
    return Ok();
  }
  const bool metadata = Find(group, lvm::MetadataLvName(lost.front()->name)) != nullptr;
  QUARRY_ASSIGN(const std::vector<AllocatedLeg> legs, Allocate(group, pv_arguments,
                                                               {.legs = lost.size(),
                                                                .per_leg = ExtentsOf(*lost.front()),
                                                                .metadata = metadata ? 1U : 0U,
                                                                .policy = "contiguous",
                                                                .tails = {}}));
  for (size_t i = 0; i < lost.size(); ++i) {
    lost[i]->segments.clear();
    AppendLinear(*lost[i], legs[i].data);
    if (metadata) {
      LogicalVolume* const own = Find(group, lvm::MetadataLvName(lost[i]->name));
      own->segments.clear();
      AppendLinear(*own, legs[i].metadata);
    }
  }
  return Ok();
}

namespace {

// Cuts a segment so that each area is either inside `from` or outside.
std::vector<Segment> Cut(const Segment& whole, const PhysicalRange& from) {
  std::set<uint64_t> cuts = {0, whole.areas.front().range.count.value};
  for (const SegmentArea& area : whole.areas) {
    for (const Extents at : {from.range.first, from.range.end()}) {
      if (area.pv_uuid == from.pv_uuid && at > area.range.first && at < area.range.end()) {
        cuts.insert((at - area.range.first).value);
      }
    }
  }
  std::vector<Segment> out;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    Segment piece = whole;
    const uint64_t length = *std::next(cut) - *cut;
    piece.logical = {whole.logical.first + Extents{*cut * whole.areas.size()}, {length * whole.areas.size()}};
    for (SegmentArea& area : piece.areas) {
      area.range = {area.range.first + Extents{*cut}, {length}};
    }
    out.push_back(std::move(piece));
  }
  return out;
}

}  // namespace

Status MoveExtentsOf(VolumeGroup& group, const std::string& lv, const PhysicalRange& from,
                     const PhysicalRange& to) {
  const PhysicalVolume* const target = group.FindPv(to.pv_uuid);
  const bool room = std::ranges::any_of(target->free, [&](const ExtentRange& free) {
    return free.first <= to.range.first && to.range.end() <= free.end();
  });
  if (!room || to.range.count != from.range.count) {
    return Error(Code::kNoSpace, "Insufficient suitable allocatable extents for logical volume pvmove0");
  }
  bool moved = false;
  for (LogicalVolume& part : group.lvs) {
    if (part.name != lv && !IsOf(part, lv)) {
      continue;
    }
    std::vector<Segment> before = std::move(part.segments);
    part.segments.clear();
    for (const Segment& segment : before) {
      for (Segment& piece :
           segment.areas.front().pv_uuid.empty() ? std::vector{segment} : Cut(segment, from)) {
        for (SegmentArea& area : piece.areas) {
          if (area.pv_uuid == from.pv_uuid && area.range.first >= from.range.first &&
              area.range.end() <= from.range.end()) {
            area.pv_uuid = to.pv_uuid;
            area.range.first = to.range.first + (area.range.first - from.range.first);
            moved = true;
          }
        }
        AppendSegment(part, std::move(piece));
      }
    }
  }
  return moved ? Ok() : Status(Error(Code::kNotFound, "No data to move for " + group.name + "."));
}

bool EndMoveOff(VolumeGroup& group, const std::string& device, bool arrived) {
  const auto pvmove = std::ranges::find(group.lvs, device, &LogicalVolume::leaves);
  if (pvmove == group.lvs.end()) {
    return false;
  }
  const LogicalVolume move = *pvmove;
  group.lvs.erase(pvmove);
  for (LogicalVolume& lv : group.lvs) {
    for (Segment& segment : lv.segments) {
      for (SegmentArea& area : segment.areas) {
        for (const Segment& way : move.segments) {
          if (area.lv_name == move.name && way.logical.first <= area.range.first &&
              area.range.end() <= way.logical.end()) {
            const SegmentArea& place = way.areas[arrived ? 1 : 0];
            area = {place.pv_uuid,
                    "",
                    {place.range.first + (area.range.first - way.logical.first), area.range.count}};
            break;
          }
        }
      }
    }
  }
  return true;
}

namespace {

bool LacksExtents(const VolumeGroup& group, const LogicalVolume& lv) {
  return std::ranges::any_of(lvm::PhysicalExtents(group, lv),
                             [&](const PhysicalRange& range) { return group.LacksPv(range.pv_uuid); });
}

}  // namespace

void Derive(VolumeGroup& group) {
  group.extent_count = {};
  group.free_count = {};
  for (PhysicalVolume& pv : group.pvs) {
    std::vector<ExtentRange> used;
    for (const LogicalVolume& lv : group.lvs) {
      for (const Segment& segment : lv.segments) {
        for (const SegmentArea& area : segment.areas) {
          if (area.pv_uuid == pv.uuid) {
            used.push_back(area.range);
          }
        }
      }
    }
    std::ranges::sort(used);
    used.push_back({pv.extent_count, {1}});
    pv.free.clear();
    Extents next;
    for (const ExtentRange& range : used) {
      if (next < range.first) {
        pv.free.push_back({next, range.first - next});
        group.free_count += range.first - next;
      }
      next = range.end();
    }
    group.extent_count += pv.extent_count;
  }
  for (LogicalVolume& lv : group.lvs) {
    lv.size = ToBytes({ExtentsOf(lv)}, group.extent_size);
    lv.segment_type = lv.segments.empty() ? "" : lv.segments.front().type;
    const LogicalVolume* const pool = group.FindLv(lv.pool);
    lv.partial = LacksExtents(group, lv) || (pool != nullptr && LacksExtents(group, *pool));
    if (lv.partial) {
      lv.health = "partial";
    } else if (lv.health == "partial") {
      lv.health.clear();
    }
  }
}

uint64_t MetadataSize(const VolumeGroup& group) {
  uint64_t size = 1000 + 300 * group.pvs.size();
  for (const LogicalVolume& lv : group.lvs) {
    size += 250 + lv.name.size();
    for (const std::string& tag : lv.tags) {
      size += tag.size() + 4;
    }
    for (const Segment& segment : lv.segments) {
      size += 100 + 30 * segment.areas.size();
    }
  }
  return size;
}

}  // namespace quarry::fakes
