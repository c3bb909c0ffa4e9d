// Extents that may hold old bytes are zeroed before a volume gets them or grows onto them.
//
// A logical volume (the holder) takes exactly the extents that the volume will get, so that no other volume
// gets them meanwhile. The holder carries the creating marker: after a crash the next start removes it like
// any unfinished volume. The zeroing goes on in the eraser's queues whether or not a caller waits; a repeated
// call joins it. If any process removes or moves the holder, nothing more is zeroed.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/erase/erase_job.h"
#include "engine/pool/locks.h"

namespace quarry::engine {

// May be called from any thread.
class Zeroing {
 public:
  // `held`: the extents of the holder. `work`: the job that zeroes what is not known to be zeroed; its owner
  // is the holder. The job's extents are a part of `held`, and read as zeroes after success.
  Zeroing(std::vector<lvm::PhysicalRange> held, std::shared_ptr<EraseJob> work);
  Zeroing(const Zeroing&) = delete;
  Zeroing& operator=(const Zeroing&) = delete;

  const std::string& lv_name() const { return work_->owner().lv_name; }
  const std::vector<lvm::PhysicalRange>& held() const { return held_; }
  const std::shared_ptr<EraseJob>& work() const { return work_; }
  // The extents that read as zeroes after success.
  const std::vector<lvm::PhysicalRange>& cleared() const { return work_->extents(); }

  Bytes total() const { return total_; }  // bytes to be zeroed

  // Waits until the zeroing has ended, successfully or not: OK. If `call` ends first: kUnavailable, with the
  // progress.
  Status Wait(const Call& call);
  bool Finished() const { return work_->Finished(); }
  // The outcome of a finished zeroing; kUnavailable, with the progress, before that.
  Status Outcome() const;
  // How long ago a caller last waited for this zeroing.
  std::chrono::steady_clock::duration Unasked() const;

 private:
  Error NotYet() const;

  const std::vector<lvm::PhysicalRange> held_;
  const std::shared_ptr<EraseJob> work_;
  Bytes total_;
  mutable Mutex mutex_;
  SteadyTime asked_ ABSL_GUARDED_BY(mutex_);
};

// Holds the zeroings of a pool, by the key of the volume's lock. Callers change it under the pool's turn.
// Thread-safe.
class Zeroings {
 public:
  std::shared_ptr<Zeroing> Find(const LockKey& key) const;
  void Add(const LockKey& key, std::shared_ptr<Zeroing> zeroing);
  void Drop(const LockKey& key);
  bool empty() const;
  // All zeroings that have ended, with their keys.
  std::vector<std::pair<LockKey, std::shared_ptr<Zeroing>>> Finished() const;

 private:
  mutable Mutex mutex_;
  std::map<LockKey, std::shared_ptr<Zeroing>> all_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
