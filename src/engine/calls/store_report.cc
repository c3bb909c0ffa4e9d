// Thin stores as people and monitoring see them. Nothing here changes a store, but a look at the mappings
// reserves its metadata snapshot, so it takes the turn.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/calls/steps.h"
#include "engine/lifecycle.h"
#include "engine/model/store_ladder.h"
#include "engine/model/thin_space.h"
#include "engine/model/volume_health.h"
#include "engine/plan/pool_queue.h"
#include "engine/plan/start_store.h"
#include "engine/plan/thin_capacity.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookPatience{10'000};
// The question waits for the turn no longer than this: changes may be stuck behind a silent disk, and the
// other figures are known.
constexpr milliseconds kTurnPatience{30'000};
// While the mappings of a store are read, no volume of the pool can be made, grown or deleted.
constexpr milliseconds kLongestHold{10'000};
// Blocks of a pool's metadata, as the kernel counts them.
constexpr Bytes kMetadataBlock{4096};

StoreMode ModeOf(const lvm::LogicalVolume& pool, const dm::ThinPoolStatus& status) {
  using Mode = dm::ThinPoolStatus::Mode;
  if (status.mode == Mode::kFailed) {
    return StoreMode::kFailed;
  }
  if (status.needs_check) {
    return StoreMode::kNeedsCheck;
  }
  if (status.mode == Mode::kReadOnly) {
    return StoreMode::kReadOnly;
  }
  if (status.mode == Mode::kOutOfDataSpace) {
    return StoreMode::kOutOfSpace;
  }
  return pool.segments.front().thin_pool->zeroes_chunks ? StoreMode::kReadWrite : StoreMode::kNotZeroing;
}

// What the kernel says of the store.
void AskKernel(const Catalog& catalog, const Store& store, const StoreConfig& rules, bool overcommits,
               dm::DmApi& dm, const StoreErrors& errors, const std::optional<StoreTroubles::Trouble>& trouble,
               StoreStatus& out) {
  const lvm::VolumeGroup& group = *catalog.group;
  const auto asked = dm.ThinPool(lvm::DmUuid(group.uuid, store.lv->uuid));
  if (!asked.has_value()) {
    out.mode = StoreMode::kUnknown;
    out.problem = asked.error().message();
    return;
  }
  if (!asked->has_value()) {
    using lvm::PoolRefusal;
    const PoolRefusal refusal = trouble.has_value() ? trouble->refusal : PoolRefusal::kOther;
    out.mode = refusal == PoolRefusal::kDamaged    ? StoreMode::kDamaged
               : refusal == PoolRefusal::kMismatch ? StoreMode::kMismatch
                                                   : StoreMode::kNotStarted;
    out.problem = trouble.has_value() ? trouble->words : "";
    return;
  }
  const dm::ThinPoolStatus& status = **asked;
  out.mode = ModeOf(*store.lv, status);
  if (out.mode != StoreMode::kFailed) {
    out.use = StoreUse{.data = {status.data_used * store.chunk().value},
                       .metadata = {status.metadata_used * kMetadataBlock.value},
                       .metadata_size = {status.metadata_total * kMetadataBlock.value}};
  }
  if (out.mode == StoreMode::kReadWrite) {
    const StoreFill fill = FillOf(rules, overcommits, status);
    const Status finished = CheckFinished(group, *store.lv, status.transaction_id);
    out.problem = finished.has_value() ? errors.change : finished.error().message();
    if (fill != StoreFill::kAmple && finished.has_value()) {
      out.mode = fill == StoreFill::kFilling ? StoreMode::kFilling : StoreMode::kNearlyFull;
      out.problem = fmt::format(
          "thin store {}/{} is overcommitted and fills up: delete or trim volumes, or let it grow "
          "(max=…){}{}",
          group.name, store.lv->name, errors.change.empty() ? "" : ". ", errors.change);
    }
  } else if (out.mode == StoreMode::kOutOfSpace) {
    out.problem = fmt::format(
        "thin store {}/{} is full, so writes that need space fail. {}", group.name, store.lv->name,
        overcommits ? "It is overcommitted: delete volumes or snapshots, or let it grow (max=…)"
                    : "Volumes of Quarry alone cannot fill it: look for others in it, and remove them");
  } else if (const auto healthy = HealthyPool(group, *store.lv, dm); !healthy.has_value()) {
    out.problem = healthy.error().message();
  }
}

// Of this part: how many legs it has, and how many of them do not have all that they should have.
void CountLegs(const Record& part, const std::optional<dm::RaidStatus>& raid, StoreStatus& out) {
  std::vector<bool> bad = lvm::LostLegs(*part.group, *part.lv);
  out.legs += bad.size();
  if (raid.has_value()) {
    const bool rebuilds = raid->action == "recover";
    for (size_t i = 0; i < std::min(bad.size(), raid->legs.size()); ++i) {
      const char leg = raid->legs[i];
      bad[i] = bad[i] || leg == 'D' || leg == '-' || (rebuilds && leg == 'a');
    }
  }
  out.degraded_legs += static_cast<size_t>(std::ranges::count(bad, true));
}

// The health of data and metadata, as that of one volume. The device of a store is mounted nowhere.
void LookAtLegs(Node& node, const Scrubs& scrubs, const Catalog& catalog, const Store& store,
                StoreStatus& out) {
  Health health;
  for (const Record& part : catalog.parts) {
    if (catalog.StoreOfPart(part) != &store) {
      continue;
    }
    const auto raid = node.RaidOf(part);
    CountLegs(part, raid.has_value() ? raid->status : std::nullopt, out);
    if (HasRedundancy(*part.lv)) {
      out.parts.push_back({.id = part.tags.id,
                           .is_metadata = part.lv == store.metadata,
                           .scrubbed = ReadScrub(part.tags.scrubbed),
                           .scrub_pending = scrubs.IsPending(part.tags.id)});
    }
    auto of_part = raid.has_value() ? node.HealthOf(part, *raid, mount::MountTable({})) : raid.error();
    if (!of_part.has_value()) {
      out.condition = "unknown";
      out.detail = of_part.error().message();
      return;
    }
    const char* const which = part.lv == store.data ? "data" : "metadata";
    for (Ailment& ailment : of_part->ailments) {
      ailment.message = fmt::format("{}: {}", which, ailment.message);
      health.ailments.push_back(std::move(ailment));
    }
    if (health.note.empty() && !of_part->note.empty()) {
      health.note = fmt::format("{}: {}", which, of_part->note);
    }
    health.percent = health.percent.has_value() ? health.percent : of_part->percent;
  }
  out.condition = ConditionWord(health);
  std::vector<std::string> words;
  std::ranges::transform(health.ailments, std::back_inserter(words), &Ailment::message);
  out.detail = words.empty() ? health.note : fmt::format("{}", fmt::join(words, "; "));
  out.percent = health.percent;
}

StoreStatus StatusOf(Parts& parts, const PoolConfig& pool, const Catalog& catalog, const Store& store,
                     const StoreErrors& errors) {
  StoreStatus out{.name = store.name(), .id = store.tags.id, .lv_name = store.lv->name};
  const auto geometry = GeometryOfPart(*store.data);
  out.layout = geometry.has_value() ? geometry->Describe() : store.data->segment_type;
  out.chunk = store.chunk();
  out.size = store.data->size;
  const StoreTerms terms = TermsOf(store, pool);
  out.promised = SpaceOf(catalog, store, terms).promised;
  out.promisable = terms.promisable();
  const StoreConfig rules = RulesOf(pool, store);
  out.most = rules.most;
  out.volumes = static_cast<size_t>(std::ranges::count_if(catalog.records, [&](const Record& record) {
    return record.lv->pool == store.lv->name && record.tags.state == lvm::VolumeState::kReady;
  }));
  AskKernel(catalog, store, rules, Overcommits(catalog, pool, store), parts.node.world.dm, errors,
            parts.node.store_troubles.Of(store.tags.id), out);
  const Profile profile{
      .pool = pool.name, .thin = true, .store = store.name(), .geometry = *lvm::Geometry::Make({})};
  CapacityResult capacity = ThinCapacityIn(catalog, pool, profile, Bytes{}, parts.node.world.dm);
  out.free = capacity.available;
  out.full = std::move(capacity.reason);
  LookAtLegs(parts.node, parts.scrubs, catalog, store, out);
  return out;
}

StoreStatus Absent(const Catalog& catalog, const StoreConfig& wanted, const StoreErrors& errors) {
  StoreStatus out{.name = wanted.name, .mode = StoreMode::kNotMade, .problem = errors.change};
  out.layout = wanted.geometry.Describe();
  out.chunk = wanted.chunk;
  out.size = wanted.size;
  const auto unreadable = std::ranges::find_if(
      catalog.unreadable, [&](const Unreadable& one) { return lvm::BearsName(one.lv->tags, wanted.name); });
  if (unreadable != catalog.unreadable.end()) {
    out.mode = StoreMode::kUnreadable;
    out.problem = unreadable->why;
    out.lv_name = unreadable->lv->name;
  }
  return out;
}

std::string KindOf(const Record& record) {
  switch (record.tags.state) {
    case lvm::VolumeState::kCreating:
      return "half-made";
    case lvm::VolumeState::kErasing:
      return "erasing";
    case lvm::VolumeState::kReady:
      break;
  }
  return record.tags.snapshot ? "snapshot" : "volume";
}

// Every logical volume in the store, whoever made it.
std::vector<StoreVolume> VolumesIn(const Catalog& catalog, const Store& store) {
  std::vector<StoreVolume> out;
  for (const lvm::LogicalVolume& lv : catalog.group->lvs) {
    if (lv.pool != store.lv->name) {
      continue;
    }
    StoreVolume& volume = out.emplace_back(
        StoreVolume{.kind = "unmanaged", .id = "", .name = "", .lv_name = lv.name, .size = lv.size});
    const auto record = std::ranges::find(catalog.records, &lv, &Record::lv);
    if (record != catalog.records.end()) {
      volume.kind = KindOf(*record);
      volume.id = record->tags.id;
      volume.name = record->tags.co_name;
    }
  }
  std::ranges::sort(out, {}, &StoreVolume::lv_name);
  return out;
}

void SetBytes(const Catalog& catalog, const std::map<uint32_t, Bytes>& bytes,
              std::optional<Bytes> StoreVolume::* of, std::vector<StoreVolume>& volumes) {
  for (StoreVolume& volume : volumes) {
    const lvm::LogicalVolume& lv = *catalog.group->FindLv(volume.lv_name);
    const auto found = lv.segments.front().thin_volume.has_value()
                           ? bytes.find(lv.segments.front().thin_volume->device_id)
                           : bytes.end();
    if (found != bytes.end()) {
      volume.*of = found->second;
    }
  }
}

std::vector<uint32_t> DevicesOf(const Catalog& catalog, const Store& store) {
  std::vector<uint32_t> out;
  for (const lvm::LogicalVolume& lv : catalog.group->lvs) {
    if (lv.pool == store.lv->name && lv.segments.front().thin_volume.has_value()) {
      out.push_back(lv.segments.front().thin_volume->device_id);
    }
  }
  return out;
}

// Reads from the metadata how much of the store each volume has. `out` has the volumes of this moment
// afterwards, also if their bytes could not be read.
Status ReadMappings(Parts& parts, Pool& pool, const std::string& uuid, bool exclusive, StoreDetail& out,
                    const Call& call) {
  const World& world = parts.node.world;
  QUARRY_ASSIGN(const auto turn, pool.writers.Wait(fmt::format("looking at thin store '{}'", out.store.name),
                                                   call.Within(kTurnPatience)));
  QUARRY_ASSIGN(const auto catalog, parts.node.Read(pool, call));
  const auto store = std::ranges::find(catalog->stores, uuid, [](const Store& one) { return one.lv->uuid; });
  if (store == catalog->stores.end()) {
    return Error(Code::kUnavailable, "another process has changed or removed the store: try again");
  }
  out.volumes = VolumesIn(*catalog, *store);
  const lvm::VolumeGroup& group = *catalog->group;
  QUARRY_TRY(HealthyPool(group, *store->lv, world.dm));
  QUARRY_ASSIGN(const auto hold, MetadataHold::Begin(group, *store->lv, world.dm));
  const Call limited = call.Within(kLongestHold);
  const std::vector<uint32_t> devices = DevicesOf(*catalog, *store);
  QUARRY_ASSIGN(const auto mapped, world.thin.MappedBytes(hold.device(), devices, limited));
  SetBytes(*catalog, mapped, &StoreVolume::mapped, out.volumes);
  if (exclusive) {
    auto counted = world.thin.ExclusiveBytes(hold.device(), devices, limited);
    if (!counted.has_value() && counted.error().code() == Code::kTimeout) {
      return Error(Code::kTimeout,
                   fmt::format("the store has too many mappings to read them all within {} s, for which its "
                               "pool can change no volume",
                               std::chrono::duration_cast<std::chrono::seconds>(kLongestHold).count()));
    }
    QUARRY_TRY(counted);
    SetBytes(*catalog, *counted, &StoreVolume::exclusive, out.volumes);
  }
  return hold.Check();
}

}  // namespace

Result<FoundStore> FindStoreNamed(Parts& parts, const std::string& pool_name, const std::string& wanted,
                                  const Call& call) {
  if (!pool_name.empty() && std::ranges::none_of(parts.node.pools, [&](const auto& pool) {
        return pool->config.name == pool_name;
      })) {
    return Error(Code::kInvalidArgument, fmt::format("pool: no pool '{}' is configured", pool_name));
  }
  std::vector<FoundStore> found;
  std::vector<std::string> known;
  std::optional<Error> unread;
  const auto catalogs = parts.node.LookAtAll(kLookPatience, call);
  for (size_t i = 0; i < catalogs.size(); ++i) {
    Pool& pool = *parts.node.pools[i];
    if (!pool_name.empty() && pool.config.name != pool_name) {
      continue;
    }
    if (!catalogs[i].has_value()) {
      unread = catalogs[i].error();
      continue;
    }
    for (StoreStatus& status : StoresOf(parts, pool, **catalogs[i])) {
      known.push_back(fmt::format("{}/{}", pool.config.name, status.name));
      if (status.name == wanted || (!status.id.empty() && status.id == wanted)) {
        found.push_back({&pool, *catalogs[i], std::move(status)});
      }
    }
  }
  if (found.size() == 1) {
    return std::move(found.front());
  }
  if (found.size() > 1) {
    return Error(Code::kInvalidArgument,
                 fmt::format("pool: several pools have a thin store '{}': name one of {}", wanted,
                             fmt::join(known, ", ")));
  }
  if (unread.has_value()) {
    return Error(Code::kUnavailable, fmt::format("store: no pool that can be read has a thin store '{}'; {}",
                                                 wanted, unread->message()));
  }
  return Error(Code::kNotFound, known.empty()
                                    ? fmt::format("store: there is no thin store '{}', and no other: the "
                                                  "configuration of a pool makes them (store.NAME)",
                                                  wanted)
                                    : fmt::format("store: there is no thin store '{}', but {}", wanted,
                                                  fmt::join(known, ", ")));
}

std::string_view StoreModeName(StoreMode mode) {
  switch (mode) {
    case StoreMode::kReadWrite:
      return "rw";
    case StoreMode::kFilling:
      return "filling";
    case StoreMode::kNearlyFull:
      return "nearly-full";
    case StoreMode::kOutOfSpace:
      return "out-of-space";
    case StoreMode::kReadOnly:
      return "read-only";
    case StoreMode::kFailed:
      return "failed";
    case StoreMode::kNeedsCheck:
      return "needs-check";
    case StoreMode::kNotZeroing:
      return "not-zeroing";
    case StoreMode::kNotStarted:
      return "not-started";
    case StoreMode::kDamaged:
      return "damaged";
    case StoreMode::kMismatch:
      return "mismatch";
    case StoreMode::kNotMade:
      return "not-made";
    case StoreMode::kUnreadable:
      return "unreadable";
    case StoreMode::kUnknown:
      return "unknown";
  }
  return "";
}

std::vector<StoreStatus> StoresOf(Parts& parts, Pool& pool, const Catalog& catalog) {
  std::map<std::string, StoreErrors> errors;
  std::map<std::string, FillTrend> trends;
  {
    const MutexLock lock(pool.catalog_mutex);
    errors = pool.store_errors;
    trends = pool.store_trends;
  }
  std::vector<StoreStatus> out;
  for (const Store& store : catalog.stores) {
    out.push_back(StatusOf(parts, pool.config, catalog, store, errors[store.name()]));
    out.back().full_in = trends[store.name()].TimeToFull(store.data->size);
  }
  for (const StoreConfig& wanted : pool.config.stores) {
    if (std::ranges::find(out, wanted.name, &StoreStatus::name) == out.end()) {
      out.push_back(Absent(catalog, wanted, errors[wanted.name]));
    }
  }
  std::ranges::sort(out, {}, &StoreStatus::name);
  return out;
}

Result<StoreDetail> Lifecycle::ShowStore(const std::string& pool, const std::string& store, bool exclusive,
                                         const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(FoundStore found, FindStoreNamed(parts_, pool, store, call));
  StoreDetail out{.pool = found.pool->config.name,
                  .group = found.pool->config.group,
                  .store = std::move(found.status),
                  .volumes = {},
                  .unknown = ""};
  const auto made = std::ranges::find(found.catalog->stores, out.store.lv_name,
                                      [](const Store& one) { return one.lv->name; });
  if (made == found.catalog->stores.end()) {
    return out;
  }
  out.volumes = VolumesIn(*found.catalog, *made);
  if (const Status read = ReadMappings(parts_, *found.pool, made->lv->uuid, exclusive, out, call);
      !read.has_value()) {
    QUARRY_TRY(call.Check("looking at a thin store"));
    out.unknown = read.error().message();
  }
  return out;
}

}  // namespace quarry::engine
