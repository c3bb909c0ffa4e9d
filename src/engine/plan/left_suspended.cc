#include "engine/plan/left_suspended.h"

#include <chrono>
#include <string>
#include <vector>

#include "engine/model/catalog.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::seconds kHoldLimit{30};

struct Left {
  std::vector<std::string> waiting;    // devices of the pool for which a table waits
  std::vector<std::string> suspended;  // legs of the parts
};

Result<Left> Look(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, dm::DmApi& dm) {
  Left out;
  const std::string uuid = lvm::DmUuid(group.uuid, pool.uuid);
  for (const std::string& device : {lvm::DmUuidAbovePool(uuid), lvm::DmUuidOfPool(uuid)}) {
    QUARRY_ASSIGN(const auto found, dm.Find(device));
    if (found.has_value() && found->waiting_table) {
      out.waiting.push_back(device);
    }
  }
  const auto parts = lvm::PartsOfPool(group, pool);
  if (!parts.has_value()) {
    return out;
  }
  for (const lvm::LogicalVolume* const part : {parts->data, parts->metadata}) {
    for (const std::string& leg : DmUuids(group, *part)) {
      QUARRY_ASSIGN(const auto found, dm.Find(leg));
      if (leg != DmUuidOf(group, *part) && found.has_value() && found->suspended && !found->waiting_table &&
          found->has_table) {
        out.suspended.push_back(leg);
      }
    }
  }
  return out;
}

}  // namespace

Status PrepareResume(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                     const Call& call) {
  QUARRY_ASSIGN(const Left seen, Look(group, pool, world.dm));
  if (seen.waiting.empty() && seen.suspended.empty()) {
    return Ok();
  }
  const auto held = world.lvm.Hold(group.name, call.Within(kHoldLimit));
  if (!held.has_value()) {
    return seen.suspended.empty()
               ? Ok()
               : Status(Error(held.error()).Context("legs of a thin store that a killed LVM left suspended"));
  }
  // A command that was at work has finished what was its own.
  QUARRY_ASSIGN(const Left left, Look(group, pool, world.dm));
  for (const std::string& device : left.waiting) {
    (void)world.dm.DropWaitingTable(device);
  }
  for (const std::string& leg : left.suspended) {
    QUARRY_TRY(world.dm.Resume(leg));
  }
  return Ok();
}

}  // namespace quarry::engine
