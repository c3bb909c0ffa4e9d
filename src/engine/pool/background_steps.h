// Steps of one volume that may take longer than a caller waits: mkfs, fsck, changing the group (gid) of a
// large tree. A step goes on when its caller has left. A repeated call waits for the step instead of starting
// it again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/pool/locks.h"

namespace quarry::engine {

// Thread-safe. The destructor stops the steps whose callers have left, and waits for their end.
class BackgroundSteps {
 public:
  using Work = std::function<Status(const Call&)>;
  // Names the work, and may say how far it is. Called from any thread.
  using Title = std::function<std::string()>;

  // Runs `work` on its own thread with its own deadline, `limit` from now, and waits for the outcome. If
  // `call` ends first, the work goes on and keeps `guard`, the volume's lock, until it is done: every other
  // operation on the volume gets kBusy. This call then returns kUnavailable, with what `title` says then and
  // how long the work has been running.
  Status Run(const std::string& id, Title title, std::chrono::milliseconds limit, Work work,
             KeyLocks::Guard& guard, const Call& call);

  // For a repeated call, before it takes the lock: waits for the work that an earlier call left behind.
  // Returns the work's error, once; kUnavailable as above; OK if the work succeeded or if there is none.
  Status Join(const std::string& id, const Call& call);

  // Stops the steps whose callers have left, and waits for their end. No call may be in Run, or come later.
  void Stop();

 private:
  class Task;

  Mutex mutex_;
  // Tasks whose caller has left, by volume id.
  std::map<std::string, std::shared_ptr<Task>> left_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
