// Free extents that are known to read as zeroes. A new volume can use them without showing another tenant's
// old bytes. Forgotten extents are zeroed again, and no extent counts as zeroed without proof. An orderly
// restart of quarryd hands the knowledge on (pool/zeroed_file.h).
//
// An extent is known if this process has zeroed it, flushed it and returned it to the group, and no other
// process can have had it since. To get a free extent, a process must commit a change of the group, and
// every commit raises the group's sequence number by one. So while the number has risen by no more than the
// number of our own commits, all known extents stay known.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/actions.h"
#include "lvm/snapshot.h"

namespace quarry::engine {

// One object per group. It is used only under the pool's turn, except total(). Commits without the turn
// (repair/copy_job.h) are not counted, so they look like commits by another process.
class ZeroedExtents {
 public:
  // Takes in the group's current snapshot. Forgets extents that are no longer free, and all extents if
  // another process has committed.
  void Look(const lvm::VolumeGroup& group);
  // Adds commits that this process has certainly made.
  void Committed(uint64_t commits) { commits_ += commits; }
  // Forgets extents that are about to be allocated. Whatever happens then, their content is unknown.
  void Forget(const std::vector<lvm::PhysicalRange>& ranges);
  // Adds extents that were zeroed while a managed LV held them. Call it when that LV has been removed. The
  // last Look must have come before the removal.
  void Add(const std::vector<lvm::PhysicalRange>& ranges);

  // How many extents are known. From any thread; as of the last change of this object.
  Extents total() const { return {total_.load(std::memory_order_relaxed)}; }

  // All known extents, by PV, ascending.
  std::vector<lvm::PhysicalRange> Known() const;
  // The parts of `ranges` that are not known to be zeroed, by PV, ascending.
  std::vector<lvm::PhysicalRange> Unknown(const std::vector<lvm::PhysicalRange>& ranges) const;

 private:
  void Count();

  std::string group_uuid_;
  std::optional<uint64_t> seqno_;                               // as of the last Look
  uint64_t commits_ = 0;                                        // our own since then
  std::map<std::string, std::vector<lvm::ExtentRange>> clear_;  // by PV; ascending, disjoint, never adjacent
  std::atomic<uint64_t> total_ = 0;                             // in clear_
};

// The extents that a plan allocates to a volume, taken from its VerifyLayoutAction. `metadata`: include those
// of metadata legs. Empty if the plan allocates none.
std::vector<lvm::PhysicalRange> ExtentsOf(const Plan& plan, bool metadata);

// The least number of commits that LVM makes when this action succeeds.
uint64_t CommitsOf(const Action& action);

// Without: the parts of `from` outside `taken`. Common: the parts in both. Arguments and results are
// ascending and disjoint.
std::vector<lvm::ExtentRange> Without(const std::vector<lvm::ExtentRange>& from,
                                      const std::vector<lvm::ExtentRange>& taken);
std::vector<lvm::ExtentRange> Common(const std::vector<lvm::ExtentRange>& a,
                                     const std::vector<lvm::ExtentRange>& b);

// Ranges by PV: ascending, disjoint, never adjacent.
std::map<std::string, std::vector<lvm::ExtentRange>> ByPv(const std::vector<lvm::PhysicalRange>& ranges);

}  // namespace quarry::engine
