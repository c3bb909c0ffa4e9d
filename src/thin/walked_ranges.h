// Which bytes of a thin device are allocated, or differ from those of another one: as ranges of bytes, in
// pieces of bounded work, read through a metadata snapshot of the pool. For lists of changed blocks, during
// which a caller may rest for as long as it wants: the answers about devices that are never written to are
// the same under each metadata snapshot.
//
// Threads, time and truth: as metadata_reader.h.
#pragma once

#include <memory>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "thin/block_source.h"
#include "thin/metadata_reader.h"
#include "thin/pool_reader_api.h"

namespace quarry::thin {

// As PoolReaderApi::Allocated and Different; kUnavailable does not happen.
Result<WalkedRanges> FindAllocated(std::shared_ptr<BlockSource> metadata, DeviceId id, Bytes from,
                                   const WalkLimit& limit, const Call& call);
Result<WalkedRanges> FindDifferent(std::shared_ptr<BlockSource> metadata, DeviceId base, DeviceId target,
                                   Bytes from, const WalkLimit& limit, const Call& call);

}  // namespace quarry::thin
