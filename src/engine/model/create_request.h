// What a caller asks of a new volume: its size, its parameters and its uses.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "engine/model/capability.h"

namespace quarry::engine {

// 0: not set. The edge has checked that required <= limit if both are set, and that neither is negative.
struct CapacityRange {
  Bytes required;
  Bytes limit;
};

using Parameters = std::map<std::string, std::string>;

struct CreateRequest {
  std::string name;
  CapacityRange range;
  std::vector<Capability> capabilities;  // at least one
  Parameters parameters;
  // The caller tries other nodes after kNoSpace, and then forgets this node. So anything that this node lacks
  // becomes kNoSpace, but only if no volume of that name exists here or may still be created here.
  bool elsewhere = false;
};

}  // namespace quarry::engine
