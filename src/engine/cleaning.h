// Extents of unknown past, being cleared before a volume is made of them or grows onto them.
//
// An LV of our own holds exactly the extents that the volume is to get, so that nobody else gets them
// meanwhile. It bears the creating marker: a crash leaves what every half-made volume leaves, and the next
// start removes it. The clearing goes on whether or not anybody waits; whoever asks for the volume again
// finds it, done or under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/actions.h"
#include "engine/world.h"

namespace quarry::engine {

// One thread of its own; may be asked from any.
class Cleaning {
 public:
  // `lv_name` holds `held`; `erase` (EraseActions) clears what of `cleared`, a part of them, is not clear
  // yet. `world` outlives it.
  Cleaning(std::string lv_name, std::vector<lvm::PhysicalRange> held, std::vector<lvm::PhysicalRange> cleared,
           Plan erase, World world);
  // Stops between two pieces.
  ~Cleaning() = default;
  Cleaning(const Cleaning&) = delete;
  Cleaning& operator=(const Cleaning&) = delete;

  const std::string& lv_name() const { return lv_name_; }
  const std::vector<lvm::PhysicalRange>& held() const { return held_; }
  // What reads as zeroes once it has succeeded.
  const std::vector<lvm::PhysicalRange>& cleared() const { return cleared_; }

  Bytes total() const { return total_; }  // to be cleared

  // Until it is done, with whatever result, or `call` ends: then kUnavailable, telling how far it is.
  Status Wait(const Call& call);
  bool Finished() const;
  // Once it is finished.
  Status Outcome() const;
  // Since somebody last waited for it.
  std::chrono::steady_clock::duration Unasked() const;

 private:
  void Run(const std::stop_token& stop);
  std::string Progress() const;

  const std::string lv_name_;
  const std::vector<lvm::PhysicalRange> held_;
  const std::vector<lvm::PhysicalRange> cleared_;
  const Plan erase_;
  const World world_;
  Bytes total_;
  std::atomic<uint64_t> done_bytes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable_any finished_;
  std::optional<Status> outcome_;  // guarded by mutex_
  SteadyTime asked_;               // guarded by mutex_
  std::jthread thread_;            // last: everything above exists before it runs
};

}  // namespace quarry::engine
