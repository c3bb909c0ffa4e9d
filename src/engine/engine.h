// The engine of one node: its pools and volumes, behind the faces that callers use. Each volume group has one
// writer at a time, first come, first served.
#pragma once

#include <memory>

#include "base/log.h"
#include "engine/adoption.h"
#include "engine/changed_blocks.h"
#include "engine/disks.h"
#include "engine/group_snapshots.h"
#include "engine/lifecycle.h"
#include "engine/model/config.h"
#include "engine/mounts.h"
#include "engine/snapshots.h"
#include "engine/upkeep.h"
#include "engine/volumes.h"
#include "engine/world.h"

namespace quarry::engine {

class Engine {
 public:
  // What `world` refers to must outlive the engine. The constructor does not touch the node: Lifecycle
  // does.
  Engine(EngineConfig config, World world, const Logger& log);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Volumes& volumes() { return volumes_; }
  Snapshots& snapshots() { return snapshots_; }
  GroupSnapshots& group_snapshots() { return group_snapshots_; }
  ChangedBlocks& changed_blocks() { return changed_blocks_; }
  Mounts& mounts() { return mounts_; }
  // The same faces for the volumes of buckets (Realm::kBuckets).
  Volumes& bucket_volumes() { return bucket_volumes_; }
  Mounts& bucket_mounts() { return bucket_mounts_; }
  Disks& disks() { return disks_; }
  Upkeep& upkeep() { return upkeep_; }
  Lifecycle& lifecycle() { return lifecycle_; }
  Adoption& adoption() { return adoption_; }

 private:
  std::unique_ptr<Parts> parts_;
  Volumes volumes_, bucket_volumes_;
  Snapshots snapshots_;
  GroupSnapshots group_snapshots_;
  ChangedBlocks changed_blocks_;
  Mounts mounts_, bucket_mounts_;
  Disks disks_;
  Upkeep upkeep_;
  Lifecycle lifecycle_;
  Adoption adoption_;
};

}  // namespace quarry::engine
