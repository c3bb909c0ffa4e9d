// Mounts through libmount. Binds with open_tree, mount_setattr and move_mount.
#include <fcntl.h>
#include <libmount.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unique_fd.h"
#include "mount/kernel_mount.h"
#include "mount/options.h"
#include "mount/propagation.h"

namespace quarry::mount {
namespace {

struct FreeContext {
  void operator()(libmnt_context* context) const { mnt_free_context(context); }
};
using Context = std::unique_ptr<libmnt_context, FreeContext>;

// The first option that the file system does not accept, by its index in mount_flags. The kernel is asked
// about each option; fsopen(2) makes no mount. nullopt: the file system accepts all, or the kernel cannot be
// asked this way.
std::optional<size_t> RefusedOption(const std::string& fs_type, const std::vector<DataOption>& data) {
  const UniqueFd fs(fsopen(fs_type.c_str(), FSOPEN_CLOEXEC));
  if (!fs.valid()) {
    return std::nullopt;
  }
  for (const auto& [text, index] : data) {
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (value.size() >= 2 && value.front() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    const bool flag = equals == std::string::npos;
    if (fsconfig(fs.get(), flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING, key.c_str(),
                 flag ? nullptr : value.c_str(), 0) != 0) {
      return index;
    }
  }
  return std::nullopt;
}

// The meaning of a failed mount(2). The options themselves must not reach a log.
Error MountFailure(const std::string& what, const std::string& fs_type, const MountOptions& options,
                   int saved_errno) {
  Error error = ErrnoError(what, saved_errno);
  const auto means = [&](Code code, std::string_view why) {
    return Error(code, fmt::format("{}: {}", what, why)).WithErrno(saved_errno);
  };
  switch (saved_errno) {
    case EINVAL:
      if (const auto refused = RefusedOption(fs_type, options.data)) {
        return means(Code::kInvalidArgument,
                     fmt::format("{} does not accept mount_flags[{}]", fs_type, *refused));
      }
      return means(Code::kCorrupt,
                   fmt::format("the kernel finds no valid {}, or one with the same UUID is mounted, "
                               "or an option has a bad value; see the kernel's log",
                               fs_type));
    case EUCLEAN:
    case EBADMSG:
      return std::move(error).As(Code::kCorrupt);
    case EROFS:
    case EACCES:
      return means(Code::kPrecondition, "the device is read-only");
    case EEXIST:
      return means(Code::kPrecondition, "a file system with the same UUID is mounted");
    case ENODEV:
      return means(Code::kUnsupported, fmt::format("this kernel has no {}", fs_type));
    case ENOSPC:
      return means(Code::kUnavailable, "there are too many mounts (fs.mount-max)");
    case EPERM:
      return std::move(error).As(Code::kUnavailable);
    default:
      return error;
  }
}

// Mounts on a place that is already open, through libmount: no helpers, no mtab, no lookups in fstab.
// `standing`: options of the file system that Quarry adds; positions in errors count the caller's options
// only.
Status MountOnto(const std::string& device, const Place& target, std::string_view fs_type,
                 const MountOptions& options, const std::vector<std::string>& standing) {
  const std::string type(fs_type);
  const std::string what = fmt::format("mounting {} as {}", device, type);
  const Context context(mnt_new_context());
  if (!context) {
    return Error(Code::kUnavailable, fmt::format("{}: out of memory", what));
  }
  // "/." leads through the link in /proc into the directory itself: newer versions of libmount do not follow
  // a link at the end.
  const std::string place = ThroughFd(target.fd.get(), ".");
  std::vector<std::string> words = standing;
  std::ranges::transform(options.data, std::back_inserter(words), &DataOption::text);
  const std::string data = fmt::format("{}", fmt::join(words, ","));
  mnt_context_disable_helpers(context.get(), 1);
  mnt_context_disable_mtab(context.get(), 1);
  mnt_context_disable_canonicalize(context.get(), 1);
  // Otherwise libmount would silently mount a device read-only if it cannot be mounted for writing.
  mnt_context_enable_rwonly_mount(context.get(), (options.flags & MS_RDONLY) == 0 ? 1 : 0);
  const bool ready = mnt_context_set_source(context.get(), device.c_str()) == 0 &&
                     mnt_context_set_target(context.get(), place.c_str()) == 0 &&
                     mnt_context_set_fstype(context.get(), type.c_str()) == 0 &&
                     (data.empty() || mnt_context_set_options(context.get(), data.c_str()) == 0) &&
                     mnt_context_set_mflags(context.get(), options.flags) == 0;
  if (!ready) {
    return Error(Code::kUnavailable, fmt::format("{}: libmount could not be prepared", what));
  }
  const int rc = mnt_context_mount(context.get());
  if (rc == 0 && mnt_context_get_status(context.get()) == 1) {
    return Ok();
  }
  if (mnt_context_syscall_called(context.get()) == 1) {
    return MountFailure(what, type, options, mnt_context_get_syscall_errno(context.get()));
  }
  return Error(Code::kInternal, fmt::format("{}: libmount failed ({})", what, rc))
      .WithErrno(rc < 0 ? -rc : 0);
}

// open_tree, mount_setattr, move_mount: the bind mount appears with its flags or not at all.
Status BindOnto(const Place& source, const Place& target, const MountOptions& options) {
  const UniqueFd tree(open_tree(source.fd.get(), "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!tree.valid()) {
    return ErrnoError("open_tree");
  }
  const AttributeChange change = AttributesOf(options);
  mount_attr attributes{};
  attributes.attr_set = change.set;
  attributes.attr_clr = change.clear;
  if ((change.set | change.clear) != 0 &&
      mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) {
    return ErrnoError("mount_setattr");
  }
  if (move_mount(tree.get(), "", target.fd.get(), "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) !=
      0) {
    return ErrnoError("move_mount");
  }
  return Ok();
}

Status RefuseStacking(const Place& target, const AbsolutePath& path) {
  if (target.mount_root) {
    return Error(Code::kPrecondition, fmt::format("{} is already a mount point", path.str()));
  }
  return Ok();
}

}  // namespace

Status KernelMount::CheckReaches(const Place& target, const AbsolutePath& path) {
  if (!config_.for_the_host) {
    return Ok();
  }
  QUARRY_ASSIGN(const Audience audience, LookForAudience(config_.proc));
  if (audience.in_its_namespace) {
    return Ok();
  }
  QUARRY_ASSIGN(const MountTable table, Mounts());
  return CheckPropagates(table, target.mount_id, audience, path);
}

Status KernelMount::Mount(const std::string& device, const AbsolutePath& target, std::string_view fs_type,
                          const MountOptions& options, const Call& call) {
  const std::string what = fmt::format("mounting at {}", target.str());
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(fs_type));
  struct stat st{};
  if (stat(device.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) {
    return Error(Code::kNotFound, fmt::format("{}: there is no block device {}", what, device));
  }
  QUARRY_ASSIGN(const Place place, Look(target).Context(what));
  QUARRY_TRY(RefuseStacking(place, target));
  if (place.kind() != PathKind::kDirectory) {
    return Error(Code::kPrecondition, fmt::format("{}: it is not a directory", what));
  }
  QUARRY_TRY(CheckReaches(place, target));
  return MountOnto(device, place, fs->type(), options, fs->standing_options()).Context(what);
}

Status KernelMount::Bind(const std::string& source, const AbsolutePath& target, const MountOptions& options,
                         const Call& call) {
  const std::string what = fmt::format("binding {} at {}", source, target.str());
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const AbsolutePath from_path, AbsolutePath::Parse(source));
  QUARRY_ASSIGN(const Place from, Look(from_path).Context(what));
  const bool node = S_ISBLK(from.mode);
  if (!node && from.kind() != PathKind::kDirectory) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: the source is neither a directory nor a block device", what));
  }
  if (node && (options.flags & MS_NODEV) != 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: with nodev a device node could not be opened", what));
  }
  QUARRY_ASSIGN(const Place to, Look(target).Context(what));
  QUARRY_TRY(RefuseStacking(to, target));
  if (to.kind() != (node ? PathKind::kFile : PathKind::kDirectory)) {
    return Error(Code::kPrecondition,
                 fmt::format("{}: the target is not a {}", what, node ? "regular file" : "directory"));
  }
  QUARRY_TRY(CheckReaches(to, target));
  return BindOnto(from, to, options).Context(what);
}

}  // namespace quarry::mount
