#include "daemon/settings/changes.h"

#include <set>

namespace quarry::daemon {

std::vector<std::string> DifferingSettings(const GivenSettings& before, const GivenSettings& after) {
  std::set<std::string> differing;
  const auto add = [&differing](const GivenSettings& one, const GivenSettings& other) {
    for (const auto& [setting, text] : one) {
      const auto found = other.find(setting);
      if (found == other.end() || found->second != text) {
        differing.insert(setting);
      }
    }
  };
  add(before, after);
  add(after, before);
  return {differing.begin(), differing.end()};
}

void TakeOver(const std::string& setting, const GivenSettings& from, GivenSettings& to) {
  const auto found = from.find(setting);
  if (found == from.end()) {
    to.erase(setting);
  } else {
    to[setting] = found->second;
  }
}

}  // namespace quarry::daemon
