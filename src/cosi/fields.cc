#include "cosi/fields.h"

#include <algorithm>
#include <cctype>

#include "csi/fields.h"

namespace quarry::cosi {
namespace {

constexpr size_t kMaxDriverName = 63, kMaxName = 253, kMaxId = 2048;

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsLabel(std::string_view label, bool begins_with_letter) {
  return !label.empty() && (IsLower(label.front()) || (!begins_with_letter && IsDigit(label.front()))) &&
         label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
}

bool AllLabels(std::string_view name, bool begin_with_letters) {
  while (true) {
    const size_t dot = name.find('.');
    if (!IsLabel(name.substr(0, dot), begin_with_letters)) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

size_t LongestText(std::string_view field) {
  return field == "name" || field == "account_name" ? kMaxName
         : field == "bucket_id" || field == "existing_bucket_id" || field == "account_id" ||
                 field == "service_account_name"
             ? kMaxId
             : csi::kMaxText;
}

Status CheckDriverName(std::string_view name) {
  if (name.empty() || name.size() > kMaxDriverName || !AllLabels(name, true)) {
    return csi::Invalid("driver name",
                        "must have at most 63 characters, in labels of a-z, 0-9 and '-' that begin with a "
                        "letter, joined by '.'");
  }
  return Ok();
}

Status CheckName(std::string_view field, std::string_view value) {
  QUARRY_TRY(csi::CheckRequired(field, value));
  if (!AllLabels(value, false)) {
    return csi::Invalid(field,
                        "must be of a-z, 0-9, '-' and '.', with a letter or digit at both ends of each part");
  }
  return Ok();
}

Result<bucket::Access> ParseAccess(std::string_view field, std::string_view text) {
  if (text == "rw") {
    return bucket::Access::kReadWrite;
  }
  if (text == "ro") {
    return bucket::Access::kReadOnly;
  }
  if (text == "wo") {
    return bucket::Access::kWriteOnly;
  }
  return csi::Invalid(field, "must be rw, ro or wo");
}

}  // namespace quarry::cosi
