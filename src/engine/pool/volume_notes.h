// What quarryd remembers in memory about single volumes, by id. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/call.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/raid/stopped_array.h"
#include "lvm/thin_pool.h"

namespace quarry::engine {

// Open descriptors of published raw devices, by volume id. They keep the devices in use: a bind mount of a
// device node does not open the device.
class Holds {
 public:
  void Keep(const std::string& id, UniqueFd fd) {
    const MutexLock lock(mutex_);
    fds_.insert_or_assign(id, std::move(fd));
  }
  void Drop(const std::string& id) {
    const MutexLock lock(mutex_);
    fds_.erase(id);
  }
  bool Has(const std::string& id) const {
    const MutexLock lock(mutex_);
    return fds_.contains(id);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, UniqueFd> fds_ ABSL_GUARDED_BY(mutex_);
};

// A set of volumes or disks, by id, handle or PV UUID.
class VolumeSet {
 public:
  // `most`: a full set takes no further volume.
  explicit VolumeSet(size_t most = SIZE_MAX) : most_(most) {}

  void Add(const std::string& id) {
    const MutexLock lock(mutex_);
    if (ids_.size() < most_) {
      ids_.insert(id);
    }
  }
  void Drop(const std::string& id) {
    const MutexLock lock(mutex_);
    ids_.erase(id);
  }
  bool Has(const std::string& id) const {
    const MutexLock lock(mutex_);
    return ids_.contains(id);
  }
  std::set<std::string> All() const {
    const MutexLock lock(mutex_);
    return ids_;
  }

 private:
  const size_t most_;
  mutable Mutex mutex_;
  std::set<std::string> ids_ ABSL_GUARDED_BY(mutex_);
};

// Volumes that are being copied, by id. Nothing may grow or delete them. If they are not in use, their bytes
// must stand still, so nothing may begin to use them either. This is not the lock of the volume, because a
// copy may take hours: repair and unpublishing go on.
class CopySources {
 public:
  // From the check that the volume is not in use until the end of the copy. The sources must outlive it.
  class Guard {
   public:
    Guard(CopySources& sources, std::string id) : sources_(&sources), id_(std::move(id)) {}
    Guard(Guard&& other) noexcept
        : sources_(std::exchange(other.sources_, nullptr)), id_(std::move(other.id_)) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (sources_ != nullptr) {
        const MutexLock lock(sources_->mutex_);
        sources_->operations_.erase(id_);
      }
    }

   private:
    CopySources* sources_;
    std::string id_;
  };

  // `in_use`: the volume may be used meanwhile, because its bytes are kept elsewhere. kBusy: it is being
  // copied already. The caller holds the volume's lock.
  Result<Guard> Add(const std::string& id, const std::string& operation, bool in_use = false) {
    QUARRY_TRY(Check(id, Call()));
    const MutexLock lock(mutex_);
    operations_.emplace(id, Operation{operation, in_use});
    return Guard(*this, id);
  }
  // For calls that would change the volume, or end it. kBusy while it is being copied; kUnavailable for a
  // patient call. The caller holds the volume's lock, so no copy begins meanwhile.
  Status Check(const std::string& id, const Call& call) const { return Check(id, call, false); }
  // The same for calls that would begin to use the volume.
  Status CheckUse(const std::string& id, const Call& call) const { return Check(id, call, true); }

 private:
  struct Operation {
    std::string what;
    bool in_use;
  };

  Status Check(const std::string& id, const Call& call, bool use) const {
    const MutexLock lock(mutex_);
    const auto found = operations_.find(id);
    if (found == operations_.end() || (use && found->second.in_use)) {
      return Ok();
    }
    return Error(
        call.patient ? Code::kUnavailable : Code::kBusy,
        "volume " + id + " is being copied (" + found->second.what + "): try again when that is done");
  }

  mutable Mutex mutex_;
  std::map<std::string, Operation> operations_ ABSL_GUARDED_BY(mutex_);
};

// Ids of volumes that were deleted here although their ids name another node. A repeated deletion of such a
// volume did not reach the wrong node. The ids are forgotten when the process ends.
class DeletedHere {
 public:
  void Add(const std::string& id) {
    const MutexLock lock(mutex_);
    if (ids_.size() >= kMost) {
      ids_.clear();
    }
    ids_.insert(id);
  }
  bool Has(const std::string& id) const {
    const MutexLock lock(mutex_);
    return ids_.contains(id);
  }

 private:
  static constexpr size_t kMost = 1000;

  mutable Mutex mutex_;
  std::set<std::string> ids_ ABSL_GUARDED_BY(mutex_);
};

// Why quarryd does not start certain volumes (raid/stopped_array.h), as of the last inspection. By volume id.
class Doubts {
 public:
  void Set(const std::string& id, const std::optional<Doubt>& doubt) {
    const MutexLock lock(mutex_);
    if (doubt.has_value()) {
      words_.insert_or_assign(id, doubt->words);
    } else {
      words_.erase(id);
    }
  }
  std::optional<std::string> Of(const std::string& id) const {
    const MutexLock lock(mutex_);
    const auto found = words_.find(id);
    return found == words_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> words_ ABSL_GUARDED_BY(mutex_);
};

// Why the last attempt to start a thin store failed, by its id.
class StoreTroubles {
 public:
  struct Trouble {
    lvm::PoolRefusal refusal = lvm::PoolRefusal::kOther;
    std::string words;
    bool passes = false;  // nothing was found out: a later attempt may do
  };
  // OK: there is no trouble any more. An attempt that found nothing out does not replace the reason of an
  // earlier one.
  void Note(const std::string& id, const Status& started) {
    const MutexLock lock(mutex_);
    if (started.has_value()) {
      troubles_.erase(id);
      return;
    }
    const Code code = started.error().code();
    const bool passes = code == Code::kUnavailable || code == Code::kTimeout || code == Code::kCancelled ||
                        code == Code::kBusy;
    const auto known = troubles_.find(id);
    if (!passes || known == troubles_.end() || known->second.passes) {
      const std::string& words = started.error().message();
      troubles_.insert_or_assign(id, Trouble{lvm::RefusalIn(words), words, passes});
    }
  }
  std::optional<Trouble> Of(const std::string& id) const {
    const MutexLock lock(mutex_);
    const auto found = troubles_.find(id);
    return found == troubles_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, Trouble> troubles_ ABSL_GUARDED_BY(mutex_);
};

// Names of the volumes that were active when their thin store was stopped for a repair, by the store's id.
// They are activated once it is started again, by whichever attempt succeeds.
class StoppedVolumes {
 public:
  void Add(const std::string& store, const std::vector<std::string>& names) {
    const MutexLock lock(mutex_);
    names_[store].insert(names.begin(), names.end());
  }
  std::set<std::string> Of(const std::string& store) const {
    const MutexLock lock(mutex_);
    const auto found = names_.find(store);
    return found == names_.end() ? std::set<std::string>() : found->second;
  }
  void Forget(const std::string& store) {
    const MutexLock lock(mutex_);
    names_.erase(store);
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::set<std::string>> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quarry::engine
