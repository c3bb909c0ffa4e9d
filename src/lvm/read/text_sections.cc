#include "lvm/read/text_sections.h"

#include <span>

#include <fmt/format.h>

#include "lvm/read/metadata_text.h"

namespace quarry::lvm::text {
namespace {

// Sections are not interleaved, so the wanted one is the last one or new.
Section& LastOrNew(std::vector<Section>& sections, const std::string& name) {
  if (sections.empty() || sections.back().name != name) {
    sections.emplace_back().name = name;
  }
  return sections.back();
}

// The section at `path` below the LVs; nullptr if there are none so deep.
Section* LvSection(Sections& sections, std::span<const std::string> path) {
  Section& lv = LastOrNew(sections.lvs, path[0]);
  switch (path.size()) {
    case 1:
      return &lv;
    case 2:
      return &LastOrNew(lv.inner, path[1]);
    case 3:
      return &LastOrNew(LastOrNew(lv.inner, path[1]).inner, path[2]);
    default:
      return nullptr;
  }
}

Status Sort(Sections& to, std::span<const std::string> path, std::string_view key,
            std::span<const TextValue> values) {
  if (path.empty()) {
    return to.outside.Add(key, values);
  }
  if (to.name.empty()) {
    to.name = path[0];
  }
  if (to.name == path[0] && path.size() == 1) {
    return to.group.Add(key, values);
  }
  if (to.name == path[0] && path.size() == 3 && path[1] == "physical_volumes") {
    return LastOrNew(to.pvs, path[2]).fields.Add(key, values);
  }
  if (to.name == path[0] && path.size() >= 3 && path[1] == "logical_volumes") {
    if (Section* const section = LvSection(to, path.subspan(2)); section != nullptr) {
      return section->fields.Add(key, values);
    }
  }
  return AskLvm(fmt::format("unknown section {}", path.back()));
}

}  // namespace

Result<Sections> ReadSections(std::string_view text) {
  Sections sections;
  QUARRY_TRY(WalkText(
      text, [&](auto path, std::string_view key, auto values) { return Sort(sections, path, key, values); }));
  return sections;
}

}  // namespace quarry::lvm::text
