#include "engine/pool/trouble.h"

#include <fmt/format.h>

#include "base/guarded_subprocess.h"

namespace quarry::engine {

std::optional<Trouble> TroubleOf(const Node& node, Pool& pool, const Status& read) {
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
  const auto own = node.world.children_of.find(pool.config.group);
  Subprocess& children = own == node.world.children_of.end() ? node.world.children : *own->second;
  const StuckChildren stuck = children.Stuck();
  if (stuck.size() >= node.config.stuck_limit) {
    return Trouble{.error = Error(Code::kPrecondition,
                                  fmt::format("pool '{}': {}", pool.config.name, TellOfStuck(stuck)))};
  }
  if (read.has_value()) {
    return std::nullopt;
  }
  return Trouble{.error = read.error(), .silent = read.error().code() == Code::kUnavailable};
}

}  // namespace quarry::engine
