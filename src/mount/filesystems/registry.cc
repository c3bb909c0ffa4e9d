#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mount/filesystems.h"

namespace quarry::mount {

std::span<const Filesystem* const> Filesystems() {
  static const std::array<const Filesystem*, 3> all = {&Ext4(), &Xfs(), &Btrfs()};
  return all;
}

Result<const Filesystem*> FindFilesystem(std::string_view type) {
  for (const Filesystem* fs : Filesystems()) {
    if (fs->type() == type) {
      return fs;
    }
  }
  return Error(Code::kInvalidArgument, fmt::format("file system '{}' is not one of {}", type,
                                                   fmt::join(SupportedFilesystems(), ", ")));
}

std::vector<std::string_view> SupportedFilesystems() {
  std::vector<std::string_view> out;
  for (const Filesystem* fs : Filesystems()) {
    out.push_back(fs->type());
  }
  return out;
}

bool IsSupportedFilesystem(std::string_view type) {
  return FindFilesystem(type).has_value();
}

Bytes MinimumSize(std::string_view fs_type) {
  const auto fs = FindFilesystem(fs_type);
  return fs.has_value() ? (*fs)->minimum_size() : Bytes{};
}

Status CheckMkfsOptions(std::string_view fs_type, const std::string& extra_options) {
  QUARRY_ASSIGN(const Filesystem* fs, FindFilesystem(fs_type));
  MakeFilesystem spec;
  spec.fs_type = fs_type;
  spec.extra_options = extra_options;
  QUARRY_TRY(fs->MakeCommand(spec, fs->minimum_size()));
  return Ok();
}

}  // namespace quarry::mount
