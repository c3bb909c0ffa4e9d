// Has done what mending.h plans: looks at the disks and legs of every pool, takes disks back, rebuilds legs,
// reduces groups. What it remembers is only since when a disk is away and what was tried in vain; the truth
// is in LVM and the kernel, so that whatever a crash interrupts is planned anew.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/mending.h"
#include "engine/state.h"

namespace quarry::engine {

// Thread-safe; one round at a time.
class Mender {
 public:
  // `state` outlives it.
  explicit Mender(Engine::State& state) : state_(state) {}

  // Looks at every pool and does what is due.
  MendReport Round(MendCause cause, const Call& call);

 private:
  struct Patience {
    SteadyTime next;
    std::chrono::milliseconds delay{0};
  };

  void MendPool(Pool& pool, MendCause cause, const Call& call, MendReport& report);
  // Everything that PlanMending wants to know, of the group as it is now.
  Result<MendVolume> LookAt(const Record& record, const RaidWord& raid, MendCause cause, bool disks,
                            MendReport& report);
  Result<MendView> Look(Pool& pool, const Catalog& catalog, MendCause cause, MendReport& report);
  void NoteDisks(const Pool& pool, const lvm::VolumeGroup& group);
  // The condition in a word.
  std::string NoteHealth(const Pool& pool, const std::string& id, const Health& health);
  bool IsDue(const std::string& key, MendCause cause, MendReport& report);
  void PutOff(const std::string& key, std::chrono::milliseconds first);
  Status Do(Pool& pool, const MendStep& step, const Call& call, MendReport& report);

  Engine::State& state_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::string, SteadyTime> missing_since_;                       // by PV uuid
  std::map<std::string, std::map<std::string, std::string>> conditions_;  // by pool and volume id
  std::map<std::string, Patience> tried_;                                 // by volume id, or "pool:<name>"
  std::map<std::string, std::string> told_;  // by pool: obstacles that were logged
};

}  // namespace quarry::engine
