// One evacuation step that copies extents off a disk which is to be vacated. The copy has its own thread,
// because it may take hours and other volumes must be repaired meanwhile.
#pragma once

#include <atomic>
#include <thread>
#include <utility>

#include "base/result.h"
#include "engine/pool/node.h"
#include "engine/repair/plan_repair.h"

namespace quarry::engine {

// Begins when it is made, and wakes the repair loop when it ends. The thread takes neither a turn nor the
// lock of a volume. IsDone may be called from any thread, all other calls from one.
class CopyJob {
 public:
  // `node` must outlive this object.
  CopyJob(RepairStep step, Node& node)
      : step_(std::move(step)), thread_([this, &node](const std::stop_token& stop) {
          result_ = Execute(step_.actions, node.world, Call{.stop = stop});
          done_ = true;
          node.Wake();
        }) {}
  // Aborts the copy, which continues after the next start, and waits for its end.
  ~CopyJob() = default;
  CopyJob(const CopyJob&) = delete;
  CopyJob& operator=(const CopyJob&) = delete;

  const RepairStep& step() const { return step_; }
  bool IsDone() const { return done_; }
  // The result of the copy. Waits for its end.
  const Status& Wait() {
    if (thread_.joinable()) {
      thread_.join();
    }
    return result_;
  }

 private:
  const RepairStep step_;
  Status result_ = Ok();  // belongs to the thread until `done_`
  std::atomic<bool> done_ = false;
  std::jthread thread_;  // last: all other members must exist before it runs
};

}  // namespace quarry::engine
