// Health of a volume, from three sources: LVM's metadata (its disks), the kernel (its legs), and the mount
// table (its file system). Nothing is polled and nothing is kept: each answer describes the moment.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/volume.h"
#include "mount/mount_api.h"

namespace quarry::engine {

// Whether a volume of this geometry can serve all its data without the legs for which `lost` is true. `lost`
// has one entry per leg, in order.
bool Survives(const lvm::Geometry& geometry, const std::vector<bool>& lost);

// For each leg, whether the kernel has failed it, or has no leg in its place. Pure.
std::vector<bool> FailedLegs(const dm::RaidStatus& raid);

// Whether all legs are present and in sync, and the kernel is doing nothing with them. Pure.
bool IsWhole(const dm::RaidStatus& raid);

// Whether more legs have failed than the type can do without. The kernel has then recorded the failures on
// the remaining legs, and takes no leg back. Pure.
bool HasStopped(const lvm::Geometry& geometry, const dm::RaidStatus& raid);

// Whether the volume's type can do without a leg. Pure.
bool HasRedundancy(const lvm::LogicalVolume& lv);

// Whether any file system was mounted writable and has become read-only. Pure.
bool AnyGoneReadOnly(const mount::MountTable& mounts);

// The verdict by LVM's metadata. A leg is out of reach if its disk is missing; if its disk has returned and
// LVM refuses to take it back (`refused`, PV UUIDs); or if its disk is present and does not give the leg's
// superblock (`unreadable`, by leg; empty: none). While any other disk of the group has returned and is about
// to be taken back, no volume is lost: the disks of one controller return one after the other. Pure.
LossVerdict JudgeLoss(const Record& record, const std::set<std::string>& refused,
                      const std::vector<bool>& unreadable);

// `raid`: nullopt if the volume is not RAID, or not active. `mounts`: the mounts of the volume's file system.
// Pure.
Health Diagnose(const Record& record, const std::optional<dm::RaidStatus>& raid,
                const std::vector<const mount::MountEntry*>& mounts);

// The text of a scrub's outcome in the volume's tag: "<seconds since 1970>:<bytes>". Pure.
std::string ScrubText(const ScrubOutcome& outcome);
// nullopt: never scrubbed, or a text that this build does not know. Pure.
std::optional<ScrubOutcome> ReadScrub(std::string_view text);

// A volume's condition in one word: "healthy", "syncing", "degraded", "repairing", "failed". Pure.
std::string_view ConditionWord(const Health& health);

}  // namespace quarry::engine
