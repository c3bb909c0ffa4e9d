#include "engine/erase/holder.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/erase/erase_job.h"
#include "engine/model/sizing.h"
#include "engine/plan/plan_volume.h"
#include "engine/plan/zeroed_extents.h"
#include "engine/pool/node.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

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

// Executes `plan`, which creates the holder. Returns the holder as an owner.
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

void ForgetName(Pool& pool, const std::string& name) {
  const MutexLock lock(pool.making_mutex);
  pool.making.erase(name);
}

// As GiveBackExtents, but tries once and records nothing.
Result<bool> RemoveHolder(Pool& pool, const Zeroing& zeroing, const World& world, const Call& call) {
  const std::string& group = pool.config.group;
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(group, call));
  pool.clean.Look(*now);
  const Owner& owner = zeroing.work()->owner();
  const lvm::LogicalVolume* const holder = now->FindLv(owner.lv_name);
  if (holder == nullptr || holder->uuid != owner.lv_uuid ||
      std::ranges::find(holder->tags, owner.tag) == holder->tags.end()) {
    return false;  // removed, or somebody has made it his own
  }
  const bool held = ByPv(lvm::PhysicalExtents(*now, *holder)) == ByPv(zeroing.held());
  // lvremove would also remove what another program has put on the LV. OwnedExtents fails if there is any.
  const auto owned = lvm::OwnedExtents(*now, *holder);
  if (!owned.has_value()) {
    return Error(owned.error()).Context(fmt::format("logical volume {}/{}", group, holder->name));
  }
  QUARRY_TRY(RunCounted(pool, {RemoveLvAction{group, {zeroing.lv_name()}, now->seqno}}, world, call));
  return held;
}

}  // namespace

lvm::FreeSpace SpaceWithin(const lvm::VolumeGroup& group, const std::vector<lvm::PhysicalRange>& held) {
  lvm::FreeSpace space = lvm::FreeSpaceOf(group);
  const auto wanted = ByPv(held);
  for (lvm::FreePv& pv : space.pvs) {
    const auto mine = wanted.find(pv.uuid);
    pv.free = mine == wanted.end() ? std::vector<lvm::ExtentRange>() : Common(pv.free, mine->second);
  }
  return space;
}

Result<std::shared_ptr<Zeroing>> HoldExtents(Pool& pool, const Catalog& catalog, Hold hold,
                                             const World& world, const Call& call) {
  const lvm::VolumeGroup& group = *catalog.group;
  QUARRY_TRY(
      CheckVolumeLimit(catalog).Context("zeroing before use needs a logical volume that holds the extents"));
  QUARRY_ASSIGN(const lvm::Placement place, PlaceHolder(group, hold.held));
  QUARRY_ASSIGN(const Plan writes, PlanEraseRanges(group, hold.to_write, dm::EraseMethod::kZero));
  QUARRY_ASSIGN(const lvm::Geometry linear, lvm::Geometry::Make({}));
  {
    const MutexLock lock(pool.making_mutex);
    pool.making.insert(hold.lv_name);
  }
  const Plan take = {lvm::CreateLv{.group = group.name,
                                   .name = hold.lv_name,
                                   .geometry = linear,
                                   .step = place.steps.front(),
                                   .tags = {std::string(lvm::kCreatingTag)},
                                   .wipe = lvm::Wipe::kNone,
                                   .activate = false},
                     VerifyLayoutAction{group.name, hold.lv_name, place}};
  auto holder = Take(pool, take, hold.lv_name, world, call);
  if (!holder.has_value()) {
    (void)Execute({RemoveLvAction{group.name, {hold.lv_name}}}, world, CallWithin(kUndoLimit));
    ForgetName(pool, hold.lv_name);  // the eraser removes what is left
    return std::move(holder.error());
  }
  std::vector<DiskPart> parts = PartsOf(writes);
  const std::vector<Bytes> nothing_yet(parts.size());
  const auto work = std::make_shared<EraseJob>(std::move(*holder), std::move(hold.cleared), std::move(parts),
                                               nothing_yet, world.clock.Now());
  return std::make_shared<Zeroing>(std::move(hold.held), work);
}

Result<bool> GiveBackExtents(Pool& pool, const Zeroing& zeroing, const World& world, const Call& call) {
  constexpr int kAttempts = 5;
  Result<bool> held = RemoveHolder(pool, zeroing, world, call);
  for (int attempt = 1; attempt < kAttempts && !held.has_value() && held.error().code() == Code::kUnavailable;
       ++attempt) {
    held = RemoveHolder(pool, zeroing, world, call);
  }
  if (!held.has_value()) {
    return held;
  }
  if (*held && zeroing.Outcome().has_value()) {
    pool.clean.Add(zeroing.cleared());
  }
  ForgetName(pool, zeroing.lv_name());
  return held;
}

}  // namespace quarry::engine
