#include "lvm/read/report_fields.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace quarry::lvm::report {
namespace {

// Parses all of `text` as a number.
template <typename Number, typename... Format>
bool Parse(std::string_view text, Number& value, Format... format) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format...);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Error Corrupt(std::string message) {
  return {Code::kCorrupt, "LVM report: " + std::move(message)};
}

std::string JsonLines(std::string_view text) {
  std::string clean(text);
  std::erase(clean, '\0');
  std::string out;
  out.reserve(clean.size());
  for (size_t at = 0; at < clean.size();) {
    const size_t end = std::min(clean.find('\n', at), clean.size());
    const std::string_view line = std::string_view(clean).substr(at, end - at);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && std::string_view("{}[],\"").contains(line[first])) {
      out.append(line).push_back('\n');
    }
    at = end + 1;
  }
  return out;
}

Result<std::string> WithoutBrackets(std::string name) {
  if (name.starts_with('[') && name.ends_with(']')) {
    name = name.substr(1, name.size() - 2);
  }
  if (name.empty()) {
    return Corrupt("an LV has no name");
  }
  return name;
}

Result<std::string> Row::Text(const char* field) const {
  const auto found = object_.find(field);
  if (found == object_.end() || !found->is_string()) {
    return Corrupt(fmt::format("section {} has no field {}", section_, field));
  }
  return found->get<std::string>();
}

Result<std::string> Row::TextOr(const char* field, std::string_view otherwise) const {
  return object_.contains(field) ? Text(field) : Result<std::string>(std::string(otherwise));
}

Result<std::string> Row::NonEmpty(const char* field) const {
  QUARRY_ASSIGN(std::string text, Text(field));
  if (text.empty()) {
    return Corrupt(fmt::format("field {} in section {} is empty", field, section_));
  }
  return text;
}

Result<uint64_t> Row::Number(const char* field) const {
  QUARRY_ASSIGN(const std::string text, Text(field));
  uint64_t value = 0;
  if (!Parse(text, value)) {
    return Corrupt(fmt::format("field {} in section {} is '{}', not a number", field, section_, text));
  }
  return value;
}

Result<uint64_t> Row::NumberOr(const char* field, uint64_t otherwise) const {
  QUARRY_ASSIGN(const std::string text, TextOr(field, ""));
  return text.empty() ? Result<uint64_t>(otherwise) : Number(field);
}

Result<bool> Row::Flag(const char* field, std::string_view yes) const {
  QUARRY_ASSIGN(const std::string text, Text(field));
  if (text != yes && !text.empty()) {
    return Corrupt(
        fmt::format("field {} in section {} is '{}', neither '{}' nor empty", field, section_, text, yes));
  }
  return !text.empty();
}

Result<std::vector<std::string>> Row::List(const char* field) const {
  QUARRY_ASSIGN(const std::string text, Text(field));
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Result<std::optional<double>> Row::Percent(const char* field) const {
  QUARRY_ASSIGN(const std::string text, Text(field));
  if (text.empty()) {
    return std::optional<double>();
  }
  double value = 0;
  if (!Parse(text, value, std::chars_format::fixed)) {
    return Corrupt(fmt::format("field {} in section {} is '{}', not a number", field, section_, text));
  }
  return std::optional<double>(value);
}

Result<NamedRange> RangeReader::Next() {
  for (size_t colon = text_.find(':', at_); colon != std::string_view::npos;
       colon = text_.find(':', colon + 1)) {
    size_t at = colon + 1;
    uint64_t first = 0;
    uint64_t last = 0;
    if (!Digits(at, first) || !Char(at, '-') || !Digits(at, last) || (at != text_.size() && !Char(at, ','))) {
      continue;
    }
    if (last < first || colon == at_) {
      break;
    }
    const std::string_view name = text_.substr(at_, colon - at_);
    at_ = at;
    return NamedRange{name, {{first}, {last - first + 1}}};
  }
  if (at_ != text_.size()) {
    return Corrupt(fmt::format("field seg_le_ranges in section seg makes no sense: '{}'", text_));
  }
  return NamedRange{};
}

bool RangeReader::Digits(size_t& at, uint64_t& value) const {
  const auto [end, error] = std::from_chars(text_.data() + at, text_.data() + text_.size(), value);
  at = static_cast<size_t>(end - text_.data());
  // LVM's extent counts have 32 bits. The limit keeps sums from overflowing.
  return error == std::errc() && value <= UINT32_MAX;
}

bool RangeReader::Char(size_t& at, char wanted) const {
  const bool there = at < text_.size() && text_[at] == wanted;
  at += there ? 1 : 0;
  return there;
}

}  // namespace quarry::lvm::report
