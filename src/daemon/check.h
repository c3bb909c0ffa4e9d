// quarryd --check: what quarryd would make of its settings and of this node, without starting.
#pragma once

#include <string>
#include <vector>

#include "daemon/settings/options.h"

namespace quarry::daemon {

// Whether the command line asks for the check. It need not be valid otherwise.
bool WantsCheck(const std::vector<std::string>& args);

// Prints on standard output what was understood, and each problem on a line that begins with "problem: ".
// Returns the exit status: 0 without problems, else 1. It takes none of quarryd's locks, makes no socket and
// starts no pool. LVM only reports; its private configuration lies in a folder of its own that is removed at
// the end.
int Check(const std::vector<std::string>& args, const Environment& environment, const std::string& version);

}  // namespace quarry::daemon
