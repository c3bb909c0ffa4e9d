// The job of erasing one deleted volume, or of zeroing the extents that a volume will get: which bytes of
// which disks, and how far it is. A deleted volume's tag records the progress, so a restart continues there.
#pragma once

#include <condition_variable>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/plan/actions.h"
#include "engine/plan/proven_write.h"

namespace quarry::engine {

// The pieces on one disk, ordered from its start to its end.
struct DiskPart {
  std::string pv_uuid;
  std::string device;
  std::vector<EraseAction> pieces;  // ascending
  Bytes total() const;
};

// The pieces of a plan (PlanErase: erase actions only), disk by disk, in the order of their PV uuids. Pure.
std::vector<DiskPart> PartsOf(const Plan& erase);

// "<digest of the parts>:<bytes done of the first part>:<…>". Has only characters that a tag may have. Pure.
std::string ProgressText(const std::vector<DiskPart>& parts, const std::vector<Bytes>& done);
// The bytes done of each part. All 0 if `text` belongs to other parts (the volume was moved since), or is
// malformed. Pure.
std::vector<Bytes> ParseProgress(const std::vector<DiskPart>& parts, const std::string& text);

// Thread-safe.
class EraseJob {
 public:
  // `extents` read as zeroes after the job has succeeded, if the pieces of `parts` write zeroes. `done`: how
  // many bytes of each part are erased already.
  EraseJob(Owner owner, std::vector<lvm::PhysicalRange> extents, std::vector<DiskPart> parts,
           std::vector<Bytes> done, SteadyTime begun);

  const Owner& owner() const { return owner_; }
  const std::vector<lvm::PhysicalRange>& extents() const { return extents_; }
  const std::vector<DiskPart>& parts() const { return parts_; }
  SteadyTime begun() const { return begun_; }

  // What to write next on a part: at most `most` bytes of the first piece that is not done. nullopt: the part
  // is done, or any part has failed.
  std::optional<EraseAction> Next(size_t part, Bytes most) const;
  // Records that `cleared` more bytes of the part were erased and flushed.
  void Advance(size_t part, Bytes cleared);
  void Fail(Error error);

  // True if no further piece will be begun.
  bool Finished() const;
  // Waits until the job is finished or `call` ends. True: it is finished.
  bool WaitFinished(const Call& call);
  // Why the job does not erase everything, as soon as that is certain. nullopt, once it is finished: it
  // erased everything.
  std::optional<Error> Failure() const;
  std::vector<Bytes> Done() const;

  // A disk's queue calls this when it is done with one part and begins no further piece of it.
  void Leave();

 private:
  const Owner owner_;
  const std::vector<lvm::PhysicalRange> extents_;
  const std::vector<DiskPart> parts_;
  const SteadyTime begun_;
  mutable Mutex mutex_;
  std::condition_variable_any left_;
  std::vector<Bytes> done_ ABSL_GUARDED_BY(mutex_);
  size_t open_parts_ ABSL_GUARDED_BY(mutex_);  // parts whose queue has not called Leave yet
  std::optional<Error> error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
