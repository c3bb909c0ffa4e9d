// What the engine keeps in memory: locks, queues and holds. Nothing here needs to survive a restart; the
// truth is in LVM and the kernel.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "engine/activation.h"
#include "engine/catalog.h"
#include "engine/clean_space.h"
#include "engine/cleaning.h"
#include "engine/disk_health.h"
#include "engine/disks.h"
#include "engine/engine.h"
#include "engine/eraser.h"
#include "engine/locks.h"
#include "engine/long_steps.h"
#include "engine/lookout.h"
#include "engine/other_node.h"
#include "engine/plan_node.h"
#include "engine/reviving.h"
#include "engine/scrubbing.h"

namespace quarry::engine {

// Whether there is service: of the engine, which counts the calls in flight, and of each pool. A call that
// comes during a pool's first start waits for that; one that comes after a start has failed, or during the
// stop, is turned away.
class Gate {
 public:
  class Pass {
   public:
    explicit Pass(Gate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass();

   private:
    Gate* gate_;
  };
  enum class Phase { kStarting, kOpen, kClosed };

  // Waits while the first start runs, not past the call's deadline, and not once that start takes longer than
  // anybody should wait for. kUnavailable with the reason while closed.
  Result<Pass> Enter(const Call& call);
  // The same, for those who need not be counted.
  Status Wait(const Call& call);
  // For those who can do without: waits for the first seconds of the start only.
  Status WaitBriefly(const Call& call);
  void Open();
  void Close(std::string reason);
  // kTimeout if calls are still in flight when `call` ends.
  Status Drain(const Call& call);
  Phase phase() const;
  bool is_open() const { return phase() == Phase::kOpen; }
  std::string reason() const;
  // Whether it has not been open for so long since it was made.
  bool is_late() const;

 private:
  // Callers give up after 10 s to 2 min. What takes longer than this is worth a word of why.
  static constexpr std::chrono::seconds kLongestWait{30};
  // A start that takes longer than this waits for something that may never come.
  static constexpr std::chrono::seconds kLongestStart{60};
  static constexpr std::chrono::seconds kBriefly{5};

  // With mutex_ held.
  Status WaitLocked(std::unique_lock<std::mutex>& lock, const Call& call, SteadyTime until);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Phase phase_ = Phase::kStarting;
  std::string reason_ = "starting: the volume group has not been read yet";
  size_t inside_ = 0;
  const SteadyTime made_ = std::chrono::steady_clock::now();
};

// A pool at work. Each is on its own: its start, its gate, its eraser.
struct Pool {
  Pool(PoolConfig c, lvm::LvmApi& lvm)
      : config(std::move(c)),
        lookout([this, &lvm](const Call& call) { return lvm.Read(config.group, call); }) {}
  PoolConfig config;
  Gate gate;  // opened by its start
  WriterQueue writers;
  Activations activations;

  // What the last snapshot came to. A snapshot that is proven fresh is the same object again, so that reading
  // the tags of a thousand volumes (4 ms) is for changes only.
  std::mutex catalog_mutex;
  std::shared_ptr<const Catalog> catalog;
  std::shared_ptr<const WeakDisks> catalog_weak;  // what it was made with
  std::string told;                               // why it could not be read, as logged last; empty: it could
  std::optional<Error> start_error;               // of the last start, if that failed
  // Names of volumes that callers were sent to other nodes with while the group was gone.
  std::set<std::string> given_up;

  // LVs that a CreateVolume of this process is making: bearing the creating marker, yet not left over.
  std::mutex making_mutex;
  std::set<std::string> making;
  // Extents being cleared for volumes that are to be made or to grow, by the key of the volume's lock.
  // Guarded by making_mutex, changed under the turn.
  std::map<std::string, std::shared_ptr<Cleaning>> cleanings;
  // Since when creates have been told to wait for space that is being erased, by name. Likewise.
  std::map<std::string, SteadyTime> waiting;
  CleanSpace clean;  // used under the turn

  // From the pool's start to its stop; else nullptr.
  std::unique_ptr<Eraser> eraser;
  Lookout lookout;  // last: its thread uses the above
};

class Mender;

// Execute, under the pool's turn, with what it commits told to `pool.clean`.
Status RunCounted(Pool& pool, const Plan& plan, const World& world, const Call& call);

// Inline volumes that were unpublished and could not be deleted: the pool that may have them could not be
// read, or somebody has something on them. They are deleted when that has passed. By handle.
class LeftBehind {
 public:
  void Add(const std::string& handle);
  void Drop(const std::string& handle);
  bool Has(const std::string& handle) const;
  std::set<std::string> All() const;

 private:
  // A caller that makes handles up is not to fill the memory.
  static constexpr size_t kMost = 10'000;

  mutable std::mutex mutex_;
  std::set<std::string> handles_;
};

// Descriptors that keep published raw devices from going away (a bind-mounted node is no open). By volume id.
class Holds {
 public:
  void Keep(const std::string& id, UniqueFd fd);
  void Drop(const std::string& id);
  bool Has(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, UniqueFd> fds_;
};

// Volumes that lie on a disk that the kernel no longer has, as the mender last saw them. By volume id.
class LostInKernel {
 public:
  void Set(const std::string& id, bool lost);
  bool Has(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> ids_;
};

// Volumes that are not started by themselves (reviving.h), as they were last looked at: why. By volume id.
class Doubts {
 public:
  void Set(const std::string& id, const std::optional<Doubt>& doubt);
  std::optional<std::string> Of(const std::string& id) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> words_;
};

// What the kernel says of the legs of a raid volume.
struct RaidWord {
  std::optional<dm::RaidStatus> status;  // nullopt: no raid volume, not active, or not understood
  std::string riddle;                    // what was not understood
};

// What a call waits for a pool that it is not for, and does well without.
inline constexpr std::chrono::milliseconds kOthersPatience{2000};

struct Engine::State {
  State(EngineConfig c, World w, const Logger& l);
  ~State();

  EngineConfig config;
  World world;
  const Logger& log;
  std::vector<std::unique_ptr<Pool>> pools;
  KeyLocks locks;
  Holds holds;
  LostInKernel lost_in_kernel;
  DeletedHere deleted_here;
  Doubts doubts;
  LeftBehind left_behind;
  Gate gate;  // open from the beginning to the stop
  DiskNotes disk_notes;
  DiskHealths disk_healths;
  Scrubs scrubs;
  std::mutex wake_mutex;
  std::function<void()> wake;  // guarded by wake_mutex
  std::unique_ptr<Mender> mender;
  LongSteps long_steps;  // last: what it runs uses everything above

  // There is something for the mender.
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

  struct Found {
    Pool* pool;
    Record record;
  };
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
  // The inline volume of this handle (ephemeral.cc). `asked`: as for FindByName.
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
  Result<RaidWord> RaidOf(const Record& record);
  // How the volume is now. Starts no process and waits for no disk.
  Result<Health> HealthOf(const Record& record, const RaidWord& raid, const mount::MountTable& mounts);
  Result<Health> HealthOf(const Record& record, const mount::MountTable& mounts);

  // The targets where the raw device of this volume is published: bind mounts of the very node in our /dev.
  Result<std::vector<const mount::MountEntry*>> Published(const mount::MountTable& mounts,
                                                          const dm::Device& device);
  // Lets go of the device of a volume that is published nowhere as a raw one.
  Status DropIdleHold(const Record& record);
  Status DropIdleHold(const std::string& id, const dm::Device& device);

 private:
  Result<std::shared_ptr<const Catalog>> CatalogOf(Pool& pool, Result<lvm::Snapshot> group);
};

}  // namespace quarry::engine
