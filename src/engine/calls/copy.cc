// Makes copies: a volume of a volume or of a snapshot (CreateVolume with a source), and a snapshot of a
// volume (CreateSnapshot).
//
// A source that is not in use is registered until the copy is done (CopySources), so no call begins to use
// it, and its device is open exclusively, so nobody else mounts it. A source that is in use is copied from a
// temporary store that keeps its bytes (plan/plan_cow.h), if the caller permits that. The new volume is made
// as if it had been deleted already: active, open, with the tags of a deleted volume. When its bytes are in
// place and flushed, one commit makes it a ready volume. If quarryd is stopped or killed before that, a
// repeated call goes on with the copy (unfinished_copies.h); if none comes, the next quarryd erases it like
// any deleted volume. So neither an unfinished copy is ever handed out, nor does a copied byte stay on a
// disk.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "engine/calls/copying.h"
#include "engine/calls/unfinished_copies.h"
#include "engine/calls/volume_copy.h"

namespace quarry::engine {
namespace {

// A caller waits at most this long for the end of a copy. A stop waits for calls for longer than that.
constexpr std::chrono::seconds kPatience{15};

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
        .Context(
            "a thin volume that is in use is not copied out of its store: make a snapshot of it, and copy "
            "that");
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
  return parts.background.Join(CopyKey(request), call.Within(kPatience));
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
  QUARRY_ASSIGN(std::string unfinished, FindUnfinished(parts, pool, wish, range, call));
  const bool goes_on = !unfinished.empty();
  wish.lv_name = goes_on ? std::move(unfinished) : lvm::NewLvName();
  const VolumeCopy job{.parts = parts,
                       .pool = pool,
                       .wish = std::move(wish),
                       .range = range,
                       .source = std::move(*source),
                       .length = length,
                       .store = *in_use ? lvm::NewLvName() : "",
                       .what = what,
                       .goes_on = goes_on};
  if (*in_use) {  // an interrupted copy is not given up because its former store is still being erased
    QUARRY_TRY(CheckRoomForStore(job, call));
  }
  auto copying = std::make_shared<std::optional<Copying>>();
  SteadyTime until;
  if (goes_on) {
    QUARRY_ASSIGN(until, TakeUnfinished(parts, pool, job.wish.lv_name, *copying));
  } else {
    copying->emplace(pool, parts.erasers.Of(pool), job.wish.lv_name);
  }
  const auto made = std::make_shared<std::optional<Volume>>();
  // The work ends these itself: the task outlives it until a caller has its outcome.
  const auto held = std::make_shared<std::optional<CopySources::Guard>>(std::move(*registered));
  const auto work = [job, made, held, copying, until](const Call& own) -> Status {
    (*copying)->LeaveAtStop(own.stop);
    auto volume = RunCopy(job, own);
    if (job.goes_on && !volume.has_value() && job.done->load() == 0) {
      KeepAgain(job.pool, job.wish.lv_name, until);  // what kept it from going on may end
    }
    copying->reset();
    held->reset();
    QUARRY_TRY(volume);
    *made = std::move(*volume);
    return Ok();
  };
  QUARRY_TRY(parts.background.Run(CopyKey(request), CopyTitle(job), kLongestCopy, work, guard,
                                  call.Within(kPatience)));
  return std::move(**made);
}

}  // namespace quarry::engine
