// What is kept in memory of a pool. None of it must survive a restart.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/plan/actions.h"
#include "engine/plan/zeroed_extents.h"
#include "engine/pool/activation.h"
#include "engine/pool/gate.h"
#include "engine/pool/locks.h"
#include "engine/pool/lookout.h"
#include "engine/world.h"

namespace quarry::engine {

// A pool at work. Each is on its own: its start, its gate, its turns.
struct Pool {
  Pool(PoolConfig c, lvm::LvmApi& lvm)
      : config(std::move(c)),
        lookout([this, &lvm](const Call& call) { return lvm.Read(config.group, call); }) {}
  PoolConfig config;
  Gate gate;  // opened by its start
  WriterQueue writers;
  Activations activations;

  // What the last snapshot came to. A snapshot that is proven fresh is the same object again, so that reading
  // the tags of a thousand volumes (4 ms) is for changes only.
  std::mutex catalog_mutex;
  std::shared_ptr<const Catalog> catalog;
  std::shared_ptr<const UnhealthyDisks> catalog_weak;  // what it was made with
  std::string told;                  // why it could not be read, as logged last; empty: it could
  std::optional<Error> start_error;  // of the last start, if that failed
  // Names of volumes that callers were sent to other nodes with while the group was gone.
  std::set<std::string> given_up;

  // LVs that a CreateVolume of this process is making: bearing the creating marker, yet not left over.
  std::mutex making_mutex;
  std::set<std::string> making;
  // Since when creates have been told to wait for space that is being erased, by name. Likewise.
  std::map<std::string, SteadyTime> waiting;
  ZeroedExtents clean;  // used under the turn

  Lookout lookout;  // last: its thread uses the above
};

// Execute, under the pool's turn, with what it commits told to `pool.clean`.
Status RunCounted(Pool& pool, const Plan& plan, const World& world, const Call& call);

}  // namespace quarry::engine
