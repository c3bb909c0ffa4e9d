// The directory that a volume is mounted at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace quarry::ctl {

// Makes the directory, and those above it, if they do not exist. kPrecondition: it is no directory, or holds
// files, which the mount would hide.
Status PrepareMountPoint(const std::string& path);

// Who owns the root directory of a mounted file system, and its mode.
struct Ownership {
  std::optional<uint32_t> user = {}, group = {}, mode = {};  // nullopt: left as it is
  bool empty() const { return !user.has_value() && !group.has_value() && !mode.has_value(); }
};
// `owner`: "USER", "USER:GROUP" or ":GROUP", names or numbers; may be empty. kInvalidArgument: no such name.
Result<Ownership> ParseOwner(const std::string& owner, std::optional<uint32_t> mode);
// Returns whether anything was changed.
Result<bool> SetOwnership(const std::string& path, const Ownership& wish);

}  // namespace quarry::ctl
