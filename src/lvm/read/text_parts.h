// How the LVs of a metadata text hang together: legs below raid volumes, data and metadata below thin pools,
// snapshots beside their origins.
// For text_snapshot.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/snapshot.h"

namespace quarry::lvm::text {

// One leg of a raid volume, as its segment names it.
struct Leg {
  std::string data;
  std::string metadata;  // empty for raid0
};

// A snapshot (COW). LVM describes it in an LV of its own, which no report shows. A report shows the store
// instead, as if it were the snapshot.
struct Snapshot {
  std::string origin;
  std::string store;
  Bytes chunk_size;
};

// The data of a thin pool. ThinPool (snapshot.h) names its metadata.
struct PoolData {
  std::string name;
  Extents length;
};

// What the segments say of other LVs. All of it is checked when all LVs are known.
struct Parts {
  std::vector<std::pair<Leg, Extents>> legs;  // with the length that each must have
  std::vector<PoolData> pools;
  std::vector<std::string> pool_metadata;
  std::vector<Snapshot> snapshots;
};

// `group` has all its LVs, sorted by name. Checks that every part is what it must be, and that every hidden
// LV is part of exactly one volume, or is LVM's spare for pool metadata. Then marks snapshots, origins,
// pools, and volumes that lack extents, as a report does. kUnsupported: ask LVM.
Status Join(const Parts& parts, VolumeGroup& group);

}  // namespace quarry::lvm::text
