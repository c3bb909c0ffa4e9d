// What every room above shares: configuration, seams, the pools at work, locks, and the questions that all
// calls ask of them. Nothing here needs to survive a restart; the truth is in LVM and the kernel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"
#include "engine/model/other_node.h"
#include "engine/model/types.h"
#include "engine/pool/gate.h"
#include "engine/pool/locks.h"
#include "engine/pool/pool.h"
#include "engine/pool/volume_notes.h"
#include "engine/raid/stopped_array.h"
#include "engine/world.h"

namespace quarry::engine {

// What the kernel says of the legs of a raid volume.
struct RaidReport {
  std::optional<dm::RaidStatus> status;  // nullopt: no raid volume, not active, or not understood
  std::string unrecognized;              // what was not understood
};

// What a call waits for a pool that it is not for, and does well without.
inline constexpr std::chrono::milliseconds kOthersPatience{2000};

// A volume of ours, and the pool that it is in.
struct Found {
  Pool* pool;
  Record record;
};

// Everything that the rooms share: the pools, and questions about what they hold. All methods may be called
// from any thread.
struct Node {
  Node(EngineConfig c, World w, const Logger& l);

  EngineConfig config;
  World world;
  const Logger& log;
  std::vector<std::unique_ptr<Pool>> pools;
  KeyLocks locks;
  Gate gate;  // open from the beginning to the stop
  Holds holds;
  LostInKernel lost_in_kernel;
  Doubts doubts;
  DeletedHere deleted_here;

  // Has `wake` called, from any thread, when there is work for the repair loop; empty: no more.
  void OnWork(std::function<void()> wake);
  // There is work for the repair loop.
  void Wake();

  // kInvalidArgument naming the pools there are.
  Result<Pool*> FindPool(const std::string& name);
  // The group of the pool that a call is for, as it is now, once the pool has started. kUnavailable: it has
  // not.
  Result<std::shared_ptr<const Catalog>> Read(Pool& pool, const Call& call);
  // The same while it starts.
  Result<std::shared_ptr<const Catalog>> ReadGroup(Pool& pool, const Call& call);
  // For calls that are not for this pool, or for all of them: does not wait for what does not answer
  // (lookout.h), nor for the pool's start.
  Result<std::shared_ptr<const Catalog>> Look(Pool& pool, std::chrono::milliseconds patience,
                                              const Call& call);
  // Every pool, in their order, all asked at the same time.
  std::vector<Result<std::shared_ptr<const Catalog>>> LookAtAll(std::chrono::milliseconds patience,
                                                                const Call& call);
  // Whether the pool that this error is of is known not to serve; else it only could not be looked at in
  // time.
  bool IsBroken(Pool& pool, const Error& error);
  // Whether its group is gone, as far as LVM can tell: nothing is there, or under way.
  bool IsGone(Pool& pool, const Error& error);

  // The ready volume of this id. nullopt: the pool that the id names was read and none has it, or all were.
  // A pool that was renamed is looked for under its new name where it can be read. kPrecondition: it is
  // there, and this build cannot read its tags.
  Result<std::optional<Found>> FindVolume(const std::string& id, const Call& call);
  // The same, with kNotFound; kPrecondition if the id is that of a logical volume that is not ours.
  Result<Found> GetVolume(const std::string& id, const Call& call);
  // The same for calls of the controller: kPrecondition if it is not here and its id names another node.
  Result<Found> GetForController(const std::string& id, const Call& call);
  // The ready volume of this name. `asked`: the pool that it is to be made in, which must be readable. Of the
  // others those that cannot be read are passed over: what was asked for there was another volume. nullptr:
  // all must be readable, unless one has it.
  Result<std::optional<Found>> FindByName(const std::string& co_name, Pool* asked, const Call& call);
  // The active device of this volume, for taking it from where it is mounted: a group that cannot be read is
  // no obstacle, since the id says what device-mapper calls it.
  Result<std::optional<dm::Device>> FindDevice(const std::string& id, const Call& call);

  // kAlreadyExists for a name that a volume bears whose tags this build cannot read, in any pool that is not
  // gone, as it was last seen.
  Status CheckReadableName(const std::string& co_name);
  // The inline volume of this handle (inline_volumes.cc). `asked`: as for FindByName.
  Result<std::optional<Found>> FindEphemeral(const std::string& handle, Pool* asked, const Call& call);
  // What may be published under this id: GetVolume, or an inline volume by its handle.
  Result<Found> GetPublished(const std::string& id, const Call& call);

  // The logical volume that is not ours and has this id, if there is one: as a record without our tags.
  // Groups that cannot be read are passed over: whether there is a volume of this id is FindVolume's to say.
  Result<std::optional<Found>> FindForeign(const std::string& id, const Call& call);

  // Why this inactive volume is not started by itself, read from its legs and kept in `doubts`; nullopt: it
  // is. kTimeout: a disk does not answer, which is kept likewise.
  Result<std::optional<Doubt>> LookForDoubt(const Record& record);
  // The volume's device; activates it if need be, also one that a killed LVM left suspended.
  Result<dm::Device> EnsureActive(const Found& found, const Call& call);
  Result<RaidReport> RaidOf(const Record& record);
  // How the volume is now. Starts no process and waits for no disk.
  Result<Health> HealthOf(const Record& record, const RaidReport& raid, const mount::MountTable& mounts);
  Result<Health> HealthOf(const Record& record, const mount::MountTable& mounts);

  // The targets where the raw device of this volume is published: bind mounts of the very node in our /dev.
  Result<std::vector<const mount::MountEntry*>> Published(const mount::MountTable& mounts,
                                                          const dm::Device& device);
  // Lets go of the device of a volume that is published nowhere as a raw one.
  Status DropIdleHold(const Record& record);
  Status DropIdleHold(const std::string& id, const dm::Device& device);

  // Which disks are not as they should be, by the word of whoever asks them (disks/health_memory.h). Every
  // catalog that is read from now on has it.
  void SetFailingDisks(std::shared_ptr<const UnhealthyDisks> weak);
  std::shared_ptr<const UnhealthyDisks> FailingDisks() const;

 private:
  Result<std::shared_ptr<const Catalog>> CatalogOf(Pool& pool, Result<lvm::Snapshot> group);

  std::mutex wake_mutex_;
  std::function<void()> wake_;  // guarded by wake_mutex_
  mutable std::mutex mutex_;
  std::shared_ptr<const UnhealthyDisks> weak_ =
      std::make_shared<const UnhealthyDisks>();  // guarded by mutex_
};

}  // namespace quarry::engine
