// Sizes as people write them, in settings and parameters.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace quarry {

// "10GiB", "10G", "512 MiB", "4096". K, M, G, T with or without "iB" are powers of 1024; no suffix means
// bytes. Powers of 1000 ("GB") are refused: LVM's sizes are binary, and reading GB as GiB is 7 % off.
// kInvalidArgument: "must be …, is '…'"; the caller adds the name of the size.
Result<Bytes> ParseSize(std::string_view text);

}  // namespace quarry
