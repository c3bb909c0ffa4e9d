// Lists of changed blocks, one batch at a time. The records are looked up in each batch, under the turn in
// which their devices are read: a deleted snapshot's device number may be given to another one.
#include "engine/changed_blocks.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/plan/start_store.h"
#include "lvm/names.h"

namespace quarry::engine {
namespace {

// Blocks of metadata, 8 MiB. While they are read, all other changes of the group wait, and the kernel gives
// no chunk away that becomes free: writers to a full store wait, and fail after a minute.
constexpr uint64_t kMostReads = 2048;
constexpr std::chrono::seconds kLongestHold{30};

// A snapshot that a request names.
struct Named {
  std::string_view field;  // of CSI
  const std::string& id;
};

// The answer for another node is not FAILED_PRECONDITION: backup programs take that for "make a full backup".
Error Unknown(const Node& node, const Named& named) {
  const Status elsewhere = node.CheckNotElsewhere(named.id, "snapshot");
  return {Code::kNotFound,
          fmt::format("{}: no snapshot '{}' on this node{}", named.field, named.id,
                      elsewhere.has_value() ? "" : ", and its id names another node: ask that one")};
}

Result<Found> Find(Node& node, const Named& named, const Call& call) {
  auto looked = node.FindSnapshot(named.id, call);
  if (!looked.has_value()) {
    return std::move(looked.error()).Context(named.field);
  }
  std::optional<Found> found = std::move(*looked);
  if (!found.has_value()) {
    return Unknown(node, named);
  }
  return std::move(*found);
}

Status CheckTracked(const Record& record, const Named& named) {
  if (IsThinSnapshot(record)) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("{}: snapshot {} is a full copy, and changes are not tracked for those, only in thin "
                  "stores: make a full backup",
                  named.field, named.id));
}

Status CheckPair(const Record& base, const Named& named_base, const Record& target,
                 const Named& named_target) {
  if (base.tags.source != target.tags.source) {
    return Error(Code::kInvalidArgument, fmt::format("{}: the snapshots are of different volumes, {} and {}",
                                                     named_base.field, base.tags.source, target.tags.source));
  }
  QUARRY_TRY(CheckTracked(base, named_base));
  QUARRY_TRY(CheckTracked(target, named_target));
  if (base.group->uuid != target.group->uuid || base.lv->pool != target.lv->pool) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: the snapshots are in different thin stores", named_base.field));
  }
  return Ok();
}

Status CheckOffset(Bytes offset, const Record& record) {
  const Bytes capacity = record.tags.length;
  return offset <= capacity
             ? Ok()
             : Status(Error(Code::kOutOfRange, fmt::format("starting_offset: {} is beyond the end of the "
                                                           "snapshot, which has {} bytes",
                                                           offset.value, capacity.value)));
}

Result<uint32_t> DeviceOf(const Record& record) {
  const auto& segments = record.lv->segments;
  const auto thin = segments.empty() ? std::nullopt : segments.front().thin_volume;
  if (!thin.has_value()) {
    return Error(
        Code::kPrecondition,
        fmt::format("{} is no thin volume any more: another program has changed it", InWords(record)));
  }
  return thin->device_id;
}

// What the store says must not look like a fault of the request: the store has lost the device of a snapshot
// that LVM has, or another process has released the metadata snapshot.
Error OfStore(Error error, const Call& call) {
  if (error.code() == Code::kTimeout && call.Check("reading").has_value()) {
    return std::move(error).As(Code::kUnavailable).Context("the disks with the metadata are too slow now");
  }
  switch (error.code()) {
    case Code::kNotFound:
      return std::move(error).As(Code::kCorrupt);
    case Code::kPrecondition:
      return std::move(error).As(Code::kUnavailable);
    default:
      return error;
  }
}

// The store knows which of two snapshots was made first, whatever the clock said then.
Status CheckOrder(const MetadataHold& hold, uint32_t base, uint32_t target, const World& world,
                  const Call& call) {
  QUARRY_ASSIGN(const uint64_t base_made, world.thin.CreationTime(hold.device(), base, call));
  QUARRY_ASSIGN(const uint64_t target_made, world.thin.CreationTime(hold.device(), target, call));
  return base_made <= target_made ? Ok() : Status(Error(Code::kInvalidArgument, "is older than the base"));
}

// `base`: nullptr for what is allocated. Under the turn; both records are of the present group.
// kInvalidArgument: the target is older than the base.
Result<thin::WalkedRanges> Walk(const Record* base, const Record& target, Bytes offset, size_t most,
                                const World& world, const Call& call) {
  const lvm::VolumeGroup& group = *target.group;
  const lvm::LogicalVolume* const pool = group.FindLv(target.lv->pool);
  if (pool == nullptr) {
    return Error(Code::kPrecondition, fmt::format("{} is in no thin store any more", InWords(target)));
  }
  QUARRY_ASSIGN(const uint32_t device, DeviceOf(target));
  std::optional<uint32_t> base_device;
  if (base != nullptr) {
    QUARRY_ASSIGN(base_device, DeviceOf(*base));
  }
  QUARRY_TRY(StartStore(group, *pool, world, call));
  QUARRY_TRY(HealthyPool(group, *pool, world.dm));
  const thin::WalkLimit limit{.ranges = most, .reads = kMostReads};
  const Call limited = call.Within(kLongestHold);
  QUARRY_ASSIGN(const MetadataHold hold, MetadataHold::Begin(group, *pool, world.dm));
  if (base_device.has_value()) {
    if (Status order = CheckOrder(hold, *base_device, device, world, limited); !order.has_value()) {
      return OfStore(std::move(order.error()), call);
    }
  }
  auto walked = base_device.has_value()
                    ? world.thin.Different(hold.device(), *base_device, device, offset, limit, limited)
                    : world.thin.Allocated(hold.device(), device, offset, limit, limited);
  if (!walked.has_value()) {
    return OfStore(std::move(walked.error()), call)
        .Context(fmt::format("the metadata of thin store {}/{}", group.name, pool->name));
  }
  QUARRY_TRY(hold.Check());
  return walked;
}

// What of `walked` lies between `from` and `end`, where the list ends if `last`.
ChangedBatch Clip(const thin::WalkedRanges& walked, Bytes from, Bytes end, bool last, Bytes capacity) {
  const bool complete = walked.whole || walked.end >= end;
  ChangedBatch out{
      .capacity = capacity, .ranges = {}, .end = complete ? end : walked.end, .whole = complete && last};
  for (const thin::ByteRange& range : walked.ranges) {
    const Bytes begin = std::max(range.offset, from);
    const Bytes behind = std::min(range.end(), end);
    if (begin < behind) {
      out.ranges.push_back({begin, behind - begin});
    }
  }
  return out;
}

Result<ChangedBatch> ReadBatch(Parts& parts, const Named* named_base, const Named& named_target, Bytes offset,
                               size_t most, const Call& call) {
  Node& node = parts.node;
  QUARRY_ASSIGN(const Found found, Find(node, named_target, call));
  if (named_base != nullptr) {
    QUARRY_ASSIGN(const Found base, Find(node, *named_base, call));
    QUARRY_TRY(CheckPair(base.record, *named_base, found.record, named_target));
  } else {
    QUARRY_TRY(CheckTracked(found.record, named_target));
  }
  QUARRY_TRY(CheckOffset(offset, found.record));
  const Bytes capacity = found.record.tags.length;
  if (offset == capacity && named_base == nullptr) {
    return ChangedBatch{.capacity = capacity, .ranges = {}, .end = capacity, .whole = true};
  }
  QUARRY_ASSIGN(const auto turn, found.pool->writers.Wait("reading which blocks changed", call));
  QUARRY_ASSIGN(const auto catalog, node.Read(*found.pool, call));
  const Record* const target = catalog->SnapshotById(named_target.id);
  const Record* const base = named_base == nullptr ? target : catalog->SnapshotById(named_base->id);
  if (target == nullptr || base == nullptr) {
    return Unknown(node, target == nullptr ? named_target : *named_base);
  }
  // What the volume had beyond its size at the base is not in a backup of the base.
  const Bytes compared = named_base == nullptr ? Bytes{} : std::min(base->tags.length, capacity);
  if (named_base != nullptr && (offset < compared || offset == capacity)) {
    const auto walked = Walk(base, *target, offset, most, node.world, call);
    if (!walked.has_value() && walked.error().code() == Code::kInvalidArgument) {
      return Error(Code::kInvalidArgument, fmt::format("{}: snapshot {} is older than the base snapshot {}",
                                                       named_target.field, named_target.id, named_base->id));
    }
    QUARRY_TRY(walked);
    const Bytes end = offset < compared ? compared : capacity;
    return Clip(*walked, offset, end, end == capacity, capacity);
  }
  QUARRY_ASSIGN(const auto walked, Walk(nullptr, *target, offset, most, node.world, call));
  return Clip(walked, offset, capacity, true, capacity);
}

}  // namespace

bool ChangedBlocks::IsOffered() const {
  return HasStores(parts_);
}

Result<ChangedBatch> ChangedBlocks::Allocated(const std::string& snapshot, Bytes offset, size_t most,
                                              const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  return ReadBatch(parts_, nullptr, {"snapshot_id", snapshot}, offset, most, call);
}

Result<ChangedBatch> ChangedBlocks::Delta(const std::string& base, const std::string& target, Bytes offset,
                                          size_t most, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  const Named named_base{"base_snapshot_id", base};
  return ReadBatch(parts_, &named_base, {"target_snapshot_id", target}, offset, most, call);
}

}  // namespace quarry::engine
