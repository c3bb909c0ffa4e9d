// The erasers of the pools that are served: one for each, from its start to the stop.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/log.h"
#include "engine/erase/eraser.h"
#include "engine/pool/pool.h"
#include "engine/world.h"

namespace quarry::engine {

// Thread-safe.
class Erasers {
 public:
  // `rate` as for Eraser. What it is given outlives it.
  Erasers(const World& world, const Logger& log, Bytes rate) : world_(world), log_(log), rate_(rate) {}

  void Start(Pool& pool);
  // All at the same time, since each waits for its own command. What they zero for volumes that are to be
  // made is given back by the next start.
  void Stop();
  // Of a pool that is served.
  Eraser& Of(const Pool& pool);

  // Eraser's calls of these names; nothing where the pool has no eraser.
  void Wake(const Pool& pool);
  void GiveUp(const Pool& pool, const std::set<std::string>& pvs, const std::set<std::string>& away);
  std::string Stuck(const Pool& pool);

 private:
  Eraser* Find(const Pool& pool);

  const World& world_;
  const Logger& log_;
  const Bytes rate_;
  std::mutex mutex_;
  std::map<const Pool*, std::unique_ptr<Eraser>> erasers_;  // guarded by mutex_
};

}  // namespace quarry::engine
