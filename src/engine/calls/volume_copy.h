// Makes one copy, from the new logical volume to the ready volume. copy.cc decides which copies are made.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "engine/calls/steps.h"

namespace quarry::engine {

// A copy takes as long as its disks need.
inline constexpr std::chrono::hours kLongestCopy{24 * 30};

struct VolumeCopy {
  Parts& parts;
  Pool& pool;
  CreateWish wish;
  CapacityRange range;
  Found source;
  Bytes length;          // bytes to copy
  std::string store;     // name of the temporary store; empty: the source is not in use
  std::string what;      // "CreateVolume of 'x'"
  bool goes_on = false;  // the logical volume is there: an earlier process began to fill it
  std::shared_ptr<std::atomic<uint64_t>> done = std::make_shared<std::atomic<uint64_t>>(0);
};

// The key of the copy among the background steps: a call with another source is another request.
std::string CopyKey(const CopyRequest& request);
// What the copy is and how far it is, for callers that wait for it.
BackgroundSteps::Title CopyTitle(const VolumeCopy& job);

// Gives the file system on a new volume a UUID of its own. `alone`: the volume, if it is open exclusively,
// which the tools of file systems do not bear. They get a path. The volume is open all the time, so that no
// process can deactivate it and the path become that of another one; the result is what keeps it open.
Result<UniqueFd> ChangeUuid(Parts& parts, const std::string& fs_type, const std::string& dm_uuid,
                            UniqueFd alone, const Call& call);

// Of a source that is in use, before anything is made: whether there is room for a temporary store now.
Status CheckRoomForStore(const VolumeCopy& job, const Call& call);

// Makes the new volume, or takes up the unfinished one, fills it, and turns it into a ready one. The caller
// keeps the eraser from the new volume (Copying), and has registered the source (CopySources), as long as
// this runs. Takes the turns of the pools itself.
Result<Volume> RunCopy(const VolumeCopy& job, const Call& call);

}  // namespace quarry::engine
