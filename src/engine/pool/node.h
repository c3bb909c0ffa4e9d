// What the rooms above share: configuration, seams, the pools at work, locks, and the lookups that all calls
// need. Nothing here has to survive a restart; the truth is in LVM and the kernel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/stack.h"
#include "engine/model/volume.h"
#include "engine/pool/gate.h"
#include "engine/pool/locks.h"
#include "engine/pool/pool.h"
#include "engine/pool/volume_notes.h"
#include "engine/raid/stopped_array.h"
#include "engine/world.h"
#include "lvm/names.h"

namespace quarry::engine {

// The kernel's report on the legs of a RAID volume.
struct RaidReport {
  std::optional<dm::RaidStatus> status;  // nullopt: no RAID volume, not active, or unrecognized
  std::string unrecognized;              // the unrecognized status
};

// How long a call waits for a pool that it is not for.
inline constexpr std::chrono::milliseconds kOthersPatience{2000};
// Limit for reading one group if the call cannot answer without it.
inline constexpr std::chrono::milliseconds kLongLook{10'000};
// Limit for undoing what a failed step left. The caller's own time may be over.
inline constexpr std::chrono::milliseconds kUndoLimit{60'000};

// A volume, and the pool that it is in.
struct Found {
  Pool* pool;
  Record record;
};

// Why a pool does not serve.
struct Trouble {
  Error error;
  bool starting = false;
  bool silent = false;  // the only fault: the pool could not be read in time
};

// The key by which calls lock this volume: the id that they use.
inline LockKey LockKeyOf(const Record& record) {
  return LockKey::Volume(record.tags.ephemeral ? record.tags.co_name : record.tags.id);
}

// All methods may be called from any thread.
struct Node {
  Node(EngineConfig c, World w, const Logger& l);

  EngineConfig config;
  World world;
  const Logger& log;
  // What the ids of new volumes say of this node (CreateWish::node_hash).
  std::string id_hash() const { return config.node.empty() ? "" : lvm::NodeHash(config.node); }
  std::vector<std::unique_ptr<Pool>> pools;
  KeyLocks locks;
  Gate gate;  // open from construction to the stop
  Holds holds;
  CopySources copied;
  VolumeSet lost_in_kernel;  // on a disk that the kernel no longer has, as the repair loop last saw them
  // Disks that returned, by PV UUID: the last attempt to take them back failed.
  VolumeSet refused_disks;
  Doubts doubts;
  StoreTroubles store_troubles;
  StoppedVolumes stopped_volumes;
  DeletedHere deleted_here;

  // `wake` is called, from any thread, when the repair loop has work. An empty function ends the calls.
  void OnWork(std::function<void()> wake) {
    const MutexLock lock(wake_mutex_);
    wake_ = std::move(wake);
  }
  // Announces work for the repair loop.
  void Wake();

  // kInvalidArgument: no such pool. The error names the configured pools.
  Result<Pool*> FindPool(const std::string& name) const;
  // The present group of the pool that a call is for, once the pool has started. kUnavailable: it has not.
  Result<std::shared_ptr<const Catalog>> Read(Pool& pool, const Call& call);
  // The same, also while the pool starts.
  Result<std::shared_ptr<const Catalog>> ReadGroup(Pool& pool, const Call& call);
  // For calls that are for another pool, or for all pools. Waits at most `patience` for a disk that does not
  // answer (lookout.h), and only briefly for the pool's start.
  Result<std::shared_ptr<const Catalog>> Look(Pool& pool, std::chrono::milliseconds patience,
                                              const Call& call);
  // Every pool, in the order of the configuration. All are read at the same time.
  std::vector<Result<std::shared_ptr<const Catalog>>> LookAtAll(std::chrono::milliseconds patience,
                                                                const Call& call);
  // `error` is the result of reading `pool`. True if the pool is known not to serve. False during a stop,
  // during a start that is not late, and if the pool could not be read in time for at most a minute.
  bool IsBroken(Pool& pool, const Error& error);
  // True if the pool's group is missing, as far as LVM can see: it is not there, and no start is under way.
  bool IsGone(Pool& pool, const Error& error);
  // nullopt: the pool serves. Too many stuck commands count as trouble too. `read`: the result of reading the
  // pool.
  std::optional<Trouble> TroubleOf(Pool& pool, const Status& read) const;

  // The ready volume with this id. nullopt: no pool that could be read has it, and either the pool that the
  // id names could be read, or all pools could. An id may name a pool by its former name: its volume is
  // found if its pool can be read. kPrecondition: the volume is there, but this build cannot read its tags.
  Result<std::optional<Found>> FindVolume(const std::string& id, const Call& call);
  // The same, with kNotFound instead of nullopt. kPrecondition: the id is that of an unmanaged logical
  // volume.
  // `realm`: only of this realm (CheckRealm).
  Result<Found> GetVolume(const std::string& id, const Call& call, Realm realm = Realm::kVolumes);
  // For a controller call about a volume that is not here. kPrecondition if its id names another node. A call
  // that reaches the wrong node must get an error: the answer "the volume is gone" would strand the volume
  // and its data. OK for ids that name no node, and for ids that no build ever issued. A volume that is here
  // is served whatever node its id names, because nodes are renamed and disks are moved.
  // `kind`: "volume" or "snapshot".
  Status CheckNotElsewhere(const std::string& id, std::string_view kind = "volume") const;
  // As GetVolume, for controller calls: with the error of CheckNotElsewhere.
  Result<Found> GetForController(const std::string& id, const Call& call, Realm realm = Realm::kVolumes);
  // The same two for snapshots.
  Result<std::optional<Found>> FindSnapshot(const std::string& id, const Call& call);
  Result<Found> GetSnapshot(const std::string& id, const Call& call);
  // The ready volume with this name. `asked`: the pool in which the volume is to be made; this pool must be
  // readable. Other pools that cannot be read are skipped (find.cc says why).
  // nullptr: all pools must be readable, unless one of them has the volume.
  Result<std::optional<Found>> FindByName(const std::string& co_name, Pool* asked, const Call& call);
  // The same for snapshots.
  Result<std::optional<Found>> FindSnapshotByName(const std::string& co_name, Pool* asked, const Call& call);
  // The ready members of the group snapshot that has this id, or if it is empty this name; in no order. All
  // are in one pool. `own`: the pool that the group's id names, or its sources are in. It must be readable;
  // others that cannot be read are skipped. nullptr: all must be readable, unless one of them has the group.
  // kPrecondition: a member has tags that this build cannot read.
  Result<std::vector<Found>> FindMembers(const std::string& id, const std::string& name, Pool* own,
                                         const Call& call);
  // kPrecondition if the volume with this id is known to be a bucket. Reads nothing.
  Status CheckNoBucket(const std::string& id);
  // The stack of this volume, for unpublish and unstage; nullopt: it is not active. Works while the group
  // cannot be read, because the id contains the name or the UUID of the logical volume.
  Result<std::optional<Stack>> FindStack(const std::string& id, const Call& call);
  // The stack on the logical volume with this device-mapper UUID; nullopt: it is not active. All stacks are
  // made here.
  Result<std::optional<Stack>> StackOn(const std::string& lv_uuid);

  // kAlreadyExists: a volume has this name, and this build cannot read its tags. Uses the last catalog of
  // each pool whose group is not missing.
  Status CheckReadableName(const std::string& co_name);
  // The inline volume with this handle (calls/inline_volumes.cc). `asked`: as for FindByName.
  Result<std::optional<Found>> FindEphemeral(const std::string& handle, Pool* asked, const Call& call);
  // The volume that may be published under this id: GetVolume, or an inline volume by its handle.
  Result<Found> GetPublished(const std::string& id, const Call& call);

  // The unmanaged logical volume with this id, if there is one, as a record without Quarry's tags. Groups
  // that cannot be read are skipped: FindVolume decides whether a volume with this id exists.
  Result<std::optional<Found>> FindForeign(const std::string& id, const Call& call);

  // Why quarryd does not start this inactive volume, read from the legs and kept in `doubts`. nullopt:
  // nothing speaks against a start. kTimeout: a disk does not answer; this is kept in `doubts` too.
  Result<std::optional<Doubt>> LookForDoubt(const Record& record);
  // The volume's stack. Activates the volume if needed, and resumes a device that a killed LVM left
  // suspended.
  Result<Stack> EnsureActive(const Found& found, const Call& call);
  Result<RaidReport> RaidOf(const Record& record);
  // The present health of the volume. Starts no process and waits for no disk.
  Result<Health> HealthOf(const Record& record, const RaidReport& raid, const mount::MountTable& mounts);
  Result<Health> HealthOf(const Record& record, const mount::MountTable& mounts);

  // Whether the disks of the volume give its data. Reads the superblocks of a RAID volume. kUnavailable: one
  // of its disks does not answer.
  Result<LossVerdict> LossOf(const Record& record);

  // The targets where the volume is published raw: bind mounts of the top device's node in /dev.
  Result<std::vector<const mount::MountEntry*>> Published(const mount::MountTable& mounts,
                                                          const Stack& stack);
  // Closes the kept descriptor of a volume that is not published as a raw device.
  Status DropIdleHold(const Record& record);
  Status DropIdleHold(const std::string& id, const Stack& stack);

  // Sets which disks are unhealthy (disks/health_memory.h decides). Every catalog that is read from now on
  // includes them.
  void SetFailingDisks(std::shared_ptr<const UnhealthyDisks> weak) {
    const MutexLock lock(mutex_);
    weak_ = std::move(weak);
  }
  std::shared_ptr<const UnhealthyDisks> FailingDisks() const {
    const MutexLock lock(mutex_);
    return weak_;
  }

 private:
  // Adds what ails the thin store in which the volume is.
  Status AddHealthOfStore(const Record& record, const mount::MountTable& mounts, Health& health);

  // The same for a store that the kernel does not have.
  void AddTroubleOfStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, Health& health);

  using Lookup = const Record* (Catalog::*)(std::string_view) const;
  Result<std::optional<Found>> FindId(const std::string& id, Lookup lookup, const Call& call);
  Result<std::optional<Found>> FindName(const std::string& co_name, Lookup lookup, Pool* asked,
                                        const Call& call);
  Result<std::shared_ptr<const Catalog>> CatalogOf(Pool& pool, Result<lvm::Snapshot> group);

  Mutex wake_mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(wake_mutex_);
  mutable Mutex mutex_;
  std::shared_ptr<const UnhealthyDisks> weak_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const UnhealthyDisks>();
};

}  // namespace quarry::engine
