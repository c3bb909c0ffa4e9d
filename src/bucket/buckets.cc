#include "bucket/buckets.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "bucket/names.h"

namespace quarry::bucket {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kBusyLimit{10'000};  // then the gateway is restarted
constexpr milliseconds kAfterRestart{5'000};
constexpr milliseconds kBusyPause{200};
constexpr uint64_t kMostCounted = 1'000'000;  // to tell whether there are any, and about how many
constexpr milliseconds kLearnLimit{5'000};
constexpr milliseconds kCountPatience{2'000};  // of a caller that wants to see buckets
constexpr milliseconds kRoundsLag{30'000};     // the rounds count again first

engine::CreateRequest VolumeRequest(const Wish& wish) {
  engine::Capability xfs;
  xfs.fs_type = "xfs";
  return {.name = VolumeNameOf(wish.settings.name),
          .range = {wish.settings.size, Bytes{}},
          .capabilities = {std::move(xfs)},
          .parameters = wish.volume,
          .s3 = wish.settings.Canonical()};
}

// Callers with little time repeat their call, and join what goes on.
Error Unfinished(Error error, std::string_view how_far) {
  return error.code() == Code::kTimeout || error.code() == Code::kBusy
             ? std::move(error).As(Code::kUnavailable).Context(how_far)
             : std::move(error).Context(how_far);
}

// Whether the kernel reports that a device did not give what was read from it. XFS passes on the errors of
// the device: EIO, and for a medium error ENODATA or EREMOTEIO. libblkid and tools have no errno. Other
// errors that count as kIo, such as EPERM and EUCLEAN, say nothing about a disk.
bool IsFromDisk(const Error& error) {
  const int number = error.sys_errno();
  return error.code() == Code::kIo &&
         (number == 0 || number == EIO || number == ENODATA || number == EREMOTEIO);
}

std::string CountText(const ObjectCount& count) {
  return fmt::format("{}{}", count.is_complete ? "" : "at least ", count.objects);
}

}  // namespace

Result<std::unique_ptr<Buckets>> Buckets::Make(BucketsConfig config, engine::Engine& engine,
                                               const Logger& log) {
  QUARRY_ASSIGN(ServedFolder folder, ServedFolder::Make(config.folder, config.spare, config.gateway));
  // Before the gateway starts, too: without it, the first reports are lost.
  QUARRY_ASSIGN(UniqueFd reports, folder.MakeReportSocket());
  auto made = std::unique_ptr<Buckets>(
      new Buckets(std::move(config), engine, log, std::move(folder), std::move(reports)));
  // Before the environment, at which the gateway starts: it cannot make this file itself.
  {
    const MutexLock lock(made->mutex_);
    QUARRY_TRY(made->folder_.WriteUsers(UsersText(made->inherited_)));
  }
  QUARRY_TRY(made->folder_.WriteEnvironment(made->config_.settings, false));
  return made;
}

Result<engine::Volume> Buckets::Volume(const std::string& id, const Call& call) {
  auto volume = engine_.bucket_volumes().Get(id, call);
  if (volume.has_value() ? volume->s3.empty() : volume.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, fmt::format("bucket_id: no bucket '{}' on this node", id));
  }
  return volume;
}

Result<NameLocks::Guard> Buckets::LockBucket(const std::string& name, const Call& call) {
  return locks_.Lock(fmt::format("bucket {}", name), call);
}

Bucket Buckets::DescribeLocked(const Known& known) const {
  const std::string silent = known.silent ? "its disk does not answer" : "";
  const std::string& problem = !known.linked            ? known.problem
                               : known.silent           ? silent
                               : !gateway_healthy_      ? gateway_problem_
                               : !known.ailment.empty() ? known.ailment
                                                        : known.conflict;
  return {.id = known.volume.id,
          .name = known.settings.name,
          .size = known.volume.size,
          .pool = known.volume.pool,
          .type = known.type,
          .serving = known.linked && !known.silent && gateway_healthy_,
          .problem = problem};
}

Bucket Buckets::Describe(const engine::Volume& volume) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(volume.id);
  Bucket out;
  if (found != known_.end()) {
    out = DescribeLocked(found->second);
    for (const auto& [account, record] : found->second.grants) {
      out.accounts.push_back({account, record.access});
    }
    out.content = found->second.linked ? found->second.content : std::nullopt;
  } else {
    out = {.id = volume.id, .name = BucketNameIn(volume.name), .problem = "it is not mounted yet"};
    const auto type = volume.context.find("type");
    out.type = type == volume.context.end() ? "" : type->second;
  }
  out.size = volume.size;
  out.pool = volume.pool;
  return out;
}

Result<CreateResult> Buckets::Create(const CreateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const Wish wish, ParseRequest(request));
  QUARRY_ASSIGN(const auto guard, LockBucket(request.name, call));
  auto made = engine_.bucket_volumes().Create(VolumeRequest(wish), call);
  if (!made.has_value()) {
    if (made.error().code() == Code::kOutOfRange) {  // larger than the pool
      return std::move(made.error()).As(Code::kNoSpace);
    }
    if (made.error().code() == Code::kAlreadyExists) {
      return std::move(made.error()).Context(fmt::format("name: bucket '{}' exists already", request.name));
    }
    return Unfinished(std::move(made.error()), "making the volume");
  }
  const engine::Volume& volume = made->volume;
  QUARRY_ASSIGN(const Settings present, Settings::FromCanonical(volume.s3));
  if (const auto difference = Difference(present, volume.size, wish.settings); difference.has_value()) {
    return Error(Code::kAlreadyExists,
                 fmt::format("name: bucket '{}' exists already and differs: {}", request.name, *difference));
  }
  if (Status up = BringUp(volume, call); !up.has_value()) {
    return Unfinished(std::move(up.error()), "the volume is made; bringing the bucket up");
  }
  if (const Status serves = config_.probe(); !serves.has_value()) {
    const char* const hint = serves.error().code() == Code::kBusy ? "" : ": is quarry-gateway running?";
    return Error(Code::kUnavailable, fmt::format("bucket '{}' is made, but {}{}", request.name,
                                                 ProblemOfGateway(serves.error()), hint));
  }
  {
    const MutexLock lock(mutex_);
    gateway_healthy_ = true;
  }
  return CreateResult{Describe(volume), made->created};
}

Result<Bucket> Buckets::Find(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const engine::Volume volume, Volume(id, call));
  if (const std::optional<Known> known = Find(id); known.has_value() && known->linked && !known->looking) {
    (void)LookAtContent(*known, config_.count_interval + kRoundsLag, call.Within(kCountPatience));
  }
  return Describe(volume);
}

Status Buckets::Compare(const std::string& id, const Parameters& parameters, const Call& call) {
  QUARRY_ASSIGN(const engine::Volume volume, Volume(id, call));
  QUARRY_ASSIGN(const Settings present, Settings::FromCanonical(volume.s3));
  QUARRY_ASSIGN(const Wish wish, ParseOver(parameters, present));
  if (const auto difference = Difference(present, volume.size, wish.settings); difference.has_value()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("parameters: bucket '{}' differs: {}", present.name, *difference));
  }
  return wish.volume.empty() ? Ok() : engine_.bucket_volumes().CompareProfile(id, wish.volume, call);
}

Result<std::vector<Bucket>> Buckets::List(const Call& call) {
  QUARRY_ASSIGN(const auto pools, engine_.lifecycle().NodeStatus(call));
  std::vector<Bucket> out;
  // Of all buckets together. The rounds count them, so there is seldom one to count.
  const Call counting = call.Within(kCountPatience);
  for (const engine::PoolStatus& pool : pools) {
    for (const engine::VolumeStatus& status : pool.volumes) {
      if (status.is_bucket) {
        engine::Volume volume{
            .id = status.id, .name = status.name, .size = status.size, .pool = pool.figures.pool};
        volume.context["type"] = status.type;
        if (const std::optional<Known> known = Find(status.id);
            known.has_value() && known->linked && !known->looking) {
          (void)LookAtContent(*known, config_.count_interval + kRoundsLag, counting);
        }
        out.push_back(Describe(volume));
      }
    }
    if (!pool.figures.problem.empty()) {
      const MutexLock lock(mutex_);
      for (const auto& [id, known] : known_) {
        // A pool may have a problem, such as commands that hang, and be readable all the same.
        const bool listed = std::ranges::find(out, id, &Bucket::id) != out.end();
        if (known.volume.pool == pool.figures.pool && !listed) {
          out.push_back(DescribeLocked(known));
          out.back().serving = false;
          out.back().problem = pool.figures.problem;
        }
      }
    }
  }
  return out;
}

// Looks for objects. The disk of a bucket that is silent would hold this call, too.
Result<ObjectCount> Buckets::Search(const Known& known, const Call& call) {
  const std::optional<Known> now = Find(known.volume.id);
  if (now.has_value() && now->silent) {
    return Error(Code::kUnavailable,
                 fmt::format("the disk of bucket '{}' does not answer: detach it, or try again when it does",
                             known.settings.name));
  }
  QUARRY_ASSIGN(const BucketFolder opened, OpenBucket(known.volume, known.settings, call));
  return opened.Count(kMostCounted, call);
}

// The engine judges which disks are there and which are about to return. Beyond that only an attempt to read
// can tell: disks that are there may give errors.
Result<bool> Buckets::ProveLost(const Known& known, const Call& call) {
  const std::string& name = known.settings.name;
  QUARRY_ASSIGN(const engine::LossVerdict verdict, engine_.bucket_volumes().JudgeLoss(known.volume.id, call));
  if (verdict.loss == engine::Loss::kPassing) {
    return Error(Code::kUnavailable, verdict.words);
  }
  if (verdict.loss == engine::Loss::kLost) {
    return true;
  }
  const auto found = Search(known, call);
  if (found.has_value()) {
    return Error(
        Code::kPrecondition,
        fmt::format("bucket '{}' lacks no disk that it cannot do without, and can be read: delete it "
                    "without --lost",
                    name));
  }
  if (!IsFromDisk(found.error())) {
    return Error(found.error()).Context(fmt::format("bucket '{}' is not proven to be lost", name));
  }
  return false;
}

Status Buckets::CheckEmpty(const Known& known, const Call& call) {
  const auto unsearchable = [&](const std::string& why) {
    return Error(Code::kPrecondition,
                 fmt::format("bucket '{}' has ondelete=refuse, and cannot be searched for objects: {}. Bring "
                             "the disk back, or give the objects up with `quarryctl bucket delete --lost {}`",
                             known.settings.name, why, known.volume.id));
  };
  QUARRY_ASSIGN(const engine::LossVerdict verdict, engine_.bucket_volumes().JudgeLoss(known.volume.id, call));
  if (verdict.loss == engine::Loss::kLost) {
    return unsearchable(verdict.words);
  }
  const auto count = Search(known, call);
  if (!count.has_value() && verdict.loss == engine::Loss::kPassing) {
    return Error(Code::kUnavailable, verdict.words);
  }
  if (!count.has_value()) {
    return IsFromDisk(count.error()) ? unsearchable(count.error().message()) : count.error();
  }
  if (count->objects == 0) {
    return call.Check("counting objects");
  }
  return Error(Code::kPrecondition,
               fmt::format("bucket '{}' has {} objects, and ondelete=refuse: delete them first",
                           known.settings.name, CountText(*count)));
}

bool Buckets::MayRestartGateway(const std::string& id) {
  constexpr seconds kInterval{60};
  const SteadyTime now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  const auto found = known_.find(id);
  // A holder that a restart did not end is not the gateway.
  const bool in_vain = found != known_.end() && found->second.restarted;
  if (in_vain || now - restarted_for_deletion_ < kInterval) {
    return false;
  }
  restarted_for_deletion_ = now;
  if (found != known_.end()) {
    found->second.restarted = true;
  }
  return true;
}

Status Buckets::RestartGateway() {
  const MutexLock lock(users_mutex_);
  return folder_.WriteEnvironment(config_.settings, true);
}

Status Buckets::UnmountPatiently(const Known& known, const Call& call) {
  const AbsolutePath path = folder_.MountPoint(LvNameIn(known.volume.id));
  const Call first = call.Within(kBusyLimit);
  const Call last = call.Within(kBusyLimit + kAfterRestart);
  auto gone = engine_.bucket_mounts().Unmount(known.volume.id, path, call);
  for (bool restarted = false; !gone.has_value() && gone.error().sys_errno() == EBUSY;) {
    QUARRY_TRY(call.Check("unmounting the bucket"));
    const std::optional<Known> now = Find(known.volume.id);
    if (now.has_value() && now->silent) {
      // A gateway that is ended while its threads wait for a disk keeps the port, and no other starts.
      return Error(Code::kUnavailable, fmt::format("the disk of bucket '{}' does not answer, so it cannot be "
                                                   "unmounted: try again when it does",
                                                   known.settings.name));
    }
    const bool own_look = now.has_value() && now->looking;  // may be what keeps it busy
    if (!restarted && !own_look && !first.Check("").has_value()) {
      // A client that hangs keeps a file open. The gateway answers all others again in less than a second.
      if (!MayRestartGateway(known.volume.id)) {
        break;
      }
      QUARRY_TRY(RestartGateway());
      log_.Warning("the gateway is restarted: a client kept a deleted bucket in use",
                   {{"bucket", known.settings.name}});
      restarted = true;
    }
    if (!last.Check("").has_value() || !Sleep(call.stop, kBusyPause)) {
      break;
    }
    gone = engine_.bucket_mounts().Unmount(known.volume.id, path, call);
  }
  return gone.has_value() ? Ok() : Status(std::move(gone.error()));
}

// Which accounts go with a bucket that no round has seen since the start. Best effort: a bucket that cannot
// be read is deleted too.
void Buckets::LearnGrants(const engine::Volume& volume, const Settings& settings, const Call& call) {
  const std::optional<Known> before = Find(volume.id);
  if (!before.has_value() || before->was_read || before->looking || before->silent) {
    return;  // known, or a disk that may not answer
  }
  const auto opened = OpenBucket(volume, settings, call.Within(kLearnLimit));
  const auto records = opened.has_value() ? opened->Grants() : opened.error();
  if (records.has_value()) {
    const MutexLock lock(mutex_);
    Known& known = known_[volume.id];
    for (const GrantRecord& record : *records) {
      known.grants.emplace(record.account, record);
    }
    known.was_read = true;
    SettleConflictsLocked();
  }
}

Status Buckets::DeleteIf(const std::string& id, bool lost, const Call& call) {
  const auto volume = Volume(id, call);
  if (!volume.has_value() && volume.error().code() == Code::kNotFound) {
    // As for a volume: an id of another node, or of a pool that is not configured, is not proven to be gone.
    const auto deleted = engine_.bucket_volumes().Delete(id, call);
    return deleted.has_value() || deleted.error().code() == Code::kNotFound ? Ok() : Status(deleted.error());
  }
  QUARRY_TRY(volume.has_value() ? Ok() : Status(volume.error()));
  QUARRY_ASSIGN(const Settings settings, Settings::FromCanonical(volume->s3));
  QUARRY_ASSIGN(const auto guard, LockBucket(settings.name, call));
  {
    // After a start, the link of an earlier process is there although no round has seen the bucket.
    const MutexLock lock(mutex_);
    Known& one = known_[id];
    if (one.volume.id.empty()) {
      one.volume = *volume;
      one.settings = settings;
    }
  }
  const std::optional<Known> before = Find(id);
  const bool knew_grants = before.has_value() && before->was_read;
  if (!lost) {
    LearnGrants(*volume, settings, call);
  }
  const std::optional<Known> known = Find(id);
  const bool checked = lost || settings.on_delete == OnDelete::kRefuse;
  bool lost_by_disks = false;
  const auto may_go = [&]() -> Status {
    if (!lost) {
      return CheckEmpty(*known, call);
    }
    QUARRY_ASSIGN(lost_by_disks, ProveLost(*known, call));
    return Ok();
  };
  const auto delete_it = [&]() -> Status {
    // Without its link, no new request reaches it. Requests that run may still put an object, so it is looked
    // at again once the unmount has proved that none runs. A disk may have returned meanwhile, too.
    QUARRY_TRY(checked ? may_go() : Ok());
    QUARRY_TRY(Step("unlink " + settings.name, [&]() -> Status {
      TakeDown(id, "it is being deleted");
      return Ok();
    }));
    QUARRY_TRY(UnmountPatiently(*known, call));
    if (checked) {
      QUARRY_TRY(may_go());
      QUARRY_TRY(UnmountPatiently(*known, call));
    }
    // Disks that give errors cannot be taken back at the last moment: they are there.
    QUARRY_TRY(lost_by_disks ? engine_.bucket_volumes().DeleteLost(id, call)
                             : engine_.bucket_volumes().Delete(id, call));
    return Ok();
  };
  Status deleted = delete_it();
  if (!deleted.has_value()) {
    if (!knew_grants) {
      // They count once the bucket is served: it may be the younger of two with one name.
      const MutexLock lock(mutex_);
      known_[id].grants.clear();
      known_[id].was_read = false;
      SettleConflictsLocked();
    }
    // On a silent disk this would hang. The rounds bring the bucket up when the disk answers.
    const std::optional<Known> now = Find(id);
    if (!now.has_value() || !now->silent) {
      if (const Status up = BringUp(*volume, call.Within(kBusyLimit)); !up.has_value()) {
        NoteProblem(id, up.error().message());  // the next round tries again
      }
    }
    return Unfinished(std::move(deleted.error()), fmt::format("deleting bucket '{}'", settings.name));
  }
  Forget(id);
  return Ok();
}

Result<Bytes> Buckets::Grow(const std::string& id, Bytes size, const Call& call) {
  QUARRY_ASSIGN(engine::Volume volume, Volume(id, call));
  QUARRY_ASSIGN(const auto guard, LockBucket(BucketNameIn(volume.name), call));
  const std::optional<Known> known = Find(id);
  // A bucket that is too full to serve needs growth most.
  if (!known.has_value() || !config_.is_mount_point(folder_.MountPoint(LvNameIn(id)))) {
    return Error(Code::kUnavailable, fmt::format("bucket {} is not mounted: {}", id,
                                                 known.has_value() ? known->problem : "that goes on"));
  }
  if (known->silent) {
    return Error(Code::kUnavailable, fmt::format("bucket {} cannot grow now: {}", id, known->problem));
  }
  if (size > volume.size) {
    QUARRY_ASSIGN(const auto grown, engine_.bucket_volumes().Expand(id, {size, Bytes{}}, {}, call));
    volume.size = grown.size;
    const MutexLock lock(mutex_);
    known_[id].volume.size = grown.size;
  }
  // Also for a growth that was cut off before its file system had grown.
  const AbsolutePath path = folder_.MountPoint(LvNameIn(id));
  QUARRY_TRY(engine_.bucket_volumes().NodeExpand(
      {.id = id, .volume_path = path.str(), .staging_path = "", .range = {}}, call));
  return volume.size;
}

}  // namespace quarry::bucket
