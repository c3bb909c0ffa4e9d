#include "engine/plan/left_suspended.h"

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
  std::vector<std::string> running;    // RAID devices below a suspended pool, larger than LVM's text says
  bool too_large = false;              // a device is larger than LVM's text says
  bool TouchesArrays() const { return !suspended.empty() || !arrays.empty() || !running.empty(); }
  bool Nothing() const { return waiting.empty() && !TouchesArrays() && !too_large; }
};

// Looks at the devices of one group.
class Looker {
 public:
  Looker(const lvm::VolumeGroup& group, const World& world) : group_(group), world_(world) {}

  Result<Left> Look(const lvm::LogicalVolume& lv) {
    const auto below = PoolOf(group_, lv);
    if (!below.has_value()) {
      QUARRY_TRY(LookAtVolume(lv, false));
      return left_;
    }
    const auto& [pool, parts] = *below;
    const std::string uuid = lvm::DmUuid(group_.uuid, pool->uuid);
    QUARRY_TRY(LookAt(lvm::DmUuidAbovePool(uuid), left_.waiting));
    // While the pool itself goes on, its commits need the parts.
    QUARRY_ASSIGN(const auto own, LookAt(lvm::DmUuidOfPool(uuid), left_.waiting));
    QUARRY_TRY(IsLarger(lvm::DmUuidOfPool(uuid), parts.data->size));
    const bool is_suspended = own.has_value() && own->suspended;
    QUARRY_TRY(LookAtVolume(*parts.data, is_suspended));
    QUARRY_TRY(LookAtVolume(*parts.metadata, is_suspended));
    if (pool != &lv && !is_suspended) {
      QUARRY_TRY(LookAtVolume(lv, false));
    }
    return left_;
  }

 private:
  // If a table waits for the device, notes it in `list`. nullopt: not active, or without a table.
  Result<std::optional<dm::Device>> LookAt(const std::string& uuid, std::vector<std::string>& list) {
    QUARRY_ASSIGN(auto found, world_.dm.Find(uuid));
    if (!found.has_value() || !found->has_table) {
      return std::optional<dm::Device>();
    }
    if (found->waiting_table) {
      list.push_back(uuid);
    }
    return found;
  }
  Status LookAtVolume(const lvm::LogicalVolume& lv, bool below_suspended) {
    const std::vector<std::string> devices = DmUuids(group_, lv);
    std::string uuid = devices.front();
    // Tables of a pvmove that was committed belong together, and this does not know those below the volume.
    std::vector<std::string> kept;
    const bool is_moving = IsMoving(lv);
    const auto among = [&](std::vector<std::string>& list) -> std::vector<std::string>& {
      return is_moving ? kept : list;
    };
    // Below a snapshot of type COW the volume has another device.
    QUARRY_ASSIGN(const auto below, world_.dm.Find(lvm::DmUuidBelow(uuid)));
    if (below.has_value()) {
      QUARRY_TRY(LookAt(uuid, among(lv.IsRaid() ? left_.arrays : left_.waiting)));
      uuid = below->uuid;
    }
    QUARRY_ASSIGN(const bool is_too_large, IsLarger(uuid, lv.size));
    if (!lv.IsRaid()) {
      QUARRY_TRY(LookAt(uuid, among(left_.waiting)));
      return Ok();
    }
    for (size_t i = 1; i < devices.size(); ++i) {
      QUARRY_ASSIGN(const auto leg, LookAt(devices[i], among(left_.waiting)));
      if (leg.has_value() && leg->suspended && !(is_moving && leg->waiting_table)) {
        left_.suspended.push_back(devices[i]);
      }
      const auto in_text = std::ranges::find_if(
          group_.lvs, [&](const lvm::LogicalVolume& one) { return lvm::IsDmUuidOf(devices[i], one.uuid); });
      if (in_text != group_.lvs.end()) {
        QUARRY_TRY(IsLarger(devices[i], in_text->size));
      }
    }
    QUARRY_ASSIGN(const auto own, LookAt(uuid, among(left_.arrays)));
    if (own.has_value() && is_too_large) {
      if (!own->waiting_table) {
        left_.arrays.push_back(uuid);  // it may have only the size of a table that was dropped
      }
      if (below_suspended && !own->suspended) {
        left_.running.push_back(uuid);
      }
    }
    return Ok();
  }
  // Whether a pvmove is at work on the volume or one of its legs, as LVM's text has it.
  bool IsMoving(const lvm::LogicalVolume& lv) const {
    return std::ranges::any_of(lv.segments, [&](const lvm::Segment& segment) {
      return std::ranges::any_of(segment.areas, [&](const lvm::SegmentArea& area) {
        const lvm::LogicalVolume* const below = group_.FindLv(area.lv_name);
        return below != nullptr && (lvm::IsPvmove(*below) || (lv.IsRaid() && IsMoving(*below)));
      });
    });
  }
  Result<bool> IsLarger(const std::string& uuid, Bytes size) {
    QUARRY_ASSIGN(const auto now, world_.dm.Size(uuid));
    const bool is_larger = now.has_value() && *now > size;
    left_.too_large = left_.too_large || is_larger;
    return is_larger;
  }

  const lvm::VolumeGroup& group_;
  const World& world_;
  Left left_;
};

// A pool cannot shrink: its metadata say how many blocks it has, and the kernel does not resume it with a
// table of fewer.
Status CheckFits(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::DmApi& dm) {
  const auto below = PoolOf(group, lv);
  if (!below.has_value()) {
    return Ok();
  }
  const auto& [pool, parts] = *below;
  QUARRY_ASSIGN(const auto status, dm.ThinPool(lvm::DmUuid(group.uuid, pool->uuid)));
  if (!status.has_value() || status->mode == dm::ThinPoolStatus::Mode::kFailed) {
    return Ok();
  }
  const Bytes data{status->data_total * pool->segments.front().chunk_size.value};
  const Bytes metadata{status->metadata_total * 4 * kKiB.value};
  if (data <= parts.data->size && metadata <= parts.metadata->size) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format(
          "thin store {}/{} has {} bytes of data and {} of metadata in the kernel, LVM knows of {} and {}: "
          "the tables of a command that was killed before its commit were put into use by another one. It "
          "cannot shrink. Let nothing else use the extents that `dmsetup table` shows below it, and give "
          "LVM's "
          "volumes exactly those (lvextend with the ranges of each disk), or copy its volumes elsewhere",
          group.name, pool->name, data.value, metadata.value, parts.data->size.value,
          parts.metadata->size.value));
}

}  // namespace

Result<lvm::HeldGroup> HoldGroup(const std::string& group, const World& world, const Call& call) {
  auto held = world.lvm.Hold(group, call.Within(kHoldLimit));
  if (!held.has_value()) {
    return held.error().code() == Code::kTimeout ? std::move(held.error()).As(Code::kUnavailable)
                                                 : std::move(held.error());
  }
  QUARRY_TRY(world.locks.Check(group));
  return held;
}

Result<bool> PrepareReload(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                           const Call& call) {
  QUARRY_ASSIGN(const Left seen, Looker(group, world).Look(lv));
  if (seen.Nothing()) {
    return false;
  }
  const std::string what =
      fmt::format("looking at what a killed command may have left of {}/{}", group.name, lv.name);
  auto held = HoldGroup(group.name, world, call);
  if (!held.has_value()) {
    return std::move(held.error()).Context(what);
  }
  // A command that was at work has finished what was its own.
  const lvm::LogicalVolume* const now = held->snapshot->FindLv(lv.name);
  if (now == nullptr) {
    return false;
  }
  QUARRY_ASSIGN(const Left left, Looker(*held->snapshot, world).Look(*now));
  QUARRY_TRY(left.too_large ? CheckFits(*held->snapshot, *now, world.dm) : Ok());
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

std::optional<PoolBelow> PoolOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  const lvm::LogicalVolume* const pool = lv.pool.empty() ? &lv : group.FindLv(lv.pool);
  const auto parts = pool == nullptr ? std::nullopt : lvm::PartsOfPool(group, *pool);
  return parts.has_value() ? std::optional(PoolBelow{pool, *parts}) : std::nullopt;
}

std::vector<std::string> DmUuidsAboveParts(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool) {
  const std::string uuid = lvm::DmUuid(group.uuid, pool.uuid);
  return {lvm::DmUuidAbovePool(uuid), lvm::DmUuidOfPool(uuid)};
}

}  // namespace quarry::engine
