// Files that declare which volumes a server shall have (TOML). docs/by-hand.md describes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace quarry::ctl {

struct DeclaredVolume {
  std::string where;  // "volumes.toml: line 3"
  std::string name;
  Bytes size;
  std::string fs_type = "ext4";                   // empty: a raw volume
  std::map<std::string, std::string> parameters;  // as in a StorageClass, with type and pool
  std::string mount_point;                        // empty: not mounted by quarryd
  std::vector<std::string> options;
  std::string owner;             // "USER", "USER:GROUP" or ":GROUP", names or numbers; empty: left as it is
  std::optional<uint32_t> mode;  // of the root directory of the file system
};

// `origin`: the name of the file, for errors. Pure. kInvalidArgument: names the line, and what to write.
Result<std::vector<DeclaredVolume>> ParseDeclaration(std::string_view text, const std::string& origin);

// The declarations of all files together. kInvalidArgument: two volumes have the same name or mount point.
Status CheckTogether(const std::vector<DeclaredVolume>& volumes);

}  // namespace quarry::ctl
