// Which conditions of pools, thin stores, disks and volumes have changed since they were last told to the
// command of --on-change. The book compares what is with what was told. Nothing waits in a queue: of several
// changes of one thing, the last one counts, and a burst needs no more memory than the things themselves.
#pragma once

#include <compare>  // IWYU pragma: keep: for <=>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/lifecycle.h"
#include "engine/model/severity.h"

namespace quarry::daemon {

struct Thing {
  std::string kind;  // "pool", "store", "disk", "volume", "snapshot"
  std::string pool;
  std::string id;  // UUID of the physical volume, id of the volume, name of the pool or of the store
  auto operator<=>(const Thing&) const = default;
};

struct Condition {
  // For disks and volumes the words of `quarryctl status`, except that a volume that syncs is "healthy". For
  // pools "readable" or "unreadable". For stores "healthy", the mode if it is not rw, the condition of the
  // legs if they are not whole, or "too-small". "removed": the thing no longer exists.
  std::string state;
  engine::Severity severity = engine::Severity::kOk;
  std::string name;    // of the volume; path of the disk; may be empty
  std::string detail;  // the reason; may be empty
};

// One thing whose condition is to be told.
struct Change {
  Thing thing;
  Condition now;
  std::string before;     // the state that was told last, or the good state of such a thing
  bool repeated = false;  // it was told before the restart of quarryd, and has not changed
  uint64_t skipped = 0;   // states between `before` and `now` that were seen, and are not told
};

// The bad conditions that were told last: their states and the names of the things.
struct ToldCondition {
  std::string state, name;
};
using ToldConditions = std::map<Thing, ToldCondition>;

// One document. Pure.
std::string WriteTold(const ToldConditions& told);
// kInvalidArgument: the text is not such a document. Pure.
Result<ToldConditions> ReadTold(const std::string& text);

// For one thread at a time.
class ConditionBook {
 public:
  // A pool must be unreadable for this long before that is told: it may be starting, or one of its disks may
  // be slow for a moment.
  static constexpr std::chrono::seconds kPoolPatience{30};

  // The same for a store that is not started or not made, or of which the kernel gave no answer.
  static constexpr std::chrono::seconds kStorePatience{30};

  // How long a disk that was told as failing or worn stays so while nobody has asked for its health yet.
  static constexpr std::chrono::minutes kHealthPatience{10};

  // `told`: by an earlier process. Its bad conditions are told once more if they still exist, and otherwise
  // their end is told.
  explicit ConditionBook(ToldConditions told);

  // Takes note of the present state. While a pool is unreadable, its disks and volumes keep their state.
  // Returns how many changes went back before they could be told.
  size_t Look(const std::vector<engine::PoolStatus>& pools, SteadyTime now);
  // The change that has waited longest. It stays in the book until Told().
  std::optional<Change> Begin();
  size_t waiting() const { return waiting_.size(); }
  // The change that Begin() returned last has been told. Returns as Look.
  size_t Told(const Change& change);
  const ToldConditions& told() const { return told_; }

 private:
  struct Waiting {
    uint64_t turn = 0;
    Condition now;
    uint64_t skipped = 0;
  };
  void LookAtPool(const engine::PoolStatus& pool, SteadyTime now, std::map<Thing, Condition>& seen);
  void LookAtStore(const Thing& thing, const engine::StoreStatus& store, SteadyTime now,
                   std::map<Thing, Condition>& seen);
  // Whether this thing keeps its state for now: its pool is unreadable, or itself may be starting.
  bool Waits(const Thing& thing, SteadyTime now) const;
  bool MustBeTold(const Thing& thing, const Condition& now) const;

  ToldConditions told_;
  std::set<Thing> inherited_;  // of told_: by an earlier process
  std::map<Thing, Waiting> waiting_;
  std::optional<Thing> telling_;
  std::map<std::string, SteadyTime> unreadable_;  // pools, and since when
  std::map<Thing, SteadyTime> not_serving_;       // stores that may be starting, and since when
  std::optional<SteadyTime> first_look_;
  uint64_t turns_ = 0;
};

}  // namespace quarry::daemon
