#include "engine/pool/node.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <ranges>

#include <fmt/format.h>

#include "base/guarded_subprocess.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// A pool that has not answered for this long is broken: it promises no capacity any more.
constexpr std::chrono::minutes kGivenUp{1};

}  // namespace

Node::Node(EngineConfig c, World w, const Logger& l) : config(std::move(c)), world(w), log(l) {
  for (const PoolConfig& pool : config.pools) {
    pools.push_back(std::make_unique<Pool>(pool, world.lvm));
  }
  gate.Open();
}

void Node::Wake() {
  const MutexLock lock(wake_mutex_);
  if (wake_) {
    wake_();
  }
}

Result<Pool*> Node::FindPool(const std::string& name) const {
  std::string known;
  for (const auto& pool : pools) {
    if (pool->config.name == name) {
      return pool.get();
    }
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", pool->config.name);
  }
  return Error(Code::kInvalidArgument,
               fmt::format("parameters['pool']: no pool '{}'; configured pools: {}", name, known));
}

Result<std::shared_ptr<const Catalog>> Node::CatalogOf(Pool& pool, Result<lvm::Snapshot> group) {
  if (!group.has_value()) {
    // A missing group is a fault of the node. It must not read as "there is no such volume".
    const Code code = group.error().code() == Code::kNotFound ? Code::kPrecondition : group.error().code();
    Error error =
        std::move(group.error())
            .As(code)
            .Context(fmt::format("pool '{}': volume group '{}'", pool.config.name, pool.config.group));
    const MutexLock lock(pool.catalog_mutex);
    // A read that ended with a caller's deadline says nothing about the pool. A failed start is logged by the
    // start itself.
    if (code == Code::kPrecondition && pool.gate.is_open() && pool.told.empty()) {
      pool.told = error.message();
      log.Warning("a pool became unavailable", {{"pool", pool.config.name}, {"detail", error.message()}});
    }
    return error;
  }
  auto weak = FailingDisks();
  std::deque<std::string> free_zeroing;
  std::set<std::string> copying;
  {
    const MutexLock lock(pool.making_mutex);
    free_zeroing = pool.free_zeroing;
    copying = pool.copying;
    std::ranges::copy(pool.unfinished | std::views::keys, std::inserter(copying, copying.end()));
  }
  const MutexLock lock(pool.catalog_mutex);
  // The catalog keeps its snapshot alive, so an equal pointer is the same snapshot.
  if (pool.catalog == nullptr || pool.catalog->group != *group || pool.catalog_weak != weak ||
      pool.catalog->free_zeroing != free_zeroing || pool.catalog->copying != copying) {
    Catalog fresh = ReadCatalog(pool.config.name, *group, pool.catalog.get());
    fresh.weak = *weak;
    fresh.free_zeroing = std::move(free_zeroing);
    fresh.copying = std::move(copying);
    pool.catalog = std::make_shared<const Catalog>(std::move(fresh));
    pool.catalog_weak = std::move(weak);
  }
  if (!std::exchange(pool.told, "").empty()) {
    log.Info("a pool is available again", {{"pool", pool.config.name}});
  }
  for (const std::string& name : std::exchange(pool.given_up, {})) {
    if (const Record* record = pool.catalog->ByName(name); record != nullptr) {
      log.Warning(
          "the creation of this volume was sent to other nodes while its pool was unavailable: if another "
          "volume with its name is in use there, delete this one",
          {{"pool", pool.config.name}, {"volume", record->tags.id}, {"name", name}});
    }
  }
  return pool.catalog;
}

Result<std::shared_ptr<const Catalog>> Node::ReadGroup(Pool& pool, const Call& call) {
  auto group = world.lvm.Read(pool.config.group, call);
  if (group.has_value()) {
    pool.lookout.Forget();
  }
  return CatalogOf(pool, std::move(group));
}

Result<std::shared_ptr<const Catalog>> Node::Read(Pool& pool, const Call& call) {
  QUARRY_TRY(pool.gate.Wait(call));
  return ReadGroup(pool, call);
}

Result<std::shared_ptr<const Catalog>> Node::Look(Pool& pool, milliseconds patience, const Call& call) {
  if (!pool.gate.is_open()) {
    return Error(Code::kUnavailable, pool.gate.reason()).Context(fmt::format("pool '{}'", pool.config.name));
  }
  return CatalogOf(pool, pool.lookout.Look(patience, call));
}

std::vector<Result<std::shared_ptr<const Catalog>>> Node::LookAtAll(milliseconds patience, const Call& call) {
  std::vector<std::optional<Lookout::Question>> asked;
  for (const auto& pool : pools) {
    asked.push_back(pool->gate.is_open() ? std::optional(pool->lookout.Ask()) : std::nullopt);
  }
  std::vector<Result<std::shared_ptr<const Catalog>>> out;
  for (size_t i = 0; i < pools.size(); ++i) {
    Pool& pool = *pools[i];
    out.push_back(asked[i].has_value() ? CatalogOf(pool, pool.lookout.Await(*asked[i], patience, call))
                                       : Look(pool, patience, call));
  }
  return out;
}

// A missing group gives kPrecondition. Two other causes give it too: another quarryd has the group, or its
// metadata went back in time. In those cases the group exists, so LVM is asked.
bool Node::IsGone(Pool& pool, const Error& error) {
  bool refused = pool.gate.is_open() && error.code() == Code::kPrecondition;
  if (pool.gate.phase() == Gate::Phase::kClosed) {
    const MutexLock lock(pool.catalog_mutex);
    refused = pool.start_error.has_value() && pool.start_error->code() == Code::kPrecondition;
  }
  if (!refused) {
    return false;
  }
  const auto now = world.lvm.Read(pool.config.group, CallWithin(kOthersPatience));
  return !now.has_value() && now.error().code() == Code::kNotFound;
}

bool Node::IsBroken(Pool& pool, const Error& error) {
  switch (pool.gate.phase()) {
    case Gate::Phase::kStarting:
      return pool.gate.is_late();
    case Gate::Phase::kClosed:
      return gate.is_open();  // otherwise quarryd is stopping
    case Gate::Phase::kOpen:
      break;
  }
  const bool in_time = error.code() != Code::kUnavailable && error.code() != Code::kTimeout &&
                       error.code() != Code::kCancelled;
  const auto since = pool.lookout.failing_since();
  return in_time || (since.has_value() && std::chrono::steady_clock::now() - *since > kGivenUp);
}

std::optional<Trouble> Node::TroubleOf(Pool& pool, const Status& read) const {
  switch (pool.gate.phase()) {
    case Gate::Phase::kStarting:
      return Trouble{.error = Error(Code::kUnavailable, pool.gate.reason())
                                  .Context(fmt::format("pool '{}'", pool.config.name)),
                     .starting = true};
    case Gate::Phase::kClosed: {
      const MutexLock lock(pool.catalog_mutex);
      return Trouble{.error = pool.start_error.value_or(Error(Code::kUnavailable, pool.gate.reason()))};
    }
    case Gate::Phase::kOpen:
      break;
  }
  const auto own = world.children_of.find(pool.config.group);
  Subprocess& children = own == world.children_of.end() ? world.children : *own->second;
  const StuckChildren stuck = children.Stuck();
  if (stuck.size() >= config.stuck_limit) {
    return Trouble{.error = Error(Code::kPrecondition,
                                  fmt::format("pool '{}': {}", pool.config.name, TellOfStuck(stuck)))};
  }
  if (read.has_value()) {
    return std::nullopt;
  }
  return Trouble{.error = read.error(), .silent = read.error().code() == Code::kUnavailable};
}

}  // namespace quarry::engine
