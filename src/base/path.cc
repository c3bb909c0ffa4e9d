#include "base/path.h"

#include <climits>

#include <fmt/format.h>

namespace quarry {

Result<AbsolutePath> AbsolutePath::Parse(std::string_view text) {
  if (text.empty() || text.front() != '/') {
    return Error(Code::kInvalidArgument, "must be an absolute path");
  }
  if (text.size() >= PATH_MAX) {
    return Error(Code::kInvalidArgument,
                 fmt::format("must be shorter than {} bytes, is {}", PATH_MAX, text.size()));
  }
  if (text.find('\0') != std::string_view::npos) {
    return Error(Code::kInvalidArgument, "must not contain a NUL byte");
  }
  std::string normal;
  while (!text.empty()) {
    text.remove_prefix(1);  // the slash
    const std::string_view part = text.substr(0, text.find('/'));
    text.remove_prefix(part.size());
    if (part == "." || part == "..") {
      return Error(Code::kInvalidArgument, "must not contain '.' or '..' components");
    }
    if (!part.empty()) {
      normal += '/';
      normal += part;
    }
  }
  return AbsolutePath(normal.empty() ? "/" : std::move(normal));
}

AbsolutePath AbsolutePath::Parent() const {
  const size_t slash = text_.rfind('/');
  return AbsolutePath(slash == 0 ? "/" : text_.substr(0, slash));
}

std::string AbsolutePath::Name() const {
  return text_.substr(text_.rfind('/') + 1);
}

}  // namespace quarry
