#include "lvm/run/lvm_failure.h"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

constexpr int kBadArguments = 3;
// `Physical Volume "/dev/x" not found in Volume Group "vg"`, in lower case. For an LV the words lack the
// quote.
constexpr std::string_view kPvNotInGroup = "not found in volume group \"";

struct Meaning {
  std::string_view words;  // lower case
  Code code;
  std::string_view remedy;  // prepended to LVM's words; empty: they suffice
};

constexpr std::string_view kMetadataFull =
    "no room in the group's metadata area, remove logical volumes or tags of the group first";

// The first match wins. Causes precede their consequences ("Failed to write VG" follows many causes).
constexpr auto kMeanings = std::to_array<Meaning>({
    {"exceeds maximum metadata size", Code::kNoSpace, kMetadataFull},
    {"too large for circular buffer", Code::kNoSpace, kMetadataFull},
    {"while pvs are missing", Code::kUnavailable, "a disk of the group is missing"},
    {"is prohibited while logical volume", Code::kPrecondition,
     "one of them is a part of the other, and they are not activated alone: deactivate the active one"},
    {"free space in thin pool", Code::kNoSpace, "the thin pool is full, extend it first"},
    {"already contain thin device", Code::kPrecondition,
     "a command that made a snapshot in the thin pool was cut off, and LVM cannot finish it (docs/thin.md)"},
    {"with transaction id", Code::kCorrupt, ""},
    {"manual repair required", Code::kCorrupt, ""},
    {"transaction_id is", Code::kCorrupt, ""},
    {"does not accept lv type", Code::kPrecondition, ""},
    {"not larger than existing size", Code::kPrecondition, ""},
    {"refusing activation of partial lv", Code::kUnavailable, "a disk of the volume is missing"},
    {"refusing refresh of partial lv", Code::kUnavailable, "a disk of the volume is missing"},
    {"multiple vgs found with the same name", Code::kPrecondition, "two groups have this name"},
    {"unable to suspend", Code::kUnavailable,
     "if the file system is frozen (fsfreeze), thaw it: some kernels cannot freeze it once more"},
    {"still in use", Code::kPrecondition, ""},
    {"locked logical volume", Code::kUnavailable, "it is being moved to another disk"},
    {"is exported", Code::kPrecondition, ""},
    {"is already in volume group", Code::kPrecondition, ""},
    {"existing signature left on the device", Code::kPrecondition, ""},
    {"with system id", Code::kPrecondition, "the group belongs to another host"},
    {"can't get lock", Code::kUnavailable, ""},
    {"flock failed", Code::kUnavailable, ""},
    {"not detected in your kernel", Code::kUnsupported, ""},
    {"check that device-mapper is available", Code::kUnsupported, ""},
    {"already exists in volume group", Code::kAlreadyExists, ""},
    {"contains a filesystem in use", Code::kPrecondition, ""},
    {"is used by another device", Code::kPrecondition, ""},
    {" in use.", Code::kPrecondition, ""},
    {"device or resource busy", Code::kPrecondition, ""},
    // From lvremove, after its question got no answer.
    {"not removed", Code::kPrecondition, "it is active, or another volume is built on it"},
    {"maximum number of logical volumes", Code::kNoSpace, ""},
    {"insufficient free space", Code::kNoSpace, ""},
    {"insufficient suitable", Code::kNoSpace, ""},
    {"no specified pvs have space available", Code::kNoSpace, ""},
    {"unable to allocate extents", Code::kNoSpace, ""},
    // The plan names a disk that has left the group since: read and plan again.
    {kPvNotInGroup, Code::kUnavailable, "the group has changed"},
    {"input/output error", Code::kIo, ""},
    {"failed to write vg", Code::kIo, ""},
});

std::string Lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

// `Volume group "x" not found`, for any x.
bool NamesAbsentGroup(std::string_view lower) {
  constexpr std::string_view kStart = "volume group \"";
  for (size_t at = lower.find(kStart); at != std::string_view::npos; at = lower.find(kStart, at + 1)) {
    const size_t end = lower.find('"', at + kStart.size());
    if (end != std::string_view::npos && lower.substr(end).starts_with("\" not found")) {
      return true;
    }
  }
  return false;
}

bool NamesAbsentLv(std::string_view lower) {
  return lower.contains("failed to find logical volume") ||
         (lower.contains("not found in volume group") && !lower.contains(kPvNotInGroup));
}

}  // namespace

Error LvmFailure(std::string_view command, const Finished& finished) {
  const std::string words = ToolWords(finished.err);
  if (finished.signal != 0) {
    return {Code::kUnavailable, fmt::format("{}: killed by signal {}: {}", command, finished.signal, words)};
  }
  if (finished.exit_status == kBadArguments) {
    return {Code::kInternal, fmt::format("{}: refused its arguments: {}", command, words)};
  }
  const std::string lower = Lower(finished.err);
  if (NamesAbsentGroup(lower) || NamesAbsentLv(lower)) {
    return {Code::kNotFound, fmt::format("{}: {}", command, words)};
  }
  for (const Meaning& meaning : kMeanings) {
    if (lower.contains(meaning.words)) {
      const std::string_view separator = meaning.remedy.empty() ? "" : ": ";
      return {meaning.code, fmt::format("{}: {}{}{}", command, meaning.remedy, separator, words)};
    }
  }
  return {Code::kInternal, fmt::format("{}: exit status {}: {}", command, finished.exit_status, words)};
}

bool SaysNothingToChange(const Finished& finished) {
  const std::string lower = Lower(finished.err);
  const size_t policy = lower.find("allocation policy of logical volume ");
  return lower.contains("matches existing size") || lower.contains("no size change") ||
         (policy != std::string::npos && lower.find(" is already ", policy) != std::string::npos);
}

bool SaysNoSuchGroup(const Finished& finished) {
  return NamesAbsentGroup(Lower(finished.err));
}

bool SaysNoSuchLv(const Finished& finished) {
  const std::string lower = Lower(finished.err);
  return NamesAbsentLv(lower) && !NamesAbsentGroup(lower);
}

}  // namespace quarry::lvm
