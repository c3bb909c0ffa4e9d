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

namespace {

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

}  // namespace

std::vector<Run> TakeLinear(const FreeSpace& space, uint64_t size) {
  std::vector<Room> rooms = MeasureRooms(space, kMaxPieces);
  std::vector<Run> runs = LinearOnOnePv(space, rooms, size);
  return runs.empty() ? LinearOnMany(space, std::move(rooms), size) : runs;
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
