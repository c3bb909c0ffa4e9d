#include "lvm/layout/layout_runs.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace quarry::lvm::layout {
namespace {

// Longest first; equal lengths by place, so that equal input gives equal plans.
bool Before(const Run& a, const Run& b) {
  return std::tuple(b.range.count, a.pv, a.range.first) < std::tuple(a.range.count, b.pv, b.range.first);
}

void KeepLongest(std::vector<Run>& runs, uint64_t max_runs) {
  const size_t kept = std::min<size_t>(runs.size(), max_runs);
  std::partial_sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(kept), runs.end(), Before);
  runs.resize(kept);
}

// The shortest free run of at least `need` extents, not in `taken`.
Run BestFit(const FreeSpace& space, std::span<const size_t> pvs, std::span<const Run> taken, uint64_t need) {
  Run best;
  for (const size_t pv : pvs) {
    for (const ExtentRange& range : space.pvs[pv].free) {
      const bool better =
          range.count.value >= need && (best.range.count.value == 0 || range.count < best.range.count);
      const Run run{pv, range};
      if (better && std::ranges::find(taken, run) == taken.end()) {
        best = run;
      }
    }
  }
  return best;
}

// Runs on one PV, if a PV has the space. The PV that needs the fewest runs wins. Of these, the PV with the
// least free space wins, so that large free areas stay large.
std::vector<Run> LinearOnOnePv(const FreeSpace& space, const std::vector<Room>& rooms, uint64_t size) {
  std::vector<Run> best;
  uint64_t best_total = 0;
  for (const Room& room : rooms) {
    if (room.usable < size) {
      continue;
    }
    std::vector<Run> runs = TakeRuns(space, std::span(&room.pv, 1), room.longest, size);
    if (best.empty() || std::tuple(runs.size(), room.total) < std::tuple(best.size(), best_total)) {
      best = std::move(runs);
      best_total = room.total;
    }
  }
  return best;
}

// Runs on as few PVs as possible, those with the most space first. The loss of any of these disks destroys
// the volume.
std::vector<Run> LinearOnMany(const FreeSpace& space, std::vector<Room> rooms, uint64_t size) {
  std::ranges::stable_sort(rooms, std::greater<>(), &Room::usable);
  std::vector<size_t> pvs;
  for (const Room& room : rooms) {
    pvs.push_back(room.pv);
    const std::vector<Run> longest = LongestOf(std::span(rooms).first(pvs.size()), kMaxPieces);
    if (SumOf(longest) >= size) {
      return TakeRuns(space, pvs, longest, size);
    }
  }
  return {};
}

std::vector<ExtentRange> RangesOn(size_t pv, const std::vector<Run>& runs) {
  std::vector<ExtentRange> ranges;
  for (const Run& run : runs) {
    if (run.pv == pv) {
      ranges.push_back(run.range);
    }
  }
  return ranges;
}

PhysicalRange ToPhysical(const FreeSpace& space, const Run& run) {
  return {space.pvs[run.pv].uuid, run.range};
}

}  // namespace

Room MeasureRoom(const FreeSpace& space, size_t pv, uint64_t max_runs) {
  Room room;
  room.pv = pv;
  room.longest.reserve(space.pvs[pv].free.size());
  for (const ExtentRange& range : space.pvs[pv].free) {
    room.longest.push_back({pv, range});
  }
  room.total = SumOf(room.longest);
  KeepLongest(room.longest, max_runs);
  room.usable = SumOf(room.longest);
  return room;
}

std::vector<Room> MeasureRooms(const FreeSpace& space, uint64_t max_runs) {
  std::vector<Room> rooms;
  rooms.reserve(space.pvs.size());
  for (size_t pv = 0; pv < space.pvs.size(); ++pv) {
    rooms.push_back(MeasureRoom(space, pv, max_runs));
  }
  return rooms;
}

std::vector<Run> LongestOf(std::span<const Room> rooms, uint64_t max_runs) {
  std::vector<Run> runs;
  for (const Room& room : rooms) {
    runs.insert(runs.end(), room.longest.begin(), room.longest.end());
  }
  KeepLongest(runs, max_runs);
  return runs;
}

std::vector<Run> TakeRuns(const FreeSpace& space, std::span<const size_t> pvs, std::span<const Run> longest,
                          uint64_t need) {
  std::vector<Run> taken;
  for (const Run& run : longest) {
    if (run.range.count.value >= need) {
      Run last = BestFit(space, pvs, taken, need);
      last.range.count = {need};
      taken.push_back(last);
      break;
    }
    taken.push_back(run);
    need -= run.range.count.value;
  }
  return taken;
}

std::vector<Run> TakeLinear(const FreeSpace& space, uint64_t size) {
  std::vector<Room> rooms = MeasureRooms(space, kMaxPieces);
  std::vector<Run> runs = LinearOnOnePv(space, rooms, size);
  return runs.empty() ? LinearOnMany(space, std::move(rooms), size) : runs;
}

std::vector<Piece> CutIntoPieces(const std::vector<std::vector<Run>>& legs) {
  std::vector<std::vector<Run>> rest = legs;
  for (std::vector<Run>& runs : rest) {
    std::ranges::reverse(runs);  // the next run of a leg is at the end of its vector
  }
  std::vector<Piece> pieces;
  while (!rest.front().empty()) {
    uint64_t length = rest.front().back().range.count.value;
    for (const std::vector<Run>& runs : rest) {
      length = std::min(length, runs.back().range.count.value);
    }
    Piece& piece = pieces.emplace_back();
    for (std::vector<Run>& runs : rest) {
      Run& next = runs.back();
      piece.push_back({next.pv, {next.range.first, {length}}});
      next.range = {next.range.first + Extents{length}, next.range.count - Extents{length}};
      if (next.range.count.value == 0) {
        runs.pop_back();
      }
    }
  }
  return pieces;
}

std::string PvArgument(std::string_view device, std::span<const ExtentRange> ranges) {
  std::string argument;
  for (const char c : device) {
    if (c == ':' || c == '@') {
      argument += '\\';
    }
    argument += c;
  }
  for (const ExtentRange& range : ranges) {
    argument += fmt::format(":{}-{}", range.first.value, range.end().value - 1);
  }
  return argument;
}

// One command for all runs. The sum of the ranges is the size, so LVM must use every extent. LVM chooses only
// their order within the volume.
Placement LinearPlacement(const FreeSpace& space, const std::vector<Run>& runs, std::string_view alloc_one) {
  Placement plan;
  Leg& leg = plan.legs.emplace_back();
  leg.pv_uuid = space.pvs[runs.front().pv].uuid;
  PlacementStep& step = plan.steps.emplace_back();
  step.logical_extents = {SumOf(runs)};
  step.alloc = runs.size() == 1 ? alloc_one : "normal";
  std::vector<size_t> seen;
  for (const Run& run : runs) {
    leg.data.push_back(ToPhysical(space, run));
    if (std::ranges::find(seen, run.pv) == seen.end()) {
      seen.push_back(run.pv);
      step.pv_arguments.push_back(PvArgument(space.pvs[run.pv].device, RangesOn(run.pv, runs)));
    }
  }
  plan.logical_extents = step.logical_extents;
  return plan;
}

Placement LegPlacement(const FreeSpace& space, const Geometry& geometry,
                       const std::vector<std::vector<Run>>& legs, uint64_t metadata,
                       std::string_view alloc_first) {
  Placement plan;
  for (const std::vector<Run>& runs : legs) {
    Leg& leg = plan.legs.emplace_back();
    leg.pv_uuid = space.pvs[runs.front().pv].uuid;
    uint64_t left = metadata;  // the first extents of the first run, which is always longer
    for (Run run : runs) {
      if (left != 0) {
        leg.metadata.push_back(ToPhysical(space, {run.pv, {run.range.first, {left}}}));
        run.range = {run.range.first + Extents{left}, run.range.count - Extents{left}};
        left = 0;
      }
      leg.data.push_back(ToPhysical(space, run));
    }
  }
  for (const Piece& piece : CutIntoPieces(legs)) {
    const bool first = plan.steps.empty();
    PlacementStep& step = plan.steps.emplace_back();
    const uint64_t length = piece.front().range.count.value - (first ? metadata : 0);
    step.logical_extents = {length * geometry.data_legs()};
    step.alloc = first ? alloc_first : "cling";
    for (const Run& run : piece) {
      step.pv_arguments.push_back(PvArgument(space.pvs[run.pv].device, std::span(&run.range, 1)));
    }
    plan.logical_extents += step.logical_extents;
  }
  return plan;
}

uint64_t Spendable(const FreeSpace& space) {
  uint64_t total = 0;
  for (const FreePv& pv : space.pvs) {
    total += SumOf(pv.free);
  }
  return total - std::min(total, space.reserve.value);
}

FreeSpace EmptySpace(const FreeSpace& space, const VolumeGroup& group) {
  FreeSpace empty;
  empty.extent_size = space.extent_size;
  empty.reserve = space.reserve;
  empty.linear_may_span = space.linear_may_span;
  for (const PhysicalVolume& pv : group.pvs) {
    FreePv& whole = empty.pvs.emplace_back(pv.uuid, pv.device);
    if (pv.extent_count.value != 0) {
      whole.free.push_back({Extents{0}, pv.extent_count});
    }
  }
  return empty;
}

std::string SizeText(Extents extents, Bytes extent_size) {
  const Bytes bytes = ToBytes(extents, extent_size);
  return fmt::format("{} ({} bytes)", HumanBytes(bytes), bytes.value);
}

}  // namespace quarry::lvm::layout
