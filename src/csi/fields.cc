#include "csi/fields.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace quarry::csi {
namespace {

// Removes the first code point from `text`; nullopt if `text` does not begin with valid UTF-8 (table 3-7 of
// the Unicode standard).
std::optional<char32_t> TakeCodePoint(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) {
    return std::nullopt;
  }
  char32_t point = length == 1 ? lead : lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return std::nullopt;
    }
    point = (point << 6) | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  if (overlong || (point >= 0xD800 && point <= 0xDFFF) || point > 0x10FFFF) {
    return std::nullopt;
  }
  text.remove_prefix(length);
  return point;
}

bool IsForbiddenInNames(char32_t point) {
  const bool allowed_control = point == 0x09 || point == 0x0A || point == 0x0D;
  return (point < 0x20 && !allowed_control) || (point >= 0x7F && point <= 0x9F);
}

}  // namespace

Error Invalid(std::string_view field, std::string_view what) {
  return Error(Code::kInvalidArgument, fmt::format("{}: {}", field, what));
}

Error Unsupported(std::string_view field, std::string_view what) {
  return Error(Code::kUnsupported, fmt::format("{}: {}", field, what));
}

Status CheckRequired(std::string_view field, std::string_view value) {
  if (value.empty()) {
    return Invalid(field, "is required");
  }
  return Ok();
}

Status CheckName(std::string_view field, std::string_view value) {
  QUARRY_TRY(CheckRequired(field, value));
  while (!value.empty()) {
    const std::optional<char32_t> point = TakeCodePoint(value);
    if (!point) {
      return Invalid(field, "must be valid UTF-8");
    }
    if (IsForbiddenInNames(*point)) {
      return Invalid(field, fmt::format("must not contain the control character U+{:04X}",
                                        static_cast<uint32_t>(*point)));
    }
  }
  return Ok();
}

Result<AbsolutePath> ParsePath(std::string_view field, std::string_view value) {
  QUARRY_TRY(CheckRequired(field, value));
  Result<AbsolutePath> path = AbsolutePath::Parse(value).Context(field);
  if (path.has_value() && path->str() == "/") {
    return Invalid(field, "must not be the root directory");
  }
  return path;
}

int64_t ToInt64(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
}

int64_t ToInt64(Bytes bytes) {
  return ToInt64(bytes.value);
}

}  // namespace quarry::csi
