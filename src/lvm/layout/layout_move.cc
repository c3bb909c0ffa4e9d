// Where the extents go when a PV is evacuated.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm {
namespace {

using layout::SumOf;
using Uuids = std::set<std::string>;

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
                        may_span ? "on the other disks" : "on one disk without another leg of it",
                        layout::SizeText({most}, extent_size_),
                        layout::SizeText({need - std::min(most, need)}, extent_size_))};
  }

  const Bytes extent_size_;
  const std::string from_;
  std::map<std::string, std::vector<ExtentRange>> free_;  // by PV
  std::vector<ExtentMove> moves_;
};

}  // namespace

Result<std::vector<ExtentMove>> PlaceMoves(const FreeSpace& space, const VolumeGroup& group,
                                           const std::string& pv_uuid,
                                           const std::vector<const LogicalVolume*>& volumes) {
  Mover mover(space, group, pv_uuid);
  for (const LogicalVolume* const volume : volumes) {
    const auto legs = ExtentsByLeg(group, *volume);
    for (size_t i = 0; i < legs.size(); ++i) {
      Share share{.volume = volume, .leg = i, .ranges = {}, .whole = HasLegVolumes(*volume)};
      Uuids own;
      for (const PhysicalRange& range : legs[i]) {
        if (range.pv_uuid == pv_uuid) {
          share.ranges.push_back(range.range);
        } else {
          own.insert(range.pv_uuid);
        }
      }
      Uuids others;
      for (size_t other = 0; other < legs.size(); ++other) {
        for (const PhysicalRange& range : legs[other]) {
          if (other != i) {
            others.insert(range.pv_uuid);
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
  return layout::PvArgument({.uuid = pv_uuid, .device = pv == nullptr ? "" : pv->device, .free = {}}, ranges);
}

}  // namespace quarry::lvm
