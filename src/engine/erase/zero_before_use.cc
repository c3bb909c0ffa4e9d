#include "engine/erase/zero_before_use.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/sizing.h"
#include "engine/plan/plan_volume.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{4000};
constexpr milliseconds kForTheAnswer{500};  // left of the caller's own deadline
// How long zeroed extents are kept for a repeated call.
constexpr std::chrono::minutes kKept{5};

// Removes the LV that holds the extents. False: another process has removed or moved that LV meanwhile, so
// the extents may have been used by others.
Result<bool> RemoveHolder(Pool& pool, const std::shared_ptr<Zeroing>& cleaning, const World& world,
                          const Call& call) {
  const std::string& group = pool.config.group;
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(group, call));
  pool.clean.Look(*now);
  const lvm::LogicalVolume* const holder = now->FindLv(cleaning->lv_name());
  if (holder == nullptr) {
    return false;
  }
  const bool held = ByPv(lvm::PhysicalExtents(*now, *holder)) == ByPv(cleaning->held());
  // lvremove would also remove what another program has put on the LV. OwnedExtents fails if there is any.
  const auto owned = lvm::OwnedExtents(*now, *holder);
  if (!owned.has_value()) {
    return Error(owned.error()).Context(fmt::format("logical volume {}/{}", group, holder->name));
  }
  QUARRY_TRY(RunCounted(pool, {RemoveLvAction{group, {cleaning->lv_name()}, now->seqno}}, world, call));
  return held;
}

// Removes the LV as above and forgets the zeroing. Records the extents as zeroed if the zeroing succeeded and
// the LV still had them. If another process commits meanwhile, it tries again, kAttempts times in all.
Result<bool> GiveBack(Pool& pool, Zeroings& zeroings, const LockKey& key,
                      const std::shared_ptr<Zeroing>& cleaning, const World& world, const Call& call) {
  constexpr int kAttempts = 5;
  Result<bool> held = RemoveHolder(pool, cleaning, world, call);
  for (int attempt = 1; attempt < kAttempts && !held.has_value() && held.error().code() == Code::kUnavailable;
       ++attempt) {
    held = RemoveHolder(pool, cleaning, world, call);
  }
  if (!held.has_value()) {
    return held;
  }
  if (*held && cleaning->Outcome().has_value()) {
    pool.clean.Add(cleaning->cleared());
  }
  {
    const MutexLock lock(pool.making_mutex);
    pool.making.erase(cleaning->lv_name());
  }
  zeroings.Drop(key);
  return held;
}

// Places one linear LV, which one command can create, on exactly the extents in `all`.
Result<lvm::Placement> PlaceHolder(const lvm::VolumeGroup& group,
                                   const std::vector<lvm::PhysicalRange>& all) {
  QUARRY_ASSIGN(const lvm::Geometry linear, lvm::Geometry::Make({}));
  uint64_t size = 0;
  for (const lvm::PhysicalRange& range : all) {
    size += range.range.count.value;
  }
  return lvm::Place(SpaceWithin(group, all), linear, {size}, group);
}

// Executes `plan`, which creates the LV that holds the extents. Returns that LV as an owner.
Result<Owner> Take(Pool& pool, const Plan& plan, const std::string& name, const World& world,
                   const Call& call) {
  QUARRY_TRY(RunCounted(pool, plan, world, call));
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(pool.config.group, call));
  const lvm::LogicalVolume* const holder = now->FindLv(name);
  if (holder == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("logical volume {} was removed right after its creation", name));
  }
  return OwnerOf(*now, *holder, std::string(lvm::kCreatingTag));
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

lvm::FreeSpace SpaceWithin(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& held) {
  lvm::FreeSpace space = lvm::FreeSpaceOf(group);
  const auto wanted = ByPv(held);
  for (lvm::FreePv& pv : space.pvs) {
    const auto mine = wanted.find(pv.uuid);
    pv.free = mine == wanted.end() ? std::vector<lvm::ExtentRange>() : Common(pv.free, mine->second);
  }
  return space;
}

Result<std::shared_ptr<Zeroing>> StartZeroing(Node& node, Pool& pool, Eraser& eraser, const LockKey& key,
                                              const Catalog& catalog, const Plan& plan,
                                              const std::vector<lvm::PhysicalRange>& unknown,
                                              const Call& call) {
  const lvm::VolumeGroup& group = *catalog.group;
  const std::vector<lvm::PhysicalRange> all = ExtentsOf(plan, true);
  QUARRY_TRY(
      CheckVolumeLimit(catalog).Context("zeroing before use needs a logical volume that holds the extents"));
  QUARRY_ASSIGN(const lvm::Placement hold, PlaceHolder(group, all));
  QUARRY_ASSIGN(Plan erase, PlanEraseRanges(group, unknown, dm::EraseMethod::kZero));
  QUARRY_ASSIGN(const lvm::Geometry linear, lvm::Geometry::Make({}));
  const std::string name = lvm::NewLvName();
  {
    const MutexLock lock(pool.making_mutex);
    pool.making.insert(name);
  }
  const Plan take = {lvm::CreateLv{.group = group.name,
                                   .name = name,
                                   .geometry = linear,
                                   .step = hold.steps.front(),
                                   .tags = {std::string(lvm::kCreatingTag)},
                                   .wipe = lvm::Wipe::kNone,
                                   .activate = false},
                     VerifyLayoutAction{group.name, name, hold}};
  auto holder = Take(pool, take, name, node.world, call);
  if (!holder.has_value()) {
    {
      const MutexLock lock(pool.making_mutex);
      pool.making.erase(name);
    }
    if (!Execute({RemoveLvAction{group.name, {name}}}, node.world, CallWithin(kUndoLimit)).has_value()) {
      eraser.Wake();
    }
    return std::move(holder.error());
  }
  std::vector<DiskPart> parts = PartsOf(erase);
  const std::vector<Bytes> nothing_yet(parts.size());
  const auto work = std::make_shared<EraseJob>(std::move(*holder), ExtentsOf(plan, false), std::move(parts),
                                               nothing_yet, node.world.clock.Now());
  auto cleaning = std::make_shared<Zeroing>(all, work);
  eraser.zeroings().Add(key, cleaning);
  node.log.Info("zeroing disk space before use", {{"pool", pool.config.name},
                                                  {"for", key.text()},
                                                  {"bytes", static_cast<int64_t>(cleaning->total().value)}});
  eraser.Clear(work);
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
