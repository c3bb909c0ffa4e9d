// How a volume is: from what LVM's metadata say of its disks, what the kernel says of its legs, and what
// became of its file system. Nothing is polled and nothing is kept: each answer is that of the moment.
#pragma once

#include <optional>
#include <string_view>

#include "dm/dm_api.h"
#include "engine/model/catalog.h"
#include "engine/model/types.h"
#include "mount/mount_api.h"

namespace quarry::engine {

// Whether such a volume can give all its data without the legs for which `lost` is true: one entry per leg,
// in order.
bool Survives(const lvm::Geometry& geometry, const std::vector<bool>& lost);

// For each leg whether the kernel has given it up, or has none in its place. Pure.
std::vector<bool> FailedLegs(const dm::RaidStatus& raid);

// More legs given up than the type can do without: the kernel has written so on those that are left, and
// takes none back. Pure.
bool HasStopped(const lvm::Geometry& geometry, const dm::RaidStatus& raid);

// Whether it is of a type that can do without a leg. Pure.
bool HasRedundancy(const lvm::LogicalVolume& lv);

// Whether there is a file system that was mounted writable and is not so any more. Pure.
bool AnyGoneReadOnly(const mount::MountTable& mounts);

// `raid`: nullopt if it is no raid volume, or not active. `mounts` are those of its file system. Pure.
Health Diagnose(const Record& record, const std::optional<dm::RaidStatus>& raid,
                const std::vector<const mount::MountEntry*>& mounts);

// A volume's condition in one word: "healthy", "syncing", "degraded", "repairing", "failed". Pure.
std::string_view ConditionWord(const Health& health);

}  // namespace quarry::engine
