#include "engine/plan/apply_change.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "engine/model/catalog.h"
#include "engine/plan/left_suspended.h"
#include "engine/plan/proven_write.h"
#include "engine/plan/start_store.h"
#include "engine/raid/stopped_array.h"
#include "lvm/names.h"
#include "lvm/ownership.h"
#include "lvm/thin_pool.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::seconds kRestoreLimit{20};

// LVM activates and refreshes a pool as a whole, not its parts.
const lvm::LogicalVolume& WholeOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  const lvm::LogicalVolume* const pool = lvm::PoolOfPart(group, lv);
  return pool == nullptr ? lv : *pool;
}

// Whether LVM may reload the tables of this volume, as it does for every change of the volume
// (stopped_array.h). LVM reloads the whole stack of a pool, and of a volume in it.
Status MayReload(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world) {
  const auto below = PoolOf(group, lv);
  for (const lvm::LogicalVolume* const array :
       below.has_value() ? std::vector{below->parts.data, below->parts.metadata} : std::vector{&lv}) {
    if (!array->IsRaid()) {
      continue;
    }
    QUARRY_ASSIGN(const auto raid, world.dm.Raid(DmUuidOf(group, *array)));
    QUARRY_TRY(raid.has_value() ? MayTakeBack(group, *array, *raid, world.raid_legs) : Ok());
  }
  return Ok();
}

// Applies a verb that reloads the tables of several volumes to those whose tables may be reloaded. The others
// cause an error afterwards.
template <typename Verb>
Status ReloadEach(Verb verb, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(verb.group, call));
  Status refused = Ok();
  std::erase_if(verb.names, [&](const std::string& name) {
    const lvm::LogicalVolume* const lv = now->FindLv(name);
    Status may = lv == nullptr ? Ok() : MayReload(*now, *lv, world);
    if (may.has_value() && lv != nullptr) {
      auto ready = PrepareReload(*now, WholeOf(*now, *lv), world, call);
      may = ready.has_value() ? Ok() : Status(std::move(ready.error()));
    }
    if (may.has_value()) {
      return false;
    }
    refused = std::move(may.error());
    return true;
  });
  if (!verb.names.empty()) {
    QUARRY_TRY(world.lvm.Apply(verb, call));
  }
  return refused;
}

// Whether a killed command left the volume, or a part of it, suspended.
Result<bool> IsSuspended(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world) {
  std::vector<std::string> uuids = DmUuids(group, lv);
  if (const auto below = PoolOf(group, lv); below.has_value()) {
    const std::vector<std::string> above = DmUuidsAboveParts(group, *below->pool);
    uuids.insert(uuids.end(), above.begin(), above.end());
    for (const lvm::LogicalVolume* const part : {below->parts.data, below->parts.metadata}) {
      const std::vector<std::string> of_part = DmUuids(group, *part);
      uuids.insert(uuids.end(), of_part.begin(), of_part.end());
    }
  }
  for (const lvm::LogicalVolume& other : group.lvs) {
    if (other.origin == lv.name) {
      const std::string store = lvm::DmUuid(group.uuid, other.uuid);
      uuids.insert(uuids.end(),
                   {store, lvm::DmUuidOfStore(store), lvm::DmUuidBelow(lvm::DmUuid(group.uuid, lv.uuid))});
    }
  }
  for (const std::string& uuid : uuids) {
    QUARRY_ASSIGN(const auto device, world.dm.Find(uuid));
    if (device.has_value() && device->suspended) {
      return true;
    }
  }
  return false;
}

bool IsPartial(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  const auto below = PoolOf(group, lv);
  return lv.partial || (below.has_value() && below->pool->partial);
}

// Gives all devices of a volume of which something was left the tables of LVM's text. LVM does not refresh a
// volume that lacks disks: its devices keep the size that they have until the disks are back or replaced.
Status LoadTables(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                  const Call& call) {
  QUARRY_ASSIGN(const bool is_suspended, IsSuspended(group, lv, world));
  if (is_suspended) {
    return ActivateVolumes({.group = group.name, .names = {lv.name}}, world, call);
  }
  if (IsPartial(group, lv)) {
    return Ok();
  }
  // A refresh of a volume in a pool that is not active itself does nothing.
  std::vector<std::string> names = {lv.name};
  if (const auto below = PoolOf(group, lv); below.has_value() && below->pool != &lv) {
    names.insert(names.begin(), below->pool->name);
  }
  return ReloadEach(lvm::RefreshLvs{group.name, std::move(names)}, world, call);
}

// After a command that failed, perhaps killed. No access to the volume, or to the volumes of the store, waits
// until the next repair. And what it had loaded and not committed goes: it would use extents that are free.
void Restore(const std::string& group, const std::string& name, Code why, const World& world,
             const Call& call) {
  Call limited = CallWithin(kRestoreLimit);
  limited.stop = call.stop;
  const auto now = world.lvm.Read(group, limited);
  const lvm::LogicalVolume* const named = now.has_value() ? (*now)->FindLv(name) : nullptr;
  if (named == nullptr) {
    return;
  }
  const lvm::LogicalVolume& lv = WholeOf(**now, *named);
  if (IsSuspended(**now, lv, world).value_or(true)) {
    (void)ActivateVolumes({.group = group, .names = {lv.name}}, world, limited);
  } else if (why == Code::kUnavailable || why == Code::kTimeout || why == Code::kCancelled) {
    (void)PutRight(**now, lv, world, limited);
  }
}

// Name of the volume whose tables the verb makes LVM reload or resume.
template <typename Verb>
const std::string& Reloaded(const Verb& verb) {
  return verb.name;
}
// LVM resumes the pool to send it a message.
const std::string& Reloaded(const lvm::CreateThinLv& verb) {
  return verb.pool;
}

template <typename Verb>
Status ReloadOne(const Verb& verb, const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(verb.group, call));
  if (const lvm::LogicalVolume* const lv = now->FindLv(Reloaded(verb)); lv != nullptr) {
    if constexpr (Verb::kReloadsTables) {
      QUARRY_TRY(MayReload(*now, *lv, world));
    }
    // Otherwise an array that has the size already would not sync the extents that it gets instead.
    QUARRY_TRY(PutRight(*now, WholeOf(*now, *lv), world, call));
  }
  Status done = world.lvm.Apply(verb, call);
  if (!done.has_value()) {
    Restore(verb.group, Reloaded(verb), done.error().code(), world, call);
  }
  return done;
}

// A start of the pool may have been killed when all but its own device was there: LVM then takes the pool for
// inactive, and removes no volume of it while it lacks disks.
Status CompletePool(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                    const Call& call) {
  QUARRY_ASSIGN(const auto own, world.dm.Find(lvm::DmUuidAbovePool(lvm::DmUuid(group.uuid, pool.uuid))));
  if (!own.has_value() || own->has_table) {
    return Ok();
  }
  return pool.partial ? world.lvm.Apply(lvm::ActivateDegradedThin{group.name, {pool.name}}, call)
                      : world.lvm.Apply(lvm::ActivateLvs{group.name, {pool.name}}, call);
}

}  // namespace

Status PutRight(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                const Call& call) {
  QUARRY_ASSIGN(bool is_left, PrepareReload(group, lv, world, call));
  const auto below = PoolOf(group, lv);
  if (!is_left && below.has_value()) {
    QUARRY_ASSIGN(is_left, IsSuspended(group, *below->pool, world));
  }
  QUARRY_TRY(is_left ? LoadTables(group, lv, world, call) : Ok());
  return below.has_value() ? CompletePool(group, *below->pool, world, call) : Ok();
}

Status ApplyChange(const lvm::Change& change, const World& world, const Call& call) {
  return std::visit(
      [&]<typename Verb>(const Verb& verb) {
        constexpr bool kSeveral = requires { verb.names; };
        if constexpr (Verb::kReloadsTables && kSeveral) {
          return ReloadEach(verb, world, call);
        } else if constexpr (Verb::kReloadsTables || std::is_same_v<Verb, lvm::CreateThinLv>) {
          return ReloadOne(verb, world, call);
        } else {
          return world.lvm.Apply(verb, call);
        }
      },
      change);
}

// If a killed command left a volume suspended, some of its devices may have the table of that command,
// whether that command committed or not. The volume of an uncommitted growth would then use extents that are
// free. So the tables of the committed metadata are loaded afterwards.
Status ActivateVolumes(const ActivateAction& a, const World& world, const Call& call) {
  std::vector<std::string> whole;
  std::vector<std::string> degraded;
  std::vector<std::string> to_load;
  QUARRY_ASSIGN(const lvm::Snapshot group, world.lvm.Read(a.group, call));
  const auto prepare = [&](const std::string& name) -> Status {
    const lvm::LogicalVolume* const lv = group->FindLv(name);
    if (lv == nullptr) {
      whole.push_back(name);  // gives the error that it does not exist
      return Ok();
    }
    const auto below = PoolOf(*group, *lv);
    const bool is_degraded_store = below.has_value() && below->pool->partial;
    if (below.has_value()) {
      QUARRY_TRY(StartStore(*group, *below->pool, world, call, a.accept_older));
      if (is_degraded_store) {
        // LVM puts errors in the place of what is missing, whatever the type, also in a store that is in use.
        QUARRY_TRY(lvm::MayStartDegraded(*group, *below->pool)
                       .Context(fmt::format("thin store {}/{}", a.group, below->pool->name)));
      }
    }
    QUARRY_ASSIGN(const bool is_suspended, IsSuspended(*group, *lv, world));
    if (is_suspended) {
      QUARRY_TRY(PrepareReload(*group, *lv, world, call));
    } else {
      // LVM resumes what the volume stands on, too.
      QUARRY_TRY(PutRight(*group, *lv, world, call));
    }
    if (lv->IsRaid()) {
      QUARRY_ASSIGN(const auto device, world.dm.Find(lvm::DmUuid(group->uuid, lv->uuid)));
      if (!device.has_value()) {
        QUARRY_TRY(
            PrepareStart(*group, *lv, world.raid_legs, WriterOf(*group, *lv, world, call), a.accept_older)
                .Context(name));
      }
    }
    (is_degraded_store ? degraded : whole).push_back(name);
    if (is_suspended && !IsPartial(*group, *lv)) {
      to_load.push_back(name);
    }
    return Ok();
  };
  Status worst = Ok();
  for (const std::string& name : a.names) {
    if (Status one = prepare(name); !one.has_value()) {
      worst = std::move(one);
    }
  }
  if (!degraded.empty()) {
    // The store has started without the missing disks, so it was proven that it can do without them.
    QUARRY_TRY(world.lvm.Apply(lvm::ActivateDegradedThin{a.group, degraded}, call));
  }
  QUARRY_TRY(whole.empty() ? Ok() : world.lvm.Apply(lvm::ActivateLvs{a.group, whole}, call));
  QUARRY_TRY(to_load.empty() ? Ok() : ReloadEach(lvm::RefreshLvs{a.group, to_load}, world, call));
  return worst;
}

}  // namespace quarry::engine
