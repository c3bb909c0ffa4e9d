// Gives the copy of a file system a UUID of its own.
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/unique_fd.h"
#include "mount/blkid_probe.h"
#include "mount/kernel_mount.h"

namespace quarry::mount {
namespace {

// A random UUID (RFC 9562, version 4).
Result<std::string> NewUuid() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return ErrnoError("getting random bytes for a UUID");
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

Result<Content> ContentAt(const std::string& device, std::string_view fs_type) {
  const UniqueFd fd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(fmt::format("opening {}", device));
  }
  QUARRY_ASSIGN(Content content, ProbeContent(fd.get()));
  if (content.kind != Content::Kind::kFilesystem || content.type != fs_type) {
    return Error(Code::kCorrupt, fmt::format("{} does not hold {}", device, fs_type));
  }
  // What the tool wrote must be on the disk before anybody gets the copy.
  if (fsync(fd.get()) != 0) {
    return ErrnoError(fmt::format("flushing {}", device));
  }
  return content;
}

}  // namespace

Status KernelMount::CheckCopyable(std::string_view fs_type, int fd) {
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(fs_type));
  // Before a byte is copied.
  QUARRY_TRY(FindTool(fs->ChangeUuidCommand("", "").front(), fs->package()));
  return fs->CheckCopyable(fd);
}

Result<std::optional<std::string>> KernelMount::ChangeUuid(std::string_view fs_type,
                                                           const std::string& device, const Call& call) {
  const std::string what = fmt::format("giving the {} on {} a UUID of its own", fs_type, device);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(fs_type));
  {
    QUARRY_ASSIGN(const UniqueFd claim, Claim(device, false).Context(what));
    QUARRY_TRY(fs->CheckCopyable(claim.get()).Context(what));
  }
  QUARRY_ASSIGN(const Content before, ContentAt(device, fs_type).Context(what));
  QUARRY_ASSIGN(std::string uuid, NewUuid());
  std::vector<std::string> words = fs->ChangeUuidCommand(device, uuid);
  const std::string tool = words.front();
  QUARRY_ASSIGN(const Finished finished, RunTool(std::move(words), *fs, call).Context(what));
  QUARRY_ASSIGN(const Content after, ContentAt(device, fs_type).Context(what));
  const std::string said = ToolWords(finished.out + "\n" + finished.err);
  // The exit status does not tell: xfs_db ends with 0 when it has refused, and when it wrote some copies of
  // the superblock only.
  if (after.uuid == uuid && finished.ok() && said.find("failed to set UUID") == std::string::npos) {
    return uuid;
  }
  const auto refusals = fs->uuid_refusals();
  const bool refused = std::ranges::any_of(
      refusals, [&](std::string_view part) { return said.find(part) != std::string::npos; });
  if (refused && finished.signal == 0 && after.uuid == before.uuid) {
    return std::nullopt;
  }
  const std::string end = finished.signal != 0 ? fmt::format("signal {}", finished.signal)
                                               : fmt::format("exit status {}", finished.exit_status);
  return Error(Code::kUnavailable, fmt::format("{}: {} ended with {}: {}", what, tool, end, said));
}

}  // namespace quarry::mount
