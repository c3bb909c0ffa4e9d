// Which bytes of a snapshot are allocated, and which changed since an earlier snapshot: for incremental
// backups (docs/changed-blocks.md). Of snapshots in thin stores only: the store's metadata know it, so no
// data are read, and the time follows what changed, not the size of the volume.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "thin/pool_reader_api.h"

namespace quarry::engine {

// A part of a list.
struct ChangedBatch {
  Bytes capacity;  // of the snapshot, the later one of two: the size of its volume at the cut
  // Ascending, disjoint, none empty, none before the offset that was asked for nor beyond `capacity`.
  // Adjacent ones are one range, but a batch may begin where the one before it has ended.
  std::vector<thin::ByteRange> ranges;
  Bytes end;           // the offset of the next batch; `capacity` after the last one
  bool whole = false;  // this is the last batch
};

struct Parts;  // calls/parts.h

// Each call reads one batch, of bounded work, and holds nothing when it returns: the metadata snapshot of the
// store and the pool's turn are held only while it reads. Snapshots never change, so the batches of a list
// fit together however much time passes between them.
//
// `offset`: bytes, any up to the capacity. kOutOfRange: it is beyond. `most`: ranges in a batch, at least 1;
// a batch may have fewer, and even none, without being the last.
//
// kNotFound: no snapshot has this id here, or no longer: a list whose snapshot is deleted ends so.
// kPrecondition: the snapshot is in no thin store, or its store is unwell or out of space for data. kNoSpace:
// the store is low on metadata. kUnavailable: the store cannot be read now. kCorrupt: its metadata are
// damaged. Errors about a snapshot begin with the field of CSI that named it. All methods may be called from
// any thread.
class ChangedBlocks {
 public:
  // `parts` must outlive this object.
  explicit ChangedBlocks(Parts& parts) : parts_(parts) {}

  // Whether some pool has a thin store, or is configured to have one. Reads nothing.
  bool IsOffered() const;

  // The bytes that were written to, and not discarded, before the snapshot was cut. All others read as
  // zeroes.
  Result<ChangedBatch> Allocated(const std::string& snapshot, Bytes offset, size_t most, const Call& call);

  // The bytes in which `target` may differ from `base`: written or discarded in between. All others are
  // equal; those beyond the capacity of `base` are zeroes. kInvalidArgument: the snapshots are of different
  // volumes or in different stores, or `target` is the older one.
  Result<ChangedBatch> Delta(const std::string& base, const std::string& target, Bytes offset, size_t most,
                             const Call& call);

 private:
  Parts& parts_;
};

}  // namespace quarry::engine
