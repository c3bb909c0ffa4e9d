// Free extents that are known to read as zeroes, so that a volume may be made of them without showing
// anybody's old bytes. A memory, not a record: what is forgotten is cleared again, and nothing is ever taken
// for clear that is not known to be.
//
// Known is what this process has cleared, flushed and given back to the group, as long as nobody else can
// have had it since. To get at a free extent, somebody has to commit a change of the group, and every commit
// raises the group's sequence number by one. So while the number has risen by no more than our own commits,
// all is known that was.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/actions.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// For one group. Used under its pool's turn only, where also every commit of ours is made.
class ZeroedExtents {
 public:
  // The group as it is now. Forgets what is not free any more, and everything if somebody else has committed.
  void Look(const lvm::VolumeGroup& group);
  // Commits of ours, each of which has surely been made.
  void Committed(uint64_t commits) { commits_ += commits; }
  // Extents that are about to be given to somebody: whatever comes of it, their past is not known any more.
  void Forget(const std::vector<lvm::PhysicalRange>& ranges);
  // Extents that were cleared while an LV of ours held them, and of which that LV was removed since the last
  // Look.
  void Add(const std::vector<lvm::PhysicalRange>& ranges);

  // The parts of `ranges` that are not known to be clear, by PV, ascending.
  std::vector<lvm::PhysicalRange> Unknown(const std::vector<lvm::PhysicalRange>& ranges) const;

 private:
  std::string group_uuid_;
  std::optional<uint64_t> seqno_;                               // as of the last Look
  uint64_t commits_ = 0;                                        // ours since
  std::map<std::string, std::vector<lvm::ExtentRange>> clear_;  // by PV; ascending, disjoint, never adjacent
};

// The extents that a plan gives to a volume, those of metadata legs too or not: what it verifies afterwards.
// Empty if it gives none.
std::vector<lvm::PhysicalRange> ExtentsOf(const Plan& plan, bool metadata);

// Commits that LVM makes at least when it does this, if it succeeds.
uint64_t CommitsOf(const Action& action);

// What of `from` is not in `taken`, and what is in both. Both ascending and disjoint, so is the result.
std::vector<lvm::ExtentRange> Without(const std::vector<lvm::ExtentRange>& from,
                                      const std::vector<lvm::ExtentRange>& taken);
std::vector<lvm::ExtentRange> Common(const std::vector<lvm::ExtentRange>& a,
                                     const std::vector<lvm::ExtentRange>& b);

// Whether `lv`, as it is in `group`, lies on just these extents: what was cleared below it is still its own.
bool LiesOnJust(const lvm::VolumeGroup& group, const lvm::LogicalVolume& lv,
                const std::vector<lvm::PhysicalRange>& ranges);

// Ranges by PV: ascending, disjoint, never adjacent.
std::map<std::string, std::vector<lvm::ExtentRange>> ByPv(const std::vector<lvm::PhysicalRange>& ranges);

}  // namespace quarry::engine
