#include "lvm/read/text_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"
#include "lvm/read/text_fields.h"

namespace quarry::lvm::text {
namespace {

bool HasOnly(const LogicalVolume& lv, std::initializer_list<std::string_view> types) {
  return std::ranges::all_of(lv.segments, [&](const Segment& segment) {
    return std::ranges::find(types, segment.type) != types.end();
  });
}

bool HasAny(const LogicalVolume& lv, std::initializer_list<std::string_view> types) {
  return std::ranges::any_of(lv.segments, [&](const Segment& segment) {
    return std::ranges::find(types, segment.type) != types.end();
  });
}

class Joiner {
 public:
  Joiner(const Parts& parts, VolumeGroup& group) : parts_(parts), group_(group) {}

  Status Run() {
    for (const Snapshot& snapshot : parts_.snapshots) {
      QUARRY_TRY(JoinSnapshot(snapshot));
    }
    for (const auto& [leg, length] : parts_.legs) {
      QUARRY_TRY(CheckLeg(leg, length));
    }
    for (const PoolData& data : parts_.pools) {
      QUARRY_TRY(CheckPoolPart(data.name, data.length));
    }
    for (const std::string& metadata : parts_.pool_metadata) {
      QUARRY_TRY(CheckPoolPart(metadata, std::nullopt));
    }
    for (LogicalVolume& lv : group_.lvs) {
      QUARRY_TRY(CheckOwner(lv));
      QUARRY_TRY(JoinThin(lv));
    }
    for (LogicalVolume& lv : group_.lvs) {
      lv.partial = LacksPart(lv);
    }
    return Ok();
  }

 private:
  LogicalVolume* FindLv(std::string_view name) {
    const auto found = std::ranges::lower_bound(group_.lvs, name, {}, &LogicalVolume::name);
    return found == group_.lvs.end() || found->name != name ? nullptr : &*found;
  }

  // LVM hides the store in the text and shows it in reports.
  Status JoinSnapshot(const Snapshot& snapshot) {
    LogicalVolume* const store = FindLv(snapshot.store);
    if (store == nullptr || !store->hidden || !HasOnly(*store, {"linear", "striped"}) ||
        stores_.contains(store->name)) {
      return AskLvm(fmt::format("the store {} of a snapshot is absent, visible, used twice or of type {}",
                                snapshot.store, store == nullptr ? "" : store->segment_type));
    }
    LogicalVolume* const origin = FindLv(snapshot.origin);
    if (origin == nullptr || origin->hidden || stores_.contains(origin->name) ||
        HasAny(*origin, {"thin-pool"})) {
      return AskLvm(fmt::format("the origin {} of a snapshot is absent, hidden, a pool or itself a snapshot",
                                snapshot.origin));
    }
    stores_.insert(store->name);
    stores_of_.emplace(origin->name, store->name);
    store->hidden = false;
    store->independent = false;
    store->origin = origin->name;
    for (Segment& segment : store->segments) {
      segment.chunk_size = snapshot.chunk_size;
    }
    origin->independent = false;
    return Ok();
  }

  Status CheckLeg(const Leg& leg, Extents length) {
    const LogicalVolume* const data = FindLv(leg.data);
    if (data == nullptr || !data->hidden || data->size != ToBytes(length, group_.extent_size) ||
        !HasOnly(*data, {"linear"})) {
      return AskLvm(fmt::format("leg {} is absent, visible, of the wrong length or not linear", leg.data));
    }
    ++owners_[data->name];
    if (leg.metadata.empty()) {
      return Ok();
    }
    const LogicalVolume* const metadata = FindLv(leg.metadata);
    // PhysicalExtents() finds the metadata by its name.
    if (metadata == nullptr || !metadata->hidden || MetadataLvName(leg.data) != leg.metadata ||
        !HasOnly(*metadata, {"linear"})) {
      return AskLvm(fmt::format("leg metadata {} is absent, visible, misnamed or not linear", leg.metadata));
    }
    ++owners_[metadata->name];
    return Ok();
  }

  // A thin pool's data or metadata: any volume that could stand alone.
  Status CheckPoolPart(std::string_view name, std::optional<Extents> length) {
    const LogicalVolume* const part = FindLv(name);
    if (part == nullptr || !part->hidden || (!HasOnly(*part, {"linear", "striped"}) && !part->IsRaid()) ||
        (length.has_value() && part->size != ToBytes(*length, group_.extent_size))) {
      return AskLvm(
          fmt::format("{} below a thin pool is absent, visible, of the wrong length or type", name));
    }
    ++owners_[part->name];
    return Ok();
  }

  Status CheckOwner(const LogicalVolume& lv) {
    const auto owner = owners_.find(lv.name);
    const int owned = owner == owners_.end() ? 0 : owner->second;
    if (owned == (lv.hidden ? 1 : 0)) {
      return Ok();
    }
    // A group has at most one spare.
    if (owned == 0 && IsPoolSpareName(lv.name) && HasOnly(lv, {"linear", "striped"}) &&
        !std::exchange(spare_, true)) {
      return Ok();
    }
    return AskLvm(fmt::format("LV {} is part of no volume, or of several", lv.name));
  }

  // A thin volume lies in a pool of the group. Its origin is a thin volume of the same pool.
  Status JoinThin(LogicalVolume& lv) {
    if (!HasOnly(lv, {"thin"})) {
      return lv.segments.size() == 1 || !HasAny(lv, {"thin", "thin-pool"})
                 ? Ok()
                 : Status(AskLvm(fmt::format("{} is thin, but not throughout", lv.name)));
    }
    const LogicalVolume* const pool = FindLv(lv.pool);
    if (lv.segments.size() != 1 || lv.hidden || pool == nullptr || pool->hidden ||
        !HasOnly(*pool, {"thin-pool"})) {
      return AskLvm(fmt::format("the thin volume {} is hidden, in pieces or in no pool", lv.name));
    }
    if (lv.origin.empty()) {
      return Ok();
    }
    LogicalVolume* const origin = FindLv(lv.origin);
    if (origin == nullptr || origin == &lv || origin->pool != lv.pool || !HasOnly(*origin, {"thin"})) {
      return AskLvm(fmt::format("the origin {} of {} is not a thin volume of its pool", lv.origin, lv.name));
    }
    origin->independent = false;
    lv.independent = false;
    return Ok();
  }

  // Whether LVM calls the LV partial: extents of it, of a leg, of its pool or of a snapshot of it are on a
  // missing PV. LVM does not call a snapshot partial because its origin is.
  bool LacksPart(const LogicalVolume& lv) {
    for (const Segment& segment : lv.segments) {
      for (const SegmentArea& area : segment.areas) {
        if (area.lv_name.empty() ? group_.LacksPv(area.pv_uuid) : LacksLeg(area.lv_name)) {
          return true;
        }
      }
      if (segment.thin_pool.has_value() && LacksPart(*FindLv(segment.thin_pool->metadata_lv))) {
        return true;
      }
    }
    if (!lv.pool.empty() && LacksPart(*FindLv(lv.pool))) {
      return true;
    }
    const auto [first, last] = stores_of_.equal_range(lv.name);
    return std::any_of(first, last, [&](const auto& store) { return LacksPart(*FindLv(store.second)); });
  }
  bool LacksLeg(const std::string& data) {
    const LogicalVolume* const metadata = FindLv(MetadataLvName(data));
    return LacksPart(*FindLv(data)) || (metadata != nullptr && LacksPart(*metadata));
  }

  const Parts& parts_;
  VolumeGroup& group_;
  std::map<std::string_view, int> owners_;  // how many volumes name this LV as their part
  bool spare_ = false;                      // whether LVM's spare was seen
  std::set<std::string_view> stores_;
  std::multimap<std::string_view, std::string_view> stores_of_;  // by origin
};

}  // namespace

Status Join(const Parts& parts, VolumeGroup& group) {
  return Joiner(parts, group).Run();
}

}  // namespace quarry::lvm::text
