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

constexpr auto kStores = std::to_array<Row>({{"rw", Severity::kOk},
                                             {"filling", Severity::kWarning},
                                             {"not-made", Severity::kWarning},
                                             {"unreadable", Severity::kWarning},
                                             {"nearly-full", Severity::kCritical},
                                             {"out-of-space", Severity::kCritical},
                                             {"read-only", Severity::kCritical},
                                             {"failed", Severity::kCritical},
                                             {"needs-check", Severity::kCritical},
                                             {"not-zeroing", Severity::kCritical},
                                             {"damaged", Severity::kCritical},
                                             {"mismatch", Severity::kCritical},
                                             {"not-started", Severity::kCritical}});

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

Severity SeverityOfStore(std::string_view mode, std::string_view condition, bool has_problem) {
  const Severity of_legs = condition.empty() ? Severity::kOk : SeverityOfVolume(condition);
  return std::max({Find(kStores, mode), of_legs, has_problem ? Severity::kWarning : Severity::kOk});
}

}  // namespace quarry::engine
