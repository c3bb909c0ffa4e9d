// Which volumes are scrubbed, and the answer for each.
#pragma once

#include <string>
#include <vector>

namespace quarry::engine {

// A request to scrub volumes.
struct ScrubRequest {
  std::vector<std::string> ids;  // empty: every volume with more than one leg
  bool repair = false;           // rewrite what differs
};
struct ScrubAnswer {
  std::string id, name;  // for a pool that cannot be read: its name, and "pool"
  std::string refusal;   // why it will not be scrubbed; empty: it will be
};

}  // namespace quarry::engine
