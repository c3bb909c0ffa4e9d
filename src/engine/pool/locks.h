// One operation per volume at a time.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "base/call.h"
#include "base/result.h"

namespace quarry::engine {

// Keys are volume ids and CO names, each with a prefix of its own. Thread-safe.
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
    Guard(KeyLocks* locks, std::string key) : locks_(locks), key_(std::move(key)) {}
    KeyLocks* locks_;
    std::string key_;
  };

  // For a call. kBusy if another call has the key: "CreateVolume of 'x' is in flight since 3.2 s"; a patient
  // one waits for it, first come first served or not: kUnavailable, naming the holder, if its deadline comes
  // first. For housekeeping every call waits, the others for a few seconds. kCancelled: stopped meanwhile.
  // The guard must not outlive this object.
  Result<Guard> Lock(const std::string& key, const std::string& operation, const Call& call);
  // For housekeeping, which no call asked for. Never waits: kBusy, as above.
  Result<Guard> TryLock(const std::string& key, const std::string& operation);
  bool Held(const std::string& key) const;

 private:
  struct Holder {
    std::string operation;
    SteadyTime since;
    bool housekeeping;
  };
  Result<Guard> TakeLocked(const std::string& key, const std::string& operation, bool housekeeping);

  mutable std::mutex mutex_;
  std::condition_variable_any released_;
  std::map<std::string, Holder> held_;
};

// The queue of those who want to change one volume group: first come, first served.
class WriterQueue {
 public:
  class Turn {
   public:
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    friend class WriterQueue;
    explicit Turn(WriterQueue* queue) : queue_(queue) {}
    WriterQueue* queue_;
  };

  // Waits for its turn. kTimeout / kCancelled once `call` ends, naming what stands at the head of the queue.
  Result<Turn> Wait(const std::string& operation, const Call& call);

 private:
  void Leave();
  std::mutex mutex_;
  std::condition_variable_any changed_;
  uint64_t next_ticket_ = 0;
  std::map<uint64_t, std::string> waiting_;  // by ticket; the first one has the turn
};

}  // namespace quarry::engine
