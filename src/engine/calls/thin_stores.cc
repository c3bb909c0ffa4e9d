// What a start does for the thin stores of a pool: starts those that are there, and makes and grows them as
// the configuration says.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/plan/apply_change.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_thin.h"
#include "engine/plan/start_store.h"

namespace quarry::engine {
namespace {

Status CheckThinTarget(dm::DmApi& dm) {
  QUARRY_ASSIGN(const bool there, dm.HasTarget("thin-pool"));
  return there ? Ok()
               : Status(Error(
                     Code::kPrecondition,
                     "this kernel does not have the device-mapper target 'thin-pool': load dm_thin_pool"));
}

Status Make(Parts& parts, Pool& pool, const Catalog& catalog, const StoreConfig& store, const Call& call) {
  const StoreNames names{lvm::NewLvName(), lvm::NewLvName()};
  QUARRY_TRY(CheckThinTarget(parts.node.world.dm));
  QUARRY_TRY(CheckTarget(parts.node.world.dm, store.geometry));
  QUARRY_ASSIGN(Plan plan, PlanMakeStore(catalog, pool.config, store, names, parts.node.id_hash(),
                                         parts.node.config.rebuild_rate.value_or(Bytes{})));
  QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(plan)));
  plan.push_back(StartStoreAction{catalog.group->name, names.data});
  Status made = RunCounted(pool, plan, parts.node.world, call);
  if (!made.has_value()) {
    // What cannot be removed now, the next start removes.
    const Call limited = CallWithin(kUndoLimit);
    for (const std::string& name : {names.data, names.metadata}) {
      (void)Execute({RemoveLvAction{catalog.group->name, {name}}}, parts.node.world, limited);
    }
    return made;
  }
  parts.node.log.Info("made a thin store",
                      {{"pool", pool.config.name}, {"store", store.name}, {"size", HumanBytes(store.size)}});
  return Ok();
}

// What the configuration says of a store that is made, and that cannot be changed any more.
void WarnOfDifferences(const Parts& parts, const Pool& pool, const Store& store, const StoreConfig& wanted) {
  const auto geometry = GeometryOfPart(*store.data);
  std::string words;
  if (geometry.has_value() && geometry->Describe() != wanted.geometry.Describe()) {
    words = fmt::format("it is {}, not {}", geometry->Describe(), wanted.geometry.Describe());
  } else if (store.chunk() != wanted.chunk) {
    words = fmt::format("its chunks have {}, not {}", HumanBytes(store.chunk()), HumanBytes(wanted.chunk));
  }
  if (!words.empty()) {
    parts.node.log.Warning("a thin store is not as the configuration says, and stays as it is",
                           {{"pool", pool.config.name}, {"store", store.name()}, {"difference", words}});
  }
}

// For those who ask later what is wrong with a store.
void Note(Pool& pool, const std::string& store, std::string StoreErrors::* of, const Status& done) {
  const MutexLock lock(pool.catalog_mutex);
  pool.store_errors[store].*of = done.has_value() ? "" : done.error().message();
}

}  // namespace

bool HasStores(const Parts& parts) {
  return std::ranges::any_of(parts.node.pools, [](const auto& pool) {
    const MutexLock lock(pool->catalog_mutex);
    return !pool->config.stores.empty() || (pool->catalog != nullptr && !pool->catalog->stores.empty());
  });
}

void StartStores(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call) {
  for (const Store& store : catalog.stores) {
    const Status started = StartStore(*catalog.group, *store.lv, parts.node.world, call);
    if (started.has_value()) {
      (void)PutRight(*catalog.group, *store.lv, parts.node.world, call);  // ReconcileDevices tells a failure
    }
    // An earlier process may have been killed while it held the metadata. Space that is trimmed meanwhile is
    // not free.
    const std::string uuid = lvm::DmUuid(catalog.group->uuid, store.lv->uuid);
    const auto running = parts.node.world.dm.ThinPool(uuid);
    if (running.has_value() && running->has_value() && (*running)->held_root.has_value()) {
      ReleaseMetadata(parts.node.world.dm, uuid, *(*running)->held_root);
    }
    parts.node.store_troubles.Note(store.tags.id, started);
    if (!started.has_value()) {
      parts.node.log.Warning(
          "a thin store cannot be started now: its volumes cannot be used",
          {{"pool", pool.config.name}, {"store", store.name()}, {"error", started.error().message()}});
    }
  }
}

void EnsureStores(Parts& parts, Pool& pool, const Call& call) {
  for (const StoreConfig& wanted : pool.config.stores) {
    const auto catalog = parts.node.ReadGroup(pool, call);
    if (!catalog.has_value()) {
      return;  // the start fails by itself if this lasts
    }
    pool.clean.Look(*(*catalog)->group);
    const auto store =
        std::ranges::find((*catalog)->stores, wanted.name, [](const Store& one) { return one.name(); });
    const bool is_new = store == (*catalog)->stores.end();
    const auto bears_name = [&](const Unreadable& one) { return lvm::BearsName(one.lv->tags, wanted.name); };
    if (is_new && std::ranges::any_of((*catalog)->unreadable, bears_name)) {
      parts.node.log.Warning("a thin store is there already, and cannot be read: none is made",
                             {{"pool", pool.config.name}, {"store", wanted.name}});
      continue;
    }
    if (!is_new) {
      WarnOfDifferences(parts, pool, *store, wanted);
    }
    const Status done = is_new ? Make(parts, pool, **catalog, wanted, call)
                               : GrowStore(parts, pool, **catalog, *store, wanted.size, call);
    Note(pool, wanted.name, &StoreErrors::change, done);
    if (!done.has_value()) {
      parts.node.log.Warning(
          is_new ? "a thin store cannot be made: quarryd tries again at its next start"
                 : "a thin store cannot grow: quarryd tries again at its next start",
          {{"pool", pool.config.name}, {"store", wanted.name}, {"error", done.error().message()}});
    }
  }
}

}  // namespace quarry::engine
