#include "dm/thin_lines.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dm/line_words.h"

namespace quarry::dm {
namespace {

constexpr uint64_t kSector = 512;

using Mode = ThinPoolStatus::Mode;
using Discards = ThinPoolStatus::Discards;

// Sets `out` to what `word` means. False: the word is unknown.
template <typename T, size_t N>
bool Read(std::string_view word, const std::array<std::pair<std::string_view, T>, N>& known, T& out) {
  const auto found = std::ranges::find(known, word, &std::pair<std::string_view, T>::first);
  if (found != known.end()) {
    out = found->second;
  }
  return found != known.end();
}

constexpr std::array<std::pair<std::string_view, Mode>, 3> kModes = {
    {{"rw", Mode::kReadWrite}, {"ro", Mode::kReadOnly}, {"out_of_data_space", Mode::kOutOfDataSpace}}};
constexpr std::array<std::pair<std::string_view, Discards>, 3> kDiscards = {
    {{"discard_passdown", Discards::kPassedDown},
     {"no_discard_passdown", Discards::kNotPassedDown},
     {"ignore_discard", Discards::kIgnored}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> kWhenFull = {
    {{"error_if_no_space", true}, {"queue_if_no_space", false}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> kChecks = {{{"needs_check", true}, {"-", false}}};

bool ReadNumber(std::string_view word, uint64_t& out) {
  const auto number = Number(word);
  out = number.value_or(0);
  return number.has_value();
}

// "used/total"
bool ReadUse(std::string_view word, uint64_t& used, uint64_t& total) {
  const size_t slash = word.find('/');
  return slash != std::string_view::npos && ReadNumber(word.substr(0, slash), used) &&
         ReadNumber(word.substr(slash + 1), total) && used <= total;
}

bool ReadHeldRoot(std::string_view word, std::optional<uint64_t>& out) {
  out = Number(word);
  return out.has_value() || word == "-";
}

bool IsFailed(const std::vector<std::string_view>& words) {
  return words.size() == 1 && (words[0] == "Fail" || words[0] == "Error");
}

// The end of a range of sectors, in bytes. nullopt: more than 64 bits.
std::optional<Bytes> InBytes(std::optional<uint64_t> sectors) {
  return sectors.has_value() && *sectors <= UINT64_MAX / kSector ? std::optional(Bytes{*sectors * kSector})
                                                                 : std::nullopt;
}

}  // namespace

Result<ThinPoolStatus> ParseThinPoolStatus(std::string_view parameters) {
  const std::vector<std::string_view> words = Words(parameters);
  ThinPoolStatus out;
  if (IsFailed(words)) {
    return out;
  }
  constexpr size_t kWords = 9;
  if (words.size() != kWords || !ReadNumber(words[0], out.transaction_id) ||
      !ReadUse(words[1], out.metadata_used, out.metadata_total) ||
      !ReadUse(words[2], out.data_used, out.data_total) || !ReadHeldRoot(words[3], out.held_root) ||
      !Read(words[4], kModes, out.mode) || !Read(words[5], kDiscards, out.discards) ||
      !Read(words[6], kWhenFull, out.fails_when_full) || !Read(words[7], kChecks, out.needs_check) ||
      !ReadNumber(words[8], out.metadata_low_water)) {
    return Error(Code::kCorrupt, fmt::format("'{}' is not the status of a thin pool", parameters));
  }
  return out;
}

Result<ThinStatus> ParseThinStatus(std::string_view parameters) {
  const std::vector<std::string_view> words = Words(parameters);
  if (IsFailed(words)) {
    return ThinStatus{.failed = true, .mapped = {}, .mapped_end = {}};
  }
  const auto corrupt = [&] {
    return Error(Code::kCorrupt, fmt::format("'{}' is not the status of a thin device", parameters));
  };
  if (words.size() != 2) {
    return corrupt();
  }
  const auto mapped = InBytes(Number(words[0]));
  const auto highest = Number(words[1]);
  const auto end = words[1] == "-"                                ? std::optional(Bytes{0})
                   : highest.has_value() && *highest < UINT64_MAX ? InBytes(*highest + 1)
                                                                  : std::nullopt;
  if (!mapped.has_value() || !end.has_value()) {
    return corrupt();
  }
  return ThinStatus{.failed = false, .mapped = *mapped, .mapped_end = *end};
}

}  // namespace quarry::dm
