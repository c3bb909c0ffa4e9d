// Which version a versitygw is, and whether quarry-gateway may start it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/subprocess.h"
#include "gateway/environment_file.h"

namespace quarry::gateway {

// The version that tests/gateway holds and deploy/gateway/go.mod pins: "v1.8.0".
std::string_view PinnedVersion();

// The version in what `versitygw --version` prints. kCorrupt: there is none. Pure.
Result<std::string> ParseVersion(std::string_view output);

// Looks at the program when its file has changed, and remembers what it found. For one thread.
class VersionCheck {
 public:
  // `any`: every version may run. `limit`: for one look at the program.
  VersionCheck(bool any, std::chrono::milliseconds limit) : any_(any), limit_(limit) {}

  // The version of `program`, an absolute path. kPrecondition: it is not the pinned one, and another one may
  // not run; the message has the remedy. kCorrupt: it does not tell its version, and may not run either.
  // kNotFound: there is no such program. Others: it could not be asked, so ask again.
  Result<std::string> Check(const std::string& program, Subprocess& processes);

 private:
  Result<std::string> Ask(const std::string& program, Subprocess& processes) const;

  const bool any_;
  const std::chrono::milliseconds limit_;
  std::optional<FileMark> mark_;  // of the program whose version is known
  Result<std::string> version_ = Error(Code::kNotFound, "");
};

}  // namespace quarry::gateway
