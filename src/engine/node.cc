// The node's half of a volume's life: stage once per node, bind per target.
#include <fcntl.h>

#include <fmt/format.h>

#include "engine/ephemeral.h"
#include "engine/plan_node.h"
#include "engine/state.h"
#include "engine/volume_steps.h"

namespace quarry::engine {
namespace {

// More mounts stacked on one path than this are not ours.
constexpr int kMaxStacked = 16;

// A repair is for people to see, whatever becomes of the call.
void TellOfRepairs(const Engine::State& state, Plan& plan, const std::string& id) {
  for (Action& action : plan) {
    if (auto* check = std::get_if<CheckFilesystemAction>(&action)) {
      check->tell = [&log = state.log, id, device = check->device](const mount::CheckReport& report) {
        if (report.repaired) {
          log.Warning("a file system was repaired before it was mounted",
                      {{"volume", id}, {"device", device}, {"words", report.words}});
        }
      };
    }
  }
}

// For a step that a caller need not wait for. Then it is stopped, for nobody knows whether it ever ends.
constexpr std::chrono::minutes kLongest{30};

bool MayTakeLong(const Action& action) {
  return std::holds_alternative<MakeFilesystemAction>(action) ||
         std::holds_alternative<CheckFilesystemAction>(action) ||
         std::holds_alternative<GiveToGroupAction>(action);
}

// What a node plan is run for.
struct Job {
  Engine::State& state;
  Pool& pool;
  std::string id;
  std::string what;  // "NodeStageVolume of …"
};

// Commits only under the group's turn; mkfs and mounts keep nobody waiting.
Status RunStep(const Job& job, const Action& action, const Call& call) {
  if (std::holds_alternative<RetagAction>(action)) {
    QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, call));
    return RunCounted(job.pool, {action}, job.state.world, call);
  }
  return Execute({action}, job.state.world, call).Context("volume " + job.id);
}

// `guard` is the volume's lock; it is gone if `call` has ended before a long step.
Status RunNodePlan(const Job& job, Plan plan, KeyLocks::Guard& guard, const Call& call) {
  TellOfRepairs(job.state, plan, job.id);
  for (auto next = plan.begin(); next != plan.end();) {
    if (!MayTakeLong(*next)) {
      QUARRY_TRY(RunStep(job, *next++, call));
      continue;
    }
    Plan part = {*next++};
    while (next != plan.end() && std::holds_alternative<RetagAction>(*next)) {
      part.push_back(*next++);  // that it is done is recorded with it, or it would be done again
    }
    const auto work = [job, part](const Call& own) -> Status {
      for (const Action& action : part) {
        QUARRY_TRY(RunStep(job, action, own));
      }
      return Ok();
    };
    QUARRY_TRY(job.state.long_steps.Run(job.id, fmt::format("volume {}: {}", job.id, Text(part.front())),
                                        kLongest, work, guard, call));
  }
  return Ok();
}

Result<mount::Content> LookAt(Engine::State& state, const Engine::State::Found& found,
                              const dm::Device& device) {
  QUARRY_ASSIGN(const UniqueFd fd, state.world.dm.Open(device.uuid, O_RDONLY));
  return state.world.mount.Probe(fd.get()).Context(
      fmt::format("looking at what is on volume {}", found.record.tags.id));
}

// The group that a request with one has to reckon with: that of the mounted file system.
Status LookAtGroup(const Engine::State& state, const Capability& capability, NodeView& view) {
  const mount::MountEntry* mounted = WholeMount(view);
  if (!capability.mount_group.has_value() || mounted == nullptr) {
    return Ok();
  }
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(mounted->target));
  QUARRY_ASSIGN(view.group, state.world.mount.GroupOf(path));
  return Ok();
}

Status StageMounted(Engine::State& state, const Engine::State::Found& found, const dm::Device& device,
                    const StageRequest& request, KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  const NodeView view{found.record, device, mounts, std::nullopt, state.config.fsck == Fsck::kPreen};
  mount::Content content;
  if (OurMountAt(view, request.staging_path) == nullptr) {
    QUARRY_ASSIGN(content, LookAt(state, found, device));
  }
  QUARRY_ASSIGN(const Plan plan, PlanStage(view, request, content));
  return RunNodePlan({state, *found.pool, request.id, fmt::format("NodeStageVolume of {}", request.id)}, plan,
                     guard, call);
}

}  // namespace

Status PublishUnstaged(Engine::State& state, const Engine::State::Found& found, const dm::Device& device,
                       const PublishRequest& request, KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  NodeView view{found.record, device, mounts, std::nullopt, state.config.fsck == Fsck::kPreen};
  mount::Content content;
  if (WholeMount(view) == nullptr) {
    QUARRY_ASSIGN(content, LookAt(state, found, device));
  }
  QUARRY_TRY(LookAtGroup(state, request.capability, view));
  QUARRY_ASSIGN(const Plan plan, PlanPublishUnstaged(view, request, content, state.config.several_targets));
  return RunNodePlan({state, *found.pool, request.id, fmt::format("NodePublishVolume of {}", request.id)},
                     plan, guard, call);
}

namespace {

Status PublishMounted(Engine::State& state, const Engine::State::Found& found, const dm::Device& device,
                      const PublishRequest& request, KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  NodeView view{found.record, device, mounts};
  QUARRY_TRY(LookAtGroup(state, request.capability, view));
  QUARRY_ASSIGN(const Plan plan, PlanPublishMount(view, request, state.config.several_targets));
  return RunNodePlan({state, *found.pool, request.id, fmt::format("NodePublishVolume of {}", request.id)},
                     plan, guard, call);
}

Status PublishRaw(Engine::State& state, const Engine::State::Found& found, const dm::Device& device,
                  const PublishRequest& request, const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  QUARRY_ASSIGN(const auto published, state.Published(mounts, device));
  QUARRY_ASSIGN(const Plan plan, PlanPublishBlock({found.record, device, mounts}, request, published,
                                                  state.config.several_targets));
  // The hold comes first: from here on the device cannot go away under the bind mount.
  QUARRY_ASSIGN(UniqueFd fd, state.world.dm.Open(device.uuid, O_RDONLY));
  state.holds.Keep(found.record.tags.id, std::move(fd));
  auto done = Execute(plan, state.world, call);
  if (!done.has_value() && published.empty()) {
    state.holds.Drop(found.record.tags.id);
  }
  return done;
}

// Whether what is mounted at `path` belongs to this device, as its file system or as its node.
Result<bool> IsAt(const Engine::State& state, const mount::MountTable& mounts, const dm::Device& device,
                  const AbsolutePath& path) {
  const mount::MountEntry* entry = mounts.At(path);
  if (entry == nullptr) {
    return false;
  }
  const mount::DeviceNumber ours{device.major, device.minor};
  if (entry->backing == ours) {
    return true;
  }
  QUARRY_ASSIGN(const auto node, state.world.mount.BlockDeviceAt(path));
  return node == ours;
}

// Unmounts what is ours at `path`, however often it was mounted there. Says whether the path is free of
// mounts now.
Result<bool> UnmountOurs(const Engine::State& state, const dm::Device& device, const AbsolutePath& path,
                         const Call& call) {
  for (int i = 0; i < kMaxStacked; ++i) {
    QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
    if (mounts.At(path) == nullptr) {
      return true;
    }
    QUARRY_ASSIGN(const bool ours, IsAt(state, mounts, device, path));
    if (!ours) {
      return false;  // somebody else's: not ours to touch, and the volume is not there
    }
    QUARRY_TRY(Execute({UnmountAction{path}}, state.world, call));
  }
  return Error(Code::kPrecondition, fmt::format("{} has too many mounts stacked on it", path.str()));
}

Error NotThere(const std::string& id, const std::string& path) {
  return Error(Code::kNotFound, fmt::format("volume_path: volume {} is not at '{}'", id, path));
}

// The device of a volume that is in use at `path`; kNotFound if it is not there, whatever the path looks
// like.
struct Place {
  Engine::State::Found found;
  dm::Device device;
  AbsolutePath path;
  bool raw;
};
Result<Place> Locate(Engine::State& state, const std::string& id, const std::string& volume_path,
                     const Call& call) {
  QUARRY_ASSIGN(auto found, state.GetPublished(id, call));
  QUARRY_ASSIGN(auto device, state.world.dm.Find(found.record.DmUuid()));
  auto path = AbsolutePath::Parse(volume_path);
  if (!device.has_value() || !path.has_value()) {
    return NotThere(id, volume_path);
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, state.world.mount.Mounts());
  QUARRY_ASSIGN(const bool there, IsAt(state, mounts, *device, *path));
  if (!there) {
    return NotThere(id, volume_path);
  }
  const bool raw = mounts.At(*path)->backing != mount::DeviceNumber{device->major, device->minor};
  return Place{std::move(found), std::move(*device), std::move(*path), raw};
}

Result<Bytes> SizeOfDevice(const Engine::State& state, const dm::Device& device) {
  QUARRY_ASSIGN(const UniqueFd fd, state.world.dm.Open(device.uuid, O_RDONLY));
  return state.world.mount.DeviceSize(fd.get());
}

// Unpublishing; nothing of the volume is left at the target if it was there.
Status TakeFromTarget(Engine::State& state, const std::optional<Engine::State::Found>& found,
                      const std::string& id, const AbsolutePath& target_path, TargetOwner target_owner,
                      const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable before, state.world.mount.Mounts());
  std::optional<dm::Device> device;
  if (found.has_value()) {
    QUARRY_ASSIGN(device, state.world.dm.Find(found->record.DmUuid()));
  }
  bool free = before.At(target_path) == nullptr;
  if (device.has_value()) {
    QUARRY_ASSIGN(free, UnmountOurs(state, *device, target_path, call));
  }
  if (!free) {
    return Ok();  // another volume's, or not ours at all: this one is not published there
  }
  if (target_owner == TargetOwner::kPlugin) {
    QUARRY_TRY(Execute({RemoveTargetAction{target_path}}, state.world, call));
  }
  if (device.has_value() && state.holds.Has(id)) {
    QUARRY_ASSIGN(const mount::MountTable after, state.world.mount.Mounts());
    QUARRY_ASSIGN(const auto published, state.Published(after, *device));
    if (published.empty()) {
      state.holds.Drop(id);
    }
  }
  return Ok();
}

}  // namespace

Status Engine::Stage(const StageRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_TRY(state_->long_steps.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, state_->locks.Lock("id:" + request.id,
                                               fmt::format("NodeStageVolume of {}", request.id), call));
  QUARRY_ASSIGN(const auto found, state_->GetVolume(request.id, call));
  QUARRY_TRY(CheckAccess(found.record, request.capability));
  QUARRY_ASSIGN(const dm::Device device, state_->EnsureActive(found, call));
  if (request.capability.access == AccessType::kBlock) {
    return Ok();  // an active device is all that a raw volume needs before it is published
  }
  return StageMounted(*state_, found, device, request, guard, call);
}

Status Engine::Unstage(const std::string& id, const AbsolutePath& staging_path, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                state_->locks.Lock("id:" + id, fmt::format("NodeUnstageVolume of {}", id), call));
  QUARRY_ASSIGN(const auto found, state_->FindVolume(id, call));
  if (!found.has_value()) {
    return Ok();  // a volume that is not there is staged nowhere
  }
  QUARRY_ASSIGN(const auto device, state_->world.dm.Find(found->record.DmUuid()));
  if (!device.has_value()) {
    return Ok();
  }
  auto unmounted = UnmountOurs(*state_, *device, staging_path, call);
  return unmounted.has_value() ? Ok() : Status(std::move(unmounted.error()));
}

Status Engine::Publish(const PublishRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_TRY(state_->long_steps.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, state_->locks.Lock("id:" + request.id,
                                               fmt::format("NodePublishVolume of {}", request.id), call));
  QUARRY_ASSIGN(const auto found, state_->GetVolume(request.id, call));
  QUARRY_TRY(CheckAccess(found.record, request.capability));
  QUARRY_ASSIGN(auto device, state_->world.dm.Find(found.record.DmUuid()));
  if (!device.has_value() && request.staging_path.has_value()) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} is not active: NodeStageVolume comes first", request.id));
  }
  if (!device.has_value()) {
    QUARRY_ASSIGN(device, state_->EnsureActive(found, call));
  }
  if (request.capability.access == AccessType::kBlock) {
    return PublishRaw(*state_, found, *device, request, call);
  }
  return request.staging_path.has_value() ? PublishMounted(*state_, found, *device, request, guard, call)
                                          : PublishUnstaged(*state_, found, *device, request, guard, call);
}

Status Engine::Unpublish(const std::string& id, const AbsolutePath& target_path, const Call& call,
                         TargetOwner target_owner) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                state_->locks.Lock("id:" + id, fmt::format("NodeUnpublishVolume of {}", id), call));
  QUARRY_ASSIGN(auto found, state_->FindVolume(id, call));
  if (!found.has_value()) {
    QUARRY_ASSIGN(found, state_->FindEphemeral(id, call));
  }
  QUARRY_TRY(TakeFromTarget(*state_, found, id, target_path, target_owner, call));
  return found.has_value() && found->record.tags.ephemeral ? EndEphemeral(*state_, *found, call) : Ok();
}

Result<VolumeStats> Engine::Stats(const std::string& id, const std::string& volume_path, const Call& call,
                                  Show show) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const Place place, Locate(*state_, id, volume_path, call));
  VolumeStats stats;
  if (place.raw) {
    QUARRY_ASSIGN(stats.total, SizeOfDevice(*state_, place.device));
  } else {
    QUARRY_ASSIGN(const mount::FilesystemUsage usage, state_->world.mount.Usage(place.path));
    stats = {.total = usage.total,
             .used = usage.used,
             .available = usage.available,
             .inodes_total = usage.inodes_total,
             .inodes_used = usage.inodes_used,
             .inodes_free = usage.inodes_free};
  }
  if (show != Show::kFacts) {
    QUARRY_ASSIGN(const mount::MountTable mounts, state_->world.mount.Mounts());
    QUARRY_ASSIGN(stats.health, state_->HealthOf(place.found.record, mounts));
  }
  return stats;
}

Result<Bytes> Engine::NodeExpand(const NodeExpandRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(
      const auto guard,
      state_->locks.Lock("id:" + request.id, fmt::format("NodeExpandVolume of {}", request.id), call));
  QUARRY_ASSIGN(const Place place, Locate(*state_, request.id, request.volume_path, call));
  if (place.found.record.tags.ephemeral) {
    return Error(Code::kUnsupported, "volume_id: an inline volume cannot be grown");
  }
  QUARRY_ASSIGN(const Bytes size, SizeOfDevice(*state_, place.device));
  if (size < request.range.required) {
    return Error(Code::kOutOfRange,
                 fmt::format("capacity_range.required_bytes: volume {} has {} bytes, {} were asked for; "
                             "ControllerExpandVolume comes first",
                             request.id, size.value, request.range.required.value));
  }
  if (!place.raw) {
    QUARRY_TRY(
        Execute({GrowFilesystemAction{place.found.record.tags.fs_type, place.device.Node(), place.path}},
                state_->world, call));
  }
  return size;
}

}  // namespace quarry::engine
