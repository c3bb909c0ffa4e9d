#include "engine/erase/zero_before_use.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/erase/holder.h"
#include "engine/plan/zeroed_extents.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{4000};
constexpr milliseconds kForTheAnswer{500};  // left of the caller's own deadline
// How long zeroed extents are kept for a repeated call.
constexpr std::chrono::minutes kKept{5};

// Gives the extents back (GiveBackExtents) and forgets the zeroing.
Result<bool> GiveBack(Pool& pool, Zeroings& zeroings, const LockKey& key,
                      const std::shared_ptr<Zeroing>& cleaning, const World& world, const Call& call) {
  QUARRY_ASSIGN(const bool held, GiveBackExtents(pool, *cleaning, world, call));
  zeroings.Drop(key);
  return held;
}

// Whether `key` belongs to the growth of a volume that the group no longer has. Then no call comes back for
// the extents. A volume that was made a part of another volume keeps its tags, so it does not count as gone.
bool VolumeIsGone(const lvm::VolumeGroup& group, const LockKey& key) {
  return !key.volume_id().empty() && std::ranges::none_of(group.lvs, [&](const lvm::LogicalVolume& lv) {
    return lvm::BearsId(lv.tags, key.volume_id());
  });
}

// The zeroings that have ended and that no call is expected to use: no call has waited for them for kKept, or
// the volume is gone. Without a `group` (nullptr) no volume counts as gone.
std::vector<std::pair<LockKey, std::shared_ptr<Zeroing>>> Unwanted(const Zeroings& zeroings,
                                                                   const lvm::VolumeGroup* group) {
  auto ended = zeroings.Finished();
  std::erase_if(ended, [&](const auto& entry) {
    const bool gone = group != nullptr && VolumeIsGone(*group, entry.first);
    return !gone && entry.second->Unasked() <= kKept;
  });
  return ended;
}

}  // namespace

bool MustBeZeroed(const Profile& profile, std::optional<Access> access) {
  return (profile.erase != ErasePolicy::kNone && access != Access::kMount) ||
         (profile.skip_sync && profile.geometry.has_metadata());
}

Result<Zeroed> TakeZeroed(Node& node, Pool& pool, Eraser& eraser, const LockKey& key, const Call& call) {
  const std::shared_ptr<Zeroing> cleaning = eraser.zeroings().Find(key);
  if (cleaning == nullptr) {
    return Zeroed{};
  }
  if (!cleaning->Finished()) {
    return Zeroed{cleaning, {}};
  }
  QUARRY_ASSIGN(const bool held, GiveBack(pool, eraser.zeroings(), key, cleaning, node.world, call));
  QUARRY_TRY(cleaning->Outcome());
  return held ? Zeroed{nullptr, cleaning->held()} : Zeroed{};
}

Result<std::shared_ptr<Zeroing>> StartZeroing(Node& node, Pool& pool, Eraser& eraser, const LockKey& key,
                                              const Catalog& catalog, const Plan& plan,
                                              const std::vector<lvm::PhysicalRange>& unknown,
                                              const Call& call) {
  auto held = HoldExtents(pool, catalog,
                          {.lv_name = lvm::NewLvName(),
                           .held = ExtentsOf(plan, true),
                           .cleared = ExtentsOf(plan, false),
                           .to_write = unknown},
                          node.world, call);
  if (!held.has_value()) {
    eraser.Wake();
    return held;
  }
  const std::shared_ptr<Zeroing> cleaning = std::move(*held);
  eraser.zeroings().Add(key, cleaning);
  node.log.Info("zeroing disk space before use", {{"pool", pool.config.name},
                                                  {"for", key.text()},
                                                  {"bytes", static_cast<int64_t>(cleaning->total().value)}});
  eraser.Clear(*cleaning, DiskQueue::Haste::kAwaited);
  return cleaning;
}

bool SweepZeroings(Pool& pool, Zeroings& zeroings, const lvm::VolumeGroup& group, const World& world,
                   FailureLog& failures, const Call& call) {
  if (zeroings.empty()) {
    return false;
  }
  if (Unwanted(zeroings, &group).empty()) {
    return true;
  }
  const auto turn = pool.writers.Wait("giving back zeroed space", call);
  if (!call.stop.stop_requested()) {
    failures.Note("", turn.has_value() ? Ok() : Status(turn.error()));
  }
  if (turn.has_value()) {
    // Again, under the turn: a caller may have come back.
    const auto now = world.lvm.Read(pool.config.group, call);
    for (const auto& [key, zeroing] : Unwanted(zeroings, now.has_value() ? now->get() : nullptr)) {
      const auto back = GiveBack(pool, zeroings, key, zeroing, world, call);
      if (!call.stop.stop_requested()) {
        failures.Note(zeroing->lv_name(), back.has_value() ? Ok() : Status(back.error()));
      }
    }
  }
  return true;
}

Call ZeroingPatience(const Call& call) {
  Call patience = call.Within(kPatience);
  if (call.deadline != SteadyTime::max()) {
    patience.deadline = std::min(patience.deadline, call.deadline - kForTheAnswer);
  }
  return patience;
}

}  // namespace quarry::engine
