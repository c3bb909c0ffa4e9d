#pragma once

#include <string>
#include <vector>

#include "tests/unit/proto/wire_facts.h"

namespace quarry::proto_test {

// A wire table (tests/fixtures/csi_*.table) as facts. Anything in the file that is not understood, and any
// name used but not declared, is an error: a row that is skipped would be a check that is silently not made.
struct WireTable {
  Facts wire;
  Notes notes;
  std::vector<std::string> errors;
};

WireTable ReadWireTable(const std::string& path);
WireTable ParseWireTable(const std::string& text);

}  // namespace quarry::proto_test
