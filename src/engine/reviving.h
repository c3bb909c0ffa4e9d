// Starting raid arrays again that stopped because more legs failed than the type can do without, once their
// disks are back. dm-raid writes on the legs that are left which others failed, and starts from those that
// know it only with enough legs; what is on the legs is whole but for writes that nobody was told of.
//
// As mdadm --assemble --force: the freshest legs are taken, by the count that rises with each change of the
// array; which is to say that older ones are left out, to be filled again, as soon as there are enough
// without them.
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

// Lets an inactive volume start again, if it is stopped; OK if it is not, or is no raid that can stop.
// kUnavailable: a disk of it is missing.
Status Revive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::RaidLegsApi& legs);

}  // namespace quarry::engine
