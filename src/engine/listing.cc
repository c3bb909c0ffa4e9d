// What there is, and how it is.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "engine/foreign.h"
#include "engine/health.h"
#include "engine/leaving.h"
#include "engine/sizing.h"
#include "engine/trouble.h"
#include "engine/volume_steps.h"

namespace quarry::engine {
namespace {

using lvm::VolumeType;
using std::chrono::milliseconds;

// Monitoring asks every 15 s or so and gives up after 10.
constexpr milliseconds kPatience{5000};
// A report of LVM's waits for whoever changes the group.
constexpr milliseconds kListPatience{20'000};

// One profile for each type, with its defaults: what a StorageClass that names nothing but the type gets.
constexpr std::array kTypes = {VolumeType::kLinear, VolumeType::kStriped, VolumeType::kRaid0,
                               VolumeType::kRaid1,  VolumeType::kRaid4,   VolumeType::kRaid5,
                               VolumeType::kRaid6,  VolumeType::kRaid10};

// Nobody asked us to look after them.
Health ForeignHealth() {
  return {{}, "not Quarry's: not looked after"};
}

// One volume of which the kernel says nothing hides none of the others.
Health HealthUnknown(const Error& error) {
  return {{}, error.message()};
}

// What a list shows of one pool, in no particular order.
Result<std::vector<Volume>> VolumesOf(Engine::State& state, const PoolConfig& pool, const Catalog& catalog,
                                      Show show) {
  std::optional<mount::MountTable> mounts;
  if (show != Show::kFacts) {
    QUARRY_ASSIGN(mounts, state.world.mount.Mounts());
  }
  std::vector<Volume> volumes;
  for (const Record& record : catalog.records) {
    if (record.tags.state != lvm::VolumeState::kReady || record.tags.ephemeral) {
      continue;
    }
    std::optional<Health> health;
    if (mounts.has_value()) {
      auto known = state.HealthOf(record, *mounts);
      health = known.has_value() ? std::move(*known) : HealthUnknown(known.error());
    }
    if (show != Show::kAiling || !health->ailments.empty()) {
      volumes.push_back(Describe(record));
      volumes.back().health = std::move(health);
    }
  }
  if (pool.list_foreign && show != Show::kAiling) {
    for (Volume& volume : ForeignVolumes(pool.name, catalog)) {
      volume.health = ForeignHealth();
      volumes.push_back(std::move(volume));
    }
  }
  return volumes;
}

PoolFigures FiguresOf(const Catalog& catalog) {
  const lvm::VolumeGroup& group = *catalog.group;
  PoolFigures out;
  out.size = ToBytes(group.extent_count, group.extent_size);
  out.free = ToBytes(group.free_count, group.extent_size);
  out.missing_disks = group.MissingPvs();
  out.failing_disks = static_cast<size_t>(std::ranges::count_if(
      group.pvs, [&](const lvm::PhysicalVolume& pv) { return catalog.weak.failing.contains(pv.uuid); }));
  for (const Record& record : catalog.records) {
    if (record.tags.state == lvm::VolumeState::kReady) {
      ++out.volumes;
    } else if (record.tags.state == lvm::VolumeState::kErasing) {
      for (const lvm::PhysicalRange& range : lvm::PhysicalExtents(group, *record.lv)) {
        out.erase_pending = out.erase_pending + ToBytes(range.range.count, group.extent_size);
      }
    }
  }
  return out;
}

// `catalog`: or why there is none.
PoolFigures FiguresOf(const Engine::State& state, Pool& pool,
                      const Result<std::shared_ptr<const Catalog>>& catalog) {
  const auto trouble = TroubleOf(state, pool, catalog.has_value() ? Ok() : Status(catalog.error()));
  PoolFigures figures = trouble.has_value() ? PoolFigures() : FiguresOf(**catalog);
  figures.pool = pool.config.name;
  figures.problem = trouble.has_value() ? trouble->error.message() : "";
  return figures;
}

// It is back, but device-mapper still holds what was pulled.
Ailment DiskNotReopened(const Record& record) {
  return {HasRedundancy(*record.lv) ? Problem::kDegraded : Problem::kInaccessible, "DiskReturned",
          "a disk of it was pulled and is back; the kernel is about to open it anew"};
}

DiskStatus StatusOf(const lvm::PhysicalVolume& pv, const Catalog& catalog,
                    const std::optional<DiskHealths::Known>& known) {
  const Bytes extent_size = catalog.group->extent_size;
  DiskStatus status{.pv_uuid = pv.uuid,
                    .device = pv.device,
                    .state = !pv.missing         ? "ok"
                             : pv.device.empty() ? "missing"
                                                 : "returned",
                    .size = ToBytes(pv.extent_count, extent_size),
                    .free = ToBytes(pv.extent_count - UsedOn(pv), extent_size),
                    .detail = ""};
  if (known.has_value()) {
    status.health = known->health;
  }
  for (const auto& [disks, state] : {std::pair(&catalog.weak.failing, DiskState::kFailing),
                                     std::pair(&catalog.weak.worn, DiskState::kWorn)}) {
    if (const auto weak = disks->find(pv.uuid); weak != disks->end()) {
      status.detail = weak->second;
      status.state = pv.missing ? status.state : std::string(DiskStateName(state));
    }
  }
  if (!pv.missing && IsLeaving(pv)) {
    status.state = "leaving";
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
          .scrub_pending = scrubs.IsPending(record.tags.id)};
}

std::map<lvm::VolumeType, Bytes> LargestOfTypes(Engine::State& state, const Pool& pool,
                                                const Catalog& catalog) {
  std::map<lvm::VolumeType, Bytes> out;
  for (const VolumeType type : kTypes) {
    const auto profile = Profile::Parse({{"type", std::string(lvm::TypeName(type))}}, pool.config.name);
    if (profile.has_value()) {
      const bool possible = CheckTarget(state.world.dm, profile->geometry).has_value();
      out[type] = possible ? CapacityIn(catalog, pool.config, profile->geometry, Bytes{}).available : Bytes{};
    }
  }
  return out;
}

}  // namespace

Result<RaidWord> Engine::State::RaidOf(const Record& record) {
  if (!record.lv->segment_type.starts_with("raid")) {
    return RaidWord();
  }
  auto asked = world.dm.Raid(record.DmUuid());
  if (asked.has_value()) {
    return RaidWord{std::move(*asked), ""};
  }
  if (asked.error().code() == Code::kCorrupt) {
    return RaidWord{std::nullopt, asked.error().message()};
  }
  return std::move(asked.error());
}

Result<Health> Engine::State::HealthOf(const Record& record, const mount::MountTable& mounts) {
  QUARRY_ASSIGN(const RaidWord raid, RaidOf(record));
  return HealthOf(record, raid, mounts);
}

Result<Health> Engine::State::HealthOf(const Record& record, const RaidWord& raid,
                                       const mount::MountTable& mounts) {
  std::vector<const mount::MountEntry*> own;
  if (AnyGoneReadOnly(mounts)) {  // hardly ever: the device need not be looked for
    QUARRY_ASSIGN(const auto device, world.dm.Find(record.DmUuid()));
    if (device.has_value()) {
      own = mounts.Of({device->major, device->minor});
    }
  }
  Health health = Diagnose(record, raid.status, own);
  if (!raid.riddle.empty()) {
    health.note = raid.riddle;
  }
  if (auto failing = DiskFailing(record, *disk_healths.Weak()); failing.has_value()) {
    health.ailments.push_back(std::move(*failing));
  }
  if (auto doubt = doubts.Of(record.tags.id); doubt.has_value() && !raid.status.has_value()) {
    health.ailments.insert(health.ailments.begin(),
                           {Problem::kInaccessible, "LegsInDoubt", std::move(*doubt)});
  }
  if (health.ailments.empty() && lost_in_kernel.Has(record.tags.id)) {
    health.ailments.push_back(DiskNotReopened(record));
  }
  return health;
}

Result<std::vector<PoolFigures>> Engine::Pools(const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  const auto catalogs = state_->LookAtAll(kPatience, call);
  std::vector<PoolFigures> out;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    out.push_back(FiguresOf(*state_, *state_->pools[i], catalogs[i]));
  }
  return out;
}

Result<std::vector<PoolStatus>> Engine::NodeStatus(const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  const auto mounts = state_->world.mount.Mounts();
  const auto catalogs = state_->LookAtAll(kPatience, call);
  std::vector<PoolStatus> out;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    Pool& pool = *state_->pools[i];
    const auto& catalog = catalogs[i];
    PoolStatus& status = out.emplace_back();
    status.figures = FiguresOf(*state_, pool, catalog);
    status.group = pool.config.group;
    if (!catalog.has_value()) {
      continue;
    }
    for (const lvm::PhysicalVolume& pv : (*catalog)->group->pvs) {
      status.disks.push_back(StatusOf(pv, **catalog, state_->disk_healths.Of(pv.uuid)));
    }
    for (const Record& record : (*catalog)->records) {
      if (record.tags.state == lvm::VolumeState::kReady) {
        const auto health = mounts.has_value() ? state_->HealthOf(record, *mounts) : mounts.error();
        status.volumes.push_back(StatusOf(record, health, state_->scrubs));
      }
    }
    std::ranges::sort(status.volumes, {}, &VolumeStatus::name);
    status.largest = LargestOfTypes(*state_, pool, **catalog);
  }
  return out;
}

Result<ListResult> Engine::List(uint32_t max_entries, const std::string& token, const Call& call, Show show) {
  // A token is the last id that was listed: it stays good whatever comes and goes in between.
  constexpr std::string_view kTokenPrefix = "after:";
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  if (!token.empty() &&
      (!token.starts_with(kTokenPrefix) ||
       !lvm::ParseVolumeId(std::string_view(token).substr(kTokenPrefix.size())).has_value())) {
    return Error(Code::kStaleToken, "starting_token: is not one that ListVolumes returned");
  }
  std::vector<Volume> all;
  for (const auto& pool : state_->pools) {
    QUARRY_TRY(pool->gate.Wait(call));
  }
  auto catalogs = state_->LookAtAll(kListPatience, call);
  for (size_t i = 0; i < catalogs.size(); ++i) {
    if (!catalogs[i].has_value()) {
      QUARRY_TRY(call.Check("listing volumes"));
      return std::move(catalogs[i].error()).As(Code::kUnavailable).Context("no list without every pool");
    }
    QUARRY_ASSIGN(std::vector<Volume> volumes,
                  VolumesOf(*state_, state_->pools[i]->config, **catalogs[i], show));
    std::ranges::move(volumes, std::back_inserter(all));
  }
  std::sort(all.begin(), all.end(), [](const Volume& a, const Volume& b) { return a.id < b.id; });
  const std::string after = token.empty() ? "" : token.substr(kTokenPrefix.size());
  const auto first = std::upper_bound(all.begin(), all.end(), after,
                                      [](const std::string& id, const Volume& v) { return id < v.id; });
  ListResult page{{first, all.end()}, ""};
  if (max_entries > 0 && page.volumes.size() > max_entries) {
    page.volumes.resize(max_entries);
    page.next_token = fmt::format("{}{}", kTokenPrefix, page.volumes.back().id);
  }
  return page;
}

Result<Volume> Engine::Get(const std::string& id, const Call& call, Show show) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const auto foreign, state_->FindForeign(id, call));
  if (foreign.has_value() && foreign->pool->config.list_foreign) {
    Volume volume = DescribeForeign(foreign->record);
    volume.health = ForeignHealth();
    return volume;
  }
  QUARRY_ASSIGN(const auto found, state_->GetForController(id, call));
  Volume volume = Describe(found.record);
  if (show != Show::kFacts) {
    QUARRY_ASSIGN(const mount::MountTable mounts, state_->world.mount.Mounts());
    QUARRY_ASSIGN(volume.health, state_->HealthOf(found.record, mounts));
  }
  return volume;
}

}  // namespace quarry::engine
