// `mkfsoptions` of a storage class, word by word. Only options in the table of the file system reach mkfs:
// mkfs would take a stray word for another device.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quarry::mount {

struct MkfsOptionRule {
  std::string_view name;  // "-b", "--csum"
  bool takes_value = true;
  std::string_view refused = {};  // keys that the value may not set, joined by commas: "file,logdev"
};

struct MkfsOption {
  std::string name;
  std::string value;
};

// Accepts "-b 4096", "-b4096", "--csum xxhash" and "--csum=xxhash". kInvalidArgument names the refused word.
Result<std::vector<MkfsOption>> ParseMkfsOptions(std::string_view text,
                                                 std::span<const MkfsOptionRule> rules);

// Whether the value of an option `name` sets `key` ("su=64k,sw=3" sets su and sw).
bool SetsKey(std::span<const MkfsOption> options, std::string_view name, std::string_view key);

// Appends the options as words.
void AppendOptions(std::vector<std::string>& words, std::span<const MkfsOption> options);

}  // namespace quarry::mount
