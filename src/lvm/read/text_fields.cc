#include "lvm/read/text_fields.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace quarry::lvm::text {
namespace {

constexpr uint64_t kNumberLimit = uint64_t{1} << 40;
// 2 PiB with extents of 4 MiB.
constexpr uint64_t kExtentsLimit = uint64_t{1} << 29;

Result<uint64_t> ToNumber(std::string_view key, const TextValue& value, uint64_t limit) {
  uint64_t number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [parsed, error] = std::from_chars(value.text.data(), end, number);
  if (value.quoted || error != std::errc() || parsed != end || number >= limit) {
    return AskLvm(fmt::format("{} is '{}', not a valid number", key, value.text));
  }
  return number;
}

}  // namespace

Error AskLvm(std::string what) {
  return {Code::kUnsupported, "metadata text: " + std::move(what)};
}

Status Fields::Add(std::string_view key, std::span<const TextValue> values) {
  if (Has(key)) {
    return AskLvm(fmt::format("{} is there twice", key));
  }
  items_.push_back({std::string(key), {values.begin(), values.end()}, false});
  return Ok();
}

Fields::Item* Fields::Find(std::string_view key) {
  const auto found = std::ranges::find(items_, key, &Item::key);
  return found == items_.end() ? nullptr : &*found;
}

Result<std::vector<TextValue>> Fields::Take(std::string_view key) {
  Item* const item = Find(key);
  if (item == nullptr || std::exchange(item->taken, true)) {
    return AskLvm(fmt::format("{} is missing", key));
  }
  return std::move(item->values);
}

Result<uint64_t> Fields::Number(std::string_view key) {
  QUARRY_ASSIGN(const std::vector<TextValue> values, Take(key));
  if (values.size() != 1) {
    return AskLvm(fmt::format("{} is not a number", key));
  }
  return ToNumber(key, values[0], kNumberLimit);
}

Result<uint64_t> Fields::NumberOr(std::string_view key, uint64_t otherwise) {
  return Has(key) ? Number(key) : Result<uint64_t>(otherwise);
}

Result<Extents> Fields::ExtentsOf(std::string_view key) {
  QUARRY_ASSIGN(const uint64_t number, Number(key));
  if (number >= kExtentsLimit) {
    return AskLvm(fmt::format("{} is {}", key, number));
  }
  return Extents{number};
}

Result<Bytes> Fields::Sectors(std::string_view key) {
  constexpr uint64_t kSector = 512;
  QUARRY_ASSIGN(const uint64_t number, Number(key));
  return Bytes{number * kSector};
}

Result<std::string> Fields::Word(std::string_view key) {
  QUARRY_ASSIGN(std::vector<TextValue> values, Take(key));
  if (values.size() != 1 || !values[0].quoted || values[0].text.empty()) {
    return AskLvm(fmt::format("{} is not a word", key));
  }
  return std::move(values[0].text);
}

Result<std::vector<std::string>> Fields::Words(std::string_view key) {
  std::vector<std::string> words;
  if (!Has(key)) {
    return words;
  }
  QUARRY_ASSIGN(std::vector<TextValue> values, Take(key));
  for (TextValue& value : values) {
    if (!value.quoted || value.text.empty()) {
      return AskLvm(fmt::format("{} has an item that is not a word", key));
    }
    words.push_back(std::move(value.text));
  }
  return words;
}

Result<std::vector<std::string>> Fields::Flags(std::string_view key,
                                               std::initializer_list<std::string_view> known) {
  if (!Has(key)) {
    return AskLvm(fmt::format("{} is missing", key));
  }
  QUARRY_ASSIGN(std::vector<std::string> flags, Words(key));
  for (const std::string& flag : flags) {
    if (std::ranges::find(known, flag) == known.end()) {
      return AskLvm(fmt::format("{} holds {}", key, flag));
    }
  }
  return flags;
}

Result<std::vector<Fields::Place>> Fields::Places(std::string_view key) {
  QUARRY_ASSIGN(std::vector<TextValue> values, Take(key));
  std::vector<Place> places;
  for (size_t i = 0; i < values.size(); i += 2) {
    if (!values[i].quoted || i + 1 == values.size()) {
      return AskLvm(fmt::format("{} is not a list of places", key));
    }
    QUARRY_ASSIGN(const uint64_t first, ToNumber(key, values[i + 1], kExtentsLimit));
    places.push_back({std::move(values[i].text), {first}});
  }
  return places;
}

bool Fields::Has(std::string_view key) const {
  return std::ranges::find(items_, key, &Item::key) != items_.end();
}

bool Fields::WordIs(std::string_view key, std::string_view word) const {
  const auto found = std::ranges::find(items_, key, &Item::key);
  return found != items_.end() && found->values.size() == 1 && found->values[0].quoted &&
         found->values[0].text == word;
}

void Fields::Ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (Item* const item = Find(key); item != nullptr) {
      item->taken = true;
    }
  }
}

Status Fields::Finish(std::string_view section) const {
  const auto left = std::ranges::find(items_, false, &Item::taken);
  return left == items_.end() ? Ok() : Status(AskLvm(fmt::format("{} in {}", left->key, section)));
}

}  // namespace quarry::lvm::text
