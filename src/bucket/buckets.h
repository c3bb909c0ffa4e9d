// Buckets on the engine's volumes (BucketApi). The truth is in the tags of the volumes and in the files on
// them; what this object knows of them it learns again after each start, in its rounds.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/path.h"
#include "bucket/bucket_api.h"
#include "bucket/bucket_folder.h"
#include "bucket/gateway_report.h"
#include "bucket/name_locks.h"
#include "bucket/served_folder.h"
#include "bucket/settings.h"
#include "engine/engine.h"

namespace quarry::bucket {

struct BucketsConfig {
  AbsolutePath folder, spare;  // shared with the gateway (served_folder.h)
  Owner gateway;               // the gateway's user
  GatewaySettings settings;
  std::string url;  // what clients are told
  // Whether the gateway serves; an error says why not. kBusy: it is well, but new requests wait.
  std::function<Status()> probe;
  // Whether something is mounted there. Tests without a kernel say yes.
  std::function<bool(const AbsolutePath&)> is_mount_point;
  // Whether an open folder is the root of a mount of the device (ProveMount). Tests without a kernel say yes.
  std::function<Status(int folder, dev_t device)> prove_mount;
  // Returns when the disks below the device have answered (TouchDisk). Tests without a kernel have none.
  std::function<void(dev_t)> touch_disk = [](dev_t) {};
  engine::StepWatcher* steps = nullptr;        // for tests only, as in engine::World
  std::chrono::milliseconds look_limit{5000};  // then a round goes on to the next bucket
  // From one count of the objects of a bucket to the next.
  std::chrono::milliseconds count_interval{60'000};
  // Then its disk counts as silent. Longer than a look takes at a disk that answers, with count and sweep.
  std::chrono::milliseconds silent_after{30'000};
  // From one probe of a full gateway to the next: each may keep a connection of the gateway until it has
  // room.
  std::chrono::milliseconds full_interval{10'000};
};

// How many objects and bytes each bucket has, and which requests came, for monitoring.
struct Figures {
  bool gateway_healthy = false;                   // clients are served
  bool gateway_full = false;                      // it is well, but new requests wait
  std::vector<Bucket> buckets;                    // with content as of the last round that could read it
  std::map<std::string, RequestCounts> requests;  // by the id of the bucket
  RequestCounts elsewhere;                        // requests that named none of these buckets
  uint64_t refused_reports = 0;                   // lines on the socket for reports that were none
};

class Buckets final : public BucketApi {
 public:
  // `engine` and `log` must outlive the object. The engine need not have started. Fails if the folder cannot
  // be made.
  static Result<std::unique_ptr<Buckets>> Make(BucketsConfig config, engine::Engine& engine,
                                               const Logger& log);

  Endpoint endpoint() const override { return {config_.url, config_.settings.region}; }
  Result<CreateResult> Create(const CreateRequest& request, const Call& call) override;
  Result<Bucket> Find(const std::string& id, const Call& call) override;
  Status Compare(const std::string& id, const Parameters& parameters, const Call& call) override;
  Result<std::vector<Bucket>> List(const Call& call) override;
  Status Delete(const std::string& id, const Call& call) override { return DeleteIf(id, false, call); }
  Status DeleteLost(const std::string& id, const Call& call) override { return DeleteIf(id, true, call); }
  Result<GrantResult> Grant(const GrantRequest& request, const Call& call) override;
  Status Revoke(const std::string& account_id, const std::vector<std::string>& bucket_ids,
                const Call& call) override;
  Result<Bytes> Grow(const std::string& id, Bytes size, const Call& call) override;

  // Brings up every bucket that can serve and does not, takes those away that cannot, looks at the gateway,
  // and sweeps stale uploads from time to time. Finishes what an earlier process left unfinished. Logs what
  // changes. To be called again and again, from one thread. True: everything serves.
  bool Round(const Call& call);

  // Counts what the gateway reports of its requests, until `stop` is requested. To be called once, from a
  // thread of its own. The gateway never waits for it: while it does not run, reports are lost.
  void TakeReports(const std::stop_token& stop);

  Figures CurrentFigures() const;

 private:
  // What is known of a bucket.
  struct Known {
    engine::Volume volume;
    Settings settings;
    std::string type;
    dev_t device = 0;  // of the volume, since its last mount
    bool linked = false;
    std::string problem = {};                        // why it is not linked
    std::string ailment = {};                        // of its volume
    std::string conflict = {};                       // of an account that has two secrets
    bool stale = false;                              // its policy may be that of an earlier conflict
    bool was_read = false;                           // `grants` are all that it has
    bool looking = false;                            // a look at it goes on (rounds.cc)
    bool silent = false;                             // that look does not end
    bool restarted = false;                          // the gateway was, for its deletion
    uint64_t created = 0;                            // as in engine::VolumeStatus
    std::map<std::string, GrantRecord> grants = {};  // by account
    std::optional<Content> content = {};
    SteadyTime counted = {}, next_sweep = {};
    std::chrono::milliseconds count_took{0};
    RequestCounts requests = {};
  };

  Buckets(BucketsConfig config, engine::Engine& engine, const Logger& log, ServedFolder folder,
          UniqueFd reports)
      : config_(std::move(config)),
        engine_(engine),
        log_(log),
        folder_(std::move(folder)),
        reports_(std::move(reports)),
        inherited_(SecretsIn(folder_.ReadUsers())) {}

  // --- buckets.cc. For callers that hold the bucket's lock, unless they say otherwise.
  Result<engine::Volume> Volume(const std::string& id, const Call& call);
  Result<NameLocks::Guard> LockBucket(const std::string& name, const Call& call);
  Bucket DescribeLocked(const Known& known) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Bucket Describe(const engine::Volume& volume) const;
  Result<ObjectCount> Search(const Known& known, const Call& call);
  Status CheckEmpty(const Known& known, const Call& call);
  // True: its disks are lost. False: they are there, and reading them gives errors. An error: it is neither.
  Result<bool> ProveLost(const Known& known, const Call& call);
  // `lost`: only a bucket that lacks disks, with its objects; else only one that may go by its ondelete.
  Status DeleteIf(const std::string& id, bool lost, const Call& call);
  void LearnGrants(const engine::Volume& volume, const Settings& settings, const Call& call);
  Status UnmountPatiently(const Known& known, const Call& call);
  Status RestartGateway();
  bool MayRestartGateway(const std::string& id);  // for the deletion of this bucket

  // --- bring_up.cc. BringUp mounts, prepares and links the bucket, and derives accounts and policy from its
  // records. May be repeated. On an error the bucket is not linked.
  Status BringUp(const engine::Volume& volume, const Call& call);
  // kAlreadyExists: another bucket has this name, and serves or is older.
  Status CheckNameLocked(const std::string& id, const std::string& name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::string OlderText(const std::string& older, const std::string& name);
  // Returns the volume's device.
  Result<dev_t> MountBucket(const engine::Volume& volume, const Settings& settings, const Call& call);
  Result<BucketFolder> OpenMounted(const std::string& id, dev_t device) const;
  // Waits for the disk of a mounted bucket. For the rounds, which notice a wait without end.
  void Touch(const Known& known) const;
  Result<BucketFolder> OpenBucket(const engine::Volume& volume, const Settings& settings, const Call& call);
  // Takes the link away, if there is one, and remembers why.
  void TakeDown(const std::string& id, const std::string& why);
  void Forget(const std::string& id);
  void NoteProblem(const std::string& id, const std::string& problem);

  // --- rounds.cc
  // A look that has not ended when its round went on: its disk may hang.
  struct Look {
    std::future<bool> result;
    SteadyTime since;
    std::jthread thread;
  };
  // LookAtVolume in a thread of its own, which is waited for as long as a good disk needs.
  bool LookPatiently(const engine::VolumeStatus& status, const Call& call);
  bool LookAtVolume(const engine::VolumeStatus& status, const Call& call);
  void NoteLook(const std::string& id, bool looking, bool silent);
  // By name: the oldest bucket, which alone may serve.
  std::map<std::string, std::string> Oldest(const std::vector<engine::VolumeStatus>& all);
  void KeepBack(const engine::VolumeStatus& status, const std::string& older, const Call& call);
  // What is known of a bucket that did not come up.
  void Remember(const engine::VolumeStatus& status, const engine::Volume& volume);
  // Learns what is in the bucket. Counts objects, until `counting` ends, if their number is older than
  // `oldest`. The error of a bucket that cannot be read.
  Status LookAtContent(const Known& known, std::chrono::milliseconds oldest, const Call& counting);
  void SweepIfDue(const Known& known, const Call& call);
  void DropGone(const std::set<std::string>& seen, const std::set<std::string>& unread, const Call& call);
  bool LookAtGateway();
  std::string ProblemOfGateway(const Error& probed) const;

  // --- requests.cc
  void TakeReport(std::string_view line);
  RequestCounts& CountsOfLocked(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- accounts.cc
  Result<std::vector<Known>> Serving(const GrantRequest& request, const Call& call);
  Result<GrantRecord> RecordFor(const GrantRequest& request) const;
  Status AddTo(const Known& known, const GrantRecord& record, const Call& call);
  Status RevokeOne(const std::string& account, const std::string& id, const Call& call);
  Status RemoveFrom(const Known& known, const std::string& account, const Call& call);
  // Whether the account may have been granted these buckets.
  bool IsGrantOfLocked(const GrantRecord& record, const std::map<std::string, Access>& wanted) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepQuietly(const Known& known, const GrantRecord& record, const Call& call);
  Status RewriteOthers(const std::string& account, const std::set<std::string>& revoked, const Call& call);
  Status WriteUsers();
  // By account: the record whose secret counts, which is the newest.
  std::map<std::string, const GrantRecord*> InForceLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDisputedLocked(const std::string& account, const std::string& secret) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Finds accounts with two secrets. A policy that depends on it is set again by the next round.
  void SettleConflictsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string PolicyOf(const std::string& id, const std::string& name) const;

  std::optional<Known> Find(const std::string& id) const;
  // Runs a step between the watcher's calls.
  template <typename Function>
  auto Step(const std::string& text, const Function& function) {
    if (config_.steps != nullptr) {
      config_.steps->Before(text);
    }
    auto result = function();
    if (config_.steps != nullptr) {
      config_.steps->After(text);
    }
    return result;
  }

  const BucketsConfig config_;
  engine::Engine& engine_;
  const Logger& log_;
  const ServedFolder folder_;
  const UniqueFd reports_;
  NameLocks locks_;
  Mutex users_mutex_;  // one writer of users.json and of gateway.env; taken before mutex_
  mutable Mutex mutex_;
  std::map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);  // by id
  // Accounts that the gateway knows from an earlier process, until the first round has looked at every
  // bucket: clients whose bucket comes later must not be cut off meanwhile.
  std::map<std::string, std::string> inherited_ ABSL_GUARDED_BY(mutex_);
  SteadyTime restarted_for_deletion_ ABSL_GUARDED_BY(mutex_) = {};
  RequestCounts elsewhere_ ABSL_GUARDED_BY(mutex_);
  uint64_t refused_reports_ ABSL_GUARDED_BY(mutex_) = 0;
  bool gateway_healthy_ ABSL_GUARDED_BY(mutex_) = false;
  bool gateway_full_ ABSL_GUARDED_BY(mutex_) = false;
  std::string gateway_problem_ ABSL_GUARDED_BY(mutex_) = "the gateway has not been asked yet";
  // Of the thread that calls Round.
  int unhealthy_rounds_ = 0;
  SteadyTime restarted_ = {}, probed_ = {};
  int full_rounds_ = 0;
  enum class Told { kNothing, kFull, kUnhealthy };  // of the gateway, to the log
  Told told_ = Told::kNothing;
  std::map<std::string, Look> looks_;  // by id. Destroyed first: they use all of the above
};

}  // namespace quarry::bucket
