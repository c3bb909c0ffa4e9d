// Why a pool does not serve.
#pragma once

#include <optional>

#include "engine/pool/node.h"

namespace quarry::engine {

struct Trouble {
  Error error;
  bool starting = false;
  bool silent = false;  // it could only not be looked at in time
};

// nullopt: it serves. Too many commands that are stuck are a trouble too. `read`: what looking at the pool
// has come to.
std::optional<Trouble> TroubleOf(const Node& node, Pool& pool, const Status& read);

}  // namespace quarry::engine
