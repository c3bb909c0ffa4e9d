// Plans scrubs: which legs of RAID volumes are to be compared, which scrub is running, and the next step. A
// scrub finds data that a disk returned wrong without an error. The kernel compares and announces the end, so
// quarryd does not poll. A tag of the volume records when it was last scrubbed, and the result.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/repair/plan_repair.h"

namespace quarry::engine {

// Why the legs of a volume cannot be compared, now or ever; empty if they can. Pure.
std::string WhyNoScrub(const RepairView& view, const VolumeView& volume);

struct ScrubTimes {
  std::chrono::sys_seconds now;
  std::chrono::seconds interval{0};  // 0: scrubs only on request
  bool may_begin = true;             // whether a scheduled scrub may begin at this hour
};

// Thread-safe. Its memory need not survive a restart: the administrator repeats the request, and the kernel
// shows running scrubs.
class Scrubs {
 public:
  // Records a request. `repair`: also repair differences.
  void Want(const std::string& id, bool repair);
  // Whether a scrub is requested or running.
  bool IsPending(const std::string& id) const;
  // Whether a scrub is running as far as is known, so its device must be looked at.
  bool IsRunning(const std::string& id) const;

  // Updates the running scrubs of a pool. Call it before any repair step, because a repaired volume looks
  // healthy again. Adds to `lost` a message for the log for each scrub that was aborted; so does Next.
  void Look(const RepairView& view, std::vector<std::string>& lost);
  // The next step, one volume at a time; nullopt if there is none now. Requested scrubs come first, then the
  // volume that has waited longest.
  std::optional<RepairStep> Next(const RepairView& view, const ScrubTimes& times,
                                 std::vector<std::string>& lost);
  // Takes the result of a step from Next: it was executed, or failed. A scrub that did not begin is not
  // wanted any more; an outcome that was not recorded is recorded later.
  void Note(const RepairStep& step, bool executed);

 private:
  struct Wish {
    std::string id;
    bool repair;
  };
  struct Running {
    bool repair = false;
    std::optional<uint64_t> instance = {};    // of the device; set by the first Look
    std::vector<lvm::Segment> segments = {};  // where the legs lie; set by the first Look
  };
  std::optional<RepairStep> Begin(const RepairView& view, const ScrubTimes& times,
                                  std::vector<std::string>& lost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Wish> wanted_ ABSL_GUARDED_BY(mutex_);                // in the order of the requests
  std::map<std::string, Running> running_ ABSL_GUARDED_BY(mutex_);  // by volume id
};

}  // namespace quarry::engine
