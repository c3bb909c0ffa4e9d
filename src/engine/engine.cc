#include "engine/engine.h"

#include <fcntl.h>

#include <fmt/format.h>

#include "engine/state.h"

namespace quarry::engine {
namespace {

// Takes the hold on every raw volume that is published now, as an earlier process held it.
Status TakeHolds(Engine::State& state, const Catalog& catalog, const mount::MountTable& mounts) {
  for (const Record& record : catalog.records) {
    if (record.tags.state != lvm::VolumeState::kReady || record.tags.access == "mount") {
      continue;
    }
    QUARRY_ASSIGN(const auto device, state.world.dm.Find(record.DmUuid()));
    if (!device.has_value()) {
      continue;
    }
    QUARRY_ASSIGN(const auto published, state.Published(mounts, *device));
    if (!published.empty()) {
      QUARRY_ASSIGN(UniqueFd fd, state.world.dm.Open(record.DmUuid(), O_RDONLY));
      state.holds.Keep(record.tags.id, std::move(fd));
    }
  }
  return Ok();
}

// Takes away what an interrupted create left. What cannot be removed now is the eraser's business.
void RemoveHalfMade(Engine::State& state, Pool& pool, const Catalog& catalog, const Call& call) {
  for (const Record& record : catalog.records) {
    if (record.tags.state != lvm::VolumeState::kCreating) {
      continue;
    }
    auto removed = Execute({RemoveLvAction{record.group->name, record.lv->name}}, state.world, call);
    if (removed.has_value()) {
      state.log.Info("removed a half-made volume", {{"pool", pool.config.name}, {"lv", record.lv->name}});
    } else {
      state.log.Warning(
          "a half-made volume cannot be removed yet",
          {{"pool", pool.config.name}, {"lv", record.lv->name}, {"error", removed.error().message()}});
    }
  }
}

Status Reconcile(Engine::State& state, const Call& call) {
  QUARRY_ASSIGN(const std::string version, state.world.lvm.Version(call));
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  for (const auto& pool : state.pools) {
    QUARRY_ASSIGN(const auto turn, pool->writers.Wait("starting", call));
    QUARRY_ASSIGN(const Catalog catalog, state.Read(*pool, call));
    for (const std::string& damaged : catalog.damaged) {
      state.log.Warning("a logical volume bears our tag but cannot be understood; it is left alone",
                        {{"pool", pool->config.name}, {"problem", damaged}});
    }
    RemoveHalfMade(state, *pool, catalog, call);
    QUARRY_TRY(TakeHolds(state, catalog, mounts));
    state.log.Info("pool is ready", {{"pool", pool->config.name},
                                     {"group", pool->config.group},
                                     {"volumes", static_cast<int64_t>(catalog.records.size())},
                                     {"lvm", version}});
  }
  return Ok();
}

}  // namespace

Engine::Engine(EngineConfig config, World world, const Logger& log)
    : state_(std::make_unique<State>(std::move(config), world, log)) {}

Engine::~Engine() = default;

Status Engine::Start(const Call& call) {
  auto done = Reconcile(*state_, call);
  {
    const std::lock_guard lock(state_->start_error_mutex);
    state_->start_error = done.has_value() ? std::nullopt : std::optional(done.error());
  }
  QUARRY_TRY(std::move(done));
  std::vector<Pool*> pools;
  for (const auto& pool : state_->pools) {
    pools.push_back(pool.get());
  }
  state_->eraser = std::make_unique<Eraser>(std::move(pools), state_->world, state_->log);
  state_->gate.Open();
  return Ok();
}

Status Engine::Stop(const Call& call) {
  state_->gate.Close("stopping");
  auto drained = state_->gate.Drain(call);
  state_->eraser.reset();
  return drained;
}

Result<Readiness> Engine::Probe(const Call& call) {
  if (!state_->gate.is_open()) {
    const std::lock_guard lock(state_->start_error_mutex);
    if (state_->start_error.has_value()) {
      return *state_->start_error;
    }
    return Readiness{false, state_->gate.reason()};
  }
  for (const auto& pool : state_->pools) {
    auto catalog = state_->Read(*pool, call);
    if (!catalog.has_value()) {
      return std::move(catalog.error());
    }
  }
  return Readiness{true, ""};
}

}  // namespace quarry::engine
