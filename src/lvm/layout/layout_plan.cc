// Turns runs into LVM commands.
#include <algorithm>

#include <fmt/format.h>

#include "lvm/layout/layout_runs.h"

namespace quarry::lvm::layout {
namespace {

std::vector<ExtentRange> RangesOn(size_t pv, const std::vector<Run>& runs) {
  std::vector<ExtentRange> ranges;
  for (const Run& run : runs) {
    if (run.pv == pv) {
      ranges.push_back(run.range);
    }
  }
  return ranges;
}

}  // namespace

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

std::string PvArgument(const FreePv& pv, std::span<const ExtentRange> ranges) {
  std::string argument;
  for (const char c : pv.device) {
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

PhysicalRange ToPhysical(const FreeSpace& space, const Run& run) {
  return {space.pvs[run.pv].uuid, run.range};
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
      step.pv_arguments.push_back(PvArgument(space.pvs[run.pv], RangesOn(run.pv, runs)));
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
      step.pv_arguments.push_back(PvArgument(space.pvs[run.pv], std::span(&run.range, 1)));
    }
    plan.logical_extents += step.logical_extents;
  }
  return plan;
}

}  // namespace quarry::lvm::layout
