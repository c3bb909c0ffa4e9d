// Activating volumes. After a reboot hundreds are published at once, and each command of LVM's reads the
// whole group: those that wait for the pool's turn together are activated by one command.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/pool/locks.h"
#include "engine/world.h"

namespace quarry::engine {

// Of one pool. Thread-safe.
class Activations {
 public:
  // Waits for its turn in `writers`; it may find then that somebody before it has activated its volume along
  // with its own. Legs that a killed LVM left active without the volume on them are removed before, because
  // LVM refuses to activate anything above such. A suspended volume is resumed.
  Status Activate(const Record& record, WriterQueue& writers, const World& world, const Call& call);

  // Calls that have not had their turn. For tests.
  size_t waiting() const;

 private:
  struct Wish {
    Record record;
    bool done = false;
    bool alone = false;  // LVM refused it, or one beside it: its error is to be its own
  };
  using Wishes = std::vector<std::shared_ptr<Wish>>;

  // `own`, which no longer waits, and with the turn those that wait beside it.
  Wishes Take(const std::shared_ptr<Wish>& own, bool has_turn);
  Status ActivateAll(const Wishes& wishes, const World& world, const Call& call);

  mutable std::mutex mutex_;
  Wishes waiting_;  // guarded by mutex_; what is in a Wish but its record is changed under the turn only
};

}  // namespace quarry::engine
