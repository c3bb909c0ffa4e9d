#include "engine/repair/copy_job.h"

#include <utility>

namespace quarry::engine {

CopyJob::CopyJob(RepairStep step, Node& node)
    : step_(std::move(step)), thread_([this, &node](const std::stop_token& stop) {
        result_ = Execute(step_.actions, node.world, Call{.stop = stop});
        done_ = true;
        node.Wake();
      }) {}

const Status& CopyJob::Wait() {
  if (thread_.joinable()) {
    thread_.join();
  }
  return result_;
}

}  // namespace quarry::engine
