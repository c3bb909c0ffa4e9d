#include "engine/ephemeral.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/ephemeral_limits.h"
#include "engine/sizing.h"
#include "engine/volume_steps.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// For taking back what came to nothing: not the caller's time, that may be over.
constexpr milliseconds kUndoLimit{60000};

Error Refuse(std::string_view field, std::string_view what) {
  return Error(Code::kInvalidArgument, fmt::format("{}: {}", field, what));
}

// What an inline volume can never be asked for.
Status CheckRequest(const EphemeralRequest& request) {
  if (lvm::ParseVolumeId(request.publish.id).has_value()) {
    return Refuse("volume_id", "has the form of a persistent volume's id, which an inline one must not have");
  }
  if (request.publish.capability.access == AccessType::kBlock) {
    return Refuse("volume_capability", "inline volumes are mounted, not given out as raw block devices");
  }
  if (request.publish.read_only || request.publish.capability.mode == AccessMode::kSingleNodeReaderOnly) {
    return Refuse("readonly", "an inline volume is empty when it is made: read-only it would stay so");
  }
  // They go to mkfs as they are, which takes the names of files of this node to read or to copy: options for
  // an administrator's storage class, not for whoever may make a pod.
  if (request.parameters.contains("mkfsoptions")) {
    return Refuse("volume_context['mkfsoptions']", "is not for inline volumes");
  }
  return Ok();
}

// The pool that the request names, or the default one.
Result<Pool*> PoolOf(Engine::State& state, const EphemeralRequest& request) {
  const auto named = request.parameters.find("pool");
  return named == request.parameters.end() ? Result<Pool*>(state.pools.front().get())
                                           : state.FindPool(named->second).Context("volume_context");
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

// The same; nullptr: none of ours, of which the parameters will be refused.
Pool* AskedPool(Engine::State& state, const EphemeralRequest& request) {
  const auto pool = PoolOf(state, request);
  return pool.has_value() ? *pool : nullptr;
}

// The one that an earlier call has made: after a restart of quarryd or of the node, or because kubelet did
// not hear that it was published. What the limit is by now does not matter to a pod that has its volume.
Status CheckSame(const Engine::State::Found& found, const EphemeralRequest& request) {
  const auto recorded = Profile::FromCanonical(found.record.tags.profile);
  QUARRY_ASSIGN(const Wanted wanted,
                ParseWanted(request, recorded.has_value() ? recorded->pool : found.record.pool));
  const CreateRequest same{.name = request.publish.id,
                           .range = {.required = request.size, .limit = {}},
                           .capabilities = {request.publish.capability},
                           .parameters = {}};
  if (const auto difference = Incompatibility(found.record, wanted.profile, same); difference.has_value()) {
    return Error(Code::kAlreadyExists,
                 fmt::format("volume_id: an inline volume of this id exists and differs: {}", *difference));
  }
  return Ok();
}

// After these kubelet asks again, or unpublishes; after any other it may forget the volume.
bool IsAskedAgain(Code code) {
  return code == Code::kBusy || code == Code::kNoSpace || code == Code::kUnavailable ||
         code == Code::kTimeout || code == Code::kCancelled;
}

// For a caller that is to come back: there is, or may be, a volume that he must not forget.
Error ToBeAskedAgain(Error error) {
  return IsAskedAgain(error.code()) ? std::move(error) : std::move(error).As(Code::kUnavailable);
}

Result<Engine::State::Found> Make(Engine::State& state, const EphemeralRequest& request, const Call& call) {
  const std::string& handle = request.publish.id;
  const std::string what = fmt::format("NodePublishVolume of {}", handle);
  QUARRY_ASSIGN(Pool* const pool, PoolOf(state, request));
  const EphemeralMost most =
      EphemeralMostOf(state.config.pools, state.config.ephemeral_max_size, pool->config);
  QUARRY_TRY(CheckEphemeralRequest(most, pool->config, request));
  QUARRY_ASSIGN(const Wanted wanted, ParseWanted(request, pool->config.name));
  QUARRY_TRY(CheckTarget(state.world.dm, wanted.profile.geometry));
  // Against a CreateVolume of the same name.
  QUARRY_ASSIGN(const auto guard, state.locks.Lock("name:" + handle, what, call));
  QUARRY_ASSIGN(const auto named, state.FindByName(handle, pool, call));
  if (named.has_value()) {
    return Error(Code::kAlreadyExists,
                 fmt::format("volume_id: volume {} was created under this name", named->record.tags.id));
  }
  if (Status readable = state.CheckReadableName(handle); !readable.has_value()) {
    return ToBeAskedAgain(std::move(readable.error()));  // it may be this pod's, mounted by a newer build
  }
  const CreateWish wish{handle, wanted.profile, wanted.access, Extents{}, "", /*ephemeral=*/true};
  const CapacityRange range{.required = request.size, .limit = most.size};
  auto volume = MakeNewVolume(state, *pool, wish, range, what, call)
                    .Context(fmt::format("an inline volume within {}", most.setting));
  auto found = state.FindEphemeral(handle, pool, call);
  if (!volume.has_value()) {
    const bool absent =
        found.has_value() && !found->has_value() && volume.error().code() != Code::kAlreadyExists;
    return absent ? std::move(volume.error()) : ToBeAskedAgain(std::move(volume.error()));
  }
  if (!found.has_value()) {
    return ToBeAskedAgain(std::move(found.error()));
  }
  if (!found->has_value()) {
    return Error(Code::kInternal, fmt::format("inline volume {} was made and is not there", handle));
  }
  return std::move(**found);
}

// A volume that was never mounted, for a caller that will not come back for it. False: it is still there.
bool TakeBack(Engine::State& state, const Engine::State::Found& found) {
  const auto ended = EndVolume(state, found, fmt::format("taking back {}", found.record.tags.co_name),
                               CallWithin(kUndoLimit));
  if (!ended.has_value()) {
    state.log.Warning("an inline volume that could not be published stays until it is unpublished",
                      {{"volume", found.record.tags.co_name},
                       {"lv", found.record.lv->name},
                       {"error", ended.error().message()}});
  }
  return ended.has_value();
}

}  // namespace

Result<std::optional<Engine::State::Found>> Engine::State::FindEphemeral(const std::string& handle,
                                                                         Pool* asked, const Call& call) {
  QUARRY_ASSIGN(auto found, FindByName(handle, asked, call));
  if (found.has_value() && found->record.tags.ephemeral) {
    return found;
  }
  return std::optional<Found>();
}

Result<Engine::State::Found> Engine::State::GetPublished(const std::string& id, const Call& call) {
  if (!lvm::ParseVolumeId(id).has_value()) {
    QUARRY_ASSIGN(auto found, FindEphemeral(id, nullptr, call));
    if (found.has_value()) {
      return std::move(*found);
    }
  }
  return GetVolume(id, call);
}

Status EndEphemeral(Engine::State& state, const Engine::State::Found& found, const Call& call) {
  QUARRY_ASSIGN(const auto device, state.world.dm.Find(found.record.DmUuid()));
  if (device.has_value()) {
    QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
    if (!mounts.Of({device->major, device->minor}).empty()) {
      return Ok();
    }
  }
  return EndVolume(state, found, fmt::format("NodeUnpublishVolume of {}", found.record.tags.co_name), call);
}

Status Engine::PublishEphemeral(const EphemeralRequest& request, const Call& call) {
  const std::string& handle = request.publish.id;
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_TRY(CheckRequest(request));
  if (auto joined = state_->long_steps.Join(handle, call); !joined.has_value()) {
    return ToBeAskedAgain(std::move(joined.error()));  // the volume is there
  }
  QUARRY_ASSIGN(auto guard,
                state_->locks.Lock("id:" + handle, fmt::format("NodePublishVolume of {}", handle), call));
  state_->left_behind.Drop(handle);  // it is wanted again
  auto looked = state_->FindEphemeral(handle, AskedPool(*state_, request), call);
  if (!looked.has_value()) {
    return ToBeAskedAgain(std::move(looked.error()));  // it may be there
  }
  std::optional<State::Found> found = std::move(*looked);
  const bool was_there = found.has_value();
  if (was_there) {
    QUARRY_TRY(CheckSame(*found, request));
  } else {
    QUARRY_ASSIGN(found, Make(*state_, request, call));
  }
  const auto published = [&]() -> Status {
    QUARRY_ASSIGN(const dm::Device device, state_->EnsureActive(*found, call));
    return PublishUnstaged(*state_, *found, device, request.publish, guard, call);
  }();
  const bool may_hold_data = was_there && found->record.tags.formatted == found->record.tags.fs_type;
  if (published.has_value()) {
    return Ok();
  }
  if (!IsAskedAgain(published.error().code()) && !may_hold_data && TakeBack(*state_, *found)) {
    return published;
  }
  return ToBeAskedAgain(published.error());
}

}  // namespace quarry::engine
