// Time limits that several files of the engine use. All other limits are in the file that uses them.
#pragma once

#include <chrono>

namespace quarry::engine {

// Limit for undoing what a failed step left. The caller's own time may be over.
inline constexpr std::chrono::milliseconds kUndoLimit{60'000};
// Limit for reading one group if the call cannot answer without it.
inline constexpr std::chrono::milliseconds kLongLook{10'000};

}  // namespace quarry::engine
