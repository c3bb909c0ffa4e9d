// The directory that a volume is mounted at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace quarry::ctl {

// Checks the form of a mount point. kInvalidArgument: not absolute, the root directory, longer than a path
// may be, or with control characters. Pure.
Result<std::string> ParseMountPoint(const std::string& text);
// The same path without symbolic links, as the mount table has it. Directories that do not exist may be at
// its end.
std::string WithoutLinks(const std::string& path);

// kPrecondition: it exists and is no directory, or holds files, which the mount would hide.
Status CheckMountPoint(const std::string& path);
// CheckMountPoint. Makes the directory, and those above it, if they do not exist.
Status PrepareMountPoint(const std::string& path);

// Who owns the root directory of a mounted file system, and its mode.
struct Ownership {
  std::optional<uint32_t> user = {}, group = {}, mode = {};  // nullopt: left as it is
  bool empty() const { return !user.has_value() && !group.has_value() && !mode.has_value(); }
};
// `owner`: "USER", "USER:GROUP" or ":GROUP", names or numbers; may be empty. kInvalidArgument: no such name.
Result<Ownership> ParseOwner(const std::string& owner, std::optional<uint32_t> mode);
// Whether something differs from `wish`.
Result<bool> Differs(const std::string& path, const Ownership& wish);
// Returns whether anything was changed.
Result<bool> SetOwnership(const std::string& path, const Ownership& wish);

}  // namespace quarry::ctl
