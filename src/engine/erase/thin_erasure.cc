#include "engine/erase/thin_erasure.h"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/plan/start_store.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

using thin::ByteRange;

// Of one job: a look at scattered metadata on a slow disk takes some 20 s.
constexpr thin::WalkLimit kMost{.ranges = 4096, .reads = 2048};
// What others overwrite while the metadata are held stays in use until the release. A write that finds a full
// store meanwhile waits, by default for a minute, and then fails.
constexpr std::chrono::seconds kLongestHold{40};
// So much is erased while nobody else can work on the group.
constexpr Bytes kMostAtTheEnd{8 * kMiB.value};
constexpr int kLooks = 60;
constexpr std::chrono::milliseconds kPause{50};

uint32_t IdOf(const Record& record) {
  return record.lv->segments.front().thin_volume->device_id;
}

const lvm::LogicalVolume& PoolOf(const Record& record) {
  return *record.group->FindLv(record.lv->pool);
}

Result<MetadataHold> HoldMetadata(const Record& record, const World& world) {
  return MetadataHold::Begin(*record.group, PoolOf(record), world.dm);
}

Result<bool> HasDevice(const Record& record, const World& world, const Call& call) {
  QUARRY_ASSIGN(const MetadataHold hold, HoldMetadata(record, world));
  QUARRY_ASSIGN(const auto there, world.thin.Device(hold.device(), IdOf(record), call));
  QUARRY_TRY(hold.Check());
  return there.has_value();
}

// nullopt: the pool has no such device.
Result<std::optional<thin::MappedRanges>> MappedOf(const Record& record, Bytes from, const World& world,
                                                   const Call& call) {
  const Call limited = call.Within(kLongestHold);
  QUARRY_ASSIGN(const MetadataHold hold, HoldMetadata(record, world));
  QUARRY_ASSIGN(const auto there, world.thin.Device(hold.device(), IdOf(record), limited));
  std::optional<thin::MappedRanges> out;
  if (there.has_value()) {
    QUARRY_ASSIGN(out, world.thin.Mapped(hold.device(), IdOf(record), from, kMost, limited));
  }
  QUARRY_TRY(hold.Check());
  return out;
}

std::vector<ByteRange> Without(const std::vector<ByteRange>& ranges, const std::vector<ByteRange>& taken) {
  std::vector<ByteRange> out;
  auto next = taken.begin();
  for (ByteRange range : ranges) {
    while (next != taken.end() && next->end() <= range.offset) {
      ++next;
    }
    for (auto cut = next; cut != taken.end() && cut->offset < range.end(); ++cut) {
      if (range.offset < cut->offset) {
        out.push_back({range.offset, cut->offset - range.offset});
      }
      const Bytes end = range.end();
      range.offset = std::min(end, cut->end());
      range.length = end - range.offset;
    }
    if (range.length > Bytes{}) {
      out.push_back(range);
    }
  }
  return out;
}

// What only this volume has, and was not erased yet.
Result<std::vector<ByteRange>> LeftInStore(const Record& record, const ThinErasure& work, const World& world,
                                           const Call& call) {
  QUARRY_ASSIGN(const MetadataHold hold, HoldMetadata(record, world));
  auto own = world.thin.Exclusive(hold.device(), IdOf(record), Bytes{}, SIZE_MAX, call.Within(kLongestHold));
  if (!own.has_value()) {
    return std::move(own.error())
        .Context(fmt::format("reading the metadata of thin store {}/{}, which may take {} s at most",
                             record.group->name, PoolOf(record).name, kLongestHold.count()));
  }
  QUARRY_TRY(hold.Check());
  return Without(own->ranges, work.zeroed);
}

Owner OwnerFor(const Record& record) {
  return OwnerOf(*record.group, *record.lv, lvm::StateTag(lvm::VolumeState::kErasing));
}

// As long as this descriptor is open, nobody mounts the device, writes to it, or removes it.
Status HoldDevice(const Record& record, ThinErasure& work, const World& world, const Call& call) {
  if (work.held.valid()) {
    return Ok();
  }
  work.zeroed.clear();  // the device may have changed
  QUARRY_TRY(world.dm.SetReadOnly(record.DmUuid(), true));
  QUARRY_ASSIGN(UniqueFd held, world.dm.Open(record.DmUuid(), O_RDONLY | O_EXCL));
  // Whoever opens a read-only device later cannot write to it. udevd looks at a device that became active.
  for (int attempt = 0; attempt < kLooks; ++attempt) {
    QUARRY_ASSIGN(const auto device, world.dm.Find(record.DmUuid()));
    if (device.has_value() && device->open_count == 1) {
      work.held = std::move(held);
      return Ok();
    }
    QUARRY_TRY(call.Check("waiting until nobody else has a deleted volume open"));
    Sleep(call.stop, kPause);
  }
  return Error(Code::kPrecondition, fmt::format("a process has opened {}/{}, which was deleted",
                                                record.group->name, record.lv->name));
}

Result<Owner> StoreOwner(const Record& record, const std::vector<ByteRange>& ranges, const World& world) {
  Owner owner = OwnerFor(record);
  QUARRY_ASSIGN(const uint64_t instance, world.dm.Instance(record.DmUuid()));
  owner.in_store = Owner::InStore{.device_id = IdOf(record),
                                  .instance = instance,
                                  .highest_id = HighestThinId(*record.group, record.lv->pool),
                                  .ranges = std::make_shared<const std::vector<ByteRange>>(ranges)};
  return owner;
}

EraseAction PieceAt(const std::string& device, const ByteRange& range) {
  return {{.device = device, .pv_uuid = "", .offset = range.offset, .length = range.length},
          dm::EraseMethod::kZero};
}

Bytes SumOf(const std::vector<ByteRange>& ranges) {
  Bytes sum;
  for (const ByteRange& range : ranges) {
    sum = sum + range.length;
  }
  return sum;
}

void SetJob(ThinErasure& work, const Record& record, Owner owner, const std::vector<ByteRange>& ranges,
            const World& world) {
  DiskPart part{.pv_uuid = record.lv->uuid,
                .device = fmt::format("{}/{}", record.group->name, PoolOf(record).name),
                .pieces = {}};
  for (const ByteRange& range : ranges) {
    part.pieces.push_back(PieceAt(part.device, range));
  }
  std::vector<DiskPart> parts;
  if (!part.pieces.empty()) {
    parts.push_back(std::move(part));
  }
  std::vector<Bytes> done(parts.size());
  work.job = std::make_shared<EraseJob>(std::move(owner), std::vector<lvm::PhysicalRange>(), std::move(parts),
                                        std::move(done), world.clock.Now());
}

Status EnsureActive(const Record& record, const ThinErasure& work, const World& world, const Call& call) {
  QUARRY_ASSIGN(const auto device, world.dm.Find(record.DmUuid()));
  if (device.has_value() && device->open_count > 0 && !work.held.valid()) {
    return Error(Code::kPrecondition, fmt::format("a process has the deleted {} open ({}/{})",
                                                  record.tags.snapshot ? "snapshot" : "volume",
                                                  record.group->name, record.lv->name));
  }
  return device.has_value() && device->IsUsable()
             ? Ok()
             : Execute({ActivateAction{record.group->name, {record.lv->name}}}, world, call);
}

// A store that is ill is stopped once none of its volumes is open, so it is not kept from that.
Status CheckHealthy(const Record& record, ThinErasure& work, const World& world) {
  const auto pool = HealthyPool(*record.group, PoolOf(record), world.dm);
  if (!pool.has_value()) {
    work.held.Reset();
    return pool.error();
  }
  return Ok();
}

}  // namespace

Status BeginThinErasure(const Record& record, ThinErasure& work, const World& world, const Call& call) {
  QUARRY_TRY(CheckAlone(record));
  QUARRY_TRY(StartStore(*record.group, PoolOf(record), world, call));
  QUARRY_TRY(CheckHealthy(record, work, world));
  QUARRY_ASSIGN(const bool known, HasDevice(record, world, call));
  if (!known) {  // a cut or a removal was interrupted, or another program has deleted the device
    work = {.whole = true};
    SetJob(work, record, OwnerFor(record), {}, world);
    return Ok();
  }
  QUARRY_TRY(EnsureActive(record, work, world, call));
  if (!work.in_store) {
    QUARRY_ASSIGN(const auto mapped, MappedOf(record, work.end, world, call));
    if (mapped.has_value() && !mapped->was_shared) {
      work.whole = mapped->whole;
      work.end = std::max(work.end, mapped->end);
      SetJob(work, record, OwnerFor(record), mapped->ranges, world);
      return Ok();
    }
    work.in_store = true;
  }
  QUARRY_TRY(HoldDevice(record, work, world, call));
  QUARRY_ASSIGN(std::vector<ByteRange> left, LeftInStore(record, work, world, call));
  QUARRY_ASSIGN(Owner owner, StoreOwner(record, left, world));
  const Bytes all = SumOf(left);
  work.whole = true;
  SetJob(work, record, std::move(owner),
         all == Bytes{} ? std::vector<ByteRange>() : std::vector<ByteRange>{{Bytes{}, all}}, world);
  work.pending = std::move(left);
  return Ok();
}

void NoteErased(ThinErasure& work) {
  const auto begun = static_cast<std::ptrdiff_t>(work.zeroed.size());
  work.zeroed.insert(work.zeroed.end(), work.pending.begin(), work.pending.end());
  work.pending.clear();
  std::inplace_merge(work.zeroed.begin(), work.zeroed.begin() + begun, work.zeroed.end());
}

Result<bool> MayThinGo(const Record& record, ThinErasure& work, const World& world, const Call& call) {
  QUARRY_TRY(CheckAlone(record));
  QUARRY_ASSIGN(const dm::ThinPoolStatus pool, HealthyPool(*record.group, PoolOf(record), world.dm));
  if (!work.in_store) {
    QUARRY_ASSIGN(const auto mapped, MappedOf(record, Bytes{}, world, call));
    // Zeroes did not reach all bytes if a snapshot was made meanwhile. The next job sees to those.
    return !mapped.has_value() ||
           (!mapped->was_shared &&
            (mapped->ranges.empty() || pool.discards == dm::ThinPoolStatus::Discards::kIgnored));
  }
  if (!work.held.valid()) {
    return false;  // since an attempt to remove it, which failed
  }
  QUARRY_ASSIGN(const std::vector<ByteRange> left, LeftInStore(record, work, world, call));
  const Bytes sum = SumOf(left);
  if (sum > kMostAtTheEnd) {
    return false;
  }
  if (sum > Bytes{}) {
    QUARRY_ASSIGN(const Owner owner, StoreOwner(record, left, world));
    QUARRY_TRY(ClearOwned(world, owner, PieceAt(PoolOf(record).name, {Bytes{}, sum}), call));
  }
  work.held.Reset();
  return true;
}

}  // namespace quarry::engine
