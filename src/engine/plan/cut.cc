#include "engine/plan/cut.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dm/suspension.h"
#include "engine/model/catalog.h"
#include "engine/plan/left_suspended.h"
#include "engine/plan/start_store.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::seconds kLongestStall{2};
constexpr int kAttempts = 3;
constexpr int kFreezes = 3;
constexpr std::chrono::milliseconds kPause{50};

uint32_t IdOf(const lvm::LogicalVolume& lv) {
  return lv.segments.front().thin_volume->device_id;
}

// A placeholder and its origin, in the held group.
struct Pair {
  const lvm::LogicalVolume* placeholder;
  const lvm::LogicalVolume* origin;
  std::string origin_device;  // device-mapper UUID
  bool active = false;        // the origin
  Bytes mapped = {};          // in the origin, once it is suspended
  bool done = false;
};

Error Changed(const CutAction& cut, const std::string& name) {
  return {Code::kUnavailable,
          fmt::format("{}/{} was changed by another process: try again", cut.group, name)};
}

// Both volumes of a member, proven to be what the plan meant.
Result<Pair> Find(const lvm::VolumeGroup& group, const CutAction& cut, const CutMember& member,
                  dm::DmApi& dm) {
  const lvm::LogicalVolume* const placeholder = group.FindLv(member.name);
  const lvm::LogicalVolume* const origin = group.FindLv(member.origin);
  if (placeholder == nullptr || placeholder->pool != cut.pool ||
      (origin != nullptr && placeholder->size < origin->size) ||
      std::ranges::find(placeholder->tags, lvm::StateTag(lvm::VolumeState::kErasing)) ==
          placeholder->tags.end()) {
    return Changed(cut, member.name);
  }
  if (origin == nullptr || origin->uuid != member.origin_uuid || origin->pool != cut.pool) {
    return Changed(cut, member.origin);
  }
  for (const lvm::LogicalVolume* const lv : {placeholder, origin}) {
    QUARRY_TRY(lvm::IsAloneInPool(group, *lv).Context(fmt::format("{}/{}", cut.group, lv->name)));
  }
  QUARRY_ASSIGN(const auto active, dm.Find(lvm::DmUuid(group.uuid, placeholder->uuid)));
  if (active.has_value()) {
    return Changed(cut, member.name);
  }
  Pair pair{
      .placeholder = placeholder, .origin = origin, .origin_device = lvm::DmUuid(group.uuid, origin->uuid)};
  QUARRY_ASSIGN(const auto device, dm.Find(pair.origin_device));
  pair.active = device.has_value();
  return pair;
}

// A file system that its user has frozen is quiet already, and some kernels cannot freeze it again. It says
// the same while it is being frozen or thawed, so it is asked several times.
Status Suspend(const Pair& pair, dm::Suspensions& suspended, const Call& call) {
  for (int attempt = 0; attempt < kFreezes; ++attempt) {
    Status done = suspended.Add(pair.origin_device, dm::FileSystemLock::kTake, call);
    if (done.has_value() || done.error().code() != Code::kPrecondition) {
      return done;
    }
    Sleep(call.stop, kPause);
  }
  return suspended.Add(pair.origin_device, dm::FileSystemLock::kSkip, call);
}

// What origins have that are not active. Nobody can write to them while LVM's lock is held.
Status MeasureInactive(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                       std::vector<Pair>& pairs, const World& world, const Call& call) {
  if (std::ranges::all_of(pairs, &Pair::active)) {
    return Ok();
  }
  QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(group, pool, world.dm));
  for (Pair& pair : pairs) {
    if (pair.active) {
      continue;
    }
    QUARRY_ASSIGN(pair.mapped, MappedBytes(hold, group, *pair.origin, world, call));
  }
  return hold.Check();
}

// From the first suspension to the last resume. Touches no disk but through the pool.
Status CutNow(const CutAction& cut, const lvm::VolumeGroup& group, const std::string& pool,
              std::vector<Pair>& pairs, dm::Suspensions& suspended, const World& world, CutResult& result,
              const Call& call) {
  std::set<std::string> origins;
  for (const Pair& pair : pairs) {
    if (pair.active && origins.insert(pair.origin_device).second) {
      QUARRY_TRY(Suspend(pair, suspended, call));
    }
  }
  result.time =
      static_cast<uint64_t>(std::chrono::nanoseconds(world.clock.WallNow().time_since_epoch()).count());
  Bytes sum;
  for (Pair& pair : pairs) {
    if (pair.active) {
      QUARRY_ASSIGN(const auto status, world.dm.Thin(pair.origin_device));
      if (!status.has_value() || status->failed) {
        return Error(Code::kUnavailable, fmt::format("{}/{} cannot be read", cut.group, pair.origin->name));
      }
      pair.mapped = status->mapped;
    }
    sum = sum + ToBytes(CeilToExtents(pair.mapped, group.extent_size), group.extent_size);
  }
  if (cut.most_mapped.has_value() && sum > *cut.most_mapped) {
    return Error(Code::kUnavailable,
                 fmt::format("the volumes were written to meanwhile: they have {} now, and the store has {} "
                             "for a snapshot: try again",
                             HumanBytes(sum), HumanBytes(*cut.most_mapped)));
  }
  for (Pair& pair : pairs) {
    QUARRY_TRY(call.Check("cutting"));
    QUARRY_TRY(suspended.Check());
    QUARRY_TRY(world.dm.SendToPool(pool, dm::CreateSnap{IdOf(*pair.placeholder), IdOf(*pair.origin)}));
    pair.done = true;
  }
  return suspended.End();
}

// The devices are there, with the bytes of their origins.
Status Prove(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const std::vector<Pair>& pairs,
             const World& world, CutResult& result, const Call& call) {
  QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(group, pool, world.dm));
  for (const Pair& pair : pairs) {
    QUARRY_ASSIGN(const auto bytes, world.thin.Device(hold.device(), IdOf(*pair.placeholder), call));
    if (!bytes.has_value() || *bytes != pair.mapped) {
      return Error(Code::kCorrupt, fmt::format("the pool has {} for {}/{}, which was cut with {}",
                                               bytes.has_value() ? HumanBytes(*bytes) : "no device",
                                               group.name, pair.placeholder->name, HumanBytes(pair.mapped)));
    }
    result.mapped.push_back(*bytes);
  }
  return hold.Check();
}

// `begun`: set once a placeholder may have bytes.
Status CutOnce(const CutAction& cut, const World& world, bool& begun, const Call& call) {
  QUARRY_ASSIGN(const lvm::Snapshot before, world.lvm.Read(cut.group, call));
  std::vector<std::string> origins;
  for (const CutMember& member : cut.members) {
    origins.push_back(member.origin);
  }
  QUARRY_TRY(WriteBack(*before, origins, world, call));
  QUARRY_ASSIGN(const lvm::HeldGroup held, HoldGroup(cut.group, world, call));
  QUARRY_TRY(world.locks.Check(cut.group));
  const lvm::VolumeGroup& group = *held.snapshot;
  const lvm::LogicalVolume* const pool = group.FindLv(cut.pool);
  if (pool == nullptr || !lvm::PartsOfPool(group, *pool).has_value()) {
    return Changed(cut, cut.pool);
  }
  QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(group, *pool, world.dm));
  if (status.mode != dm::ThinPoolStatus::Mode::kReadWrite) {
    // Until the kernel has given back chunks that it no longer needs, or the end of a metadata snapshot.
    return Error(
        Code::kUnavailable,
        fmt::format("thin store {}/{} has no free chunk at the moment: try again", cut.group, cut.pool));
  }
  std::vector<Pair> pairs;
  for (const CutMember& member : cut.members) {
    QUARRY_ASSIGN(Pair pair, Find(group, cut, member, world.dm));
    pairs.push_back(std::move(pair));
  }
  const std::string uuid = lvm::DmUuid(group.uuid, pool->uuid);
  QUARRY_TRY(MeasureInactive(group, *pool, pairs, world, call));
  QUARRY_TRY(WriteBack(group, origins, world, call));  // what was written while LVM's lock was waited for
  dm::Suspensions suspended(world.dm, kLongestStall, pairs.size());
  const dm::LockedMemory locked;
  CutResult result;
  for (const Pair& pair : pairs) {
    const Status gone = world.dm.SendToPool(uuid, dm::DeleteThin{IdOf(*pair.placeholder)});
    if (!gone.has_value() && gone.error().code() != Code::kNotFound) {
      return gone;
    }
  }
  Status done = CutNow(cut, group, uuid, pairs, suspended, world, result, call.Within(kLongestStall));
  if (!done.has_value()) {
    suspended.Abandon();
    begun = std::ranges::any_of(pairs, &Pair::done);
    // LVM's text names devices that the pool does not have: they become blank again, and are removed as any
    // blank volume. If that fails, they are removed all the same.
    for (const Pair& pair : pairs) {
      if (!pair.done) {
        (void)world.dm.SendToPool(uuid, dm::CreateThin{IdOf(*pair.placeholder)});
      }
    }
    return done;
  }
  begun = true;
  QUARRY_TRY(Prove(group, *pool, pairs, world, result, call));
  if (cut.tell) {
    cut.tell(result);
  }
  return Ok();
}

}  // namespace

Status WriteBack(const lvm::VolumeGroup& group, const std::vector<std::string>& lvs, const World& world,
                 const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable mounts, world.mount.Mounts());
  for (const std::string& name : lvs) {
    const lvm::LogicalVolume* const lv = group.FindLv(name);
    QUARRY_ASSIGN(const auto device, lv == nullptr ? Result<std::optional<dm::Device>>(std::nullopt)
                                                   : world.dm.Find(lvm::DmUuid(group.uuid, lv->uuid)));
    if (!device.has_value()) {
      continue;
    }
    const auto entries = mounts.Of({device->major, device->minor});
    const auto reached = std::ranges::find_if(entries, [&](const mount::MountEntry* entry) {
      const auto path = AbsolutePath::Parse(entry->target);
      return path.has_value() && mounts.At(*path) == entry;
    });
    if (reached != entries.end()) {
      QUARRY_TRY(world.mount.SyncFs(*AbsolutePath::Parse((*reached)->target), call));
      continue;
    }
    QUARRY_ASSIGN(const UniqueFd fd, world.dm.Open(device->uuid, O_RDONLY));
    if (fsync(fd.get()) != 0) {
      return ErrnoError(fmt::format("flushing {}/{}", group.name, name));
    }
  }
  return Ok();
}

Status Cut(const CutAction& cut, const World& world, const Call& call) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    bool begun = false;
    Status done = CutOnce(cut, world, begun, call);
    if (done.has_value() || done.error().code() != Code::kTimeout || !call.Check("cutting").has_value()) {
      return done;
    }
    if (begun) {
      break;
    }
  }
  return Error(
      Code::kUnavailable,
      fmt::format("writers to the volumes would have waited for more than {} s: try again when there is less "
                  "to write back, and nobody copies from one of the volumes to another",
                  kLongestStall.count()));
}

}  // namespace quarry::engine
