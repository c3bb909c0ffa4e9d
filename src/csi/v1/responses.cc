#include "csi/v1/responses.h"

#include <chrono>

#include <fmt/format.h>

#include "csi/fields.h"

namespace quarry::csi::v1 {
namespace {

pb::VolumeHealthErrorType ToMessage(engine::Problem problem) {
  switch (problem) {
    case engine::Problem::kDegraded:
      return pb::DEGRADED;
    case engine::Problem::kInaccessible:
      return pb::INACCESSIBLE;
  }
  return pb::UNKNOWN_VOLUME_HEALTH_TYPE;
}

void AddProblem(pb::NodeGetStorageHealthResponse& message, pb::StorageHealthErrorType status,
                const std::string& reason, const std::string& words) {
  auto& entry = *message.add_backend_health();
  entry.set_status(status);
  entry.set_reason(reason);
  entry.set_message(words);
}

}  // namespace

void Fill(pb::Topology& message, const NodeTopology& here) {
  message.mutable_segments()->insert(here.segments().begin(), here.segments().end());
}

void Fill(pb::Volume& message, const engine::Volume& volume, const NodeTopology& here) {
  message.set_volume_id(volume.id);
  message.set_capacity_bytes(ToInt64(volume.size));
  message.mutable_volume_context()->insert(volume.context.begin(), volume.context.end());
  if (volume.source.is_snapshot) {
    message.mutable_content_source()->mutable_snapshot()->set_snapshot_id(volume.source.id);
  } else if (!volume.source.empty()) {
    message.mutable_content_source()->mutable_volume()->set_volume_id(volume.source.id);
  }
  Fill(*message.add_accessible_topology(), here);
}

void Fill(pb::Snapshot& message, const engine::VolumeSnapshot& snapshot, const NodeTopology& here,
          bool alpha) {
  message.set_snapshot_id(snapshot.id);
  message.set_source_volume_id(snapshot.source);
  message.set_size_bytes(ToInt64(snapshot.size));
  message.set_ready_to_use(true);
  message.set_group_snapshot_id(snapshot.group);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(snapshot.cut);
  message.mutable_creation_time()->set_seconds(seconds.time_since_epoch().count());
  message.mutable_creation_time()->set_nanos(static_cast<int32_t>((snapshot.cut - seconds).count()));
  if (alpha) {
    Fill(*message.add_accessible_topology(), here);
  }
}

void Fill(pb::VolumeGroupSnapshot& message, const engine::GroupSnapshot& group, const NodeTopology& here,
          bool alpha) {
  message.set_group_snapshot_id(group.id);
  for (const engine::VolumeSnapshot& member : group.members) {
    Fill(*message.add_snapshots(), member, here, alpha);
  }
  message.set_ready_to_use(group.whole);
  *message.mutable_creation_time() = message.snapshots(0).creation_time();
}

void Fill(pb::GetCapacityResponse& message, const engine::CapacityResult& capacity, bool alpha) {
  message.set_available_capacity(ToInt64(capacity.available));
  message.mutable_maximum_volume_size()->set_value(ToInt64(capacity.maximum_size));
  if (alpha) {
    message.mutable_minimum_volume_size()->set_value(ToInt64(capacity.minimum_size));
  }
}

void Fill(pb::VolumeCondition& message, const engine::Health& health) {
  std::vector<std::string> words;
  for (const engine::Ailment& ailment : health.ailments) {
    words.push_back(ailment.message);
  }
  if (!health.note.empty()) {
    words.push_back(health.note);
  }
  message.set_abnormal(!health.ailments.empty());
  message.set_message(words.empty() ? "healthy" : fmt::format("{}", fmt::join(words, "; ")));
}

void Fill(pb::VolumeHealth& message, const std::string& volume_id, const engine::Health& health) {
  message.set_volume_id(volume_id);
  for (const engine::Ailment& ailment : health.ailments) {
    auto& entry = *message.add_health_statuses();
    entry.set_status(ToMessage(ailment.problem));
    entry.set_reason(ailment.reason);
    entry.set_message(ailment.message);
  }
}

void Fill(pb::NodeGetStorageHealthResponse& message, const std::vector<engine::PoolFigures>& pools) {
  for (const engine::PoolFigures& pool : pools) {
    if (!pool.problem.empty()) {
      AddProblem(message, pb::STORAGE_UNREACHABLE, "PoolUnreadable",
                 fmt::format("pool {}: {}", pool.pool, pool.problem));
    } else if (pool.missing_disks != 0) {
      AddProblem(message, pb::STORAGE_DEGRADED, "DiskMissing",
                 fmt::format("pool {}: {} of its disks are missing; nothing can be created or grown until "
                             "the disks return or are removed from the volume group",
                             pool.pool, pool.missing_disks));
    }
    if (pool.failing_disks != 0) {
      AddProblem(message, pb::STORAGE_DEGRADED, "DiskFailing",
                 fmt::format("pool {}: {} of its disks report that they are failing and get no new volumes; "
                             "replace the disks",
                             pool.pool, pool.failing_disks));
    }
  }
}

void Fill(pb::NodeGetVolumeStatsResponse& message, const engine::VolumeStats& stats) {
  pb::VolumeUsage& bytes = *message.add_usage();
  bytes.set_unit(pb::VolumeUsage::BYTES);
  bytes.set_total(ToInt64(stats.total));
  bytes.set_used(ToInt64(stats.used.value_or(Bytes{})));
  bytes.set_available(ToInt64(stats.available.value_or(Bytes{})));
  if (stats.inodes_total) {
    pb::VolumeUsage& inodes = *message.add_usage();
    inodes.set_unit(pb::VolumeUsage::INODES);
    inodes.set_total(ToInt64(*stats.inodes_total));
    inodes.set_used(ToInt64(stats.inodes_used.value_or(0)));
    inodes.set_available(ToInt64(stats.inodes_free.value_or(0)));
  }
  if (stats.health) {
    Fill(*message.mutable_volume_condition(), *stats.health);
  }
}

}  // namespace quarry::csi::v1
