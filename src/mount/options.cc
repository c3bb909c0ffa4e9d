#include "mount/options.h"

#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace quarry::mount {
namespace {

// mount(2) copies the options into one page. 17 bytes of it stay free for the options that Quarry adds to
// those of the caller (standing_options).
constexpr size_t kDataLimit = 4095 - 17;

struct FlagWord {
  std::string_view on;
  std::string_view off;  // empty: there is no such word
  uint64_t flag;
  uint64_t excludes = 0;  // other flags that `on` turns off
};

constexpr uint64_t kAccessTime = MS_NOATIME | MS_RELATIME | MS_STRICTATIME;

constexpr std::array kFlagWords = std::to_array<FlagWord>({
    {"ro", "rw", MS_RDONLY},
    {"nosuid", "suid", MS_NOSUID},
    {"nodev", "dev", MS_NODEV},
    {"noexec", "exec", MS_NOEXEC},
    {"sync", "async", MS_SYNCHRONOUS},
    {"dirsync", "", MS_DIRSYNC},
    // The three ways to keep access times exclude each other.
    {"noatime", "atime", MS_NOATIME, kAccessTime & ~MS_NOATIME},
    {"relatime", "norelatime", MS_RELATIME, kAccessTime & ~MS_RELATIME},
    {"strictatime", "nostrictatime", MS_STRICTATIME, kAccessTime & ~MS_STRICTATIME},
    {"nodiratime", "diratime", MS_NODIRATIME},
    {"lazytime", "nolazytime", MS_LAZYTIME},
    {"iversion", "noiversion", MS_I_VERSION},
    {"silent", "loud", MS_SILENT},
    {"nosymfollow", "symfollow", MS_NOSYMFOLLOW},
    {"defaults", "", 0},
});

// Words that are refused. Errors may quote them, because they come from this table and not from a caller's
// secret.
struct Refused {
  std::string_view word;
  std::string_view why;
};
struct RefusedWords {
  std::string_view why;
  std::vector<std::string_view> words;
};
constexpr std::string_view kFstab = "it belongs in fstab";
constexpr std::string_view kForeign = "a volume must not use other devices";

const std::vector<RefusedWords> kRefusedWords = {
    {"mount flags must not change where a volume is mounted",
     {"bind", "rbind", "move", "remount", "beneath", "subdir"}},
    {"mount propagation is set by the orchestrator",
     {"private", "rprivate", "shared", "rshared", "slave", "rslave", "unbindable", "runbindable"}},
    {kFstab,
     {"auto", "noauto", "user", "nouser", "users", "nousers", "owner", "noowner", "group", "nogroup",
      "_netdev", "nofail", "comment"}},
    {"a volume is a block device already", {"loop", "offset", "sizelimit", "encryption"}},
    {"mount helpers are not run", {"helper", "uhelper"}},
    {kForeign, {"logdev", "rtdev", "device", "journal_dev", "journal_path"}},
    {"Linux no longer has mandatory locks", {"mand", "nomand"}},
};
// Families of options of mount(8).
constexpr std::array kRefusedPrefixes = std::to_array<Refused>({
    {"x-", kFstab},
    {"X-", kFstab},
    {"verity.", kForeign},
});
constexpr std::string_view kContextCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:_.,-";
constexpr std::array<std::string_view, 4> kContexts = {"context", "fscontext", "defcontext", "rootcontext"};

std::string_view KeyOf(std::string_view word) {
  return word.substr(0, word.find('='));
}

std::optional<Refused> RefusalOf(std::string_view word) {
  for (const auto& [why, words] : kRefusedWords) {
    if (const auto found = std::ranges::find(words, KeyOf(word)); found != words.end()) {
      return Refused{*found, why};
    }
  }
  for (const Refused& family : kRefusedPrefixes) {
    if (word.starts_with(family.word)) {
      return family;
    }
  }
  return std::nullopt;
}

bool IsContext(std::string_view word) {
  return word.find('=') != std::string_view::npos &&
         std::find(kContexts.begin(), kContexts.end(), KeyOf(word)) != kContexts.end();
}

// context="system_u:object_r:container_file_t:s0:c1,c2", with or without the quotes. The kernel always gets
// the quotes, because it needs them if there is a comma. nullopt: not a security context.
std::optional<std::string> QuoteContext(std::string_view word) {
  std::string_view value = word.substr(word.find('=') + 1);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  if (value.empty() || value.find_first_not_of(kContextCharacters) != std::string_view::npos) {
    return std::nullopt;
  }
  return fmt::format("{}=\"{}\"", KeyOf(word), value);
}

// Characters that no option may contain, because they would end one option and begin another, or confuse
// programs that print the option.
std::optional<std::string_view> FaultOf(std::string_view word) {
  if (word.empty()) {
    return "is empty";
  }
  for (const char c : word) {
    if (c == ',') {
      return "contains a comma: give each flag as a separate item";
    }
    if (c == '"' || c == '\\') {
      return "contains a quote or backslash";
    }
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) {
      return "contains a blank or control character";
    }
  }
  if (word.front() == '=') {
    return "has no name before the '='";
  }
  return std::nullopt;
}

Status AddWord(std::string_view word, size_t position, MountOptions& out) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kInvalidArgument, fmt::format("mount_flags[{}] {}", position, why));
  };
  if (IsContext(word)) {
    auto quoted = QuoteContext(word);
    if (!quoted.has_value()) {
      return refuse("is not an SELinux context");
    }
    out.data.push_back({.text = std::move(*quoted), .index = position});
    return Ok();
  }
  if (const auto fault = FaultOf(word)) {
    return refuse(*fault);
  }
  if (const auto refusal = RefusalOf(word)) {
    return refuse(fmt::format("('{}') is refused: {}", refusal->word, refusal->why));
  }
  for (const FlagWord& row : kFlagWords) {
    if (word == row.on || word == row.off) {
      const uint64_t set = word == row.on ? row.flag : 0;
      const uint64_t clear = word == row.on ? row.excludes : row.flag;
      out.flags = (out.flags & ~clear) | set;
      out.cleared = (out.cleared & ~set) | clear;
      return Ok();
    }
  }
  out.data.push_back({.text = std::string(word), .index = position});
  return Ok();
}

struct PerMountFlag {
  uint64_t flag;
  uint64_t attribute;
};
constexpr std::array kPerMount = std::to_array<PerMountFlag>({
    {MS_RDONLY, MOUNT_ATTR_RDONLY},
    {MS_NOSUID, MOUNT_ATTR_NOSUID},
    {MS_NODEV, MOUNT_ATTR_NODEV},
    {MS_NOEXEC, MOUNT_ATTR_NOEXEC},
    {MS_NODIRATIME, MOUNT_ATTR_NODIRATIME},
    {MS_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW},
});

}  // namespace

MountOptions MountOptions::WithDefaults(uint64_t default_flags) const {
  MountOptions out = *this;
  out.flags |= default_flags & ~cleared;
  return out;
}

Result<MountOptions> ParseMountOptions(const std::vector<std::string>& words) {
  MountOptions out;
  size_t total = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    total += words[i].size() + 3;  // a comma, and the quotes that a context may gain
    if (total > kDataLimit) {
      return Error(Code::kInvalidArgument,
                   fmt::format("mount_flags[{}]: all flags together are longer than 4 KiB", i));
    }
    QUARRY_TRY(AddWord(words[i], i, out));
  }
  return out;
}

AttributeChange AttributesOf(const MountOptions& options) {
  AttributeChange change;
  for (const PerMountFlag& row : kPerMount) {
    change.set |= (options.flags & row.flag) != 0 ? row.attribute : 0;
    change.clear |= (options.cleared & ~options.flags & row.flag) != 0 ? row.attribute : 0;
  }
  // Access time is a field of several bits. To set it, the kernel wants all of its bits cleared.
  if ((options.flags & kAccessTime) != 0) {
    change.clear |= MOUNT_ATTR__ATIME;
    change.set |= (options.flags & MS_NOATIME) != 0       ? MOUNT_ATTR_NOATIME
                  : (options.flags & MS_STRICTATIME) != 0 ? MOUNT_ATTR_STRICTATIME
                                                          : MOUNT_ATTR_RELATIME;
  }
  return change;
}

}  // namespace quarry::mount
