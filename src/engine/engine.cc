#include "engine/engine.h"

#include "engine/reconcile.h"
#include "engine/state.h"

namespace quarry::engine {
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
  for (const auto& pool : state_->pools) {
    pool->cleanings.clear();  // what they hold is given back by the next start
  }
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
