#include "engine/repair/replace_legs.h"

#include "engine/model/failing_disks.h"
#include "engine/model/volume_health.h"

namespace quarry::engine {

std::expected<RepairStep, LegsKept> ReplaceLegs(const RepairView& view, const VolumeView& volume,
                                                const lvm::Geometry& geometry, const LegsToReplace& legs) {
  const Record& record = *volume.record;
  const std::string& group = view.group().name;
  std::vector<bool> useless = UselessLegs(view, volume);
  for (size_t i = 0; i < legs.which.size(); ++i) {
    useless[i] = useless[i] || legs.which[i];
  }
  auto placed = PlaceRebuiltLegs(view.group(), legs.avoid, geometry, *record.lv, legs.which);
  const bool needed = !Survives(geometry, useless);
  if (needed || !placed.has_value()) {
    return std::unexpected(LegsKept{needed, placed.has_value() ? "" : placed.error().message()});
  }
  RepairStep step{.ids = {record.tags.id}, .kind = legs.kind};
  if (legs.activate) {
    step.actions.push_back(ActivateAction{group, {record.lv->name}});
  }
  step.actions.push_back(lvm::RepairLv{group, record.lv->name, std::move(placed->pv_arguments),
                                       legs.on == nullptr ? "" : legs.on->device});
  step.actions.push_back(VerifyLegsAction{group, record.lv->name, legs.on == nullptr ? "" : legs.on->uuid});
  return step;
}

}  // namespace quarry::engine
