#include "tests/unit/proto/wire_facts.h"

namespace quarry::proto_test {

std::string EffectiveSince(const Notes& notes, std::string item) {
  while (true) {
    if (const auto own = notes.since.find(item); own != notes.since.end()) {
      return own->second;
    }
    const auto dot = item.rfind('.');
    if (dot == std::string::npos) {
      return "";
    }
    item.resize(dot);
  }
}

Facts NoteFacts(const Notes& notes) {
  Facts facts;
  for (const auto& item : notes.items) {
    if (const auto since = EffectiveSince(notes, item); !since.empty()) {
      facts.insert("since " + since + ": " + item);
    }
  }
  for (const auto& item : notes.required) {
    facts.insert("required: " + item);
  }
  for (const auto& [item, version] : notes.withdrawn) {
    facts.insert("withdrawn in " + version + ": " + item);
  }
  return facts;
}

}  // namespace quarry::proto_test
