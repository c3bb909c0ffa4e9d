// The steps of one call with their times, for an administrator who asks why it is slow. A Call carries the
// record through every function that can wait; calls without a record cost one comparison for each step.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"

namespace quarry {

// Thread-safe. Steps may be added after the call has ended, by work that it left behind.
class CallRecord {
 public:
  static constexpr size_t kMostSteps = 64;
  static constexpr size_t kMostText = 160;  // bytes of one step's text

  struct Step {
    std::string text;
    std::chrono::microseconds from{0};  // since the call's start
    std::chrono::microseconds took{0};
  };

  // `id`: for log lines and questions, such as a trace id.
  explicit CallRecord(std::string id) : id_(std::move(id)), start_(std::chrono::steady_clock::now()) {}

  const std::string& id() const { return id_; }
  SteadyTime start() const { return start_; }

  // Beyond kMostSteps, a step is counted and forgotten. A long text is cut.
  void Add(std::string text, SteadyTime from, SteadyTime to);

  struct Steps {
    std::vector<Step> steps;  // in the order of their ends: an inner step comes before the outer one
    size_t forgotten = 0;
  };
  Steps steps() const;

 private:
  const std::string id_;
  const SteadyTime start_;
  mutable Mutex mutex_;
  Steps steps_ ABSL_GUARDED_BY(mutex_);
};

// Records a step from its own construction to its destruction. `text` is a function that returns the step's
// text. It is called at the end, and only if the call has a record and the step took `least` or longer.
template <typename Text>
class TimedStep {
 public:
  TimedStep(const Call& call, Text text, std::chrono::microseconds least = {})
      : record_(call.record.get()), text_(std::move(text)), least_(least) {
    if (record_ != nullptr) {
      from_ = std::chrono::steady_clock::now();
    }
  }
  ~TimedStep() {
    if (record_ == nullptr) {
      return;
    }
    if (const auto to = std::chrono::steady_clock::now(); to - from_ >= least_) {
      record_->Add(text_(), from_, to);
    }
  }
  TimedStep(const TimedStep&) = delete;
  TimedStep& operator=(const TimedStep&) = delete;

 private:
  CallRecord* const record_;  // lives as long as the Call that the caller passed
  const Text text_;
  const std::chrono::microseconds least_;
  SteadyTime from_;
};

// Waits that are shorter than this are no steps: nearly every lock is free.
inline constexpr std::chrono::microseconds kLeastWait{1000};

}  // namespace quarry
