#include "engine/reviving.h"

#include <algorithm>
#include <set>
#include <utility>

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

// A volume of ours whose legs have superblocks.
struct Array {
  lvm::Geometry geometry;
  // By leg, superblock and bitmap; nullopt: its disk is missing, or it was given up.
  std::vector<std::optional<dm::EraseRange>> places;
  LegWords words;
};

std::optional<dm::EraseRange> PlaceOf(const lvm::VolumeGroup& group, const lvm::SegmentArea& leg) {
  const lvm::LogicalVolume* const metadata = group.FindLv(lvm::MetadataLvName(leg.lv_name));
  if (metadata == nullptr || metadata->segments.empty() || metadata->segments.front().areas.size() != 1) {
    return std::nullopt;
  }
  const lvm::SegmentArea& place = metadata->segments.front().areas.front();
  const lvm::PhysicalVolume* const pv = group.FindPv(place.pv_uuid);
  if (pv == nullptr || pv->missing || pv->device.empty()) {
    return std::nullopt;
  }
  return dm::EraseRange{.device = pv->device,
                        .pv_uuid = pv->uuid,
                        .offset = pv->pe_start + ToBytes(place.range.first, group.extent_size),
                        .length = ToBytes(place.range.count, group.extent_size)};
}

// Who is silent may have all that matters to say.
template <typename T>
Result<std::optional<T>> IfReadable(Result<T> read) {
  if (!read.has_value() && read.error().code() == Code::kTimeout) {
    return std::move(read.error());
  }
  return read.has_value() ? std::optional(std::move(*read)) : std::nullopt;
}

// nullopt: none of ours, or without superblocks. kTimeout: a disk of it does not answer.
Result<std::optional<Array>> ArrayOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                     dm::RaidLegsApi& legs) {
  const auto tags = lvm::ParseTags(lv.tags);
  if (!tags.has_value() || !tags->has_value()) {
    return std::nullopt;
  }
  QUARRY_ASSIGN(const Profile profile, Profile::FromCanonical((*tags)->profile));
  if (!profile.geometry.has_metadata() || lv.segments.empty() ||
      lv.segments.front().areas.size() != profile.geometry.legs()) {
    return std::nullopt;
  }
  Array array{.geometry = profile.geometry, .places = {}, .words = {}};
  for (const lvm::SegmentArea& area : lv.segments.front().areas) {
    auto place = PlaceOf(group, area);
    std::optional<dm::RaidSuperblock> word;
    if (place.has_value()) {
      QUARRY_ASSIGN(word, IfReadable(legs.Read(*place)));
    }
    array.words.push_back(std::move(word));
    array.places.push_back(std::move(place));
  }
  return array;
}

// All legs that are taken hear the same, the freshest last: where somebody is killed here, one of those at
// least says what it said before, or all others know.
Status Note(const Array& array, const dm::RaidStart& start, dm::RaidLegsApi& legs) {
  const uint64_t most = MostEvents(array.geometry, array.words);
  for (const bool freshest : {false, true}) {
    for (size_t i = 0; i < array.words.size(); ++i) {
      if (!start.left_out[i] && IsUsable(array.geometry, array.words, i) &&
          (array.words[i]->events == most) == freshest) {
        QUARRY_TRY(legs.Write(*array.places[i], *array.words[i], start));
      }
    }
  }
  return Ok();
}

// In sectors; UINT64_MAX: none is.
uint64_t FirstMarked(const dm::RaidBitmap& bitmap) {
  const auto found = std::ranges::find(bitmap.marked, true);
  return found == bitmap.marked.end()
             ? UINT64_MAX
             : static_cast<uint64_t>(found - bitmap.marked.begin()) * bitmap.region_size;
}

// What any of these has marked, of as many regions each; empty: all the same.
std::vector<bool> MarkedOnSome(const LegBitmaps& bitmaps, const std::vector<size_t>& taken) {
  std::vector<bool> out;
  bool differ = false;
  for (const size_t leg : taken) {
    const std::vector<bool>& marked = bitmaps[leg]->marked;
    differ = differ || marked != bitmaps[taken.front()]->marked;
    out.resize(marked.size());
    for (size_t region = 0; region < marked.size(); ++region) {
      out[region] = out[region] || marked[region];
    }
  }
  return differ ? out : std::vector<bool>();
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
      in_sync = in_sync && (legs[i]->events != MostEvents(geometry, legs) || legs[i]->in_sync());
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

std::optional<dm::RaidStart> StartAfterCrash(const lvm::Geometry& geometry, const LegWords& legs,
                                             const LegBitmaps& bitmaps) {
  const uint64_t most = MostEvents(geometry, legs);
  dm::RaidStart start{
      .left_out = std::vector<bool>(legs.size(), false), .resync = false, .marked = {}, .mark_all = {}};
  bool whole = true;  // every leg is there and filled
  for (size_t i = 0; i < legs.size(); ++i) {
    whole = whole && IsUsable(geometry, legs, i) && legs[i]->filled;
    if (IsUsable(geometry, legs, i) && legs[i]->events == most) {
      for (size_t leg = 0; leg < legs.size(); ++leg) {
        start.left_out[leg] = start.left_out[leg] || legs[i]->failed[leg];
      }
    }
  }
  if (!Survives(geometry, start.left_out)) {
    return std::nullopt;
  }
  whole = whole && std::ranges::find(start.left_out, true) == start.left_out.end();
  bool outdated = false;     // of one leg at least, or they are not of one size
  bool interrupted = false;  // regions are marked that the kernel takes for synced
  bool in_sync = true;
  std::vector<size_t> taken;
  for (size_t i = 0; i < legs.size(); ++i) {
    if (IsUsable(geometry, legs, i) && !start.left_out[i] && bitmaps[i].has_value()) {
      taken.push_back(i);
      const dm::RaidBitmap& first = *bitmaps[taken.front()];
      outdated = outdated || bitmaps[i]->events < most || bitmaps[i]->marked.size() != first.marked.size();
      interrupted = interrupted || FirstMarked(*bitmaps[i]) < legs[i]->synced;
      in_sync = in_sync && legs[i]->in_sync();
    }
  }
  // One that lacks a leg cannot be compared; the regions that are marked are those that the leg lacks.
  start.resync = whole && (outdated || interrupted);
  // From where the kernel had got to it would compare all the same, and nothing before.
  if (outdated || (start.resync && !in_sync)) {
    start.mark_all = most;
  } else {
    start.marked = MarkedOnSome(bitmaps, taken);
  }
  return start.resync || start.mark_all.has_value() || !start.marked.empty() ? std::optional(std::move(start))
                                                                             : std::nullopt;
}

Status PrepareStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs) {
  QUARRY_ASSIGN(const std::optional<Array> array, ArrayOf(group, lv, legs));
  if (!array.has_value()) {
    return Ok();
  }
  LegBitmaps bitmaps;
  for (size_t i = 0; i < array->words.size(); ++i) {
    bitmaps.emplace_back();
    if (array->words[i].has_value()) {
      QUARRY_ASSIGN(bitmaps.back(), IfReadable(legs.ReadBitmap(*array->places[i])));
    }
  }
  const auto start = StartAfterCrash(array->geometry, array->words, bitmaps);
  return start.has_value() ? Note(*array, *start, legs) : Ok();
}

Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs) {
  QUARRY_ASSIGN(const std::optional<Array> array, ArrayOf(group, lv, legs));
  if (!array.has_value() || !IsStopped(array->geometry, array->words)) {
    return Ok();
  }
  if (!std::ranges::all_of(array->places, [](const auto& place) { return place.has_value(); })) {
    return Error(Code::kUnavailable, "a disk of it is missing");
  }
  QUARRY_ASSIGN(std::vector<bool> out, LegsToLeaveOut(array->geometry, array->words));
  const bool all = std::ranges::find(out, true) == out.end();
  return Note(*array,
              {.left_out = std::move(out),
               .resync = all,
               .marked = {},
               .mark_all = MostEvents(array->geometry, array->words)},
              legs);
}

}  // namespace quarry::engine
