#include "bucket/served_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <filesystem>

#include <fmt/format.h>

#include "bucket/grant_record.h"
#include "bucket/report_socket.h"

namespace quarry::bucket {
namespace {

constexpr mode_t kOpen = 0755;
constexpr mode_t kPrivate = 0700;
constexpr mode_t kSecret = 0600;
constexpr size_t kMostEnvironment = 64 << 10;
// 400 accounts in each of 20 buckets. The gateway's user could make the file larger.
constexpr size_t kMostUsers = 4 << 20;
constexpr size_t kMostProblem = 4096;
constexpr size_t kShownOfProblem = 500;
constexpr const char* kUsers = "users.json";
constexpr const char* kEnvironment = "gateway.env";
constexpr const char* kLocks = ".vgwlocks";
constexpr const char* kProblem = "problem";       // as in gateway/problem_file.cc
constexpr const char* kReports = "reports.sock";  // as in gateway/gateway_command.cc

Owner Self() {
  return {geteuid(), getegid()};
}

std::map<std::string, std::string> ParseLines(std::string_view text) {
  std::map<std::string, std::string> out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      out.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return out;
}

uint64_t NumberIn(const std::string& text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Opens a folder of quarryd's, so that the gateway's user can pass through it.
Result<UniqueFd> OpenPassage(const AbsolutePath& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat found{};
  if (!fd.valid() || fstat(fd.get(), &found) != 0) {
    return ErrnoError("opening " + path.str());
  }
  if ((found.st_mode & S_IXOTH) == 0 && fchmod(fd.get(), (found.st_mode & 07777U) | S_IXOTH) != 0) {
    return ErrnoError("changing the mode of " + path.str());
  }
  return fd;
}

bool HasAttributes(int folder) {
  return fgetxattr(folder, "user.quarry", nullptr, 0) >= 0 || errno == ENODATA;
}

// A folder on a disk, and a link to it.
Result<UniqueFd> MakeSpareRoot(int top, const AbsolutePath& spare) {
  if (mkdir(spare.Parent().c_str(), kPrivate) != 0 && errno != EEXIST) {
    return ErrnoError("making " + spare.Parent().str());
  }
  QUARRY_ASSIGN(const UniqueFd parent, OpenPassage(spare.Parent()));
  QUARRY_ASSIGN(UniqueFd root, MakeFolder(parent.get(), spare.Name(), Self(), kOpen));
  if (!HasAttributes(root.get())) {
    return Error(
        Code::kPrecondition,
        fmt::format("the file system of '{}' has no user attributes, which the S3 gateway needs: mount "
                    "ext4, xfs or btrfs there",
                    spare.str()));
  }
  if (symlinkat(spare.c_str(), top, "root") != 0 && errno != EEXIST) {
    return ErrnoError("linking the served folder");
  }
  return root;
}

// After a reboot, links on a disk are still there. Each is made again when its bucket is mounted.
Status RemoveLinks(int root) {
  QUARRY_ASSIGN(const auto names, NamesIn(root));
  for (const std::string& name : names) {
    struct stat found{};
    if (fstatat(root, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode) &&
        unlinkat(root, name.c_str(), 0) != 0) {
      return ErrnoError("removing link " + name);
    }
  }
  return Ok();
}

}  // namespace

Result<ServedFolder> ServedFolder::Make(const AbsolutePath& given, const AbsolutePath& spare, Owner gateway) {
  QUARRY_ASSIGN(const UniqueFd parent, OpenPassage(given.Parent()));
  QUARRY_ASSIGN(UniqueFd top, MakeFolder(parent.get(), given.Name(), Self(), kOpen));
  // As the mount table will name it.
  std::error_code error;
  const std::string real = std::filesystem::canonical(given.str(), error).string();
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(error ? given.str() : real));
  QUARRY_ASSIGN(UniqueFd volumes, MakeFolder(top.get(), "volumes", Self(), kOpen));
  const bool own = HasAttributes(top.get());
  QUARRY_ASSIGN(UniqueFd root,
                own ? MakeFolder(top.get(), "root", Self(), kOpen) : MakeSpareRoot(top.get(), spare));
  QUARRY_ASSIGN(UniqueFd iam, MakeFolder(top.get(), "iam", Self(), kOpen));
  QUARRY_ASSIGN(UniqueFd of_gateway, MakeFolder(top.get(), "private", gateway, kPrivate));
  QUARRY_TRY(MakeFolder(root.get(), kLocks, gateway, kPrivate));
  if (faccessat(top.get(), kEnvironment, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
    QUARRY_TRY(RemoveLinks(root.get()));  // the first start since the reboot
  }
  const AbsolutePath root_path = own ? *AbsolutePath::Parse(path.str() + "/root") : spare;
  return ServedFolder(path, root_path, gateway, std::move(top), std::move(volumes), std::move(root),
                      std::move(iam), std::move(of_gateway));
}

AbsolutePath ServedFolder::MountPoint(const std::string& lv) const {
  return *AbsolutePath::Parse(fmt::format("{}/volumes/{}", path_.str(), lv));
}

Status ServedFolder::MakeMountPoint(const std::string& lv) const {
  return mkdirat(volumes_.get(), lv.c_str(), kPrivate) == 0 || errno == EEXIST
             ? Ok()
             : Status(ErrnoError("making mount point " + lv));
}

void ServedFolder::RemoveMountPoint(const std::string& lv) const {
  (void)unlinkat(volumes_.get(), lv.c_str(), AT_REMOVEDIR);
}

std::string ServedFolder::TargetOf(const std::string& lv) const {
  return fmt::format("{}/data", MountPoint(lv).str());
}

bool ServedFolder::IsLinkedTo(const std::string& name, const std::string& target) const {
  std::array<char, PATH_MAX> present{};
  const ssize_t n = readlinkat(root_.get(), name.c_str(), present.data(), present.size());
  return n >= 0 && std::string_view(present.data(), static_cast<size_t>(n)) == target;
}

Status ServedFolder::Link(const std::string& name, const std::string& lv) const {
  const std::string target = TargetOf(lv);
  if (IsLinkedTo(name, target)) {
    return Ok();
  }
  const std::string fresh = fmt::format(".{}.new", name);
  if (unlinkat(root_.get(), fresh.c_str(), 0) != 0 && errno != ENOENT) {
    return ErrnoError("removing " + fresh);
  }
  if (symlinkat(target.c_str(), root_.get(), fresh.c_str()) != 0 ||
      renameat(root_.get(), fresh.c_str(), root_.get(), name.c_str()) != 0) {
    return ErrnoError("linking bucket " + name);
  }
  return Ok();
}

Status ServedFolder::UnlinkFrom(const std::string& name, const std::string& lv) const {
  return IsLinkedTo(name, TargetOf(lv)) ? Unlink(name) : Ok();
}

Status ServedFolder::Unlink(const std::string& name) const {
  return unlinkat(root_.get(), name.c_str(), 0) == 0 || errno == ENOENT
             ? Ok()
             : Status(ErrnoError("removing the link of bucket " + name));
}

Result<std::set<std::string>> ServedFolder::Linked() const {
  QUARRY_ASSIGN(const auto names, NamesIn(root_.get()));
  std::set<std::string> out;
  for (const std::string& name : names) {
    struct stat found{};
    if (fstatat(root_.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode)) {
      out.insert(name);
    }
  }
  return out;
}

Status ServedFolder::WriteUsers(const std::string& text) const {
  return WriteFile(iam_.get(), kUsers, text, gateway_, kSecret, false);
}

std::string ServedFolder::ReadUsers() const {
  return ReadFile(iam_.get(), kUsers, kMostUsers).value_or("");
}

std::string ServedFolder::GatewayProblem() const {
  std::string text = ReadFile(private_.get(), kProblem, kMostProblem).value_or("");
  text.resize(std::min(text.size(), kShownOfProblem));
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, ' ');
  return text;
}

Result<UniqueFd> ServedFolder::MakeReportSocket() const {
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(fmt::format("{}/{}", path_.str(), kReports)));
  return bucket::MakeReportSocket(path, gateway_);
}

Status ServedFolder::WriteEnvironment(const GatewaySettings& settings, bool restart) const {
  const auto text = ReadFile(top_.get(), kEnvironment, kMostEnvironment);
  const std::map<std::string, std::string> old =
      text.has_value() ? ParseLines(*text) : std::map<std::string, std::string>();
  const auto kept = [&](const char* key, const std::string& otherwise) {
    const auto found = old.find(key);
    return found == old.end() || found->second.empty() ? otherwise : found->second;
  };
  std::map<std::string, std::string> now = {
      {"ROOT_ACCESS_KEY", kept("ROOT_ACCESS_KEY", "root-" + NewSecret())},
      {"ROOT_SECRET_KEY", kept("ROOT_SECRET_KEY", NewSecret())},
      {"VGW_PORT", settings.listen},
      {"VGW_REGION", settings.region},
      {"QUARRY_GENERATION", kept("QUARRY_GENERATION", "1")}};
  if (!settings.certificate.empty()) {
    now["VGW_CERT"] = settings.certificate;
    now["VGW_KEY"] = settings.key;
  }
  if (restart) {
    now["QUARRY_GENERATION"] = fmt::format("{}", NumberIn(now["QUARRY_GENERATION"]) + 1);
  }
  if (now == old) {
    return Ok();
  }
  std::string fresh;
  for (const auto& [key, value] : now) {
    fresh += fmt::format("{}={}\n", key, value);
  }
  return WriteFile(top_.get(), kEnvironment, fresh, gateway_, kSecret, false);
}

}  // namespace quarry::bucket
