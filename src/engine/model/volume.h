// A volume, as callers see it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/units.h"
#include "engine/model/health.h"

namespace quarry::engine {

// A complete volume, as its tags describe it.
struct Volume {
  std::string id;
  std::string name;  // the CO's
  Bytes size;
  std::string pool;
  std::map<std::string, std::string> context;  // immutable facts only: always byte-identical
  std::optional<Health> health = {};           // if the caller asked for it
};

}  // namespace quarry::engine
