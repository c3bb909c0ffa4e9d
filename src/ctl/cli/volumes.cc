#include "ctl/cli/volumes.h"

#include <unistd.h>

#include <iostream>
#include <limits>

#include <fmt/format.h>

#include "ctl/cli/command.h"
#include "ctl/mount_point.h"
#include "engine/model/profile.h"

namespace quarry::ctl {

void TellWaiting(const std::string& why) {
  std::cerr << fmt::format("quarryctl: waiting: {}\n", why);
}

Result<std::string> MountVolume(VolumeClient& client, const VolumeRow& row, const std::string& path,
                                const std::vector<std::string>& options) {
  std::string at = row.facts.mount_point();
  if (!path.empty()) {
    QUARRY_ASSIGN(at, ParseMountPoint(path).Context("PATH"));
    at = WithoutLinks(at);
  }
  // A directory that is kept is left to quarryd, which knows whether another volume comes above it first.
  if (at != row.facts.mount_point() && !row.IsUsedAt(at)) {
    const Status prepared = PrepareMountPoint(at);
    // quarryd may have mounted it in the meantime, as it does at its start.
    if (!prepared.has_value()) {
      QUARRY_ASSIGN(const VolumeRow now,
                    client.Find(row.facts.volume_id(), Kind::kVolume, CallWithin(kPatience)));
      QUARRY_TRY(now.IsUsedAt(at) ? Ok() : prepared);
    }
  }
  QUARRY_ASSIGN(const auto mounted, client.Mount(row.facts.volume_id(), path.empty() ? "" : at, options,
                                                 CallWithin(kChangePatience)));
  return mounted.path();
}

Result<Bytes> CheckNewVolume(VolumeClient& client, const NewVolume& wish) {
  if (wish.size.value > std::numeric_limits<int64_t>::max()) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the size of volume '{}' is more than any disk has", wish.name));
  }
  QUARRY_TRY(engine::Profile::Parse(wish.parameters, "").Context(fmt::format("volume '{}'", wish.name)));
  QUARRY_ASSIGN(const Bytes most, client.Capacity(wish, CallWithin(kPatience)));
  if (most < wish.size) {
    return Error(Code::kNoSpace,
                 fmt::format("volume '{}' cannot be made: such a volume can have at most {} ({} bytes) now; "
                             "`quarryctl capacity` shows every type",
                             wish.name, HumanBytes(most), most.value));
  }
  return most;
}

Status Confirm(const std::string& warning, const std::string& word) {
  if (isatty(STDIN_FILENO) != 1) {
    return Error(Code::kInvalidArgument, warning + " Say --yes if that is what you want");
  }
  std::cerr << fmt::format("{} Type {} to go on: ", warning, word) << std::flush;
  std::string typed;
  if (!std::getline(std::cin, typed) || typed != word) {
    return Error(Code::kCancelled, "nothing was changed");
  }
  return Ok();
}

}  // namespace quarry::ctl
