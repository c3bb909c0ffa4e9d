// Starting raid arrays where dm-raid by itself would not do right: those that stopped because more legs
// failed than the type can do without, once their disks are back, and those that a crash left in the midst of
// writes.
//
// The former: dm-raid writes on the legs that are left which others failed, and starts from those that
// know it only with enough legs; what is on the legs is whole but for writes that nobody was told of.
//
// As mdadm --assemble --force: the freshest legs are taken, by the count that rises with each change of the
// array; which is to say that older ones are left out, to be filled again, as soon as there are enough
// without them.
//
// The latter: the superblocks of dm-raid say "in sync" also while the array is written to, so that it goes on
// after a crash as if all legs agreed, and forgets which regions its bitmap has marked; copies differ, and
// parity is wrong, unnoticed until a leg is lost. It goes by the bitmap of the first leg, which may have less
// marked than the others': on each leg marks are taken away by a write of its own, behind a flush of its own.
// And where it is older than the freshest superblock, the kernel takes all regions for marked and none for
// one to be filled: a leg that failed before and is back counts as filled then, with what it had
// (drivers/md/md-bitmap.c: BITMAP_STALE, events_cleared; measured on Linux 6.1).
//
// And those that must not be started by themselves. An array notes a lost leg on all legs that it goes on
// with before it acknowledges another write. So a leg knows of every other that was lost while it was there,
// and of none that was lost later. Where leg A was away, B went on alone, and now A is back and B cannot be
// read, A knows nothing of it: the kernel would start from A, and what was written in between would be gone.
// Nothing on A tells this from a B that died after both were stopped together. The legs that cannot be read
// may be newer if they suffice for the array by themselves, and the freshest of the others does not count
// them as failed. Those of raid4, 5 and 6 never do: any legs that suffice have one in common.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dm/raid_legs_api.h"
#include "engine/world.h"
#include "lvm/layout.h"

namespace quarry::engine {

// What the superblocks of a volume's legs say; nullopt: it cannot be read.
using LegWords = std::vector<std::optional<dm::RaidSuperblock>>;

// Whether the array would be refused for the legs that the freshest ones count as failed. Pure.
bool IsStopped(const lvm::Geometry& geometry, const LegWords& legs);

// Per leg, whether it has to be left out. kPrecondition: too few legs are fresh enough, or it cannot be told.
// Pure.
Result<std::vector<bool>> LegsToLeaveOut(const lvm::Geometry& geometry, const LegWords& legs);

// What the bitmaps behind them say; likewise.
using LegBitmaps = std::vector<std::optional<dm::RaidBitmap>>;

// What has to be noted on the legs that are taken before an array is started that is not stopped; nullopt:
// nothing. Pure.
std::optional<dm::RaidStart> StartAfterCrash(const lvm::Geometry& geometry, const LegWords& legs,
                                             const LegBitmaps& bitmaps);

// Legs that stand in the way of a start from the others.
struct LegsInTheWay {
  std::vector<bool> legs;
  // They may be newer than all others, and nothing proves that they are not: that is for a person to say.
  // False: there are too few others.
  bool may_override = false;
  // Each of two or more went on without the other: `legs` are those that are not the freshest.
  bool parted = false;
  // A person had the array started from legs of which none is there.
  bool left_behind = false;
  bool operator==(const LegsInTheWay&) const = default;
};

// nullopt: nothing stands in the way; also where no leg is lost and none went its own way, which is the
// kernel's affair, and Revive's.
// `heard`: what the legs say that can be read, those included that LVM does not use now. Per leg: `unheard`,
// it cannot be read, and nobody has given it up; `lost`, the array would start without it. `overruled`: how
// often a person had the array started from legs that others may be newer than, by its tags. Pure.
std::optional<LegsInTheWay> WhatStandsInTheWay(const lvm::Geometry& geometry, const LegWords& heard,
                                               const std::vector<bool>& unheard,
                                               const std::vector<bool>& lost, uint64_t overruled = 0);

// What is noted on the legs that a person wants the array started from: the freshest of `words`, and those
// that it does not count as failed. All others count as failed then. The count of events rises by kOverruled,
// so that no leg that was left out passes for the freshest when it comes back; and to as many times that as
// the array was overruled, by its tags, so that none passes for current where those that were taken are gone.
// `words` are of the legs that LVM uses, `heard` of all that can be read. nullopt: the legs that are left do
// not suffice. Pure.
inline constexpr uint64_t kOverruled = uint64_t{1} << 32;
std::optional<dm::RaidStart> StartOverruled(const lvm::Geometry& geometry, const LegWords& words,
                                            const LegWords& heard, const std::vector<bool>& lost,
                                            uint64_t overruled = 0);

// Why a volume is not to be started from the legs that are there.
struct Doubt {
  std::string words;  // for people, with the remedy
  bool may_override = false;
  uint64_t overruled = 0;  // what its tags are to say before it is started all the same
};

// The same for an inactive volume; nullopt also if it is no raid volume of ours. kTimeout: a disk of it does
// not answer.
Result<std::optional<Doubt>> FindDoubt(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                       dm::RaidLegsApi& legs);

// Whether the table of an active volume may be loaded anew, as LVM does for whatever changes it: the kernel
// goes by the freshest leg then, with whoever uses the volume none the wiser. kPrecondition if that may be
// one which it does not use now: legs went their own ways. `now`: what the kernel says of the legs.
Status MayTakeBack(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const dm::RaidStatus& now,
                   dm::RaidLegsApi& legs);

// Writes to one leg, as RaidLegsApi::Write does, once it is proven that `metadata_lv`, which holds it, is the
// volume's (proven_write.h).
using LegWriter = std::function<Status(const std::string& metadata_lv, const dm::EraseRange& place,
                                       const dm::RaidSuperblock& was, const dm::RaidStart& start)>;

// Notes what has to be, for an inactive volume. OK if there is nothing to note. Otherwise the volume must not
// be activated: nothing is lost yet. kPrecondition: FindDoubt says why; not if `accept_older`, and a person
// may say so. kTimeout: a disk of it does not answer.
Status PrepareStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs,
                    const LegWriter& write, bool accept_older = false);

// Lets an inactive volume start again, if it is stopped; OK if it is not, or is no raid that can stop.
// kUnavailable: a disk of it is missing, or what a leg says cannot be read.
Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs,
              const LegWriter& write);

}  // namespace quarry::engine
