#include "engine/engine.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/guarded_subprocess.h"
#include "engine/disks.h"
#include "engine/mender.h"
#include "engine/reconcile.h"
#include "engine/state.h"
#include "engine/trouble.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGlance{1000};
constexpr milliseconds kLongLook{10'000};

// Those of the pools that do not serve.
std::vector<Trouble> TroublesOf(Engine::State& state, milliseconds patience, const Call& call) {
  const auto catalogs = state.LookAtAll(patience, call);
  std::vector<Trouble> out;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    const Status read = catalogs[i].has_value() ? Ok() : Status(catalogs[i].error());
    if (auto trouble = TroubleOf(state, *state.pools[i], read); trouble.has_value()) {
      out.push_back(std::move(*trouble));
    }
  }
  return out;
}

// kNotFound: no pool has a volume of one of these ids. A pool that cannot be read may have it.
Status CheckKnown(Engine::State& state, std::set<std::string> ids, const Call& call) {
  std::optional<Error> unread;
  for (size_t i = 0; i < state.pools.size() && !ids.empty(); ++i) {
    auto catalog = state.Look(*state.pools[i], kLongLook, call);
    if (!catalog.has_value()) {
      unread = std::move(catalog.error());
      continue;
    }
    for (const Record& record : (*catalog)->records) {
      ids.erase(record.tags.id);
    }
  }
  if (ids.empty()) {
    return Ok();
  }
  return unread.has_value()
             ? std::move(*unread)
             : Error(Code::kNotFound, fmt::format("volume_ids: no volume '{}' on this node", *ids.begin()));
}

}  // namespace

std::optional<Trouble> TroubleOf(const Engine::State& state, Pool& pool, const Status& read) {
  switch (pool.gate.phase()) {
    case Gate::Phase::kStarting:
      return Trouble{.error = Error(Code::kUnavailable, pool.gate.reason())
                                  .Context(fmt::format("pool '{}'", pool.config.name)),
                     .starting = true};
    case Gate::Phase::kClosed: {
      const std::lock_guard lock(pool.catalog_mutex);
      return Trouble{.error = pool.start_error.value_or(Error(Code::kUnavailable, pool.gate.reason()))};
    }
    case Gate::Phase::kOpen:
      break;
  }
  const auto own = state.world.children_of.find(pool.config.group);
  Subprocess* const children = own == state.world.children_of.end() ? state.world.children : own->second;
  const StuckChildren stuck = children == nullptr ? StuckChildren() : children->Stuck();
  if (stuck.size() >= state.config.stuck_limit) {
    return Trouble{.error = Error(Code::kPrecondition,
                                  fmt::format("pool '{}': {}", pool.config.name, TellOfStuck(stuck)))};
  }
  if (read.has_value()) {
    return std::nullopt;
  }
  return Trouble{.error = read.error(), .silent = read.error().code() == Code::kUnavailable};
}

Engine::Engine(EngineConfig config, World world, const Logger& log)
    : state_(std::make_unique<State>(std::move(config), world, log)) {}

Engine::~Engine() = default;

Status Engine::Start(const Call& call) {
  Status first = Ok();
  for (const auto& pool : state_->pools) {
    Status started = StartPool(pool->config.name, call);
    if (first.has_value()) {
      first = std::move(started);
    }
  }
  return first;
}

Status Engine::StartPool(const std::string& name, const Call& call) {
  QUARRY_ASSIGN(Pool* const pool, state_->FindPool(name));
  if (pool->gate.is_open()) {
    return Ok();
  }
  auto done = Reconcile(*state_, *pool, call);
  {
    const std::lock_guard lock(pool->catalog_mutex);
    pool->start_error = done.has_value() ? std::nullopt : std::optional(done.error());
  }
  if (!done.has_value()) {
    pool->gate.Close("not ready: " + done.error().message());
    return done;
  }
  pool->eraser = std::make_unique<Eraser>(*pool, state_->world, state_->log, state_->config.erase_rate);
  pool->gate.Open();
  // What there is can be served without it.
  if (const auto claimed = engine::ClaimDisks(*state_, call); !claimed.has_value()) {
    state_->log.Warning("disks for the pools could not be looked for",
                        {{"error", claimed.error().message()}});
  }
  state_->Wake();
  return Ok();
}

Status Engine::Stop(const Call& call) {
  state_->gate.Close("stopping");
  for (const auto& pool : state_->pools) {
    if (!pool->gate.is_open()) {
      pool->gate.Close("stopping");  // for those who wait for its start
    }
  }
  QUARRY_TRY(state_->gate.Drain(call));  // calls that are still in flight may yet wake the erasers
  state_->long_steps.Stop();
  state_->mender->Stop();
  {
    std::vector<std::jthread> ends;  // all at the same time: each waits for its own command
    for (const auto& pool : state_->pools) {
      ends.emplace_back([&pool] { pool->eraser.reset(); });
    }
  }
  for (const auto& pool : state_->pools) {
    pool->cleanings.clear();  // what they hold is given back by the next start
  }
  return Ok();
}

Result<Readiness> Engine::Probe(const Call& call) {
  if (!state_->gate.is_open()) {
    return Readiness{false, state_->gate.reason()};
  }
  const auto pass = state_->gate.Enter(call);  // the erasers are there as long as it is
  if (!pass.has_value()) {
    return Readiness{false, state_->gate.reason()};
  }
  if (call.patient) {
    for (const auto& pool : state_->pools) {
      (void)pool->gate.Wait(call);  // for a start that is under way; what came of it is asked below
    }
  }
  // A pool that serves is told from one that does not answer at once. With none that serves there is time.
  std::vector<Trouble> troubles = TroublesOf(*state_, kGlance, call);
  const auto may_serve = [](const Trouble& trouble) { return trouble.silent; };
  if (troubles.size() == state_->pools.size() && std::ranges::any_of(troubles, may_serve)) {
    troubles = TroublesOf(*state_, kLongLook, call);
  }
  std::string words;
  for (const Trouble& trouble : troubles) {
    words += fmt::format("{}{}", words.empty() ? "" : "; ", trouble.error.message());
  }
  std::string stuck = state_->world.children == nullptr ? "" : TellOfStuck(state_->world.children->Stuck());
  for (const auto& pool : state_->pools) {
    const std::string held = pool->gate.is_open() ? pool->eraser->Stuck() : "";
    stuck += (stuck.empty() || held.empty() ? "" : "; ") + held;
  }
  if (troubles.size() < state_->pools.size()) {
    const bool told = words.find(stuck) != std::string::npos;
    return Readiness{true, told ? words : words.empty() ? stuck : fmt::format("{}; {}", words, stuck)};
  }
  if (std::ranges::any_of(troubles, &Trouble::starting)) {
    return Readiness{false, words};
  }
  return Error(troubles.front().error.code(), words);
}

void Engine::OnWork(std::function<void()> tell) {
  const std::lock_guard lock(state_->wake_mutex);
  state_->wake = std::move(tell);
}

Result<MendReport> Engine::Mend(MendCause cause, const Call& call, const std::set<std::string>& accepted) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_TRY(CheckKnown(*state_, accepted, call));
  return state_->mender->Round(cause, accepted, call);
}

}  // namespace quarry::engine
