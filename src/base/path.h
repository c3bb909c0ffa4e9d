// An absolute path, validated when it was made.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace quarry {

// Absolute, normal (no empty, "." or ".." component, no trailing slash), without NUL bytes, shorter than
// PATH_MAX. Purely lexical: it does not show whether the path exists.
class AbsolutePath {
 public:
  // kInvalidArgument says what is wrong. Repeated and trailing slashes are removed; "." and ".." are refused.
  static Result<AbsolutePath> Parse(std::string_view text);

  const std::string& str() const { return text_; }
  const char* c_str() const { return text_.c_str(); }
  // "/" for a child of the root.
  AbsolutePath Parent() const;
  std::string Name() const;
  auto operator<=>(const AbsolutePath&) const = default;

 private:
  explicit AbsolutePath(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace quarry
