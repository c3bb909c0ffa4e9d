// Whether there is service: of the node, which counts the calls in flight, and of each pool.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/result.h"

namespace quarry::engine {

// A call that comes during a pool's first start waits for that; one that comes after a start has failed, or
// during the stop, is turned away.
class Gate {
 public:
  class Pass {
   public:
    explicit Pass(Gate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass();

   private:
    Gate* gate_;
  };
  enum class Phase { kStarting, kOpen, kClosed };

  // Waits while the first start runs, not past the call's deadline, and not once that start takes longer than
  // anybody should wait for. kUnavailable with the reason while closed.
  Result<Pass> Enter(const Call& call);
  // The same, for those who need not be counted.
  Status Wait(const Call& call);
  // For those who can do without: waits for the first seconds of the start only.
  Status WaitBriefly(const Call& call);
  void Open();
  void Close(std::string reason);
  // kTimeout if calls are still in flight when `call` ends.
  Status Drain(const Call& call);
  Phase phase() const;
  bool is_open() const { return phase() == Phase::kOpen; }
  std::string reason() const;
  // Whether it has not been open for so long since it was made.
  bool is_late() const;

 private:
  // Callers give up after 10 s to 2 min. What takes longer than this is worth a word of why.
  static constexpr std::chrono::seconds kLongestWait{30};
  // A start that takes longer than this waits for something that may never come.
  static constexpr std::chrono::seconds kLongestStart{60};
  static constexpr std::chrono::seconds kBriefly{5};

  // With mutex_ held.
  Status WaitLocked(std::unique_lock<std::mutex>& lock, const Call& call, SteadyTime until);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Phase phase_ = Phase::kStarting;
  std::string reason_ = "starting: the volume group has not been read yet";
  size_t inside_ = 0;
  const SteadyTime made_ = std::chrono::steady_clock::now();
};

}  // namespace quarry::engine
