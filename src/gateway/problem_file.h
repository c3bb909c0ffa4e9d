// private/problem: why no gateway runs, for quarryd, which shows it to administrators.
#pragma once

#include <string>

#include "base/path.h"

namespace quarry::gateway {

// Writes the problem to the file, whole or not at all; an empty one removes the file. Best effort: the log
// has it too. `folder` is the one that is shared with quarryd (docs/buckets.md).
void TellProblem(const AbsolutePath& folder, const std::string& problem);

}  // namespace quarry::gateway
