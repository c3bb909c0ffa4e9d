// Starting RAID arrays where dm-raid by itself would start them wrongly or not at all. There are three cases.
//
// 1. Stopped arrays: more legs failed than the type can do without, and their disks are back. When legs fail,
// dm-raid records on the remaining legs which ones failed. It starts from legs with such a record only if
// enough legs are left. The data on the legs are complete except for writes that were never acknowledged.
// Quarry does the same as mdadm --assemble --force: it takes the freshest legs, by the event count, which
// rises with each change of the array. As soon as there are enough legs without the older ones, the older
// ones are left out and rebuilt.
//
// 2. Arrays that a crash interrupted in the midst of writes. The superblocks of dm-raid say "in sync" even
// while the array is written to. So after a crash dm-raid goes on as if all legs agreed, and forgets which
// regions its bitmap has marked. Copies then differ, and parity is wrong, unnoticed until a leg is lost.
// dm-raid uses the bitmap of the first leg, which may have fewer marks than the others: each leg's marks are
// cleared by a write of its own, after a flush of its own. If that bitmap is older than the freshest
// superblock, the kernel treats all regions as marked and none as to be rebuilt. A leg that failed earlier
// and is back then counts as rebuilt, with its old content (drivers/md/md-bitmap.c: BITMAP_STALE,
// events_cleared; measured on Linux 6.1).
//
// 3. Arrays that must not start by themselves. An array records a lost leg on all remaining legs before it
// acknowledges another write. So a leg knows every leg that was lost while it was there, and none that was
// lost later. Suppose that leg A was away, leg B went on alone, and now A is back and B cannot be read. A
// does not know of its own absence: the kernel would start from A, and the writes in between would be lost.
// Nothing on A distinguishes this from a B that died after both were stopped together. Unreadable legs may be
// newer if they suffice for the array by themselves, and the freshest of the others does not count them as
// failed. This never happens with raid4, raid5 and raid6: any two sets of legs that suffice have a leg in
// common. Nor does it matter for a snapshot, whose bytes never change: its legs are older or newer only if a
// program has written to the snapshot behind Quarry's back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dm/dm_api.h"
#include "dm/raid_legs_api.h"
#include "lvm/geometry.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// The superblocks of a volume's legs; nullopt: a superblock cannot be read.
using LegWords = std::vector<std::optional<dm::RaidSuperblock>>;

// Whether the kernel would refuse the array because of the legs that the freshest legs count as failed. Pure.
bool IsStopped(const lvm::Geometry& geometry, const LegWords& legs);

// Per leg, whether it must be left out. kPrecondition: too few legs are fresh enough, or it is unknown which
// are. Pure.
Result<std::vector<bool>> LegsToLeaveOut(const lvm::Geometry& geometry, const LegWords& legs);

// The bitmaps behind the superblocks; nullopt: a bitmap cannot be read.
using LegBitmaps = std::vector<std::optional<dm::RaidBitmap>>;

// What must be recorded on the legs that are used before an array starts that is not stopped. nullopt:
// nothing. Pure.
std::optional<dm::RaidStart> StartAfterCrash(const lvm::Geometry& geometry, const LegWords& legs,
                                             const LegBitmaps& bitmaps);

// Legs that prevent a start from the other legs.
struct LegsInTheWay {
  std::vector<bool> legs;
  // True: these legs may be newer than all others, and nothing proves that they are not. An administrator may
  // decide to start without them. False: too few other legs are left.
  bool may_override = false;
  // Two or more legs each went on without the other. `legs` are all of them except the freshest.
  bool parted = false;
  // An administrator started the array from certain legs, and none of these is present.
  bool left_behind = false;
  bool operator==(const LegsInTheWay&) const = default;
};

// nullopt: nothing prevents a start. This includes arrays without lost or diverged legs: those are up to the
// kernel and to Revive.
//
// `heard`: superblocks of all legs that can be read, including legs that LVM does not use now. Per leg:
// `unheard`: the leg cannot be read, and LVM has not given it up; `lost`: the array would start without the
// leg. `overruled`: how often an administrator started the array although other legs might be newer, by its
// tags. Pure.
std::optional<LegsInTheWay> WhatStandsInTheWay(const lvm::Geometry& geometry, const LegWords& heard,
                                               const std::vector<bool>& unheard,
                                               const std::vector<bool>& lost, uint64_t overruled = 0);

// What must be recorded on the legs from which an administrator starts the array: the freshest of `words`,
// and the legs that it does not count as failed. All other legs then count as failed.
//
// The event count rises by kOverruled, so a leg that was left out is never the freshest when it comes back.
// The count rises at least to kOverruled times the number in the tags, so a leg that was left out does not
// count as current if the chosen legs are gone.
//
// `words` are the superblocks of the legs that LVM uses, `heard` those of all readable legs. nullopt: the
// remaining legs do not suffice. Pure.
inline constexpr uint64_t kOverruled = uint64_t{1} << 32;
std::optional<dm::RaidStart> StartOverruled(const lvm::Geometry& geometry, const LegWords& words,
                                            const LegWords& heard, const std::vector<bool>& lost,
                                            uint64_t overruled = 0);

// Why a volume must not be started from the legs that are present.
struct Doubt {
  std::string words;  // for the administrator, with the remedy
  bool may_override = false;
  uint64_t overruled = 0;  // value for the tag before the volume is started in spite of this
};

// The reason not to start an inactive volume. nullopt: there is none, or the LV is not a RAID volume of
// Quarry's. kTimeout: one of its disks does not answer.
Result<std::optional<Doubt>> FindDoubt(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                       dm::RaidLegsApi& legs);

// Per leg, whether its disk is present and gives an error for the leg's superblock. Empty: the LV has no
// superblocks that this build knows. kTimeout: one of its disks does not answer. Active or not.
Result<std::vector<bool>> UnreadableLegs(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                                         dm::RaidLegsApi& legs);

// Whether LVM may reload the table of an active volume, as it does for every change of the volume. On a
// reload the kernel follows the freshest leg, and users of the volume would not notice. kPrecondition if that
// may be a leg which the kernel does not use now, because legs went on without each other. `now`: the
// kernel's status of the legs.
Status MayTakeBack(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const dm::RaidStatus& now,
                   dm::RaidLegsApi& legs);

// Writes to one leg as RaidLegsApi::Write does, after proving that `metadata_lv`, which holds the leg's
// superblock, belongs to the volume (proven_write.h).
using LegWriter = std::function<Status(const std::string& metadata_lv, const dm::EraseRange& place,
                                       const dm::RaidSuperblock& was, const dm::RaidStart& start)>;

// Records on the legs of an inactive volume what its start requires. OK if nothing needs recording. On an
// error the volume must not be activated; no data are lost yet. kPrecondition: the reason of FindDoubt.
// `accept_older`: ignores a reason that an administrator may override. kTimeout: one of its disks does not
// answer.
Status PrepareStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs,
                    const LegWriter& write, bool accept_older = false);

// Prepares a stopped inactive volume to start again. OK if it is not stopped, or is not a RAID type that can
// stop. kUnavailable: one of its disks is missing, or a superblock cannot be read.
Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs,
              const LegWriter& write);

}  // namespace quarry::engine
