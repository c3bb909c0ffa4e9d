// What orchestrators ask for: the life of volumes, and their use on this node. Every call is idempotent,
// keeps its deadline, and leaves nothing half-done that the next start does not finish or undo. One operation
// per volume at a time (kBusy otherwise; a patient call waits, and gets kUnavailable if it waits in vain).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/config.h"
#include "engine/model/types.h"

namespace quarry::engine {

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Volumes {
 public:
  // `parts` outlives it.
  explicit Volumes(Parts& parts) : parts_(parts) {}

  // Delete, Validate, Get and Expand of a volume that is not here, and whose id names another node, are
  // kPrecondition: nobody can say from here whether it is gone (other_node.h).
  Result<CreateResult> Create(const CreateRequest& request, const Call& call);
  Result<DeleteResult> Delete(const std::string& id, const Call& call);
  Result<ValidateResult> Validate(const ValidateRequest& request, const Call& call);
  // max_entries 0: all. kStaleToken for a token that is not ours. kUnavailable while a pool cannot be read: a
  // list without its volumes would say that they are gone.
  Result<ListResult> List(uint32_t max_entries, const std::string& token, const Call& call,
                          Show show = Show::kFacts);
  Result<Volume> Get(const std::string& id, const Call& call, Show show = Show::kFacts);
  // Never fails for a profile: what cannot be served has capacity 0 and a reason, as has a pool that is known
  // not to serve. An error only if the pool could not be looked at in time.
  Result<CapacityResult> Capacity(const std::vector<Capability>& capabilities, const Parameters& parameters,
                                  const Call& call);
  Result<ExpandResult> Expand(const std::string& id, const CapacityRange& range,
                              const std::optional<Capability>& capability, const Call& call);

  // mkfs, fsck and giving many files to a group go on when `call` ends: kUnavailable, telling since when.
  // A repetition, of Stage or Publish, waits for them; other operations on the volume are kBusy meanwhile.
  Status Stage(const StageRequest& request, const Call& call);
  // Needs no group that can be read: what is mounted there is proven by device-mapper to be this volume's.
  Status Unstage(const std::string& id, const AbsolutePath& staging_path, const Call& call);
  Status Publish(const PublishRequest& request, const Call& call);
  // Publishes an inline volume (inline_volumes.cc), and makes it if there is none of this handle. It is no
  // volume for any call but this one, Unpublish and Stats. kInvalidArgument: not permitted, read-only, raw,
  // or more than the limit. kAlreadyExists: there is one of this handle with other properties, or a volume of
  // this name.
  Status PublishEphemeral(const EphemeralRequest& request, const Call& call);
  // As Unstage. Ends an inline volume, as Delete would, once it is at no target any more; while pools that
  // may have it cannot be read it is only unmounted, and ended when they are back (LeftBehind).
  Status Unpublish(const std::string& id, const AbsolutePath& target_path, const Call& call,
                   TargetOwner target_owner = TargetOwner::kPlugin);
  // Path as given: kNotFound for an unknown volume or a path where the volume is not, whatever the path looks
  // like.
  Result<VolumeStats> Stats(const std::string& id, const std::string& volume_path, const Call& call,
                            Show show = Show::kFacts);
  // Grows the file system to its volume; with ExpandBy::kNode the logical volume first, to `required`, if
  // that is said and more than it has. What keeps it from growing then is told as by Expand if the volume is
  // published: it is tried again. If it is only staged, it is kPrecondition: the caller goes on with the size
  // that there is.
  Result<Bytes> NodeExpand(const NodeExpandRequest& request, const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
