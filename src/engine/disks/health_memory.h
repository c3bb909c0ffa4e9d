// The last health report of each disk of the pools. poll_health.cc polls the disks, model/failing_disks.h
// judges the reports.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "engine/model/failing_disks.h"
#include "udev/disk_health.h"

namespace quarry::engine {

// The last health reports, by PV UUID. In memory only: a start polls the disks again. Thread-safe.
class HealthMemory {
 public:
  // `tell` is called with the new result of Weak() whenever it changes, one call at a time. It must not call
  // this object.
  explicit HealthMemory(std::function<void(std::shared_ptr<const UnhealthyDisks>)> tell = nullptr)
      : tell_(std::move(tell)) {}

  struct Known {
    udev::DiskHealth health;
    DiskVerdict verdict;
  };
  // A change of a disk's state, or of the reason why its health is unavailable. Unchanged disks are not
  // reported.
  struct Change {
    std::string pv;
    DiskState was = DiskState::kGood, is = DiskState::kGood;
    std::string words;
    std::optional<Error> silent;  // why the health is unavailable; the disk keeps its state meanwhile
  };

  // The disks to poll.
  struct Round {
    std::map<std::string, std::string> nodes;  // device nodes by PV UUID; empty: the disk is missing
    bool complete = true;                      // `nodes` has all disks: the state of other disks is forgotten
  };

  // Polls each disk on its own thread, so that a disk that does not answer delays no other disk. A disk with
  // an outstanding answer is not polled again. Waits for the answers until `call` ends, at most a minute. The
  // next call reports answers that arrive later.
  std::vector<Change> Ask(const std::shared_ptr<udev::DiskHealthApi>& api, const Round& round,
                          const Call& call);

  // Forgets all reports: nothing polls the disks any more, so a report would stand for ever. The marks of
  // MarkFailing stay. Not while Ask() runs.
  void ForgetReports();

  // Marks a disk as failing because the kernel keeps getting errors from it, whatever the disk reports
  // itself. Lasts until ClearFailing.
  void MarkFailing(const std::string& pv, std::string words);
  void ClearFailing(const std::string& pv);

  std::optional<Known> Of(const std::string& pv) const;
  std::shared_ptr<const UnhealthyDisks> Weak() const;  // the unhealthy disks; the same object until a change

 private:
  using Answer = Result<std::optional<udev::DiskHealth>>;
  // Shared with the polling threads, which keep it when this object is destroyed.
  struct Asked {
    Mutex mutex;
    std::condition_variable_any answered;
    std::set<std::string> open ABSL_GUARDED_BY(mutex);
    std::map<std::string, Answer> answers ABSL_GUARDED_BY(mutex);
  };

  std::optional<Change> Take(const std::string& pv, Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Summarize() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void(std::shared_ptr<const UnhealthyDisks>)> tell_;
  const std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  Mutex asking_;  // one round at a time
  mutable Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);
  // Errors that were reported, by PV UUID.
  std::map<std::string, std::string> silent_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> blamed_ ABSL_GUARDED_BY(mutex_);  // reasons of MarkFailing, by PV UUID
  std::shared_ptr<const UnhealthyDisks> weak_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const UnhealthyDisks>();
};

}  // namespace quarry::engine
