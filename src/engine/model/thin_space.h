// How much a thin store can still give. Every volume of a store may write each of its bytes, and a snapshot
// keeps what it had when it was cut: together they never exceed what the store may promise, and its metadata
// always have room for all mappings. A store may promise its data once, so no write finds it full, or, if its
// configuration says so, more than once (model/store_ladder.h). What is reported as free can be created.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "engine/model/catalog.h"
#include "engine/model/config.h"

namespace quarry::engine {

// Chunks have at least 64 KiB, because the kernel wants a multiple of that, and at most 1 MiB, so that pieces
// that are erased have whole chunks.
inline constexpr Bytes kLeastChunk{64 * kKiB.value};
inline constexpr Bytes kMostChunk{kMiB.value};

// Blocks of 4 KiB that a pool's metadata can take: `volumes` has the number of chunks of each volume and
// snapshot, all of them mapped; `data` is the number of chunks of the store. The trees are as empty as the
// kernel lets them become, the metadata are held by a metadata snapshot, and one transaction has changed
// every block.
uint64_t MetadataBlocks(const std::vector<uint64_t>& volumes, uint64_t data);

// The size of the metadata of a new store: enough for any volumes that fill its data, if they have 64 MiB on
// average, or if they are 16,384 or fewer. kInvalidArgument: the kernel's limit for metadata (15.9 GiB) is
// too little for that many chunks.
Result<Bytes> MetadataSize(Bytes data, Bytes chunk);

// What a store has, or would have, and how much of it may be promised.
struct StoreTerms {
  Bytes data, metadata;
  uint32_t overcommit = 100;  // StoreConfig::overcommit

  Bytes promisable() const { return {data.value / 100 * overcommit + data.value % 100 * overcommit / 100}; }
  // The size of metadata with which all of it can be promised. Errors of MetadataSize.
  Result<Bytes> FittingMetadata(Bytes chunk) const { return MetadataSize(promisable(), chunk); }
};
// What the configuration says of this store. If it says nothing: a store that does not grow.
StoreConfig RulesOf(const PoolConfig& pool, const Store& store);
// The store as it is now.
StoreTerms TermsOf(const Store& store, const PoolConfig& pool);
// Whether writes can find the store full: it may promise more than it has, or has done so when it might, or
// an administrator's volumes in it are too large.
bool Overcommits(const Catalog& catalog, const PoolConfig& pool, const Store& store);

struct StoreSpace {
  Bytes data;  // of the store
  // Of all that is in the store, also of what is being erased: sizes of volumes, and the bytes of snapshots.
  Bytes promised;
  // Set aside once there were snapshots, so that writes seldom wait. The kernel copies a chunk that a volume
  // shared with a deleted snapshot, although nobody else has it any more, and frees the old one a moment
  // later. More writes than that at once wait in a full store until chunks are free again; none fails.
  Bytes margin;
  // The largest volume that can be added, or by how much an existing volume can grow, in whole extents; or
  // the most bytes that a new snapshot may have.
  Bytes largest;
  bool blocked = false;  // LVM makes nothing in the group now
  std::string why;       // why `largest` is 0; empty: it is not
};
// Whether anything in the store may have shared chunks with a snapshot.
bool WasCut(const Catalog& catalog, const Store& store);

enum class Addition {
  kBlank,      // a new volume, or the growth of one
  kCopy,       // a new volume that shares the bytes of another, or of a snapshot
  kSnapshots,  // new snapshots; `largest` is for all of them together
};
// `grows`: the volume that is to grow; nullptr: a new one. `count`: how many are added.
StoreSpace SpaceOf(const Catalog& catalog, const Store& store, const StoreTerms& terms,
                   const Record* grows = nullptr, Addition what = Addition::kBlank, size_t count = 1);

// The store of the pool that a request with this profile means. kInvalidArgument names the parameter: the
// pool has no such store, or several and the request names none. kUnavailable: the configuration has it, and
// it is not made yet.
Result<const Store*> FindStore(const Catalog& catalog, const PoolConfig& pool, const Profile& profile);

}  // namespace quarry::engine
