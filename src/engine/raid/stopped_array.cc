#include "engine/raid/stopped_array.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/model/catalog.h"
#include "engine/model/profile.h"
#include "engine/model/volume_health.h"
#include "lvm/layout.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

// True if the superblock belongs to this array and sits in the right leg.
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

// The first leg with the highest event count; legs.size(): no leg is usable.
size_t Freshest(const lvm::Geometry& geometry, const LegWords& legs) {
  const uint64_t most = MostEvents(geometry, legs);
  size_t i = 0;
  while (i < legs.size() && !(IsUsable(geometry, legs, i) && legs[i]->events == most)) {
    ++i;
  }
  return i;
}

// Legs that the freshest leg counts as failed, and that count the freshest as failed. Nothing proves which of
// them has the writes that were acknowledged last. A leg is left out of the result if the event counts show
// that an administrator decided against it.
std::vector<bool> PartedLegs(const lvm::Geometry& geometry, const LegWords& legs) {
  std::vector<bool> out(legs.size(), false);
  const size_t first = Freshest(geometry, legs);
  for (size_t i = 0; first < legs.size() && i < legs.size(); ++i) {
    out[i] = IsUsable(geometry, legs, i) && legs[first]->failed[i] && legs[i]->failed[first] &&
             Survives(geometry, legs[first]->failed) && Survives(geometry, legs[i]->failed) &&
             legs[first]->events - legs[i]->events < kOverruled / 2;
  }
  return out;
}

// The legs that the freshest legs count as failed.
std::vector<bool> KnownFailed(const lvm::Geometry& geometry, const LegWords& legs) {
  std::vector<bool> out(legs.size(), false);
  const uint64_t most = MostEvents(geometry, legs);
  for (size_t i = 0; i < legs.size(); ++i) {
    for (size_t leg = 0; IsUsable(geometry, legs, i) && legs[i]->events == most && leg < out.size(); ++leg) {
      out[leg] = out[leg] || legs[i]->failed[leg];
    }
  }
  return out;
}

bool Any(const std::vector<bool>& legs) {
  return std::ranges::find(legs, true) != legs.end();
}

// A leg of an inactive volume.
struct Leg {
  std::string metadata_lv;  // the logical volume that holds its superblock
  // Place of the superblock and bitmap; nullopt: the disk is missing, or LVM gave the leg up.
  std::optional<dm::EraseRange> place;
  std::optional<dm::RaidSuperblock> word;
  bool unreadable = false;  // its disk is present and gives an error for it
  std::string silence;      // why the superblock is unknown although LVM has not given the leg up; else empty
};

// Whether the disk gave an error. Other errors, such as a lack of descriptors, say nothing about it.
bool IsFromDisk(const Error& error) {
  const int number = error.sys_errno();
  return error.code() == Code::kIo &&
         (number == 0 || number == EIO || number == ENODATA || number == EREMOTEIO);
}

// kTimeout if a disk does not answer: its leg may be the newest one.
Result<Leg> LookAt(const lvm::VolumeGroup& group, const lvm::SegmentArea& area, dm::RaidLegsApi& legs) {
  const lvm::LogicalVolume* const metadata = group.FindLv(lvm::MetadataLvName(area.lv_name));
  if (metadata == nullptr || metadata->segments.empty() || metadata->segments.front().areas.empty()) {
    return Leg();
  }
  const auto& areas = metadata->segments.front().areas;
  const lvm::PhysicalVolume* const pv = areas.size() == 1 ? group.FindPv(areas.front().pv_uuid) : nullptr;
  if (pv == nullptr) {
    return Leg{.silence = "is being changed by LVM"};
  }
  if (pv->device.empty()) {
    return Leg{.silence = fmt::format("is on a missing disk (PV {})", pv->uuid)};
  }
  const lvm::ExtentRange& range = areas.front().range;
  const dm::EraseRange place{.device = pv->device,
                             .pv_uuid = pv->uuid,
                             .offset = pv->pe_start + ToBytes(range.first, group.extent_size),
                             .length = ToBytes(range.count, group.extent_size)};
  Leg leg;
  auto word = legs.Read(place);
  if (word.has_value()) {
    leg.word = std::move(*word);
  } else if (word.error().code() == Code::kTimeout) {
    return std::move(word.error());
  } else if (word.error().code() != Code::kNotFound) {
    leg.silence = fmt::format("cannot be read on {}: {}", pv->device, word.error().message());
    leg.unreadable = IsFromDisk(word.error());
  }
  if (!pv->missing) {
    leg.place = place;  // LVM does not use a leg on a PV that it counts as missing
  }
  return leg;
}

// A managed volume whose legs have superblocks.
struct Array {
  std::string id;
  uint64_t overruled = 0;   // from its tags
  bool unchanging = false;  // a snapshot: every leg that was ever whole has the same bytes
  lvm::Geometry geometry;
  std::vector<Leg> legs;
  std::vector<bool> lost;  // per leg: the array would start without it
  LegWords words;          // of the legs that LVM uses
  LegWords heard;          // of all readable legs
};

// nullopt: not a managed volume, or without superblocks. kTimeout: one of its disks does not answer.
Result<std::optional<Array>> ArrayOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                     dm::RaidLegsApi& legs) {
  const lvm::LogicalVolume* const store = lvm::PoolOfPart(group, lv);
  const auto tags = lvm::ParseTags(store == nullptr ? lv.tags : store->tags);
  if (!tags.has_value() || !tags->has_value()) {
    return std::nullopt;
  }
  const std::string type = lv.segments.empty() ? "" : lv.segments.front().type;
  if (!type.starts_with("raid") || type.starts_with("raid0")) {
    return std::nullopt;
  }
  QUARRY_ASSIGN(const Profile profile, Profile::FromCanonical((*tags)->profile));
  lvm::Geometry geometry = profile.geometry;
  const bool is_metadata = store != nullptr && lvm::ThinMetadataName(store->name) == lv.name;
  if (const auto of_part = store == nullptr ? std::nullopt : GeometryOfPart(lv); of_part.has_value()) {
    geometry = *of_part;
  }
  if (!geometry.has_metadata() || lv.segments.front().areas.size() != geometry.legs()) {
    // Another command has changed its layout.
    auto made = lvm::GeometryOf(group, lv);
    if (!made.has_value()) {
      return Error(Code::kPrecondition,
                   fmt::format("volume {} is not started: its layout differs from its profile ({}), and {}: "
                               "inspect it with lvs, and restore its layout (lvconvert)",
                               (*tags)->id, geometry.Describe(), made.error().message()));
    }
    geometry = *made;
  }
  Array array{.id = (*tags)->id,
              .overruled = is_metadata ? (*tags)->overruled_metadata : (*tags)->overruled,
              .unchanging = (*tags)->snapshot,
              .geometry = geometry,
              .lost = lvm::LostLegs(group, lv)};
  for (const lvm::SegmentArea& area : lv.segments.front().areas) {
    const size_t i = array.legs.size();
    QUARRY_ASSIGN(Leg leg, LookAt(group, area, legs));
    array.lost[i] = array.lost[i] || !leg.place.has_value() || !leg.silence.empty();
    array.words.push_back(leg.place.has_value() ? leg.word : std::nullopt);
    array.heard.push_back(leg.word);
    leg.metadata_lv = lvm::MetadataLvName(area.lv_name);
    array.legs.push_back(std::move(leg));
  }
  return array;
}

std::optional<LegsInTheWay> InTheWayOf(const Array& array) {
  std::vector<bool> unheard;
  for (const Leg& leg : array.legs) {
    unheard.push_back(!leg.silence.empty());
  }
  auto found = WhatStandsInTheWay(array.geometry, array.heard, unheard, array.lost, array.overruled);
  const bool only_older = found.has_value() && found->may_override && !found->parted;
  return array.unchanging && only_older ? std::nullopt : std::move(found);
}

// Why the array is not started, with the remedy.
std::string Explain(const Array& array, const LegsInTheWay& found) {
  const std::vector<bool> failed = KnownFailed(array.geometry, array.heard);
  std::vector<size_t> numbers;
  std::vector<std::string> each;
  for (size_t i = 0; i < array.legs.size(); ++i) {
    if (found.legs[i]) {
      const Leg& leg = array.legs[i];
      numbers.push_back(i);
      each.push_back(fmt::format("leg {} {}", i,
                                 !leg.silence.empty()     ? leg.silence
                                 : failed[i]              ? "failed before other legs did and is older"
                                 : !leg.place.has_value() ? "is not part of the volume now"
                                 : leg.word.has_value()   ? "was not rebuilt completely"
                                                          : "was never part of the volume"));
    }
  }
  const std::string start =
      fmt::format("volume {} ({}) is not started: ", array.id, array.geometry.Describe());
  if (found.parted) {
    return fmt::format(
        "{0}its legs {1} and {2} each went on without the other, so each has writes that the other lacks. "
        "`quarryctl repair {3}` starts it from leg {1}, which has seen more changes; writes that only the "
        "other leg has are then lost. To start it from the other leg, first remove the disk of the leg with "
        "more changes for good (vgreduce --removemissing --force)",
        start, Freshest(array.geometry, array.heard), fmt::join(numbers, ", "), array.id);
  }
  const std::string legs = fmt::format("{}{}", start, fmt::join(each, ", "));
  if (!found.may_override) {
    return legs + ". Too few other legs are left: bring its disks back";
  }
  if (found.left_behind) {
    return fmt::format(
        "{}, and the other legs were left out when an administrator started the volume without them: they "
        "lack later writes. Bring the disk back. If it is gone for good, `quarryctl repair {}` starts the "
        "volume from the other legs",
        legs, array.id);
  }
  return fmt::format(
      "{}, and the other legs do not count that leg as failed: they may be out of date, because the volume "
      "may have been written to without them. Bring the disk back. If it is gone for good, `quarryctl repair "
      "{}` starts the volume from the other legs; writes that only that disk has are then lost",
      legs, array.id);
}

// Writes the same record to all legs that are used, to the freshest last. If the process is killed in
// between, either the freshest leg still has its old superblock, or all other legs have the new one.
Status Note(const Array& array, const dm::RaidStart& start, const LegWriter& write) {
  const uint64_t most = MostEvents(array.geometry, array.words);
  for (const bool freshest : {false, true}) {
    for (size_t i = 0; i < array.words.size(); ++i) {
      if (!start.left_out[i] && IsUsable(array.geometry, array.words, i) &&
          (array.words[i]->events == most) == freshest) {
        QUARRY_TRY(write(array.legs[i].metadata_lv, *array.legs[i].place, *array.words[i], start));
      }
    }
  }
  return Ok();
}

// Carries out an administrator's decision that is in the tags but did not reach the legs, because quarryd was
// killed. By now no leg prevents the start. The event count rises as the tags demand (StartOverruled).
// nullopt: impossible from these legs.
std::optional<dm::RaidStart> CarryOut(const Array& array, const LegBitmaps& bitmaps) {
  auto start = StartOverruled(array.geometry, array.words, array.heard, array.lost, array.overruled);
  if (!start.has_value()) {
    return start;
  }
  for (size_t i = 0; i < bitmaps.size(); ++i) {
    if (!start->left_out[i] && !bitmaps[i].has_value()) {
      return std::nullopt;  // this leg's bitmap cannot be marked
    }
  }
  start->resync = !Any(start->left_out);
  const bool in_sync =
      std::ranges::all_of(array.words, [](const auto& word) { return !word.has_value() || word->in_sync(); });
  return start->resync || in_sync ? start : std::nullopt;
}

// The first marked region, in sectors; UINT64_MAX: no region is marked.
uint64_t FirstMarked(const dm::RaidBitmap& bitmap) {
  const auto found = std::ranges::find(bitmap.marked, true);
  return found == bitmap.marked.end()
             ? UINT64_MAX
             : static_cast<uint64_t>(found - bitmap.marked.begin()) * bitmap.region_size;
}

// The regions that any of these legs has marked; the bitmaps have the same number of regions. Empty: all legs
// have the same marks.
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
    if (!in_sync && Any(out)) {
      break;  // the legs left out would be rebuilt from parity that was never computed
    }
    return out;
  }
  return Error(Code::kPrecondition,
               fmt::format("too few legs ({}) are current, or it is unknown which are: nothing is changed",
                           geometry.Describe()));
}

std::optional<dm::RaidStart> StartAfterCrash(const lvm::Geometry& geometry, const LegWords& legs,
                                             const LegBitmaps& bitmaps) {
  const uint64_t most = MostEvents(geometry, legs);
  dm::RaidStart start{.left_out = KnownFailed(geometry, legs)};
  bool whole = !Any(start.left_out);  // every leg is present and rebuilt
  for (size_t i = 0; i < legs.size(); ++i) {
    whole = whole && IsUsable(geometry, legs, i) && legs[i]->filled;
  }
  if (!Survives(geometry, start.left_out)) {
    return std::nullopt;
  }
  bool outdated = false;     // at least one bitmap is outdated, or the bitmaps differ in size
  bool interrupted = false;  // regions are marked that the kernel treats as synced
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
  // An array that lacks a leg cannot be compared. Its marked regions are those that the missing leg lacks.
  start.resync = whole && (outdated || interrupted);
  // Without mark_all the kernel would compare only the regions after the point that the interrupted sync had
  // reached.
  if (outdated || (start.resync && !in_sync)) {
    start.mark_all = most;
  } else {
    start.marked = MarkedOnSome(bitmaps, taken);
  }
  return start.resync || start.mark_all.has_value() || !start.marked.empty() ? std::optional(std::move(start))
                                                                             : std::nullopt;
}

std::optional<LegsInTheWay> WhatStandsInTheWay(const lvm::Geometry& geometry, const LegWords& heard,
                                               const std::vector<bool>& unheard,
                                               const std::vector<bool>& lost, uint64_t overruled) {
  if (const std::vector<bool> parted = PartedLegs(geometry, heard); Any(parted)) {
    return LegsInTheWay{.legs = parted,
                        .may_override = StartOverruled(geometry, heard, heard, lost).has_value(),
                        .parted = true};
  }
  if (!Any(lost)) {
    return std::nullopt;
  }
  const std::vector<bool> failed = KnownFailed(geometry, heard);
  const bool started = std::ranges::any_of(heard, [](const auto& word) { return word.has_value(); });
  LegsInTheWay too_few{.legs = lost};
  LegsInTheWay newer{.may_override = true};
  for (size_t i = 0; i < heard.size(); ++i) {
    const bool unfilled = heard[i].has_value() ? !heard[i]->filled : started;
    too_few.legs[i] = lost[i] || failed[i] || unfilled;
    newer.legs.push_back(unheard[i] && !failed[i]);
  }
  if (!Survives(geometry, too_few.legs)) {
    return too_few;
  }
  std::vector<bool> others = newer.legs;
  others.flip();
  if (Any(newer.legs) && Survives(geometry, others)) {
    return newer;
  }
  if (Any(unheard) && MostEvents(geometry, heard) / kOverruled < overruled) {
    return LegsInTheWay{.legs = unheard, .may_override = true, .left_behind = true};
  }
  return std::nullopt;
}

std::optional<dm::RaidStart> StartOverruled(const lvm::Geometry& geometry, const LegWords& words,
                                            const LegWords& heard, const std::vector<bool>& lost,
                                            uint64_t overruled) {
  const size_t first = Freshest(geometry, words);
  if (first == words.size()) {
    return std::nullopt;
  }
  std::vector<bool> out = lost;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = out[i] || !IsUsable(geometry, words, i) || !words[i]->filled || words[first]->failed[i];
  }
  if (!Survives(geometry, out)) {
    return std::nullopt;
  }
  const uint64_t events = std::max(MostEvents(geometry, heard) + kOverruled, overruled * kOverruled);
  return dm::RaidStart{.left_out = std::move(out), .mark_all = events, .events = events};
}

Status MayTakeBack(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const dm::RaidStatus& now,
                   dm::RaidLegsApi& legs) {
  if (now.legs.find('D') == std::string::npos) {
    return Ok();
  }
  QUARRY_ASSIGN(const std::optional<Array> array, ArrayOf(group, lv, legs));
  if (!array.has_value() || now.legs.size() != array->heard.size()) {
    return Ok();
  }
  LegWords used = array->heard;
  for (size_t i = 0; i < used.size(); ++i) {
    used[i] = now.legs[i] == 'D' ? std::nullopt : used[i];
  }
  const uint64_t most = MostEvents(array->geometry, used);
  bool apart = Any(PartedLegs(array->geometry, array->heard));
  std::vector<size_t> others;
  for (size_t i = 0; i < used.size(); ++i) {
    if (now.legs[i] == 'D' && array->heard[i].has_value()) {
      others.push_back(i);
      apart = apart || (IsUsable(array->geometry, array->heard, i) && array->heard[i]->events > most);
    }
  }
  if (!apart) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("volume {} ({}): leg {} is back and went on without the legs that are in use, so each has "
                  "writes that the other lacks: its device-mapper table is not reloaded. Unpublish and "
                  "unstage the volume, then follow `quarryctl status`",
                  array->id, array->geometry.Describe(), fmt::join(others, ", ")));
}

Result<std::vector<bool>> UnreadableLegs(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                         dm::RaidLegsApi& legs) {
  const auto array = ArrayOf(group, lv, legs);
  if (!array.has_value() && array.error().code() == Code::kTimeout) {
    return array.error();
  }
  std::vector<bool> out;
  if (array.has_value() && array->has_value()) {
    for (const Leg& leg : (*array)->legs) {
      out.push_back(leg.unreadable);
    }
  }
  return out;
}

Result<std::optional<Doubt>> FindDoubt(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                       dm::RaidLegsApi& legs) {
  QUARRY_ASSIGN(const std::optional<Array> array, ArrayOf(group, lv, legs));
  const auto found = array.has_value() ? InTheWayOf(*array) : std::nullopt;
  if (!found.has_value()) {
    return std::nullopt;
  }
  const uint64_t most = MostEvents(array->geometry, array->heard);
  return Doubt{.words = Explain(*array, *found),
               .may_override = found->may_override,
               .overruled = std::max(most / kOverruled, array->overruled) + 1};
}

Status PrepareStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs,
                    const LegWriter& write, bool accept_older) {
  QUARRY_ASSIGN(const std::optional<Array> array, ArrayOf(group, lv, legs));
  if (!array.has_value()) {
    return Ok();
  }
  if (const auto found = InTheWayOf(*array); found.has_value()) {
    const auto start =
        StartOverruled(array->geometry, array->words, array->heard, array->lost, array->overruled);
    return accept_older && found->may_override && start.has_value()
               ? Note(*array, *start, write)
               : Status(Error(Code::kPrecondition, Explain(*array, *found)));
  }
  LegBitmaps bitmaps(array->words.size());
  for (size_t i = 0; i < bitmaps.size(); ++i) {
    if (array->words[i].has_value()) {
      auto read = legs.ReadBitmap(*array->legs[i].place);
      if (read.has_value()) {
        bitmaps[i] = std::move(*read);
      } else if (read.error().code() == Code::kTimeout) {
        return std::move(read.error());
      }
    }
  }
  auto start = StartAfterCrash(array->geometry, array->words, bitmaps);
  if (MostEvents(array->geometry, array->words) / kOverruled < array->overruled) {
    if (auto carried_out = CarryOut(*array, bitmaps); carried_out.has_value()) {
      start = std::move(carried_out);
    }
  }
  return start.has_value() ? Note(*array, *start, write) : Ok();
}

Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs,
              const LegWriter& write) {
  QUARRY_ASSIGN(const std::optional<Array> array, ArrayOf(group, lv, legs));
  if (!array.has_value() || !IsStopped(array->geometry, array->words)) {
    return Ok();
  }
  for (size_t i = 0; i < array->legs.size(); ++i) {
    if (const Leg& leg = array->legs[i]; !leg.silence.empty() || !leg.place.has_value()) {
      return Error(
          Code::kUnavailable,
          fmt::format("leg {} {}", i, leg.silence.empty() ? "is not part of the volume now" : leg.silence));
    }
  }
  QUARRY_ASSIGN(std::vector<bool> out, LegsToLeaveOut(array->geometry, array->words));
  const bool all = !Any(out);
  return Note(
      *array,
      {.left_out = std::move(out), .resync = all, .mark_all = MostEvents(array->geometry, array->words)},
      write);
}

}  // namespace quarry::engine
