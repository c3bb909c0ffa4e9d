// Comparing the legs of raid volumes with each other, which finds what a disk has given back wrong without
// saying so: what is wanted, what goes on, and the next step. The kernel compares, and nothing is polled: it
// tells of the end. When a volume was last compared, and what came of it, is in a tag of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/types.h"
#include "engine/repair/plan_repair.h"

namespace quarry::engine {

// Why the legs of a volume cannot be compared, now or at all; empty: they can. Pure.
std::string WhyNoScrub(const RepairView& view, const VolumeView& volume);

struct ScrubTimes {
  std::chrono::sys_seconds now;
  std::chrono::seconds interval{0};  // 0: only what is asked for
  bool may_begin = true;             // unasked, at this hour
};

// Thread-safe. What it remembers need not survive: who asked asks again, and what the kernel is at is seen.
class Scrubs {
 public:
  // `repair`: and write anew what differs.
  void Want(const std::string& id, bool repair);
  // Wanted, or going on.
  bool IsPending(const std::string& id) const;
  // Going on, as far as is known: its device is to be looked at.
  bool IsRunning(const std::string& id) const;

  // How what goes on is now, in a pool: before anything is done about it, for what is mended afterwards looks
  // well again. Words for the log, of what was broken off, are added to `lost`, by Next too.
  void Look(const RepairView& view, std::vector<std::string>& lost);
  // The next step, one volume at a time; nullopt: none now. What was asked for comes first, then what has
  // waited longest.
  std::optional<RepairStep> Next(const RepairView& view, const ScrubTimes& times,
                                 std::vector<std::string>& lost);
  // Of a step of Next's: it was taken, or failed.
  void Began(const RepairStep& step);
  void Recorded(const RepairStep& step);
  void Failed(const RepairStep& step);

 private:
  struct Wish {
    std::string id;
    bool repair;
  };
  struct Running {
    bool repair = false;
    std::optional<uint64_t> instance = {};    // of the device, once it was looked at
    std::vector<lvm::Segment> segments = {};  // where the legs are; likewise
  };
  std::optional<RepairStep> Begin(const RepairView& view, const ScrubTimes& times,
                                  std::vector<std::string>& lost);

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<Wish> wanted_;                // as they were made
  std::map<std::string, Running> running_;  // by volume id
};

}  // namespace quarry::engine
