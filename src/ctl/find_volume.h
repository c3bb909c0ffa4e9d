// The volumes and snapshots of this node's groups, as quarryctl reads them itself. They are found whether or
// not quarryd runs.
#pragma once

#include <string>

#include "base/result.h"
#include "ctl/commands.h"
#include "engine/model/catalog.h"

namespace quarry::ctl {

// The group of a pool as it is now. The error names the pool.
Result<engine::Catalog> ReadPool(const Bench& bench, const engine::PoolConfig& pool, const Call& call);

// The volume or snapshot with this id, or, if there is none, with this name. Also one that is deleted and not
// erased yet. kNotFound: no pool has it. kPrecondition: several have this name. kUnavailable: a pool could
// not be read, and the others do not have it.
Result<engine::Record> FindVolume(const Bench& bench, const std::string& wanted, const Call& call);

}  // namespace quarry::ctl
