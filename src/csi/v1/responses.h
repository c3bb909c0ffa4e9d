// Engine values as CSI v1 messages.
#pragma once

#include <cstdint>

#include <csi/v1/csi.pb.h>

#include "csi/topology.h"
#include "engine/types.h"

namespace quarry::csi::v1 {

namespace pb = ::csi::v1;

// CSI counts bytes in int64; LVM stops at 8 EiB, just there.
int64_t ToInt64(Bytes bytes);

void Fill(pb::Topology& message, const NodeTopology& here);
// Every volume is reachable from this node only.
void Fill(pb::Volume& message, const engine::Volume& volume, const NodeTopology& here);
void Fill(pb::GetCapacityResponse& message, const engine::CapacityResult& capacity, bool alpha);
// One entry for bytes, and one for inodes where they are known.
void Fill(pb::NodeGetVolumeStatsResponse& message, const engine::VolumeStats& stats);

}  // namespace quarry::csi::v1
