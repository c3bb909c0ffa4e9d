#include "engine/model/severity.h"

#include <algorithm>
#include <array>
#include <utility>

namespace quarry::engine {
namespace {

using Row = std::pair<std::string_view, Severity>;

constexpr auto kDisks = std::to_array<Row>({{"ok", Severity::kOk},
                                            {"leaving", Severity::kOk},
                                            {"returned", Severity::kWarning},
                                            {"worn", Severity::kWarning},
                                            {"failing", Severity::kCritical},
                                            {"missing", Severity::kCritical}});
constexpr auto kVolumes = std::to_array<Row>({{"healthy", Severity::kOk},
                                              {"syncing", Severity::kOk},
                                              {"repairing", Severity::kWarning},
                                              {"degraded", Severity::kWarning},
                                              {"failed", Severity::kCritical}});

template <size_t kCount>
Severity Find(const std::array<Row, kCount>& rows, std::string_view word) {
  const auto found = std::ranges::find(rows, word, &Row::first);
  return found == rows.end() ? Severity::kWarning : found->second;
}

}  // namespace

std::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kWarning:
      return "warning";
    case Severity::kCritical:
      return "critical";
  }
  return "";
}

Severity SeverityOfDisk(std::string_view word) {
  return Find(kDisks, word);
}

Severity SeverityOfVolume(std::string_view word) {
  return Find(kVolumes, word);
}

}  // namespace quarry::engine
