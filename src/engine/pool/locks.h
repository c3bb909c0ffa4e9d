// One operation per volume, and one writer per volume group.
#pragma once

#include <compare>  // IWYU pragma: keep: for <=>
#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"

namespace quarry::engine {

// The object that an operation locks. A value.
class LockKey {
 public:
  // The volume with this id. An inline volume is locked by its handle (LockKeyOf in node.h).
  static LockKey Volume(std::string_view id) { return {Kind::kVolume, id}; }
  // The orchestrator's name of a volume, which may not exist yet.
  static LockKey Name(std::string_view co_name) { return {Kind::kName, co_name}; }
  // The same for a snapshot, which is locked by id as a volume is.
  static LockKey SnapshotName(std::string_view co_name) { return {Kind::kSnapshotName, co_name}; }
  // The same for a group snapshot.
  static LockKey GroupName(std::string_view co_name) { return {Kind::kGroupName, co_name}; }

  // The id of the volume; empty for the key of a name.
  std::string_view volume_id() const { return kind_ == Kind::kVolume ? what_ : std::string_view(); }
  // "id:…", "name:…", "snapshot:…" or "group:…", for log lines.
  std::string text() const {
    return (kind_ == Kind::kVolume         ? "id:"
            : kind_ == Kind::kName         ? "name:"
            : kind_ == Kind::kSnapshotName ? "snapshot:"
                                           : "group:") +
           what_;
  }
  auto operator<=>(const LockKey&) const = default;

 private:
  enum class Kind { kVolume, kName, kSnapshotName, kGroupName };
  LockKey(Kind kind, std::string_view what) : kind_(kind), what_(what) {}
  Kind kind_;
  std::string what_;
};

// Locks by key. Thread-safe.
class KeyLocks {
 public:
  class Guard {
   public:
    Guard(Guard&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), key_(std::move(other.key_)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard();

   private:
    friend class KeyLocks;
    Guard(KeyLocks* locks, LockKey key) : locks_(locks), key_(std::move(key)) {}
    KeyLocks* locks_;
    LockKey key_;
  };

  // For a call. kBusy if another call holds the key: "CreateVolume of 'x' has been in flight for 3.2 s". A
  // patient call waits, in no particular order, and gets kUnavailable, naming the holder, at its deadline. If
  // housekeeping holds the key, every call waits: a patient call until its deadline, others up to 10 s.
  // kCancelled: the call was stopped meanwhile. The guard must not outlive this object.
  Result<Guard> Lock(const LockKey& key, const std::string& operation, const Call& call);
  // For housekeeping: repair, trimming, late deletion of inline volumes. Never waits: kBusy as above.
  Result<Guard> TryLock(const LockKey& key, const std::string& operation);

 private:
  struct Holder {
    std::string operation;
    SteadyTime since;
    bool housekeeping;
  };
  Result<Guard> TakeLocked(const LockKey& key, const std::string& operation, bool housekeeping)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::condition_variable_any released_;
  std::map<LockKey, Holder> held_ ABSL_GUARDED_BY(mutex_);
};

// The queue for the turn: the right to change one volume group. First come, first served. Thread-safe.
class WriterQueue {
  struct Leave {
    void operator()(WriterQueue* queue) const;
  };

 public:
  // Its destructor ends the turn; the queue must outlive it.
  using Turn = std::unique_ptr<WriterQueue, Leave>;

  // Waits for the turn. kTimeout or kCancelled once `call` ends; the error names the operation that has the
  // turn.
  Result<Turn> Wait(const std::string& operation, const Call& call);

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  // Operations by ticket. The first one has the turn.
  std::map<uint64_t, std::string> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
