// What thin stores need while they are used: room for what is to be made in them, and, if they are
// overcommitted, growth before writes fill them.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/model/sizing.h"
#include "engine/model/store_ladder.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/start_store.h"
#include "engine/plan/store_growth.h"
#include "engine/plan/thin_capacity.h"
#include "engine/upkeep.h"

namespace quarry::engine {
namespace {

// The kernel lets writes to a full store wait for a minute, so a growth must not wait longer for its turn.
constexpr std::chrono::seconds kTurnPatience{30};
constexpr std::chrono::minutes kCommands{5};

void TellFill(const Logger& log, Pool& pool, const Store& store, const dm::ThinPoolStatus& status,
              StoreFill fill) {
  {
    const MutexLock lock(pool.catalog_mutex);
    StoreFill& told = pool.store_fill[store.name()];
    if (told == fill) {
      return;
    }
    told = fill;
  }
  const std::string used =
      fmt::format("{} %", status.data_used * 100 / std::max<uint64_t>(status.data_total, 1));
  const auto [level, message] =
      fill == StoreFill::kNearlyFull
          ? std::pair(
                LogLevel::kError,
                "an overcommitted thin store is nearly full: nothing is made in it, and no volume grows")
      : fill == StoreFill::kFilling
          ? std::pair(LogLevel::kWarning, "an overcommitted thin store is filling up")
          : std::pair(LogLevel::kInfo, "an overcommitted thin store has ample space again");
  log.Log(level, message, {{"pool", pool.config.name}, {"store", store.name()}, {"used", used}});
}

// Grows the store with this UUID if it should grow still.
Status GrowIfFilling(Parts& parts, Pool& pool, const std::string& lv_uuid, const Call& call) {
  QUARRY_ASSIGN(const auto turn,
                pool.writers.Wait("growing a thin store that fills up", call.Within(kTurnPatience)));
  const Call limited = call.Within(kCommands);
  QUARRY_ASSIGN(const auto catalog, ReadForStores(parts, pool, limited));
  const auto store =
      std::ranges::find(catalog->stores, lv_uuid, [](const Store& one) { return one.lv->uuid; });
  if (store == catalog->stores.end()) {
    return Ok();
  }
  QUARRY_ASSIGN(const auto status,
                parts.node.world.dm.ThinPool(lvm::DmUuid(catalog->group->uuid, store->lv->uuid)));
  const Bytes wanted =
      status.has_value() ? WantedData(RulesOf(pool.config, *store), *status, store->chunk()) : Bytes{};
  if (wanted == Bytes{}) {
    return Ok();
  }
  const StoreTerms most = LargestTerms(*catalog, pool.config, *store, PoolSpace(*catalog, pool.config));
  if (most.data <= store->data->size) {
    return Error(
        Code::kNoSpace,
        fmt::format("it should grow to {}, and pool '{}' has no free space where it would have to be",
                    HumanBytes(wanted), pool.config.name));
  }
  return GrowStore(parts, pool, *catalog, *store, std::min(wanted, most.data), limited);
}

void NoteGrowth(Parts& parts, Pool& pool, const std::string& store, const Status& done) {
  const std::string error = done.has_value() ? "" : done.error().message();
  {
    const MutexLock lock(pool.catalog_mutex);
    std::string& noted = pool.store_errors[store].change;
    if (noted == error) {
      return;
    }
    noted = error;
  }
  if (!done.has_value()) {
    parts.node.log.Error("an overcommitted thin store fills up and cannot grow: quarryd keeps trying",
                         {{"pool", pool.config.name}, {"store", store}, {"error", error}});
  }
}

void Tend(Parts& parts, Pool& pool, std::vector<std::string>& to_trim, const Call& call) {
  const auto pass = parts.node.gate.Enter(call);
  if (!pass.has_value()) {
    return;
  }
  const auto catalog = parts.node.Look(pool, kOthersPatience, call);
  if (!catalog.has_value()) {
    return;  // others log why
  }
  for (const Store& store : (*catalog)->stores) {
    if (!Overcommits(**catalog, pool.config, store)) {
      continue;
    }
    const StoreConfig rules = RulesOf(pool.config, store);
    const auto status = parts.node.world.dm.ThinPool(lvm::DmUuid((*catalog)->group->uuid, store.lv->uuid));
    if (!status.has_value() || !status->has_value() || (*status)->mode == dm::ThinPoolStatus::Mode::kFailed) {
      continue;
    }
    {
      const MutexLock lock(pool.catalog_mutex);
      pool.store_trends[store.name()].Add(parts.node.world.clock.Now(),
                                          {(*status)->data_used * store.chunk().value});
    }
    const StoreFill fill = FillOf(rules, true, **status);
    TellFill(parts.node.log, pool, store, **status, fill);
    if (WantedData(rules, **status, store.chunk()) > Bytes{}) {
      NoteGrowth(parts, pool, store.name(), GrowIfFilling(parts, pool, store.lv->uuid, call));
    }
    if (fill != StoreFill::kAmple) {
      to_trim.push_back(store.tags.id);
    }
  }
}

}  // namespace

Result<std::shared_ptr<const Catalog>> ReadForStores(Parts& parts, Pool& pool, const Call& call) {
  QUARRY_ASSIGN(auto catalog, parts.node.Read(pool, call));
  const bool may_grow = std::ranges::any_of(catalog->stores, [&](const Store& store) {
    return RulesOf(pool.config, store).most > store.data->size;
  });
  if (may_grow && !catalog->free_zeroing.empty()) {
    (void)parts.erasers.Of(pool).free_zeroing().End(call);  // if that fails, the space does not count
    QUARRY_ASSIGN(catalog, parts.node.Read(pool, call));
  }
  pool.clean.Look(*catalog->group);
  return catalog;
}

Status CheckFill(Parts& parts, Pool& pool, const Catalog& catalog, const Store& store, const Call& call) {
  if (!Overcommits(catalog, pool.config, store)) {
    return Ok();
  }
  const World& world = parts.node.world;
  QUARRY_TRY(StartStore(*catalog.group, *store.lv, world, call));
  QUARRY_ASSIGN(const dm::ThinPoolStatus status, HealthyPool(*catalog.group, *store.lv, world.dm));
  return CheckFill(catalog, pool.config, store, status);
}

Status GrowStore(Parts& parts, Pool& pool, const Catalog& catalog, const Store& store, Bytes data,
                 const Call& call) {
  QUARRY_ASSIGN(const Plan plan, PlanStoreGrowth(catalog, pool.config, store, data));
  if (plan.empty()) {
    return Ok();
  }
  QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(plan)));
  QUARRY_TRY(RunCounted(pool, plan, parts.node.world, call));
  parts.node.log.Info("a thin store has grown",
                      {{"pool", pool.config.name}, {"store", store.name()}, {"size", HumanBytes(data)}});
  return Ok();
}

std::vector<std::string> Upkeep::TendStores(const std::string& name, const Call& call) {
  std::vector<std::string> to_trim;
  const auto pool = parts_.node.FindPool(name);
  const auto has_stores = [&] {
    const MutexLock lock((*pool)->catalog_mutex);
    return (*pool)->catalog != nullptr && !(*pool)->catalog->stores.empty();
  };
  if (pool.has_value() && has_stores()) {
    Tend(parts_, **pool, to_trim, call);
  }
  return to_trim;
}

}  // namespace quarry::engine
