// Inline volumes of pods (Kubernetes: "CSI ephemeral volumes"). The call that publishes an inline volume
// makes it, the call that unpublishes it deletes it. A tag marks it, and its name is the id that the
// orchestrator generated, called its handle. PublishEphemeral, Unpublish and Stats accept handles. NodeExpand
// recognizes and refuses them. No other call knows handles.
#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/model/inline_limits.h"
#include "engine/model/sizing.h"
#include "engine/volumes.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// Limit for deleting one volume later. LVM needs seconds; only a disk that does not answer takes longer.
constexpr milliseconds kEndLimit{300'000};
// Interval between attempts to delete the remaining volumes.
constexpr milliseconds kRetry{10'000};

Error Refuse(std::string_view field, std::string_view what) {
  return Error(Code::kInvalidArgument, fmt::format("{}: {}", field, what));
}

// Refuses what no inline volume can have: an id of a persistent volume's form, raw block access, read-only
// access, mkfs options.
Status CheckRequest(const EphemeralRequest& request) {
  if (lvm::ParseVolumeId(request.publish.id).has_value()) {
    return Refuse("volume_id",
                  "has the form of a persistent volume's id, which an inline volume must not have");
  }
  if (request.publish.capability.access == AccessType::kBlock) {
    return Refuse("volume_capability", "inline volumes are mounted; they cannot be raw block devices");
  }
  if (request.publish.read_only || request.publish.capability.mode == AccessMode::kSingleNodeReaderOnly) {
    return Refuse("readonly", "an inline volume is empty when it is made, so read-only makes no sense");
  }
  // The options reach mkfs unchanged, and some of them name files of this node to read or copy. An
  // administrator may set them in a storage class, but not anyone who may create a pod.
  if (request.parameters.contains("mkfsoptions")) {
    return Refuse("volume_context['mkfsoptions']", "is not for inline volumes");
  }
  return Ok();
}

// The pool that the request names, or the default one.
Result<Pool*> PoolOf(Parts& parts, const EphemeralRequest& request) {
  const auto named = request.parameters.find("pool");
  return named == request.parameters.end() ? Result<Pool*>(parts.node.pools.front().get())
                                           : parts.node.FindPool(named->second).Context("volume_context");
}

struct Wanted {
  Profile profile;
  AccessPlan access;
};
Result<Wanted> ParseWanted(const EphemeralRequest& request, const std::string& default_pool) {
  QUARRY_ASSIGN(Profile profile, Profile::Parse(request.parameters, default_pool).Context("volume_context"));
  QUARRY_ASSIGN(AccessPlan access, PlanAccess({request.publish.capability}));
  return Wanted{std::move(profile), std::move(access)};
}

// Checks that the volume which an earlier call made matches this request. kubelet repeats the call after a
// restart of quarryd or of the node, or if it did not get the answer. The size limit for inline volumes is
// not checked again: it may have changed, and a pod keeps the volume that it has.
Status CheckSame(const Found& found, const EphemeralRequest& request) {
  const Result<Profile>& recorded = found.record.profile;
  QUARRY_ASSIGN(const Wanted wanted,
                ParseWanted(request, recorded.has_value() ? recorded->pool : found.record.pool));
  const CreateRequest same{.name = request.publish.id,
                           .range = {.required = request.size, .limit = {}},
                           .capabilities = {request.publish.capability},
                           .parameters = {}};
  if (const auto difference = Incompatibility(found.record, wanted.profile, same); difference.has_value()) {
    return Error(Code::kAlreadyExists,
                 fmt::format("volume_id: an inline volume with this id exists and differs: {}", *difference));
  }
  return CheckLayout(found.record, wanted.profile);
}

// After these codes kubelet asks again, or unpublishes. After any other code it may forget the volume.
bool IsAskedAgain(Code code) {
  return code == Code::kBusy || code == Code::kNoSpace || code == Code::kUnavailable ||
         code == Code::kTimeout || code == Code::kCancelled;
}

// An error for a caller that must come back: there is, or may be, a volume that it must not forget.
Error ToBeAskedAgain(Error error) {
  return IsAskedAgain(error.code()) ? std::move(error) : std::move(error).As(Code::kUnavailable);
}

Result<Found> Make(Parts& parts, const EphemeralRequest& request, const Call& call) {
  const std::string& handle = request.publish.id;
  const std::string what = fmt::format("NodePublishVolume of {}", handle);
  QUARRY_ASSIGN(Pool* const pool, PoolOf(parts, request));
  const EphemeralMost most =
      EphemeralMostOf(parts.node.config.pools, parts.node.config.ephemeral_max_size, pool->config);
  QUARRY_TRY(CheckEphemeralRequest(most, pool->config, request));
  QUARRY_ASSIGN(const Wanted wanted, ParseWanted(request, pool->config.name));
  if (wanted.profile.thin) {
    return Error(Code::kInvalidArgument, "volume_context['type']: inline volumes cannot be in a thin store");
  }
  QUARRY_TRY(CheckTarget(parts.node.world.dm, wanted.profile.geometry));
  // Excludes a CreateVolume of the same name.
  QUARRY_ASSIGN(const auto guard, parts.node.locks.Lock(LockKey::Name(handle), what, call));
  QUARRY_ASSIGN(const auto named, parts.node.FindByName(handle, pool, call));
  if (named.has_value()) {
    return Error(Code::kAlreadyExists,
                 fmt::format("volume_id: this id is already the name of volume {}", named->record.tags.id));
  }
  if (Status readable = parts.node.CheckReadableName(handle); !readable.has_value()) {
    return ToBeAskedAgain(
        std::move(readable.error()));  // it may be this pod's volume, mounted by a newer build
  }
  const CreateWish wish{handle, wanted.profile, wanted.access, Extents{}, "", /*ephemeral=*/true};
  const CapacityRange range{.required = request.size, .limit = most.size};
  auto volume = MakeNewVolume(parts, *pool, wish, range, what, call)
                    .Context(fmt::format("an inline volume within {}", most.setting));
  auto found = parts.node.FindEphemeral(handle, pool, call);
  if (!volume.has_value()) {
    const bool absent =
        found.has_value() && !found->has_value() && volume.error().code() != Code::kAlreadyExists;
    return absent ? std::move(volume.error()) : ToBeAskedAgain(std::move(volume.error()));
  }
  if (!found.has_value()) {
    return ToBeAskedAgain(std::move(found.error()));
  }
  if (!found->has_value()) {
    return Error(Code::kInternal, fmt::format("inline volume {} was made but cannot be found", handle));
  }
  return std::move(**found);
}

// Deletes a volume that was not mounted before this call, for a caller that will not ask for it again. False:
// it still exists, for example because this call mounted it.
bool TakeBack(Parts& parts, const Found& found) {
  const auto ended = EndVolume(parts, found, fmt::format("removal of {}", found.record.tags.co_name),
                               CallWithin(kUndoLimit));
  if (!ended.has_value()) {
    parts.node.log.Warning(
        "an inline volume could not be published, nor removed: it stays until it is unpublished",
        {{"volume", found.record.tags.co_name},
         {"lv", found.record.lv->name},
         {"error", ended.error().message()}});
  }
  return ended.has_value();
}

}  // namespace

Result<bool> EndEphemeral(Parts& parts, const Found& found, const Call& call) {
  QUARRY_ASSIGN(const auto stack, parts.node.StackOn(found.record.DmUuid()));
  if (stack.has_value()) {
    QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
    if (!mounts.Of(stack->number()).empty()) {
      return false;
    }
  }
  QUARRY_TRY(
      EndVolume(parts, found, fmt::format("NodeUnpublishVolume of {}", found.record.tags.co_name), call));
  return true;
}

// The lock is tried, not waited for: its holder may be publishing the volume again, which takes the volume
// off the list, or another round may be deleting it.
void EndLeftBehind(Parts& parts, const std::string& pool_name, const Call& call, RepairReport& report) {
  std::set<std::string> left = parts.left_behind.All();
  if (left.empty()) {
    return;
  }
  report.NoLaterThan(kRetry);
  bool all_read = true;
  const auto catalogs = parts.node.LookAtAll(kOthersPatience, call);
  for (size_t i = 0; i < catalogs.size(); ++i) {
    const auto& pool = parts.node.pools[i];
    const auto& catalog = catalogs[i];
    all_read = all_read && catalog.has_value();
    for (const Record& record : catalog.has_value() ? (*catalog)->records : std::vector<Record>()) {
      const std::string handle = record.tags.co_name;
      if (record.tags.state != lvm::VolumeState::kReady || !record.tags.ephemeral || !left.contains(handle)) {
        continue;
      }
      left.erase(handle);
      if (!pool_name.empty() && pool_name != pool->config.name) {
        continue;
      }
      const auto guard =
          parts.node.locks.TryLock(LockKey::Volume(handle), fmt::format("deletion of {}", handle));
      if (!guard.has_value() || !parts.left_behind.Has(handle)) {
        continue;
      }
      const auto ended = EndEphemeral(parts, {pool.get(), record}, call.Within(kEndLimit));
      if (ended.has_value()) {
        parts.left_behind.Drop(handle);
      }
      if (ended.value_or(false)) {
        parts.node.log.Info("deleted an inline volume that could not be deleted when it was unpublished",
                            {{"pool", pool->config.name}, {"volume", handle}, {"lv", record.lv->name}});
      }
    }
  }
  for (const std::string& handle : left) {
    if (all_read) {
      parts.left_behind.Drop(handle);  // it does not exist
    }
  }
}

Status Volumes::PublishEphemeral(const EphemeralRequest& request, const Call& call) {
  const std::string& handle = request.publish.id;
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(CheckRequest(request));
  if (auto joined = parts_.background.Join(handle, call); !joined.has_value()) {
    return ToBeAskedAgain(std::move(joined.error()));  // the volume exists
  }
  QUARRY_ASSIGN(auto guard, LockVolume(parts_, handle, "NodePublishVolume", call));
  parts_.left_behind.Drop(handle);  // it is published again
  // If the pool does not exist, Make refuses the request.
  Pool* const asked = PoolOf(parts_, request).value_or(nullptr);
  auto looked = parts_.node.FindEphemeral(handle, asked, call);
  if (!looked.has_value()) {
    return ToBeAskedAgain(std::move(looked.error()));  // it may exist
  }
  std::optional<Found> found = std::move(*looked);
  const bool was_there = found.has_value();
  if (was_there) {
    QUARRY_TRY(CheckSame(*found, request));
  } else {
    QUARRY_ASSIGN(found, Make(parts_, request, call));
  }
  const auto published = [&]() -> Status {
    QUARRY_ASSIGN(const Stack stack, parts_.node.EnsureActive(*found, call));
    return PublishMounted(parts_, *found, stack, request.publish, guard, call);
  }();
  const bool may_hold_data = was_there && found->record.tags.formatted == found->record.tags.fs_type;
  if (published.has_value()) {
    return Ok();
  }
  if (!IsAskedAgain(published.error().code()) && !may_hold_data && TakeBack(parts_, *found)) {
    return published;
  }
  return ToBeAskedAgain(published.error());
}

}  // namespace quarry::engine
