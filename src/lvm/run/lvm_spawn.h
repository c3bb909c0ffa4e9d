// LvmApi by starting lvm once for each command. No state is kept between commands, and each command can be
// killed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/subprocess.h"
#include "lvm/group_locks.h"
#include "lvm/lvm_api.h"
#include "lvm/run/pv_flush.h"

namespace quarry::lvm {

struct LvmSpawnOptions {
  std::string system_dir;  // LVM_SYSTEM_DIR, as WriteLvmConfig made it
  // false: metadata only. LVM never uses device-mapper, for hosts that have none.
  bool driver_loaded = true;
  // Where to find the disks that must all answer before "not found" is believed.
  std::string sysfs = "/sys/class/block";
  std::string dev = "/dev";
  // Asked before the first command about a group and before each command that changes it. Such a command
  // holds the group's lock until it ends. nullptr: the caller keeps other writers away. Must outlive the
  // object.
  GroupLocks* locks = nullptr;
  // The UUID of a group according to the disks; empty if unknown. If it is known, the group is claimed before
  // LVM runs. Claim fails at once, with a message, while a command of the last owner is running; LVM would
  // wait for that command without a message.
  std::function<std::string(const std::string& group)> uuid_of = nullptr;
};

// Thread-safe. A killed lvm may have committed, and may have left devices suspended. After kTimeout and
// kCancelled, read the group and check device-mapper.
//
// A commit is flushed to the disks on which the last Read saw the group, each proven by its label. If none
// with metadata can be flushed, the group is read again. A disk that another process added since the last
// Read is not flushed. This is harmless, because one durable copy is enough (pv_flush.h).
//
// With locks, any call may also fail with kPrecondition: another process owns the group; nothing was changed.
class LvmSpawn final : public LvmApi {
 public:
  // kNotFound if there is no lvm in /usr/sbin, /sbin, /usr/bin, /bin. Runs lvm once, for its version.
  // `subprocess` must outlive the object.
  static Result<std::unique_ptr<LvmSpawn>> Make(Subprocess& subprocess, LvmSpawnOptions options,
                                                const Call& call);

  Result<Snapshot> Read(const std::string& group, const Call& call) override;
  Status Apply(const Change& change, const Call& call) override;
  Result<std::string> Version(const std::string& group, const Call& call) override;

 private:
  LvmSpawn(Subprocess& subprocess, LvmSpawnOptions options, std::string lvm_path)
      : subprocess_(subprocess), options_(std::move(options)), lvm_path_(std::move(lvm_path)) {}

  // Runs a command that changes nothing. OK with any exit status.
  Result<Finished> Run(const std::vector<std::string>& arguments, const Call& call);
  // The same for a command that changes `group`. `lock_fd`: as in CreateLv.
  Result<Finished> RunHolding(const std::string& group, const std::vector<std::string>& arguments,
                              const Call& call, int lock_fd = -1);
  Command CommandOf(const std::vector<std::string>& arguments) const;
  Result<VolumeGroup> Report(const std::string& group, const Call& call);
  // Runs the command, and flushes what it has committed.
  Status Do(const CreateGroup& change, const Call& call);
  Status Do(const AddPv& change, const Call& call);
  Status Do(const CreateLv& change, const Call& call);
  Status Do(const RemoveLvs& change, const Call& call);
  Status Do(const ChangeTags& change, const Call& call);
  Status Do(const ExtendThinLv& change, const Call& call);
  Status Do(const AllocateAnywhere& change, const Call& call);
  template <typename Verb>
  Status Do(const Verb& change, const Call& call);
  // The same if LVM fails because there is nothing to change.
  template <typename Verb>
  Status DoUnlessDone(const Verb& change, const Call& call);
  // Runs the command. Any exit status other than 0 is an error.
  template <typename Verb>
  Status RunToSuccess(const Verb& change, const Call& call, int lock_fd = -1);
  // The error of a failed command. It is "not found" only if that is proven.
  Error Failure(const std::string& verb, const std::string& object, const Finished& finished,
                const Call& call);
  Status Flush(const std::string& group, const Call& call);
  std::vector<FlushTarget> LastSeen(const std::string& group);

  Subprocess& subprocess_;
  const LvmSpawnOptions options_;
  const std::string lvm_path_;
  Mutex mutex_;
  std::map<std::string, std::vector<FlushTarget>> last_seen_ ABSL_GUARDED_BY(mutex_);  // by group
};

}  // namespace quarry::lvm
