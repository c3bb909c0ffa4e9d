#include "engine/plan/stop_store.h"

#include <fcntl.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unique_fd.h"
#include "engine/model/catalog.h"
#include "engine/model/volume_health.h"
#include "engine/plan/proven_write.h"
#include "engine/plan/start_store.h"
#include "engine/raid/stopped_array.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

std::string PathOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv) {
  return fmt::format("{}/{}", group.name, lv.name);
}

// A device whose node a tool gets. As long as it is open here, nobody can remove it, so its number does not
// become that of another volume.
struct HeldDevice {
  UniqueFd fd;
  std::string node;

  static Result<HeldDevice> Open(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, dm::DmApi& dm) {
    QUARRY_ASSIGN(UniqueFd fd, dm.Open(DmUuidOf(group, lv), O_RDONLY));
    QUARRY_ASSIGN(const auto device, dm.Find(DmUuidOf(group, lv)));
    if (!device.has_value()) {
      return Error(Code::kUnavailable, fmt::format("{} is not active", PathOf(group, lv)));
    }
    return HeldDevice{std::move(fd), device->Node()};
  }
};

// The metadata of a pool that is not started, as a device. LVM makes it read-only.
class MetadataAlone {
 public:
  static Result<MetadataAlone> Start(const lvm::VolumeGroup& group, const lvm::LogicalVolume& metadata,
                                     const World& world, const Call& call) {
    if (metadata.IsRaid()) {
      const LegWriter write = WriterOf(group, metadata, world, call);
      QUARRY_TRY(PrepareStart(group, metadata, world.raid_legs, write));
      QUARRY_TRY(Revive(group, metadata, world.raid_legs, write));
    }
    MetadataAlone out(group, metadata, world);
    QUARRY_TRY(world.lvm.Apply(lvm::ActivateLvs{group.name, {metadata.name}}, call));
    QUARRY_ASSIGN(out.held_, HeldDevice::Open(group, metadata, world.dm));
    return out;
  }
  MetadataAlone(MetadataAlone&& other) noexcept
      : group_(other.group_),
        metadata_(other.metadata_),
        world_(std::exchange(other.world_, nullptr)),
        held_(std::move(other.held_)) {}
  MetadataAlone& operator=(MetadataAlone&&) = delete;
  // If this fails, the next StartStore removes the devices.
  ~MetadataAlone() { (void)Stop(CallWithin(kLimit)); }

  const std::string& node() const { return held_.node; }
  Status Stop(const Call& call) {
    const World* const world = std::exchange(world_, nullptr);
    held_.fd.Reset();
    return world == nullptr ? Ok() : world->lvm.Apply(lvm::DeactivateLv{group_.name, metadata_.name}, call);
  }

 private:
  static constexpr std::chrono::milliseconds kLimit{60'000};

  MetadataAlone(const lvm::VolumeGroup& group, const lvm::LogicalVolume& metadata, const World& world)
      : group_(group), metadata_(metadata), world_(&world) {}

  const lvm::VolumeGroup& group_;
  const lvm::LogicalVolume& metadata_;
  const World* world_;
  HeldDevice held_;
};

Result<lvm::PoolParts> StoppedParts(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                    const World& world) {
  const auto parts = lvm::PartsOfPool(group, pool);
  if (!parts.has_value()) {
    return Error(Code::kPrecondition, fmt::format("{} is no thin store", PathOf(group, pool)));
  }
  QUARRY_TRY(lvm::IsSoundStore(group, pool).Context(fmt::format("thin store {}", PathOf(group, pool))));
  QUARRY_ASSIGN(const auto running, world.dm.ThinPool(lvm::DmUuid(group.uuid, pool.uuid)));
  if (running.has_value()) {
    return Error(Code::kPrecondition, fmt::format("thin store {} is started", PathOf(group, pool)));
  }
  for (const lvm::LogicalVolume* const part : {parts->metadata, parts->data}) {
    QUARRY_ASSIGN(const auto doubt, FindDoubt(group, *part, world.raid_legs));
    if (doubt.has_value()) {
      return Error(Code::kPrecondition, doubt->words);
    }
  }
  return *parts;
}

}  // namespace

Result<std::vector<const lvm::LogicalVolume*>> OpenVolumesIn(const lvm::VolumeGroup& group,
                                                             const lvm::LogicalVolume& pool, dm::DmApi& dm) {
  std::vector<const lvm::LogicalVolume*> out;
  QUARRY_ASSIGN(const auto active, ActiveVolumesIn(group, pool, dm));
  for (const auto& [lv, open_count] : active) {
    if (open_count > 0) {
      out.push_back(lv);
    }
  }
  return out;
}

Result<std::vector<ActiveVolume>> ActiveVolumesIn(const lvm::VolumeGroup& group,
                                                  const lvm::LogicalVolume& pool, dm::DmApi& dm) {
  std::vector<ActiveVolume> out;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (lv.pool != pool.name) {
      continue;
    }
    QUARRY_ASSIGN(const auto device, dm.Find(DmUuidOf(group, lv)));
    if (device.has_value()) {
      out.push_back({&lv, device->open_count});
    }
  }
  return out;
}

std::vector<std::string> NamesToActivate(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                         const std::vector<ActiveVolume>& active,
                                         const std::set<std::string>& before) {
  std::set<std::string> names = before;
  for (const ActiveVolume& volume : active) {
    names.insert(volume.lv->name);
  }
  std::erase_if(names, [&](const std::string& name) {
    const lvm::LogicalVolume* const lv = group.FindLv(name);
    return lv == nullptr || lv->pool != pool.name;
  });
  return {names.begin(), names.end()};
}

Status StopStore(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, const World& world,
                 const Call& call) {
  const std::string what = fmt::format("stopping thin store {}", PathOf(group, pool));
  QUARRY_TRY(CheckStore(group, pool).Context(what));
  if (pool.partial) {
    return Error(Code::kUnavailable, what + ": a disk of it is missing, so it would not start again");
  }
  QUARRY_ASSIGN(const auto open, OpenVolumesIn(group, pool, world.dm));
  if (!open.empty()) {
    std::vector<std::string> names;
    std::ranges::transform(open, std::back_inserter(names), &lvm::LogicalVolume::name);
    return Error(Code::kPrecondition,
                 fmt::format("{}: volumes in it are in use: {}", what, fmt::join(names, ", ")));
  }
  // LVM does nothing, without an error, if another process has committed since `group` was read: it may have
  // begun to move or to change the store.
  const auto deactivate = [&](const lvm::LogicalVolume& lv) {
    return world.lvm.Apply(lvm::DeactivateLv{group.name, lv.name, group.seqno}, call).Context(what);
  };
  QUARRY_ASSIGN(const auto active, ActiveVolumesIn(group, pool, world.dm));
  for (const ActiveVolume& volume : active) {
    QUARRY_TRY(deactivate(*volume.lv));
  }
  QUARRY_TRY(deactivate(pool));
  QUARRY_ASSIGN(const auto left, world.dm.ThinPool(lvm::DmUuid(group.uuid, pool.uuid)));
  if (!left.has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(const lvm::Snapshot now, world.lvm.Read(group.name, call));
  return now->seqno == group.seqno
             ? Error(Code::kPrecondition, what +
                                              ": LVM reported success, but the kernel still has it: another "
                                              "program uses its device")
             : Error(Code::kUnavailable,
                     fmt::format("{}: another process has changed volume group {}: try again", what,
                                 group.name));
}

Result<std::string> WhyRestart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, dm::DmApi& dm) {
  using Mode = dm::ThinPoolStatus::Mode;
  QUARRY_ASSIGN(const auto status, dm.ThinPool(lvm::DmUuid(group.uuid, pool.uuid)));
  const auto parts = lvm::PartsOfPool(group, pool);
  if (!status.has_value() || !parts.has_value()) {
    return std::string();
  }
  for (const lvm::LogicalVolume* const part : {parts->data, parts->metadata}) {
    const auto geometry = GeometryOfPart(*part);
    if (!part->IsRaid() || !geometry.has_value()) {
      continue;
    }
    QUARRY_ASSIGN(const auto raid, dm.Raid(DmUuidOf(group, *part)));
    if (raid.has_value() && HasStopped(*geometry, *raid)) {
      return std::string("has stopped, because too many of its disks were missing at once");
    }
  }
  if (status->mode == Mode::kFailed) {
    return std::string("has failed: the kernel fails all I/O after an error");
  }
  if (status->needs_check) {
    return std::string("needs a check of its metadata: the kernel changes nothing in it after an error");
  }
  return std::string(
      status->mode == Mode::kReadOnly ? "is read-only: the kernel has made it so after an error" : "");
}

Result<MetadataFound> LookAtMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                                     const World& world, const Call& call) {
  QUARRY_ASSIGN(const lvm::PoolParts parts, StoppedParts(group, pool, world));
  QUARRY_ASSIGN(MetadataAlone alone, MetadataAlone::Start(group, *parts.metadata, world, call));
  MetadataFound out{world.thin_repair.Check(alone.node(), call), world.thin_repair.Look(alone.node(), call)};
  QUARRY_TRY(alone.Stop(call));
  return out;
}

Status RemakeMetadata(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool,
                      const lvm::LogicalVolume& fresh, bool lvm_refused, const World& world,
                      const Call& call) {
  thin::RepairApi& tools = world.thin_repair;
  QUARRY_ASSIGN(const lvm::PoolParts parts, StoppedParts(group, pool, world));
  if (lvm::Replaces(fresh.tags) != parts.metadata->uuid) {
    return Error(Code::kPrecondition, fmt::format("{} was not made to become the metadata of thin store {}",
                                                  PathOf(group, fresh), PathOf(group, pool)));
  }
  QUARRY_ASSIGN(HeldDevice held, HeldDevice::Open(group, fresh, world.dm));
  const std::string& to = held.node;
  QUARRY_ASSIGN(MetadataAlone alone, MetadataAlone::Start(group, *parts.metadata, world, call));
  const auto judge = [&](const Result<thin::StoredPool>& repaired) {
    return JudgeMetadata(group, pool, tools.Check(to, call), repaired, lvm_refused);
  };
  QUARRY_TRY(tools.Repair(alone.node(), to, std::nullopt, call));
  auto repaired = tools.Look(to, call);
  QUARRY_ASSIGN(MetadataVerdict verdict, judge(repaired));
  if (verdict == MetadataVerdict::kRenumber) {
    QUARRY_TRY(tools.Repair(alone.node(), to, pool.segments.front().thin_pool->transaction_id, call));
    repaired = tools.Look(to, call);
    QUARRY_ASSIGN(verdict, judge(repaired));
  }
  QUARRY_TRY(repaired);
  if (verdict != MetadataVerdict::kSound) {
    return Error(
        Code::kCorrupt,
        fmt::format("what thin_repair has made of the metadata of thin store {} is not sound: it is not "
                    "used, and they stay as they are",
                    PathOf(group, pool)));
  }
  // That the former metadata can be read completely is a part of the proof.
  QUARRY_ASSIGN(const auto differences, tools.Compare(alone.node(), to, call));
  QUARRY_TRY(ProveRepaired(group, pool, *repaired, differences));
  QUARRY_TRY(alone.Stop(call));
  held.fd.Reset();
  return world.lvm.Apply(lvm::DeactivateLv{group.name, fresh.name}, call);
}

}  // namespace quarry::engine
