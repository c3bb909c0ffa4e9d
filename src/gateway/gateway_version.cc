// Why a version that was not tested does not run: what Quarry promises of acknowledged objects and of revoked
// accounts rests on how versitygw writes files and reads accounts, which is not its interface. Another
// version may keep an account in a cache, or acknowledge an object that no file has yet, and nothing would
// show it. A gateway that does not run is seen at once and loses nothing.
#include "gateway/gateway_version.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace quarry::gateway {
namespace {

constexpr size_t kMostOutput = 4096;
constexpr size_t kMostVersion = 64;

bool IsVersionCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
         c == '+' || c == '_';
}

}  // namespace

std::string_view PinnedVersion() {
  return QUARRY_VERSITYGW_VERSION;
}

Result<std::string> ParseVersion(std::string_view output) {
  while (!output.empty()) {
    std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    const size_t colon = line.find(':');
    if (!line.starts_with("Version") || colon == std::string_view::npos) {
      continue;
    }
    line.remove_prefix(colon + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty() && line.size() <= kMostVersion && std::ranges::all_of(line, IsVersionCharacter)) {
      return std::string(line);
    }
  }
  return Error(Code::kCorrupt, "it does not tell its version");
}

Result<std::string> VersionCheck::Ask(const std::string& program, Subprocess& processes) const {
  const Command command{.argv = {program, "--version"},
                        .env = {},
                        .input = "",
                        .output_limit = kMostOutput,
                        .kill_grace = std::chrono::milliseconds(500),
                        .keep_fds = {},
                        .ends_with_us = true};
  QUARRY_ASSIGN(const Finished done, processes.Run(command, CallWithin(limit_)));
  return ParseVersion(done.ok() ? done.out : "");
}

Result<std::string> VersionCheck::Check(const std::string& program, Subprocess& processes) {
  QUARRY_ASSIGN(const FileMark mark, MarkOf(program));
  if (mark_ != mark) {
    auto asked = Ask(program, processes);
    if (!asked.has_value() && asked.error().code() != Code::kCorrupt) {
      return std::move(asked.error()).Context(fmt::format("asking {} for its version", program));
    }
    version_ = std::move(asked);
    mark_ = mark;
  }
  if (version_.has_value() && (any_ || *version_ == PinnedVersion())) {
    return version_;
  }
  if (any_) {
    return std::string("unknown");
  }
  const std::string found = version_.has_value() ? "is version " + *version_ : version_.error().message();
  return Error(version_.has_value() ? Code::kPrecondition : version_.error().code(),
               fmt::format("{} does not run: {}, and only {} was tested with Quarry, which the package "
                           "quarry-s3-gateway and scripts/gateway bring. Install that, or accept the risk "
                           "with --any-versitygw",
                           program, found, PinnedVersion()));
}

}  // namespace quarry::gateway
