#include "tests/unit/lvm/layout_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lvm/names.h"

namespace quarry::lvm::testing {
namespace {

struct Argument {
  std::string device;
  Runs ranges;
};

// "/dev/a:0-49:60-80" as lvm parses it (lib/metadata/pv_list.c), ends inclusive.
Argument Parse(std::string_view text) {
  Argument argument;
  size_t at = 0;
  while (at < text.size() && text[at] != ':') {
    at += text[at] == '\\' ? 1 : 0;
    argument.device += text[at++];
  }
  while (at < text.size()) {
    const std::string part(text.substr(at + 1, text.find(':', at + 1) - at - 1));
    const size_t dash = part.find('-');
    const uint64_t first = std::stoull(part.substr(0, dash));
    const uint64_t last = std::stoull(part.substr(dash + 1));
    EXPECT_LE(first, last) << text;
    argument.ranges.push_back({{first}, {last - first + 1}});
    at += part.size() + 1;
  }
  return argument;
}

PhysicalVolume* PvOn(VolumeGroup& group, std::string_view device) {
  const auto found = std::ranges::find(group.pvs, device, &PhysicalVolume::device);
  return found == group.pvs.end() ? nullptr : &*found;
}

LogicalVolume* LvNamed(VolumeGroup& group, std::string_view name) {
  const auto found = std::ranges::find(group.lvs, name, &LogicalVolume::name);
  return found == group.lvs.end() ? nullptr : &*found;
}

void TakeFree(PhysicalVolume& pv, ExtentRange taken) {
  for (auto run = pv.free.begin(); run != pv.free.end(); ++run) {
    if (run->first <= taken.first && taken.end() <= run->end()) {
      const ExtentRange before{run->first, taken.first - run->first};
      const ExtentRange after{taken.end(), run->end() - taken.end()};
      run = pv.free.erase(run);
      for (const ExtentRange& rest : {after, before}) {
        if (rest.count.value != 0) {
          run = pv.free.insert(run, rest);
        }
      }
      return;
    }
  }
  ADD_FAILURE() << fmt::format("{}:{}-{} is not free", pv.device, taken.first.value, taken.end().value - 1);
}

void GiveBack(PhysicalVolume& pv, ExtentRange range) {
  pv.free.push_back(range);
  std::ranges::sort(pv.free);
  Runs joined;
  for (const ExtentRange& run : pv.free) {
    if (!joined.empty() && joined.back().end() == run.first) {
      joined.back().count += run.count;
    } else {
      joined.push_back(run);
    }
  }
  pv.free = joined;
}

std::string ReportedType(const Geometry& geometry) {
  switch (geometry.type()) {
    case VolumeType::kRaid5:
      return "raid5_ls";
    case VolumeType::kRaid6:
      return "raid6_zr";
    default:
      return std::string(TypeName(geometry.type()));
  }
}

void AddSegment(LogicalVolume& lv, const std::string& type, Extents count, std::vector<SegmentArea> areas) {
  Extents first;
  for (const Segment& segment : lv.segments) {
    first += segment.logical.count;
  }
  Segment segment;
  segment.type = type;
  segment.logical = {first, count};
  segment.areas = std::move(areas);
  lv.segments.push_back(std::move(segment));
}

LogicalVolume& LvFor(VolumeGroup& group, const std::string& name, const std::string& type, bool hidden) {
  if (LogicalVolume* found = LvNamed(group, name)) {
    return *found;
  }
  LogicalVolume& lv = group.lvs.emplace_back();
  lv.name = name;
  lv.segment_type = type;
  lv.hidden = hidden;
  return lv;
}

bool HasSubVolumes(const Geometry& geometry) {
  return geometry.type() != VolumeType::kLinear && geometry.type() != VolumeType::kStriped;
}

void ApplyToLegs(VolumeGroup& group, const Geometry& geometry, const std::string& name,
                 const PlacementStep& step, const std::vector<SegmentArea>& areas) {
  LogicalVolume& lv = LvFor(group, name, ReportedType(geometry), false);
  const bool is_new = lv.segments.empty();
  std::vector<SegmentArea> images;
  for (size_t i = 0; i < areas.size(); ++i) {
    SegmentArea area = areas[i];
    const std::string image = fmt::format("{}_rimage_{}", name, i);
    if (is_new && geometry.has_metadata()) {
      LogicalVolume& metadata = LvFor(group, MetadataLvName(image), "linear", true);
      AddSegment(metadata, "linear", {kMetadataExtents},
                 {{area.pv_uuid, "", {area.range.first, {kMetadataExtents}}}});
      area.range = {area.range.first + Extents{kMetadataExtents},
                    area.range.count - Extents{kMetadataExtents}};
    }
    AddSegment(LvFor(group, image, "linear", true), "linear", area.range.count, {area});
    images.push_back({"", image, {{0}, area.range.count}});
  }
  LogicalVolume& top = *LvNamed(group, name);  // adding sub-volumes may have moved it in memory
  if (is_new) {
    AddSegment(top, ReportedType(geometry), step.logical_extents, images);
  } else {
    top.segments.front().logical.count += step.logical_extents;
  }
}

void ApplyStep(VolumeGroup& group, const Geometry& geometry, const std::string& name,
               const PlacementStep& step) {
  std::vector<SegmentArea> areas;
  for (const std::string& text : step.pv_arguments) {
    const Argument argument = Parse(text);
    PhysicalVolume* pv = PvOn(group, argument.device);
    ASSERT_NE(pv, nullptr) << text;
    for (const ExtentRange& range : argument.ranges) {
      TakeFree(*pv, range);
      areas.push_back({pv->uuid, "", range});
    }
  }
  if (HasSubVolumes(geometry)) {
    ApplyToLegs(group, geometry, name, step, areas);
    return;
  }
  LogicalVolume& lv = LvFor(group, name, ReportedType(geometry), false);
  if (geometry.type() == VolumeType::kStriped) {
    AddSegment(lv, "striped", step.logical_extents, areas);
    return;
  }
  for (const SegmentArea& area : areas) {
    AddSegment(lv, "linear", area.range.count, {area});
  }
}

// The extents in the commands, leg by leg; a linear volume is one leg.
std::vector<std::vector<PhysicalRange>> NamedExtents(const FreeSpace& space, const Geometry& geometry,
                                                     const Placement& plan) {
  std::map<std::string, std::string> uuids;
  for (const FreePv& pv : space.pvs) {
    uuids[pv.device] = pv.uuid;
  }
  std::vector<std::vector<PhysicalRange>> legs(geometry.legs());
  for (const PlacementStep& step : plan.steps) {
    for (size_t i = 0; i < step.pv_arguments.size(); ++i) {
      const Argument argument = Parse(step.pv_arguments[i]);
      EXPECT_TRUE(uuids.contains(argument.device)) << argument.device;
      for (const ExtentRange& range : argument.ranges) {
        legs.at(geometry.legs() == 1 ? 0 : i).push_back({uuids[argument.device], range});
      }
    }
  }
  return legs;
}

using ExtentSet = std::set<std::pair<std::string, uint64_t>>;

void Insert(ExtentSet& set, const std::vector<PhysicalRange>& ranges) {
  for (const PhysicalRange& r : ranges) {
    for (uint64_t e = r.range.first.value; e < r.range.end().value; ++e) {
      EXPECT_TRUE(set.emplace(r.pv_uuid, e).second) << "used twice: " << r.pv_uuid << " extent " << e;
    }
  }
}

}  // namespace

VolumeGroup GroupOf(const std::vector<Runs>& free, Bytes extent_size) {
  VolumeGroup group;
  group.name = "vg";
  group.extent_size = extent_size;
  for (size_t i = 0; i < free.size(); ++i) {
    PhysicalVolume& pv = group.pvs.emplace_back();
    pv.uuid = fmt::format("pv{}", i);
    pv.device = fmt::format("/dev/pv{}", i);
    pv.extent_count = free[i].empty() ? Extents{1} : free[i].back().end();
    pv.free = free[i];
    group.extent_count += pv.extent_count;
  }
  group.free_count = {FreeExtents(group)};
  return group;
}

VolumeGroup GroupOfSizes(const std::vector<uint64_t>& extents, Bytes extent_size) {
  std::vector<Runs> free;
  for (const uint64_t count : extents) {
    free.push_back(count == 0 ? Runs{} : Runs{{{0}, {count}}});
  }
  return GroupOf(free, extent_size);
}

Geometry MakeGeometry(VolumeType type, uint32_t stripes, uint32_t mirrors) {
  auto geometry = Geometry::Make({type, stripes, mirrors, {}, {}, false});
  if (!geometry.has_value()) {
    ADD_FAILURE() << geometry.error().message();
    std::abort();
  }
  return *geometry;
}

std::vector<Geometry> SmallGeometries(uint32_t max_legs) {
  std::vector<Geometry> all;
  for (const VolumeType type :
       {VolumeType::kLinear, VolumeType::kStriped, VolumeType::kRaid0, VolumeType::kRaid1, VolumeType::kRaid4,
        VolumeType::kRaid5, VolumeType::kRaid6, VolumeType::kRaid10}) {
    for (uint32_t stripes = 0; stripes <= max_legs; ++stripes) {
      for (uint32_t mirrors = 0; mirrors < max_legs; ++mirrors) {
        const auto made = Geometry::Make({type, stripes, mirrors, {}, {}, false});
        if (made.has_value() && made->legs() <= max_legs) {
          all.push_back(*made);
        }
      }
    }
  }
  return all;
}

void Apply(VolumeGroup& group, const Geometry& geometry, const std::string& name, const Placement& plan) {
  for (const PlacementStep& step : plan.steps) {
    ApplyStep(group, geometry, name, step);
  }
  group.free_count = {FreeExtents(group)};
}

void Remove(VolumeGroup& group, const std::string& name) {
  for (const PhysicalRange& used : PhysicalExtents(group, *group.FindLv(name))) {
    const auto pv = std::ranges::find(group.pvs, used.pv_uuid, &PhysicalVolume::uuid);
    GiveBack(*pv, used.range);
  }
  std::erase_if(group.lvs,
                [&](const LogicalVolume& lv) { return lv.name == name || lv.name.starts_with(name + "_"); });
  group.free_count = {FreeExtents(group)};
}

void ExpectSound(const FreeSpace& space, const Geometry& geometry, const Placement& plan) {
  ASSERT_EQ(plan.legs.size(), geometry.legs());
  ASSERT_FALSE(plan.steps.empty());
  const bool linear = geometry.type() == VolumeType::kLinear;
  EXPECT_LE(plan.steps.size(), linear ? 1 : kMaxPieces);
  const uint64_t added = (plan.logical_extents - plan.existing).value;
  ExtentSet free;
  for (const FreePv& pv : space.pvs) {
    for (const ExtentRange& run : pv.free) {
      Insert(free, {{pv.uuid, run}});
    }
  }
  const auto named = NamedExtents(space, geometry, plan);
  ExtentSet all;
  std::set<std::string> pvs;
  for (size_t i = 0; i < plan.legs.size(); ++i) {
    const Leg& leg = plan.legs[i];
    ExtentSet mine;
    Insert(mine, leg.metadata);
    const size_t metadata = mine.size();
    Insert(mine, leg.data);
    EXPECT_EQ(metadata, geometry.has_metadata() && plan.existing.value == 0 ? kMetadataExtents : 0);
    EXPECT_EQ(mine.size() - metadata, added / geometry.data_legs());
    EXPECT_LE(leg.data.size(), linear ? kMaxPieces : RunsPerLeg(geometry.legs()));
    EXPECT_EQ((leg.metadata.empty() ? leg.data : leg.metadata).front().pv_uuid, leg.pv_uuid);
    ExtentSet commanded;
    Insert(commanded, named[i]);
    EXPECT_EQ(commanded, mine) << "leg " << i << ": the commands name other extents than the plan";
    Insert(all, leg.metadata);
    Insert(all, leg.data);
    for (const PhysicalRange& r : leg.data) {
      EXPECT_TRUE(linear || r.pv_uuid == leg.pv_uuid) << "leg " << i << " leaves its disk";
    }
    EXPECT_TRUE(pvs.insert(leg.pv_uuid).second) << "two legs on " << leg.pv_uuid;
  }
  EXPECT_TRUE(std::ranges::includes(free, all)) << "not all extents are free";
  EXPECT_GE(free.size() - all.size(), space.reserve.value);
  uint64_t commanded = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlacementStep& step = plan.steps[s];
    commanded += step.logical_extents.value;
    EXPECT_GT(step.logical_extents.value, 0);
    EXPECT_EQ(step.logical_extents.value % geometry.data_legs(), 0);
    const uint64_t extra =
        s == 0 && plan.existing.value == 0 && geometry.has_metadata() ? kMetadataExtents : 0;
    for (const std::string& argument : step.pv_arguments) {
      if (!linear) {
        const Runs ranges = Parse(argument).ranges;
        ASSERT_EQ(ranges.size(), 1);
        EXPECT_EQ(ranges.front().count.value, step.logical_extents.value / geometry.data_legs() + extra);
      }
    }
  }
  EXPECT_EQ(commanded, added);
}

uint64_t FreeExtents(const VolumeGroup& group) {
  uint64_t sum = 0;
  for (const PhysicalVolume& pv : group.pvs) {
    for (const ExtentRange& run : pv.free) {
      sum += run.count.value;
    }
  }
  return sum;
}

}  // namespace quarry::lvm::testing
