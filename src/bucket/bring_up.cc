// From a volume to a bucket that is reached, and back.
#include <utility>

#include <fmt/format.h>

#include "bucket/buckets.h"
#include "bucket/names.h"

namespace quarry::bucket {
namespace {

std::vector<std::string> MountFlags(const Settings& settings) {
  std::vector<std::string> flags = {"nosuid", "nodev", "noexec"};
  if (settings.durability == Durability::kSync) {
    flags.emplace_back("sync");  // versitygw calls no fsync
  }
  return flags;
}

// What an error of a file system that has shut itself down looks like.
bool MayBeShutDown(const Error& error) {
  return error.code() == Code::kIo;
}

}  // namespace

Result<dev_t> Buckets::MountBucket(const engine::Volume& volume, const Settings& settings, const Call& call) {
  const std::string lv = LvNameIn(volume.id);
  QUARRY_TRY(folder_.MakeMountPoint(lv));
  const AbsolutePath path = folder_.MountPoint(lv);
  QUARRY_ASSIGN(
      const engine::MountResult mounted,
      engine_.bucket_mounts().Mount({.id = volume.id, .path = path, .flags = MountFlags(settings)}, call));
  const MutexLock lock(mutex_);
  if (const auto found = known_.find(volume.id); found != known_.end()) {
    found->second.device = mounted.device;
  }
  return mounted.device;
}

Result<BucketFolder> Buckets::OpenMounted(const std::string& id, dev_t device) const {
  return BucketFolder::Open(folder_.MountPoint(LvNameIn(id)), config_.gateway,
                            [&](int folder) { return config_.prove_mount(folder, device); });
}

void Buckets::Touch(const Known& known) const {
  // The open folder keeps the volume mounted, so a deletion that comes now does not find its device in use.
  if (const auto opened = OpenMounted(known.volume.id, known.device); opened.has_value()) {
    config_.touch_disk(known.device);
  }
}

Result<BucketFolder> Buckets::OpenBucket(const engine::Volume& volume, const Settings& settings,
                                         const Call& call) {
  QUARRY_ASSIGN(const dev_t device, MountBucket(volume, settings, call));
  auto opened = OpenMounted(volume.id, device);
  if (opened.has_value() || !MayBeShutDown(opened.error())) {
    return opened;
  }
  // XFS shuts itself down when its disk is lost. Only another mount ends that.
  QUARRY_TRY(engine_.bucket_mounts().Unmount(volume.id, folder_.MountPoint(LvNameIn(volume.id)), call));
  QUARRY_ASSIGN(const dev_t again, MountBucket(volume, settings, call));
  return OpenMounted(volume.id, again);
}

// Whoever brings a bucket up, the older one of two with one name serves. A bucket whose age no round has seen
// yet waits for the next one.
Status Buckets::CheckNameLocked(const std::string& id, const std::string& name) const {
  const auto own = known_.find(id);
  const uint64_t created = own == known_.end() ? 0 : own->second.created;
  for (const auto& [other_id, other] : known_) {
    if (other_id == id || other.settings.name != name) {
      continue;
    }
    if (other.linked) {
      return Error(Code::kAlreadyExists,
                   fmt::format("bucket {} has the same name, '{}', and serves", other_id, name));
    }
    const bool is_younger = created == 0 || std::pair(other.created, other_id) < std::pair(created, id);
    if (other.created > 0 && is_younger) {
      return Error(Code::kAlreadyExists, OlderText(other_id, name));
    }
  }
  return Ok();
}

Status Buckets::BringUp(const engine::Volume& volume, const Call& call) {
  QUARRY_ASSIGN(const Settings settings, Settings::FromCanonical(volume.s3));
  const auto type = volume.context.find("type");
  {
    const MutexLock lock(mutex_);
    QUARRY_TRY(CheckNameLocked(volume.id, settings.name));
    Known& known = known_[volume.id];
    known.volume = volume;
    known.settings = settings;
    known.type = type == volume.context.end() ? "" : type->second;
  }
  QUARRY_ASSIGN(const BucketFolder opened, OpenBucket(volume, settings, call));
  QUARRY_ASSIGN(std::vector<GrantRecord> records, opened.Grants());
  {
    const MutexLock lock(mutex_);
    std::map<std::string, GrantRecord> grants;
    for (GrantRecord& record : records) {
      grants.emplace(record.account, std::move(record));
    }
    known_[volume.id].grants = std::move(grants);
    known_[volume.id].was_read = true;
    SettleConflictsLocked();
  }
  QUARRY_TRY(WriteUsers());
  QUARRY_TRY(Step("set policy of " + settings.name,
                  [&] { return opened.SetPolicy(PolicyOf(volume.id, settings.name)); }));
  bool was_stale = false;
  {
    const MutexLock lock(mutex_);
    was_stale = std::exchange(known_[volume.id].stale, false);
  }
  if (was_stale) {
    QUARRY_TRY(WriteUsers());  // accounts with two secrets waited for the policy
  }
  QUARRY_TRY(Step("link " + settings.name, [&] { return folder_.Link(settings.name, LvNameIn(volume.id)); }));
  const auto usage = opened.Usage();
  const MutexLock lock(mutex_);
  Known& known = known_[volume.id];
  known.linked = true;
  known.problem.clear();
  if (usage.has_value() && !known.content.has_value()) {
    known.content = *usage;
  }
  return Ok();
}

void Buckets::TakeDown(const std::string& id, const std::string& why) {
  std::string name;
  {
    const MutexLock lock(mutex_);
    const auto found = known_.find(id);
    if (found == known_.end()) {
      return;
    }
    name = found->second.settings.name;
    found->second.linked = false;
  }
  // The link may be that of an earlier process, or of another bucket.
  if (const Status gone = folder_.UnlinkFrom(name, LvNameIn(id)); !gone.has_value()) {
    log_.Error("a bucket cannot be taken away from its clients",
               {{"bucket", name}, {"error", gone.error().message()}});
  }
  NoteProblem(id, why);
}

void Buckets::NoteProblem(const std::string& id, const std::string& problem) {
  std::string name;
  {
    const MutexLock lock(mutex_);
    const auto found = known_.find(id);
    if (found == known_.end() || found->second.problem == problem) {
      return;
    }
    found->second.problem = problem;
    name = found->second.settings.name;
  }
  log_.Warning("a bucket does not serve", {{"bucket", name}, {"volume", id}, {"detail", problem}});
}

void Buckets::Forget(const std::string& id) {
  std::string name;
  {
    const MutexLock lock(mutex_);
    const auto found = known_.find(id);
    if (found == known_.end()) {
      return;
    }
    name = found->second.settings.name;
    // What an earlier process wrote of accounts would keep them in users.json until every bucket was read. An
    // account that may have another bucket stays: that one may not have been read yet.
    for (const auto& [account, record] : found->second.grants) {
      if (record.all.size() == 1) {
        inherited_.erase(account);
      }
    }
    known_.erase(found);
    SettleConflictsLocked();
  }
  (void)folder_.UnlinkFrom(name, LvNameIn(id));
  folder_.RemoveMountPoint(LvNameIn(id));
  if (const Status written = WriteUsers(); !written.has_value()) {
    log_.Error("accounts of a deleted bucket cannot be removed", {{"error", written.error().message()}});
  }
}

}  // namespace quarry::bucket
