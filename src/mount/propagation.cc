#include "mount/propagation.h"

#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "mount/process_scan.h"

namespace quarry::mount {
namespace {

// The inode number of the first PID namespace of every kernel (PROC_PID_INIT_INO).
constexpr ino_t kFirstPidNamespace = 0xEFFFFFFC;

// 0: the namespace is not visible.
ino_t NamespaceOf(const std::string& process, std::string_view kind) {
  struct stat st{};
  return stat(fmt::format("{}/ns/{}", process, kind).c_str(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace

Result<Audience> LookForAudience(const std::string& proc) {
  const std::string first = proc + "/1";
  Audience audience;
  if (NamespaceOf(first, "pid") != kFirstPidNamespace) {
    return audience;
  }
  const ino_t host = NamespaceOf(first, "mnt");
  if (host != 0 && host == NamespaceOf(proc + "/self", "mnt")) {
    audience.in_its_namespace = true;
    return audience;
  }
  if (const auto text = ReadWhole(first + "/mountinfo"); text.has_value() && !text->empty()) {
    QUARRY_ASSIGN(audience.host, MountTable::Parse(*text).Context(first + "/mountinfo"));
  }
  return audience;
}

Status CheckPropagates(const MountTable& ours, uint64_t mount_id, const Audience& audience,
                       const AbsolutePath& path) {
  if (audience.in_its_namespace) {
    return Ok();
  }
  const MountEntry* parent = ours.ById(mount_id);
  if (parent == nullptr) {
    return Error(Code::kUnavailable,
                 fmt::format("the mount that {} lies in is not in the mount table", path.str()));
  }
  const uint64_t group = parent->peer_group;
  const bool seen =
      group != 0 && (!audience.host.has_value() ||
                     std::any_of(audience.host->entries().begin(), audience.host->entries().end(),
                                 [&](const MountEntry& entry) { return entry.peer_group == group; }));
  if (seen) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format("a mount at {} would not reach the host: it lies on the mount {}, which is not shared with "
                  "the host. Give quarryd's container that folder with mountPropagation: Bidirectional "
                  "(rshared), or let quarryd run in the host's mount namespace",
                  path.str(), parent->target));
}

}  // namespace quarry::mount
