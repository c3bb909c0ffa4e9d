#include "engine/pool/pool.h"

namespace quarry::engine {

Status RunCounted(Pool& pool, const Plan& plan, const World& world, const Call& call) {
  pool.clean.Forget(ExtentsOf(plan, true));
  QUARRY_TRY(Execute(plan, world, call));
  for (const Action& action : plan) {
    pool.clean.Committed(CommitsOf(action));
  }
  return Ok();
}

}  // namespace quarry::engine
