#include "engine/reviving.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "engine/health.h"
#include "engine/profile.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

// Of one array, with the leg in its own place.
bool IsUsable(const lvm::Geometry& geometry, const LegWords& legs, size_t leg) {
  return legs[leg].has_value() && legs[leg]->legs == geometry.legs() && legs[leg]->role == leg;
}

uint64_t MostEvents(const lvm::Geometry& geometry, const LegWords& legs) {
  uint64_t most = 0;
  for (size_t i = 0; i < legs.size(); ++i) {
    most = IsUsable(geometry, legs, i) ? std::max(most, legs[i]->events) : most;
  }
  return most;
}

// Where the superblock of each leg is.
Result<std::vector<dm::EraseRange>> PlacesOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  std::vector<dm::EraseRange> out;
  for (const lvm::SegmentArea& area : lv.segments.front().areas) {
    const lvm::LogicalVolume* const metadata = group.FindLv(lvm::MetadataLvName(area.lv_name));
    if (metadata == nullptr || metadata->segments.empty() || metadata->segments.front().areas.size() != 1) {
      return Error(Code::kCorrupt, fmt::format("leg {} has no metadata volume", area.lv_name));
    }
    const lvm::SegmentArea& place = metadata->segments.front().areas.front();
    const lvm::PhysicalVolume* const pv = group.FindPv(place.pv_uuid);
    if (pv == nullptr || pv->missing || pv->device.empty()) {
      return Error(Code::kUnavailable, fmt::format("disk {} is missing", place.pv_uuid));
    }
    out.push_back({.device = pv->device,
                   .pv_uuid = pv->uuid,
                   .offset = pv->pe_start + ToBytes(place.range.first, group.extent_size),
                   .length = Bytes{dm::kRaidSuperblock}});
  }
  return out;
}

}  // namespace

bool IsStopped(const lvm::Geometry& geometry, const LegWords& legs) {
  const uint64_t most = MostEvents(geometry, legs);
  for (size_t i = 0; i < legs.size(); ++i) {
    if (IsUsable(geometry, legs, i) && legs[i]->events == most && !Survives(geometry, legs[i]->failed)) {
      return true;
    }
  }
  return false;
}

Result<std::vector<bool>> LegsToLeaveOut(const lvm::Geometry& geometry, const LegWords& legs) {
  std::set<uint64_t, std::greater<>> counts;
  bool in_sync = true;
  for (size_t i = 0; i < legs.size(); ++i) {
    if (IsUsable(geometry, legs, i)) {
      in_sync = in_sync && (legs[i]->events != MostEvents(geometry, legs) || legs[i]->in_sync);
      counts.insert(legs[i]->events);
    }
  }
  for (const uint64_t oldest : counts) {
    std::vector<bool> out;
    for (size_t i = 0; i < legs.size(); ++i) {
      out.push_back(!IsUsable(geometry, legs, i) || !legs[i]->filled || legs[i]->events < oldest);
    }
    if (!Survives(geometry, out)) {
      continue;
    }
    if (!in_sync && std::ranges::find(out, true) != out.end()) {
      break;  // what is left out would be worked out from parity that was never made
    }
    return out;
  }
  return Error(Code::kPrecondition,
               fmt::format("too few legs ({}) are current, or it cannot be told which: nothing is touched",
                           geometry.Describe()));
}

Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs) {
  const auto tags = lvm::ParseTags(lv.tags);
  if (!tags.has_value() || !tags->has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(const Profile profile, Profile::FromCanonical((*tags)->profile));
  if (!profile.geometry.has_metadata() || lv.segments.empty()) {
    return Ok();
  }
  QUARRY_ASSIGN(const std::vector<dm::EraseRange> places, PlacesOf(group, lv));
  LegWords words;
  for (const dm::EraseRange& place : places) {
    auto word = legs.Read(place);
    words.push_back(word.has_value() ? std::optional(std::move(*word)) : std::nullopt);
  }
  if (words.size() != profile.geometry.legs() || !IsStopped(profile.geometry, words)) {
    return Ok();
  }
  QUARRY_ASSIGN(const std::vector<bool> out, LegsToLeaveOut(profile.geometry, words));
  const bool all = std::ranges::find(out, true) == out.end();
  for (size_t i = 0; i < words.size(); ++i) {
    if (!out[i]) {
      // All legs that are taken hear the same. Some only, because somebody was killed here: the freshest
      // still say "stopped", or say this.
      QUARRY_TRY(legs.Write(places[i], *words[i], out, all));
    }
  }
  return Ok();
}

}  // namespace quarry::engine
