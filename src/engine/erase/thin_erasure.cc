#include "engine/erase/thin_erasure.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/plan/start_store.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

constexpr size_t kMostRanges = 4096;

Result<thin::MappedRanges> MappedOf(const Record& record, Bytes from, const World& world, const Call& call) {
  const lvm::VolumeGroup& group = *record.group;
  const lvm::LogicalVolume& pool = *group.FindLv(record.lv->pool);
  QUARRY_ASSIGN(const std::string metadata, MetadataDevice(group, pool, world.dm));
  QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(world.dm, lvm::DmUuid(group.uuid, pool.uuid)));
  return world.thin.Mapped(metadata, record.lv->segments.front().thin_volume->device_id, from, kMostRanges,
                           call);
}

}  // namespace

Result<ThinErasure> BeginThinErasure(const Record& record, Bytes from, const World& world, const Call& call) {
  const lvm::VolumeGroup& group = *record.group;
  QUARRY_TRY(CheckAlone(record));
  const lvm::LogicalVolume& pool = *group.FindLv(record.lv->pool);
  QUARRY_TRY(StartStore(group, pool, world, call));
  QUARRY_TRY(HealthyPool(group, pool, world.dm));
  QUARRY_ASSIGN(const auto device, world.dm.Find(record.DmUuid()));
  if (device.has_value() && device->open_count > 0) {
    return Error(Code::kPrecondition,
                 fmt::format("a process has the deleted volume {}/{} open", group.name, record.lv->name));
  }
  if (!device.has_value() || !device->IsUsable()) {
    QUARRY_TRY(Execute({ActivateAction{group.name, {record.lv->name}}}, world, call));
  }
  QUARRY_ASSIGN(const thin::MappedRanges mapped, MappedOf(record, from, world, call));
  if (mapped.was_shared) {
    return Error(
        Code::kPrecondition,
        fmt::format(
            "another command has made a snapshot of {0}/{1} in its store, so zeroes written to the "
            "volume would not reach all of its bytes: it is kept. Without erasing, `lvremove {0}/{1}` "
            "removes it",
            group.name, record.lv->name));
  }
  DiskPart part{
      .pv_uuid = record.lv->uuid, .device = fmt::format("{}/{}", group.name, pool.name), .pieces = {}};
  for (const thin::ByteRange& range : mapped.ranges) {
    part.pieces.push_back(
        {{.device = part.device, .pv_uuid = "", .offset = range.offset, .length = range.length},
         dm::EraseMethod::kZero});
  }
  ThinErasure out{.end = mapped.ranges.empty() ? from : mapped.ranges.back().end(), .whole = mapped.whole};
  std::vector<DiskPart> parts;
  if (!part.pieces.empty()) {
    parts.push_back(std::move(part));
  }
  std::vector<Bytes> done(parts.size());
  out.job = std::make_shared<EraseJob>(OwnerOf(group, *record.lv, lvm::StateTag(lvm::VolumeState::kErasing)),
                                       std::vector<lvm::PhysicalRange>(), std::move(parts), std::move(done),
                                       world.clock.Now());
  return out;
}

Result<bool> IsBlankThin(const Record& record, const World& world, const Call& call) {
  const lvm::VolumeGroup& group = *record.group;
  QUARRY_ASSIGN(const dm::ThinPoolStatus pool, HealthyPool(group, *group.FindLv(record.lv->pool), world.dm));
  QUARRY_ASSIGN(const thin::MappedRanges mapped, MappedOf(record, Bytes{}, world, call));
  // Zeroes did not reach all bytes if a snapshot was made meanwhile. The next BeginThinErasure says so.
  return !mapped.was_shared &&
         (mapped.ranges.empty() || pool.discards == dm::ThinPoolStatus::Discards::kIgnored);
}

}  // namespace quarry::engine
