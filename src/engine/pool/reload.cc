#include "engine/pool/reload.h"

#include <utility>
#include <variant>

#include "engine/plan/plan_cow.h"
#include "engine/pool/node.h"
#include "lvm/names.h"

namespace quarry::engine {

namespace {

bool ReloadsTables(const Action& action) {
  const auto* const change = std::get_if<lvm::Change>(&action);
  return change != nullptr &&
         std::visit([]<typename Verb>(const Verb& /*verb*/) { return Verb::kReloadsTables; }, *change);
}

// What restores the volume after a plan that failed.
Plan PlanUndo(const World& world, const lvm::VolumeGroup& group, const lvm::LogicalVolume& volume,
              bool read_only) {
  const std::string uuid = lvm::DmUuid(group.uuid, volume.uuid);
  const auto top = world.dm.Find(uuid);
  if (!top.has_value() || !top->has_value()) {
    return {};
  }
  const auto below = world.dm.Find(lvm::DmUuidBelow(uuid));
  Plan undo;
  if ((*top)->suspended || (below.has_value() && below->has_value() && (*below)->suspended)) {
    undo.push_back(ActivateAction{group.name, {volume.name}});
  }
  if (read_only) {
    undo.push_back(SetReadOnlyAction{uuid, true});
  }
  return undo;
}

}  // namespace

Status RunReloading(Pool& pool, const World& world, const Logger& log, const lvm::VolumeGroup& group,
                    const lvm::LogicalVolume& volume, Plan plan, const Call& call) {
  const std::string uuid = lvm::DmUuid(group.uuid, volume.uuid);
  QUARRY_ASSIGN(const auto before, world.dm.Find(uuid));
  const bool read_only = before.has_value() && before->read_only;
  for (size_t i = 0; read_only && i < plan.size(); ++i) {
    if (ReloadsTables(plan[i])) {
      plan.insert(plan.begin() + static_cast<std::ptrdiff_t>(++i), SetReadOnlyAction{uuid, true});
    }
  }
  Status done = RunCounted(pool, plan, world, call);
  if (done.has_value()) {
    return done;
  }
  const auto undone = Execute(PlanUndo(world, group, volume, read_only), world, CallWithin(kUndoLimit));
  if (!undone.has_value()) {
    log.Error(
        "a volume could not be restored after a change of its table failed: it may be suspended or writable",
        {{"lv", volume.name}, {"error", undone.error().message()}});
  }
  return done;
}

Status EndKeeping(Pool& pool, const World& world, const Logger& log, const Record& store,
                  const lvm::LogicalVolume& kept, const std::set<std::string>& given_up, const Call& call) {
  return RunReloading(pool, world, log, *store.group, kept, PlanEndKeeping(store, kept, given_up), call);
}

void DropDevicesOfStore(const World& world, const Record& store, const Call& call) {
  const lvm::VolumeGroup& group = *store.group;
  if (!store.lv->origin.empty()) {
    return;
  }
  (void)Execute({DeactivateAction{group.name, store.lv->name, store.DmUuids()}}, world, call);
  (void)world.dm.Remove(lvm::DmUuidOfStore(store.DmUuid()));
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (!lv.hidden && lvm::BearsId(lv.tags, store.tags.source) && !HasSnapshot(group, lv)) {
      (void)world.dm.Remove(lvm::DmUuidBelow(lvm::DmUuid(group.uuid, lv.uuid)));
    }
  }
}

}  // namespace quarry::engine
