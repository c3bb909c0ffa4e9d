#include "bucket/bucket_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <string_view>

#include <fmt/format.h>

#include "bucket/names.h"

namespace quarry::bucket {
namespace {

constexpr mode_t kRootMode = 0711;
constexpr mode_t kPrivate = 0700;
constexpr mode_t kSecret = 0600;
constexpr size_t kMostRecord = 1 << 20;
constexpr std::string_view kSuffix = ".json";
// Space for a policy in a full bucket: clients may fill the file system to its last block.
constexpr const char* kBallast = ".ballast";
constexpr off_t kBallastSize = 1 << 20;

Owner Self() {
  return {geteuid(), getegid()};
}

std::string FileOf(const std::string& account) {
  return fmt::format("{}{}", account, kSuffix);
}

// Sets the attribute unless it has this value, and says whether it changed.
Result<bool> SetAttribute(int fd, const char* name, const std::string& value) {
  std::string present(value.size() + 1, '\0');
  const ssize_t n = fgetxattr(fd, name, present.data(), present.size());
  if (n >= 0 && present.substr(0, static_cast<size_t>(n)) == value) {
    return false;
  }
  if (fsetxattr(fd, name, value.data(), value.size(), 0) != 0) {
    return ErrnoError(fmt::format("setting {} of data/", name));
  }
  return true;
}

// Without it, in a bucket that is full already, only a policy cannot be set.
void MakeBallast(int grants) {
  const UniqueFd fd(openat(grants, kBallast, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kSecret));
  struct stat found{};
  if (fd.valid() && fstat(fd.get(), &found) == 0 && found.st_blocks * 512 < kBallastSize) {
    (void)fallocate(fd.get(), 0, 0, kBallastSize);
  }
}

}  // namespace

Result<BucketFolder> BucketFolder::Open(const AbsolutePath& path, Owner gateway, const Proof& proof) {
  const UniqueFd top(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!top.valid()) {
    return ErrnoError("opening " + path.str());
  }
  // Of the open folder: what the path leads to may change at any moment.
  QUARRY_TRY(proof(top.get()));
  struct stat found{};
  if (fstat(top.get(), &found) != 0) {
    return ErrnoError("inspecting " + path.str());
  }
  // Only if it differs: each change is written at once.
  if ((found.st_mode & 07777U) != kRootMode && fchmod(top.get(), kRootMode) != 0) {
    return ErrnoError("changing the mode of " + path.str());
  }
  QUARRY_ASSIGN(UniqueFd grants, MakeFolder(top.get(), "grants", Self(), kPrivate));
  QUARRY_ASSIGN(UniqueFd data, MakeFolder(top.get(), "data", gateway, kPrivate));
  // An owner that is no account: it could replace the policy.
  const std::string acl = fmt::format(R"({{"Owner":"{}","Grantees":[]}})", kOwner);
  QUARRY_ASSIGN(const bool owned, SetAttribute(data.get(), "user.acl", acl));
  QUARRY_ASSIGN(const bool enforced, SetAttribute(data.get(), "user.ownership", "BucketOwnerEnforced"));
  if ((owned || enforced) && (fsync(data.get()) != 0 || fsync(top.get()) != 0)) {
    return ErrnoError("fsync of " + path.str());
  }
  MakeBallast(grants.get());
  return BucketFolder(std::move(data), std::move(grants));
}

Result<std::vector<GrantRecord>> BucketFolder::Grants() const {
  QUARRY_ASSIGN(const auto names, NamesIn(grants_.get()));
  std::vector<GrantRecord> out;
  for (const std::string& name : names) {
    if (name.starts_with('.')) {
      continue;  // a new record that a crash left behind: nobody knows its secret
    }
    QUARRY_ASSIGN(const std::string text, ReadFile(grants_.get(), name, kMostRecord));
    auto record = ParseGrant(text).Context("grants/" + name);
    QUARRY_TRY(record.has_value() ? Ok() : Status(record.error()));
    if (FileOf(record->account) != name) {
      return Error(Code::kCorrupt, fmt::format("grants/{} is the record of another account", name));
    }
    out.push_back(std::move(*record));
  }
  return out;
}

Status BucketFolder::Keep(const GrantRecord& record) const {
  return WriteFile(grants_.get(), FileOf(record.account), ToText(record), Self(), kSecret, true);
}

Status BucketFolder::Forget(const std::string& account) const {
  if (unlinkat(grants_.get(), FileOf(account).c_str(), 0) != 0 && errno != ENOENT) {
    return ErrnoError("removing the record of account " + account);
  }
  return fsync(grants_.get()) == 0 ? Ok() : Status(ErrnoError("fsync of grants/"));
}

Status BucketFolder::SetPolicy(const std::string& text) const {
  auto set = SetAttribute(data_.get(), "user.policy", text);
  if (!set.has_value() && set.error().sys_errno() == ENOSPC && unlinkat(grants_.get(), kBallast, 0) == 0) {
    set = SetAttribute(data_.get(), "user.policy", text);
    MakeBallast(grants_.get());
  }
  QUARRY_ASSIGN(const bool changed, std::move(set));
  return changed && fsync(data_.get()) != 0 ? Status(ErrnoError("fsync of data/")) : Ok();
}

Result<ObjectCount> BucketFolder::Count(uint64_t most, const Call& call) const {
  return CountObjects(data_.get(), most, call);
}

Result<SweptUploads> BucketFolder::Sweep(std::chrono::seconds upload_ttl, const Call& call) const {
  return SweepUploads(data_.get(), std::chrono::system_clock::now() - upload_ttl, call);
}

Result<Content> BucketFolder::Usage() const {
  struct statvfs usage{};
  if (fstatvfs(data_.get(), &usage) != 0) {
    return ErrnoError("reading the usage of the bucket");
  }
  return Content{.used = Bytes{(usage.f_blocks - usage.f_bfree) * usage.f_frsize},
                 .available = Bytes{usage.f_bavail * usage.f_frsize}};
}

}  // namespace quarry::bucket
