// The command that starts the S3 gateway, versitygw, and where its program is.
#pragma once

#include <string>
#include <vector>

#include "base/path.h"
#include "base/result.h"

namespace quarry::gateway {

// The command that serves `folder` (docs/buckets.md has its layout). Addresses, TLS files, region and the
// keys of root come from the environment, because every user of the node can read the arguments of a process.
// `versitygw` is its program.
std::vector<std::string> GatewayCommand(const std::string& versitygw, const AbsolutePath& folder);

// The first executable "versitygw" of: the folder `beside`, `beside`/../libexec/quarry, and the folders of
// `path`, a value like that of PATH. kNotFound says how to get it.
Result<std::string> FindVersitygw(const std::string& beside, const std::string& path);

}  // namespace quarry::gateway
