// Lists: pools, disks and volumes, and their condition.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/calls/pages.h"
#include "engine/calls/steps.h"
#include "engine/lifecycle.h"
#include "engine/model/config.h"
#include "engine/model/failing_disks.h"
#include "engine/model/sizing.h"
#include "engine/model/unmanaged.h"
#include "engine/model/volume_health.h"
#include "engine/plan/metadata_budget.h"
#include "engine/repair/plan_evacuation.h"
#include "engine/volumes.h"

namespace quarry::engine {
namespace {

using lvm::VolumeType;
using std::chrono::milliseconds;

// Monitoring asks about every 15 s and gives up after 10 s.
constexpr milliseconds kPatience{5000};
// While a command changes the group, an LVM report waits for that command.
constexpr milliseconds kListPatience{20'000};

// The types for which the largest possible volume is reported. It is computed with the defaults of a
// StorageClass that sets only the type.
constexpr std::array kTypes = {VolumeType::kLinear, VolumeType::kStriped, VolumeType::kRaid0,
                               VolumeType::kRaid1,  VolumeType::kRaid4,   VolumeType::kRaid5,
                               VolumeType::kRaid6,  VolumeType::kRaid10};

// For a volume whose state in the kernel is unknown: an error would hide the other volumes of the list.
Health HealthUnknown(const Error& error) {
  return {{}, error.message()};
}

// The volumes that a list shows of one pool, in no particular order.
Result<std::vector<Volume>> VolumesOf(Parts& parts, const PoolConfig& pool, const Catalog& catalog, Show show,
                                      Realm realm) {
  std::optional<mount::MountTable> mounts;
  if (show != Show::kFacts) {
    QUARRY_ASSIGN(mounts, parts.node.world.mount.Mounts());
  }
  std::vector<Volume> volumes;
  for (const Record& record : catalog.records) {
    if (record.tags.state != lvm::VolumeState::kReady || record.tags.ephemeral || record.tags.snapshot ||
        !CheckRealm(record, realm).has_value()) {
      continue;
    }
    std::optional<Health> health;
    if (mounts.has_value()) {
      auto known = parts.node.HealthOf(record, *mounts);
      health = known.has_value() ? std::move(*known) : HealthUnknown(known.error());
    }
    if (show != Show::kAiling || !health->ailments.empty()) {
      volumes.push_back(Describe(record));
      volumes.back().health = std::move(health);
    }
  }
  if (pool.list_foreign && show != Show::kAiling && realm != Realm::kBuckets) {
    std::ranges::move(ForeignVolumes(pool.name, catalog), std::back_inserter(volumes));
  }
  return volumes;
}

// `read`: the catalog, or the error with which it could not be read.
PoolFigures FiguresOf(const Parts& parts, Pool& pool, const Result<std::shared_ptr<const Catalog>>& read) {
  PoolFigures out;
  out.pool = pool.config.name;
  const auto trouble = parts.node.TroubleOf(pool, read.has_value() ? Ok() : Status(read.error()));
  if (trouble.has_value()) {
    out.problem = trouble->error.message();
    return out;
  }
  const Catalog& catalog = **read;
  const lvm::VolumeGroup& group = *catalog.group;
  out.size = ToBytes(group.extent_count, group.extent_size);
  out.free = ToBytes(group.free_count, group.extent_size);
  out.erase_pending = ErasingBytes(catalog);
  out.zeroed = std::min(ToBytes(pool.clean.total(), group.extent_size), out.free);
  out.zeroing = FreeZeroingBytes(catalog);
  const MetadataArea area = FullestArea(group);
  out.metadata_size = area.size;
  out.metadata_free = area.free;
  out.missing_disks = group.MissingPvs();
  out.failing_disks = static_cast<size_t>(std::ranges::count_if(
      group.pvs, [&](const lvm::PhysicalVolume& pv) { return catalog.weak.failing.contains(pv.uuid); }));
  for (const Record& record : catalog.records) {
    if (record.tags.state == lvm::VolumeState::kReady) {
      ++(record.tags.snapshot ? out.snapshots : out.volumes);
    }
  }
  return out;
}

DiskStatus StatusOf(const lvm::PhysicalVolume& pv, const Catalog& catalog,
                    const std::optional<HealthMemory::Known>& known) {
  const Bytes extent_size = catalog.group->extent_size;
  DiskStatus status{.pv_uuid = pv.uuid,
                    .device = pv.device,
                    .condition = !pv.missing         ? DiskCondition::kOk
                                 : pv.device.empty() ? DiskCondition::kMissing
                                                     : DiskCondition::kReturned,
                    .size = ToBytes(pv.extent_count, extent_size),
                    .free = ToBytes(pv.extent_count - UsedOn(pv), extent_size),
                    .detail = "",
                    .health = known.has_value() ? std::optional(known->health) : std::nullopt};
  for (const auto& [disks, condition] : {std::pair(&catalog.weak.failing, DiskCondition::kFailing),
                                         std::pair(&catalog.weak.worn, DiskCondition::kWorn)}) {
    if (const auto weak = disks->find(pv.uuid); weak != disks->end()) {
      status.detail = weak->second;
      status.condition = pv.missing ? status.condition : condition;
    }
  }
  status.leaving = !pv.missing && IsEvacuating(pv);
  if (status.leaving && status.condition != DiskCondition::kFailing) {
    status.condition = DiskCondition::kToBeVacated;
  }
  return status;
}

VolumeStatus StatusOf(const Record& record, const Result<Health>& known, const Scrubs& scrubs) {
  Volume volume = Describe(record);
  const Health health = known.has_value() ? *known : HealthUnknown(known.error());
  return {.id = std::move(volume.id),
          .name = std::move(volume.name),
          .type = volume.context["type"],
          .size = volume.size,
          .condition = known.has_value() ? std::string(ConditionWord(health)) : "unknown",
          .detail = health.ailments.empty() ? health.note : health.ailments.front().message,
          .percent = health.percent,
          .scrubbed = ReadScrub(record.tags.scrubbed),
          .scrub_pending = scrubs.IsPending(record.tags.id),
          .snapshot_of = record.tags.snapshot ? record.tags.source : "",
          .asked = record.tags.asked > Bytes{} ? record.tags.asked : record.tags.size,
          .fs_type = record.tags.fs_type,
          .mount_point = record.tags.mount_point,
          .mount_options = record.tags.mount_options,
          .is_bucket = !record.tags.s3.empty(),
          .created = record.lv->created};
}

std::map<lvm::VolumeType, Bytes> LargestOfTypes(Parts& parts, const Pool& pool, const Catalog& catalog) {
  std::map<lvm::VolumeType, Bytes> out;
  for (const VolumeType type : kTypes) {
    const auto profile = Profile::Parse({{"type", std::string(lvm::TypeName(type))}}, pool.config.name);
    if (profile.has_value()) {
      const bool possible = CheckTarget(parts.node.world.dm, profile->geometry).has_value();
      out[type] = possible ? CapacityIn(catalog, pool.config, profile->geometry, Bytes{}).available : Bytes{};
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> UsedAt(Node& node, const Record& record, const Result<mount::MountTable>& mounts) {
  std::vector<std::string> out;
  const auto stack = node.StackOn(record.DmUuid());
  if (!mounts.has_value() || !stack.has_value() || !stack->has_value()) {
    return out;
  }
  for (const mount::MountEntry* entry : mounts->Of((*stack)->number())) {
    out.push_back(entry->target);
  }
  if (const auto published = node.Published(*mounts, **stack); published.has_value()) {
    for (const mount::MountEntry* entry : *published) {
      out.push_back(entry->target);
    }
  }
  return out;
}

std::string_view DiskConditionName(DiskCondition condition) {
  switch (condition) {
    case DiskCondition::kOk:
      return "ok";
    case DiskCondition::kMissing:
      return "missing";
    case DiskCondition::kReturned:
      return "returned";
    case DiskCondition::kToBeVacated:
      return "leaving";
    case DiskCondition::kFailing:
      return "failing";
    case DiskCondition::kWorn:
      return "worn";
  }
  return "";
}

Result<std::vector<PoolFigures>> Lifecycle::Pools(const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  const auto catalogs = parts_.node.LookAtAll(kPatience, call);
  std::vector<PoolFigures> out;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    out.push_back(FiguresOf(parts_, *parts_.node.pools[i], catalogs[i]));
  }
  return out;
}

Result<std::vector<PoolStatus>> Lifecycle::NodeStatus(const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  const auto mounts = parts_.node.world.mount.Mounts();
  const auto catalogs = parts_.node.LookAtAll(kPatience, call);
  std::vector<PoolStatus> out;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    Pool& pool = *parts_.node.pools[i];
    const auto& catalog = catalogs[i];
    PoolStatus& status = out.emplace_back();
    status.figures = FiguresOf(parts_, pool, catalog);
    status.group = pool.config.group;
    if (!catalog.has_value()) {
      continue;
    }
    for (const lvm::PhysicalVolume& pv : (*catalog)->group->pvs) {
      status.disks.push_back(StatusOf(pv, **catalog, parts_.disks.healths.Of(pv.uuid)));
    }
    for (const Record& record : (*catalog)->records) {
      if (record.tags.state == lvm::VolumeState::kReady) {
        const auto health = mounts.has_value() ? parts_.node.HealthOf(record, *mounts) : mounts.error();
        status.volumes.push_back(StatusOf(record, health, parts_.scrubs));
        status.volumes.back().used_at = UsedAt(parts_.node, record, mounts);
      }
    }
    std::ranges::sort(status.volumes, {}, &VolumeStatus::name);
    status.largest = LargestOfTypes(parts_, pool, **catalog);
    status.stores = StoresOf(parts_, pool, **catalog);
  }
  return out;
}

Result<ListResult> Volumes::List(uint32_t max_entries, const std::string& token, const Call& call,
                                 Show show) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(CheckToken(token, "ListVolumes"));
  QUARRY_ASSIGN(const auto catalogs, AllCatalogs(parts_, call));
  ListResult page;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    QUARRY_ASSIGN(std::vector<Volume> volumes,
                  VolumesOf(parts_, parts_.node.pools[i]->config, *catalogs[i], show, realm_));
    std::ranges::move(volumes, std::back_inserter(page.volumes));
  }
  page.next_token = TakePage(page.volumes, token, max_entries);
  return page;
}

Result<std::vector<std::shared_ptr<const Catalog>>> AllCatalogs(Parts& parts, const Call& call) {
  for (const auto& pool : parts.node.pools) {
    QUARRY_TRY(pool->gate.Wait(call));
  }
  std::vector<std::shared_ptr<const Catalog>> out;
  for (auto& catalog : parts.node.LookAtAll(kListPatience, call)) {
    if (!catalog.has_value()) {
      QUARRY_TRY(call.Check("listing"));
      return std::move(catalog.error()).As(Code::kUnavailable).Context("a list needs every pool");
    }
    out.push_back(std::move(*catalog));
  }
  return out;
}

Result<Volume> Volumes::Get(const std::string& id, const Call& call, Show show) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto foreign, parts_.node.FindForeign(id, call));
  if (foreign.has_value() && foreign->pool->config.list_foreign) {
    return DescribeForeign(foreign->record);
  }
  QUARRY_ASSIGN(const auto found, parts_.node.GetForController(id, call, realm_));
  Volume volume = Describe(found.record);
  if (show != Show::kFacts) {
    QUARRY_ASSIGN(const mount::MountTable mounts, parts_.node.world.mount.Mounts());
    QUARRY_ASSIGN(volume.health, parts_.node.HealthOf(found.record, mounts));
  }
  return volume;
}

}  // namespace quarry::engine
