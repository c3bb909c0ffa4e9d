// The extents that are known to be zero, in a file, so that an orderly restart of quarryd does not forget
// them.
//
// The file names the state of the group and its disks for which it is true (lvm::LvmApi::Fingerprint). Any
// commit, by any program, makes it worthless, and so does a disk that was detached meanwhile. It lies in a
// folder that does not survive a boot. A quarryd that is killed writes no file, and the next one knows
// nothing.
#pragma once

#include "base/call.h"
#include "base/result.h"
#include "engine/pool/node.h"

namespace quarry::engine {

// Writes what the pool knows. Call it under the turn, with no commit in flight. Without knowledge, or without
// EngineConfig::memory_dir, no file is written. kUnavailable, kUnsupported: the errors of Fingerprint; kIo.
Status SaveZeroed(const Node& node, Pool& pool, const Call& call);
// Gives the pool what its file says, if it is true now, and removes the file in any case. Call it under the
// turn. OK also if there is no file. kPrecondition: the file does not fit any more; the message says why.
Status LoadZeroed(const Node& node, Pool& pool, const Call& call);

}  // namespace quarry::engine
