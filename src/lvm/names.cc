#include "lvm/names.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <map>

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

constexpr std::string_view kBase32 = "abcdefghijklmnopqrstuvwxyz234567";
constexpr size_t kNameBytes = 16;
constexpr size_t kNameDigits = 26;  // 26 * 5 = 130 bits: the last digit carries only three
constexpr size_t kMaxPoolName = 32;
constexpr char kForeignPrefix = 'f';
constexpr size_t kUuidDigits = 32;
constexpr size_t kHashDigits = 8;

constexpr std::string_view kPrefix = "quarry.";
constexpr std::string_view kVersionKey = "quarry.v";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kSnapshotVersion = "2";
constexpr std::string_view kThinVersion = "3";
constexpr std::string_view kIdKey = "quarry.id";
constexpr std::string_view kNameKey = "quarry.name";
constexpr std::string_view kSizeKey = "quarry.size";
constexpr std::string_view kProfileKey = "quarry.profile";
constexpr std::string_view kAccessKey = "quarry.access";
constexpr std::string_view kFsTypeKey = "quarry.fs";
constexpr std::string_view kFormattedKey = "quarry.formatted";
constexpr std::string_view kErasedKey = "quarry.erased";
constexpr std::string_view kCopyingKey = "quarry.copying";
constexpr std::string_view kScrubbedKey = "quarry.scrubbed";
constexpr std::string_view kOverruledKey = "quarry.overruled";
constexpr std::string_view kOverruledMetadataKey = "quarry.overruledmeta";
constexpr std::string_view kReplacesPrefix = "quarry.replaces=";
constexpr std::string_view kKeptPrefix = "quarry.kept=";
constexpr std::string_view kScrubbedMetadataKey = "quarry.scrubbedmeta";
constexpr std::string_view kEraseKey = "quarry.erase";
constexpr std::string_view kEphemeralKey = "quarry.ephemeral";
constexpr std::string_view kAskedKey = "quarry.asked";
constexpr std::string_view kSourceKey = "quarry.source";
constexpr std::string_view kRestoredKey = "quarry.restored";
constexpr std::string_view kMountKey = "quarry.mount";
constexpr std::string_view kMountOptionsKey = "quarry.mountopts";
constexpr std::string_view kS3Key = "quarry.s3";
constexpr std::string_view kCowKey = "quarry.cow";
constexpr std::string_view kKindKey = "quarry.kind";
constexpr std::string_view kCutKey = "quarry.cut";
constexpr std::string_view kLengthKey = "quarry.length";
constexpr std::string_view kSnapshot = "snapshot";
constexpr std::string_view kThin = "thin";
constexpr std::string_view kThinStore = "store";
constexpr std::string_view kThinSnapshot = "thinsnapshot";
constexpr std::string_view kMappedKey = "quarry.mapped";
constexpr std::string_view kGroupKey = "quarry.group";
constexpr std::string_view kGroupNameKey = "quarry.groupname";
constexpr std::string_view kGroupMembersKey = "quarry.groupmembers";
constexpr std::string_view kCutsKey = "quarry.cuts";
constexpr std::string_view kDroppingKey = "quarry.dropping";
constexpr std::string_view kTrue = "true";

// Suffixes of device-mapper names and UUIDs.
constexpr std::string_view kBelow = "-real";
constexpr std::string_view kStore = "-cow";
constexpr std::string_view kPoolLayer = "-tpool";
// Suffixes of the names of a thin pool's hidden volumes.
constexpr std::string_view kDataPart = "_tdata";
constexpr std::string_view kMetadataPart = "_tmeta";

// lvm(8) allows tags of 1024 characters. A longer value continues in "<key>.1", "<key>.2", …
constexpr size_t kTagValueLimit = 960;

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool StaysReadable(char c) {
  return IsAlnum(c) || c == '_' || c == '.' || c == '-' || c == '/' || c == '=' || c == ':';
}

bool IsNodeHash(std::string_view text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void Emit(std::vector<std::string>& tags, std::string_view key, std::string_view value) {
  const std::string escaped = EscapeForTag(value);
  std::string_view rest = escaped;
  tags.push_back(fmt::format("{}={}", key, rest.substr(0, kTagValueLimit)));
  for (int part = 1; rest.size() > kTagValueLimit; ++part) {
    rest.remove_prefix(kTagValueLimit);
    tags.push_back(fmt::format("{}.{}={}", key, part, rest.substr(0, kTagValueLimit)));
  }
}

// The tags of one LV, parsed: "quarry.key=value" by key, and the state tags.
class TagTable {
 public:
  static Result<TagTable> From(const std::vector<std::string>& tags) {
    TagTable table;
    for (const std::string& tag : tags) {
      if (tag.starts_with(kPrefix)) {
        QUARRY_TRY(table.Add(tag));
      }
    }
    return table;
  }

  bool empty() const { return !state_.has_value() && values_.empty(); }
  std::optional<VolumeState> state() const { return state_; }

  // If `needed` is false, a missing tag reads as empty text.
  Result<std::string> Text(std::string_view key, bool needed) const {
    auto found = values_.find(key);
    if (found == values_.end()) {
      return needed ? Error(Code::kCorrupt, fmt::format("tag {} is missing", key)) : Result<std::string>("");
    }
    std::string escaped(found->second);
    for (int part = 1;; ++part) {
      found = values_.find(fmt::format("{}.{}", key, part));
      if (found == values_.end()) {
        return UnescapeFromTag(escaped).Context(fmt::format("tag {}", key));
      }
      escaped += found->second;
    }
  }

 private:
  Status Add(std::string_view tag) {
    for (const VolumeState state : {VolumeState::kCreating, VolumeState::kReady, VolumeState::kErasing}) {
      if (tag.substr(kPrefix.size()) != StateName(state)) {
        continue;
      }
      if (state_.has_value() && *state_ != state) {
        return Error(Code::kCorrupt,
                     fmt::format("tags {} and {} exclude each other", StateTag(*state_), tag));
      }
      state_ = state;
      return Ok();
    }
    const size_t equals = tag.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : tag.substr(equals + 1);
    const auto [at, fresh] = values_.emplace(tag.substr(0, equals), value);
    if (!fresh && at->second != value) {
      return Error(Code::kCorrupt,
                   fmt::format("tag {} is there twice, as '{}' and as '{}'", at->first, at->second, value));
    }
    return Ok();
  }

  std::optional<VolumeState> state_;
  std::map<std::string, std::string, std::less<>> values_;
};

Result<uint64_t> ParseNumber(std::string_view key, std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error(Code::kCorrupt, fmt::format("tag {} holds '{}', not a number", key, text));
  }
  return number;
}

Status CheckVersion(const TagTable& table, bool needed) {
  QUARRY_ASSIGN(const std::string version, table.Text(kVersionKey, needed));
  QUARRY_ASSIGN(const std::string kind, table.Text(kKindKey, false));
  const bool is_thin = kind == kThin || kind == kThinStore || kind == kThinSnapshot;
  const bool known = (version == kVersion && !is_thin) ||
                     (version == kSnapshotVersion && kind == kSnapshot) ||
                     (version == kThinVersion && is_thin);
  if (!known && (needed || !version.empty())) {
    return Error(
        Code::kUnsupported,
        fmt::format("tag {} says format '{}'; this build knows format {}, format {} of snapshots, and "
                    "format {} of thin stores and volumes",
                    kVersionKey, version, kVersion, kSnapshotVersion, kThinVersion));
  }
  return Ok();
}

// The tag that says what it is, and those that only a snapshot has.
Status ParseKind(const TagTable& table, VolumeTags& out) {
  QUARRY_ASSIGN(const std::string kind, table.Text(kKindKey, false));
  out.thin = kind == kThin || kind == kThinSnapshot;
  out.store = kind == kThinStore;
  if (kind.empty() || kind == kThin || out.store) {
    return Ok();
  }
  if (kind != kSnapshot && kind != kThinSnapshot) {
    return Error(Code::kUnsupported, fmt::format("tag {} holds '{}'", kKindKey, kind));
  }
  out.snapshot = true;
  if (out.thin) {
    QUARRY_ASSIGN(const std::string mapped, table.Text(kMappedKey, true));
    QUARRY_ASSIGN(out.mapped.value, ParseNumber(kMappedKey, mapped));
  }
  QUARRY_ASSIGN(out.group, table.Text(kGroupKey, false));
  if (!out.group.empty()) {
    QUARRY_ASSIGN(out.group_name, table.Text(kGroupNameKey, true));
    QUARRY_ASSIGN(const std::string members, table.Text(kGroupMembersKey, true));
    QUARRY_ASSIGN(out.group_members, ParseNumber(kGroupMembersKey, members));
  }
  QUARRY_ASSIGN(const std::string cut, table.Text(kCutKey, true));
  QUARRY_ASSIGN(out.cut, ParseNumber(kCutKey, cut));
  QUARRY_ASSIGN(const std::string length, table.Text(kLengthKey, true));
  QUARRY_ASSIGN(out.length.value, ParseNumber(kLengthKey, length));
  return Ok();
}

std::string_view KindOf(const VolumeTags& tags) {
  if (tags.store) {
    return kThinStore;
  }
  if (tags.snapshot) {
    return tags.thin ? kThinSnapshot : kSnapshot;
  }
  return tags.thin ? kThin : "";
}

// A tag that says "true" or is absent.
Result<bool> ParseFlag(const TagTable& table, std::string_view key) {
  QUARRY_ASSIGN(const std::string text, table.Text(key, false));
  if (!text.empty() && text != kTrue) {
    return Error(Code::kCorrupt, fmt::format("tag {} holds '{}'", key, text));
  }
  return text == kTrue;
}

// RFC 4648 section 5, without padding.
Result<std::string> FromBase64Url(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      return Error(Code::kCorrupt, fmt::format("'{}' is not base64", text));
    }
    bits = (bits << 6) | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>((bits >> held) & 0xFF);
    }
  }
  // The leftover bits are padding. There must be fewer than six, and all zero.
  if (held >= 6 || (bits & ((1U << held) - 1)) != 0) {
    return Error(Code::kCorrupt, fmt::format("'{}' is not whole base64", text));
  }
  return out;
}

std::string WithoutHyphens(std::string_view text) {
  std::string out(text);
  std::erase(out, '-');
  return out;
}

}  // namespace

std::string NewLvName() {
  std::array<uint8_t, kNameBytes> random{};
  while (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    if (errno != EINTR) {
      std::abort();  // every kernel that runs LVM has getrandom, and a guessable name would be worse than no
                     // daemon
    }
  }
  std::string name = "q";
  uint32_t bits = 0;
  int held = 0;
  for (const uint8_t byte : random) {
    bits = (bits << 8) | byte;
    held += 8;
    while (held >= 5) {
      held -= 5;
      name += kBase32[(bits >> held) & 31];
    }
  }
  name += kBase32[(bits << (5 - held)) & 31];
  return name;
}

bool IsOurLvName(std::string_view name) {
  if (name.size() != 1 + kNameDigits || name.front() != 'q') {
    return false;
  }
  const std::string_view digits = name.substr(1);
  // The two low bits of the last digit are padding, so they are zero.
  return digits.find_first_not_of(kBase32) == std::string_view::npos && kBase32.find(digits.back()) % 4 == 0;
}

std::string_view OurLvNameIn(std::string_view name) {
  const std::string_view head = name.substr(0, 1 + kNameDigits);
  const std::string_view rest = name.substr(head.size());
  return IsOurLvName(head) && rest.starts_with('_') ? head : std::string_view();
}

std::string_view TakenOutOf(std::string_view name) {
  constexpr std::string_view kSuffix = "_extracted";
  const std::string_view volume = OurLvNameIn(name);
  if (!name.ends_with(kSuffix)) {
    return {};
  }
  return IsLegOf(name.substr(0, name.size() - kSuffix.size()), volume) ? volume : std::string_view();
}

bool IsLvmName(std::string_view name) {
  constexpr size_t kMaxLvmName = 127;
  return !name.empty() && name.size() <= kMaxLvmName && name.front() != '-' && name != "." && name != ".." &&
         std::ranges::all_of(
             name, [](char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '+' || c == '-'; });
}

std::string MetadataLvName(std::string_view image_name) {
  constexpr std::string_view kImage = "_rimage_";
  const size_t at = image_name.rfind(kImage);
  if (at == std::string_view::npos) {
    return "";
  }
  return fmt::format("{}_rmeta_{}", image_name.substr(0, at), image_name.substr(at + kImage.size()));
}

bool IsLegOf(std::string_view name, std::string_view lv_name) {
  if (lv_name.empty() || !name.starts_with(lv_name)) {
    return false;
  }
  name.remove_prefix(lv_name.size());
  for (const std::string_view kind : {"_rimage_", "_rmeta_"}) {
    if (name.starts_with(kind)) {
      name.remove_prefix(kind.size());
      return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    }
  }
  return false;
}

std::string ThinDataName(std::string_view pool) {
  return fmt::format("{}{}", pool, kDataPart);
}

std::string ThinMetadataName(std::string_view pool) {
  return fmt::format("{}{}", pool, kMetadataPart);
}

bool IsThinPartName(std::string_view name) {
  return name.ends_with(kDataPart) || name.ends_with(kMetadataPart);
}

bool IsPoolSpareName(std::string_view name) {
  return name.ends_with("_pmspare");
}

std::string_view StateName(VolumeState state) {
  switch (state) {
    case VolumeState::kCreating:
      return "creating";
    case VolumeState::kReady:
      return "ready";
    case VolumeState::kErasing:
      return "erasing";
  }
  return "";
}

std::string StateTag(VolumeState state) {
  return fmt::format("{}{}", kPrefix, StateName(state));
}

std::vector<std::string> StateTags(VolumeState state, bool thick_snapshot) {
  std::vector<std::string> out = {StateTag(state)};
  if (thick_snapshot) {
    Emit(out, kVersionKey, state == VolumeState::kReady ? kSnapshotVersion : kVersion);
  }
  return out;
}

bool BearsId(const std::vector<std::string>& tags, std::string_view id) {
  return std::ranges::find(tags, fmt::format("{}={}", kIdKey, EscapeForTag(id))) != tags.end();
}

bool BearsName(const std::vector<std::string>& tags, std::string_view co_name) {
  return std::ranges::find(tags, fmt::format("{}={}", kNameKey, EscapeForTag(co_name))) != tags.end();
}

bool BearsGroup(const std::vector<std::string>& tags, std::string_view id, std::string_view name) {
  std::vector<std::string> wanted;
  if (id.empty()) {
    Emit(wanted, kGroupNameKey, name);
  } else {
    Emit(wanted, kGroupKey, id);
  }
  return std::ranges::all_of(
      wanted, [&](const std::string& tag) { return std::ranges::find(tags, tag) != tags.end(); });
}

std::string SizeTag(Bytes size) {
  return fmt::format("{}={}", kSizeKey, size.value);
}

std::string AskedTag(Bytes size) {
  return fmt::format("{}={}", kAskedKey, size.value);
}

std::string CutTag(uint64_t cut) {
  return fmt::format("{}={}", kCutKey, cut);
}

std::string MappedTag(Bytes mapped) {
  return fmt::format("{}={}", kMappedKey, mapped.value);
}

std::string CutsTag() {
  return fmt::format("{}={}", kCutsKey, kTrue);
}

std::string CopyingTag(std::string_view boot) {
  return fmt::format("{}={}", kCopyingKey, EscapeForTag(boot));
}

bool IsCowStore(const std::vector<std::string>& tags) {
  const auto has = [&](const std::string& tag) { return std::ranges::find(tags, tag) != tags.end(); };
  return has(StateTag(VolumeState::kErasing)) && has(fmt::format("{}={}", kCowKey, kTrue));
}

std::string FormattedTag(std::string_view fs_type) {
  return fmt::format("{}={}", kFormattedKey, EscapeForTag(fs_type));
}

std::string ErasedTag(std::string_view progress) {
  return fmt::format("{}={}", kErasedKey, EscapeForTag(progress));
}

std::string ScrubbedTag(std::string_view outcome) {
  return fmt::format("{}={}", kScrubbedKey, EscapeForTag(outcome));
}

std::string OverruledTag(uint64_t times) {
  return fmt::format("{}={}", kOverruledKey, times);
}

std::string KeptMetadataName(std::string_view pool, int number) {
  return fmt::format("meta{}_{}", number, pool);
}

std::string_view KeptMetadataNameIn(std::string_view name, std::string_view pool) {
  constexpr std::string_view kStart = "meta";
  if (!name.starts_with(kStart)) {
    return {};
  }
  const size_t end = std::min(name.find_first_not_of("0123456789", kStart.size()), name.size());
  const std::string behind = fmt::format("_{}", pool);
  if (end == kStart.size() || !name.substr(end).starts_with(behind)) {
    return {};
  }
  const std::string_view own = name.substr(0, end + behind.size());
  return own == name || IsLegOf(name, own) ? own : std::string_view();
}

std::string ReplacesTag(std::string_view lv_uuid) {
  return fmt::format("{}{}", kReplacesPrefix, lv_uuid);
}

std::string Replaces(const std::vector<std::string>& tags) {
  const auto found =
      std::ranges::find_if(tags, [](const std::string& tag) { return tag.starts_with(kReplacesPrefix); });
  return found == tags.end() ? "" : found->substr(kReplacesPrefix.size());
}

std::string KeptTag(std::string_view lv_uuid) {
  return fmt::format("{}{}", kKeptPrefix, lv_uuid);
}

std::vector<std::string> KeptTags(const std::vector<std::string>& tags) {
  std::vector<std::string> out;
  std::ranges::copy_if(tags, std::back_inserter(out),
                       [](const std::string& tag) { return tag.starts_with(kKeptPrefix); });
  return out;
}

std::string KeptMetadata(std::string_view tag) {
  return std::string(tag.starts_with(kKeptPrefix) ? tag.substr(kKeptPrefix.size()) : std::string_view());
}

std::string ScrubbedMetadataTag(std::string_view outcome) {
  return fmt::format("{}={}", kScrubbedMetadataKey, EscapeForTag(outcome));
}

std::string OverruledMetadataTag(uint64_t times) {
  return fmt::format("{}={}", kOverruledMetadataKey, times);
}

std::vector<std::string> MountTags(std::string_view mount_point, std::string_view options) {
  std::vector<std::string> out;
  if (!mount_point.empty()) {
    Emit(out, kMountKey, mount_point);
    if (!options.empty()) {
      Emit(out, kMountOptionsKey, options);
    }
  }
  return out;
}

std::vector<std::string> BuildTags(const VolumeTags& tags) {
  const bool thick_snapshot = tags.snapshot && !tags.thin;
  std::vector<std::string> out = StateTags(tags.state, thick_snapshot);
  if (!thick_snapshot) {
    Emit(out, kVersionKey, tags.thin || tags.store ? kThinVersion : kVersion);
  }
  Emit(out, kIdKey, tags.id);
  Emit(out, kNameKey, tags.co_name);
  out.push_back(SizeTag(tags.size));
  Emit(out, kProfileKey, tags.profile);
  Emit(out, kAccessKey, tags.access);
  Emit(out, kEraseKey, tags.erase);
  if (!tags.fs_type.empty()) {
    Emit(out, kFsTypeKey, tags.fs_type);
  }
  if (!tags.formatted.empty()) {
    out.push_back(FormattedTag(tags.formatted));
  }
  if (!tags.erased.empty()) {
    out.push_back(ErasedTag(tags.erased));
  }
  if (!tags.scrubbed.empty()) {
    out.push_back(ScrubbedTag(tags.scrubbed));
  }
  if (tags.overruled > 0) {
    out.push_back(OverruledTag(tags.overruled));
  }
  if (tags.overruled_metadata > 0) {
    out.push_back(OverruledMetadataTag(tags.overruled_metadata));
  }
  if (!tags.scrubbed_metadata.empty()) {
    out.push_back(ScrubbedMetadataTag(tags.scrubbed_metadata));
  }
  if (tags.ephemeral) {
    Emit(out, kEphemeralKey, kTrue);
  }
  if (tags.asked > Bytes{}) {
    out.push_back(AskedTag(tags.asked));
  }
  if (!tags.source.empty()) {
    Emit(out, kSourceKey, tags.source);
  }
  if (!tags.restored.empty()) {
    Emit(out, kRestoredKey, tags.restored);
  }
  std::ranges::move(MountTags(tags.mount_point, tags.mount_options), std::back_inserter(out));
  if (!tags.s3.empty()) {
    Emit(out, kS3Key, tags.s3);
  }
  if (tags.cow) {
    Emit(out, kCowKey, kTrue);
  }
  if (tags.cuts) {
    out.push_back(CutsTag());
  }
  if (!tags.copying.empty()) {
    out.push_back(CopyingTag(tags.copying));
  }
  if (const std::string_view kind = KindOf(tags); !kind.empty()) {
    Emit(out, kKindKey, kind);
  }
  if (tags.snapshot) {
    if (tags.thin) {
      out.push_back(MappedTag(tags.mapped));
    }
    if (!tags.group.empty()) {
      Emit(out, kGroupKey, tags.group);
      Emit(out, kGroupNameKey, tags.group_name);
      Emit(out, kGroupMembersKey, fmt::format("{}", tags.group_members));
    }
    out.push_back(CutTag(tags.cut));
    Emit(out, kLengthKey, fmt::format("{}", tags.length.value));
  }
  return out;
}

std::string DroppingTag(std::chrono::sys_seconds when) {
  return fmt::format("{}={}", kDroppingKey, when.time_since_epoch().count());
}

std::vector<std::string> DroppingTags(const std::vector<std::string>& tags) {
  std::vector<std::string> out;
  std::ranges::copy_if(tags, std::back_inserter(out), [](const std::string& tag) {
    return tag.starts_with(kDroppingKey) && tag.substr(kDroppingKey.size()).starts_with('=');
  });
  return out;
}

std::optional<std::chrono::sys_seconds> DroppedAt(const std::vector<std::string>& tags) {
  constexpr uint64_t kLatest = uint64_t{1} << 40U;  // so that no arithmetic with it overflows
  std::optional<std::chrono::sys_seconds> latest;
  for (const std::string& tag : DroppingTags(tags)) {
    const auto seconds = ParseNumber(kDroppingKey, tag.substr(kDroppingKey.size() + 1));
    if (seconds.has_value() && *seconds <= kLatest) {
      const std::chrono::sys_seconds when{std::chrono::seconds(*seconds)};
      latest = std::max(latest.value_or(when), when);
    }
  }
  return latest;
}

Result<std::optional<VolumeTags>> ParseTags(const std::vector<std::string>& tags) {
  QUARRY_ASSIGN(const TagTable table, TagTable::From(tags));
  if (table.empty()) {
    return std::optional<VolumeTags>();
  }
  VolumeTags out;
  // A volume in state creating has its marker only. The commit that makes it ready adds the other tags.
  const bool whole = table.state() != VolumeState::kCreating;
  QUARRY_TRY(CheckVersion(table, whole));
  if (!table.state().has_value()) {
    return Error(Code::kCorrupt, fmt::format("none of the tags {}, {}, {} is there", kCreatingTag,
                                             StateTag(VolumeState::kReady), StateTag(VolumeState::kErasing)));
  }
  out.state = *table.state();
  QUARRY_ASSIGN(out.id, table.Text(kIdKey, whole));
  QUARRY_ASSIGN(out.co_name, table.Text(kNameKey, whole));
  QUARRY_ASSIGN(const std::string size, table.Text(kSizeKey, whole));
  if (!size.empty() || whole) {
    QUARRY_ASSIGN(out.size.value, ParseNumber(kSizeKey, size));
  }
  QUARRY_ASSIGN(out.profile, table.Text(kProfileKey, whole));
  QUARRY_ASSIGN(out.access, table.Text(kAccessKey, whole));
  QUARRY_ASSIGN(out.erase, table.Text(kEraseKey, whole));
  QUARRY_ASSIGN(out.fs_type, table.Text(kFsTypeKey, false));
  QUARRY_ASSIGN(out.formatted, table.Text(kFormattedKey, false));
  QUARRY_ASSIGN(out.erased, table.Text(kErasedKey, false));
  QUARRY_ASSIGN(out.scrubbed, table.Text(kScrubbedKey, false));
  QUARRY_ASSIGN(out.scrubbed_metadata, table.Text(kScrubbedMetadataKey, false));
  QUARRY_ASSIGN(out.mount_point, table.Text(kMountKey, false));
  QUARRY_ASSIGN(out.mount_options, table.Text(kMountOptionsKey, false));
  QUARRY_ASSIGN(out.s3, table.Text(kS3Key, false));
  QUARRY_ASSIGN(const std::string overruled, table.Text(kOverruledKey, false));
  if (!overruled.empty()) {
    QUARRY_ASSIGN(out.overruled, ParseNumber(kOverruledKey, overruled));
  }
  QUARRY_ASSIGN(const std::string of_metadata, table.Text(kOverruledMetadataKey, false));
  if (!of_metadata.empty()) {
    QUARRY_ASSIGN(out.overruled_metadata, ParseNumber(kOverruledMetadataKey, of_metadata));
  }
  QUARRY_ASSIGN(out.ephemeral, ParseFlag(table, kEphemeralKey));
  QUARRY_ASSIGN(out.cow, ParseFlag(table, kCowKey));
  QUARRY_ASSIGN(out.cuts, ParseFlag(table, kCutsKey));
  QUARRY_ASSIGN(out.copying, table.Text(kCopyingKey, false));
  QUARRY_ASSIGN(const std::string asked, table.Text(kAskedKey, false));
  if (!asked.empty()) {
    QUARRY_ASSIGN(out.asked.value, ParseNumber(kAskedKey, asked));
  }
  QUARRY_ASSIGN(out.source, table.Text(kSourceKey, false));
  QUARRY_ASSIGN(out.restored, table.Text(kRestoredKey, false));
  QUARRY_TRY(ParseKind(table, out));
  return std::optional<VolumeTags>(std::move(out));
}

std::string EscapeForTag(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (StaysReadable(c)) {
      out += c;
    } else {
      out += fmt::format("+{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<std::string> UnescapeFromTag(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (StaysReadable(text[i])) {
      out += text[i];
      continue;
    }
    const int high = text[i] == '+' && i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (low < 0) {
      return Error(Code::kCorrupt, fmt::format("'{}' is not escaped text at position {}", text, i));
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool IsPoolName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxPoolName && IsAlnum(name.front()) &&
         std::ranges::all_of(name, [](char c) { return IsAlnum(c) || c == '_' || c == '-' || c == '.'; });
}

std::string VolumeId(std::string_view pool, std::string_view lv_name, std::string_view node_hash) {
  return fmt::format("{}.{}{}{}", pool, node_hash, node_hash.empty() ? "" : ".", lv_name);
}

std::string NodeHash(std::string_view node_id) {
  constexpr uint32_t kOffset = 2166136261;
  constexpr uint32_t kPrime = 16777619;
  uint32_t hash = kOffset;
  for (const char c : node_id) {
    hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  }
  return fmt::format("{:08x}", hash);
}

std::optional<std::string> ForeignVolumeId(std::string_view pool, std::string_view lv_uuid) {
  const std::string digits = WithoutHyphens(lv_uuid);
  if (digits.size() != kUuidDigits || !std::ranges::all_of(digits, IsAlnum)) {
    return std::nullopt;
  }
  return fmt::format("{}.{}{}", pool, kForeignPrefix, digits);
}

std::optional<VolumeIdParts> ParseVolumeId(std::string_view id) {
  const size_t dot = id.rfind('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view pool = id.substr(0, dot);
  const std::string_view rest = id.substr(dot + 1);
  if (rest.starts_with(kForeignPrefix) && rest.size() == 1 + kUuidDigits &&
      std::ranges::all_of(rest, IsAlnum) && IsPoolName(pool)) {
    return VolumeIdParts{std::string(pool), "", std::string(rest.substr(1))};
  }
  std::string node_hash;
  if (const size_t before = pool.rfind('.');
      before != std::string_view::npos && IsNodeHash(pool.substr(before + 1))) {
    node_hash = pool.substr(before + 1);
    pool = pool.substr(0, before);
  }
  if (!IsOurLvName(rest) || !IsPoolName(pool)) {
    return std::nullopt;
  }
  return VolumeIdParts{std::string(pool), std::string(rest), "", std::move(node_hash)};
}

std::vector<std::string> TagsOfOurs(const std::vector<std::string>& tags) {
  std::vector<std::string> ours;
  std::ranges::copy_if(tags, std::back_inserter(ours),
                       [](const std::string& tag) { return tag.starts_with(kPrefix); });
  return ours;
}

Result<std::optional<std::string>> CsilvmName(std::string_view lv_name,
                                              const std::vector<std::string>& tags) {
  constexpr std::string_view kPlain = "VN.";
  constexpr std::string_view kEncoded = "VN+";
  if (!lv_name.starts_with("csilv")) {
    return std::optional<std::string>();
  }
  std::optional<std::string> name;
  for (const std::string& tag : tags) {
    if (!tag.starts_with(kPlain) && !tag.starts_with(kEncoded)) {
      continue;
    }
    if (name.has_value()) {
      return Error(Code::kCorrupt, fmt::format("it has several of csilvm's name tags, '{}' among them", tag));
    }
    name = tag.substr(kPlain.size());
    if (tag.starts_with(kEncoded)) {
      QUARRY_ASSIGN(name, FromBase64Url(*name).Context(fmt::format("tag '{}'", tag)));
    }
  }
  if (!name.has_value() || name->empty()) {
    return Error(Code::kCorrupt, "it has none of csilvm's name tags (VN.NAME or VN+BASE64)");
  }
  return name;
}

std::string DmUuid(std::string_view vg_uuid, std::string_view lv_uuid) {
  return fmt::format("{}{}{}", kDmUuidPrefix, WithoutHyphens(vg_uuid), WithoutHyphens(lv_uuid));
}

std::string DmUuidBelow(std::string_view dm_uuid) {
  return fmt::format("{}{}", dm_uuid, kBelow);
}

std::string DmUuidOfStore(std::string_view dm_uuid) {
  return fmt::format("{}{}", dm_uuid, kStore);
}

std::string DmUuidOfPart(std::string_view dm_uuid, std::string_view name) {
  return fmt::format("{}{}", dm_uuid,
                     name.ends_with(kDataPart)       ? "-tdata"
                     : name.ends_with(kMetadataPart) ? "-tmeta"
                                                     : "");
}

std::string DmUuidOfPool(std::string_view dm_uuid) {
  return fmt::format("{}{}", dm_uuid, kPoolLayer);
}

std::string DmUuidAbovePool(std::string_view dm_uuid) {
  return fmt::format("{}-pool", dm_uuid);
}

std::string_view WithoutPoolLayer(std::string_view dm_name) {
  for (const std::string_view layer : {kPoolLayer, kDataPart, kMetadataPart}) {
    if (dm_name.ends_with(layer)) {
      return dm_name.substr(0, dm_name.size() - layer.size());
    }
  }
  return dm_name;
}

std::string_view WithoutLayer(std::string_view dm_name) {
  for (const std::string_view layer : {kBelow, kStore}) {
    if (dm_name.ends_with(layer)) {
      return dm_name.substr(0, dm_name.size() - layer.size());
    }
  }
  return dm_name;
}

bool IsDmUuidOf(std::string_view dm_uuid, std::string_view lv_uuid) {
  const std::string digits = WithoutHyphens(lv_uuid);
  return digits.size() == kUuidDigits && dm_uuid.size() == kDmUuidPrefix.size() + 2 * kUuidDigits &&
         dm_uuid.starts_with(kDmUuidPrefix) && dm_uuid.ends_with(digits);
}

std::string DmName(std::string_view vg_name, std::string_view lv_name) {
  std::string out;
  for (const char c : vg_name) {
    out.append(c == '-' ? 2 : 1, c);
  }
  out += '-';
  for (const char c : lv_name) {
    out.append(c == '-' ? 2 : 1, c);
  }
  return out;
}

}  // namespace quarry::lvm
