// What callers ask of upkeep, and what it answers: repair rounds, scrubs, trimming, evacuation of disks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace quarry::engine {

// Why a repair round runs. kEvent: a kernel device changed. kDisks: disks may have come or gone. kAsked: an
// administrator asked, and does not wait for the delays of the policy.
enum class RepairCause { kEvent, kDisks, kAsked };

// The result of a repair round.
struct RepairReport {
  std::vector<std::string> done;       // steps, as text
  std::vector<std::string> obstacles;  // repairs that are needed but not possible, with the remedy
  // When work is due that no event announces. nullopt: there is no such work.
  std::optional<std::chrono::milliseconds> next;

  void NoLaterThan(std::chrono::milliseconds when) {
    when = std::max(when, std::chrono::milliseconds(1));
    next = std::min(next.value_or(when), when);
  }
};

// A request to scrub volumes.
struct ScrubRequest {
  std::vector<std::string> ids;  // empty: every volume with more than one leg
  bool repair = false;           // rewrite what differs
};
struct ScrubAnswer {
  std::string id, name;  // if a pool cannot be read: the pool's name, and "pool"
  std::string refusal;   // why it will not be scrubbed; empty: it will be
};

// A request to repair a thin store.
struct StoreRepairRequest {
  std::string store;     // its name, or its id
  std::string pool;      // empty: any
  bool dry_run = false;  // only looks. A store that the kernel has is not stopped for that
};
struct StoreRepairAnswer {
  std::string pool, group, store;
  std::string found;               // what is wrong with it; or that nothing is
  std::vector<std::string> steps;  // that were made; with dry_run: that would be made
  std::string kept;  // the logical volume with the former metadata; empty: they were not replaced
};

// The result of a round of trimming.
struct TrimResult {
  size_t volumes = 0;  // whose file systems were trimmed
  Bytes trimmed;       // as the file systems report
  std::vector<std::string> failures;
};

// The evacuation of a disk.
struct EvacuateRequest {
  std::string disk;      // UUID of its physical volume, or any path of it
  bool rebuild = false;  // RAID legs are rebuilt from the other legs and not read from this disk
  bool cancel = false;   // the disk stays; extents that have already moved do not return
  bool dry_run = false;  // only checks whether it is possible
};
struct EvacuateResult {
  std::string pool, group, pv_uuid, device;
  Bytes to_move;                     // on the disk now
  std::vector<std::string> volumes;  // ids of the volumes on the disk
  bool changed = false;              // false: nothing to change, or dry_run
};

}  // namespace quarry::engine
