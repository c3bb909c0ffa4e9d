#include "mount/filesystems/mkfs_options.h"

#include <algorithm>

#include <fmt/format.h>

namespace quarry::mount {
namespace {

std::string_view TakeWord(std::string_view& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) {
    text = {};
    return {};
  }
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

Error Refusal(std::string_view word, std::string_view why) {
  return Error(Code::kInvalidArgument, fmt::format("mkfsoptions: '{}' {}", word, why));
}

// Calls visit(key) for each key of "a=1,b,c=2"; stops when visit returns true.
template <typename Visit>
bool AnyKey(std::string_view value, Visit visit) {
  while (!value.empty()) {
    const std::string_view item = value.substr(0, value.find(','));
    value.remove_prefix(std::min(item.size() + 1, value.size()));
    if (visit(item.substr(0, item.find('=')))) {
      return true;
    }
  }
  return false;
}

bool ListHolds(std::string_view list, std::string_view key) {
  return AnyKey(list, [&](std::string_view listed) { return listed == key; });
}

// The rule for `word`. Text attached to the name ("-b4096", "--csum=xxhash") is the value.
const MkfsOptionRule* FindRule(std::span<const MkfsOptionRule> rules, std::string_view word,
                               std::string_view& attached) {
  const bool is_long = word.starts_with("--");
  const size_t name_length = is_long ? word.find('=') : 2;
  const std::string_view name = word.substr(0, name_length);
  attached = word.substr(name.size());
  if (is_long && !attached.empty()) {
    attached.remove_prefix(1);
  }
  const auto rule = std::ranges::find(rules, name, &MkfsOptionRule::name);
  return rule == rules.end() ? nullptr : &*rule;
}

}  // namespace

Result<std::vector<MkfsOption>> ParseMkfsOptions(std::string_view text,
                                                 std::span<const MkfsOptionRule> rules) {
  if (text.find('\0') != std::string_view::npos) {
    return Error(Code::kInvalidArgument, "mkfsoptions: holds a NUL byte");
  }
  std::vector<MkfsOption> out;
  for (std::string_view word = TakeWord(text); !word.empty(); word = TakeWord(text)) {
    std::string_view value;
    const MkfsOptionRule* rule = FindRule(rules, word, value);
    if (rule == nullptr) {
      return Refusal(word, "is not an option that a storage class may set");
    }
    if (!rule->takes_value && word != rule->name) {
      return Refusal(word, fmt::format("gives '{}' a value, but the option takes none", rule->name));
    }
    if (rule->takes_value && value.empty()) {
      value = TakeWord(text);
      if (value.empty() || value.front() == '-') {
        return Refusal(word, "needs a value");
      }
    }
    if (AnyKey(value, [&](std::string_view key) { return ListHolds(rule->refused, key); })) {
      return Refusal(fmt::format("{} {}", rule->name, value), "reaches outside of the volume");
    }
    out.push_back({std::string(rule->name), std::string(value)});
  }
  return out;
}

bool SetsKey(std::span<const MkfsOption> options, std::string_view name, std::string_view key) {
  return std::any_of(options.begin(), options.end(), [&](const MkfsOption& option) {
    return option.name == name && ListHolds(option.value, key);
  });
}

void AppendOptions(std::vector<std::string>& words, std::span<const MkfsOption> options) {
  for (const MkfsOption& option : options) {
    words.push_back(option.name);
    if (!option.value.empty()) {
      words.push_back(option.value);
    }
  }
}

}  // namespace quarry::mount
