// How much of a pool's data each of its devices has, and how much of it no other device shares.
//
// For people, who want to know what they get back if they delete a volume. Nothing is decided by it: which
// bytes are to be erased, exclusive.h finds out.
//
// The reader is as metadata_reader.h says: with Root::kHeld the answers are those of the moment of the
// reservation.
#pragma once

#include <map>
#include <span>

#include "base/call.h"
#include "base/result.h"
#include "base/units.h"
#include "thin/metadata_reader.h"

namespace quarry::thin {

// The mapped bytes of each of these devices, in whole data blocks, shared ones included. A device that the
// pool does not have is left out. Reads the details of all devices, and no mapping.
Result<std::map<DeviceId, Bytes>> FindMappedBytes(MetadataReader& reader, std::span<const DeviceId> ids,
                                                  const Call& call);

// For each of these devices, the bytes in data blocks that no other device of the pool maps: the pool gets
// them back if this device alone is deleted. A device that the pool does not have is left out. Any damage,
// also in another device's tree, gives kCorrupt.
//
// Cost: every node of the mapping trees is read up to three times, whatever the number of `ids` and of
// snapshots; once if no two devices share a block. A million mappings take some 20 ms of processor time for
// each reading. Memory: two BlockSets with at most all mapped blocks of the pool, and two bits for each block
// of metadata.
Result<std::map<DeviceId, Bytes>> CountExclusive(MetadataReader& reader, std::span<const DeviceId> ids,
                                                 const Call& call);

}  // namespace quarry::thin
