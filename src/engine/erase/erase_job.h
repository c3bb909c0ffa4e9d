// The clearing of one volume's bytes, or of those that are to be one's: which bytes of which disks, how far
// it is, and the words for that in a deleted volume's tags, so that a restart goes on there.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/plan/actions.h"
#include "engine/plan/proven_write.h"

namespace quarry::engine {

// What is to be cleared on one disk, from its start to its end.
struct DiskPart {
  std::string pv_uuid;
  std::string device;
  std::vector<EraseAction> pieces;  // ascending
  Bytes total() const;
};

// The pieces of a plan (PlanErase: erase actions only), disk by disk, in the order of their PV uuids. Pure.
std::vector<DiskPart> PartsOf(const Plan& erase);

// "<digest of the parts>:<bytes done of the first>:<…>": tag-safe. Pure.
std::string ProgressText(const std::vector<DiskPart>& parts, const std::vector<Bytes>& done);
// The bytes done of each part; all 0 if `text` is of other parts (the volume was moved since), or of nothing
// that makes sense. Pure.
std::vector<Bytes> ParseProgress(const std::vector<DiskPart>& parts, const std::string& text);

// Thread-safe but for what never changes.
class EraseJob {
 public:
  // `extents`: what reads as zeroes in the end, if that is how `parts` are cleared. `done`: what was cleared
  // before, for each part.
  EraseJob(Owner owner, std::vector<lvm::PhysicalRange> extents, std::vector<DiskPart> parts,
           std::vector<Bytes> done, SteadyTime begun);

  const Owner& owner() const { return owner_; }
  const std::vector<lvm::PhysicalRange>& extents() const { return extents_; }
  const std::vector<DiskPart>& parts() const { return parts_; }
  SteadyTime begun() const { return begun_; }

  // What is still to be cleared of a part: the next piece, or the rest of one, of at most `most`. nullopt:
  // the part is done, or another part has failed.
  std::optional<EraseAction> Next(size_t part, Bytes most) const;
  // It was cleared and flushed.
  void Advance(size_t part, Bytes cleared);
  void Fail(Error error);

  // No piece will be begun any more.
  bool Finished() const;
  // Until it is finished, or `call` ends; the former?
  bool WaitFinished(const Call& call);
  // Once it is finished: why not all is cleared; nullopt if all is.
  std::optional<Error> Failure() const;
  std::vector<Bytes> Done() const;

  // A disk's queue is done with one part: nothing more of it will be begun.
  void Leave();

 private:
  const Owner owner_;
  const std::vector<lvm::PhysicalRange> extents_;
  const std::vector<DiskPart> parts_;
  const SteadyTime begun_;
  mutable std::mutex mutex_;
  std::condition_variable_any left_;
  std::vector<Bytes> done_;
  size_t open_parts_;  // not left yet
  std::optional<Error> error_;
};

}  // namespace quarry::engine
