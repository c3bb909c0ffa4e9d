// The sections of a metadata text, sorted but not interpreted. For text_snapshot.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lvm/read/text_fields.h"

namespace quarry::lvm::text {

struct Section {
  std::string name;
  Fields fields;
  std::vector<Section> inner;  // of an LV: its segments; of a segment: messages to a thin pool
};

// Section names are unique among siblings. A name that occurs twice becomes one section, and its second `id`
// is then refused.
struct Sections {
  std::string name;  // the group's name
  Fields outside;
  Fields group;
  std::vector<Section> pvs;
  std::vector<Section> lvs;
};

// kCorrupt: not a metadata text. kUnsupported: a section that only LVM can interpret.
Result<Sections> ReadSections(std::string_view text);

}  // namespace quarry::lvm::text
