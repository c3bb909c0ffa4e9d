#include "tests/fakes/fake_lvm_thin.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "lvm/names.h"
#include "tests/fakes/fake_lvm_model.h"

namespace quarry::fakes {
namespace {

using lvm::LogicalVolume;
using lvm::Segment;
using lvm::VolumeGroup;

// Hides the volume under another name, as LVM does below a pool: its legs are renamed with it.
void HideAs(VolumeGroup& group, const std::string& name, const std::string& hidden) {
  const auto renamed = [&](const std::string& part) { return hidden + part.substr(name.size()); };
  for (LogicalVolume& lv : group.lvs) {
    const bool own = lv.name == name;
    if (!own && !IsOf(lv, name)) {
      continue;
    }
    lv.name = renamed(lv.name);
    lv.active = false;
    lv.sync_action.clear();
    if (own) {
      lv.hidden = true;
      lv.independent = false;
      for (Segment& segment : lv.segments) {
        for (lvm::SegmentArea& area : segment.areas) {
          area.lv_name = area.lv_name.empty() ? "" : renamed(area.lv_name);
        }
      }
    }
  }
}

Error NotThere(const VolumeGroup& group, const std::string& name) {
  return {Code::kNotFound, fmt::format("Failed to find logical volume \"{}/{}\"", group.name, name)};
}

}  // namespace

bool IsThinPool(const LogicalVolume& lv) {
  return lv.segments.size() == 1 && lv.segments.front().thin_pool.has_value();
}

bool IsThin(const LogicalVolume& lv) {
  return lv.segments.size() == 1 && lv.segments.front().thin_volume.has_value();
}

LogicalVolume* PoolData(VolumeGroup& group, const LogicalVolume& pool) {
  return IsThinPool(pool) ? Find(group, pool.segments.front().areas.front().lv_name) : nullptr;
}

LogicalVolume* PoolMetadata(VolumeGroup& group, const LogicalVolume& pool) {
  return IsThinPool(pool) ? Find(group, pool.segments.front().thin_pool->metadata_lv) : nullptr;
}

bool IsPartOfPool(const LogicalVolume& part, const std::string& pool) {
  const std::string data = lvm::ThinDataName(pool);
  const std::string metadata = lvm::ThinMetadataName(pool);
  return part.hidden &&
         (part.name == data || part.name == metadata || IsOf(part, data) || IsOf(part, metadata));
}

const LogicalVolume* PoolOf(const VolumeGroup& group, const std::string& part) {
  const auto found = std::ranges::find_if(group.lvs, [&](const LogicalVolume& lv) {
    return IsThinPool(lv) && (lvm::ThinDataName(lv.name) == part || lvm::ThinMetadataName(lv.name) == part);
  });
  return found == group.lvs.end() ? nullptr : &*found;
}

bool IsInKernel(const VolumeGroup& group, const LogicalVolume& pool) {
  return pool.active || std::ranges::any_of(group.lvs, [&](const LogicalVolume& lv) {
           return IsThin(lv) && lv.pool == pool.name && lv.active;
         });
}

uint64_t VolumesIn(const VolumeGroup& group, const std::string& pool) {
  return static_cast<uint64_t>(std::ranges::count_if(
      group.lvs, [&](const LogicalVolume& lv) { return IsThin(lv) && lv.pool == pool; }));
}

void FitToData(VolumeGroup& group, LogicalVolume& pool) {
  const LogicalVolume* const data = PoolData(group, pool);
  const Extents size = data->segments.back().logical.end();
  pool.segments.front().logical.count = size;
  pool.segments.front().areas.front().range = {{0}, size};
}

void SettlePool(VolumeGroup& group, const std::string& name) {
  const LogicalVolume* const pool = Find(group, name);
  if (pool == nullptr) {
    return;
  }
  const bool active = IsInKernel(group, *pool);
  for (LogicalVolume& part : group.lvs) {
    if (IsPartOfPool(part, name)) {
      part.active = active;
      part.sync_action = active && part.sync_percent.has_value() ? "idle" : "";
    }
  }
}

Status MakePool(VolumeGroup& group, const lvm::MakeThinPool& verb, PoolTags tags,
                const std::function<std::string()>& new_uuid) {
  const LogicalVolume* const base = Find(group, verb.name);
  if (base == nullptr) {
    return NotThere(group, verb.name);
  }
  if (IsThinPool(*base)) {
    return Error(Code::kPrecondition,
                 fmt::format("Command on LV {}/{} does not accept LV type thinpool.", group.name, verb.name));
  }
  if (Find(group, verb.metadata) == nullptr) {
    return NotThere(group, verb.metadata);
  }
  const bool active = base->active;
  const std::string data = lvm::ThinDataName(verb.name);
  const std::string metadata = lvm::ThinMetadataName(verb.name);
  HideAs(group, verb.name, data);
  HideAs(group, verb.metadata, metadata);
  LogicalVolume pool{.name = verb.name,
                     .uuid = new_uuid(),
                     .segment_type = "thin-pool",
                     .independent = false,
                     .created = static_cast<uint64_t>(std::time(nullptr))};
  if (tags == PoolTags::kMoveToPool) {
    pool.tags = std::exchange(Find(group, data)->tags, {});
  }
  Segment segment{
      .type = "thin-pool", .chunk_size = verb.chunk_size, .areas = {{.lv_name = data, .range = {}}}};
  segment.thin_pool =
      lvm::ThinPool{.metadata_lv = metadata, .zeroes_chunks = true, .error_when_full = verb.error_when_full};
  pool.segments.push_back(std::move(segment));
  pool.active = active;
  FitToData(group, pool);
  group.lvs.push_back(std::move(pool));
  SettlePool(group, verb.name);
  return Ok();
}

Status AddThin(VolumeGroup& group, const lvm::CreateThinLv& verb,
               const std::function<std::string()>& new_uuid) {
  LogicalVolume* const pool = Find(group, verb.pool);
  if (pool == nullptr || !IsThinPool(*pool)) {
    return NotThere(group, verb.pool);
  }
  uint32_t last = 0;
  for (const LogicalVolume& lv : group.lvs) {
    if (IsThin(lv) && lv.pool == verb.pool) {
      last = std::max(last, lv.segments.front().thin_volume->device_id);
    }
  }
  lvm::ThinPool& facts = *pool->segments.front().thin_pool;
  LogicalVolume thin{.name = verb.name,
                     .uuid = new_uuid(),
                     .pool = verb.pool,
                     .created = static_cast<uint64_t>(std::time(nullptr))};
  SetTags(thin, verb.tags, {});
  Segment segment{
      .type = "thin", .logical = {{0}, CeilToExtents(verb.size, group.extent_size)}, .data_stripes = 0};
  segment.thin_volume = lvm::ThinVolume{.device_id = last + 1, .transaction_id = facts.transaction_id};
  thin.segments.push_back(std::move(segment));
  ++facts.transaction_id;
  facts.has_messages = false;
  group.lvs.push_back(std::move(thin));
  return Ok();
}

Status SwapMetadata(VolumeGroup& group, const lvm::SwapPoolMetadata& verb) {
  const LogicalVolume* const pool = Find(group, verb.name);
  const LogicalVolume* const fresh = Find(group, verb.metadata);
  if (pool == nullptr || !IsThinPool(*pool) || fresh == nullptr) {
    return NotThere(group, pool == nullptr || !IsThinPool(*pool) ? verb.name : verb.metadata);
  }
  const std::string metadata = PoolMetadata(group, *pool)->name;
  if (IsInKernel(group, *pool) || fresh->active || Find(group, metadata)->active) {
    return Error(Code::kPrecondition,
                 fmt::format("Thin pool volume {}/{} is in use.", group.name, verb.name));
  }
  const std::string aside = "pvmove_tmeta";
  HideAs(group, verb.metadata, aside);
  HideAs(group, metadata, verb.metadata);
  HideAs(group, aside, metadata);
  LogicalVolume& kept = *Find(group, verb.metadata);
  kept.hidden = false;
  kept.independent = true;
  return Ok();
}

Error RefusedAsPartial(const VolumeGroup& group, const std::string& name) {
  return {Code::kUnavailable,
          fmt::format("a disk of the volume is missing: Refusing activation of partial LV {}/{}.", group.name,
                      name)};
}

bool LacksDisks(const LogicalVolume& lv) {
  return lv.partial && (!lv.IsRaid() || lv.segment_type == "raid0");
}

Status MayActivatePool(VolumeGroup& group, const LogicalVolume& lv, bool degraded) {
  const LogicalVolume& pool = IsThin(lv) ? *Find(group, lv.pool) : lv;
  for (const LogicalVolume* const part : {PoolData(group, pool), PoolMetadata(group, pool)}) {
    if (part->active && !IsInKernel(group, pool)) {
      return Error(
          Code::kPrecondition,
          fmt::format("Activation of logical volume {0}/{1} is prohibited while logical volume {0}/{2} "
                      "is active.",
                      group.name, lv.name, part->name));
    }
    if (degraded && LacksDisks(*part)) {
      return Error(Code::kInternal, fmt::format("{} would have errors in place of data", part->name));
    }
  }
  return lv.partial && !degraded ? Status(RefusedAsPartial(group, lv.name)) : Ok();
}

Status RemoveThin(VolumeGroup& group, const LogicalVolume& lv) {
  const std::string name = lv.name;
  LogicalVolume& pool = *Find(group, lv.pool);
  Status told = pool.active ? Ok() : MayActivatePool(group, pool);
  // Where a message is left over, LVM sends none (docs/thin.md, section 1).
  lvm::ThinPool& facts = *pool.segments.front().thin_pool;
  facts.transaction_id += facts.has_messages == true ? 0 : 1;
  facts.has_messages = false;
  group.seqno += told.has_value() ? 2 : 1;
  std::erase_if(group.lvs, [&](const LogicalVolume& other) { return other.name == name; });
  for (LogicalVolume& other : group.lvs) {
    other.origin = IsThin(other) && other.origin == name ? "" : other.origin;
  }
  return told;
}

Status MaySwitchAlone(const VolumeGroup& group, const std::string& name) {
  const LogicalVolume* const pool = PoolOf(group, name);
  if (pool != nullptr && IsInKernel(group, *pool)) {
    return Error(
        Code::kPrecondition,
        fmt::format("Activation of logical volume {0}/{1} is prohibited while logical volume {0}/{2} is "
                    "active.",
                    group.name, name, pool->name));
  }
  return Ok();
}

Status IsNoPoolMetadata(const VolumeGroup& group, const LogicalVolume& lv) {
  if (const LogicalVolume* const pool = PoolOf(group, lv.name);
      pool != nullptr && lvm::ThinMetadataName(pool->name) == lv.name) {
    return Error(Code::kInternal,
                 fmt::format("Operation not permitted on hidden LV {}/{}.", group.name, lv.name));
  }
  return Ok();
}

bool IsInUseByKernel(const VolumeGroup& group, const LogicalVolume& lv) {
  const LogicalVolume* const pool = PoolOf(group, lv.name);
  return pool == nullptr ? lv.active : IsInKernel(group, *pool);
}

}  // namespace quarry::fakes
