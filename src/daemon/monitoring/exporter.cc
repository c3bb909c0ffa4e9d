#include "daemon/monitoring/exporter.h"

#include <algorithm>
#include <array>

#include "lvm/layout.h"

namespace quarry::daemon {
namespace {

// A monitoring system asks every 15 s or so, and gives up after 10 s.
constexpr std::chrono::seconds kPatience{8};

std::string CodeText(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return "OK";
    case grpc::StatusCode::CANCELLED:
      return "CANCELLED";
    case grpc::StatusCode::UNKNOWN:
      return "UNKNOWN";
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::NOT_FOUND:
      return "NOT_FOUND";
    case grpc::StatusCode::ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::ABORTED:
      return "ABORTED";
    case grpc::StatusCode::OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case grpc::StatusCode::INTERNAL:
      return "INTERNAL";
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case grpc::StatusCode::DATA_LOSS:
      return "DATA_LOSS";
    case grpc::StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case grpc::StatusCode::DO_NOT_USE:
      break;
  }
  return "UNKNOWN";
}

struct PoolGauges {
  Gauge ready{"quarry_ready", "1 while at least one pool serves, else 0", {}};
  Gauge readable{
      "quarry_pool_readable", "1 if the pool serves and its volume group could be read, else 0", {}};
  Gauge size{"quarry_pool_size_bytes", "Physical extents of the pool's volume group", {}};
  Gauge free{"quarry_pool_free_bytes", "Physical extents that belong to no logical volume", {}};
  Gauge erasing{
      "quarry_erase_pending_bytes", "Physical extents of deleted volumes that still have to be erased", {}};
  Gauge volumes{"quarry_pool_volumes", "Volumes in the pool", {}};
  Gauge missing{"quarry_pool_missing_disks", "Disks of the volume group that are missing", {}};
  Gauge capacity{"quarry_profile_capacity_bytes",
                 "Largest volume of a type, with its default geometry, that could be created now",
                 {}};
  Gauge health{"quarry_volume_health",
               "1 for the current state of a volume: healthy, syncing, degraded, repairing, failed, unknown",
               {}};
};

void Add(const engine::PoolFigures& figures, PoolGauges& gauges) {
  const MetricLabels pool{{"pool", figures.pool}};
  gauges.readable.values.push_back({pool, figures.problem.empty() ? 1 : 0});
  if (!figures.problem.empty()) {
    return;
  }
  gauges.size.values.push_back({pool, static_cast<double>(figures.size.value)});
  gauges.free.values.push_back({pool, static_cast<double>(figures.free.value)});
  gauges.erasing.values.push_back({pool, static_cast<double>(figures.erase_pending.value)});
  gauges.volumes.values.push_back({pool, static_cast<double>(figures.volumes)});
  gauges.missing.values.push_back({pool, static_cast<double>(figures.missing_disks)});
}

struct ScrubGauges {
  Gauge when{"quarry_volume_scrubbed_timestamp_seconds",
             "End of the last complete scrub of a RAID volume, as seconds since 1970",
             {}};
  Gauge mismatched{
      "quarry_volume_mismatched_bytes",
      "Bytes that the last scrub found to differ between the legs of a RAID volume and did not repair",
      {}};
};

void AddScrubs(const engine::PoolStatus& pool, ScrubGauges& gauges) {
  for (const engine::VolumeStatus& volume : pool.volumes) {
    if (!volume.scrubbed.has_value()) {
      continue;
    }
    const MetricLabels labels{{"pool", pool.figures.pool}, {"volume", volume.id}};
    gauges.when.values.push_back(
        {labels, static_cast<double>(volume.scrubbed->ended.time_since_epoch().count())});
    gauges.mismatched.values.push_back({labels, static_cast<double>(volume.scrubbed->mismatched.value)});
  }
}

struct DiskGauges {
  Gauge warning{"quarry_disk_critical_warning",
                "1 for each critical warning of an NVMe disk's health log that is set, else 0",
                {}};
  Gauge spare{"quarry_disk_available_spare_ratio",
              "Spare blocks that an NVMe disk has left; 1 means all of them",
              {}};
  Gauge threshold{"quarry_disk_spare_threshold_ratio",
                  "Level of spare blocks below which an NVMe disk reports itself as failing",
                  {}};
  Gauge used{
      "quarry_disk_percentage_used_ratio",
      "Used part of an NVMe disk's life; 1 is the life that the vendor expects, and more than 1 is possible",
      {}};
  Gauge temperature{"quarry_disk_temperature_celsius", "Temperature of an NVMe disk", {}};
  Gauge errors{"quarry_disk_media_errors_total",
               "Times in its life that an NVMe disk could not return data",
               {},
               true};
  Gauge shutdowns{"quarry_disk_unsafe_shutdowns_total",
                  "Times in its life that an NVMe disk lost power without notice",
                  {},
                  true};
};

void AddDisks(const engine::PoolStatus& pool, DiskGauges& gauges) {
  constexpr std::array<std::pair<const char*, uint8_t>, 5> kWarnings = {
      {{"spare", udev::kSpareLow},
       {"temperature", udev::kTemperature},
       {"reliability", udev::kReliabilityDegraded},
       {"read_only", udev::kReadOnlyMedia},
       {"backup", udev::kBackupFailed}}};
  for (const engine::DiskStatus& disk : pool.disks) {
    if (!disk.health.has_value()) {
      continue;
    }
    const udev::DiskHealth& health = *disk.health;
    const MetricLabels labels{{"pool", pool.figures.pool}, {"pv", disk.pv_uuid}};
    for (const auto& [name, bit] : kWarnings) {
      MetricLabels with = labels;
      with["warning"] = name;
      gauges.warning.values.push_back({std::move(with), (health.critical_warning & bit) != 0 ? 1 : 0});
    }
    gauges.spare.values.push_back({labels, health.available_spare / 100.0});
    gauges.threshold.values.push_back({labels, health.spare_threshold / 100.0});
    gauges.used.values.push_back({labels, health.percentage_used / 100.0});
    gauges.temperature.values.push_back({labels, health.temperature});
    gauges.errors.values.push_back({labels, static_cast<double>(health.media_errors)});
    gauges.shutdowns.values.push_back({labels, static_cast<double>(health.unsafe_shutdowns)});
  }
}

void AddHealth(const engine::PoolStatus& pool, Gauge& gauge) {
  for (const engine::VolumeStatus& volume : pool.volumes) {
    gauge.values.push_back(
        {{{"pool", pool.figures.pool}, {"volume", volume.id}, {"state", volume.condition}}, 1});
  }
}

void AddCapacities(const engine::PoolStatus& pool, Gauge& gauge) {
  for (const auto& [type, largest] : pool.largest) {
    gauge.values.push_back({{{"pool", pool.figures.pool}, {"profile", std::string(lvm::TypeName(type))}},
                            static_cast<double>(largest.value)});
  }
}

}  // namespace

Exporter::Exporter()
    : rpcs_(metrics_.AddTimings("quarry_rpc_duration_seconds", "Duration of RPCs, by result")),
      commands_(metrics_.AddTimings("quarry_lvm_command_duration_seconds", "Duration of LVM commands")) {}

void Exporter::Observe(const csi::RpcOutcome& rpc) {
  rpcs_.Observe({{"service", std::string(rpc.service)},
                 {"method", std::string(rpc.method)},
                 {"code", CodeText(rpc.code)}},
                rpc.took);
}

void Exporter::Observe(const Command& command, std::chrono::duration<double> took) {
  commands_.Observe({{"verb", command.argv.at(1)}}, took);
}

std::string Exporter::Text(engine::Engine& engine, Subprocess& children, const std::string& version) const {
  const Call call = CallWithin(kPatience);
  PoolGauges gauges;
  DiskGauges disks;
  ScrubGauges scrubs;
  if (const auto pools = engine.lifecycle().NodeStatus(call); pools.has_value()) {
    for (const engine::PoolStatus& pool : *pools) {
      Add(pool.figures, gauges);
      AddHealth(pool, gauges.health);
      AddScrubs(pool, scrubs);
      AddDisks(pool, disks);
      AddCapacities(pool, gauges.capacity);
    }
    const bool ready = std::ranges::any_of(
        *pools, [](const engine::PoolStatus& pool) { return pool.figures.problem.empty(); });
    gauges.ready.values.push_back({{}, ready ? 1.0 : 0.0});
  }
  return metrics_.Text(
      {{"quarry_build_info", "Version of the running quarryd", {{{{"version", version}}, 1}}},
       {"quarry_stuck_processes",
        "Commands that survive SIGKILL because a disk does not answer",
        {{{}, static_cast<double>(children.Stuck().size())}}},
       {"quarry_log_lines_lost_total",
        "Log lines that were dropped because standard error was not read",
        {{{}, static_cast<double>(lost_lines_())}},
        true},
       gauges.ready,
       gauges.readable,
       gauges.size,
       gauges.free,
       gauges.erasing,
       gauges.volumes,
       gauges.missing,
       gauges.capacity,
       gauges.health,
       scrubs.when,
       scrubs.mismatched,
       disks.warning,
       disks.spare,
       disks.threshold,
       disks.used,
       disks.temperature,
       disks.errors,
       disks.shutdowns});
}

}  // namespace quarry::daemon
