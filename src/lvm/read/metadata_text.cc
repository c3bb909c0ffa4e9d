#include "lvm/read/metadata_text.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace quarry::lvm {
namespace {

// LVM's own texts are four levels deep.
constexpr size_t kMaxDepth = 16;

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool IsNumberChar(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
}

// Characters in the name of a section or key. LV names are section names.
bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_.-+/").contains(c);
}

class Walker {
 public:
  Walker(std::string_view text, const TextAssign& assign)
      // The text on disk ends with a NUL.
      : text_(text.substr(0, text.find('\0'))), assign_(assign) {}

  Status Walk() {
    for (SkipBlanks(); at_ < text_.size(); SkipBlanks()) {
      if (Take('}')) {
        if (sections_.empty()) {
          return Fail("'}' without a section");
        }
        sections_.pop_back();
        continue;
      }
      QUARRY_TRY(Item());
    }
    return sections_.empty() ? Ok() : Status(Fail("a section is not closed"));
  }

 private:
  Error Fail(std::string_view what) const {
    return Error(Code::kCorrupt, fmt::format("metadata text, byte {}: {}", at_, what));
  }

  void SkipBlanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (IsBlank(text_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool Take(char wanted) {
    const bool there = at_ < text_.size() && text_[at_] == wanted;
    at_ += there ? 1 : 0;
    return there;
  }

  template <typename Predicate>
  std::string_view TakeWhile(Predicate predicate) {
    const size_t from = at_;
    while (at_ < text_.size() && predicate(text_[at_])) {
      ++at_;
    }
    return text_.substr(from, at_ - from);
  }

  // The start of a section, or an assignment.
  Status Item() {
    const std::string_view name = TakeWhile(IsNameChar);
    if (name.empty()) {
      return Fail("no name");
    }
    SkipBlanks();
    if (Take('{')) {
      if (sections_.size() == kMaxDepth) {
        return Fail("too deep");
      }
      sections_.emplace_back(name);
      return Ok();
    }
    if (!Take('=')) {
      return Fail("neither '{' nor '='");
    }
    SkipBlanks();
    values_.clear();
    QUARRY_TRY(Take('[') ? Array() : Value());
    return assign_(sections_, name, values_);
  }

  Status Array() {
    SkipBlanks();
    if (Take(']')) {
      return Ok();
    }
    while (true) {
      QUARRY_TRY(Value());
      SkipBlanks();
      if (Take(']')) {
        return Ok();
      }
      if (!Take(',')) {
        return Fail("neither ',' nor ']'");
      }
      SkipBlanks();
    }
  }

  Status Value() {
    if (!Take('"')) {
      const std::string_view number = TakeWhile(IsNumberChar);
      if (number.empty()) {
        return Fail("no value");
      }
      values_.push_back({false, std::string(number)});
      return Ok();
    }
    std::string string;
    while (at_ < text_.size() && text_[at_] != '"') {
      at_ += text_[at_] == '\\' && at_ + 1 < text_.size() ? 1 : 0;
      string += text_[at_++];
    }
    if (!Take('"')) {
      return Fail("a string is not closed");
    }
    values_.push_back({true, std::move(string)});
    return Ok();
  }

  std::string_view text_;
  const TextAssign& assign_;
  size_t at_ = 0;
  std::vector<std::string> sections_;
  std::vector<TextValue> values_;
};

Status ReadString(std::span<const TextValue> values, std::string& to) {
  if (values.size() != 1 || !values[0].quoted || values[0].text.empty()) {
    return Error(Code::kCorrupt, "metadata text: an id is not a string");
  }
  to = values[0].text;
  return Ok();
}

Status ReadNumber(std::span<const TextValue> values, uint64_t& to) {
  const std::string_view text = values.size() == 1 && !values[0].quoted ? values[0].text : std::string_view();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return Error(Code::kCorrupt, "metadata text: seqno is not a number");
  }
  return Ok();
}

}  // namespace

Status WalkText(std::string_view text, const TextAssign& assign) {
  return Walker(text, assign).Walk();
}

Result<GroupMembers> ParseGroupMembers(std::string_view text) {
  GroupMembers group;
  QUARRY_TRY(WalkText(text, [&](auto sections, std::string_view key, auto values) -> Status {
    if (sections.empty()) {
      return Ok();
    }
    if (group.name.empty()) {
      group.name = sections[0];
    } else if (group.name != sections[0]) {
      return Error(Code::kCorrupt, "metadata text: two groups in one text");
    }
    if (sections.size() == 1 && key == "id") {
      return ReadString(values, group.uuid);
    }
    if (sections.size() == 1 && key == "seqno") {
      return ReadNumber(values, group.seqno);
    }
    if (sections.size() == 3 && sections[1] == "physical_volumes" && key == "id") {
      return ReadString(values, group.pv_uuids.emplace_back());
    }
    return Ok();
  }));
  if (group.uuid.empty() || group.seqno == 0 || group.pv_uuids.empty()) {
    return Error(Code::kCorrupt, "metadata text: no volume group in it");
  }
  return group;
}

}  // namespace quarry::lvm
