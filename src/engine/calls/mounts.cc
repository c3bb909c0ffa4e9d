#include "engine/mounts.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/calls/steps.h"

namespace quarry::engine {
namespace {

// Of one volume during a start. A file system check may take long; the next attempt waits for it.
constexpr std::chrono::minutes kStartLimit{2};
// How long the start of another pool is waited for.
constexpr std::chrono::seconds kOthersStart{30};

std::vector<std::string> Words(std::string_view options) {
  std::vector<std::string> out;
  while (!options.empty()) {
    const size_t comma = std::min(options.find(','), options.size());
    out.emplace_back(options.substr(0, comma));
    options.remove_prefix(std::min(comma + 1, options.size()));
  }
  return out;
}

// The paths where the kernel shows the volume's file system. Empty: nowhere, or the volume is not active.
Result<std::vector<std::string>> MountedAt(Parts& parts, const std::optional<Stack>& stack) {
  std::vector<std::string> out;
  if (stack.has_value()) {
    QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
    for (const mount::MountEntry* entry : mounts.Of(stack->number())) {
      out.push_back(entry->target);
    }
  }
  return out;
}

bool IsMountPoint(const mount::MountTable& mounts, const std::string& path) {
  const auto parsed = AbsolutePath::Parse(path);
  return parsed.has_value() && mounts.At(*parsed) != nullptr;
}

bool IsBelow(const std::string& path, const std::string& above) {
  return path.starts_with(above + "/");
}

// Whether a mount of `id` at the new path `path` gets along with the one that is kept for `other`.
Status CheckBeside(const lvm::VolumeTags& other, const mount::MountTable& mounts, const std::string& id,
                   const std::string& path, bool is_kept) {
  if (other.state != lvm::VolumeState::kReady || other.mount_point.empty() || other.id == id) {
    return Ok();
  }
  // Two volumes that are kept for one path come from two servers, or one of them was away. The first one is
  // mounted, and the mount table refuses the second.
  if (other.mount_point == path && !is_kept) {
    return Error(Code::kAlreadyExists,
                 fmt::format("'{}' is the mount point of volume {} (\"{}\"): unmount that one first", path,
                             other.id, other.co_name));
  }
  if (IsBelow(path, other.mount_point) && !IsMountPoint(mounts, other.mount_point)) {
    return Error(Code::kUnavailable,
                 fmt::format("volume {} (\"{}\") is not mounted at '{}' yet, which is above '{}'", other.id,
                             other.co_name, other.mount_point, path));
  }
  return Ok();
}

// Whether the path can be mounted on, as far as other volumes that can be read and other mounts go.
// `is_kept`: the volume `id` is kept for it already. kAlreadyExists: another volume is kept for it.
// kUnavailable: one is kept for a directory above it and is not mounted there, so it would hide this mount
// later. kPrecondition: something is mounted below it, which this mount would hide.
Status CheckPathIsFree(Parts& parts, const std::string& id, const std::string& path, bool is_kept,
                       const Call& call) {
  QUARRY_ASSIGN(const mount::MountTable mounts, parts.node.world.mount.Mounts());
  for (const mount::MountEntry& entry : mounts.entries()) {
    if (IsBelow(entry.target, path)) {
      return Error(Code::kPrecondition,
                   fmt::format("'{}' is mounted below '{}', and would be hidden: unmount "
                               "it first",
                               entry.target, path));
    }
  }
  const auto catalogs = parts.node.LookAtAll(kOthersPatience, call);
  for (size_t i = 0; i < catalogs.size(); ++i) {
    if (!catalogs[i].has_value()) {
      const auto trouble = parts.node.TroubleOf(*parts.node.pools[i], Status(catalogs[i].error()));
      if (trouble.has_value() && trouble->starting) {
        return Error(Code::kUnavailable, fmt::format("a volume of another pool may be mounted above '{}': {}",
                                                     path, trouble->error.message()));
      }
      continue;
    }
    for (const Record& record : (*catalogs[i])->records) {
      QUARRY_TRY(CheckBeside(record.tags, mounts, id, path, is_kept));
    }
  }
  return Ok();
}

// Where and how to mount.
struct Wish {
  AbsolutePath path;  // without symbolic links
  std::vector<std::string> flags;
};

Status CheckRequest(const MountRequest& request) {
  if (request.path->str() == "/") {
    return Error(Code::kInvalidArgument, "target_path: a volume cannot be mounted over the root directory");
  }
  if (std::ranges::any_of(request.path->str(),
                          [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; })) {
    return Error(Code::kInvalidArgument, "target_path: must not have control characters");
  }
  for (const std::string& flag : request.flags) {
    if (flag.find(',') != std::string::npos) {
      return Error(Code::kInvalidArgument, fmt::format("options: '{}' is more than one option", flag));
    }
  }
  return Ok();
}

Result<Wish> WishOf(Parts& parts, const MountRequest& request, const lvm::VolumeTags& tags) {
  std::optional<AbsolutePath> path = request.path;
  if (path.has_value()) {
    QUARRY_TRY(CheckRequest(request));
  } else if (tags.mount_point.empty()) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} (\"{}\") has no mount point yet: name one", tags.id, tags.co_name));
  } else {
    QUARRY_ASSIGN(path, AbsolutePath::Parse(tags.mount_point).Context("the tag of the mount point"));
  }
  auto resolved = parts.node.world.mount.Resolve(*path);
  if (!resolved.has_value()) {
    // kNotFound would mean that the volume is gone.
    const bool absent = resolved.error().code() == Code::kNotFound;
    const Code code = absent ? Code::kPrecondition : resolved.error().code();
    return std::move(resolved.error()).As(code).Context(fmt::format("mount point '{}'", path->str()));
  }
  return Wish{std::move(*resolved), request.path.has_value() ? request.flags : Words(tags.mount_options)};
}

// Replaces the tags of the mount that is kept. Empty `mount_point`: none is kept any more.
Status Keep(Parts& parts, const Found& found, const std::string& mount_point, const std::string& options,
            const Call& call) {
  const lvm::VolumeTags& tags = found.record.tags;
  std::vector<std::string> old = lvm::MountTags(tags.mount_point, tags.mount_options);
  std::vector<std::string> fresh = lvm::MountTags(mount_point, options);
  const auto in = [](const std::vector<std::string>& list) {
    return [&list](const std::string& tag) { return std::ranges::find(list, tag) != list.end(); };
  };
  const std::vector<std::string> both = fresh;
  std::erase_if(fresh, in(old));
  std::erase_if(old, in(both));
  QUARRY_ASSIGN(const auto turn, found.pool->writers.Wait(fmt::format("mounting {}", tags.id), call));
  return RunCounted(*found.pool,
                    {lvm::ChangeTags{found.record.group->name, found.record.lv->name, fresh, old}},
                    parts.node.world, call);
}

Capability AsFilesystem(const Record& record, std::vector<std::string> flags) {
  Capability capability;
  capability.fs_type = record.tags.fs_type;
  capability.mount_flags = std::move(flags);
  return capability;
}

bool IsIn(const std::vector<std::string>& paths, const std::string& path) {
  return std::ranges::find(paths, path) != paths.end();
}

// Whether a mount at `path` may be added to the places in `before`, where the volume is mounted.
Status CheckOtherPlaces(const lvm::VolumeTags& tags, const std::vector<std::string>& before,
                        const std::string& path, const std::string& options) {
  const auto named = [&] { return fmt::format("volume {} (\"{}\")", tags.id, tags.co_name); };
  if (IsIn(before, path)) {
    return tags.mount_point == path && tags.mount_options != options
               ? Error(
                     Code::kAlreadyExists,
                     fmt::format("{} is mounted at '{}' with other options: unmount it first", named(), path))
               : Ok();
  }
  if (before.empty()) {
    return Ok();
  }
  const bool kept = IsIn(before, tags.mount_point);
  return Error(
      Code::kPrecondition,
      fmt::format("{} is mounted at '{}'{}", named(), kept ? tags.mount_point : before.front(),
                  kept ? ": unmount it first" : ", but not by this command: an orchestrator uses it"));
}

}  // namespace

Result<MountResult> Mounts::Mount(const MountRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(parts_.background.Join(request.id, call));
  QUARRY_ASSIGN(auto guard, LockVolume(parts_, request.id, "mounting", call));
  QUARRY_TRY(parts_.node.copied.CheckUse(request.id, call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetVolume(request.id, call, realm_));
  const lvm::VolumeTags& tags = found.record.tags;
  QUARRY_ASSIGN(const Wish wish, WishOf(parts_, request, tags));
  const std::string& path = wish.path.str();
  if (found.record.access == Access::kBlock) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} (\"{}\") is raw: it has no file system", tags.id, tags.co_name));
  }
  const Capability capability = AsFilesystem(found.record, wish.flags);
  QUARRY_TRY(CheckAccess(found.record, capability));
  const std::string options = fmt::format("{}", fmt::join(wish.flags, ","));
  QUARRY_ASSIGN(const auto present, parts_.node.StackOn(found.record.DmUuid()));
  QUARRY_ASSIGN(const auto before, MountedAt(parts_, present));
  QUARRY_TRY(CheckOtherPlaces(tags, before, path, options));
  const bool is_kept = !request.path.has_value() || tags.mount_point == path;
  if (!IsIn(before, path)) {
    QUARRY_TRY(CheckPathIsFree(parts_, tags.id, path, is_kept, call));
  }
  QUARRY_ASSIGN(const Stack stack, parts_.node.EnsureActive(found, call));
  QUARRY_TRY(PublishMounted(parts_, found, stack,
                            {.id = tags.id,
                             .staging_path = std::nullopt,
                             .target_path = wish.path,
                             .capability = capability,
                             .target_owner = TargetOwner::kCaller},
                            guard, call));
  const bool kept = tags.mount_point == path && tags.mount_options == options;
  if (!kept) {
    // After the mount: a call that was killed in between has promised nothing, and is repeated.
    QUARRY_TRY(
        Keep(parts_, found, path, options, call)
            .Context(fmt::format("volume {} is mounted at '{}', but a restart would not mount it again",
                                 tags.id, path)));
  }
  return MountResult{path, !kept || !IsIn(before, path), makedev(stack.number().major, stack.number().minor)};
}

Result<UnmountResult> Mounts::Unmount(const std::string& id, const std::optional<AbsolutePath>& path,
                                      const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "unmounting", call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetVolume(id, call, realm_));
  const lvm::VolumeTags& tags = found.record.tags;
  if (path.has_value() && !tags.mount_point.empty() && tags.mount_point != path->str()) {
    return Error(Code::kPrecondition, fmt::format("volume {} (\"{}\") has the mount point '{}', not '{}'",
                                                  tags.id, tags.co_name, tags.mount_point, path->str()));
  }
  QUARRY_ASSIGN(const auto stack, parts_.node.StackOn(found.record.DmUuid()));
  QUARRY_ASSIGN(const auto before, MountedAt(parts_, stack));
  std::optional<AbsolutePath> at = path;
  if (!tags.mount_point.empty()) {
    QUARRY_ASSIGN(at, AbsolutePath::Parse(tags.mount_point).Context("the tag of the mount point"));
  }
  if (!at.has_value()) {
    if (before.empty()) {
      return UnmountResult{};
    }
    return Error(
        Code::kPrecondition,
        fmt::format("volume {} (\"{}\") is mounted at '{}', but not by this command: an orchestrator "
                    "uses it, or name that path too",
                    tags.id, tags.co_name, before.front()));
  }
  QUARRY_TRY(TakeFromTarget(parts_, stack, id, *at, TargetOwner::kCaller, call));
  QUARRY_ASSIGN(const auto after, MountedAt(parts_, stack));
  if (IsIn(after, at->str())) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} (\"{}\") is still mounted at '{}', because something "
                             "else is mounted over it: unmount that first",
                             tags.id, tags.co_name, at->str()));
  }
  if (!tags.mount_point.empty()) {
    QUARRY_TRY(Keep(parts_, found, "", "", call)
                   .Context(fmt::format("volume {} is unmounted, but a restart would mount it again", id)));
  }
  return UnmountResult{at->str(), !tags.mount_point.empty() || IsIn(before, at->str())};
}

Status Mounts::MountKept(const std::string& pool_name, KeptMounts& past, const Call& call) {
  struct Wanted {
    bool failed;
    std::string path, id;
    auto operator<=>(const Wanted&) const = default;
  };
  std::vector<Wanted> wanted;
  {
    QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
    // A volume of another pool may be kept for a directory above.
    for (const auto& each : parts_.node.pools) {
      (void)each->gate.Wait(call.Within(kOthersStart));
    }
    QUARRY_ASSIGN(Pool* const pool, parts_.node.FindPool(pool_name));
    QUARRY_ASSIGN(const auto catalog, parts_.node.Read(*pool, call));
    for (const Record& record : catalog->records) {
      const lvm::VolumeTags& tags = record.tags;
      if (tags.state != lvm::VolumeState::kReady || tags.snapshot || past.done.contains(tags.id) ||
          !CheckRealm(record, realm_).has_value()) {
        continue;
      }
      QUARRY_ASSIGN(const auto stack, parts_.node.StackOn(record.DmUuid()));
      QUARRY_ASSIGN(const auto places, MountedAt(parts_, stack));
      // Whoever has mounted it elsewhere, or mounts it from now on, does so himself.
      if (tags.mount_point.empty() || (!places.empty() && !IsIn(places, tags.mount_point))) {
        past.done.insert(tags.id);
      } else {
        wanted.push_back({past.failed.contains(tags.id), tags.mount_point, tags.id});
      }
    }
  }
  std::ranges::sort(wanted);
  std::string failures;
  Code code = Code::kInternal;
  for (const Wanted& one : wanted) {
    const auto mounted = Mount({.id = one.id}, call.Within(kStartLimit));
    if (mounted.has_value()) {
      past.done.insert(one.id);
      past.failed.erase(one.id);
      continue;
    }
    QUARRY_TRY(call.Check("mounting volumes"));
    past.failed.insert(one.id);
    code = failures.empty() ? mounted.error().code() : code;
    failures += fmt::format("{}volume {} at '{}': {}", failures.empty() ? "" : "; ", one.id, one.path,
                            mounted.error().message());
  }
  return failures.empty() ? Ok() : Status(Error(code, failures));
}

}  // namespace quarry::engine
