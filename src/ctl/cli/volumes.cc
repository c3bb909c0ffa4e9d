#include "ctl/cli/volumes.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "base/path.h"
#include "ctl/cli/command.h"
#include "ctl/mount_point.h"

namespace quarry::ctl {

void TellWaiting(const std::string& why) {
  std::cerr << fmt::format("quarryctl: waiting: {}\n", why);
}

Result<std::string> MountVolume(VolumeClient& client, const VolumeRow& row, const std::string& path,
                                const std::vector<std::string>& options) {
  const std::string at = path.empty() ? row.facts.mount_point() : path;
  if (!at.empty()) {
    QUARRY_ASSIGN(const AbsolutePath target, AbsolutePath::Parse(at).Context("PATH"));
    const auto& used = row.facts.used_at();
    if (std::ranges::find(used, target.str()) == used.end()) {
      QUARRY_TRY(PrepareMountPoint(target.str()));
    }
  }
  QUARRY_ASSIGN(const auto mounted,
                client.Mount(row.facts.volume_id(), path, options, CallWithin(kChangePatience)));
  return mounted.path();
}

Result<std::string> DryRunCreate(VolumeClient& client, const NewVolume& wish, bool there) {
  if (there) {
    return fmt::format("there is already a volume '{}'\n", wish.name);
  }
  QUARRY_ASSIGN(const Bytes most, client.Capacity(wish, CallWithin(kPatience)));
  if (most < wish.size) {
    return Error(Code::kNoSpace,
                 fmt::format("volume '{}' cannot be made: such a volume can have at most {} ({} bytes) now; "
                             "`quarryctl capacity` shows every type",
                             wish.name, HumanBytes(most), most.value));
  }
  return fmt::format("would create volume {} of {}; such a volume could have up to {}\n", wish.name,
                     HumanBytes(wish.size), HumanBytes(most));
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
