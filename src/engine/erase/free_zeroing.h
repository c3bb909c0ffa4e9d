// Zeroes free space of unknown past while a pool has no other work, so that it need not be zeroed when a
// volume gets it. Off unless a rate is configured.
//
// A range of one disk at a time is held (holder.h), zeroed, and given back. Whoever needs space ends this
// first (End): creates, growths, evacuations and repairs plan as if it did not exist. So GetCapacity counts
// what is held as free. After that it rests for a while, so that a series of calls is disturbed only once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/erase/zeroing.h"
#include "engine/model/catalog.h"
#include "engine/world.h"

namespace quarry::engine {

struct Pool;

// One for each pool.
class FreeZeroing {
 public:
  // `pool` and `world` must outlive this object. `rate`: bytes a second, which decides how much is held at a
  // time; 0: nothing is zeroed. `nudge` makes the disk queues look at their jobs again.
  FreeZeroing(Pool& pool, const World& world, Bytes rate, std::function<void()> nudge)
      : pool_(pool), world_(world), rate_(rate), nudge_(std::move(nudge)) {}

  // Gives back what is zeroed, and holds the next range, which the caller has zeroed. nullptr: nothing is to
  // be done now. The eraser's thread calls it, without the turn. `catalog`: as its round has read it.
  Result<std::shared_ptr<Zeroing>> Next(const Catalog& catalog, const Call& call);

  // Ends the zeroing, if there is one, so that its space is free, and begins a rest. The caller has the turn.
  // Waits for the piece that is being written, but not for long. kUnavailable: the space is still held, and
  // does not count as free any more. The eraser goes on trying; callers do not wait for it again soon.
  Status End(const Call& call);
  // Whether space is held although the group is not at rest, as while a disk is missing, failing or being
  // vacated.
  bool IsInTheWay(const Catalog& catalog) const;

  // When Next() should be called again, if nothing else is a reason to.
  SteadyTime again_at() const;

 private:
  struct PutOff {
    SteadyTime until;
    std::chrono::minutes delay{0};
  };
  std::shared_ptr<Zeroing> Current() const;
  bool IsResting() const;
  void ComeAgain(SteadyTime when);
  // Gives back the range that is held. If it is not zeroed yet, the zeroing stops. OK if no range is held.
  Status GiveBack(const Call& call);
  // A free range of unknown past that may be held. nullopt: there is no such range.
  std::optional<lvm::PhysicalRange> NextRange(const Catalog& catalog);

  Pool& pool_;
  const World world_;
  const Bytes rate_;
  const std::function<void()> nudge_;
  mutable Mutex mutex_;
  std::shared_ptr<Zeroing> current_ ABSL_GUARDED_BY(mutex_);  // changes only under the turn
  SteadyTime rests_until_ ABSL_GUARDED_BY(mutex_);            // no zeroing begins before
  SteadyTime again_at_ ABSL_GUARDED_BY(mutex_) = SteadyTime::max();
  SteadyTime skipped_until_ ABSL_GUARDED_BY(mutex_);  // after a failed End()
  std::map<std::string, PutOff> put_off_;  // disks that could not be written, by PV UUID; under the turn only
};

}  // namespace quarry::engine
