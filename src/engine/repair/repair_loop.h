// Has done what plan_repair.h plans: looks at the disks and legs of every pool, takes disks back, rebuilds
// legs, reduces groups. What it remembers is only since when a disk is away and what was tried in vain; the
// truth is in LVM and the kernel, so that whatever a crash interrupts is planned anew.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/disks/health_memory.h"
#include "engine/erase/erasers.h"
#include "engine/pool/node.h"
#include "engine/repair/plan_repair.h"
#include "engine/repair/plan_scrub.h"

namespace quarry::engine {

// Thread-safe; one round at a time.
class RepairLoop {
 public:
  // What it is given outlives it.
  RepairLoop(Node& node, Erasers& erasers, HealthMemory& healths, Scrubs& scrubs)
      : node_(node), erasers_(erasers), healths_(healths), scrubs_(scrubs) {}

  // Looks at every pool and does what is due. `accepted`: ids of volumes that a person wants started from the
  // legs that are there.
  RepairReport Round(RepairCause cause, const std::set<std::string>& accepted, const Call& call);
  // Breaks off what is being copied, which goes on after the next start. Nothing may be done afterwards.
  void Stop();

 private:
  struct Patience {
    SteadyTime next;
    std::chrono::milliseconds delay{0};
    int times = 0;
  };

  // Extents that are being copied for a disk that is to leave, on a thread of its own: that may take hours,
  // in which other volumes are looked after.
  struct Copy {
    Copy(RepairStep copied, Node& node);
    const RepairStep step;
    Status result = Ok();  // the thread's until `done`
    std::atomic<bool> done = false;
    std::jthread thread;  // last: everything above exists before it runs
  };
  void CollectCopy(const Pool& pool, const Call& call, RepairReport& report);
  void Tell(const Pool& pool, const RepairStep& step, RepairReport& report);

  void RepairPool(Pool& pool, RepairCause cause, const std::set<std::string>& accepted, const Call& call,
                  RepairReport& report);
  // Everything that PlanRepair wants to know, of the group as it is now.
  Result<VolumeView> LookAt(const Record& record, const RaidReport& raid, RepairCause cause, bool disks,
                            RepairReport& report);
  Result<RepairView> Look(Pool& pool, const Catalog& catalog, RepairCause cause, RepairReport& report);
  // Since when disks are away, which the eraser is told too.
  void NoteDisks(Pool& pool, const Catalog& catalog);
  // What failed of the absence of a disk that is back is held neither against it nor against its volumes.
  void ClearFailures(const Catalog& catalog, const lvm::PhysicalVolume& pv);
  // Disks on which legs fail again and again get nothing new.
  void NoteFailures(const Pool& pool, const RepairView& view);
  // The condition in a word.
  std::string NoteHealth(const Pool& pool, const std::string& id, const Health& health);
  bool IsDue(const std::string& key, RepairCause cause, RepairReport& report);
  void PutOff(const std::string& key, std::chrono::milliseconds first);
  void Failed(const std::string& key, const std::string& what, const Pool& pool, const Error& error,
              const Call& call, RepairReport& report);
  // Whether there may be another step in this round.
  bool AfterStep(const Pool& pool, const RepairStep& step, const Status& done, const Call& call,
                 RepairReport& report);
  void AfterEvacuation(const Pool& pool, const Status& done, const Call& call, RepairReport& report);
  void AfterScrub(const Pool& pool, const RepairStep& step, const Status& done, const Call& call,
                  RepairReport& report);
  std::optional<RepairStep> NextScrub(const Pool& pool, const RepairView& view);
  void TellOfLost(const Pool& pool, const std::vector<std::string>& lost);
  Status Do(Pool& pool, const RepairStep& step, const Call& call, RepairReport& report);

  Node& node_;
  Erasers& erasers_;
  HealthMemory& healths_;
  Scrubs& scrubs_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, SteadyTime> missing_since_;                       // by PV uuid
  std::map<std::string, SteadyTime> blamed_since_;                        // likewise
  std::map<std::string, std::map<std::string, std::string>> conditions_;  // by pool and volume id
  // By volume id, "pool:<name>", "return:<PV uuid>", "leaving:<pool>", "abandon:<pool>", "rate:<pool>",
  // "scrub:<volume id>".
  std::map<std::string, Patience> tried_;
  std::map<std::string, std::string> told_;              // by pool: obstacles that were logged
  std::map<std::string, std::unique_ptr<Copy>> copies_;  // by pool
};

}  // namespace quarry::engine
