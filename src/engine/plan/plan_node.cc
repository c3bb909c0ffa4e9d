#include "engine/plan/plan_node.h"

#include <sys/mount.h>

#include <algorithm>

#include <fmt/format.h>

namespace quarry::engine {
namespace {

// Value of the "formatted" tag while mkfs runs. Content that is found on the device then is Quarry's own,
// unfinished, and was never mounted.
constexpr std::string_view kMakingPrefix = "making-";

// A tenant's volume gets neither devices nor set-uid programs unless its StorageClass asks for them ("dev",
// "suid").
Result<mount::MountOptions> WithDefaults(const std::vector<std::string>& flags) {
  QUARRY_ASSIGN(const mount::MountOptions given,
                mount::ParseMountOptions(flags).Context("volume_capability.mount.mount_flags"));
  return given.WithDefaults(MS_NOSUID | MS_NODEV);
}

bool Has(const std::vector<std::string>& options, std::string_view word) {
  return std::find(options.begin(), options.end(), word) != options.end();
}

// Whether a mount has the requested flags, as far as the kernel lists them.
bool SameFlags(const mount::MountEntry& entry, uint64_t flags) {
  return ((flags & MS_RDONLY) != 0) == entry.read_only() &&
         ((flags & MS_NOSUID) != 0) == Has(entry.options, "nosuid") &&
         ((flags & MS_NODEV) != 0) == Has(entry.options, "nodev") &&
         ((flags & MS_NOEXEC) != 0) == Has(entry.options, "noexec");
}

Error InTheWay(std::string_view field, const AbsolutePath& path, const mount::MountEntry& entry) {
  return Error(Code::kPrecondition,
               fmt::format("{}: {} is already mounted at {}; unmount it, or use another path", field,
                           entry.source, path.str()));
}

Error OtherOptions(const Record& record, std::string_view where, const AbsolutePath& path) {
  return Error(Code::kAlreadyExists, fmt::format("volume {} is already {} at {} with other options",
                                                 record.tags.id, where, path.str()));
}

bool IsForReaders(const Capability& capability) {
  return capability.mode == AccessMode::kSingleNodeReaderOnly;
}

bool ReadOnly(const PublishRequest& request) {
  return request.read_only || IsForReaders(request.capability);
}

Status CheckOtherTargets(const Record& record, const PublishRequest& request,
                         const std::vector<std::string>& others, bool several_targets) {
  const bool exclusive = request.capability.mode == AccessMode::kSingleNodeSingleWriter;
  const bool shared = request.capability.mode == AccessMode::kSingleNodeMultiWriter || several_targets;
  if (others.empty() || (shared && !exclusive)) {
    return Ok();
  }
  return Error(Code::kPrecondition,
               fmt::format("volume {} is already published at {}, and its access mode allows only one "
                           "target",
                           record.tags.id, others.front()));
}

// Adds the action that gives the file system to the requested group, if there is one. The file system is
// mounted for writing at `mount_point`. `others`: its other targets.
Status AddGroup(Plan& plan, const NodeView& view, const Capability& capability,
                const AbsolutePath& mount_point, const std::vector<std::string>& others) {
  const std::optional<uint32_t>& wanted = capability.mount_group;
  if (!wanted.has_value() || (!others.empty() && view.group == wanted)) {
    return Ok();
  }
  if (!others.empty()) {
    return Error(
        Code::kPrecondition,
        fmt::format("volume_capability.mount.volume_mount_group: volume {} belongs to group {} while it is "
                    "published at {}; it cannot belong to group {} too",
                    view.record.tags.id, view.group.value_or(0), others.front(), *wanted));
  }
  plan.push_back(GiveToGroupAction{mount_point, *wanted});
  return Ok();
}

// The targets where the file system is mounted, except `path`.
std::vector<std::string> OtherMounts(const NodeView& view, const AbsolutePath& path) {
  std::vector<std::string> others;
  for (const mount::MountEntry* entry : view.mounts.Of(view.stack.number())) {
    if (entry->target != path.str()) {
      others.push_back(entry->target);
    }
  }
  return others;
}

// Actions that put the right file system on the device; empty if it is already there.
Result<Plan> PlanFormat(const NodeView& view, const mount::Content& content) {
  const Record& record = view.record;
  const std::string& wanted = record.tags.fs_type;
  const std::string making = fmt::format("{}{}", kMakingPrefix, wanted);
  const bool interrupted = record.tags.formatted == making;
  const bool formatted = !record.tags.formatted.empty() && !interrupted;
  const std::string& group = record.group->name;
  const std::string& lv = record.lv->name;

  if (formatted && content.kind == mount::Content::Kind::kFilesystem && content.type == wanted) {
    return Plan{};
  }
  if (formatted && content.kind == mount::Content::Kind::kBlank) {
    return Error(
        Code::kCorrupt,
        fmt::format(
            "volume {} was formatted with {} but reads blank now; it is not formatted again, because that "
            "would destroy data that may still be there. Inspect {} and restore the data, or delete the "
            "volume",
            record.tags.id, record.tags.formatted, view.stack.top().Node()));
  }
  if (!interrupted && content.kind != mount::Content::Kind::kBlank) {
    const std::string found =
        content.kind == mount::Content::Kind::kAmbiguous ? "several contradicting signatures" : content.type;
    return Error(Code::kPrecondition, fmt::format("volume {} should hold {} but holds {}; it is not changed",
                                                  record.tags.id, wanted, found));
  }
  QUARRY_ASSIGN(const Profile profile, record.profile);
  Plan plan;
  if (!interrupted) {
    plan.push_back(lvm::ChangeTags{group, lv, {lvm::FormattedTag(making)}, {}});
  }
  plan.push_back(MakeFilesystemAction{{.fs_type = wanted,
                                       .device = view.stack.top().Node(),
                                       .extra_options = profile.mkfs_options,
                                       .stripe_unit = profile.geometry.stripe_size(),
                                       .data_stripes = profile.geometry.data_legs(),
                                       .overwrite = interrupted}});
  plan.push_back(lvm::ChangeTags{group, lv, {lvm::FormattedTag(wanted)}, {lvm::FormattedTag(making)}});
  return plan;
}

// The volume may have grown while unmounted. If the file system already fills it, this reads the superblock
// and does nothing.
void AppendGrowth(const NodeView& view, const AbsolutePath& mounted_at, bool read_only, Plan& plan) {
  if (!read_only) {
    plan.push_back(GrowFilesystemAction{view.record.tags.fs_type, view.stack.top().Node(), mounted_at});
  }
}

// Actions before the device is mounted: PlanFormat, or else a check of the existing file system if it is
// mounted nowhere. A read-only device that is not published raw is made writable first. kPrecondition: the
// volume is published raw, unless the device is read-only and is only to be read.
Result<Plan> PlanBeforeMount(const NodeView& view, const mount::Content& content,
                             const mount::MountOptions& options) {
  QUARRY_ASSIGN(Plan plan, PlanFormat(view, content));
  const bool mounted = !view.mounts.Of(view.stack.number()).empty();
  if (plan.empty() && view.preen && !mounted && (options.flags & MS_RDONLY) == 0) {
    plan.push_back(CheckFilesystemAction{view.record.tags.fs_type, view.stack.top().Node()});
  }
  const bool reads = plan.empty() && (options.flags & MS_RDONLY) != 0;
  const bool read_only = view.stack.top().read_only;
  if (!view.raw_target.empty() && !(read_only && reads)) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} is published raw{} at {}: unpublish it there before it is mounted{}",
                             view.record.tags.id, read_only ? " and read-only" : "", view.raw_target,
                             read_only ? " for writing or formatted" : ""));
  }
  if (view.raw_target.empty() && read_only) {
    plan.insert(plan.begin(), SetReadOnlyAction{view.stack.top().uuid, false});
  }
  return plan;
}

}  // namespace

const mount::MountEntry* OurMountAt(const NodeView& view, const AbsolutePath& path) {
  const mount::MountEntry* entry = view.mounts.At(path);
  return entry != nullptr && entry->backing == view.stack.number() ? entry : nullptr;
}

const mount::MountEntry* WholeMount(const NodeView& view) {
  for (const mount::MountEntry* entry : view.mounts.Of(view.stack.number())) {
    const auto path = AbsolutePath::Parse(entry->target);
    if (entry->root == "/" && path.has_value() && view.mounts.At(*path) == entry) {
      return entry;
    }
  }
  return nullptr;
}

std::vector<const mount::MountEntry*> NodeBinds(const mount::MountTable& mounts, const dm::Device& device,
                                                mount::DeviceNumber dev) {
  const std::string node = fmt::format("/dm-{}", device.minor);
  std::vector<const mount::MountEntry*> found;
  for (const mount::MountEntry& entry : mounts.entries()) {
    if (entry.device == dev && entry.root == node) {
      found.push_back(&entry);
    }
  }
  return found;
}

Result<Plan> PlanStage(const NodeView& view, const StageRequest& request, const mount::Content& content) {
  QUARRY_ASSIGN(const mount::MountOptions options, WithDefaults(request.capability.mount_flags));
  const bool read_only = (options.flags & MS_RDONLY) != 0;
  Plan plan;
  if (const auto* entry = view.mounts.At(request.staging_path); entry != nullptr) {
    if (OurMountAt(view, request.staging_path) == nullptr) {
      return InTheWay("staging_target_path", request.staging_path, *entry);
    }
    if (!SameFlags(*entry, options.flags)) {
      return OtherOptions(view.record, "staged", request.staging_path);
    }
  } else {
    QUARRY_ASSIGN(plan, PlanBeforeMount(view, content, options));
    plan.push_back(MakeTargetAction{request.staging_path, true});
    plan.push_back(
        MountAction{view.stack.top().Node(), request.staging_path, view.record.tags.fs_type, options});
  }
  // Also if it is mounted already: an earlier call may have been cut short after the mount.
  AppendGrowth(view, request.staging_path, read_only, plan);
  if (!read_only && !IsForReaders(request.capability) && OtherMounts(view, request.staging_path).empty()) {
    QUARRY_TRY(AddGroup(plan, view, request.capability, request.staging_path, {}));
  }
  return plan;
}

Result<Plan> PlanPublishMount(const NodeView& view, const PublishRequest& request, bool several_targets) {
  const Record& record = view.record;
  QUARRY_ASSIGN(mount::MountOptions options, WithDefaults(request.capability.mount_flags));
  options.data.clear();  // staging has set the options of the file system
  options.flags |= ReadOnly(request) ? MS_RDONLY : 0;
  const AbsolutePath& staging = *request.staging_path;
  const mount::MountEntry* staged = OurMountAt(view, staging);
  if (staged == nullptr) {
    return Error(Code::kPrecondition, fmt::format("staging_target_path: volume {} is not staged at {}",
                                                  record.tags.id, staging.str()));
  }
  if (const auto* entry = view.mounts.At(request.target_path); entry != nullptr) {
    if (OurMountAt(view, request.target_path) == nullptr) {
      return InTheWay("target_path", request.target_path, *entry);
    }
    const uint64_t inherited = staged->read_only() ? MS_RDONLY : 0;
    if (!SameFlags(*entry, options.flags | inherited)) {
      return OtherOptions(record, "published", request.target_path);
    }
    return Plan{};
  }
  const std::vector<std::string> others = OtherMounts(view, staging);
  QUARRY_TRY(CheckOtherTargets(record, request, others, several_targets));
  Plan plan;
  if (!staged->read_only() && (options.flags & MS_RDONLY) == 0) {
    QUARRY_TRY(AddGroup(plan, view, request.capability, staging, others));
  }
  plan.push_back(MakeTargetAction{request.target_path, true});
  plan.push_back(BindAction{staging.str(), request.target_path, options});
  return plan;
}

Result<Plan> PlanPublishUnstaged(const NodeView& view, const PublishRequest& request,
                                 const mount::Content& content, bool several_targets) {
  const Record& record = view.record;
  QUARRY_ASSIGN(mount::MountOptions options, WithDefaults(request.capability.mount_flags));
  options.flags |= ReadOnly(request) ? MS_RDONLY : 0;
  const bool read_only = (options.flags & MS_RDONLY) != 0;
  const std::vector<std::string> others = OtherMounts(view, request.target_path);
  if (const auto* entry = view.mounts.At(request.target_path); entry != nullptr) {
    if (OurMountAt(view, request.target_path) == nullptr) {
      return InTheWay("target_path", request.target_path, *entry);
    }
    if (!SameFlags(*entry, options.flags)) {
      return OtherOptions(record, "published", request.target_path);
    }
    Plan plan;
    AppendGrowth(view, request.target_path, read_only, plan);
    // An earlier call may have ended between the mount and this step. If the group is already right, the
    // permissions are not checked: by now the tenants may have changed them.
    if (!read_only && view.group != request.capability.mount_group && others.empty()) {
      QUARRY_TRY(AddGroup(plan, view, request.capability, request.target_path, others));
    }
    return plan;
  }
  const mount::MountEntry* mounted = WholeMount(view);
  QUARRY_TRY(CheckOtherTargets(record, request, others, several_targets));
  const MakeTargetAction make_target{request.target_path, true};
  if (mounted != nullptr) {
    if (Has(mounted->super_options, "ro") && !read_only) {
      return Error(
          Code::kPrecondition,
          fmt::format("readonly: volume {} is mounted read-only at {}; a file system is read-only as "
                      "a whole",
                      record.tags.id, mounted->target));
    }
    options.data.clear();  // the first mount has set the options of the file system
    Plan plan;
    if (!read_only) {
      QUARRY_TRY(AddGroup(plan, view, request.capability, request.target_path, others));
    }
    plan.push_back(make_target);
    plan.push_back(BindAction{mounted->target, request.target_path, options});
    return plan;
  }
  QUARRY_ASSIGN(Plan plan, PlanBeforeMount(view, content, options));
  plan.push_back(make_target);
  plan.push_back(MountAction{view.stack.top().Node(), request.target_path, record.tags.fs_type, options});
  AppendGrowth(view, request.target_path, read_only, plan);
  if (!read_only) {
    QUARRY_TRY(AddGroup(plan, view, request.capability, request.target_path, others));
  }
  return plan;
}

Result<Plan> PlanPublishBlock(const NodeView& view, const PublishRequest& request,
                              const std::vector<const mount::MountEntry*>& published, bool several_targets) {
  const Record& record = view.record;
  const bool read_only = ReadOnly(request);
  std::vector<std::string> others;
  for (const mount::MountEntry* entry : published) {
    if (entry->target == request.target_path.str()) {
      return view.stack.top().read_only == read_only ? Result<Plan>(Plan{})
                                                     : OtherOptions(record, "published", request.target_path);
    }
    others.push_back(entry->target);
  }
  if (const auto* entry = view.mounts.At(request.target_path); entry != nullptr) {
    return InTheWay("target_path", request.target_path, *entry);
  }
  QUARRY_TRY(CheckOtherTargets(record, request, others, several_targets));
  if (!others.empty() && view.stack.top().read_only != read_only) {
    return Error(
        Code::kPrecondition,
        fmt::format(
            "readonly: the raw device of volume {} is published {} at {}; a device is read-only as a whole",
            record.tags.id, view.stack.top().read_only ? "read-only" : "writable", others.front()));
  }
  // Two writers would destroy the file system, and a reader would see it change.
  if (const auto mounted = view.mounts.Of(view.stack.number());
      !mounted.empty() && !(read_only && view.stack.top().read_only)) {
    return Error(Code::kPrecondition,
                 fmt::format("volume {} is mounted at {}: unmount it there before it is published raw",
                             record.tags.id, mounted.front()->target));
  }
  Plan plan;
  if (view.stack.top().read_only != read_only) {
    plan.push_back(SetReadOnlyAction{view.stack.top().uuid, read_only});
  }
  plan.push_back(MakeTargetAction{request.target_path, false,
                                  /*replace_directory=*/request.target_owner == TargetOwner::kCaller});
  plan.push_back(BindAction{view.stack.top().Node(), request.target_path, {}});
  return plan;
}

}  // namespace quarry::engine
