// A device that is suspended for as long as this object lives.
//
// To cut snapshots at one instant, the caller suspends all origins, sends the pool its messages, and resumes
// them. Writers to the devices wait meanwhile, so:
//
// - The time between the first Begin() and the last End() should be below 2 seconds. The caller puts that
//   into the deadline of its call, and checks the call before each message. A suspend that waits is not
//   interrupted: its file system is written back first, so call syncfs(2) on all of them before the first
//   Begin(). Several devices are suspended by a Suspensions, which does not wait with them.
// - The writes to a thin device wait for room if its pool is out of data space and does not fail writes. A
//   suspend waits for them, by default for a minute (docs/thin.md). Look at the pool first (DmApi::ThinPool).
// - Meanwhile the caller touches nothing that could lie on one of these devices, and allocates little: memory
//   may have to be written to them first.
// - A process that is killed leaves its devices suspended. The next start resumes them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "dm/dm_api.h"

namespace quarry::dm {

// Belongs to one thread. `dm` must outlive it.
class Suspension {
 public:
  // DmApi::Suspend. kPrecondition also if the device is suspended already: another program does something to
  // it, and would be disturbed by a resume. kTimeout, kCancelled: `call` ended before the device was
  // suspended; it is resumed then.
  static Result<Suspension> Begin(DmApi& dm, std::string uuid, FileSystemLock lock, const Call& call);

  Suspension(Suspension&& other) noexcept;
  Suspension& operator=(Suspension&& other) noexcept;
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;
  // Resumes, as a last resort. Tries several times, for about a second.
  ~Suspension();

  // Resumes. Nothing if that is done. After a failure it may be repeated, and the destructor tries again.
  Status End();

 private:
  Suspension(DmApi& dm, std::string uuid) : dm_(&dm), uuid_(std::move(uuid)) {}
  void EndInAnyCase();

  DmApi* dm_ = nullptr;  // nullptr: resumed
  std::string uuid_;
};

// Devices that are suspended together, for at most `limit`: then a thread of its own resumes them all, while
// the caller may still wait in a suspend. Without that both could wait for good. The file system on a second
// device is not frozen before a write to it has ended, and that write may need a page of a file on the first
// device, which is suspended: somebody copies from one to the other.
//
// The methods belong to one thread. `dm` must outlive it.
class Suspensions {
 public:
  // `most`: so many devices.
  Suspensions(DmApi& dm, std::chrono::milliseconds limit, size_t most);
  // Resumes, as a last resort, as the destructor of Suspension does.
  ~Suspensions() { Abandon(); }
  Suspensions(const Suspensions&) = delete;
  Suspensions& operator=(const Suspensions&) = delete;

  // As Suspension::Begin(). The limit counts from the first one. kTimeout also if it is over.
  Status Add(std::string uuid, FileSystemLock lock, const Call& call);
  // kTimeout: the limit is over, so the devices are not suspended any more.
  Status Check();
  // Resumes. OK only if all were suspended until then. After a failure call Abandon().
  Status End();
  // Resumes all in any case. Tries several times, for about a second each.
  void Abandon();

 private:
  void Watch(const std::stop_token& stop);
  Status CheckLimit() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  DmApi& dm_;
  const std::chrono::milliseconds limit_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<SteadyTime> until_ ABSL_GUARDED_BY(mutex_);  // since the first suspension
  bool late_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Suspension> suspended_ ABSL_GUARDED_BY(mutex_);
  std::jthread watcher_;  // last: it uses everything above
};

// Keeps what this process has in memory there, as long as it lives: reading it back from a disk could wait
// for a device that is suspended. Without effect where the process may not (mlockall(2)).
class LockedMemory {
 public:
  LockedMemory();
  ~LockedMemory();
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;
};

}  // namespace quarry::dm
