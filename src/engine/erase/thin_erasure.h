// The erasure of a deleted thin volume: its mapped bytes are zeroed through its own device, and given back to
// the store piece by piece. So an erasure that was cut off goes on where it ended, without a record.
#pragma once

#include <memory>

#include "base/call.h"
#include "base/result.h"
#include "engine/erase/erase_job.h"
#include "engine/model/catalog.h"
#include "engine/world.h"

namespace quarry::engine {

struct ThinErasure {
  std::shared_ptr<EraseJob> job;  // of one part; of none if nothing is mapped
  Bytes end;                      // everything mapped before this is in the job
  bool whole = false;             // nothing is mapped behind
};

// Activates the volume if necessary and lists what is mapped at or behind `from`, at most a few thousand
// ranges. `record` is that of the present group, in state erasing. The caller has the group's turn.
// kPrecondition: somebody has the volume open; its store is not healthy; or a snapshot was made of it, so
// that zeroes would go to new chunks: then it is kept, and the message names the remedy.
Result<ThinErasure> BeginThinErasure(const Record& record, Bytes from, const World& world, const Call& call);

// Whether nothing is mapped in the volume any more. True also if its store ignores discards.
Result<bool> IsBlankThin(const Record& record, const World& world, const Call& call);

}  // namespace quarry::engine
