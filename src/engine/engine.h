// A volume's life. Every call is idempotent, keeps its deadline, and leaves nothing half-done that the next
// start does not finish or undo. One operation per volume at a time (kBusy otherwise; a patient call waits,
// and gets kUnavailable if it waits in vain); one writer per volume group, first come first served. All
// methods may be called from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/types.h"
#include "engine/world.h"

namespace quarry::engine {

// What is done about a file system before it is mounted: nothing, for journals replay by mounting; or what is
// safe to repair unasked.
enum class Fsck { kOff, kPreen };

// Which call grows a volume's logical volume: ControllerExpandVolume, or NodeExpandVolume, for orchestrators
// that send the former to any node (Kubernetes' external-resizer).
enum class ExpandBy { kController, kNode };

struct EngineConfig {
  std::vector<PoolConfig> pools;  // at least one; the first is the default
  // This node's id, by which the ids of new volumes name it. Empty: they do not.
  std::string node;
  Bytes extent_size{4 * 1024 * 1024};  // of groups that are made
  Bytes default_size = kGiB;           // when a request names no size
  // Publishing a single-node volume at several targets of this node: several pods of one node may share a
  // volume. csi-spec section 7 would have it refused; Kubernetes needs it.
  bool several_targets = true;
  // Bytes a second that a disk is cleared at, at most, after volumes were deleted. 0: as fast as it goes.
  Bytes erase_rate;
  Fsck fsck = Fsck::kOff;
  ExpandBy expand = ExpandBy::kController;
  // The largest size of an inline volume, where no pool says what it gives. 0: there are none, because
  // whoever may make a pod may ask for one.
  Bytes ephemeral_max_size;
  // Whether lost legs are rebuilt on other disks, and groups reduced, unasked; and how long a disk must have
  // been away for that. What comes back is taken back in any case.
  bool repair = true;
  std::chrono::milliseconds repair_delay = std::chrono::minutes(10);
  // How long after they were made, or last compared, the legs of raid volumes are compared unasked, and at
  // which hours of the day that may begin, in local time: from `first` until before `last`, which may be the
  // next day's. An interval of 0: never.
  std::chrono::seconds scrub_interval{0};
  struct Hours {
    uint32_t first = 0;
    uint32_t last = 24;
  };
  Hours scrub_hours;
  // Bytes a second that each leg of a raid volume is filled or compared with at most, whole KiB; 0: only the
  // kernel's own limits. nullopt: whatever LVM's metadata say of each volume.
  std::optional<Bytes> rebuild_rate;
  // With as many commands stuck in the kernel, the node is not healthy (Probe).
  size_t stuck_limit = 4;
};

class Engine {
 public:
  // `world` must outlive the engine. Starts no thread and touches nothing yet.
  Engine(EngineConfig config, World world, const Logger& log);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Finishes or undoes what an earlier process left half-done of a pool, takes its holds again, then starts
  // its eraser and serves it. While that runs for the first time calls for the pool wait for it; once it has
  // failed they are kUnavailable, saying why, until a repetition succeeds. Other pools, and taking volumes
  // from where they are mounted, do not depend on it. kInvalidArgument: no such pool. A pool that is served:
  // OK.
  Status StartPool(const std::string& name, const Call& call);
  // The same for one pool after the other, whatever becomes of each; the first error.
  Status Start(const Call& call);
  // Refuses new calls (kUnavailable), waits for those in flight until the deadline, stops the erasers and
  // what callers left behind (mkfs, fsck). kTimeout if some were still running.
  Status Stop(const Call& call);

  // Ready while any pool serves, with the reasons of those that do not. None does: not ready while one
  // starts, else an error, kPrecondition mostly, naming what is missing (tool, kernel target, volume group),
  // or which commands are stuck in the kernel, once there are too many of them.
  Result<Readiness> Probe(const Call& call);

  // How the pools stand, for monitoring. One that does not serve is there with the reason.
  Result<std::vector<PoolFigures>> Pools(const Call& call);

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
  // Publishes an inline volume (ephemeral.cc), and makes it if there is none of this handle. It is no volume
  // for any call but this one, Unpublish and Stats. kInvalidArgument: not permitted, read-only, raw, or more
  // than the limit. kAlreadyExists: there is one of this handle with other properties, or a volume of this
  // name.
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

  // Has the mounted file systems tell the disks which blocks they no longer use (FITRIM), piece by piece. A
  // volume with another operation in flight is passed over for that piece; one whose disks take no discards
  // counts for nothing. kCancelled once `call` is stopped.
  Result<TrimResult> Trim(const Call& call);

  // Every pool with its disks and volumes, and how they are (listing.cc).
  Result<std::vector<PoolStatus>> NodeStatus(const Call& call);

  // Looks how disks and legs are, and mends what can be mended (mender.h); one line in the log for each
  // change of a volume's condition. Another round that is under way is waited for. `accepted`: ids of volumes
  // that a person wants started from the legs that are there, though others may be newer (reviving.h).
  // kNotFound: there is none of such an id; nothing was done.
  Result<MendReport> Mend(MendCause cause, const Call& call, const std::set<std::string>& accepted = {});

  // Asks the pools' disks how they are (disk_health.h), and logs what has changed: whether anything has.
  // Waits for those that do not answer until `call` ends; what they are believed to be does not change
  // meanwhile.
  Result<bool> AskDisks(const Call& call);

  // Has a disk emptied and taken out of its group, or calls that off: from then on it gets no more extents,
  // and the mender moves what is there elsewhere (evacuate.cc). Repeated, also after a restart, it goes on.
  // kNotFound: no pool has it. kNoSpace, saying by how much. kPrecondition: it is the last one, missing, or
  // holds what is not ours. kUnsupported: the kernel cannot.
  Result<EvacuateResult> Evacuate(const EvacuateRequest& request, const Call& call);
  // Has the legs of raid volumes compared, one volume of a pool at a time (scrubbing.h); NodeStatus shows how
  // far that is, and what came of it. Forgotten at the end of the process. kNotFound: no such volume.
  // kInvalidArgument: it has no second leg.
  Result<std::vector<ScrubAnswer>> Scrub(const ScrubRequest& request, const Call& call);
  // `tell` is called, from any thread, when there is something for Mend to do that no event of the kernel's
  // tells of. An empty one ends that.
  void OnWork(std::function<void()> tell);

  // Adoption (adoption.cc); `group` and names as LVM has them. A repetition finds it done.
  // kPrecondition: it is in use, or is or holds what cannot be taken over, in words. kAlreadyExists: its
  // name is another volume's. kNotFound: no pool has that group, or the group no such logical volume.
  Result<AdoptResult> Adopt(const AdoptRequest& request, const Call& call);
  // kPrecondition while it is staged, published, or open for anybody.
  Result<ReleaseResult> Release(const std::string& id, bool dry_run, const Call& call);
  // The group's logical volumes that are not ours and might become so, by name.
  Result<std::vector<ForeignLv>> Foreign(const std::string& group, const Call& call);

  // Every disk of the node, and why it is or is not a pool's (disks.cc). Answered also while the engine
  // has not started, because why it cannot may be just this. kUnsupported: they cannot be listed.
  Result<std::vector<DeviceReport>> Devices(const Call& call);
  // Takes the disks that rules of the pools want and that are proven blank and unused: how many. One that
  // cannot be taken is logged. A start does it too; this is for disks that come later.
  Result<size_t> ClaimDisks(const Call& call);

  struct State;  // engine/state.h, for this room only

 private:
  std::unique_ptr<State> state_;
};

}  // namespace quarry::engine
