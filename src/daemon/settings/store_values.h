// The text of a thin store in the settings of a pool.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/model/config.h"

namespace quarry::daemon {

// Keys that begin so name a store.
inline constexpr std::string_view kStorePrefix = "store.";

// "store.fast" = "500GiB type=raid1 chunk=128KiB max=1TiB" (docs/thin-stores.md). kInvalidArgument names the
// word.
Result<engine::StoreConfig> ParseStore(std::string_view pool, std::string_view key, std::string_view value);

}  // namespace quarry::daemon
