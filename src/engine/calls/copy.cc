// Makes a volume as a copy of another one: CreateVolume with a volume as its source.
//
// The source must not be in use. Until the copy is done it is registered (CopySources), so no call begins to
// use it, and its device is open exclusively, so nobody else mounts it. The new volume is made as if it had
// been deleted already: active, open, with the tags of a deleted volume. When its bytes are in place and
// flushed, one commit makes it a ready volume. If quarryd is killed before that, the next one erases it like
// any deleted volume, and a repeated call begins again. So neither an unfinished copy is ever handed out, nor
// does a copied byte stay on a disk.
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "engine/calls/steps.h"

namespace quarry::engine {
namespace {

// A copy takes as long as its disks need.
constexpr std::chrono::hours kLongestCopy{24 * 30};
// Limit for each part of the work that runs LVM's commands: they may hold the turn no longer.
constexpr std::chrono::minutes kCommands{5};
// A caller waits at most this long for the end of a copy. A stop waits for calls for longer than that.
constexpr std::chrono::seconds kPatience{15};

// Keeps this process's eraser from the unfinished copy, for the lifetime of this object. Then the eraser
// looks whether there is anything to erase.
class Copying {
 public:
  Copying(Pool& pool, Eraser& eraser, std::string lv_name)
      : pool_(pool), eraser_(eraser), name_(std::move(lv_name)) {
    const MutexLock lock(pool_.making_mutex);
    pool_.copying.insert(name_);
  }
  ~Copying() {
    {
      const MutexLock lock(pool_.making_mutex);
      pool_.copying.erase(name_);
    }
    eraser_.Wake();
  }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  Pool& pool_;
  Eraser& eraser_;
  std::string name_;
};

struct Job {
  Parts& parts;
  Pool& pool;
  CreateWish wish;
  CapacityRange range;
  Found source;
  std::string what;  // "CreateVolume of 'x'"
  std::shared_ptr<std::atomic<uint64_t>> done = std::make_shared<std::atomic<uint64_t>>(0);
};

// A call with another source is another request.
std::string KeyOf(const CreateRequest& request) {
  return fmt::format("copy of {} as {}", request.source, request.name);
}

// A mounted volume that was never formatted has no bytes worth copying.
bool IsBlank(const Record& source) {
  return source.access == Access::kMount && source.tags.formatted.empty();
}

// Whether this volume can be the source of the volume that `wish` describes.
Status CheckSource(const Record& source, const CreateWish& wish, const CapacityRange& range) {
  const lvm::VolumeTags& tags = source.tags;
  const auto refuse = [&](Code code, const std::string& why) {
    return Error(code, fmt::format("volume_content_source: volume {} {}", tags.id, why));
  };
  if (source.access != wish.access.access || tags.fs_type != wish.access.fs_type) {
    return refuse(Code::kInvalidArgument,
                  fmt::format("was made for {}, and a copy has the same use; the request is for {}",
                              UseText(tags.access, tags.fs_type),
                              UseText(AccessName(wish.access.access), wish.access.fs_type)));
  }
  if (!tags.fs_type.empty() && !mount::CopiesCoexist(tags.fs_type)) {
    return refuse(Code::kInvalidArgument,
                  fmt::format("cannot be copied: the kernel takes two {} file systems with one UUID for one",
                              tags.fs_type));
  }
  if (!tags.formatted.empty() && tags.formatted != tags.fs_type) {
    return refuse(Code::kPrecondition, "is not formatted completely: stage it once");
  }
  // Its file system may fill the logical volume already.
  if (source.lv->size != tags.size) {
    return refuse(Code::kPrecondition,
                  fmt::format("has {} bytes, but its logical volume has {}: expand the volume to that size "
                              "first (ControllerExpandVolume)",
                              tags.size.value, source.lv->size.value));
  }
  if (range.limit > Bytes{0} && range.limit < tags.size) {
    return Error(Code::kOutOfRange,
                 fmt::format("capacity_range.limit_bytes: is {}, a copy of volume {} needs {}",
                             range.limit.value, tags.id, tags.size.value));
  }
  return Ok();
}

// Opens a volume of `size` bytes exclusively.
Result<UniqueFd> OpenAlone(const World& world, const std::string& dm_uuid, int flags, Bytes size) {
  QUARRY_ASSIGN(UniqueFd fd, world.dm.Open(dm_uuid, flags | O_EXCL));
  QUARRY_ASSIGN(const Bytes have, world.mount.DeviceSize(fd.get()));
  if (have != size) {
    return Error(Code::kUnavailable, fmt::format("a device has {} bytes, {} were expected: another process "
                                                 "has resized the volume; try again",
                                                 have.value, size.value));
  }
  return fd;
}

// Makes the new volume, fills it, and turns it into a ready one. `from`: the source, open exclusively.
Result<Volume> FillNew(const Job& job, const UniqueFd& from, const Call& call) {
  const World& world = job.parts.node.world;
  Unfilled unfilled;
  QUARRY_ASSIGN(Volume volume, MakeNewVolume(job.parts, job.pool, job.wish, job.range, job.what,
                                             call.Within(kCommands), &unfilled));
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(job.pool, call.Within(kCommands)));
  const lvm::LogicalVolume* const lv = catalog->group->FindLv(job.wish.lv_name);
  if (lv == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("{}: another process has removed the new logical volume: try again", job.what));
  }
  // From here on no process can deactivate the copy, and so none can erase it.
  QUARRY_ASSIGN(const UniqueFd to,
                OpenAlone(world, lvm::DmUuid(catalog->group->uuid, lv->uuid), O_RDWR, lv->size));
  const DeviceCopy copy{.from = from.get(),
                        .to = to.get(),
                        .length = job.source.record.lv->size,
                        .to_is_zero = unfilled.is_zero,
                        .rate = job.parts.node.config.erase_rate};
  QUARRY_TRY(Execute({CopyAction{.group = catalog->group->name,
                                 .from = job.source.record.lv->name,
                                 .to = lv->name,
                                 .copy = copy,
                                 .tell = [done = job.done](Bytes bytes) { done->store(bytes.value); }}},
                     world, call));
  const Call last = call.Within(kCommands);
  QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, last));
  auto finished = RunCounted(job.pool, unfilled.rest, world, last);
  if (!finished.has_value()) {
    // The copy may be a ready volume all the same, and then a repeated call finds it.
    return std::move(finished.error()).As(Code::kUnavailable);
  }
  return volume;
}

// A source that was not active is not active afterwards, unless a stop was requested. If that fails, nothing
// is lost: a volume may be active without a user.
void Deactivate(const Job& job, const Call& call) {
  const Record& source = job.source.record;
  if (call.stop.stop_requested()) {
    return;
  }
  const Call limited = call.Within(kUndoLimit);
  const auto turn = job.source.pool->writers.Wait("deactivating a copied volume", limited);
  if (turn.has_value()) {
    (void)Execute({DeactivateAction{source.group->name, source.lv->name, source.DmUuids()}},
                  job.parts.node.world, limited);
  }
}

Result<Volume> MakeCopy(const Job& job, const Call& call) {
  const World& world = job.parts.node.world;
  const Record& source = job.source.record;
  const Copying copying(job.pool, job.parts.erasers.Of(job.pool), job.wish.lv_name);
  QUARRY_ASSIGN(const auto before, job.parts.node.StackOn(source.DmUuid()));
  QUARRY_TRY(job.parts.node.EnsureActive(job.source, call.Within(kCommands)));
  auto volume = [&]() -> Result<Volume> {
    QUARRY_ASSIGN(const UniqueFd from, OpenAlone(world, source.DmUuid(), O_RDONLY, source.lv->size));
    return FillNew(job, from, call);
  }();
  if (!before.has_value()) {
    Deactivate(job, call);
  }
  if (!volume.has_value() && volume.error().code() == Code::kNotFound) {
    // The source exists. Another process has deactivated it, or the copy.
    return std::move(volume.error()).As(Code::kUnavailable);
  }
  return volume;
}

}  // namespace

Status JoinCopy(Parts& parts, const CreateRequest& request, const Call& call) {
  return parts.background.Join(KeyOf(request), call.Within(kPatience));
}

Result<Volume> CopyVolume(Parts& parts, Pool& pool, CreateWish wish, const CreateRequest& request,
                          const std::string& what, KeyLocks::Guard& guard, const Call& call) {
  auto locked = parts.node.locks.Lock(LockKey::Volume(request.source),
                                      fmt::format("{}, as a copy of {}", what, request.source), call);
  if (!locked.has_value()) {
    return std::move(locked.error()).Context("volume_content_source");
  }
  std::optional<KeyLocks::Guard> lock(std::move(*locked));
  auto source = parts.node.GetForController(request.source, call);
  if (!source.has_value()) {
    // Another node that this caller asks may have the source.
    const bool is_elsewhere = request.elsewhere && !parts.node.CheckNotElsewhere(request.source).has_value();
    return std::move(source.error())
        .As(is_elsewhere ? Code::kNoSpace : source.error().code())
        .Context("volume_content_source");
  }
  const Record& record = source->record;
  QUARRY_TRY(CheckSource(record, wish, request.range));
  wish.source = request.source;
  wish.formatted = record.tags.formatted;
  wish.least = record.lv->size;
  CapacityRange range = request.range;
  if (range.required == Bytes{}) {
    range.required = record.lv->size;
  }
  if (IsBlank(record)) {
    return MakeNewVolume(parts, pool, std::move(wish), range, what, call);
  }
  auto registered = parts.node.copied.Add(request.source, what);
  if (!registered.has_value()) {
    return std::move(registered.error()).Context("volume_content_source");
  }
  QUARRY_TRY(CheckIdle(parts, record, call)
                 .Context("volume_content_source: only a volume that is not in use can be copied"));
  lock.reset();  // from here on the registration keeps others away
  wish.lv_name = lvm::NewLvName();
  const Job job{.parts = parts,
                .pool = pool,
                .wish = std::move(wish),
                .range = range,
                .source = std::move(*source),
                .what = what};
  const auto title = [what, id = request.source, done = job.done, all = job.source.record.lv->size] {
    return fmt::format("{}, as a copy of volume {} ({} of {} are copied),", what, id,
                       HumanBytes(Bytes{done->load()}), HumanBytes(all));
  };
  const auto made = std::make_shared<std::optional<Volume>>();
  // The work ends the registration itself: the task outlives it until a caller has its outcome.
  const auto held = std::make_shared<std::optional<CopySources::Guard>>(std::move(*registered));
  const auto work = [job, made, held](const Call& own) -> Status {
    auto volume = MakeCopy(job, own);
    held->reset();
    QUARRY_TRY(volume);
    *made = std::move(*volume);
    return Ok();
  };
  QUARRY_TRY(parts.background.Run(KeyOf(request), title, kLongestCopy, work, guard, call.Within(kPatience)));
  return std::move(**made);
}

}  // namespace quarry::engine
