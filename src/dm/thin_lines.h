// The status lines of thin pools and thin devices, parsed. Pure.
//
// Written here and not left to libdevmapper's dm_get_status_thin_pool: that searches the line for known
// words, so it takes an unknown word for "all is well", and it does not know the low water mark.
#pragma once

#include <string_view>

#include "base/result.h"
#include "dm/thin_api.h"

namespace quarry::dm {

// `parameters`: what DM_TABLE_STATUS returns of a thin-pool, without start, length and type, as in
// "1 12/1024 3/800 - rw discard_passdown queue_if_no_space - 256". uuid and name are left empty. "Fail" and
// "Error" (the kernel cannot read the metadata) are kFailed. kCorrupt, with the whole line: an unknown word,
// too few or too many words, or more blocks in use than there are. That includes the line of a kernel so old
// that it shows no low water mark.
Result<ThinPoolStatus> ParseThinPoolStatus(std::string_view parameters);

// The same of a thin device: "8192 20479", or "0 -".
Result<ThinStatus> ParseThinStatus(std::string_view parameters);

}  // namespace quarry::dm
