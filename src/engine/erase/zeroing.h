// Extents of unknown past, being cleared before a volume is made of them or grows onto them.
//
// An LV of our own holds exactly the extents that the volume is to get, so that nobody else gets them
// meanwhile. It bears the creating marker: a crash leaves what every half-made volume leaves, and the next
// start removes it. The clearing goes on whether or not anybody waits, in the queues of the eraser; whoever
// asks for the volume again finds it, done or under way. If that LV is removed or moved, by whomever, nothing
// more is cleared.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/erase/erase_job.h"

namespace quarry::engine {

// May be asked from any thread.
class Zeroing {
 public:
  // The owner of `work`, an LV, holds `held`; its extents, a part of them, are clear in the end.
  Zeroing(std::vector<lvm::PhysicalRange> held, std::shared_ptr<EraseJob> work);
  Zeroing(const Zeroing&) = delete;
  Zeroing& operator=(const Zeroing&) = delete;

  const std::string& lv_name() const { return work_->owner().lv_name; }
  const std::vector<lvm::PhysicalRange>& held() const { return held_; }
  // What reads as zeroes once it has succeeded.
  const std::vector<lvm::PhysicalRange>& cleared() const { return work_->extents(); }

  Bytes total() const { return total_; }  // to be cleared

  // Until it is done, with whatever result, or `call` ends: then kUnavailable, telling how far it is.
  Status Wait(const Call& call);
  bool Finished() const;
  // Once it is finished.
  Status Outcome() const;
  // Since somebody last waited for it.
  std::chrono::steady_clock::duration Unasked() const;

 private:
  Error NotYet() const;

  const std::vector<lvm::PhysicalRange> held_;
  const std::shared_ptr<EraseJob> work_;
  Bytes total_;
  mutable std::mutex mutex_;
  SteadyTime asked_;  // guarded by mutex_
};

// Those of a pool, by the key of the volume's lock. Changed under the pool's turn; thread-safe.
class Zeroings {
 public:
  std::shared_ptr<Zeroing> Find(const std::string& key) const;
  void Add(const std::string& key, std::shared_ptr<Zeroing> cleaning);
  void Drop(const std::string& key);
  bool empty() const;
  // Finished ones that nobody has asked for since `kept` ago.
  std::vector<std::pair<std::string, std::shared_ptr<Zeroing>>> Forgotten(
      std::chrono::steady_clock::duration kept) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Zeroing>> all_;  // guarded by mutex_
};

}  // namespace quarry::engine
