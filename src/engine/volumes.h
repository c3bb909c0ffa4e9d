// What orchestrators ask for: the life of volumes, and their use on this node. Every call is idempotent and
// keeps its deadline. The next start finishes or undoes everything that a call left unfinished. A volume has
// one operation at a time. A second call gets kBusy; a patient call waits, and gets kUnavailable at its
// deadline.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/path.h"
#include "base/result.h"
#include "base/units.h"
#include "engine/model/volume.h"
#include "engine/model/volume_requests.h"

namespace quarry::engine {

struct CreateResult {
  Volume volume;
  bool created = false;  // false: it already existed
};

struct DeleteResult {
  bool deleted = false;  // false: it did not exist
};

struct ValidateRequest {
  std::string id;
  std::vector<Capability> capabilities;
  Parameters parameters;                       // empty: not validated
  std::map<std::string, std::string> context;  // empty: not validated
};

struct ValidateResult {
  bool confirmed = false;
  std::string message;  // why it is not confirmed
};

// What a list contains.
enum class Show {
  kFacts,   // the facts of each volume
  kHealth,  // the facts and the health
  kAiling,  // the facts and the health, of volumes with ailments only
};

struct ListResult {
  std::vector<Volume> volumes;
  std::string next_token;  // empty: the list is complete
};

struct CapacityResult {
  Bytes available;     // the largest single volume that can be made now (docs/capacity.md has the reason)
  Bytes maximum_size;  // the same number, for callers that read this field
  Bytes minimum_size;  // smallest size that a request may be limited to
  std::string reason;  // why available is 0, for the log; else empty
};

struct ExpandResult {
  Bytes size;
  bool node_expansion_required = false;
};

struct VolumeStats {
  Bytes total;
  // Unknown for a raw block volume.
  std::optional<Bytes> used;
  std::optional<Bytes> available;
  std::optional<uint64_t> inodes_total, inodes_used, inodes_free;
  std::optional<Health> health = {};  // if the caller asked for it
};

struct NodeExpandRequest {
  std::string id;
  std::string volume_path;  // not parsed: an unknown volume is reported before an invalid path
  std::string staging_path;
  CapacityRange range;
};

struct Parts;  // calls/parts.h

// All methods may be called from any thread.
class Volumes {
 public:
  // `parts` must outlive this object. For a volume of another realm, calls return the error of
  // CheckRealm (model/catalog.h), and a list omits it. Its name is taken (kAlreadyExists).
  explicit Volumes(Parts& parts, Realm realm = Realm::kVolumes) : parts_(parts), realm_(realm) {}

  // Delete, Validate, Get and Expand return kPrecondition for a volume that is not here and whose id names
  // another node: this node cannot know whether the volume still exists (Node::CheckNotElsewhere).
  Result<CreateResult> Create(const CreateRequest& request, const Call& call);
  Result<DeleteResult> Delete(const std::string& id, const Call& call);
  // Whether the disks of the volume give its data (model/volume_health.h).
  Result<LossVerdict> JudgeLoss(const std::string& id, const Call& call);
  // Deletes a volume for which JudgeLoss says kLost, also at the last moment: kUnavailable if a disk is then
  // about to be taken back, kPrecondition if it lacks none.
  Result<DeleteResult> DeleteLost(const std::string& id, const Call& call);
  // OK if no volume of this realm has the id: Delete would find nothing. Changes nothing. kPrecondition: it
  // exists, or is not proven to be gone.
  Status ProveGone(const std::string& id, const Call& call);
  Result<ValidateResult> Validate(const ValidateRequest& request, const Call& call);
  // OK if the volume was made with these parameters, those of Create. It may have any value for a parameter
  // that is not named. kInvalidArgument names a parameter that does not exist or differs.
  Status CompareProfile(const std::string& id, const Parameters& parameters, const Call& call);
  // max_entries 0: all. kStaleToken: this quarryd did not issue the token. kUnavailable while a pool cannot
  // be read: a list without its volumes would mean that they no longer exist.
  Result<ListResult> List(uint32_t max_entries, const std::string& token, const Call& call,
                          Show show = Show::kFacts);
  Result<Volume> Get(const std::string& id, const Call& call, Show show = Show::kFacts);
  // Never fails because of a profile. A profile that cannot be served has capacity 0 and a reason; so has a
  // pool that is known not to serve. Returns an error only if the pool could not be read in time.
  Result<CapacityResult> Capacity(const std::vector<Capability>& capabilities, const Parameters& parameters,
                                  const Call& call);
  Result<ExpandResult> Expand(const std::string& id, const CapacityRange& range,
                              const std::optional<Capability>& capability, const Call& call);

  // mkfs, fsck and giving many files to a group go on when `call` ends. The call then returns kUnavailable
  // and how long the step has been running. A repeated Stage or Publish waits for the step; other operations
  // on the volume are kBusy meanwhile.
  Status Stage(const StageRequest& request, const Call& call);
  // Works while the group cannot be read: device-mapper proves that the mount belongs to this volume.
  Status Unstage(const std::string& id, const AbsolutePath& staging_path, const Call& call);
  Status Publish(const PublishRequest& request, const Call& call);
  // Publishes an inline volume (calls/inline_volumes.cc), and creates it if this handle has none yet. Only
  // this call, Unpublish and Stats know inline volumes. kInvalidArgument: not permitted, read-only, raw, or
  // larger than the limit. kAlreadyExists: the handle has an inline volume with other properties, or a volume
  // has this name.
  Status PublishEphemeral(const EphemeralRequest& request, const Call& call);
  // Works while the group cannot be read, as Unstage does. Deletes an inline volume, as Delete would, once it
  // is published at no target any more. While pools that may have the inline volume cannot be read, it is
  // only unmounted; it is deleted when they are back (calls/parts.h).
  Status Unpublish(const std::string& id, const AbsolutePath& target_path, const Call& call,
                   TargetOwner target_owner = TargetOwner::kPlugin);
  // kNotFound: the volume is unknown, or is not at `volume_path`. A path that is malformed or does not exist
  // gives kNotFound too.
  Result<VolumeStats> Stats(const std::string& id, const std::string& volume_path, const Call& call,
                            Show show = Show::kFacts);
  // Grows the file system to the size of its volume. Where the node grows logical volumes, it first grows the
  // logical volume to `required`, if that is set and larger than the volume. If the logical volume cannot
  // grow and the volume is published, the error is that of Expand, and the caller tries again. If the volume
  // is only staged, the error is kPrecondition, and the caller goes on with the present size.
  Result<Bytes> NodeExpand(const NodeExpandRequest& request, const Call& call);

 private:
  Result<DeleteResult> DeleteIf(const std::string& id, bool lost, const Call& call);

  Parts& parts_;
  const Realm realm_;
};

}  // namespace quarry::engine
