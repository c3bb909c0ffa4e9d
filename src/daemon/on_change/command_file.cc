#include "daemon/on_change/command_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <list>
#include <string>

#include <fmt/format.h>

namespace quarry::daemon {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel

Status CheckOwner(const fs::path& path, const struct stat& facts) {
  if (facts.st_uid == 0 || facts.st_uid == geteuid()) {
    return Ok();
  }
  return Error(Code::kPrecondition, fmt::format("'{0}' belongs to user {1}: chown{2} root {0}", path.string(),
                                                facts.st_uid, S_ISLNK(facts.st_mode) ? " -h" : ""));
}

// In a folder with the sticky bit others can write, but replace only what is theirs.
Status CheckFolder(const fs::path& path, const struct stat& facts) {
  const bool by_group = (facts.st_mode & S_IWGRP) != 0 && facts.st_gid != 0;
  const bool by_others = (facts.st_mode & S_IWOTH) != 0;
  if ((by_group || by_others) && (facts.st_mode & S_ISVTX) == 0) {
    return Error(
        Code::kPrecondition,
        fmt::format("the folder '{0}' can be written by others, who could put another program in place: "
                    "chmod go-w {0}",
                    path.string()));
  }
  return Ok();
}

Status CheckFile(const fs::path& path, const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) {
    return Error(Code::kPrecondition, fmt::format("'{}' is not a file", path.string()));
  }
  // The bits of the group are those of an access control list, if there is one.
  if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(Code::kPrecondition,
                 fmt::format("'{0}' can be written by others: chmod go-w {0}", path.string()));
  }
  if (access(path.c_str(), X_OK) != 0) {
    return Error(Code::kPrecondition, fmt::format("'{0}' is not executable: chmod +x {0}", path.string()));
  }
  return Ok();
}

// Goes from the root to the end of a path, as the kernel does.
class Walk {
 public:
  explicit Walk(const fs::path& path) { Follow(path); }

  Status ToTheEnd() {
    QUARRY_TRY(Look());
    while (!ahead_.empty()) {
      const fs::path step = ahead_.front();
      ahead_.pop_front();
      if (step == "..") {
        at_ = at_.parent_path();
      } else if (!step.empty() && step != ".") {
        at_ /= step;
        QUARRY_TRY(Look());
      }
    }
    return CheckFile(at_, facts_);
  }

 private:
  // Looks at the present place. The folder that it is in was looked at before.
  Status Look() {
    if (lstat(at_.c_str(), &facts_) != 0) {
      return ErrnoError(fmt::format("looking at '{}'", at_.string()));
    }
    QUARRY_TRY(CheckOwner(at_, facts_));
    if (S_ISDIR(facts_.st_mode)) {
      return CheckFolder(at_, facts_);
    }
    if (!S_ISLNK(facts_.st_mode)) {
      return Ok();
    }
    std::error_code failed;
    const fs::path target = fs::read_symlink(at_, failed);
    if (failed || ++links_ > kMostLinks) {
      return Error(Code::kPrecondition, fmt::format("'{}' cannot be followed to a file", at_.string()));
    }
    at_ = at_.parent_path();
    Follow(target);
    return Ok();
  }

  void Follow(const fs::path& path) {
    if (path.is_absolute()) {
      at_ = "/";
    }
    const fs::path steps = path.relative_path();
    ahead_.insert(ahead_.begin(), steps.begin(), steps.end());
  }

  fs::path at_ = "/";
  std::list<fs::path> ahead_;
  struct stat facts_{};
  int links_ = 0;
};

}  // namespace

Status CheckCommandFile(const AbsolutePath& command) {
  return Walk(command.str()).ToTheEnd();
}

}  // namespace quarry::daemon
