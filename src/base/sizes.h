// Sizes as people write them, in settings and in parameters.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace quarry {

// "10GiB", "10G", "512 MiB", "4096". K, M, G, T with or without "iB" are powers of 1024,
// no suffix is bytes. Powers of 1000 ("GB") are refused: LVM's sizes are binary, and a silent 7 % is worse
// than an error. kInvalidArgument: "must be …, is '…'"; whose size it is, is for the caller to add.
Result<Bytes> ParseSize(std::string_view text);

}  // namespace quarry
