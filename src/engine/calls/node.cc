// The node's half of a volume's life: stage once per node, bind per target, stats, grow.
#include <fcntl.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/model/config.h"
#include "engine/plan/plan_node.h"
#include "engine/pool/reload.h"
#include "engine/volumes.h"

namespace quarry::engine {
namespace {

// Quarry never stacks this many mounts on one path.
constexpr int kMaxStacked = 16;

// Logs two results for the administrator, whatever the call returns: a file system that was repaired, and one
// that could not be grown. The latter is whole and mounted; a caller that needs the space gets the error from
// NodeExpandVolume.
void TellPeople(const Parts& parts, Plan& plan, const std::string& id) {
  for (Action& action : plan) {
    if (auto* grow = std::get_if<GrowFilesystemAction>(&action)) {
      grow->tell = [&log = parts.node.log, id, device = grow->device](const Error& why) {
        log.Warning(
            "a file system could not be grown: it is mounted and smaller than its volume; once the cause is "
            "gone, NodeExpandVolume or the next NodeStageVolume grows it",
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

// Upper limit for a background step; after this it is cancelled.
constexpr std::chrono::minutes kLongest{30};

bool MayTakeLong(const Action& action) {
  return std::holds_alternative<MakeFilesystemAction>(action) ||
         std::holds_alternative<CheckFilesystemAction>(action) ||
         std::holds_alternative<GiveToGroupAction>(action);
}

// The volume that a node plan is for, and the call that runs the plan.
struct Job {
  Parts& parts;
  Pool& pool;
  std::string id;
  std::string what;  // "NodeStageVolume of <id>"
  // Of HoldDevice(), if the plan names the device by its path.
  std::shared_ptr<const UniqueFd> held = nullptr;
};

// The volume's device, open. Tools and mounts get the device's path; until this is closed, nobody can
// deactivate the volume, so that the path becomes that of another one. kUnavailable: that happened since
// `stack` was looked up.
Result<UniqueFd> OpenDevice(const Parts& parts, const Stack& stack) {
  QUARRY_ASSIGN(UniqueFd fd, parts.node.world.dm.Open(stack.top().uuid, O_RDONLY));
  QUARRY_ASSIGN(const auto now, parts.node.world.dm.Find(stack.top().uuid));
  if (!now.has_value() || now->major != stack.top().major || now->minor != stack.top().minor) {
    return Error(
        Code::kUnavailable,
        fmt::format("another process has deactivated and activated {}: try again", stack.top().name));
  }
  return fd;
}

// OpenDevice() for as long as a plan runs.
Result<std::shared_ptr<const UniqueFd>> HoldDevice(const Parts& parts, const Stack& stack) {
  QUARRY_ASSIGN(UniqueFd fd, OpenDevice(parts, stack));
  return std::make_shared<const UniqueFd>(std::move(fd));
}

// Only commits need the group's turn. mkfs and mounts make no other caller wait.
Status RunStep(const Job& job, const Action& action, const Call& call) {
  if (Is<lvm::ChangeTags>(action)) {
    QUARRY_ASSIGN(const auto turn, job.pool.writers.Wait(job.what, call));
    return RunCounted(job.pool, {action}, job.parts.node.world, call);
  }
  return Execute({action}, job.parts.node.world, call).Context("volume " + job.id);
}

// `guard` is the volume's lock. If `call` ends before a long step does, the step keeps the lock until it
// ends.
Status RunNodePlan(const Job& job, Plan plan, KeyLocks::Guard& guard, const Call& call) {
  TellPeople(job.parts, plan, job.id);
  for (auto next = plan.begin(); next != plan.end();) {
    if (!MayTakeLong(*next)) {
      QUARRY_TRY(RunStep(job, *next++, call));
      continue;
    }
    Plan part = {*next++};
    // The commit that records the step is part of the same background work. So it is made even if the caller
    // has left, and a repeated call does not run the step again.
    while (next != plan.end() && Is<lvm::ChangeTags>(*next)) {
      part.push_back(*next++);
    }
    const auto work = [job, part](const Call& own) -> Status {
      for (const Action& action : part) {
        QUARRY_TRY(RunStep(job, action, own));
      }
      return Ok();
    };
    const auto title = [title = fmt::format("volume {}: {}", job.id, Text(part.front()))] { return title; };
    QUARRY_TRY(job.parts.background.Run(job.id, title, kLongest, work, guard, call));
  }
  return Ok();
}

Result<mount::Content> LookAt(Parts& parts, const Found& found, const Stack& stack) {
  QUARRY_ASSIGN(const UniqueFd fd, parts.node.world.dm.Open(stack.top().uuid, O_RDONLY));
  const lvm::VolumeTags& tags = found.record.tags;
  const std::string what = fmt::format("volume {}", tags.id);
  QUARRY_ASSIGN(mount::Content content,
                parts.node.world.mount.Probe(fd.get()).Context(fmt::format("reading what is on {}", what)));
  // A volume with access "any" may have been used raw before. It began with zeroes when it was made or
  // adopted, so other bytes are raw data. With erase=none a new volume is not zeroed, so they prove nothing.
  if (content.kind == mount::Content::Kind::kBlank && found.record.access == Access::kAny &&
      tags.formatted.empty() && PolicyOf(found.record) != ErasePolicy::kNone) {
    QUARRY_ASSIGN(const bool zeros, BeginsWithZeros(fd.get(), what));
    if (!zeros) {
      content = {mount::Content::Kind::kOther, "raw data", ""};
    }
  }
  return content;
}

// Reads the gid of the mounted file system's root, if the request has a volume_mount_group.
Status LookAtGroup(const Parts& parts, const Capability& capability, NodeView& view) {
  const mount::MountEntry* mounted = WholeMount(view);
  if (!capability.mount_group.has_value() || mounted == nullptr) {
    return Ok();
  }
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(mounted->target));
  QUARRY_ASSIGN(view.group, parts.node.world.mount.GroupOf(path));
  return Ok();
}

// The same request, with paths as the mount table writes them.
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

// Fills in `raw_target`.
Status LookForRawTarget(Parts& parts, NodeView& view) {
  QUARRY_ASSIGN(const auto published, parts.node.Published(view.mounts, view.stack));
  view.raw_target = published.empty() ? "" : published.front()->target;
  return Ok();
}

Status StageMounted(Parts& parts, const Found& found, const Stack& stack, const StageRequest& asked,
                    KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const StageRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  NodeView view{found.record, stack, mounts, std::nullopt, parts.node.config.fsck == Fsck::kPreen};
  std::shared_ptr<const UniqueFd> held;
  mount::Content content;
  if (OurMountAt(view, request.staging_path) == nullptr) {
    QUARRY_ASSIGN(held, HoldDevice(parts, stack));
    QUARRY_ASSIGN(content, LookAt(parts, found, stack));
    QUARRY_TRY(LookForRawTarget(parts, view));
  }
  QUARRY_ASSIGN(const Plan plan, PlanStage(view, request, content));
  return RunNodePlan({parts, *found.pool, request.id, fmt::format("NodeStageVolume of {}", request.id), held},
                     plan, guard, call);
}

Status PublishRaw(Parts& parts, const Found& found, const Stack& stack, const PublishRequest& asked,
                  const Call& call) {
  QUARRY_ASSIGN(const PublishRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, stack));
  QUARRY_ASSIGN(const Plan plan, PlanPublishBlock({found.record, stack, mounts}, request, published,
                                                  parts.node.config.several_targets));
  // The device is opened and kept open first, so that it does not go away under the bind mount.
  QUARRY_ASSIGN(UniqueFd fd, OpenDevice(parts, stack));
  parts.node.holds.Keep(found.record.tags.id, std::move(fd));
  auto done = Execute(plan, parts.node.world, call);
  if (!done.has_value() && published.empty()) {
    parts.node.holds.Drop(found.record.tags.id);
  }
  return done;
}

// Whether a path does not exist or cannot be followed. False if the path could not be inspected.
bool LeadsNowhere(const Error& why) {
  return why.code() == Code::kNotFound || why.code() == Code::kPrecondition;
}

// For a path that leads nowhere (`why`): OK if the volume is neither mounted nor published anywhere.
// Otherwise the mount may have been made through this path: kPrecondition naming the mount.
Status CheckInUseNowhere(Parts& parts, const std::optional<Stack>& stack, Error why) {
  if (!LeadsNowhere(why)) {
    return why;
  }
  if (!stack.has_value()) {
    return Ok();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_ASSIGN(std::vector<const mount::MountEntry*> uses, parts.node.Published(mounts, *stack));
  const auto mounted = mounts.Of(stack->number());
  uses.insert(uses.end(), mounted.begin(), mounted.end());
  if (uses.empty()) {
    return Ok();
  }
  return Error(Code::kPrecondition,
               fmt::format("{}, while the volume is mounted at {}: restore the path, or unmount the volume "
                           "from that mount point",
                           why.message(), uses.front()->target));
}

// Whether the mount at `path` belongs to this stack: its file system, or a bind of its top device's node.
Result<bool> IsAt(Parts& parts, const mount::MountTable& mounts, const Stack& stack,
                  const AbsolutePath& path) {
  const mount::MountEntry* entry = mounts.At(path);
  if (entry == nullptr) {
    return false;
  }
  if (entry->backing == stack.number()) {
    return true;
  }
  QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, stack));
  return std::find(published.begin(), published.end(), entry) != published.end();
}

// Unmounts this volume at `path`, even if it was mounted there several times. Returns whether the path is
// free of mounts now.
Result<bool> UnmountOurs(Parts& parts, const Stack& stack, const AbsolutePath& path, const Call& call) {
  for (int i = 0; i < kMaxStacked; ++i) {
    QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
    if (mounts.At(path) == nullptr) {
      return true;
    }
    QUARRY_ASSIGN(const bool ours, IsAt(parts, mounts, stack, path));
    if (!ours) {
      return false;  // another mount, which is not to be touched: the volume is not here
    }
    QUARRY_TRY(Execute({UnmountAction{path}}, parts.node.world, call));
  }
  return Error(Code::kPrecondition, fmt::format("{} has too many mounts stacked on it", path.str()));
}

Error NotThere(const std::string& id, const std::string& path) {
  return Error(Code::kNotFound, fmt::format("volume_path: volume {} is not at '{}'", id, path));
}

// A volume that is in use at `path`.
struct Place {
  Found found;
  Stack stack;
  AbsolutePath path;
  bool raw;  // used as a device, not as a mounted file system
};
// kNotFound: the volume is not at `volume_path`.
Result<Place> Locate(Parts& parts, const std::string& id, const std::string& volume_path, const Call& call) {
  QUARRY_ASSIGN(auto found, parts.node.GetPublished(id, call));
  QUARRY_ASSIGN(auto stack, parts.node.StackOn(found.record.DmUuid()));
  const auto asked = AbsolutePath::Parse(volume_path);
  if (!stack.has_value() || !asked.has_value()) {
    return NotThere(id, volume_path);
  }
  auto path = parts.node.world.mount.Resolve(*asked);
  if (!path.has_value()) {
    return LeadsNowhere(path.error())
               ? std::move(path.error()).As(Code::kNotFound).Context(NotThere(id, volume_path).message())
               : std::move(path.error());
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  QUARRY_ASSIGN(const bool there, IsAt(parts, mounts, *stack, *path));
  if (!there) {
    return NotThere(id, volume_path);
  }
  const bool raw = mounts.At(*path)->backing != stack->number();
  return Place{std::move(found), std::move(*stack), std::move(*path), raw};
}

Result<Bytes> SizeOfTop(const Parts& parts, const Stack& stack) {
  QUARRY_ASSIGN(const UniqueFd fd, parts.node.world.dm.Open(stack.top().uuid, O_RDONLY));
  return parts.node.world.mount.DeviceSize(fd.get());
}

// The size of the volume's device, which is no more than LVM's text says. A growth that was killed before its
// commit may have left it larger, and what lies beyond may be another volume's.
Result<Bytes> SizeInText(Parts& parts, const NodeExpandRequest& request, const Call& call) {
  const auto look = [&]() -> Result<std::pair<Place, Bytes>> {
    QUARRY_ASSIGN(Place place, Locate(parts, request.id, request.volume_path, call));
    QUARRY_ASSIGN(const Bytes size, SizeOfTop(parts, place.stack));
    return std::pair(std::move(place), size);
  };
  QUARRY_ASSIGN(auto now, look());
  const auto is_larger = [&] { return now.second > now.first.found.record.lv->size; };
  if (is_larger()) {
    const auto& [pool, record] = now.first.found;
    const World& world = parts.node.world;
    QUARRY_ASSIGN(const auto turn,
                  pool->writers.Wait(fmt::format("NodeExpandVolume of {}", request.id), call));
    QUARRY_TRY(RunReloading(*pool, world, parts.node.log, *record.group, *record.lv,
                            {lvm::RefreshLvs{record.group->name, {record.lv->name}}}, call));
    QUARRY_ASSIGN(now, look());
  }
  if (is_larger()) {
    return Error(
        Code::kUnavailable,
        fmt::format("volume {} has {} bytes in the kernel, but LVM gives it {}: what lies beyond may "
                    "be another volume's, so nothing grows: try again",
                    request.id, now.second.value, now.first.found.record.lv->size.value));
  }
  return now.second;
}

// Whether the volume is in use beyond the caller's own staging.
Result<bool> IsPublished(Parts& parts, const Place& place, const NodeExpandRequest& request) {
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  if (place.raw) {
    QUARRY_ASSIGN(const auto published, parts.node.Published(mounts, place.stack));
    return !published.empty();
  }
  const size_t places = mounts.Of(place.stack.number()).size();
  return places > 1 || request.volume_path != request.staging_path;
}

// Errors of a growth that need not keep a pod from starting. If the volume is staged and not published, they
// become kPrecondition: kubelet then starts the pod with the present size and calls again later.
bool IsForLater(Code code) {
  return code == Code::kNoSpace || code == Code::kOutOfRange || code == Code::kUnavailable ||
         code == Code::kTimeout;
}

// Grows the logical volume to the required size. The caller holds the volume's lock.
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

// For an inline volume whose search failed with `why`. Returns the stack mounted at `path` if Quarry made its
// volume, and either its pool cannot be read, or the volume has this handle and unreadable tags. nullopt:
// nothing is mounted there, or a volume that Quarry did not make, or a readable volume with another handle.
// Otherwise the pool can be read by now: returns `why`, so that the caller tries again.
Result<std::optional<Stack>> LostStackAt(Parts& parts, const std::string& handle, const AbsolutePath& path,
                                         const Error& why, const Call& call) {
  const auto resolved = parts.node.world.mount.Resolve(path);
  if (!resolved.has_value()) {
    return std::optional<Stack>();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  const mount::MountEntry* const entry = mounts.At(*resolved);
  if (entry == nullptr) {
    return std::optional<Stack>();
  }
  QUARRY_ASSIGN(const std::vector<dm::Device> devices,
                parts.node.world.dm.List(std::string(lvm::kDmUuidPrefix)));
  for (const dm::Device& device : devices) {
    for (const auto& pool : parts.node.pools) {
      const std::string prefix = lvm::DmName(pool->config.group, "");
      if (!device.name.starts_with(prefix) || !lvm::IsOurLvName(device.name.substr(prefix.size()))) {
        continue;
      }
      QUARRY_ASSIGN(auto stack, parts.node.StackOn(device.uuid));
      if (!stack.has_value() || stack->number() != entry->backing) {
        continue;
      }
      const auto catalog = parts.node.Look(*pool, kOthersPatience, call);
      if (!catalog.has_value()) {
        return stack;
      }
      const bool unreadable = std::ranges::any_of((*catalog)->unreadable, [&](const Unreadable& one) {
        return lvm::DmUuid((*catalog)->group->uuid, one.lv->uuid) == device.uuid &&
               lvm::BearsName(one.lv->tags, handle);
      });
      if (unreadable) {
        return stack;
      }
      const bool of_another = std::ranges::any_of((*catalog)->records, [&](const Record& record) {
        return record.DmUuid() == device.uuid && record.tags.co_name != handle;
      });
      return of_another ? Result<std::optional<Stack>>(std::nullopt) : why;
    }
  }
  return std::optional<Stack>();
}

// Deletes an inline volume after it was unmounted at its target. An administrator's snapshot, or an operation
// that moves the volume, may last long, and a pod cannot end until unpublishing succeeds. So this call
// succeeds, and the volume is deleted later.
Status EndUnlessOthersHaveIt(Parts& parts, const Found& found, const Call& call) {
  auto ended = EndEphemeral(parts, found, call);
  if (ended.has_value()) {
    return Ok();
  }
  const Status alone = CheckAlone(found.record);
  const std::string& handle = found.record.tags.co_name;
  if (alone.has_value() || alone.error().code() != ended.error().code()) {
    return std::move(ended.error());
  }
  if (!parts.left_behind.Has(handle)) {
    parts.node.log.Warning(
        "an inline volume is unmounted, but something else uses it: it is deleted when that use ends",
        {{"volume", handle}, {"detail", alone.error().message()}});
  }
  parts.left_behind.Add(handle);
  parts.node.Wake();
  return Ok();
}

// The stack of the volume with this name whose tags this build cannot read. The volume stays, but it must
// not stay mounted for a pod that ends.
Result<std::optional<Stack>> UnreadableStack(Parts& parts, const std::string& handle, const Call& call) {
  for (const auto& pool : parts.node.pools) {
    const auto catalog = parts.node.Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      continue;
    }
    for (const Unreadable& one : (*catalog)->unreadable) {
      if (lvm::BearsName(one.lv->tags, handle)) {
        return parts.node.StackOn(lvm::DmUuid((*catalog)->group->uuid, one.lv->uuid));
      }
    }
  }
  return std::optional<Stack>();
}

// Unpublishes the inline volume of a pod. Only the metadata of the volume's group has its handle, so the
// volume may be in any pool that cannot be read. The pod must end nevertheless. A mount at the target is
// removed if it belongs to a volume of such a pool. The handle is remembered, and the volume is deleted when
// the pool returns.
Status UnpublishInline(Parts& parts, const std::string& handle, const AbsolutePath& target_path,
                       TargetOwner target_owner, const Call& call) {
  const auto found = parts.node.FindEphemeral(handle, nullptr, call);
  if (!found.has_value()) {
    QUARRY_TRY(call.Check("looking for an inline volume"));
    QUARRY_ASSIGN(const auto stack, LostStackAt(parts, handle, target_path, found.error(), call));
    QUARRY_TRY(TakeFromTarget(parts, stack, handle, target_path, target_owner, call));
    parts.left_behind.Add(handle);
    parts.node.log.Warning(
        "an inline volume may be in a pool that cannot be read: it is deleted when the pool returns",
        {{"volume", handle}, {"detail", found.error().message()}});
    return Ok();
  }
  std::optional<Stack> stack;
  if (found->has_value()) {
    QUARRY_ASSIGN(stack, parts.node.StackOn((*found)->record.DmUuid()));
  } else {
    QUARRY_ASSIGN(stack, UnreadableStack(parts, handle, call));
  }
  QUARRY_TRY(TakeFromTarget(parts, stack, handle, target_path, target_owner, call));
  if (!found->has_value() && stack.has_value()) {
    parts.node.log.Warning("an inline volume is unmounted but not deleted: this build cannot read its tags",
                           {{"volume", handle}, {"device", stack->lv.name}});
  }
  return found->has_value() ? EndUnlessOthersHaveIt(parts, **found, call) : Ok();
}

}  // namespace

Status TakeFromTarget(Parts& parts, const std::optional<Stack>& stack, const std::string& id,
                      const AbsolutePath& asked, TargetOwner target_owner, const Call& call) {
  const auto target_path = parts.node.world.mount.Resolve(asked);
  if (target_path.has_value()) {
    QUARRY_ASSIGN(const mount::MountTable before, parts.node.world.mount.Mounts());
    bool free = before.At(*target_path) == nullptr;
    if (stack.has_value()) {
      QUARRY_ASSIGN(free, UnmountOurs(parts, *stack, *target_path, call));
    }
    if (!free) {
      return Ok();  // another mount: this volume is not published there
    }
    if (target_owner == TargetOwner::kPlugin) {
      QUARRY_TRY(Execute({RemoveTargetAction{*target_path}}, parts.node.world, call));
    }
  } else if (target_path.error().code() != Code::kNotFound) {  // without a folder there is no mount
    QUARRY_TRY(CheckInUseNowhere(parts, stack, target_path.error()).Context("target_path"));
  }
  return stack.has_value() ? parts.node.DropIdleHold(id, *stack) : Ok();
}

Status PublishMounted(Parts& parts, const Found& found, const Stack& stack, const PublishRequest& asked,
                      KeyLocks::Guard& guard, const Call& call) {
  QUARRY_ASSIGN(const PublishRequest request, Resolved(parts, asked));
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  NodeView view{found.record, stack, mounts, std::nullopt, parts.node.config.fsck == Fsck::kPreen};
  const bool staged = request.staging_path.has_value();
  std::shared_ptr<const UniqueFd> held;  // a bind mount names no device
  mount::Content content;
  if (!staged && WholeMount(view) == nullptr) {
    QUARRY_ASSIGN(held, HoldDevice(parts, stack));
    QUARRY_ASSIGN(content, LookAt(parts, found, stack));
    QUARRY_TRY(LookForRawTarget(parts, view));
  }
  QUARRY_TRY(LookAtGroup(parts, request.capability, view));
  const bool several_targets = parts.node.config.several_targets;
  QUARRY_ASSIGN(const Plan plan, staged ? PlanPublishMount(view, request, several_targets)
                                        : PlanPublishUnstaged(view, request, content, several_targets));
  return RunNodePlan(
      {parts, *found.pool, request.id, fmt::format("NodePublishVolume of {}", request.id), held}, plan, guard,
      call);
}

Status Volumes::Stage(const StageRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(parts_.background.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, LockVolume(parts_, request.id, "NodeStageVolume", call));
  QUARRY_TRY(parts_.node.copied.CheckUse(request.id, call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetVolume(request.id, call, realm_));
  QUARRY_TRY(CheckAccess(found.record, request.capability));
  QUARRY_ASSIGN(const Stack stack, parts_.node.EnsureActive(found, call));
  if (request.capability.access == AccessType::kBlock) {
    return Ok();  // before it is published, a raw volume needs only an active device
  }
  return StageMounted(parts_, found, stack, request, guard, call);
}

Status Volumes::Unstage(const std::string& id, const AbsolutePath& staging_path, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "NodeUnstageVolume", call));
  QUARRY_TRY(parts_.node.CheckNoBucket(id));
  QUARRY_ASSIGN(const auto stack, parts_.node.FindStack(id, call));
  if (!stack.has_value()) {
    return Ok();  // a missing or inactive volume is staged nowhere
  }
  const auto path = parts_.node.world.mount.Resolve(staging_path);
  if (!path.has_value()) {
    return CheckInUseNowhere(parts_, stack, path.error()).Context("staging_target_path");
  }
  auto unmounted = UnmountOurs(parts_, *stack, *path, call);
  return unmounted.has_value() ? Ok() : Status(std::move(unmounted.error()));
}

Status Volumes::Publish(const PublishRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(parts_.background.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, LockVolume(parts_, request.id, "NodePublishVolume", call));
  QUARRY_TRY(parts_.node.copied.CheckUse(request.id, call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetVolume(request.id, call, realm_));
  QUARRY_TRY(CheckAccess(found.record, request.capability));
  QUARRY_ASSIGN(auto stack, parts_.node.StackOn(found.record.DmUuid()));
  if (!stack.has_value() && request.staging_path.has_value()) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} is not active: NodeStageVolume comes first", request.id));
  }
  if (!stack.has_value()) {
    QUARRY_ASSIGN(stack, parts_.node.EnsureActive(found, call));
  }
  if (request.capability.access == AccessType::kBlock) {
    return PublishRaw(parts_, found, *stack, request, call);
  }
  return PublishMounted(parts_, found, *stack, request, guard, call);
}

Status Volumes::Unpublish(const std::string& id, const AbsolutePath& target_path, const Call& call,
                          TargetOwner target_owner) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "NodeUnpublishVolume", call));
  if (!lvm::ParseVolumeId(id).has_value()) {
    return UnpublishInline(parts_, id, target_path, target_owner, call);
  }
  QUARRY_TRY(parts_.node.CheckNoBucket(id));
  QUARRY_ASSIGN(const auto stack, parts_.node.FindStack(id, call));
  return TakeFromTarget(parts_, stack, id, target_path, target_owner, call);
}

Result<VolumeStats> Volumes::Stats(const std::string& id, const std::string& volume_path, const Call& call,
                                   Show show) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const Place place, Locate(parts_, id, volume_path, call));
  QUARRY_TRY(CheckRealm(place.found.record, realm_));
  VolumeStats stats;
  if (place.raw) {
    QUARRY_ASSIGN(stats.total, SizeOfTop(parts_, place.stack));
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
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, request.id, "NodeExpandVolume", call));
  QUARRY_ASSIGN(const Place place, Locate(parts_, request.id, request.volume_path, call));
  QUARRY_TRY(CheckRealm(place.found.record, realm_));
  if (place.found.record.tags.ephemeral) {
    return Error(Code::kUnsupported, "volume_id: an inline volume cannot be grown");
  }
  if (parts_.node.config.expand == ExpandBy::kNode) {
    QUARRY_TRY(GrowOnNode(parts_, place, request, call));
  }
  QUARRY_ASSIGN(const Bytes size, SizeInText(parts_, request, call));
  if (size < request.range.required) {
    return Error(Code::kOutOfRange,
                 fmt::format("capacity_range.required_bytes: volume {} has {} bytes, {} were requested; "
                             "ControllerExpandVolume comes first",
                             request.id, size.value, request.range.required.value));
  }
  if (!place.raw) {
    QUARRY_TRY(
        Execute({GrowFilesystemAction{place.found.record.tags.fs_type, place.stack.top().Node(), place.path}},
                parts_.node.world, call));
  }
  return size;
}

}  // namespace quarry::engine
