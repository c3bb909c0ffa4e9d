// LVM's configuration for the commands that we run: a private LVM_SYSTEM_DIR, so that the host's /etc/lvm
// neither slows us down nor is touched. Only the lock directory is shared with the host, because that is what
// keeps two lvm processes from changing one group at once.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace quarry::lvm {

struct LvmConfig {
  std::string system_dir;                         // becomes LVM_SYSTEM_DIR; made with mode 0700 if absent
  std::string locking_dir = "/run/lock/lvm";      // must be the one that every other lvm on this host uses
  std::vector<std::string> scan_dirs = {"/dev"};  // where LVM looks for PVs
};

// The text of lvm.conf. Paths must not hold quotes, backslashes or control characters: kInvalidArgument.
Result<std::string> LvmConfText(const LvmConfig& config);

// Writes <system_dir>/lvm.conf, atomically and only if it differs: a running lvm sees the old one or the new
// one.
Status WriteLvmConfig(const LvmConfig& config);

}  // namespace quarry::lvm
