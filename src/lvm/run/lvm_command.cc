#include "lvm/lvm_command.h"

#include <algorithm>

#include <fmt/format.h>

#include "lvm/read/report_parser.h"

namespace quarry::lvm {

Result<Words> ReadArguments(const std::string& group) {
  QUARRY_TRY(CheckGroupName(group));
  return ReportArguments(group);
}

bool OnlyWatches(const Words& arguments) {
  return arguments.front() == "pvmove" && std::ranges::find(arguments, "--abort") == arguments.end();
}

Result<std::string> ParseVersion(const std::string& output) {
  constexpr std::string_view kLabel = "LVM version:";
  const size_t label = output.find(kLabel);
  const size_t first = label == std::string::npos ? label : output.find_first_of("0123456789", label);
  if (first == std::string::npos) {
    return Error(Code::kCorrupt, fmt::format("no version in the output of lvm: '{}'", output.substr(0, 200)));
  }
  const size_t end = output.find_first_not_of("0123456789.", first);
  return output.substr(first, end == std::string::npos ? end : end - first);
}

}  // namespace quarry::lvm
