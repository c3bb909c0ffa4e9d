// A PV opened to be read or written below LVM: proven to be that PV, and the range to be extents and nothing
// else.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// `flags` as for open(2), with the access mode, and O_CLOEXEC is added. Not exclusive, since LVM and
// device-mapper have it. kCorrupt: it is not that PV, or the range would hit more than extents.
// kInvalidArgument: no block device, or no whole sectors. kTimeout: opening it would wait.
Result<UniqueFd> OpenPvRange(const EraseRange& range, int flags);

}  // namespace quarry::dm
