// P6: GetCapacity while 50 creates are queued for the same group, beside GetCapacity on an idle quarryd. One
// caller repeats the call, 20 ms after each answer.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace quarry::bench {
namespace {

constexpr size_t kCreates = 50;
constexpr size_t kIdle = 100;
constexpr double kMost = 10;
constexpr std::chrono::milliseconds kPause{20};

Status AskOnce(Site& site, Samples& samples) {
  const auto answer = Timed(samples, [&] { return site.client().Capacity(vm::TypeParameters("linear")); });
  std::this_thread::sleep_for(kPause);
  return Must("GetCapacity", answer);
}

// Fifty callers at once. Each waits for its answer.
class Crowd {
 public:
  explicit Crowd(Site& site) {
    for (size_t i = 0; i < kCreates; ++i) {
      threads_.emplace_back([this, &site, i] {
        failed_ += site.Create(fmt::format("p6-{}", i), "linear").has_value() ? 0 : 1;
        --waiting_;
      });
    }
  }
  size_t waiting() const { return waiting_; }
  size_t failed() const { return failed_; }

 private:
  std::atomic<size_t> waiting_ = kCreates;
  std::atomic<size_t> failed_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace

Status CapacityWhileCreating(Bench& bench) {
  QUARRY_ASSIGN(Site* const site, bench.Main());
  Progress(fmt::format("P6 capacity while {} creates wait", kCreates));
  QUARRY_TRY(site->Clear());
  Settle();
  Finding found;
  found.name = "P6.capacity.queued";
  found.what = fmt::format("GetCapacity while {} creates wait : idle", kCreates);
  found.peer.emplace();
  for (size_t i = 0; i < kIdle; ++i) {
    QUARRY_TRY(AskOnce(*site, *found.peer));
  }
  const auto started = std::chrono::steady_clock::now();
  {
    const Crowd crowd(*site);
    while (crowd.waiting() > 0) {
      QUARRY_TRY(AskOnce(*site, found.ours));
    }
    if (crowd.failed() > 0) {
      return Error(Code::kInternal, fmt::format("{} creates failed", crowd.failed()));
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  const double worst = found.ours.P99() / found.peer->Median();
  found.more = {{"p99_to_idle", worst}, {"creates_per_second", kCreates / took.count()}};
  found.goal = fmt::format("ours' p99 <= {} x idle median", kMost);
  found.met = worst <= kMost;
  Report(found);
  return Ok();
}

}  // namespace quarry::bench
