// LVM's configuration for the commands that Quarry runs: a private LVM_SYSTEM_DIR. The host's /etc/lvm has no
// effect on them and is not touched. Only the lock directory is shared with the host, because its locks keep
// two lvm processes from changing one group at once.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::lvm {

struct LvmConfig {
  std::string system_dir;                         // becomes LVM_SYSTEM_DIR; made with mode 0700 if absent
  std::string locking_dir = "/run/lock/lvm";      // must be the same for every lvm on this host
  std::vector<std::string> scan_dirs = {"/dev"};  // where LVM looks for PVs
};

// The text of lvm.conf. kInvalidArgument: a path has quotes, backslashes or control characters.
Result<std::string> LvmConfText(const LvmConfig& config);

// Writes <system_dir>/lvm.conf, atomically and only if it differs. A running lvm sees either the old file or
// the new one.
Status WriteLvmConfig(const LvmConfig& config);

}  // namespace quarry::lvm
