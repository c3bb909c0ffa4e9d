// vmctl: with it a test inside the guest asks the host to change the guest's disks or power.
#pragma once

#include <string>
#include <vector>

namespace vmtest {

// Returns the exit status: 0 done, 1 failed on the host, 2 wrong usage.
int RunVmctl(const std::vector<std::string> &arguments);

} // namespace vmtest
