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
#pragma once

#include <optional>
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

// Notes it, for an inactive volume. OK if there is nothing to note, or nothing that could be read. Otherwise
// the volume must not be activated: nothing is lost yet. kTimeout: a disk of it does not answer.
Status PrepareStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs);

// Lets an inactive volume start again, if it is stopped; OK if it is not, or is no raid that can stop.
// kUnavailable: a disk of it is missing.
Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs);

}  // namespace quarry::engine
