#include "engine/plan/plan_taken_out.h"

#include <algorithm>

#include "engine/model/taken_out.h"

namespace quarry::engine {

Plan PlanEndOf(const Catalog& catalog, const TakenOut& taken) {
  Plan plan;
  const Record* const record = VolumeOf(catalog, taken);
  for (const lvm::LogicalVolume* const part : taken.parts) {
    lvm::VolumeTags tags = record->tags;
    tags.state = lvm::VolumeState::kErasing;
    tags.id = lvm::VolumeId(record->pool, part->name);
    tags.size = part->size;
    tags.erased.clear();
    tags.scrubbed.clear();
    plan.push_back(
        lvm::ChangeTags{catalog.group->name, part->name, lvm::BuildTags(tags), lvm::TagsOfOurs(part->tags)});
  }
  return plan;
}

bool IsDispensable(const Record& volume, const std::optional<dm::RaidStatus>& raid) {
  const std::vector<bool> lost = lvm::LostLegs(*volume.group, *volume.lv);
  return raid.has_value() && raid->action == "idle" && raid->in_sync == raid->total &&
         raid->legs.size() == lost.size() && raid->legs.find_first_not_of('A') == std::string::npos &&
         std::ranges::find(lost, true) == lost.end();
}

}  // namespace quarry::engine
