#include "engine/calls/volume_copy.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/boot_id.h"
#include "engine/calls/copying.h"
#include "engine/calls/unfinished_copies.h"
#include "engine/model/volume_health.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_cow.h"
#include "engine/pool/reload.h"

namespace quarry::engine {
namespace {

// Limit for each part of the work that runs LVM's commands: they may hold the turn no longer.
constexpr std::chrono::minutes kCommands{5};
// So much is read from a store once more at the end.
constexpr Bytes kProof = kMiB;

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

// Not a raw or blank volume, and no snapshot, which nobody mounts.
bool ChangesUuid(const VolumeCopy& job) {
  return !job.wish.formatted.empty() && !job.wish.cut.has_value();
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

Status CheckCopyable(const VolumeCopy& job, const UniqueFd& from) {
  if (job.wish.formatted.empty()) {
    return Ok();
  }
  return job.parts.node.world.mount.CheckCopyable(job.wish.formatted, from.get())
      .Context(fmt::format("{} cannot be copied now", InWords(job.source.record)));
}

// The bytes on a device of the source's size.
Result<UniqueFd> OpenBytes(const VolumeCopy& job, const std::string& dm_uuid) {
  QUARRY_ASSIGN(UniqueFd fd, OpenAlone(job.parts.node.world, dm_uuid, O_RDONLY, job.source.record.lv->size));
  QUARRY_TRY(CheckCopyable(job, fd));
  return fd;
}

// A source that is not in use, and cannot get into use as long as the result exists.
Result<Still> OpenIdle(const VolumeCopy& job) {
  QUARRY_ASSIGN(UniqueFd fd, OpenBytes(job, job.source.record.DmUuid()));
  return Still{.cut = NowOf(job.parts.node.world), .fd = std::move(fd)};
}

// The plan for the temporary store.
Result<Plan> PlanStore(const VolumeCopy& job, const Catalog& catalog) {
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
Status CheckLegsAtRest(const VolumeCopy& job) {
  const Record& source = job.source.record;
  return AreLegsAtRest(job.parts.node.world, source.DmUuid())
             ? Ok()
             : Status(
                   Error(Code::kUnavailable,
                         fmt::format("{} is in use, and its legs are not in sync or are being compared: try "
                                     "again when that is done",
                                     InWords(source))));
}

// Removes at once what a failed lvcreate has left of the store. The eraser sees to the rest.
void UndoStore(const VolumeCopy& job, const Call& call) {
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
Result<uint64_t> MakeStore(const VolumeCopy& job, const Call& own) {
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
Result<Still> KeepBytes(const VolumeCopy& job, const Call& call) {
  Pool& pool = *job.source.pool;
  Still still;
  still.store = std::make_unique<Copying>(pool, job.parts.erasers.Of(pool), job.store);
  QUARRY_ASSIGN(still.cut, MakeStore(job, call));
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(pool, call.Within(kCommands)));
  const lvm::LogicalVolume* const lv = catalog->group->FindLv(job.store);
  if (lv == nullptr) {
    return Error(Code::kUnavailable, "another process has removed the temporary store: try again");
  }
  QUARRY_ASSIGN(still.fd, OpenBytes(job, lvm::DmUuid(catalog->group->uuid, lv->uuid)));
  return still;
}

// The new logical volume, open exclusively, and what makes a volume of it when it has its bytes.
struct Target {
  Volume volume;
  Plan rest = {};
  uint64_t cut = 0;  // of a snapshot: the time in its tags
  bool is_zero = false;
  bool compare = false;  // DeviceCopy::compare
  lvm::Snapshot group = nullptr;
  const lvm::LogicalVolume* lv = nullptr;  // in `group`
  UniqueFd fd = UniqueFd();

  std::string DmUuid() const { return DmUuidOf(*group, *lv); }
};

// From here on no process can deactivate the new volume, and so none can erase it.
Status OpenTarget(const VolumeCopy& job, Target& target, const Call& call) {
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(job.pool, call.Within(kCommands)));
  target.group = catalog->group;
  target.lv = target.group->FindLv(job.wish.lv_name);
  if (target.lv == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("{}: another process has removed the new logical volume: try again", job.what));
  }
  QUARRY_ASSIGN(target.fd, OpenAlone(job.parts.node.world, target.DmUuid(), O_RDWR, target.lv->size));
  return Ok();
}

Result<Target> MakeTarget(const VolumeCopy& job, const CreateWish& wish, const Call& call) {
  Unfilled unfilled;
  QUARRY_ASSIGN(Volume volume, MakeNewVolume(job.parts, job.pool, wish, job.range, job.what,
                                             call.Within(kCommands), &unfilled));
  Target target{.volume = std::move(volume),
                .rest = std::move(unfilled.rest),
                .cut = wish.cut.has_value() ? wish.cut->time : 0,
                .is_zero = unfilled.is_zero};
  QUARRY_TRY(OpenTarget(job, target, call));
  return target;
}

// The logical volume that an earlier process made.
Result<Target> TakeUpTarget(const VolumeCopy& job, const Call& call) {
  const Call limited = call.Within(kCommands);
  Target target;
  {
    QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, limited));
    QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(job.pool, limited));
    const auto copy = std::ranges::find(catalog->records, job.wish.lv_name,
                                        [](const Record& record) { return record.lv->name; });
    if (copy == catalog->records.end() || !IsUnfinishedCopy(*copy) || copy->lv->partial ||
        copy->lv->size != copy->tags.size) {
      return Error(Code::kUnavailable,
                   fmt::format("{}: another process has changed the unfinished copy: try again", job.what));
    }
    QUARRY_TRY(CheckAlone(*copy));
    QUARRY_ASSIGN(target.rest, PlanRestOf(*copy));
    target.cut = copy->tags.cut;
    target.volume = Describe(*copy);
    QUARRY_ASSIGN(const auto active, job.parts.node.StackOn(copy->DmUuid()));
    // A comparison reads one leg. After a power cut the legs may differ where nobody has marked it.
    target.compare = !HasRedundancy(*copy->lv) || (active.has_value() && copy->tags.copying == BootId());
    QUARRY_TRY(
        Execute({ActivateAction{catalog->group->name, {copy->lv->name}}}, job.parts.node.world, limited));
  }
  QUARRY_TRY(OpenTarget(job, target, call));
  return target;
}

Status CopyBytes(const VolumeCopy& job, const Still& from, const Target& target, const Call& call) {
  const EngineConfig& config = job.parts.node.config;
  CopyAction action{.group = target.group->name,
                    .from = job.source.record.lv->name,
                    .to = target.lv->name,
                    .copy = {.from = from.fd.get(),
                             .to = target.fd.get(),
                             .length = job.length,
                             .to_is_zero = target.is_zero,
                             .compare = target.compare,
                             .rate = config.copy_rate.value_or(config.erase_rate)},
                    .tell = [&job](Bytes bytes) { job.done->store(bytes.value); }};
  QUARRY_TRY(Execute({action}, job.parts.node.world, call));
  if (!job.store.empty()) {
    // If the store's disk fails, the kernel gives the store up, and lets writes to the volume go on at once.
    // A read that was on its way then may have got new bytes; every later read fails.
    action.copy.length = std::min(job.length, kProof);
    action.tell = [](Bytes /*bytes*/) {};
    QUARRY_TRY(Execute({action}, job.parts.node.world, call));
  }
  return Ok();
}

// The time of the cut, where it was not known yet when the plan was made.
void SetCut(Plan& rest, uint64_t planned, uint64_t cut) {
  lvm::ChangeTags& tags = *Find<lvm::ChangeTags>(rest.back());
  tags.add.push_back(lvm::CutTag(cut));
  tags.remove.push_back(lvm::CutTag(planned));
}

// The last steps, when all bytes are in place: turns the new logical volume into a ready volume.
Status Finish(const VolumeCopy& job, Target& target, const Call& call) {
  const World& world = job.parts.node.world;
  const std::string dm_uuid = target.DmUuid();
  if (ChangesUuid(job)) {
    QUARRY_ASSIGN(target.fd, ChangeUuid(job.parts, job.wish.formatted, dm_uuid, std::move(target.fd), call));
  }
  if (job.wish.cut.has_value()) {
    QUARRY_TRY(WaitForLegs(world, dm_uuid, call));
  }
  const Call last = call.Within(kCommands);
  QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, last));
  auto finished = RunCounted(job.pool, target.rest, world, last);
  if (!finished.has_value()) {
    // The copy may be a ready volume all the same, and then a repeated call finds it.
    return std::move(finished.error()).As(Code::kUnavailable);
  }
  if (job.wish.cut.has_value()) {
    // Nobody uses a snapshot itself. If this fails, RestSnapshots does it.
    target.fd.Reset();
    (void)Execute({DeactivateAction{target.group->name, target.lv->name, DmUuids(*target.group, *target.lv)}},
                  world, last);
  }
  return Ok();
}

// Makes the new volume or takes it up, fills it, and turns it into a ready one.
Result<Volume> FillNew(const VolumeCopy& job, const Call& call) {
  std::optional<Still> from;
  if (job.store.empty()) {
    QUARRY_ASSIGN(from, OpenIdle(job));
  }
  CreateWish wish = job.wish;
  if (wish.cut.has_value()) {
    wish.cut->time = from.has_value() ? from->cut : NowOf(job.parts.node.world);
  }
  QUARRY_ASSIGN(Target target, job.goes_on ? TakeUpTarget(job, call) : MakeTarget(job, wish, call));
  if (!from.has_value()) {
    // As late as possible: from here on, each write to the volume costs more.
    QUARRY_ASSIGN(from, KeepBytes(job, call));
  }
  if (wish.cut.has_value() && from->cut != target.cut) {
    SetCut(target.rest, target.cut, from->cut);
  }
  QUARRY_TRY(CopyBytes(job, *from, target, call));
  if (!job.store.empty()) {
    from.reset();  // the eraser takes the store away
  }
  QUARRY_TRY(Finish(job, target, call));
  return std::move(target.volume);
}

// A source that was not active is not active afterwards, unless a stop was requested, or its legs are being
// rebuilt. If that fails, nothing is lost: a volume may be active without a user, and RestSnapshots sees to
// snapshots.
void Deactivate(const VolumeCopy& job, const Call& call) {
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

}  // namespace

Result<UniqueFd> ChangeUuid(Parts& parts, const std::string& fs_type, const std::string& dm_uuid,
                            UniqueFd alone, const Call& call) {
  QUARRY_ASSIGN(UniqueFd held, parts.node.world.dm.Open(dm_uuid, O_RDONLY));
  QUARRY_ASSIGN(const auto stack, parts.node.StackOn(dm_uuid));
  if (!stack.has_value()) {
    return Error(Code::kUnavailable, "the new volume is not active any more: try again");
  }
  alone.Reset();
  QUARRY_TRY(Execute({ChangeUuidAction{fs_type, stack->top().Node()}}, parts.node.world, call));
  return held;
}

std::string CopyKey(const CopyRequest& request) {
  return fmt::format("{} of {} as {}", request.to_snapshot ? "snapshot" : "copy", request.source.id,
                     request.name);
}

BackgroundSteps::Title CopyTitle(const VolumeCopy& job) {
  return [what = job.what, from = InWords(job.source.record), done = job.done, all = job.length] {
    const uint64_t bytes = done->load();
    const double part = all.value == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(all.value);
    return fmt::format("{}, as a copy of {} ({} of {} are copied, {:.0f} %),", what, from,
                       HumanBytes(Bytes{bytes}), HumanBytes(all), 100 * part);
  };
}

Status CheckRoomForStore(const VolumeCopy& job, const Call& call) {
  const Call limited = call.Within(kCommands);
  QUARRY_TRY(CheckLegsAtRest(job));
  QUARRY_ASSIGN(const auto catalog, job.parts.node.Read(*job.source.pool, limited));
  QUARRY_TRY(PlanStore(job, *catalog));
  return Ok();
}

Result<Volume> RunCopy(const VolumeCopy& job, const Call& call) {
  const Record& source = job.source.record;
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

}  // namespace quarry::engine
