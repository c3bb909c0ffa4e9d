// A directory for a while.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace quarry {

// Only its owner may enter it. The destructor removes it with its content.
class ScratchFolder {
 public:
  // mkdtemp(3). `pattern`: an absolute path that ends with "XXXXXX".
  static Result<ScratchFolder> Make(std::string pattern);
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace quarry
