#include "csi/v1/responses.h"

#include <algorithm>
#include <limits>

namespace quarry::csi::v1 {
namespace {

int64_t Clamp(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max()));
}

void FillInodes(pb::VolumeUsage& message, const engine::VolumeStats& stats) {
  message.set_unit(pb::VolumeUsage::INODES);
  message.set_total(Clamp(*stats.inodes_total));
  message.set_used(Clamp(stats.inodes_used.value_or(0)));
  message.set_available(Clamp(stats.inodes_free.value_or(0)));
}

}  // namespace

int64_t ToInt64(Bytes bytes) {
  return Clamp(bytes.value);
}

void Fill(pb::Topology& message, const NodeTopology& here) {
  message.mutable_segments()->insert(here.segments().begin(), here.segments().end());
}

void Fill(pb::Volume& message, const engine::Volume& volume, const NodeTopology& here) {
  message.set_volume_id(volume.id);
  message.set_capacity_bytes(ToInt64(volume.size));
  message.mutable_volume_context()->insert(volume.context.begin(), volume.context.end());
  Fill(*message.add_accessible_topology(), here);
}

void Fill(pb::GetCapacityResponse& message, const engine::CapacityResult& capacity, bool alpha) {
  message.set_available_capacity(ToInt64(capacity.available));
  message.mutable_maximum_volume_size()->set_value(ToInt64(capacity.maximum_size));
  if (alpha) {
    message.mutable_minimum_volume_size()->set_value(ToInt64(capacity.minimum_size));
  }
}

void Fill(pb::NodeGetVolumeStatsResponse& message, const engine::VolumeStats& stats) {
  pb::VolumeUsage& bytes = *message.add_usage();
  bytes.set_unit(pb::VolumeUsage::BYTES);
  bytes.set_total(ToInt64(stats.total));
  bytes.set_used(ToInt64(stats.used.value_or(Bytes{})));
  bytes.set_available(ToInt64(stats.available.value_or(Bytes{})));
  if (stats.inodes_total) {
    FillInodes(*message.add_usage(), stats);
  }
}

}  // namespace quarry::csi::v1
