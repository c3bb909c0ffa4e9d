// The elements of LVM's reports: lines, rows, fields, extent ranges. For report_parser.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "lvm/snapshot.h"

namespace quarry::lvm::report {

// kCorrupt, with "LVM report:" before the message.
Error Corrupt(std::string message);

// Only the lines that can be part of LVM's JSON. LVM puts every row, bracket and comma on a line of its own.
std::string JsonLines(std::string_view text);

// "[name]" or "name" as "name". kCorrupt if the result is empty.
Result<std::string> WithoutBrackets(std::string name);

// One row of a section: fields by name, every value a string. Errors name section and field. Keeps a
// reference to the document.
class Row {
 public:
  Row(const char* section, const nlohmann::json& object) : section_(section), object_(object) {}

  Result<std::string> Text(const char* field) const;
  // As Text, but `otherwise` if the row has no such field.
  Result<std::string> TextOr(const char* field, std::string_view otherwise) const;
  Result<std::string> NonEmpty(const char* field) const;
  Result<uint64_t> Number(const char* field) const;
  // As Number, but `otherwise` if the row has no such field, or the field is empty.
  Result<uint64_t> NumberOr(const char* field, uint64_t otherwise) const;
  // True for `yes`, false for an empty field.
  Result<bool> Flag(const char* field, std::string_view yes) const;
  // Comma-separated words.
  Result<std::vector<std::string>> List(const char* field) const;
  // A number with a fraction, or nullopt for an empty field.
  Result<std::optional<double>> Percent(const char* field) const;

 private:
  const char* section_;
  const nlohmann::json& object_;
};

// "name:first-last" of seg_le_ranges.
struct NamedRange {
  std::string_view name;
  ExtentRange range;
};

// Splits "a:0-4,b:7-9". Device paths may contain ':' and ',', so a piece ends at ":<n>-<n>".
class RangeReader {
 public:
  explicit RangeReader(std::string_view text) : text_(text) {}

  // The next piece; an empty name marks the end. kCorrupt for anything else.
  Result<NamedRange> Next();

 private:
  bool Digits(size_t& at, uint64_t& value) const;
  bool Char(size_t& at, char wanted) const;

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace quarry::lvm::report
