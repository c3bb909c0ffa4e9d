#include "engine/engine.h"

#include "base/guarded_subprocess.h"
#include "engine/mender.h"
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
  state_->eraser =
      std::make_unique<Eraser>(std::move(pools), state_->world, state_->log, state_->config.erase_rate);
  state_->gate.Open();
  return Ok();
}

Status Engine::Stop(const Call& call) {
  state_->gate.Close("stopping");
  QUARRY_TRY(state_->gate.Drain(call));  // calls that are still in flight may yet wake the eraser
  state_->long_steps.Stop();
  state_->mender->Stop();
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
  // First, for behind a disk that does not answer the groups are slow to read.
  const StuckChildren stuck =
      state_->world.children == nullptr ? StuckChildren() : state_->world.children->Stuck();
  if (stuck.size() >= state_->config.stuck_limit) {
    return Error(Code::kPrecondition, TellOfStuck(stuck));
  }
  for (const auto& pool : state_->pools) {
    auto catalog = state_->Read(*pool, call);
    if (!catalog.has_value()) {
      return std::move(catalog.error());
    }
  }
  return Readiness{true, TellOfStuck(stuck)};
}

void Engine::OnWork(std::function<void()> tell) {
  const std::lock_guard lock(state_->wake_mutex);
  state_->wake = std::move(tell);
}

Result<MendReport> Engine::Mend(MendCause cause, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  return state_->mender->Round(cause, call);
}

}  // namespace quarry::engine
