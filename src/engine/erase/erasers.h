// Owns the erasers: one for each pool of the node. An eraser works from its pool's start to the stop.
#pragma once

#include <map>
#include <set>
#include <string>

#include "engine/erase/eraser.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Thread-safe.
class Erasers {
 public:
  // `node` must outlive this object. No eraser works yet.
  explicit Erasers(Node& node);

  void Start(Pool& pool) { Of(pool).Start(); }
  // Stops all erasers at the same time, since each waits for its own LVM command. The next start gives back
  // the extents that are being zeroed for new volumes.
  void Stop();
  // The eraser of a pool of the node. It exists, at work or not, as long as this object.
  Eraser& Of(const Pool& pool) { return erasers_.at(&pool); }

  // The calls of Eraser with these names.
  void Wake(const Pool& pool) { Of(pool).Wake(); }
  void GiveUp(const Pool& pool, const std::set<std::string>& pvs, const std::set<std::string>& away) {
    Of(pool).GiveUp(pvs, away);
  }
  std::string Stuck(const Pool& pool) { return Of(pool).Stuck(); }

 private:
  std::map<const Pool*, Eraser> erasers_;  // has every pool of the node, and never changes
};

}  // namespace quarry::engine
