#include "engine/plan/left_suspended.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/model/catalog.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::seconds kHoldLimit{30};

struct Left {
  std::vector<std::string> waiting;    // devices without legs, and legs, whose table is dropped
  std::vector<std::string> suspended;  // legs
  std::vector<std::string> arrays;     // RAID devices whose table is dropped
  std::vector<std::string> running;    // RAID devices below a suspended pool
  bool too_large = false;              // a device is larger than LVM's text says
  bool TouchesArrays() const { return !suspended.empty() || !arrays.empty() || !running.empty(); }
  bool Nothing() const { return waiting.empty() && !TouchesArrays() && !too_large; }
};

// Looks at the devices of one group.
class Looker {
 public:
  Looker(const lvm::VolumeGroup& group, const World& world) : group_(group), world_(world) {}

  Result<Left> Look(const lvm::LogicalVolume& lv) {
    const lvm::LogicalVolume* const pool = lv.pool.empty() ? &lv : group_.FindLv(lv.pool);
    const auto parts = pool == nullptr ? std::nullopt : lvm::PartsOfPool(group_, *pool);
    if (!parts.has_value()) {
      QUARRY_TRY(LookAtVolume(lv, false));
      return left_;
    }
    const std::string uuid = lvm::DmUuid(group_.uuid, pool->uuid);
    QUARRY_TRY(LookAbove(lvm::DmUuidAbovePool(uuid)));
    // While the pool itself goes on, its commits need the parts.
    QUARRY_ASSIGN(const bool is_suspended, LookAbove(lvm::DmUuidOfPool(uuid)));
    QUARRY_TRY(LookAtVolume(*parts->data, is_suspended));
    QUARRY_TRY(LookAtVolume(*parts->metadata, is_suspended));
    if (pool != &lv && !is_suspended) {
      QUARRY_TRY(LookAtVolume(lv, false));
    }
    return left_;
  }

 private:
  // At a device that is no RAID device. Whether it is suspended.
  Result<bool> LookAbove(const std::string& uuid) {
    QUARRY_ASSIGN(const auto found, world_.dm.Find(uuid));
    if (found.has_value() && found->waiting_table && found->has_table) {
      left_.waiting.push_back(uuid);
    }
    return found.has_value() && found->suspended;
  }
  Status LookAtVolume(const lvm::LogicalVolume& lv, bool below_suspended) {
    std::string uuid = DmUuidOf(group_, lv);
    // Below a snapshot of type COW the volume has another device.
    QUARRY_ASSIGN(const auto below, world_.dm.Find(lvm::DmUuidBelow(uuid)));
    if (below.has_value()) {
      QUARRY_TRY(LookAbove(uuid));
      uuid = below->uuid;
    }
    QUARRY_ASSIGN(const bool is_too_large, IsLarger(uuid, lv.size));
    if (!lv.IsRaid()) {
      QUARRY_TRY(LookAbove(uuid));
      return Ok();
    }
    for (const std::string& leg : DmUuids(group_, lv)) {
      if (leg != DmUuidOf(group_, lv)) {
        QUARRY_TRY(LookAtLeg(leg));
      }
    }
    QUARRY_ASSIGN(const auto own, world_.dm.Find(uuid));
    // Or it has only the size of a table that was dropped, which dropping mends.
    if (own.has_value() && own->has_table && (own->waiting_table || is_too_large)) {
      left_.arrays.push_back(uuid);
    }
    if (own.has_value() && own->has_table && !own->suspended && below_suspended) {
      left_.running.push_back(uuid);
    }
    return Ok();
  }
  Status LookAtLeg(const std::string& uuid) {
    QUARRY_ASSIGN(const bool is_suspended, LookAbove(uuid));
    if (is_suspended) {
      left_.suspended.push_back(uuid);
    }
    const auto leg = std::ranges::find_if(
        group_.lvs, [&](const lvm::LogicalVolume& lv) { return lvm::IsDmUuidOf(uuid, lv.uuid); });
    if (leg != group_.lvs.end()) {
      QUARRY_TRY(IsLarger(uuid, leg->size));
    }
    return Ok();
  }
  Result<bool> IsLarger(const std::string& uuid, Bytes size) {
    const auto device = world_.dm.Open(uuid, O_RDONLY);
    if (!device.has_value()) {
      return false;  // not active, or without a table
    }
    QUARRY_ASSIGN(const Bytes now, world_.mount.DeviceSize(device->get()));
    left_.too_large = left_.too_large || now > size;
    return now > size;
  }

  const lvm::VolumeGroup& group_;
  const World& world_;
  Left left_;
};

}  // namespace

Result<bool> PrepareReload(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                           const Call& call) {
  QUARRY_ASSIGN(const Left seen, Looker(group, world).Look(lv));
  if (seen.Nothing()) {
    return false;
  }
  const std::string what = fmt::format("what a killed command left of {}/{}", group.name, lv.name);
  auto held = world.lvm.Hold(group.name, call.Within(kHoldLimit));
  if (!held.has_value()) {
    return std::move(held.error()).Context(what);
  }
  // A command that was at work has finished what was its own.
  const lvm::LogicalVolume* const now = held->snapshot->FindLv(lv.name);
  if (now == nullptr) {
    return false;
  }
  QUARRY_ASSIGN(const Left left, Looker(*held->snapshot, world).Look(*now));
  if (left.TouchesArrays() && !held->silent.empty()) {
    return Error(Code::kUnavailable, "a disk of the group does not answer").Context(what);
  }
  for (const std::string& device : left.waiting) {
    QUARRY_TRY(world.dm.DropWaitingTable(device));
  }
  for (const std::string& leg : left.suspended) {
    QUARRY_TRY(world.dm.Resume(leg));
  }
  for (const std::string& array : left.arrays) {
    QUARRY_TRY(world.dm.DropWaitingTable(array));
  }
  for (const std::string& array : left.running) {
    QUARRY_TRY(world.dm.Suspend(array, dm::FileSystemLock::kSkip));
  }
  return !left.Nothing();
}

}  // namespace quarry::engine
