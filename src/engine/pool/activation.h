// Activates volumes. After a reboot hundreds of volumes are published at once, and each LVM command reads the
// whole group. Volumes that wait for the pool's turn together are therefore activated by one command.
#pragma once

#include <memory>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/pool/locks.h"
#include "engine/world.h"

namespace quarry::engine {

// The activations of one pool. Thread-safe.
class Activations {
 public:
  // Waits for the turn in `writers`. An earlier caller may have activated this volume along with its own.
  // First removes legs that a killed LVM left active without the volume above them, because LVM refuses to
  // activate anything above such legs. A suspended volume is resumed.
  Status Activate(const Record& record, WriterQueue& writers, const World& world, const Call& call);

  // Calls that have not had their turn yet. For tests.
  size_t waiting() const;

 private:
  struct Wish {
    Record record;
    bool done = false;
    bool alone = false;  // the shared command failed: activated alone now, so that the error is its own
  };
  using Wishes = std::vector<std::shared_ptr<Wish>>;

  // Takes `own` off the queue. Returns `own`, and if the caller has the turn, the wishes that wait with it.
  Wishes Take(const std::shared_ptr<Wish>& own, bool has_turn);
  Status ActivateAll(const Wishes& wishes, const World& world, const Call& call);

  mutable Mutex mutex_;
  Wishes waiting_ ABSL_GUARDED_BY(mutex_);  // `done` and `alone` of a Wish change under the turn only
};

}  // namespace quarry::engine
