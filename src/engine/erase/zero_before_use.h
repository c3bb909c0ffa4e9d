// Sees to it that a plan's extents show nobody's old bytes before it is carried out. For plans that create or
// grow; everything here happens under the pool's turn.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/erase/eraser.h"
#include "engine/erase/zeroing.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Whether tenants could read the extents of such a volume past what they wrote themselves: raw devices,
// unless erasing is turned off for it. Files of a file system never show what was not written. A raid that
// was not synced must not get unequal legs either, by growing onto old bytes.
bool MustBeZeroed(const Profile& profile, std::string_view access);

// What an earlier call for the same volume had cleared.
struct Zeroed {
  std::shared_ptr<Zeroing> under_way;    // not finished: nothing else is set
  std::vector<lvm::PhysicalRange> held;  // free again, and for this volume
};
// Looks for the cleaning of `key`; if it is finished, gives its extents back to the group. The cleaning's
// error, if it failed: the next call begins anew.
Result<Zeroed> TakeZeroed(Node& node, Pool& pool, Eraser& eraser, const std::string& key, const Call& call);

// The room that `held` is, for a plan that takes just that.
lvm::FreeSpace SpaceWithin(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& held);

// Holds the extents that `plan` places and has `unknown` of them cleared.
Result<std::shared_ptr<Zeroing>> StartZeroing(Node& node, Pool& pool, Eraser& eraser, const std::string& key,
                                              const Catalog& catalog, const Plan& plan,
                                              const std::vector<lvm::PhysicalRange>& unknown,
                                              const Call& call);

// Gives back what was cleared and nobody has come for. True if there are cleanings left. Takes the turn
// itself.
bool SweepZeroings(Pool& pool, Zeroings& zeroings, const World& world, const Call& call);

// How long a caller is kept waiting for a cleaning: shorter than the patience of those who call, who may ask
// again.
Call ZeroingPatience(const Call& call);

}  // namespace quarry::engine
