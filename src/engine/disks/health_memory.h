// What the pools' disks last said of their health. Asked by poll_health.h, judged by model/failing_disks.h.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/failing_disks.h"
#include "udev/disk_health.h"

namespace quarry::engine {

// What the disks said when they were last asked, by PV UUID. In memory only: a start asks anew. Thread-safe.
class HealthMemory {
 public:
  // `tell` is called with what Weak() gives from then on, whenever that changes, one call at a time. It must
  // not ask this object.
  explicit HealthMemory(std::function<void(std::shared_ptr<const UnhealthyDisks>)> tell = nullptr)
      : tell_(std::move(tell)) {}

  struct Known {
    udev::DiskHealth health;
    DiskVerdict verdict;
  };
  // One that is as it was is none.
  struct Change {
    std::string pv;
    DiskState was = DiskState::kGood, is = DiskState::kGood;
    std::string words;
    std::optional<Error> silent;  // it does not answer, or not as it should; what it is, it stays
  };

  // Whom to ask.
  struct Round {
    std::map<std::string, std::string> nodes;  // by PV UUID; empty: it is away
    bool complete = true;                      // there are no others: what is known of others is forgotten
  };

  // Asks each disk on a thread of its own, for one that does not answer must not hold up the others; one that
  // owes an answer is not asked again. Waits for the answers until `call` ends, at most a minute; what comes
  // later is told by the next call.
  std::vector<Change> Ask(const std::shared_ptr<udev::DiskHealthApi>& api, const Round& round,
                          const Call& call);

  // A disk that fails by what the kernel got of it, whatever it says itself; until it is forgiven.
  void MarkFailing(const std::string& pv, std::string words);
  void ClearFailing(const std::string& pv);

  std::optional<Known> Of(const std::string& pv) const;
  std::shared_ptr<const UnhealthyDisks> Weak() const;  // the same object until something changes

 private:
  using Answer = Result<std::optional<udev::DiskHealth>>;
  // What the threads that ask share with us, and keep when we are gone.
  struct Asked {
    std::mutex mutex;
    std::condition_variable_any answered;
    std::set<std::string> open;
    std::map<std::string, Answer> answers;
  };

  static void AskOne(std::shared_ptr<udev::DiskHealthApi> api, std::shared_ptr<Asked> asked, std::string pv,
                     std::string node);
  std::optional<Change> Take(const std::string& pv, Answer answer);
  void Summarize();

  const std::function<void(std::shared_ptr<const UnhealthyDisks>)> tell_;
  const std::shared_ptr<Asked> asked_ = std::make_shared<Asked>();
  std::mutex asking_;  // one round at a time
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, Known> known_;
  std::map<std::string, std::string> silent_;  // errors that were told
  std::map<std::string, std::string> blamed_;
  std::shared_ptr<const UnhealthyDisks> weak_ = std::make_shared<const UnhealthyDisks>();
};

}  // namespace quarry::engine
