#include "engine/plan/start_store.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include <fmt/format.h>

#include "base/mutex.h"
#include "engine/model/catalog.h"
#include "engine/plan/proven_write.h"
#include "engine/raid/stopped_array.h"
#include "lvm/names.h"
#include "lvm/ownership.h"
#include "lvm/thin_pool.h"

namespace quarry::engine {
namespace {

std::string PathOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  return fmt::format("{}/{}", group.name, lv.name);
}

// LVM refuses to start a pool while a part of it, or a leg of a part, is active alone. A device that cannot
// be removed is in use, and LVM then says by what.
void RemoveLooseDevices(const lvm::VolumeGroup& group, const lvm::PoolParts& parts, dm::DmApi& dm) {
  for (const lvm::LogicalVolume* const part : {parts.data, parts.metadata}) {
    for (const std::string& uuid : DmUuids(group, *part)) {
      if (const auto device = dm.Find(uuid); device.has_value() && device->has_value()) {
        (void)dm.Remove(uuid);
      }
    }
  }
}

// Data are zeroed before a volume gets them only because the pool does it.
Status ZeroesChunks(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool) {
  const bool does = pool.segments.size() == 1 && pool.segments.front().thin_pool.has_value() &&
                    pool.segments.front().thin_pool->zeroes_chunks;
  return does ? Ok()
              : Status(Error(
                    Code::kPrecondition,
                    fmt::format("thin store {0} does not zero new chunks any more, so its volumes could show "
                                "bytes of others: set it right with `lvchange --zero y {0}`",
                                PathOf(group, pool))));
}

}  // namespace

Status CheckStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool) {
  QUARRY_TRY(ZeroesChunks(group, pool));
  Status sound = lvm::IsSoundStore(group, pool);
  if (sound.has_value()) {
    return Ok();
  }
  const bool ends = sound.error().code() == Code::kUnavailable;
  return std::move(sound.error())
      .As(ends ? Code::kUnavailable : Code::kPrecondition)
      .Context(fmt::format("thin store {}", PathOf(group, pool)));
}

Status StartStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                  const Call& call, bool accept_older) {
  const std::string uuid = lvm::DmUuid(group.uuid, pool.uuid);
  const std::string what = fmt::format("starting thin store {}", PathOf(group, pool));
  QUARRY_TRY(ZeroesChunks(group, pool));
  QUARRY_ASSIGN(const auto running, world.dm.ThinPool(uuid));
  if (running.has_value()) {
    return Ok();
  }
  QUARRY_TRY(CheckStore(group, pool).Context(what));
  const auto parts = lvm::PartsOfPool(group, pool);
  if (pool.partial) {
    QUARRY_TRY(lvm::MayStartDegraded(group, pool).Context(fmt::format("thin store {}", PathOf(group, pool))));
  }
  // Nothing is written to the legs of one part before it is known that the other part starts, too.
  for (const lvm::LogicalVolume* const part : {parts->data, parts->metadata}) {
    QUARRY_ASSIGN(const auto doubt, FindDoubt(group, *part, world.raid_legs));
    if (doubt.has_value() && !(accept_older && doubt->may_override)) {
      return Error(Code::kPrecondition, doubt->words).Context(what);
    }
  }
  RemoveLooseDevices(group, *parts, world.dm);
  for (const lvm::LogicalVolume* const part : {parts->data, parts->metadata}) {
    if (!part->IsRaid()) {
      continue;
    }
    const LegWriter write = WriterOf(group, *part, world, call);
    QUARRY_TRY(PrepareStart(group, *part, world.raid_legs, write, accept_older).Context(what));
    if (!accept_older) {
      // The kernel refuses an array that lost too many legs at once, although they are back.
      QUARRY_TRY(Revive(group, *part, world.raid_legs, write).Context(what));
    }
  }
  if (pool.partial) {
    QUARRY_TRY(world.lvm.Apply(lvm::ActivateDegradedThin{group.name, {pool.name}}, call));
  } else {
    QUARRY_TRY(world.lvm.Apply(lvm::ActivateLvs{group.name, {pool.name}}, call));
  }
  QUARRY_ASSIGN(const auto started, world.dm.ThinPool(uuid));
  if (!started.has_value()) {
    return Error(Code::kInternal, what + ": LVM reported success, but the kernel does not have it");
  }
  if (started->held_root.has_value()) {
    QUARRY_TRY(world.dm.SendToPool(uuid, dm::ReleaseMetadataSnap{}).Context(what));
  }
  return Ok();
}

Result<dm::ThinPoolStatus> HealthyPool(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                       dm::DmApi& dm) {
  using Mode = dm::ThinPoolStatus::Mode;
  const std::string path = PathOf(group, pool);
  QUARRY_TRY(ZeroesChunks(group, pool));
  QUARRY_ASSIGN(const auto status, dm.ThinPool(lvm::DmUuid(group.uuid, pool.uuid)));
  if (!status.has_value()) {
    return Error(Code::kUnavailable, fmt::format("thin store {} is not started", path));
  }
  if (status->needs_check || status->mode == Mode::kReadOnly || status->mode == Mode::kFailed) {
    return Error(
        Code::kPrecondition,
        fmt::format("the kernel has made thin store {} {} after an error: unmount or unpublish its volumes. "
                    "Once none "
                    "is in use, quarryd stops and starts it, which checks its metadata. If they are damaged, "
                    "`quarryctl store repair` repairs them",
                    path, status->mode == Mode::kFailed ? "fail" : "read-only"));
  }
  return *status;
}

uint32_t HighestThinId(const lvm::VolumeGroup& group, std::string_view pool) {
  uint32_t highest = 0;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    for (const lvm::Segment& segment : lv.segments) {
      if (lv.pool == pool && segment.thin_volume.has_value()) {
        highest = std::max(highest, segment.thin_volume->device_id);
      }
    }
  }
  return highest;
}

namespace {

// Metadata snapshots of this process that could not be released: the block of each, by the pool's UUID.
class Unreleased {
 public:
  void Keep(const std::string& uuid, uint64_t root) {
    const MutexLock lock(mutex_);
    roots_[uuid] = root;
  }
  bool Has(const std::string& uuid, uint64_t root) {
    const MutexLock lock(mutex_);
    const auto found = roots_.find(uuid);
    return found != roots_.end() && found->second == root;
  }
  void Forget(const std::string& uuid) {
    const MutexLock lock(mutex_);
    roots_.erase(uuid);
  }

 private:
  Mutex mutex_;
  std::map<std::string, uint64_t> roots_ ABSL_GUARDED_BY(mutex_);
};

Unreleased& OfThisProcess() {
  static Unreleased unreleased;
  return unreleased;
}

}  // namespace

void ReleaseMetadata(dm::DmApi& dm, const std::string& uuid, uint64_t root) {
  constexpr int kTries = 3;
  constexpr int kTriesIfSuspended = 20;
  constexpr std::chrono::milliseconds kPause{50};
  for (int i = 0; i < kTriesIfSuspended; ++i) {
    const Status released = dm.SendToPool(uuid, dm::ReleaseMetadataSnap{});
    if (released.has_value() || released.error().code() == Code::kNotFound) {
      OfThisProcess().Forget(uuid);
      return;
    }
    if (i + 1 >= kTries && released.error().code() != Code::kUnavailable) {
      break;
    }
    std::this_thread::sleep_for(kPause);
  }
  OfThisProcess().Keep(uuid, root);
}

Result<MetadataHold> MetadataHold::Begin(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                         dm::DmApi& dm) {
  const auto parts = lvm::PartsOfPool(group, pool);
  if (!parts.has_value()) {
    return Error(Code::kPrecondition, fmt::format("{} is no thin store", PathOf(group, pool)));
  }
  QUARRY_ASSIGN(const auto device, dm.Find(DmUuidOf(group, *parts->metadata)));
  if (!device.has_value()) {
    return Error(Code::kUnavailable,
                 fmt::format("the metadata of thin store {} are not active", PathOf(group, pool)));
  }
  const std::string uuid = lvm::DmUuid(group.uuid, pool.uuid);
  QUARRY_ASSIGN(auto before, dm.ThinPool(uuid));
  if (before.has_value() && before->held_root.has_value() && OfThisProcess().Has(uuid, *before->held_root)) {
    ReleaseMetadata(dm, uuid, *before->held_root);
    QUARRY_ASSIGN(before, dm.ThinPool(uuid));
  }
  if (before.has_value() && before->held_root.has_value()) {
    return Error(
        Code::kUnavailable,
        fmt::format("another program has reserved a metadata snapshot of thin store {}, and there is "
                    "at most one: wait for the program; if it has ended, run 'dmsetup message {} 0 "
                    "release_metadata_snap'",
                    PathOf(group, pool), before->name));
  }
  Status reserved = dm.SendToPool(uuid, dm::ReserveMetadataSnap{});
  if (!reserved.has_value() && reserved.error().code() == Code::kPrecondition) {
    return std::move(reserved.error());  // another program was faster, or the pool takes no messages
  }
  MetadataHold hold(dm, uuid, device->Node());  // the kernel may have done it although an error is reported
  QUARRY_TRY(std::move(reserved));
  QUARRY_ASSIGN(const auto now, dm.ThinPool(uuid));
  hold.root_ = now.has_value() ? now->held_root.value_or(0) : 0;
  return hold;
}

Status MetadataHold::Check() const {
  QUARRY_ASSIGN(const auto now, dm_->ThinPool(uuid_));
  return now.has_value() && now->held_root == root_
             ? Ok()
             : Status(Error(Code::kUnavailable,
                            "another program has released the metadata snapshot of a thin store while "
                            "quarryd read it: try again"));
}

MetadataHold::~MetadataHold() {
  if (dm_ != nullptr) {
    ReleaseMetadata(*dm_, uuid_, root_);
  }
}

Result<Bytes> MappedBytes(const MetadataHold& hold, const lvm::VolumeGroup& group,
                          const lvm::LogicalVolume& lv, const World& world, const Call& call) {
  QUARRY_ASSIGN(const auto bytes,
                world.thin.Device(hold.device(), lv.segments.front().thin_volume->device_id, call));
  return bytes.has_value()
             ? Result<Bytes>(*bytes)
             : Error(Code::kCorrupt, fmt::format("the pool has no device for {}/{}", group.name, lv.name));
}

}  // namespace quarry::engine
