// New places: for legs of a raid volume that are replaced, and for extents that leave a PV.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm {
namespace {

using layout::Run;
using layout::SumOf;
using Uuids = std::set<std::string>;

// The shortest run that suffices, on a PV not in `taken`.
std::optional<Run> BestRun(const FreeSpace& space, const Uuids& taken, uint64_t need) {
  std::optional<Run> best;
  for (size_t pv = 0; pv < space.pvs.size(); ++pv) {
    if (taken.contains(space.pvs[pv].uuid)) {
      continue;
    }
    for (const ExtentRange& free : space.pvs[pv].free) {
      if (free.count.value >= need && (!best.has_value() || free.count < best->range.count)) {
        best = Run{pv, free};
      }
    }
  }
  return best;
}

// The extents that a leg has on the PV being evacuated.
struct Share {
  const LogicalVolume* volume = nullptr;
  size_t leg = 0;
  std::vector<ExtentRange> ranges;
  bool whole = false;
};

bool HasLegVolumes(const LogicalVolume& lv) {
  return !lv.segments.empty() && !lv.segments.front().areas.empty() &&
         !lv.segments.front().areas.front().lv_name.empty();
}

class Mover {
 public:
  Mover(const FreeSpace& space, const VolumeGroup& group, const std::string& from)
      : extent_size_(group.extent_size), from_(from) {
    for (const FreePv& pv : space.pvs) {
      if (pv.uuid != from) {
        free_[pv.uuid] = pv.free;
      }
    }
  }

  // `others`: PVs with other legs of the volume. `own`: other PVs of this leg.
  Status Place(const Share& share, const Uuids& others, const Uuids& own, bool may_span) {
    const uint64_t need = SumOf(share.ranges);
    std::vector<std::string> targets;
    if (const auto one = BestOne(need, others, own); one.has_value()) {
      targets = {*one};
    } else if (may_span) {
      targets = RoomiestFirst(others);
    }
    uint64_t room = 0;
    for (const std::string& uuid : targets) {
      room += SumOf(free_[uuid]);
    }
    if (room < need) {
      return NoRoom(share, need, others, may_span);
    }
    auto target = targets.begin();
    for (ExtentRange left : share.ranges) {
      while (left.count.value > 0) {
        while (free_[*target].empty()) {
          ++target;
        }
        Take(share, *target, left);
      }
    }
    return Ok();
  }

  std::vector<ExtentMove> moves() && { return std::move(moves_); }

 private:
  // The best PV with space for all: first a PV that has other extents of the leg, then the PV with the
  // shortest run that takes all, then the PV with the most space.
  std::optional<std::string> BestOne(uint64_t need, const Uuids& others, const Uuids& own) const {
    struct Candidate {
      std::string uuid;
      bool own = false;
      uint64_t run = UINT64_MAX;  // the shortest run that suffices
      uint64_t room = 0;
    };
    std::optional<Candidate> best;
    for (const auto& [uuid, ranges] : free_) {
      Candidate one{uuid, own.contains(uuid), UINT64_MAX, SumOf(ranges)};
      if (others.contains(uuid) || one.room < need) {
        continue;
      }
      for (const ExtentRange& range : ranges) {
        one.run = range.count.value >= need ? std::min(one.run, range.count.value) : one.run;
      }
      const auto better = [](const Candidate& a, const Candidate& b) {
        return a.own != b.own ? a.own : a.run != b.run ? a.run < b.run : a.room > b.room;
      };
      if (!best.has_value() || better(one, *best)) {
        best = std::move(one);
      }
    }
    return best.has_value() ? std::optional(best->uuid) : std::nullopt;
  }

  std::vector<std::string> RoomiestFirst(const Uuids& others) const {
    std::vector<std::string> out;
    for (const auto& [uuid, ranges] : free_) {
      if (!others.contains(uuid) && !ranges.empty()) {
        out.push_back(uuid);
      }
    }
    std::ranges::stable_sort(out, std::greater<>(),
                             [&](const std::string& uuid) { return SumOf(free_.at(uuid)); });
    return out;
  }

  // Puts the beginning of `left` into a free run of the PV: the shortest run that takes all, else the
  // longest.
  void Take(const Share& share, const std::string& uuid, ExtentRange& left) {
    std::vector<ExtentRange>& ranges = free_[uuid];
    auto run = std::ranges::max_element(ranges, {}, &ExtentRange::count);
    for (auto it = ranges.begin(); it != ranges.end(); ++it) {
      if (it->count >= left.count && it->count < run->count) {
        run = it;
      }
    }
    const Extents count = std::min(run->count, left.count);
    if (share.whole && !moves_.empty() && moves_.back().name == share.volume->name) {
      moves_.back().from.push_back({left.first, count});
      moves_.back().to.push_back({run->first, count});
    } else {
      moves_.push_back(
          {share.volume->name, from_, {{left.first, count}}, uuid, {{run->first, count}}, share.whole});
    }
    left = {left.first + count, left.count - count};
    *run = {run->first + count, run->count - count};
    if (run->count == Extents{}) {
      ranges.erase(run);
    }
  }

  Error NoRoom(const Share& share, uint64_t need, const Uuids& others, bool may_span) const {
    uint64_t most = 0;
    for (const auto& [uuid, ranges] : free_) {
      if (!others.contains(uuid)) {
        most = may_span ? most + SumOf(ranges) : std::max(most, SumOf(ranges));
      }
    }
    return {Code::kNoSpace,
            fmt::format("leg {} of logical volume {} needs {} {}, and there are {}: {} too few", share.leg,
                        share.volume->name, layout::SizeText({need}, extent_size_),
                        may_span ? "on the other disks" : "on one disk that has no other leg of the volume",
                        layout::SizeText({most}, extent_size_),
                        layout::SizeText({need - std::min(most, need)}, extent_size_))};
  }

  const Bytes extent_size_;
  const std::string from_;
  std::map<std::string, std::vector<ExtentRange>> free_;  // by PV
  std::vector<ExtentMove> moves_;
};

}  // namespace

Result<LegReplacement> PlaceLegs(const FreeSpace& space, const Geometry& geometry, const VolumeGroup& group,
                                 const LogicalVolume& lv, const std::vector<bool>& which) {
  if (!geometry.has_metadata()) {
    return Error(Code::kPrecondition,
                 fmt::format("logical volume {} is {}: it has no redundancy", lv.name, geometry.Describe()));
  }
  const std::vector<std::vector<std::string>> pvs_of_legs = LegPvs(group, lv);
  LegReplacement out;
  Uuids taken;
  for (size_t i = 0; i < which.size(); ++i) {
    if (which[i]) {
      out.legs.push_back(i);
    } else {
      taken.insert(pvs_of_legs[i].begin(), pvs_of_legs[i].end());
    }
  }
  if (out.legs.empty()) {
    return Error(Code::kNotFound, fmt::format("no leg of logical volume {} is to be replaced", lv.name));
  }
  const uint64_t need = layout::LogicalExtents(lv).value / geometry.data_legs() + kMetadataExtents;
  for (const size_t leg : out.legs) {
    const std::optional<Run> run = BestRun(space, taken, need);
    if (!run.has_value()) {
      return Error(
          Code::kNoSpace,
          fmt::format("a new leg {} of logical volume {} needs {} extents ({}) in one piece on a disk "
                      "that has no other leg of the volume; there is none",
                      leg, lv.name, need, layout::SizeText({need}, group.extent_size)));
    }
    const FreePv& pv = space.pvs[run->pv];
    const ExtentRange range{run->range.first, {need}};
    out.pv_arguments.push_back(layout::PvArgument(pv.device, std::span(&range, 1)));
    taken.insert(pv.uuid);
  }
  return out;
}

Result<std::vector<ExtentMove>> PlaceMoves(const FreeSpace& space, const VolumeGroup& group,
                                           const std::string& pv_uuid,
                                           const std::vector<const LogicalVolume*>& volumes) {
  Mover mover(space, group, pv_uuid);
  for (const LogicalVolume* const volume : volumes) {
    const auto legs = ExtentsByLeg(group, *volume);
    for (size_t i = 0; i < legs.size(); ++i) {
      Share share{.volume = volume, .leg = i, .ranges = {}, .whole = HasLegVolumes(*volume)};
      Uuids others;
      Uuids own;
      for (size_t leg = 0; leg < legs.size(); ++leg) {
        for (const PhysicalRange& range : legs[leg]) {
          if (leg != i) {
            others.insert(range.pv_uuid);
          } else if (range.pv_uuid != pv_uuid) {
            own.insert(range.pv_uuid);
          } else {
            share.ranges.push_back(range.range);
          }
        }
      }
      if (!share.ranges.empty()) {
        QUARRY_TRY(mover.Place(share, others, own, legs.size() == 1 && space.linear_may_span));
      }
    }
  }
  return std::move(mover).moves();
}

std::string PvRangesArgument(const VolumeGroup& group, const std::string& pv_uuid,
                             const std::vector<ExtentRange>& ranges) {
  const PhysicalVolume* const pv = group.FindPv(pv_uuid);
  return layout::PvArgument(pv == nullptr ? "" : pv->device, ranges);
}

}  // namespace quarry::lvm
