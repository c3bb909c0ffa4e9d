// What the engine keeps in memory: locks, queues and holds. Nothing here needs to survive a restart; the
// truth is in LVM and the kernel.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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
#include "engine/plan_node.h"
#include "engine/scrubbing.h"

namespace quarry::engine {

// A pool at work.
struct Pool {
  explicit Pool(PoolConfig c) : config(std::move(c)) {}
  PoolConfig config;
  WriterQueue writers;
  Activations activations;

  // What the last snapshot came to. A snapshot that is proven fresh is the same object again, so that reading
  // the tags of a thousand volumes (4 ms) is for changes only.
  std::mutex catalog_mutex;
  std::shared_ptr<const Catalog> catalog;
  std::shared_ptr<const WeakDisks> catalog_weak;  // what it was made with

  // LVs that a CreateVolume of this process is making: bearing the creating marker, yet not left over.
  std::mutex making_mutex;
  std::set<std::string> making;
  // Extents being cleared for volumes that are to be made or to grow, by the key of the volume's lock.
  // Guarded by making_mutex, changed under the turn.
  std::map<std::string, std::shared_ptr<Cleaning>> cleanings;
  CleanSpace clean;  // used under the turn
};

class Mender;

// Execute, under the pool's turn, with what it commits told to `pool.clean`.
Status RunCounted(Pool& pool, const Plan& plan, const World& world, const Call& call);

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

// Counts calls in flight. A call that comes while the node starts waits for that; one that comes after a
// start has failed, or during the stop, is turned away.
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

  // Waits while the first start runs, at most `longest` and not past the call's deadline. kUnavailable with
  // the reason while closed.
  Result<Pass> Enter(const Call& call, std::chrono::milliseconds longest = kLongestWait);
  void Open();
  void Close(std::string reason);
  // kTimeout if calls are still in flight when `call` ends.
  Status Drain(const Call& call);
  bool is_open() const;
  std::string reason() const;

 private:
  // Callers give up after 10 s to 2 min. What takes longer than this is worth a word of why.
  static constexpr std::chrono::seconds kLongestWait{30};
  enum class Phase { kStarting, kOpen, kClosed };

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Phase phase_ = Phase::kStarting;
  std::string reason_ = "starting: volume groups have not been read yet";
  size_t inside_ = 0;
};

// What the kernel says of the legs of a raid volume.
struct RaidWord {
  std::optional<dm::RaidStatus> status;  // nullopt: no raid volume, not active, or not understood
  std::string riddle;                    // what was not understood
};

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
  Gate gate;
  std::unique_ptr<Eraser> eraser;
  DiskNotes disk_notes;
  DiskHealths disk_healths;
  Scrubs scrubs;
  std::mutex wake_mutex;
  std::function<void()> wake;  // guarded by wake_mutex
  std::mutex start_error_mutex;
  std::optional<Error> start_error;
  std::unique_ptr<Mender> mender;
  LongSteps long_steps;  // last: what it runs uses everything above

  // There is something for the mender.
  void Wake();

  // kInvalidArgument naming the pools there are.
  Result<Pool*> FindPool(const std::string& name);
  // The pool's group as it is now.
  Result<std::shared_ptr<const Catalog>> Read(Pool& pool, const Call& call);

  struct Found {
    Pool* pool;
    Record record;
  };
  // The ready volume of this id. nullopt: every pool was read and none has it.
  Result<std::optional<Found>> FindVolume(const std::string& id, const Call& call);
  // The same, with kNotFound; kPrecondition if the id is that of a logical volume that is not ours.
  Result<Found> GetVolume(const std::string& id, const Call& call);
  Result<std::optional<Found>> FindByName(const std::string& co_name, const Call& call);

  // The inline volume of this handle (ephemeral.cc).
  Result<std::optional<Found>> FindEphemeral(const std::string& handle, const Call& call);
  // What may be published under this id: GetVolume, or an inline volume by its handle.
  Result<Found> GetPublished(const std::string& id, const Call& call);

  // The logical volume that is not ours and has this id, if there is one: as a record without our tags.
  Result<std::optional<Found>> FindForeign(const std::string& id, const Call& call);

  // The volume's device; activates it if need be, also one that a killed LVM left suspended.
  Result<dm::Device> EnsureActive(const Found& found, const Call& call);
  Result<RaidWord> RaidOf(const Record& record);
  // How the volume is now. Starts no process and waits for no disk.
  Result<Health> HealthOf(const Record& record, const RaidWord& raid, const mount::MountTable& mounts);
  Result<Health> HealthOf(const Record& record, const mount::MountTable& mounts);

  // The targets where the raw device of this volume is published, proven by device number.
  Result<std::vector<const mount::MountEntry*>> Published(const mount::MountTable& mounts,
                                                          const dm::Device& device);
};

}  // namespace quarry::engine
