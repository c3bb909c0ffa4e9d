#include "tests/fakes/fake_lvm_alloc.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace quarry::fakes {
namespace {

using lvm::ExtentRange;
using lvm::PhysicalRange;
using lvm::PhysicalVolume;

// Free extents that a command may use on one PV, in argument order.
struct Place {
  const PhysicalVolume* pv = nullptr;
  std::vector<ExtentRange> areas;
};

struct PvArgument {
  std::string device;
  std::vector<ExtentRange> ranges;
};

Error BadArgument(const std::string& argument) {
  return {Code::kInternal, fmt::format("PE range error in '{}'", argument)};
}

std::optional<ExtentRange> ParseRange(const std::string& text) {
  uint64_t first = 0;
  uint64_t last = 0;
  const char* end = text.data() + text.size();
  const auto before = std::from_chars(text.data(), end, first);
  if (before.ec != std::errc() || before.ptr == end || *before.ptr != '-') {
    return std::nullopt;
  }
  const auto after = std::from_chars(before.ptr + 1, end, last);
  if (after.ec != std::errc() || after.ptr != end || last < first) {
    return std::nullopt;
  }
  return ExtentRange{{first}, {last - first + 1}};
}

// "/dev/a\:b:0-9:20-29": a backslash escapes the next character.
Result<PvArgument> ParseArgument(const std::string& argument) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < argument.size(); ++i) {
    if (argument[i] == '\\' && i + 1 < argument.size()) {
      parts.back() += argument[++i];
    } else if (argument[i] == ':') {
      parts.emplace_back();
    } else {
      parts.back() += argument[i];
    }
  }
  PvArgument out{parts.front(), {}};
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::optional<ExtentRange> range = ParseRange(parts[i]);
    if (!range.has_value()) {
      return BadArgument(argument);
    }
    out.ranges.push_back(*range);
  }
  if (out.ranges.empty()) {
    out.ranges.push_back({{0}, {UINT32_MAX}});
  }
  return out;
}

void KeepFree(const PhysicalVolume& pv, const ExtentRange& range, std::vector<ExtentRange>& areas) {
  for (const ExtentRange& free : pv.free) {
    const Extents first = std::max(free.first, range.first);
    const Extents end = std::min(free.end(), range.end());
    if (first < end) {
      areas.push_back({first, end - first});
    }
  }
}

Result<std::vector<Place>> Places(const lvm::VolumeGroup& group, const std::vector<std::string>& arguments) {
  std::vector<Place> places;
  for (const std::string& argument : arguments) {
    QUARRY_ASSIGN(const PvArgument parsed, ParseArgument(argument));
    const auto pv = std::ranges::find(group.pvs, parsed.device, &PhysicalVolume::device);
    if (pv == group.pvs.end()) {
      return Error(Code::kUnavailable,
                   fmt::format("the group has changed: Physical Volume \"{}\" not found in Volume "
                               "Group \"{}\"",
                               parsed.device, group.name));
    }
    std::vector<ExtentRange> ranges = parsed.ranges;
    std::ranges::sort(ranges);
    for (size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i].first < ranges[i - 1].end()) {
        return BadArgument(argument);
      }
    }
    if (std::ranges::any_of(places, [&](const Place& place) { return place.pv == &*pv; })) {
      return BadArgument(argument);
    }
    Place& place = places.emplace_back();
    place.pv = &*pv;
    for (const ExtentRange& range : ranges) {
      if (pv->allocatable) {
        KeepFree(*pv, range, place.areas);
      }
    }
  }
  return places;
}

Error NoRoom(uint64_t wanted, const std::vector<Place>& places) {
  uint64_t there = 0;
  for (const Place& place : places) {
    for (const ExtentRange& area : place.areas) {
      there += area.count.value;
    }
  }
  return {Code::kNoSpace,
          fmt::format("Insufficient suitable allocatable extents: {} needed, {} at the places named", wanted,
                      there)};
}

// Whether to use `a` before `b`: the smallest that holds all of the rest, else the largest.
bool Before(const ExtentRange& a, const ExtentRange& b, uint64_t rest) {
  const bool a_fits = a.count.value >= rest;
  const bool b_fits = b.count.value >= rest;
  if (a_fits != b_fits) {
    return a_fits;
  }
  return a_fits ? a.count < b.count : a.count > b.count;
}

// The area to use next on one PV; nullptr if nothing is left.
ExtentRange* Candidate(std::vector<ExtentRange>& areas, uint64_t rest) {
  ExtentRange* best = nullptr;
  for (ExtentRange& area : areas) {
    if (area.count.value > 0 && (best == nullptr || Before(area, *best, rest))) {
      best = &area;
    }
  }
  return best;
}

void Take(Place& place, ExtentRange& area, uint64_t count, std::vector<PhysicalRange>& to) {
  if (count == 0) {
    return;
  }
  to.push_back({place.pv->uuid, {area.first, {count}}});
  area = {area.first + Extents{count}, area.count - Extents{count}};
}

// Allocates one leg that may span several PVs, largest area first.
Result<std::vector<AllocatedLeg>> AllocateOne(std::vector<Place>& places, const AllocationRequest& request) {
  std::vector<AllocatedLeg> out(1);
  uint64_t rest = request.per_leg;
  while (rest > 0) {
    Place* chosen = nullptr;
    ExtentRange* area = nullptr;
    for (Place& place : places) {
      ExtentRange* candidate = Candidate(place.areas, rest);
      if (candidate != nullptr && (area == nullptr || candidate->count > area->count)) {
        chosen = &place;
        area = candidate;
      }
    }
    const bool whole = area != nullptr && area->count.value >= rest;
    const bool adjacent =
        request.tails.empty() || (area != nullptr && chosen->pv->uuid == request.tails[0].last_pv &&
                                  area->first.value == request.tails[0].next);
    if (area == nullptr || (request.policy == "contiguous" && (!whole || !adjacent))) {
      return NoRoom(request.per_leg, places);
    }
    const uint64_t count = std::min(rest, area->count.value);
    Take(*chosen, *area, count, out[0].data);
    rest -= count;
  }
  return out;
}

// The PV of each leg: for a create those with the largest areas, ties in argument order; for an extend the PV
// where the leg begins.
std::vector<Place*> LegPlaces(std::vector<Place>& places, const AllocationRequest& request) {
  std::vector<Place*> chosen;
  if (!request.tails.empty()) {
    for (const AllocationRequest::Tail& tail : request.tails) {
      const auto place = std::ranges::find(places, tail.first_pv, [](const Place& p) { return p.pv->uuid; });
      if (place != places.end()) {
        chosen.push_back(&*place);
      }
    }
    return chosen;
  }
  const auto largest = [&](Place* place) {
    const ExtentRange* area = Candidate(place->areas, request.per_leg + request.metadata);
    return area == nullptr ? 0 : area->count.value;
  };
  for (Place& place : places) {
    if (largest(&place) > 0) {
      chosen.push_back(&place);
    }
  }
  std::ranges::stable_sort(chosen, std::ranges::greater{}, largest);
  chosen.resize(std::min<size_t>(chosen.size(), request.legs));
  return chosen;
}

Result<std::vector<AllocatedLeg>> AllocateLegs(std::vector<Place>& places, const AllocationRequest& request) {
  std::vector<AllocatedLeg> out(request.legs);
  const std::vector<Place*> chosen = LegPlaces(places, request);
  if (chosen.size() < request.legs) {
    return NoRoom(request.legs * (request.per_leg + request.metadata), places);
  }
  uint64_t rest = request.per_leg + request.metadata;
  for (bool first = true; rest > 0; first = false) {
    std::vector<ExtentRange*> areas;
    uint64_t count = rest;
    for (Place* place : chosen) {
      areas.push_back(Candidate(place->areas, rest));
      count = areas.back() == nullptr ? 0 : std::min(count, areas.back()->count.value);
    }
    for (size_t i = 0; request.policy == "contiguous" && i < request.tails.size(); ++i) {
      const AllocationRequest::Tail& tail = request.tails[i];
      if (areas[i] != nullptr && (tail.last_pv != tail.first_pv || areas[i]->first.value != tail.next)) {
        count = 0;
      }
    }
    const bool enough =
        request.policy == "contiguous" ? count == rest : count > (first ? request.metadata : 0);
    if (!enough) {
      return NoRoom(request.legs * (request.per_leg + request.metadata), places);
    }
    const uint64_t metadata = first ? request.metadata : 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      Take(*chosen[i], *areas[i], metadata, out[i].metadata);
      Take(*chosen[i], *areas[i], count - metadata, out[i].data);
    }
    rest -= count;
  }
  return out;
}

}  // namespace

Result<std::vector<AllocatedLeg>> Allocate(const lvm::VolumeGroup& group,
                                           const std::vector<std::string>& pv_arguments,
                                           const AllocationRequest& request) {
  QUARRY_ASSIGN(std::vector<Place> places, Places(group, pv_arguments));
  return request.legs == 1 ? AllocateOne(places, request) : AllocateLegs(places, request);
}

Result<std::vector<PhysicalRange>> ReadPvArgument(const lvm::VolumeGroup& group,
                                                  const std::string& argument) {
  QUARRY_ASSIGN(const PvArgument parsed, ParseArgument(argument));
  const auto pv = std::ranges::find(group.pvs, parsed.device, &PhysicalVolume::device);
  if (pv == group.pvs.end()) {
    return Error(Code::kUnavailable, fmt::format("Physical Volume \"{}\" not found in Volume Group \"{}\".",
                                                 parsed.device, group.name));
  }
  std::vector<PhysicalRange> out;
  for (const ExtentRange& range : parsed.ranges) {
    if (range.end() > pv->extent_count) {
      return BadArgument(argument);
    }
    out.push_back({pv->uuid, range});
  }
  return out;
}

}  // namespace quarry::fakes
