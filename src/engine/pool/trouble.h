// Why a pool does not serve.
#pragma once

#include <optional>

#include "engine/pool/node.h"

namespace quarry::engine {

struct Trouble {
  Error error;
  bool starting = false;
  bool silent = false;  // the only fault: the pool could not be read in time
};

// nullopt: the pool serves. Too many stuck commands count as trouble too. `read`: the result of reading the
// pool.
std::optional<Trouble> TroubleOf(const Node& node, Pool& pool, const Status& read);

}  // namespace quarry::engine
