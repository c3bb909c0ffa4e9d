// The node's half of a volume's life: stage once per node, bind per target.
#include <fcntl.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/calls/inline_volumes.h"
#include "engine/calls/parts.h"
#include "engine/calls/volume_steps.h"
#include "engine/disks/zeros.h"
#include "engine/model/alone.h"
#include "engine/model/config.h"
#include "engine/plan/plan_node.h"
#include "engine/volumes.h"

namespace quarry::engine {
namespace {

// More mounts stacked on one path than this are not ours.
constexpr int kMaxStacked = 16;

// A repair is for people to see, whatever becomes of the call. So is a file system that did not grow: it is
// whole and mounted, and whoever needs the room hears of it from NodeExpandVolume.
void TellPeople(const Parts& parts, Plan& plan, const std::string& id) {
  for (Action& action : plan) {
    if (auto* grow = std::get_if<GrowFilesystemAction>(&action)) {
      grow->tell = [&log = parts.node.log, id, device = grow->device](const Error& why) {
        log.Warning(
            "a file system is mounted and smaller than its volume, because it could not be grown; once the "
            "cause is gone, NodeExpandVolume or the next NodeStageVolume grows it",
            {{"volume", id}, {"device", device}, {"error", why.message()}});
      };
    }
    if (auto* check = std::get_if<CheckFilesystemAction>(&action)) {
      check->tell = [&log = parts.node.log, id, device = check->device](const mount::CheckReport& report) {
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
  Parts& parts;
  Pool& pool;
  std::string id;
  std::string what;  // "NodeStageVolume of …"
};

// Commits only under the group's turn; mkfs and mounts keep nobody waiting.
Status RunStep(const Job& job, const Action& action, const Call& call) {
  if (std::holds_alternative<RetagAction>(action)) {
    QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, call));
    return RunCounted(job.pool, {action}, job.parts.node.world, call);
  }
  return Execute({action}, job.parts.node.world, call).Context("volume " + job.id);
}

// `guard` is the volume's lock; it is gone if `call` has ended before a long step.
Status RunNodePlan(const Job& job, Plan plan, KeyLocks::Guard& guard, const Call& call) {
  TellPeople(job.parts, plan, job.id);
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
    QUARRY_TRY(job.parts.background.Run(job.id, fmt::format("volume {}: {}", job.id, Text(part.front())),
                                        kLongest, work, guard, call));
  }
  return Ok();
}

Result<mount::Content> LookAt(Parts& parts, const Found& found, const dm::Device& device) {
  QUARRY_ASSIGN(const UniqueFd fd, parts.node.world.dm.Open(device.uuid, O_RDONLY));
  const lvm::VolumeTags& tags = found.record.tags;
  const std::string what = fmt::format("volume {}", tags.id);
  QUARRY_ASSIGN(mount::Content content, parts.node.world.mount.Probe(fd.get()).Context(
                                            fmt::format("looking at what is on {}", what)));
  // What serves both as a raw device and for mounting was made of cleared space, and may have been used raw
  // first. Of what is never erased nothing is known.
  if (content.kind == mount::Content::Kind::kBlank && tags.access == "any" && tags.formatted.empty() &&
      PolicyOf(found.record) != ErasePolicy::kNone) {
    QUARRY_ASSIGN(const bool zeros, BeginsWithZeros(fd.get(), what));
    if (!zeros) {
      content = {mount::Content::Kind::kOther, "raw data", ""};
    }
  }
  return content;
}

// The group that a request with one has to reckon with: that of the mounted file system.
Status LookAtGroup(const Parts& parts, const Capability& capability, NodeView& view) {
  const mount::MountEntry* mounted = WholeMount(view);
  if (!capability.mount_group.has_value() || mounted == nullptr) {
    return Ok();
  }
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(mounted->target));
  QUARRY_ASSIGN(view.group, parts.node.world.mount.GroupOf(path));
  return Ok();
}

// The same request with paths as the mount table spells them.
Result<StageRequest> Resolved(Parts& parts, StageRequest request) {
  QUARRY_ASSIGN(request.staging_path,
                parts.node.world.mount.Resolve(request.staging_path).Context("staging_target_path"));
  return request;
}

Result<PublishRequest> Resolved(Parts& parts, PublishRequest request) {
  QUARRY_ASSIGN(request.target_path,
                parts.node.world.mount.Resolve(request.target_path).Context("target_path"));
  if (request.staging_path.has_value() && request.capability.access == AccessType::kMount) {
    auto staging = parts.node.world.mount.Resolve(*request.staging_path);
    if (!staging.has_value()) {
      const bool absent = staging.error().code() == Code::kNotFound;
      const Code code = absent ? Code::kPrecondition : staging.error().code();
      return std::move(staging.error())
          .As(code)
          .Context(fmt::format("staging_target_path: volume {} is not staged there", request.id));
    }
    request.staging_path = std::move(*staging);
  }
  return request;
}

Status StageMounted(Parts& parts, const Found& found, const dm::Device& device, const StageRequest& asked,
                    KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const StageRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  const NodeView view{found.record, device, mounts, std::nullopt, parts.node.config.fsck == Fsck::kPreen};
  mount::Content content;
  if (OurMountAt(view, request.staging_path) == nullptr) {
    QUARRY_ASSIGN(content, LookAt(parts, found, device));
  }
  QUARRY_ASSIGN(const Plan plan, PlanStage(view, request, content));
  return RunNodePlan({parts, *found.pool, request.id, fmt::format("NodeStageVolume of {}", request.id)}, plan,
                     guard, call);
}

}  // namespace

Status PublishUnstaged(Parts& parts, const Found& found, const dm::Device& device,
                       const PublishRequest& asked, KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const PublishRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  NodeView view{found.record, device, mounts, std::nullopt, parts.node.config.fsck == Fsck::kPreen};
  mount::Content content;
  if (WholeMount(view) == nullptr) {
    QUARRY_ASSIGN(content, LookAt(parts, found, device));
  }
  QUARRY_TRY(LookAtGroup(parts, request.capability, view));
  QUARRY_ASSIGN(const Plan plan,
                PlanPublishUnstaged(view, request, content, parts.node.config.several_targets));
  return RunNodePlan({parts, *found.pool, request.id, fmt::format("NodePublishVolume of {}", request.id)},
                     plan, guard, call);
}

namespace {

Status PublishMounted(Parts& parts, const Found& found, const dm::Device& device, const PublishRequest& asked,
                      KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const PublishRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  NodeView view{found.record, device, mounts};
  QUARRY_TRY(LookAtGroup(parts, request.capability, view));
  QUARRY_ASSIGN(const Plan plan, PlanPublishMount(view, request, parts.node.config.several_targets));
  return RunNodePlan({parts, *found.pool, request.id, fmt::format("NodePublishVolume of {}", request.id)},
                     plan, guard, call);
}

Status PublishRaw(Parts& parts, const Found& found, const dm::Device& device, const PublishRequest& asked,
                  const Call& call) {
  QUARRY_ASSIGN(const PublishRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, device));
  QUARRY_ASSIGN(const Plan plan, PlanPublishBlock({found.record, device, mounts}, request, published,
                                                  parts.node.config.several_targets));
  // The hold comes first: from here on the device cannot go away under the bind mount.
  QUARRY_ASSIGN(UniqueFd fd, parts.node.world.dm.Open(device.uuid, O_RDONLY));
  parts.node.holds.Keep(found.record.tags.id, std::move(fd));
  auto done = Execute(plan, parts.node.world, call);
  if (!done.has_value() && published.empty()) {
    parts.node.holds.Drop(found.record.tags.id);
  }
  return done;
}

// Whether a path does not exist or cannot be followed, as opposed to: could not be looked at.
bool LeadsNowhere(const Error& why) {
  return why.code() == Code::kNotFound || why.code() == Code::kPrecondition;
}

// For a path that leads nowhere, by `why`: nothing of the volume is there if it is mounted and published
// nowhere at all. Else what is mounted may have been reached by that path: kPrecondition naming where it is.
Status CheckInUseNowhere(Parts& parts, const std::optional<dm::Device>& device, Error why) {
  if (!LeadsNowhere(why)) {
    return why;
  }
  if (!device.has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_ASSIGN(std::vector<const mount::MountEntry*> uses, parts.node.Published(mounts, *device));
  const auto mounted = mounts.Of({device->major, device->minor});
  uses.insert(uses.end(), mounted.begin(), mounted.end());
  if (uses.empty()) {
    return Ok();
  }
  return Error(Code::kPrecondition,
               fmt::format("{}, while the volume is mounted at {}; restore the path, or unmount it there",
                           why.message(), uses.front()->target));
}

// Whether what is mounted at `path` belongs to this device, as its file system or as its node.
Result<bool> IsAt(Parts& parts, const mount::MountTable& mounts, const dm::Device& device,
                  const AbsolutePath& path) {
  const mount::MountEntry* entry = mounts.At(path);
  if (entry == nullptr) {
    return false;
  }
  if (entry->backing == mount::DeviceNumber{device.major, device.minor}) {
    return true;
  }
  QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, device));
  return std::find(published.begin(), published.end(), entry) != published.end();
}

// Unmounts what is ours at `path`, however often it was mounted there. Says whether the path is free of
// mounts now.
Result<bool> UnmountOurs(Parts& parts, const dm::Device& device, const AbsolutePath& path, const Call& call) {
  for (int i = 0; i < kMaxStacked; ++i) {
    QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
    if (mounts.At(path) == nullptr) {
      return true;
    }
    QUARRY_ASSIGN(const bool ours, IsAt(parts, mounts, device, path));
    if (!ours) {
      return false;  // somebody else's: not ours to touch, and the volume is not there
    }
    QUARRY_TRY(Execute({UnmountAction{path}}, parts.node.world, call));
  }
  return Error(Code::kPrecondition, fmt::format("{} has too many mounts stacked on it", path.str()));
}

Error NotThere(const std::string& id, const std::string& path) {
  return Error(Code::kNotFound, fmt::format("volume_path: volume {} is not at '{}'", id, path));
}

// The device of a volume that is in use at `path`; kNotFound if it is not there, whatever the path looks
// like.
struct Place {
  Found found;
  dm::Device device;
  AbsolutePath path;
  bool raw;
};
Result<Place> Locate(Parts& parts, const std::string& id, const std::string& volume_path, const Call& call) {
  QUARRY_ASSIGN(auto found, parts.node.GetPublished(id, call));
  QUARRY_ASSIGN(auto device, parts.node.world.dm.Find(found.record.DmUuid()));
  const auto asked = AbsolutePath::Parse(volume_path);
  if (!device.has_value() || !asked.has_value()) {
    return NotThere(id, volume_path);
  }
  auto path = parts.node.world.mount.Resolve(*asked);
  if (!path.has_value() && LeadsNowhere(path.error())) {
    return std::move(path.error()).As(Code::kNotFound).Context(NotThere(id, volume_path).message());
  }
  if (!path.has_value()) {
    return std::move(path.error());
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_ASSIGN(const bool there, IsAt(parts, mounts, *device, *path));
  if (!there) {
    return NotThere(id, volume_path);
  }
  const bool raw = mounts.At(*path)->backing != mount::DeviceNumber{device->major, device->minor};
  return Place{std::move(found), std::move(*device), std::move(*path), raw};
}

Result<Bytes> SizeOfDevice(const Parts& parts, const dm::Device& device) {
  QUARRY_ASSIGN(const UniqueFd fd, parts.node.world.dm.Open(device.uuid, O_RDONLY));
  return parts.node.world.mount.DeviceSize(fd.get());
}

// Whether anybody but the caller's staging has the volume.
Result<bool> IsPublished(Parts& parts, const Place& place, const NodeExpandRequest& request) {
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  if (place.raw) {
    QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, place.device));
    return !published.empty();
  }
  const size_t places = mounts.Of({place.device.major, place.device.minor}).size();
  return places > 1 || request.volume_path != request.staging_path;
}

// What a pod need not wait for, since it can start with the size that there is.
bool IsForLater(Code code) {
  return code == Code::kNoSpace || code == Code::kOutOfRange || code == Code::kUnavailable ||
         code == Code::kTimeout;
}

// The logical volume, to what is required. `guard` is held by the caller.
Status GrowOnNode(Parts& parts, const Place& place, const NodeExpandRequest& request, const Call& call) {
  if (request.range.required <= place.found.record.tags.size) {
    return Ok();
  }
  auto grown = GrowTo(parts, *place.found.pool, request.id, request.range,
                      fmt::format("NodeExpandVolume of {}", request.id), call);
  if (grown.has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(const bool published, IsPublished(parts, place, request));
  return published || !IsForLater(grown.error().code()) ? std::move(grown.error())
                                                        : std::move(grown.error()).As(Code::kPrecondition);
}

// Unpublishing; nothing of the volume is left at the target if it was there. `device`: the volume's, if it is
// active.
Status TakeFromTarget(Parts& parts, const std::optional<dm::Device>& device, const std::string& id,
                      const AbsolutePath& asked, TargetOwner target_owner, const Call& call) {
  const auto target_path = parts.node.world.mount.Resolve(asked);
  if (target_path.has_value()) {
    QUARRY_ASSIGN(const mount::MountTable before, parts.node.world.mount.Mounts());
    bool free = before.At(*target_path) == nullptr;
    if (device.has_value()) {
      QUARRY_ASSIGN(free, UnmountOurs(parts, *device, *target_path, call));
    }
    if (!free) {
      return Ok();  // another volume's, or not ours at all: this one is not published there
    }
    if (target_owner == TargetOwner::kPlugin) {
      QUARRY_TRY(Execute({RemoveTargetAction{*target_path}}, parts.node.world, call));
    }
  } else if (target_path.error().code() != Code::kNotFound) {  // where no folder is, nothing is mounted
    QUARRY_TRY(CheckInUseNowhere(parts, device, target_path.error()).Context("target_path"));
  }
  return device.has_value() ? parts.node.DropIdleHold(id, *device) : Ok();
}

// The volume whose file system is mounted at `path`, if it is one that we made in a pool that cannot be read.
// `why` it was not found before: if its pool can be read after all, and it may be the one.
Result<std::optional<dm::Device>> LostDeviceAt(Parts& parts, const std::string& handle,
                                               const AbsolutePath& path, const Error& why, const Call& call) {
  const auto resolved = parts.node.world.mount.Resolve(path);
  if (!resolved.has_value()) {
    return std::optional<dm::Device>();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  const mount::MountEntry* const entry = mounts.At(*resolved);
  if (entry == nullptr) {
    return std::optional<dm::Device>();
  }
  QUARRY_ASSIGN(const std::vector<dm::Device> devices,
                parts.node.world.dm.List(std::string(lvm::kDmUuidPrefix)));
  for (const dm::Device& device : devices) {
    if (mount::DeviceNumber{device.major, device.minor} != entry->backing) {
      continue;
    }
    for (const auto& pool : parts.node.pools) {
      const std::string prefix = lvm::DmName(pool->config.group, "");
      if (!device.name.starts_with(prefix) || !lvm::IsOurLvName(device.name.substr(prefix.size()))) {
        continue;
      }
      const auto catalog = parts.node.Look(*pool, kOthersPatience, call);
      if (!catalog.has_value()) {
        return std::optional(device);
      }
      const bool unreadable = std::ranges::any_of((*catalog)->unreadable, [&](const Unreadable& one) {
        return lvm::DmUuid((*catalog)->group->uuid, one.lv->uuid) == device.uuid &&
               lvm::BearsName(one.lv->tags, handle);
      });
      if (unreadable) {
        return std::optional(device);
      }
      const bool of_another = std::ranges::any_of((*catalog)->records, [&](const Record& record) {
        return record.DmUuid() == device.uuid && record.tags.co_name != handle;
      });
      return of_another ? Result<std::optional<dm::Device>>(std::nullopt) : why;
    }
  }
  return std::optional<dm::Device>();
}

// Ends an inline volume that is unmounted at its target. What somebody put on it, or does with it, may last,
// and nobody of the pod's can take it away: the pod is to end all the same, and the volume after that.
Status EndUnlessOthersHaveIt(Parts& parts, const Found& found, const Call& call) {
  Status ended = EndEphemeral(parts, found, call);
  if (ended.has_value()) {
    return ended;
  }
  const Status alone = CheckAlone(found.record);
  const std::string& handle = found.record.tags.co_name;
  if (alone.has_value() || alone.error().code() != ended.error().code()) {
    return ended;
  }
  if (!parts.left_behind.Has(handle)) {
    parts.node.log.Warning(
        "an inline volume is unmounted, but others have something on it: it is deleted when that is gone",
        {{"volume", handle}, {"detail", alone.error().message()}});
  }
  parts.left_behind.Add(handle);
  parts.node.Wake();
  return Ok();
}

// That of a volume of this name whose tags this build cannot read: it stays, but not mounted for a pod that
// ends.
Result<std::optional<dm::Device>> UnreadableDevice(Parts& parts, const std::string& handle,
                                                   const Call& call) {
  for (const auto& pool : parts.node.pools) {
    const auto catalog = parts.node.Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      continue;
    }
    for (const Unreadable& one : (*catalog)->unreadable) {
      if (lvm::BearsName(one.lv->tags, handle)) {
        return parts.node.world.dm.Find(lvm::DmUuid((*catalog)->group->uuid, one.lv->uuid));
      }
    }
  }
  return std::optional<dm::Device>();
}

// An inline volume of a pod, by its handle, which only a group's metadata know. While a pool cannot be read
// it may be there: the pod is to end all the same. What is mounted at the target is taken off if it is a
// volume of such a pool; that the volume itself has to go is kept in mind until the pool is back.
Status UnpublishInline(Parts& parts, const std::string& handle, const AbsolutePath& target_path,
                       TargetOwner target_owner, const Call& call) {
  const auto found = parts.node.FindEphemeral(handle, nullptr, call);
  if (!found.has_value()) {
    QUARRY_TRY(call.Check("looking for an inline volume"));
    QUARRY_ASSIGN(const auto device, LostDeviceAt(parts, handle, target_path, found.error(), call));
    QUARRY_TRY(TakeFromTarget(parts, device, handle, target_path, target_owner, call));
    parts.left_behind.Add(handle);
    parts.node.log.Warning(
        "an inline volume may be in a pool that cannot be read: it is deleted when that is back",
        {{"volume", handle}, {"detail", found.error().message()}});
    return Ok();
  }
  std::optional<dm::Device> device;
  if (found->has_value()) {
    QUARRY_ASSIGN(device, parts.node.world.dm.Find((*found)->record.DmUuid()));
  } else {
    QUARRY_ASSIGN(device, UnreadableDevice(parts, handle, call));
  }
  QUARRY_TRY(TakeFromTarget(parts, device, handle, target_path, target_owner, call));
  if (!found->has_value() && device.has_value()) {
    parts.node.log.Warning("an inline volume is unmounted, and stays: this build cannot read its tags",
                           {{"volume", handle}, {"device", device->name}});
  }
  return found->has_value() ? EndUnlessOthersHaveIt(parts, **found, call) : Ok();
}

}  // namespace

Status Volumes::Stage(const StageRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(parts_.background.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, parts_.node.locks.Lock("id:" + request.id,
                                                   fmt::format("NodeStageVolume of {}", request.id), call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetVolume(request.id, call));
  QUARRY_TRY(CheckAccess(found.record, request.capability));
  QUARRY_ASSIGN(const dm::Device device, parts_.node.EnsureActive(found, call));
  if (request.capability.access == AccessType::kBlock) {
    return Ok();  // an active device is all that a raw volume needs before it is published
  }
  return StageMounted(parts_, found, device, request, guard, call);
}

Status Volumes::Unstage(const std::string& id, const AbsolutePath& staging_path, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                parts_.node.locks.Lock("id:" + id, fmt::format("NodeUnstageVolume of {}", id), call));
  QUARRY_ASSIGN(const auto device, parts_.node.FindDevice(id, call));
  if (!device.has_value()) {
    return Ok();  // a volume that is not there, or not active, is staged nowhere
  }
  const auto path = parts_.node.world.mount.Resolve(staging_path);
  if (!path.has_value()) {
    return CheckInUseNowhere(parts_, device, path.error()).Context("staging_target_path");
  }
  auto unmounted = UnmountOurs(parts_, *device, *path, call);
  return unmounted.has_value() ? Ok() : Status(std::move(unmounted.error()));
}

Status Volumes::Publish(const PublishRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(parts_.background.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, parts_.node.locks.Lock("id:" + request.id,
                                                   fmt::format("NodePublishVolume of {}", request.id), call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetVolume(request.id, call));
  QUARRY_TRY(CheckAccess(found.record, request.capability));
  QUARRY_ASSIGN(auto device, parts_.node.world.dm.Find(found.record.DmUuid()));
  if (!device.has_value() && request.staging_path.has_value()) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} is not active: NodeStageVolume comes first", request.id));
  }
  if (!device.has_value()) {
    QUARRY_ASSIGN(device, parts_.node.EnsureActive(found, call));
  }
  if (request.capability.access == AccessType::kBlock) {
    return PublishRaw(parts_, found, *device, request, call);
  }
  return request.staging_path.has_value() ? PublishMounted(parts_, found, *device, request, guard, call)
                                          : PublishUnstaged(parts_, found, *device, request, guard, call);
}

Status Volumes::Unpublish(const std::string& id, const AbsolutePath& target_path, const Call& call,
                          TargetOwner target_owner) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                parts_.node.locks.Lock("id:" + id, fmt::format("NodeUnpublishVolume of {}", id), call));
  if (!lvm::ParseVolumeId(id).has_value()) {
    return UnpublishInline(parts_, id, target_path, target_owner, call);
  }
  QUARRY_ASSIGN(const auto device, parts_.node.FindDevice(id, call));
  return TakeFromTarget(parts_, device, id, target_path, target_owner, call);
}

Result<VolumeStats> Volumes::Stats(const std::string& id, const std::string& volume_path, const Call& call,
                                   Show show) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const Place place, Locate(parts_, id, volume_path, call));
  VolumeStats stats;
  if (place.raw) {
    QUARRY_ASSIGN(stats.total, SizeOfDevice(parts_, place.device));
  } else {
    QUARRY_ASSIGN(const mount::FilesystemUsage usage, parts_.node.world.mount.Usage(place.path));
    stats = {.total = usage.total,
             .used = usage.used,
             .available = usage.available,
             .inodes_total = usage.inodes_total,
             .inodes_used = usage.inodes_used,
             .inodes_free = usage.inodes_free};
  }
  if (show != Show::kFacts) {
    QUARRY_ASSIGN(const mount::MountTable mounts, parts_.node.world.mount.Mounts());
    QUARRY_ASSIGN(stats.health, parts_.node.HealthOf(place.found.record, mounts));
  }
  return stats;
}

Result<Bytes> Volumes::NodeExpand(const NodeExpandRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(
      const auto guard,
      parts_.node.locks.Lock("id:" + request.id, fmt::format("NodeExpandVolume of {}", request.id), call));
  QUARRY_ASSIGN(const Place place, Locate(parts_, request.id, request.volume_path, call));
  if (place.found.record.tags.ephemeral) {
    return Error(Code::kUnsupported, "volume_id: an inline volume cannot be grown");
  }
  if (parts_.node.config.expand == ExpandBy::kNode) {
    QUARRY_TRY(GrowOnNode(parts_, place, request, call));
  }
  QUARRY_ASSIGN(const Bytes size, SizeOfDevice(parts_, place.device));
  if (size < request.range.required) {
    return Error(Code::kOutOfRange,
                 fmt::format("capacity_range.required_bytes: volume {} has {} bytes, {} were asked for; "
                             "ControllerExpandVolume comes first",
                             request.id, size.value, request.range.required.value));
  }
  if (!place.raw) {
    QUARRY_TRY(
        Execute({GrowFilesystemAction{place.found.record.tags.fs_type, place.device.Node(), place.path}},
                parts_.node.world, call));
  }
  return size;
}

}  // namespace quarry::engine
