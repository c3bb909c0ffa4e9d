// The data blocks that only certain devices of a pool map: those whose bytes are to be erased before the
// devices go.
//
// The answer is a set, not an estimate: every mapping of every other device is looked at. The reference
// counts of the space maps are not used, although they would save reading the other devices, for three
// reasons. A metadata snapshot has no space maps, and those of the live superblock change under a reader. A
// reserved metadata snapshot itself holds a reference on the roots, so that all nodes count as shared from
// the first change on. And erasing one block too many destroys the data of another device, whereas a missed
// block only keeps old bytes.
//
// Subtrees that other devices share among each other, or with the doomed ones, are read once. So the cost is
// that of the pool's mapping trees as they lie on disk, plus the trees of the doomed devices again. If no
// block is exclusive any more, nothing further is read.
//
// What the caller must guarantee, from before the metadata snapshot is reserved until the erasure has ended:
//
// - The doomed devices are not written to, discarded or activated: they get no blocks and lose none.
// - No snapshot is made of a doomed device.
// - No doomed device is the external origin of a thin device, in this or another pool: metadata does not
//   show that.
// - The doomed devices are still in the pool while their blocks are erased. Otherwise the pool may give the
//   blocks away.
//
// Other devices may be used, made, snapshotted and deleted meanwhile. The pool gives a new mapping only
// blocks that are free, and those of the doomed devices are not free. So blocks that were exclusive at the
// reservation stay so.
//
// Blocks that become exclusive later are missing: another device that shares them is deleted, overwrites or
// discards them. They keep their bytes when the last doomed device goes. A second look, under a new
// reservation, finds them. For the same reason devices that are to be deleted together are doomed together:
// blocks that only they share are exclusive to no single one of them.
//
// Threads, time and truth: as metadata_reader.h. Memory: a BlockSet of all blocks of the doomed devices, and
// one bit for each block of metadata, at most 508 KiB. A million mappings of the doomed devices take from
// 124 KiB (together) to 4 MiB (in a pool of 2 TiB with data blocks of 64 KiB, evenly spread). Mappings of
// other devices take nothing.
#pragma once

#include <span>

#include "base/call.h"
#include "base/result.h"
#include "thin/block_set.h"
#include "thin/metadata_reader.h"

namespace quarry::thin {

// The data blocks that at least one of the `doomed` devices maps and no other device of the pool. kNotFound:
// the pool has no such device; nothing is known then. Any damage, also in another device's tree, gives
// kCorrupt and no set.
Result<BlockSet> FindExclusive(MetadataReader& reader, std::span<const DeviceId> doomed, const Call& call);

}  // namespace quarry::thin
