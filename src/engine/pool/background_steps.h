// Steps of one volume that may take longer than a caller waits: mkfs, fsck, giving a large tree to a group.
// They go on when the caller has left, and whoever asks for the volume again waits for them instead of
// beginning anew.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/call.h"
#include "base/result.h"
#include "engine/pool/locks.h"

namespace quarry::engine {

// Any thread. What is under way ends with this object: it is stopped, and waited for.
class BackgroundSteps {
 public:
  using Work = std::function<Status(const Call&)>;

  // Runs `work` on a thread of its own with a deadline of its own, `limit` from now, and waits for what comes
  // of it. If `call` ends first, the work goes on and takes `guard`, the volume's lock, along until it is
  // done: every other operation on the volume is told that it is busy. kUnavailable then, telling `what` runs
  // and since when.
  Status Run(const std::string& id, const std::string& what, std::chrono::milliseconds limit, Work work,
             KeyLocks::Guard& guard, const Call& call);

  // For a repeated call, before it takes the lock: waits for the work that an earlier call left behind. Its
  // error, told once; kUnavailable as above; OK if it is done or if there is none.
  Status Join(const std::string& id, const Call& call);

  // Stops what is under way and waits for it. Nothing may be run afterwards.
  void Stop();

 private:
  class Task;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Task>> left_;  // by volume id: those whose caller did not wait
};

}  // namespace quarry::engine
