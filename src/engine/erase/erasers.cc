#include "engine/erase/erasers.h"

#include <thread>
#include <vector>

namespace quarry::engine {

Erasers::Erasers(Node& node) {
  for (const auto& pool : node.pools) {
    erasers_.try_emplace(pool.get(), *pool, node.world, node.log, node.config.erase_rate);
  }
}

void Erasers::Stop() {
  std::vector<std::jthread> ends;
  for (auto& entry : erasers_) {
    ends.emplace_back([&eraser = entry.second] { eraser.Stop(); });
  }
}

}  // namespace quarry::engine
