// Opens a PV for reading or writing below LVM, after proving that the device is that PV and that the range
// consists of extents only.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "dm/erase_api.h"

namespace quarry::dm {

// `flags`: for open(2), including the access mode; O_CLOEXEC is added. The device is not opened exclusively,
// because LVM and device-mapper have it open. kCorrupt: the device is not that PV, or not all of the range is
// extents. kInvalidArgument: not a block device, or not whole sectors. kTimeout: the open would block.
Result<UniqueFd> OpenPvRange(const EraseRange& range, int flags);

}  // namespace quarry::dm
