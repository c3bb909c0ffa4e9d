// vmctl: how a test inside the guest asks the host to do something to the
// guest's disks or power.
#pragma once

#include <string>
#include <vector>

namespace vmtest {

// Returns the exit status: 0 done, 1 the host could not, 2 wrong usage.
int RunVmctl(const std::vector<std::string> &arguments);

} // namespace vmtest
