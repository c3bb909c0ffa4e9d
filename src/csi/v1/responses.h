// Converts values of the engine to messages of CSI v1.
#pragma once

#include <csi/v1/csi.pb.h>

#include "csi/topology.h"
#include "engine/engine.h"
#include "engine/lifecycle.h"
#include "engine/volumes.h"

namespace quarry::csi::v1 {

namespace pb = ::csi::v1;

void Fill(pb::Topology& message, const NodeTopology& here);
// Every volume is accessible from this node only.
void Fill(pb::Volume& message, const engine::Volume& volume, const NodeTopology& here);
// `alpha`: with the topology (1.13).
void Fill(pb::Snapshot& message, const engine::VolumeSnapshot& snapshot, const NodeTopology& here,
          bool alpha);
void Fill(pb::VolumeGroupSnapshot& message, const engine::GroupSnapshot& group, const NodeTopology& here,
          bool alpha);
void Fill(pb::GetCapacityResponse& message, const engine::CapacityResult& capacity, bool alpha);
// VolumeCondition (1.3 to 1.12): whether the volume is abnormal and why; else the work in progress, or
// "healthy".
void Fill(pb::VolumeCondition& message, const engine::Health& health);
// The same, for 1.13 and later.
void Fill(pb::VolumeHealth& message, const std::string& volume_id, const engine::Health& health);
// Problems of the disks of the pools.
void Fill(pb::NodeGetStorageHealthResponse& message, const std::vector<engine::PoolFigures>& pools);
// One entry for bytes, and one for inodes if they are known; the condition if the caller asked for it.
void Fill(pb::NodeGetVolumeStatsResponse& message, const engine::VolumeStats& stats);

}  // namespace quarry::csi::v1
