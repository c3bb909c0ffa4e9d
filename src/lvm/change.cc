#include "lvm/change.h"

namespace quarry::lvm {

const std::string& GroupOf(const Change& change) {
  return std::visit([](const auto& verb) -> const std::string& { return verb.group; }, change);
}

std::string TextOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.Text(); }, change);
}

Result<Words> ArgumentsOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.Arguments(); }, change);
}

uint64_t CommitsOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.Commits().value_or(0); }, change);
}

Bytes MetadataTextOf(const Change& change) {
  return std::visit([](const auto& verb) { return verb.MetadataText(); }, change);
}

}  // namespace quarry::lvm
