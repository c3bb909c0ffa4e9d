// Deletion's second half. A deleted volume is tagged "erasing" and answered at once; here its extents are
// cleared on the disks, flushed, and only then given back to LVM. Also takes away what an interrupted create
// left. All that is needed to go on after a crash is in the tags, so there is no list to lose: each round
// reads the groups and does what is due.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "base/log.h"
#include "engine/catalog.h"
#include "engine/world.h"

namespace quarry::engine {

struct Pool;

// One thread. Wake() may be called from any.
class Eraser {
 public:
  // `pools` and `world` outlive it.
  Eraser(std::vector<Pool*> pools, World world, const Logger& log);
  // Stops between two pieces of work; what is unfinished is finished after the next start.
  ~Eraser();
  Eraser(const Eraser&) = delete;
  Eraser& operator=(const Eraser&) = delete;

  // There is something to do.
  void Wake();

 private:
  void Run(const std::stop_token& stop);
  // True if anything was left undone.
  bool Round(Pool& pool, const std::stop_token& stop);
  Status Finish(Pool& pool, const Record& record, const std::stop_token& stop);

  std::vector<Pool*> pools_;
  World world_;
  const Logger& log_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool woken_ = true;
  std::jthread thread_;
};

}  // namespace quarry::engine
