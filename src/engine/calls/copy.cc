// Makes copies: a volume of a volume or of a snapshot (CreateVolume with a source), and a snapshot of a
// volume (CreateSnapshot).
//
// A source that is not in use is registered until the copy is done (CopySources), so no call begins to use
// it, and its device is open exclusively, so nobody else mounts it. A source that is in use is copied from a
// temporary store that keeps its bytes (plan/plan_cow.h), if the caller permits that. The new volume is made
// as if it had been deleted already: active, open, with the tags of a deleted volume. When its bytes are in
// place and flushed, one commit makes it a ready volume. If quarryd is killed before that, the next one
// erases it like any deleted volume, and a repeated call begins again. So neither an unfinished copy is ever
// handed out, nor does a copied byte stay on a disk.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "engine/calls/copying.h"
#include "engine/calls/steps.h"
#include "engine/model/volume_health.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_cow.h"
#include "engine/pool/reload.h"

namespace quarry::engine {
namespace {

// A copy takes as long as its disks need.
constexpr std::chrono::hours kLongestCopy{24 * 30};
// Limit for each part of the work that runs LVM's commands: they may hold the turn no longer.
constexpr std::chrono::minutes kCommands{5};
// So much is read from a store once more at the end.
constexpr Bytes kProof = kMiB;
// A caller waits at most this long for the end of a copy. A stop waits for calls for longer than that.
constexpr std::chrono::seconds kPatience{15};

struct Job {
  Parts& parts;
  Pool& pool;
  CreateWish wish;
  CapacityRange range;
  Found source;
  Bytes length;       // bytes to copy
  std::string store;  // name of the temporary store; empty: the source is not in use
  std::string what;   // "CreateVolume of 'x'"
  std::shared_ptr<std::atomic<uint64_t>> done = std::make_shared<std::atomic<uint64_t>>(0);
};

// A call with another source is another request.
std::string KeyOf(const CopyRequest& request) {
  return fmt::format("{} of {} as {}", request.to_snapshot ? "snapshot" : "copy", request.source.id,
                     request.name);
}

// The field of the call that names the source.
std::string_view FieldOf(const CopyRequest& request) {
  return request.to_snapshot ? "source_volume_id" : "volume_content_source";
}

// A mounted volume that was never formatted has no bytes worth copying.
bool IsBlank(const Record& source) {
  return source.access == Access::kMount && source.tags.formatted.empty();
}

// Whether a copy of `source` can have this use. An adopted volume may be for both uses; its copies are for
// the one that the caller asks for. Mounting needs a file system that is known to be there: a first stage
// would format a volume without one.
bool HasUse(const Record& source, const AccessPlan& use) {
  const lvm::VolumeTags& tags = source.tags;
  if (source.access == Access::kAny && use.access == Access::kBlock) {
    return true;
  }
  if (source.access == Access::kAny && use.access == Access::kMount) {
    return tags.formatted == use.fs_type && tags.fs_type == use.fs_type;
  }
  return source.access == use.access && tags.fs_type == use.fs_type;
}

// The size of a volume that is made from `source`. Callers ask again for what they asked for then, which may
// be less than what they got.
Result<CapacityRange> RangeOf(const Record& source, const CopyRequest& request) {
  CapacityRange range = request.range;
  const Bytes length = ContentLength(source);
  if (range.limit > Bytes{0} && range.limit < length) {
    return Error(Code::kOutOfRange, fmt::format("capacity_range.limit_bytes: is {}, a copy of {} needs {}",
                                                range.limit.value, InWords(source), length.value));
  }
  if (range.required == Bytes{} || range.required >= LeastSize(source)) {
    range.required = std::max(range.required, length);
  }
  return range;
}

// The volume or snapshot to copy.
Result<Found> FindSource(Node& node, const CopyRequest& request, const Call& call) {
  const std::string& id = request.source.id;
  auto source = request.source.is_snapshot ? node.GetSnapshot(id, call) : node.GetForController(id, call);
  if (source.has_value()) {
    return source;
  }
  // Another node that this caller asks may have the source.
  const bool is_elsewhere = request.elsewhere && !node.CheckNotElsewhere(id).has_value();
  return std::move(source.error()).As(is_elsewhere ? Code::kNoSpace : source.error().code());
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

// Waits until all legs of a new snapshot have its bytes. From then on none of them can be out of date. While
// it is not active, nothing would synchronize a leg, and nobody would notice that one failed.
Status WaitForLegs(const World& world, const std::string& dm_uuid, const Call& call) {
  constexpr std::chrono::milliseconds kPause{500};
  while (true) {
    QUARRY_ASSIGN(const auto raid, world.dm.Raid(dm_uuid));
    if (!raid.has_value() || IsWhole(*raid)) {
      return Ok();
    }
    const std::vector<bool> failed = FailedLegs(*raid);
    if (std::ranges::find(failed, true) != failed.end()) {
      return Error(Code::kUnavailable, "a leg of the new snapshot has failed: try again");
    }
    QUARRY_TRY(call.Check("synchronizing the legs of the new snapshot"));
    Sleep(call.stop, kPause);
  }
}

// Gives the file system of a new volume a UUID of its own. `to` is the new volume, open exclusively, which
// the tools of file systems do not bear. The result is open too, so that no process can deactivate the
// volume.
Result<UniqueFd> ChangeUuid(const Job& job, const std::string& dm_uuid, UniqueFd to, const Call& call) {
  const std::string& fs_type = job.wish.formatted;
  if (fs_type.empty() || job.wish.cut.has_value()) {
    return to;  // raw, blank, or a snapshot, which nobody mounts
  }
  QUARRY_ASSIGN(UniqueFd held, job.parts.node.world.dm.Open(dm_uuid, O_RDONLY));
  QUARRY_ASSIGN(const auto stack, job.parts.node.StackOn(dm_uuid));
  if (!stack.has_value()) {
    return Error(Code::kUnavailable, "the new volume is not active any more: try again");
  }
  to.Reset();
  QUARRY_TRY(Execute({ChangeUuidAction{fs_type, stack->top().Node()}}, job.parts.node.world, call));
  return held;
}

// The bytes of a source, open exclusively. They have not changed since `cut`.
struct Still {
  std::unique_ptr<Copying> store = nullptr;  // keeps the eraser from the store; nullptr: there is none
  uint64_t cut = 0;                          // nanoseconds since 1970
  UniqueFd fd = UniqueFd();                  // closed first
};

uint64_t NowOf(const World& world) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(world.clock.WallNow().time_since_epoch()).count());
}

Status CheckCopyable(const Job& job, const UniqueFd& from) {
  if (job.wish.formatted.empty()) {
    return Ok();
  }
  return job.parts.node.world.mount.CheckCopyable(job.wish.formatted, from.get())
      .Context(fmt::format("{} cannot be copied now", InWords(job.source.record)));
}

// A source that is not in use, and cannot get into use as long as the result exists.
Result<Still> OpenIdle(const Job& job) {
  const World& world = job.parts.node.world;
  const Record& source = job.source.record;
  QUARRY_ASSIGN(UniqueFd fd, OpenAlone(world, source.DmUuid(), O_RDONLY, source.lv->size));
  QUARRY_TRY(CheckCopyable(job, fd));
  return Still{.cut = NowOf(world), .fd = std::move(fd)};
}

// The plan for the temporary store.
Result<Plan> PlanStore(const Job& job, const Catalog& catalog) {
  const Record* const now = catalog.ByUuid(job.source.record.lv->uuid);
  if (now == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("{} was changed by another process: try again", InWords(job.source.record)));
  }
  QUARRY_TRY(CheckAlone(*now));
  QUARRY_ASSIGN(Plan plan,
                PlanKeep(catalog, *now, job.source.pool->config, job.store, job.parts.node.id_hash()));
  QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(plan)));
  return plan;
}

// LVM puts a new array in the place of a RAID volume's. While legs are being filled or compared, the new one
// would not know how far the old one was.
Status CheckLegsAtRest(const Job& job) {
  const Record& source = job.source.record;
  return AreLegsAtRest(job.parts.node.world, source.DmUuid())
             ? Ok()
             : Status(
                   Error(Code::kUnavailable,
                         fmt::format("{} is in use, and its legs are not in sync or are being compared: try "
                                     "again when that is done",
                                     InWords(source))));
}

// Before the new volume is made: whether there is space for a store at all.
Status CheckStore(const Job& job, const Call& call) {
  QUARRY_TRY(CheckLegsAtRest(job));
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(*job.source.pool, call));
  QUARRY_TRY(PlanStore(job, *catalog));
  return Ok();
}

// Removes at once what a failed lvcreate has left of the store. The eraser sees to the rest.
void UndoStore(const Job& job, const Call& call) {
  Pool& pool = *job.source.pool;
  const auto read = job.parts.node.Read(pool, call);
  for (const Record& record : read.has_value() ? (*read)->records : std::vector<Record>()) {
    if (record.lv->name == job.store) {
      DropDevicesOfStore(job.parts.node.world, record, call);
    }
  }
}

// Makes the temporary store under the turn of the source's pool. Returns the time right before: in
// nanoseconds since 1970. If it fails, the volume is as before.
Result<uint64_t> MakeStore(const Job& job, const Call& own) {
  Node& node = job.parts.node;
  Pool& pool = *job.source.pool;
  QUARRY_ASSIGN(const auto turn, pool.writers.Wait(job.what, own.Within(kCommands)));
  const Call call = own.Within(kCommands);
  (void)job.parts.erasers.Of(pool).free_zeroing().End(call);
  QUARRY_ASSIGN(const auto catalog, node.Read(pool, call));
  QUARRY_ASSIGN(Plan plan, PlanStore(job, *catalog));
  QUARRY_TRY(CheckLegsAtRest(job));
  pool.clean.Look(*catalog->group);
  const uint64_t cut = NowOf(node.world);
  const lvm::LogicalVolume& volume = *catalog->ByUuid(job.source.record.lv->uuid)->lv;
  const Status made =
      RunReloading(pool, node.world, node.log, *catalog->group, volume, std::move(plan), call);
  if (!made.has_value()) {
    UndoStore(job, CallWithin(kUndoLimit));
    return made.error();
  }
  return cut;
}

// A source that is in use: its bytes of this moment, which a store keeps as long as the result exists.
Result<Still> KeepBytes(const Job& job, const Call& call) {
  const World& world = job.parts.node.world;
  Pool& pool = *job.source.pool;
  Still still;
  still.store = std::make_unique<Copying>(pool, job.parts.erasers.Of(pool), job.store);
  QUARRY_ASSIGN(still.cut, MakeStore(job, call));
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(pool, call.Within(kCommands)));
  const lvm::LogicalVolume* const lv = catalog->group->FindLv(job.store);
  if (lv == nullptr) {
    return Error(Code::kUnavailable, "another process has removed the temporary store: try again");
  }
  QUARRY_ASSIGN(still.fd, OpenAlone(world, lvm::DmUuid(catalog->group->uuid, lv->uuid), O_RDONLY,
                                    job.source.record.lv->size));
  QUARRY_TRY(CheckCopyable(job, still.fd));
  return still;
}

// The time of the cut, where it was not known yet when the plan was made.
void SetCut(Plan& rest, uint64_t planned, uint64_t cut) {
  lvm::ChangeTags& tags = *Find<lvm::ChangeTags>(rest.back());
  tags.add.push_back(lvm::CutTag(cut));
  tags.remove.push_back(lvm::CutTag(planned));
}

// Makes the new volume, fills it, and turns it into a ready one.
Result<Volume> FillNew(const Job& job, const Call& call) {
  const World& world = job.parts.node.world;
  std::optional<Still> from;
  if (job.store.empty()) {
    QUARRY_ASSIGN(from, OpenIdle(job));
  } else {
    QUARRY_TRY(CheckStore(job, call.Within(kCommands)));
  }
  Unfilled unfilled;
  CreateWish wish = job.wish;
  if (wish.cut.has_value()) {
    wish.cut->time = from.has_value() ? from->cut : NowOf(world);
  }
  QUARRY_ASSIGN(Volume volume, MakeNewVolume(job.parts, job.pool, wish, job.range, job.what,
                                             call.Within(kCommands), &unfilled));
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(job.pool, call.Within(kCommands)));
  const lvm::LogicalVolume* const lv = catalog->group->FindLv(job.wish.lv_name);
  if (lv == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("{}: another process has removed the new logical volume: try again", job.what));
  }
  // From here on no process can deactivate the copy, and so none can erase it.
  QUARRY_ASSIGN(UniqueFd to, OpenAlone(world, lvm::DmUuid(catalog->group->uuid, lv->uuid), O_RDWR, lv->size));
  if (!from.has_value()) {
    // As late as possible: from here on, each write to the volume costs more.
    QUARRY_ASSIGN(from, KeepBytes(job, call));
    if (wish.cut.has_value() && from->cut != wish.cut->time) {
      SetCut(unfilled.rest, wish.cut->time, from->cut);
    }
  }
  const DeviceCopy copy{.from = from->fd.get(),
                        .to = to.get(),
                        .length = job.length,
                        .to_is_zero = unfilled.is_zero,
                        .rate = job.parts.node.config.erase_rate};
  QUARRY_TRY(Execute({CopyAction{.group = catalog->group->name,
                                 .from = job.source.record.lv->name,
                                 .to = lv->name,
                                 .copy = copy,
                                 .tell = [done = job.done](Bytes bytes) { done->store(bytes.value); }}},
                     world, call));
  if (!job.store.empty()) {
    // If the store's disk fails, the kernel gives the store up, and lets writes to the volume go on at once.
    // A read that was on its way then may have got new bytes; every later read fails.
    DeviceCopy again = copy;
    again.length = std::min(copy.length, kProof);
    QUARRY_TRY(Execute({CopyAction{.group = catalog->group->name,
                                   .from = job.source.record.lv->name,
                                   .to = lv->name,
                                   .copy = again,
                                   .tell = [](Bytes /*bytes*/) {}}},
                       world, call));
    from.reset();  // the eraser takes the store away
  }
  QUARRY_ASSIGN(to, ChangeUuid(job, lvm::DmUuid(catalog->group->uuid, lv->uuid), std::move(to), call));
  if (wish.cut.has_value()) {
    QUARRY_TRY(WaitForLegs(world, lvm::DmUuid(catalog->group->uuid, lv->uuid), call));
  }
  const Call last = call.Within(kCommands);
  QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, last));
  auto finished = RunCounted(job.pool, unfilled.rest, world, last);
  if (!finished.has_value()) {
    // The copy may be a ready volume all the same, and then a repeated call finds it.
    return std::move(finished.error()).As(Code::kUnavailable);
  }
  if (wish.cut.has_value()) {
    // Nobody uses a snapshot itself. If this fails, RestSnapshots does it.
    to.Reset();
    (void)Execute({DeactivateAction{catalog->group->name, lv->name, DmUuids(*catalog->group, *lv)}}, world,
                  last);
  }
  return volume;
}

// A source that was not active is not active afterwards, unless a stop was requested, or its legs are being
// rebuilt. If that fails, nothing is lost: a volume may be active without a user, and RestSnapshots sees to
// snapshots.
void Deactivate(const Job& job, const Call& call) {
  const Record& source = job.source.record;
  if (call.stop.stop_requested() || !AreLegsAtRest(job.parts.node.world, source.DmUuid())) {
    return;
  }
  const Call limited = call.Within(kUndoLimit);
  const auto turn = job.source.pool->writers.Wait("deactivating a copied volume", limited);
  if (turn.has_value()) {
    (void)Execute({DeactivateAction{source.group->name, source.lv->name, source.DmUuids()}},
                  job.parts.node.world, limited);
  }
}

// Whether the source is in use, and is therefore copied from a temporary store. An error if it cannot be
// copied.
Result<bool> MustKeepBytes(Parts& parts, const Record& source, const Profile& profile, const Call& call) {
  QUARRY_TRY(CheckAlone(source));
  Status idle = CheckIdle(parts, source, call);
  if (idle.has_value()) {
    return false;
  }
  if (idle.error().code() != Code::kPrecondition) {
    return std::move(idle.error());
  }
  if (!profile.copy_in_use) {
    return std::move(idle.error())
        .Context("only a volume that is not in use can be copied, unless the parameter 'inuse' is 'cow'");
  }
  if (source.tags.thin) {
    return std::move(idle.error())
        .Context("a volume in a thin store can be copied only while it is not in use");
  }
  if (source.tags.formatted == "btrfs") {
    return std::move(idle.error())
        .Context(
            "a btrfs that is in use cannot be copied: what was synced last is in its log, which a copy with "
            "a UUID of its own would lose");
  }
  QUARRY_ASSIGN(const bool can, parts.node.world.dm.HasTarget("snapshot"));
  if (!can) {
    return Error(Code::kPrecondition,
                 "this kernel has no dm-snapshot, so a volume in use cannot be copied: stop its users first");
  }
  return true;
}

Result<Volume> Copy(const Job& job, const Call& call) {
  const Record& source = job.source.record;
  const Copying copying(job.pool, job.parts.erasers.Of(job.pool), job.wish.lv_name);
  QUARRY_ASSIGN(const auto before, job.parts.node.StackOn(source.DmUuid()));
  QUARRY_TRY(job.parts.node.EnsureActive(job.source, call.Within(kCommands)));
  auto volume = FillNew(job, call);
  if (!before.has_value() && job.store.empty()) {
    Deactivate(job, call);
  }
  if (!volume.has_value() && volume.error().code() == Code::kNotFound) {
    // The source exists. Another process has deactivated it, or the copy.
    return std::move(volume.error()).As(Code::kUnavailable);
  }
  return volume;
}

}  // namespace

Status CheckCopySource(const Record& source, const CreateWish& wish) {
  const lvm::VolumeTags& tags = source.tags;
  const auto refuse = [&](Code code, const std::string& why) {
    return Error(code, fmt::format("{} {}", InWords(source), why));
  };
  if (!HasUse(source, wish.access)) {
    return refuse(Code::kInvalidArgument,
                  fmt::format("was made for {}, and a copy has the same use; the request is for {}",
                              UseText(tags.access, tags.fs_type),
                              UseText(AccessName(wish.access.access), wish.access.fs_type)));
  }
  if (!tags.formatted.empty() && tags.formatted != tags.fs_type) {
    return refuse(Code::kPrecondition, "is not formatted completely: stage it once");
  }
  // Its file system may fill the logical volume already. A snapshot knows its length.
  if (source.lv->size != tags.size && !tags.snapshot) {
    return refuse(Code::kPrecondition,
                  fmt::format("has {} bytes, but its logical volume has {}: expand the volume to that size "
                              "first (ControllerExpandVolume)",
                              tags.size.value, source.lv->size.value));
  }
  return Ok();
}

void FillCopyWish(CreateWish& wish, const Record& source, ContentSource from, Bytes asked) {
  wish.source = std::move(from);
  wish.formatted = wish.access.fs_type.empty() ? "" : source.tags.formatted;
  wish.least = ContentLength(source);
  wish.asked = asked;
}

Status JoinCopy(Parts& parts, const CopyRequest& request, const Call& call) {
  return parts.background.Join(KeyOf(request), call.Within(kPatience));
}

Result<Volume> MakeCopy(Parts& parts, Pool& pool, CreateWish wish, const CopyRequest& request,
                        const std::string& what, KeyLocks::Guard& guard, const Call& call) {
  const std::string& id = request.source.id;
  const std::string_view field = FieldOf(request);
  auto locked =
      parts.node.locks.Lock(LockKey::Volume(id), fmt::format("{}, as a copy of {}", what, id), call);
  if (!locked.has_value()) {
    return std::move(locked.error()).Context(field);
  }
  std::optional<KeyLocks::Guard> lock(std::move(*locked));
  auto source = FindSource(parts.node, request, call);
  if (!source.has_value()) {
    return std::move(source.error()).Context(field);
  }
  const Record& record = source->record;
  const Bytes length = IsBlank(record) ? Bytes{} : ContentLength(record);
  QUARRY_TRY(CheckCopySource(record, wish).Context(field));
  QUARRY_ASSIGN(const CapacityRange range, RangeOf(record, request));
  FillCopyWish(wish, record, request.source,
               request.range.required > Bytes{} ? request.range.required : LeastSize(record));
  if (request.to_snapshot) {
    wish.cut = CreateWish::Cut{.length = wish.least};
  }
  if (wish.profile.thin) {
    auto store = StoreForCopy(record, wish);
    if (!store.has_value()) {
      return std::move(store.error()).Context(field);
    }
    wish.profile.store = std::move(*store);
    return MakeThinCopy(parts, pool, std::move(wish), record, range, what, call);
  }
  QUARRY_TRY(parts.node.copied.Check(id, call).Context(field));
  auto in_use = MustKeepBytes(parts, record, wish.profile, call);
  if (!in_use.has_value()) {
    return std::move(in_use.error()).Context(field);
  }
  auto registered = parts.node.copied.Add(id, what, *in_use);
  if (!registered.has_value()) {
    return std::move(registered.error()).Context(field);
  }
  lock.reset();  // from here on the registration keeps others away
  wish.lv_name = lvm::NewLvName();
  const Job job{.parts = parts,
                .pool = pool,
                .wish = std::move(wish),
                .range = range,
                .source = std::move(*source),
                .length = length,
                .store = *in_use ? lvm::NewLvName() : "",
                .what = what};
  const auto title = [what, from = InWords(job.source.record), done = job.done, all = length] {
    return fmt::format("{}, as a copy of {} ({} of {} are copied),", what, from,
                       HumanBytes(Bytes{done->load()}), HumanBytes(all));
  };
  const auto made = std::make_shared<std::optional<Volume>>();
  // The work ends the registration itself: the task outlives it until a caller has its outcome.
  const auto held = std::make_shared<std::optional<CopySources::Guard>>(std::move(*registered));
  const auto work = [job, made, held](const Call& own) -> Status {
    auto volume = Copy(job, own);
    held->reset();
    QUARRY_TRY(volume);
    *made = std::move(*volume);
    return Ok();
  };
  QUARRY_TRY(parts.background.Run(KeyOf(request), title, kLongestCopy, work, guard, call.Within(kPatience)));
  return std::move(**made);
}

}  // namespace quarry::engine
