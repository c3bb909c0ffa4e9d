// Owns the erasers. Each pool that is served has one, from the pool's start to the stop.
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
  // `rate`: as for Eraser. `world` and `log` must outlive this object.
  Erasers(const World& world, const Logger& log, Bytes rate) : world_(world), log_(log), rate_(rate) {}

  void Start(Pool& pool);
  // Stops all erasers at the same time, since each waits for its own LVM command. The next start gives back
  // the extents that are being zeroed for new volumes.
  void Stop();
  // The eraser of `pool`, which must be served.
  Eraser& Of(const Pool& pool);

  // The calls of Eraser with these names. They do nothing for a pool without an eraser.
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
