#include "ctl/mount_point.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/path.h"
#include "base/unique_fd.h"

namespace quarry::ctl {
namespace {

constexpr mode_t kModeBits = 07777;
constexpr size_t kLongestPath = 4095;
constexpr uint32_t kNobody = 0xFFFFFFFF;  // chown(2): leave as it is

std::optional<uint32_t> Number(const std::string& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number != kNobody;
  return whole ? std::optional(number) : std::nullopt;
}

// quarryctl has one thread.
// NOLINTBEGIN(concurrency-mt-unsafe)
Result<uint32_t> UserId(const std::string& text) {
  if (const passwd* const user = getpwnam(text.c_str()); user != nullptr) {
    return user->pw_uid;
  }
  const auto number = Number(text);
  return number.has_value()
             ? Result<uint32_t>(*number)
             : Error(Code::kInvalidArgument, fmt::format("owner: there is no user '{}'", text));
}

Result<uint32_t> GroupId(const std::string& text) {
  if (const group* const found = getgrnam(text.c_str()); found != nullptr) {
    return found->gr_gid;
  }
  const auto number = Number(text);
  return number.has_value()
             ? Result<uint32_t>(*number)
             : Error(Code::kInvalidArgument, fmt::format("owner: there is no group '{}'", text));
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace

Result<std::string> ParseMountPoint(const std::string& text) {
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(text));
  if (path.str() == "/") {
    return Error(Code::kInvalidArgument, "must not be the root directory");
  }
  if (path.str().size() > kLongestPath) {
    return Error(Code::kInvalidArgument, fmt::format("must have at most {} bytes", kLongestPath));
  }
  if (std::ranges::any_of(path.str(),
                          [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; })) {
    return Error(Code::kInvalidArgument, "must not have control characters");
  }
  return path.str();
}

std::string WithoutLinks(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : resolved.string();
}

Status PrepareMountPoint(const std::string& path) {
  QUARRY_TRY(CheckMountPoint(path));
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  return failed ? Error(Code::kPrecondition,
                        fmt::format("making the mount point '{}': {}", path, failed.message()))
                : Ok();
}

Status CheckMountPoint(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, failed))) {
    return Ok();
  }
  const auto entries = std::filesystem::directory_iterator(path, failed);
  if (failed) {
    return Error(Code::kPrecondition, fmt::format("reading '{}': {}", path, failed.message()));
  }
  if (entries != std::filesystem::directory_iterator()) {
    return Error(Code::kPrecondition,
                 fmt::format("'{}' is not empty, and a mount would hide its files: move them away first, or "
                             "choose another directory",
                             path));
  }
  return Ok();
}

Result<Ownership> ParseOwner(const std::string& owner, std::optional<uint32_t> mode) {
  Ownership out{.mode = mode};
  const size_t colon = owner.find(':');
  const std::string user = owner.substr(0, colon);
  const std::string group = colon == std::string::npos ? "" : owner.substr(colon + 1);
  if (!owner.empty() && user.empty() && group.empty()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("owner: must be USER, USER:GROUP or :GROUP, is '{}'", owner));
  }
  if (!user.empty()) {
    QUARRY_ASSIGN(out.user, UserId(user));
  }
  if (!group.empty()) {
    QUARRY_ASSIGN(out.group, GroupId(group));
  }
  return out;
}

Result<bool> Differs(const std::string& path, const Ownership& wish) {
  struct stat now{};
  if (lstat(path.c_str(), &now) != 0) {
    return ErrnoError(fmt::format("looking at '{}'", path));
  }
  return wish.user.value_or(now.st_uid) != now.st_uid || wish.group.value_or(now.st_gid) != now.st_gid ||
         wish.mode.value_or(now.st_mode & kModeBits) != (now.st_mode & kModeBits);
}

Result<bool> SetOwnership(const std::string& path, const Ownership& wish) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat now{};
  if (!fd.valid() || fstat(fd.get(), &now) != 0) {
    return ErrnoError(fmt::format("looking at '{}'", path));
  }
  bool changed = false;
  const uint32_t user = wish.user.value_or(now.st_uid), group = wish.group.value_or(now.st_gid);
  if (user != now.st_uid || group != now.st_gid) {
    if (fchown(fd.get(), user, group) != 0) {
      return ErrnoError(fmt::format("giving '{}' to user {} and group {}", path, user, group));
    }
    changed = true;
  }
  const mode_t mode = wish.mode.value_or(now.st_mode & kModeBits);
  if (mode != (now.st_mode & kModeBits)) {
    if (fchmod(fd.get(), mode) != 0) {
      return ErrnoError(fmt::format("setting the mode of '{}'", path));
    }
    changed = true;
  }
  return changed;
}

}  // namespace quarry::ctl
