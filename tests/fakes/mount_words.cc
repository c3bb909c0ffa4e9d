#include "tests/fakes/mount_words.h"

#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace quarry::fakes {
namespace {

constexpr std::array kWords = std::to_array<std::pair<uint64_t, std::string_view>>({
    {MS_RDONLY, "ro"},
    {MS_NOSUID, "nosuid"},
    {MS_NODEV, "nodev"},
    {MS_NOEXEC, "noexec"},
    {MS_NODIRATIME, "nodiratime"},
    {MS_NOSYMFOLLOW, "nosymfollow"},
});

}  // namespace

const uint64_t kPerMountFlags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NODIRATIME |
                                MS_NOSYMFOLLOW | MS_NOATIME | MS_RELATIME | MS_STRICTATIME;

uint64_t PerMountFlagsOf(const mount::MountEntry& entry) {
  uint64_t flags = entry.read_only() ? MS_RDONLY : 0;
  const auto has = [&](std::string_view word) {
    return std::ranges::find(entry.options, word) != entry.options.end();
  };
  for (const auto& [flag, word] : kWords) {
    flags |= has(word) ? flag : 0;
  }
  // mountinfo has no word for strictatime. A mount with neither "noatime" nor "relatime" is strictatime.
  flags |= has("noatime") ? MS_NOATIME : has("relatime") ? MS_RELATIME : MS_STRICTATIME;
  return flags;
}

std::vector<std::string> PerMountWords(uint64_t flags) {
  std::vector<std::string> out;
  if ((flags & MS_RDONLY) == 0) {
    out.emplace_back("rw");
  }
  for (const auto& [flag, word] : kWords) {
    if ((flags & flag) != 0) {
      out.emplace_back(word);
    }
  }
  if ((flags & MS_NOATIME) != 0) {
    out.emplace_back("noatime");
  } else if ((flags & MS_STRICTATIME) == 0) {
    out.emplace_back("relatime");
  }
  return out;
}

}  // namespace quarry::fakes
