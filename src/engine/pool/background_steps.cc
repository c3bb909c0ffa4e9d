#include "engine/pool/background_steps.h"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/call_record.h"
#include "base/mutex.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForTheAnswer{500};  // a wait ends this long before the caller's deadline
// How long the outcome of an abandoned step is kept for a repeated call.
constexpr std::chrono::minutes kKept{10};

}  // namespace

class BackgroundSteps::Task {
 public:
  // `record`: of the call that begins the work.
  Task(Title title, milliseconds limit, Work work, std::shared_ptr<CallRecord> record)
      : title_(std::move(title)),
        work_(std::move(work)),
        since_(std::chrono::steady_clock::now()),
        record_(std::move(record)) {
    thread_ = std::jthread([this, limit](const std::stop_token& stop) { Run(limit, stop); });
  }
  ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // The outcome; nullopt if `call` ended first.
  std::optional<Status> Wait(const Call& call) {
    const TimedStep step(call, [this] { return "wait for: " + title_(); }, kLeastWait);
    MutexLock lock(mutex_);
    const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return outcome_.has_value(); };
    if (call.deadline == SteadyTime::max()) {
      finished_.wait(lock, call.stop, done);
    } else {
      finished_.wait_until(lock, call.stop, call.deadline - kForTheAnswer, done);
    }
    return outcome_;
  }

  // Keeps the volume's lock until the work is done. False: the work is done already, and the caller keeps the
  // lock.
  bool Take(KeyLocks::Guard& guard) {
    const MutexLock lock(mutex_);
    if (outcome_.has_value()) {
      return false;
    }
    guard_.emplace(std::move(guard));
    return true;
  }

  // Finished so long ago that no caller will ask for the outcome any more.
  bool Forgotten() const {
    const MutexLock lock(mutex_);
    return outcome_.has_value() && std::chrono::steady_clock::now() - ended_ > kKept;
  }

  void RequestStop() { thread_.request_stop(); }

  Error StillRunning() const {
    const auto ran = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    return {Code::kUnavailable, fmt::format("{} has been running for {:.1f} s; ask again", title_(), ran)};
  }

 private:
  void Run(milliseconds limit, const std::stop_token& stop) {
    Call call = CallWithin(limit);
    call.stop = stop;
    call.record = record_;
    Status outcome = work_(call);
    work_ = nullptr;  // with all that it holds, such as an open device
    const MutexLock lock(mutex_);
    guard_.reset();  // first, so that a caller that gets the outcome finds the volume free
    outcome_ = std::move(outcome);
    ended_ = std::chrono::steady_clock::now();
    finished_.notify_all();
  }

  const Title title_;
  Work work_;  // of the thread
  const SteadyTime since_;
  const std::shared_ptr<CallRecord> record_;
  mutable Mutex mutex_;
  std::condition_variable_any finished_;
  std::optional<Status> outcome_ ABSL_GUARDED_BY(mutex_);
  SteadyTime ended_ ABSL_GUARDED_BY(mutex_);
  std::optional<KeyLocks::Guard> guard_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: everything above exists before it runs
};

Status BackgroundSteps::Run(const std::string& id, Title title, milliseconds limit, Work work,
                            KeyLocks::Guard& guard, const Call& call) {
  const auto task = std::make_shared<Task>(std::move(title), limit, std::move(work), call.record);
  if (auto outcome = task->Wait(call); outcome.has_value()) {
    return std::move(*outcome);
  }
  {
    // Recorded before this call gives up the lock: a repeated call must not find the volume free and the work
    // unknown.
    const MutexLock lock(mutex_);
    std::erase_if(left_, [](const auto& each) { return each.second->Forgotten(); });
    left_[id] = task;
    if (task->Take(guard)) {
      return task->StillRunning();
    }
    left_.erase(id);
  }
  return *task->Wait(call);  // the work has just ended
}

Status BackgroundSteps::Join(const std::string& id, const Call& call) {
  std::shared_ptr<Task> task;
  {
    const MutexLock lock(mutex_);
    const auto found = left_.find(id);
    if (found == left_.end()) {
      return Ok();
    }
    task = found->second;
    if (task->Forgotten()) {  // nobody asks for this outcome any more; this call is a new one
      left_.erase(found);
      return Ok();
    }
  }
  auto outcome = task->Wait(call);
  if (!outcome.has_value()) {
    return task->StillRunning();
  }
  const MutexLock lock(mutex_);
  const auto found = left_.find(id);
  if (found == left_.end() || found->second != task) {
    return Ok();  // another caller got the outcome
  }
  left_.erase(found);
  return std::move(*outcome);
}

void BackgroundSteps::Stop() {
  std::map<std::string, std::shared_ptr<Task>> all;
  {
    const MutexLock lock(mutex_);
    all.swap(left_);
  }
  for (const auto& [id, task] : all) {  // stops all at once; the destructors then wait for each
    task->RequestStop();
  }
}

}  // namespace quarry::engine
