#include "engine/pool/reload.h"

#include "engine/plan/plan_cow.h"
#include "engine/pool/node.h"
#include "lvm/names.h"

namespace quarry::engine {

Status RunReloading(Pool& pool, const World& world, const lvm::VolumeGroup& group,
                    const lvm::LogicalVolume& volume, const std::function<Plan(bool read_only)>& make,
                    const Call& call) {
  const std::string uuid = lvm::DmUuid(group.uuid, volume.uuid);
  QUARRY_ASSIGN(const auto before, world.dm.Find(uuid));
  const bool read_only = before.has_value() && before->read_only;
  Status done = RunCounted(pool, make(read_only), world, call);
  if (done.has_value()) {
    return done;
  }
  Plan undo;
  for (const std::string& device : {uuid, BelowKept(uuid)}) {
    const auto after = world.dm.Find(device);
    if (undo.empty() && after.has_value() && after->has_value() && (*after)->suspended) {
      undo.push_back(ActivateAction{group.name, {volume.name}});
    }
  }
  if (read_only) {
    undo.push_back(SetReadOnlyAction{uuid, true});
  }
  (void)Execute(undo, world, CallWithin(kUndoLimit));
  return done;
}

Status EndKeeping(Pool& pool, const World& world, const Record& store, const lvm::LogicalVolume& kept,
                  const std::set<std::string>& given_up, const Call& call) {
  const auto plan = [&](bool read_only) { return PlanEndKeeping(store, kept, read_only, given_up); };
  return RunReloading(pool, world, *store.group, kept, plan, call);
}

void DropDevicesOfStore(const World& world, const Record& store, const Call& call) {
  const lvm::VolumeGroup& group = *store.group;
  if (!store.lv->origin.empty()) {
    return;
  }
  (void)Execute({DeactivateAction{group.name, store.lv->name, store.DmUuids()}}, world, call);
  (void)world.dm.Remove(OfStore(store.DmUuid()));
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (!lv.hidden && lvm::BearsId(lv.tags, store.tags.source) && !HasSnapshot(group, lv)) {
      (void)world.dm.Remove(BelowKept(lvm::DmUuid(group.uuid, lv.uuid)));
    }
  }
}

}  // namespace quarry::engine
