// Copies that an earlier process began and that a stop, a kill or a power cut has cut off. A call that is
// repeated soon goes on with its copy: what is there already is compared with the source, and only what
// differs is written (DeviceCopy::compare). So it does not matter what happened to either of them meanwhile.
#pragma once

#include <optional>
#include <string>

#include "engine/calls/copying.h"
#include "engine/calls/steps.h"

namespace quarry::engine {

// Whether the record is such a copy, of which no process has begun to erase a byte.
bool IsUnfinishedCopy(const Record& record);

// Keeps the eraser from the unfinished copies in this pool for EngineConfig::copy_keep. For a start, before
// the eraser runs.
void KeepUnfinished(Parts& parts, Pool& pool, const Catalog& catalog);

// The logical volume of the unfinished copy that a call with this wish and range has begun; empty: there is
// none. The wish has its source and its cut; its lv_name is of no meaning. One with the same name that is not
// as the wish says is left to the eraser. kUnavailable: it lacks a disk, which may come back.
Result<std::string> FindUnfinished(Parts& parts, Pool& pool, const CreateWish& wish,
                                   const CapacityRange& range, const Call& call);

// Takes it up. Returns until when it was kept. kUnavailable: it is being erased by now.
Result<SteadyTime> TakeUnfinished(Parts& parts, Pool& pool, const std::string& lv_name,
                                  std::optional<Copying>& out);
// Gives it back as it was, before `out` ends: nothing was written to it. The next call may go on with it.
void KeepAgain(Pool& pool, const std::string& lv_name, SteadyTime until);

}  // namespace quarry::engine
