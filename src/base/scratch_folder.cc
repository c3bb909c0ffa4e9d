#include "base/scratch_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace quarry {

Result<ScratchFolder> ScratchFolder::Make(std::string pattern) {
  if (mkdtemp(pattern.data()) == nullptr) {
    return ErrnoError(fmt::format("making the directory '{}'", pattern));
  }
  return ScratchFolder(std::move(pattern));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) {
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace quarry
