// The extents that are known to be zero, in a file, so that an orderly restart of quarryd does not forget
// them.
//
// The file names the state of the group and its disks for which it is true (lvm::LvmApi::Fingerprint). Any
// commit, by any program, makes it worthless, and so does a disk that was attached anew. It lies in a folder
// that does not survive a boot. A quarryd that is killed writes no file, and the next one knows nothing.
#pragma once

#include <string>

#include "base/call.h"
#include "base/result.h"
#include "engine/model/config.h"
#include "engine/plan/zeroed_extents.h"
#include "lvm/lvm_api.h"

namespace quarry::engine {

// The pool's file; empty if nothing is to be kept.
std::string ZeroedFile(const EngineConfig& config, const PoolConfig& pool);
// Writes what `clean` knows about the group. Call it under the turn, with no commit in flight. Without
// knowledge no file is written. kUnavailable, kUnsupported: the errors of Fingerprint; kIo.
Status SaveZeroed(const std::string& path, ZeroedExtents& clean, lvm::LvmApi& lvm, const std::string& group,
                  const Call& call);
// Gives `clean` what the file says, if it is true now, and removes the file in any case. Call it under the
// turn. OK also if there is no file. kPrecondition: the file does not fit any more; the message says why.
Status LoadZeroed(const std::string& path, ZeroedExtents& clean, lvm::LvmApi& lvm, const std::string& group,
                  const Call& call);

}  // namespace quarry::engine
