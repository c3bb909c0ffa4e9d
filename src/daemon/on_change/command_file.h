// Whether quarryd may run the program of --on-change as root.
#pragma once

#include "base/path.h"
#include "base/result.h"

namespace quarry::daemon {

// Refuses a program that others than root and this process's user could have written or replaced. Looks at
// the file, at every folder on the way to it, and at symbolic links in between. kNotFound: there is no such
// file. kPrecondition: with the remedy.
Status CheckCommandFile(const AbsolutePath& command);

}  // namespace quarry::daemon
