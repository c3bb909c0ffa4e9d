#include "engine/repair/requests.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/repair/plan_evacuation.h"

namespace quarry::engine {
namespace {

struct FoundDisk {
  Pool* pool = nullptr;
  std::shared_ptr<const Catalog> catalog;
  const lvm::PhysicalVolume* pv = nullptr;  // in the catalog's group
};

// Finds a disk among those of one pool: by the UUID of the physical volume, by LVM's path, or by any other
// path of the device. Adds the UUIDs of all disks it passes to `there`.
Result<std::optional<FoundDisk>> FindIn(Node& node, Pool& pool, const std::shared_ptr<const Catalog>& catalog,
                                        const std::string& disk, std::optional<udev::DeviceNumber> number,
                                        std::vector<std::string>& there) {
  for (const lvm::PhysicalVolume& pv : catalog->group->pvs) {
    bool same = pv.uuid == disk || (!disk.empty() && pv.device == disk);
    if (!same && number.has_value() && !pv.device.empty()) {
      QUARRY_ASSIGN(const auto own, node.world.udev.NumberOf(pv.device));
      same = own == number;
    }
    if (same) {
      return std::optional(FoundDisk{&pool, catalog, &pv});
    }
    there.push_back(pv.uuid);
  }
  return std::optional<FoundDisk>();
}

Result<FoundDisk> Find(Node& node, const std::string& disk, const Call& call) {
  std::optional<udev::DeviceNumber> number;
  if (disk.starts_with('/')) {
    QUARRY_ASSIGN(number, node.world.udev.NumberOf(disk));
  }
  std::vector<std::string> there;
  std::vector<Pool*> slow;
  for (const auto& pool : node.pools) {
    const auto catalog = node.Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      slow.push_back(pool.get());
      continue;
    }
    QUARRY_ASSIGN(auto found, FindIn(node, *pool, *catalog, disk, number, there));
    if (found.has_value()) {
      return std::move(*found);
    }
  }
  // A pool is slow to read while extents of its disk are being moved, and it may be the pool of this disk.
  for (Pool* pool : slow) {
    const auto catalog = node.Read(*pool, call);
    if (!catalog.has_value()) {
      return Error(catalog.error()).As(Code::kUnavailable);
    }
    QUARRY_ASSIGN(auto found, FindIn(node, *pool, *catalog, disk, number, there));
    if (found.has_value()) {
      return std::move(*found);
    }
  }
  return Error(Code::kNotFound, fmt::format("no pool has a disk '{}'; the disks of the pools are: {}", disk,
                                            fmt::join(there, ", ")));
}

lvm::ChangePv Wish(const FoundDisk& found, const EvacuateRequest& request) {
  lvm::ChangePv change{.group = found.catalog->group->name, .device = found.pv->device};
  const std::string moving(lvm::kLeavingTag);
  const std::string rebuilding(lvm::kReplacingTag);
  if (request.cancel) {
    change.remove_tags = {moving, rebuilding};
  } else {
    change.allocatable = false;
    change.add_tags = {request.rebuild ? rebuilding : moving};
    change.remove_tags = {request.rebuild ? moving : rebuilding};
  }
  return change;
}

bool IsSo(const lvm::PhysicalVolume& pv, const lvm::ChangePv& change) {
  const auto has = [&](const std::string& tag) { return std::ranges::find(pv.tags, tag) != pv.tags.end(); };
  return pv.allocatable == change.allocatable && std::ranges::all_of(change.add_tags, has) &&
         std::ranges::none_of(change.remove_tags, has);
}

Status Check(Node& node, const FoundDisk& found, const EvacuateRequest& request) {
  const lvm::PhysicalVolume& pv = *found.pv;
  if (pv.missing) {
    return Error(
        Code::kPrecondition,
        fmt::format("disk {} is missing and cannot be evacuated: `quarryctl repair` rebuilds what lay on it "
                    "elsewhere and removes the disk from its group",
                    pv.uuid));
  }
  if (request.cancel) {
    return IsEvacuating(pv)
               ? Ok()
               : Status(Error(Code::kPrecondition, fmt::format("disk {} is not being evacuated", pv.uuid)));
  }
  QUARRY_TRY(CanLeave(*found.catalog, pv));
  QUARRY_ASSIGN(const bool can_copy, node.world.dm.HasTarget("mirror"));
  if (!can_copy) {
    return Error(
        Code::kUnsupported,
        "the kernel lacks device-mapper's mirror target, which LVM needs to move extents: load dm-mirror");
  }
  return Ok();
}

EvacuateResult Describe(const FoundDisk& found) {
  EvacuateResult out{.pool = found.pool->config.name,
                     .group = found.catalog->group->name,
                     .pv_uuid = found.pv->uuid,
                     .device = found.pv->device,
                     .to_move = ToBytes(UsedOn(*found.pv), found.catalog->group->extent_size)};
  for (const Record* const record : WhatLiesOn(*found.catalog, *found.pv).records) {
    out.volumes.push_back(record->tags.id);
  }
  return out;
}

}  // namespace

Result<EvacuateResult> WantEvacuation(Node& node, Erasers& erasers, const EvacuateRequest& request,
                                      const Call& call) {
  QUARRY_ASSIGN(FoundDisk found, Find(node, request.disk, call));
  QUARRY_ASSIGN(const auto turn,
                found.pool->writers.Wait(fmt::format("evacuation of disk {}", found.pv->uuid), call));
  QUARRY_TRY(erasers.Of(*found.pool).free_zeroing().End(call));
  QUARRY_ASSIGN(found, Find(node, request.disk, call));  // again: the group may have changed before the turn
  EvacuateResult out = Describe(found);
  const lvm::ChangePv change = Wish(found, request);
  if (IsSo(*found.pv, change) && !request.cancel) {
    return out;
  }
  QUARRY_TRY(Check(node, found, request));
  if (request.dry_run) {
    return out;
  }
  Plan plan = {lvm::ChangePv{change}};
  if (request.cancel) {
    // Only a move that Quarry began is aborted. Another process's pvmove off this disk is not.
    const auto move = OwnMoveOff(*found.catalog, *found.pv);
    if (move.has_value() && move->has_value()) {
      plan.insert(plan.begin(), lvm::AbortMove{found.catalog->group->name, found.pv->device});
    }
  }
  QUARRY_TRY(RunCounted(*found.pool, plan, node.world, call));
  node.log.Info(request.cancel ? "evacuation of a disk cancelled" : "evacuation of a disk requested",
                {{"pool", out.pool}, {"pv", out.pv_uuid}, {"device", out.device}});
  out.changed = true;
  node.Wake();
  return out;
}

}  // namespace quarry::engine
