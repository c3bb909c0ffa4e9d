// Repairs of thin stores that an administrator asks for. quarryd itself only stops and starts a store that no
// volume uses (repair/plan_repair.cc), which is what a reboot would do.
//
// The order of the steps is what makes a repair survive a kill.
//
// 1. New metadata are made with a tag that has the LV UUID of those that they are to replace. As long as a
//    volume has this tag, it was never in use, and the next start removes it.
// 2. The store gets a tag with that UUID, and the new metadata lose theirs. From here on nothing removes
//    either metadata by itself, even if an administrator exchanges them back.
// 3. LVM exchanges the two in one commit.
// 4. The former metadata lose the tags of Quarry's that they have, so no start takes them for something half
//    made, and then the store loses its tag.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/calls/steps.h"
#include "engine/model/sizing.h"
#include "engine/model/store_metadata.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/start_store.h"
#include "engine/plan/stop_store.h"
#include "engine/upkeep.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTurnPatience{60'000};
constexpr milliseconds kUndoLimit{120'000};

std::string PathOf(const Catalog& catalog, const Store& store) {
  return fmt::format("{}/{}", catalog.group->name, store.lv->name);
}

// The volumes of the store that something uses, with where they are used.
Result<std::vector<std::string>> UsersOf(Parts& parts, const Catalog& catalog, const Store& store) {
  const auto mounts = parts.node.world.mount.Mounts();
  for (const Record& record : catalog.records) {
    if (record.lv->pool == store.lv->name) {
      QUARRY_TRY(parts.node.DropIdleHold(record));
    }
  }
  QUARRY_ASSIGN(const auto open, OpenVolumesIn(*catalog.group, *store.lv, parts.node.world.dm));
  std::vector<std::string> out;
  for (const lvm::LogicalVolume* const lv : open) {
    const auto record = std::ranges::find(catalog.records, lv, &Record::lv);
    if (record == catalog.records.end()) {
      out.push_back(fmt::format("{}/{}", catalog.group->name, lv->name));
      continue;
    }
    const std::vector<std::string> where = UsedAt(parts.node, *record, mounts);
    out.push_back(where.empty() ? InWords(*record)
                                : fmt::format("{} (at {})", InWords(*record), fmt::join(where, ", ")));
  }
  return out;
}

// No call may begin to use a volume of the store meanwhile.
Result<std::vector<KeyLocks::Guard>> LockAll(Parts& parts, const Catalog& catalog, const Store& store) {
  const std::string what = fmt::format("repair of thin store {}", store.name());
  std::vector<KeyLocks::Guard> out;
  QUARRY_ASSIGN(KeyLocks::Guard own, parts.node.locks.TryLock(LockKey::Volume(store.tags.id), what));
  out.push_back(std::move(own));
  for (const Record& record : catalog.records) {
    if (record.lv->pool == store.lv->name && !record.tags.id.empty()) {
      QUARRY_ASSIGN(KeyLocks::Guard guard, parts.node.locks.TryLock(LockKeyOf(record), what));
      out.push_back(std::move(guard));
    }
  }
  return out;
}

const Store* Find(const Catalog& catalog, const std::string& id) {
  const auto found = std::ranges::find(catalog.stores, id, [](const Store& one) { return one.tags.id; });
  return found == catalog.stores.end() ? nullptr : &*found;
}

// The volumes that were made to become the store's metadata.
std::vector<const lvm::LogicalVolume*> MadeFor(const lvm::VolumeGroup& group, const Store& store) {
  std::vector<const lvm::LogicalVolume*> out;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (!lv.hidden && lvm::Replaces(lv.tags) == store.metadata->uuid &&
        lvm::KeptMetadataNameIn(lv.name, store.lv->name) == lv.name) {
      out.push_back(&lv);
    }
  }
  return out;
}

// Tags of the store that are about the legs of its former metadata.
std::vector<std::string> TagsOfFormer(const Store& store) {
  std::vector<std::string> out;
  if (store.tags.overruled_metadata > 0) {
    out.push_back(lvm::OverruledMetadataTag(store.tags.overruled_metadata));
  }
  if (!store.tags.scrubbed_metadata.empty()) {
    out.push_back(lvm::ScrubbedMetadataTag(store.tags.scrubbed_metadata));
  }
  return out;
}

// One repair, under the turn.
class StoreRepair {
 public:
  StoreRepair(Parts& parts, Pool& pool, const Call& call, StoreRepairAnswer& answer)
      : parts_(parts), pool_(pool), call_(call), answer_(answer) {}

  // Writes and activates nothing if `dry_run`.
  Status Run(const Catalog& catalog, const Store& store, bool dry_run) {
    const lvm::VolumeGroup& group = *catalog.group;
    const World& world = parts_.node.world;
    QUARRY_ASSIGN(const auto running, world.dm.ThinPool(lvm::DmUuid(group.uuid, store.lv->uuid)));
    QUARRY_ASSIGN(const std::string why, WhyRestart(group, *store.lv, world.dm));
    if (running.has_value() && why.empty()) {
      answer_.found = "it is started, and the kernel reports nothing that a repair would mend";
      return Ok();
    }
    QUARRY_TRY(CheckForm(catalog, store));
    QUARRY_TRY(world.thin_repair.Ready());
    QUARRY_ASSIGN(const auto users, UsersOf(parts_, catalog, store));
    if (!users.empty()) {
      return Error(
          Code::kPrecondition,
          fmt::format("thin store {} {}, and volumes in it are in use: {}. Unmount or unpublish them",
                      PathOf(catalog, store), why.empty() ? "is not started" : why, fmt::join(users, ", ")));
    }
    answer_.found = fmt::format("it {}", why.empty() ? "is not started" : why);
    if (dry_run) {
      Foretell(catalog, store, running.has_value());
      return Ok();
    }
    QUARRY_ASSIGN(const auto active, ActiveVolumesIn(group, *store.lv, world.dm));
    StoppedVolumes& stopped = parts_.node.stopped_volumes;
    std::vector<std::string> names = NamesToActivate(group, *store.lv, active, stopped.Of(store.tags.id));
    stopped.Add(store.tags.id, names);  // if it does not come to that now
    if (running.has_value()) {
      QUARRY_TRY(Do({StopStoreAction{group.name, store.lv->name, group.seqno}}));
    }
    QUARRY_TRY(Mend(catalog, store));
    if (!names.empty()) {
      QUARRY_TRY(AfterExchange(catalog, store, Do({ActivateAction{group.name, std::move(names)}})));
    }
    stopped.Forget(store.tags.id);
    return Ok();
  }

 private:
  // The two plans that give a store other metadata.
  struct Exchange {
    Plan make;  // makes and fills the new ones
    Plan use;   // begins with the tags, and ends with the start
    std::string fresh;
  };

  // What can be said before the store is stopped.
  static Status CheckForm(const Catalog& catalog, const Store& store) {
    const lvm::VolumeGroup& group = *catalog.group;
    if (group.MissingPvs() > 0) {
      return Error(
          Code::kPrecondition,
          fmt::format("a disk of volume group {} is missing: bring it back, or let `quarryctl repair` give "
                      "it up; `quarryctl repair {}` starts the store from the legs that are there",
                      group.name, store.tags.id));
    }
    QUARRY_TRY(CheckStore(group, *store.lv));
    return GeometryOfPart(*store.metadata).has_value()
               ? Ok()
               : Status(Error(Code::kPrecondition,
                              fmt::format("the metadata of thin store {} are of an unknown layout",
                                          PathOf(catalog, store))));
  }

  // A start of the metadata, even read-only, lets the kernel write superblocks. So this only says what
  // depends on what.
  void Foretell(const Catalog& catalog, const Store& store, bool running) {
    const lvm::VolumeGroup& group = *catalog.group;
    const auto trouble = parts_.node.store_troubles.Of(store.tags.id);
    if (trouble.has_value() && !running) {
      answer_.found += fmt::format(". The last attempt to start it has failed: {}", trouble->words);
    }
    if (running) {
      answer_.steps.push_back(Text(StopStoreAction{group.name, store.lv->name, group.seqno}));
    }
    answer_.steps.emplace_back("check its metadata");
    answer_.steps.push_back(
        fmt::format("{} (if they are sound)", Text(StartStoreAction{group.name, store.lv->name})));
    const std::string_view if_damaged = " (if they are not, and that provably loses nothing)";
    const auto exchange = PlanExchange(catalog, store, false);
    if (!exchange.has_value()) {
      answer_.steps.push_back(fmt::format("fail{}: {}", if_damaged, exchange.error().message()));
      return;
    }
    for (const Plan* const plan : {&exchange->make, &exchange->use}) {
      for (const Action& action : *plan) {
        answer_.steps.push_back(fmt::format("{}{}", Text(action), if_damaged));
      }
    }
  }

  // The store is stopped.
  Status Mend(const Catalog& catalog, const Store& store) {
    const lvm::VolumeGroup& group = *catalog.group;
    QUARRY_ASSIGN(const MetadataFound found, LookAtMetadata(group, *store.lv, parts_.node.world, call_));
    QUARRY_ASSIGN(MetadataVerdict verdict, JudgeMetadata(group, *store.lv, found.check, found.stored, false));
    bool lvm_refused = false;
    if (verdict == MetadataVerdict::kSound) {
      answer_.found += "; its metadata are sound";
      Status started = Do({StartStoreAction{group.name, store.lv->name}});
      parts_.node.store_troubles.Note(store.tags.id, started);
      lvm_refused =
          !started.has_value() && lvm::RefusalIn(started.error().message()) == lvm::PoolRefusal::kMismatch;
      if (!lvm_refused) {
        return started;
      }
      QUARRY_ASSIGN(verdict, JudgeMetadata(group, *store.lv, found.check, found.stored, true));
      if (verdict == MetadataVerdict::kSound) {
        return started;
      }
    }
    answer_.found +=
        verdict == MetadataVerdict::kRenumber
            ? fmt::format(
                  "; its metadata are sound, and have exactly the volumes of LVM's text, but "
                  "transaction id {} and not {}",
                  found.stored->transaction_id, store.lv->segments.front().thin_pool->transaction_id)
            : fmt::format("; its metadata are damaged: {}", found.check.error().message());
    return Replace(catalog, store, lvm_refused || verdict == MetadataVerdict::kRenumber);
  }

  Result<Exchange> PlanExchange(const Catalog& catalog, const Store& store, bool lvm_refused) const {
    const lvm::VolumeGroup& group = *catalog.group;
    const lvm::Geometry geometry = *GeometryOfPart(*store.metadata);
    const std::string fresh = FreeKeptName(group, *store.lv);
    lvm::FreeSpace space = PoolSpace(catalog, pool_.config);
    QUARRY_ASSIGN(auto placed,
                  lvm::Place(space, geometry, CeilToExtents(store.metadata->size, group.extent_size), group)
                      .Context("new metadata for the store"));
    const std::string tag = lvm::ReplacesTag(store.metadata->uuid);
    Exchange out{.fresh = fresh};
    out.make = {lvm::CreateLv{.group = group.name,
                              .name = fresh,
                              .geometry = geometry,
                              .step = placed.steps.front(),
                              .tags = {tag},
                              .max_recovery_rate = parts_.node.config.rebuild_rate.value_or(Bytes{})}};
    for (size_t i = 1; i < placed.steps.size(); ++i) {
      out.make.push_back(lvm::ExtendLv{group.name, fresh, geometry, placed.steps[i]});
    }
    out.make.push_back(
        VerifyLayoutAction{.group = group.name, .name = fresh, .placement = std::move(placed)});
    out.make.push_back(lvm::AllocateAnywhere{group.name, fresh});
    out.make.push_back(RemakeMetadataAction{group.name, store.lv->name, fresh, lvm_refused});
    out.use = {lvm::ChangeTags{group.name, store.lv->name, {lvm::KeptTag(store.metadata->uuid)}, {}},
               lvm::ChangeTags{group.name, fresh, {}, {tag}},
               lvm::SwapPoolMetadata{group.name, store.lv->name, fresh},
               ProveMetadataAction{group.name, store.lv->name, fresh, store.metadata->uuid}};
    if (std::vector<std::string> former = TagsOfFormer(store); !former.empty()) {
      out.use.push_back(lvm::ChangeTags{group.name, store.lv->name, {}, std::move(former)});
    }
    out.use.push_back(StartStoreAction{group.name, store.lv->name});
    QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(out.make)));
    return out;
  }

  // That the store still has the metadata of which the new ones were made.
  Status CheckMetadata(const Catalog& catalog, const Store& store) {
    QUARRY_ASSIGN(const auto now, parts_.node.Read(pool_, call_));
    const Store* const is = Find(*now, store.tags.id);
    return is != nullptr && is->metadata->uuid == store.metadata->uuid
               ? Ok()
               : Status(
                     Error(Code::kUnavailable,
                           fmt::format("another process has exchanged the metadata of thin store {}: look at "
                                       "it, and try again",
                                       PathOf(catalog, store))));
  }

  Status Replace(const Catalog& catalog, const Store& store, bool lvm_refused) {
    (void)parts_.erasers.Of(pool_).free_zeroing().End(call_);
    QUARRY_ASSIGN(const Exchange exchange, PlanExchange(catalog, store, lvm_refused));
    if (const Status made = Do(exchange.make); !made.has_value()) {
      Undo(CallWithin(kUndoLimit));
      return made;
    }
    Status used = CheckMetadata(catalog, store);
    if (used.has_value()) {
      used = Do(exchange.use);
    }
    parts_.node.store_troubles.Note(store.tags.id, used);
    const Call after = used.has_value() ? call_ : CallWithin(kUndoLimit);
    auto now = parts_.node.Read(pool_, after);
    if (!now.has_value()) {
      return (used.has_value() ? Status(now.error()) : std::move(used))
          .Context(
              fmt::format("thin store {}: its metadata may have been exchanged; then {}/{} has the former "
                          "ones",
                          PathOf(catalog, store), catalog.group->name, exchange.fresh));
    }
    const Store* const is = Find(**now, store.tags.id);
    const lvm::LogicalVolume* const made = (*now)->group->FindLv(exchange.fresh);
    const bool exchanged = is != nullptr && is->metadata->uuid != store.metadata->uuid && made != nullptr &&
                           made->uuid == store.metadata->uuid;
    if (is != nullptr && is->metadata->uuid == store.metadata->uuid && made != nullptr) {
      // Under the same turn nothing has used it.
      (void)RunCounted(pool_, {RemoveLvAction{(*now)->group->name, {made->name}, (*now)->group->seqno}},
                       parts_.node.world, after);
    }
    Undo(after);
    if (exchanged) {
      answer_.kept = fmt::format("{}/{}", (*now)->group->name, exchange.fresh);
    }
    return AfterExchange(catalog, store, std::move(used));
  }

  // What failed, with what was done before.
  Status AfterExchange(const Catalog& catalog, const Store& store, Status done) const {
    return answer_.kept.empty()
               ? std::move(done)
               : std::move(done).Context(fmt::format("the metadata of thin store {} were exchanged, and the "
                                                     "former ones are kept as {}; after that",
                                                     PathOf(catalog, store), answer_.kept));
  }

  // What cannot be done now, the next start does.
  void Undo(const Call& call) {
    if (const auto now = parts_.node.Read(pool_, call); now.has_value()) {
      EndRepairs(parts_, pool_, **now, call);
    }
  }

  Status Do(const Plan& plan) {
    QUARRY_TRY(RunCounted(pool_, plan, parts_.node.world, call_));
    for (const Action& action : plan) {
      answer_.steps.push_back(Text(action));
      parts_.node.log.Info("repair step of a thin store done",
                           {{"pool", pool_.config.name}, {"step", answer_.steps.back()}});
    }
    return Ok();
  }

  Parts& parts_;
  Pool& pool_;
  const Call& call_;
  StoreRepairAnswer& answer_;
};

}  // namespace

void EndRepairs(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call) {
  const lvm::VolumeGroup& group = *catalog.group;
  const auto run = [&](const Plan& plan, std::string_view what, const std::string& lv) {
    const Status done = RunCounted(pool, plan, parts.node.world, call);
    parts.node.log.Log(
        done.has_value() ? LogLevel::kInfo : LogLevel::kWarning, what,
        {{"pool", pool.config.name}, {"lv", lv}, {"error", done.has_value() ? "" : done.error().message()}});
    return done.has_value();
  };
  for (const MetadataExchange& exchange : BegunExchanges(catalog)) {
    const std::string& store = exchange.store->lv->name;
    if (!exchange.done) {
      parts.node.log.Warning(
          "a repair of a thin store was cut off before its metadata were exchanged: what it has made stays, "
          "as a logical volume with the name meta…",
          {{"pool", pool.config.name}, {"store", exchange.store->name()}, {"lv", store}});
      if (!std::ranges::all_of(MadeFor(group, *exchange.store), [&](const lvm::LogicalVolume* const made) {
            return run(
                {lvm::ChangeTags{group.name, made->name, {}, {lvm::ReplacesTag(lvm::Replaces(made->tags))}}},
                "metadata that may have been in use stay, as an unmanaged logical volume", made->name);
          })) {
        continue;
      }
    }
    const std::vector<std::string> tags = exchange.done && exchange.kept != nullptr
                                              ? lvm::TagsOfOurs(exchange.kept->tags)
                                              : std::vector<std::string>();
    if (tags.empty() ||
        run({lvm::ChangeTags{group.name, exchange.kept->name, {}, tags}},
            "former metadata of a repaired thin store are kept, as an unmanaged logical volume",
            exchange.kept->name)) {
      std::vector<std::string> former =
          exchange.done ? TagsOfFormer(*exchange.store) : std::vector<std::string>();
      former.push_back(exchange.tag);
      run({lvm::ChangeTags{group.name, store, {}, std::move(former)}}, "ended a repair of a thin store",
          store);
    }
  }
  if (UnusedMetadata(group).empty()) {
    return;
  }
  const auto now = parts.node.ReadGroup(pool, call);  // LVM removes only what this look proves
  if (!now.has_value()) {
    return;
  }
  std::vector<std::string> names;
  std::ranges::transform(UnusedMetadata(*(*now)->group), std::back_inserter(names),
                         &lvm::LogicalVolume::name);
  run({RemoveLvAction{group.name, names, (*now)->group->seqno}},
      "removing the unfinished metadata of an interrupted repair", fmt::format("{}", fmt::join(names, ", ")));
}

Result<StoreRepairAnswer> Upkeep::RepairStore(const StoreRepairRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const FoundStore found, FindStoreNamed(parts_, request.pool, request.store, call));
  if (Find(*found.catalog, found.status.id) == nullptr) {
    return Error(Code::kPrecondition,
                 fmt::format("store: thin store '{}' is {}: there is nothing to repair{}{}",
                             found.status.name, StoreModeName(found.status.mode),
                             found.status.problem.empty() ? "" : ": ", found.status.problem));
  }
  Pool& pool = *found.pool;
  QUARRY_ASSIGN(const auto turn,
                pool.writers.Wait(fmt::format("repair of thin store '{}'", found.status.name),
                                  call.Within(kTurnPatience)));
  QUARRY_ASSIGN(auto catalog, parts_.node.Read(pool, call));
  if (!request.dry_run) {
    EndRepairs(parts_, pool, *catalog, call);
    QUARRY_ASSIGN(catalog, parts_.node.Read(pool, call));
  }
  const Store* const store = Find(*catalog, found.status.id);
  if (store == nullptr) {
    return Error(Code::kUnavailable, "another process has changed or removed the store: try again");
  }
  QUARRY_ASSIGN(const auto guards, LockAll(parts_, *catalog, *store));
  StoreRepairAnswer answer{.pool = pool.config.name, .group = catalog->group->name, .store = store->name()};
  StoreRepair repair(parts_, pool, call, answer);
  const Status done = repair.Run(*catalog, *store, request.dry_run);
  parts_.node.Wake();
  QUARRY_TRY(done);
  return answer;
}

}  // namespace quarry::engine
