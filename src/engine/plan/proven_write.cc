#include "engine/plan/proven_write.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/model/catalog.h"
#include "engine/plan/start_store.h"
#include "engine/plan/zeroed_extents.h"
#include "lvm/names.h"
#include "lvm/ownership.h"

namespace quarry::engine {
namespace {

// How long a piece waits for LVM's lock. After that DiskQueue logs that erasing is delayed, and tries again.
constexpr std::chrono::milliseconds kHoldLimit{60000};

struct Held {
  lvm::HeldGroup group;
  const lvm::LogicalVolume* lv;  // the owner
};

// Holds the group and finds the owner in it.
Result<Held> Hold(const World& world, const Owner& owner, const Call& call) {
  auto got = world.lvm.Hold(owner.group, call.Within(kHoldLimit));
  if (!got.has_value() && got.error().code() == Code::kUnavailable) {
    return std::move(got.error()).As(Code::kTimeout);
  }
  QUARRY_ASSIGN(lvm::HeldGroup held, std::move(got));
  QUARRY_TRY(world.locks.Check(owner.group));
  if (held.snapshot->uuid != owner.group_uuid) {
    return Error(Code::kUnavailable,
                 fmt::format("volume group {} was replaced by another group of that name", owner.group));
  }
  const lvm::LogicalVolume* const lv = held.snapshot->FindLv(owner.lv_name);
  if (lv == nullptr || lv->uuid != owner.lv_uuid) {
    return Error(Code::kUnavailable, fmt::format("logical volume {}/{} was removed by another process",
                                                 owner.group, owner.lv_name));
  }
  const lvm::LogicalVolume* const store = lvm::PoolOfPart(*held.snapshot, *lv);
  const std::vector<std::string>& tags = store == nullptr ? lv->tags : store->tags;
  if (std::ranges::find(tags, owner.tag) == tags.end()) {
    return Error(Code::kUnavailable, fmt::format("logical volume {}/{} does not have the tag {} any more",
                                                 owner.group, owner.lv_name, owner.tag));
  }
  return Held{std::move(held), lv};
}

// The extents that a byte range of a PV touches.
Result<lvm::PhysicalRange> ExtentsAt(const lvm::HeldGroup& held, const dm::EraseRange& range) {
  const lvm::VolumeGroup& group = *held.snapshot;
  const lvm::PhysicalVolume* const pv = group.FindPv(range.pv_uuid);
  if (pv == nullptr || pv->missing || pv->device != range.device || range.offset < pv->pe_start) {
    return Error(Code::kUnavailable, fmt::format("disk {} of volume group {} is not at {} now", range.pv_uuid,
                                                 group.name, range.device));
  }
  if (std::ranges::find(held.silent, pv->uuid) != held.silent.end()) {
    return Error(Code::kTimeout, fmt::format("disk {} does not answer", range.device));
  }
  const Bytes begin = range.offset - pv->pe_start;
  const Extents first{begin.value / group.extent_size.value};
  return lvm::PhysicalRange{pv->uuid,
                            {first, CeilToExtents(begin + range.length, group.extent_size) - first}};
}

bool Within(const lvm::PhysicalRange& piece, const std::vector<lvm::PhysicalRange>& owned) {
  const auto by_pv = ByPv(owned);
  const auto own = by_pv.find(piece.pv_uuid);
  return own != by_pv.end() && Without({piece.range}, own->second).empty();
}

enum class OwnDevices { kMayBeThere, kMustBeGone };

// Checks the kernel's mappings of the extents that will be written. Another device may still be mapped to
// extents that belong to this volume in the metadata. If extents of an active RAID volume were zeroed, the
// kernel could overwrite them from a leg that is not zeroed yet.
Status CheckMappings(const World& world, const Held& owner, const dm::EraseRange& range, OwnDevices may) {
  const lvm::VolumeGroup& group = *owner.group.snapshot;
  const std::vector<std::string> own = DmUuids(group, *owner.lv);
  QUARRY_ASSIGN(const std::vector<dm::Mapping> mappings, world.dm.MappingsOf(range.device));
  for (const dm::Mapping& mapping : mappings) {
    if (!mapping.Overlaps(range.offset, range.length)) {
      continue;
    }
    const bool is_own = std::ranges::find(own, mapping.uuid) != own.end();
    if (is_own && may == OwnDevices::kMustBeGone) {
      return Error(Code::kUnavailable,
                   fmt::format("logical volume {}/{} was activated by another process (device '{}')",
                               group.name, owner.lv->name, mapping.name));
    }
    if (!is_own) {
      return Error(
          Code::kPrecondition,
          fmt::format("device-mapper device '{}' lies on these extents of {} and does not belong to logical "
                      "volume {}/{}: inspect it and remove it (dmsetup remove), or, if it is a volume in "
                      "use, reload its table (lvchange --refresh)",
                      mapping.name, range.device, group.name, owner.lv->name));
    }
  }
  return Ok();
}

// OK if the piece lies within a metadata leg of the owner, and no segment of another LV lies on it.
Status CheckLeg(const Held& held, const std::string& metadata_lv, const lvm::PhysicalRange& piece) {
  const lvm::VolumeGroup& group = *held.group.snapshot;
  bool leg = false;
  for (const lvm::Segment& segment : held.lv->segments) {
    leg = leg || std::ranges::any_of(segment.areas, [&](const lvm::SegmentArea& area) {
            return lvm::IsLegOf(area.lv_name, held.lv->name) &&
                   lvm::MetadataLvName(area.lv_name) == metadata_lv;
          });
  }
  std::vector<lvm::PhysicalRange> own;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    for (const lvm::Segment& segment : lv.segments) {
      for (const lvm::SegmentArea& area : segment.areas) {
        const bool touches = area.pv_uuid == piece.pv_uuid && !Common({area.range}, {piece.range}).empty();
        if (area.lv_name == metadata_lv ||
            (touches && (lv.name != metadata_lv || segment.type != "linear"))) {
          return Error(Code::kUnavailable, fmt::format("{}/{} also lies on the metadata leg {}", group.name,
                                                       lv.name, metadata_lv));
        }
        if (touches) {
          own.push_back({area.pv_uuid, area.range});
        }
      }
    }
  }
  return leg && Within(piece, own)
             ? Ok()
             : Status(Error(Code::kUnavailable,
                            fmt::format("the metadata leg {} of {}/{} does not exist any more", metadata_lv,
                                        group.name, held.lv->name)));
}

// The bytes of a thin volume are wherever its pool has put them, so only its own device leads to them.
Result<dm::EraseMethod> ClearThin(const World& world, const Held& held, const EraseAction& piece,
                                  const Call& call, const std::function<void()>& begins) {
  const lvm::VolumeGroup& group = *held.group.snapshot;
  QUARRY_TRY(lvm::IsAloneInPool(group, *held.lv));
  const lvm::LogicalVolume& pool = *group.FindLv(held.lv->pool);
  QUARRY_TRY(HealthyPool(group, pool, world.dm));
  const std::string uuid = lvm::DmUuid(group.uuid, held.lv->uuid);
  QUARRY_ASSIGN(const auto device, world.dm.Find(uuid));
  if (!device.has_value() || piece.range.offset + piece.range.length > held.lv->size) {
    return Error(Code::kUnavailable,
                 fmt::format("thin volume {}/{} was deactivated or changed by another process", group.name,
                             held.lv->name));
  }
  if (begins) {
    begins();
  }
  const std::string data = DmUuidOf(group, *lvm::PartsOfPool(group, pool)->data);
  QUARRY_TRY(
      Execute({ZeroThinAction{group.name, held.lv->name, uuid, data, piece.range.offset, piece.range.length}},
              world, call));
  return dm::EraseMethod::kZero;
}

// Whether a thin volume came into the pool that has no tags of Quarry's, after `id` was the highest.
bool HasStranger(const lvm::VolumeGroup& group, const std::string& pool, uint32_t id) {
  return std::ranges::any_of(group.lvs, [&](const lvm::LogicalVolume& lv) {
    if (lv.pool != pool || lv.segments.size() != 1 || !lv.segments.front().thin_volume.has_value() ||
        lv.segments.front().thin_volume->device_id <= id) {
      return false;
    }
    const auto tags = lvm::ParseTags(lv.tags);
    return !lvm::IsOurLvName(lv.name) || !tags.has_value() || !tags->has_value();
  });
}

// The bytes from..from+length of the ranges, as if these followed each other.
std::vector<dm::OpenRange> Slice(const std::vector<thin::ByteRange>& ranges, Bytes from, Bytes length) {
  std::vector<dm::OpenRange> out;
  Bytes before;
  for (const thin::ByteRange& range : ranges) {
    const Bytes end = before + range.length;
    const Bytes first = std::max(before, from);
    const Bytes last = std::min(end, from + length);
    if (first < last) {
      out.push_back({range.offset + (first - before), last - first});
    }
    before = end;
  }
  return out;
}

// The same on the data device of the store, for what the volume shared with others.
Result<dm::EraseMethod> ClearInStore(const World& world, const Held& held, const Owner::InStore& place,
                                     const EraseAction& piece, const Call& call,
                                     const std::function<void()>& begins) {
  const lvm::VolumeGroup& group = *held.group.snapshot;
  QUARRY_TRY(lvm::IsAloneInPool(group, *held.lv));
  const lvm::LogicalVolume& pool = *group.FindLv(held.lv->pool);
  QUARRY_TRY(HealthyPool(group, pool, world.dm));
  const std::string uuid = lvm::DmUuid(group.uuid, held.lv->uuid);
  QUARRY_ASSIGN(const auto device, world.dm.Find(uuid));
  const bool same = device.has_value() && device->read_only && device->open_count >= 1 &&
                    held.lv->segments.front().thin_volume->device_id == place.device_id;
  QUARRY_ASSIGN(const uint64_t instance, same ? world.dm.Instance(uuid) : Result<uint64_t>(0));
  const lvm::LogicalVolume& data = *lvm::PartsOfPool(group, pool)->data;
  const std::vector<dm::OpenRange> ranges = Slice(*place.ranges, piece.range.offset, piece.range.length);
  const bool within = std::ranges::all_of(
      ranges, [&](const dm::OpenRange& range) { return range.offset + range.length <= data.size; });
  if (!same || instance != place.instance || !within || HasStranger(group, pool.name, place.highest_id)) {
    return Error(Code::kUnavailable,
                 fmt::format("thin volume {}/{} was deactivated or changed by another process, or one was "
                             "added to its store",
                             group.name, held.lv->name));
  }
  if (begins) {
    begins();
  }
  QUARRY_TRY(
      Execute({ZeroStoreAction{group.name, held.lv->name, DmUuidOf(group, data), ranges}}, world, call));
  return dm::EraseMethod::kZero;
}

}  // namespace

LegWriter WriterOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, const World& world,
                   const Call& call) {
  return [owner = OwnerOf(group, lv, lvm::StateTag(lvm::VolumeState::kReady)), &world, &call](
             const std::string& metadata_lv, const dm::EraseRange& place, const dm::RaidSuperblock& was,
             const dm::RaidStart& start) {
    return WriteToLeg(world, owner, metadata_lv, place, call,
                      [&] { return world.raid_legs.Write(place, was, start); });
  };
}

Owner OwnerOf(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv, std::string tag) {
  return {.group = group.name,
          .group_uuid = group.uuid,
          .lv_name = lv.name,
          .lv_uuid = lv.uuid,
          .tag = std::move(tag)};
}

Result<dm::EraseMethod> ClearOwned(const World& world, const Owner& owner, const EraseAction& piece,
                                   const Call& call, const std::function<void()>& begins) {
  if (piece.range.length > kMostAtOnce) {
    return Error(Code::kInternal,
                 fmt::format("a piece to erase is too large: {} bytes", piece.range.length.value));
  }
  QUARRY_ASSIGN(const Held held, Hold(world, owner, call));
  if (owner.in_store.has_value()) {
    return ClearInStore(world, held, *owner.in_store, piece, call, begins);
  }
  if (!held.lv->pool.empty()) {
    return ClearThin(world, held, piece, call, begins);
  }
  QUARRY_ASSIGN(const lvm::PhysicalRange extents, ExtentsAt(held.group, piece.range));
  QUARRY_ASSIGN(const auto owned, lvm::OwnedExtents(*held.group.snapshot, *held.lv));
  if (!Within(extents, owned)) {
    return Error(Code::kUnavailable,
                 fmt::format("logical volume {}/{} was moved to other extents", owner.group, owner.lv_name));
  }
  QUARRY_TRY(CheckMappings(world, held, piece.range, OwnDevices::kMustBeGone));
  if (begins) {
    begins();
  }
  Status done = Execute({piece}, world, call);
  if (!done.has_value() && done.error().code() == Code::kUnsupported &&
      piece.method == dm::EraseMethod::kDiscard) {
    QUARRY_TRY(Execute({EraseAction{piece.range, dm::EraseMethod::kZero}}, world, call));
    return dm::EraseMethod::kZero;
  }
  QUARRY_TRY(std::move(done));
  return piece.method;
}

Status WriteToLeg(const World& world, const Owner& owner, const std::string& metadata_lv,
                  const dm::EraseRange& place, const Call& call, const std::function<Status()>& write) {
  QUARRY_ASSIGN(const Held held, Hold(world, owner, call));
  QUARRY_ASSIGN(const auto device, world.dm.Find(DmUuidOf(*held.group.snapshot, *held.lv)));
  if (device.has_value()) {
    return Error(Code::kPrecondition,
                 fmt::format("logical volume {}/{} is active", owner.group, owner.lv_name));
  }
  QUARRY_ASSIGN(const lvm::PhysicalRange extents, ExtentsAt(held.group, place));
  QUARRY_TRY(CheckLeg(held, metadata_lv, extents));
  QUARRY_TRY(CheckMappings(world, held, place, OwnDevices::kMayBeThere));
  return write();
}

}  // namespace quarry::engine
