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

// Makes the pool's volume group of its disks, if there is none and the disks are blank and unused.
Status EnsureGroup(Engine::State& state, const PoolConfig& pool, const Call& call) {
  if (pool.devices.empty()) {
    return Ok();
  }
  const auto group = state.world.lvm.Read(pool.group, call);
  if (group.has_value() || group.error().code() != Code::kNotFound) {
    return Ok();  // it is there, or could not be looked at: for the reader of the pool to say
  }
  lvm::CreateGroup spec{.name = pool.group, .devices = {}, .extent_size = state.config.extent_size};
  for (const AbsolutePath& device : pool.devices) {
    const auto refuse = [&](const std::string& why) {
      return Error(Code::kPrecondition,
                   fmt::format("pool '{}': there is no volume group '{}', and it is not made: {}", pool.name,
                               pool.group, why));
    };
    const auto content = state.world.mount.ProbeDevice(device);
    if (!content.has_value()) {
      return refuse(content.error().message());
    }
    if (content->kind != mount::Content::Kind::kBlank) {
      const std::string what = content->type.empty() ? "several signatures" : content->type;
      return refuse(fmt::format("{} is not blank, it holds {}; it is left as it is", device.str(), what));
    }
    spec.devices.push_back(device.str());
  }
  QUARRY_TRY(state.world.lvm.Create(spec, call).Context(fmt::format("pool '{}'", pool.name)));
  state.log.Info(
      "made a volume group",
      {{"pool", pool.name}, {"group", pool.group}, {"disks", static_cast<int64_t>(spec.devices.size())}});
  return Ok();
}

Status Reconcile(Engine::State& state, const Call& call) {
  QUARRY_ASSIGN(const std::string version, state.world.lvm.Version(call));
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  for (const auto& pool : state.pools) {
    QUARRY_ASSIGN(const auto turn, pool->writers.Wait("starting", call));
    QUARRY_TRY(EnsureGroup(state, pool->config, call));
    QUARRY_ASSIGN(const auto read, state.Read(*pool, call));
    const Catalog& catalog = *read;
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
  if (!done.has_value()) {
    state_->gate.Close("not ready: " + done.error().message());
    return done;
  }
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
  QUARRY_TRY(state_->gate.Drain(call));  // calls that are still in flight may yet wake the eraser
  state_->eraser.reset();
  return Ok();
}

Result<Readiness> Engine::Probe(const Call& call) {
  if (call.patient) {
    (void)state_->gate.Enter(call);  // waits for a start that is under way; what came of it is asked below
  }
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
