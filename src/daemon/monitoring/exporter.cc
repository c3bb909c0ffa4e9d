#include "daemon/monitoring/exporter.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/severity.h"
#include "lvm/geometry.h"

namespace quarry::daemon {
namespace {

// A monitoring system asks every 15 s or so, and gives up after 10 s.
constexpr std::chrono::seconds kPatience{8};

// The names of the codes of gRPC, by their numbers.
constexpr auto kCodes = std::to_array<std::string_view>(
    {"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
     "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
     "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"});
static_assert(kCodes[grpc::StatusCode::UNAUTHENTICATED] == "UNAUTHENTICATED");

std::string CodeText(grpc::StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return std::string(number < kCodes.size() ? kCodes[number] : "UNKNOWN");
}

// The things of one kind that are measured, with their labels.
template <typename Thing>
using Labelled = std::vector<std::pair<MetricLabels, const Thing*>>;

// A metric with one value for each thing of one kind.
template <typename Thing>
struct Figure {
  const char* name;
  const char* help;
  double (*value)(const Thing& thing);
  bool counts = false;
  bool (*has)(const Thing& thing) = nullptr;  // whether a thing has the value; nullptr: each has it
};

using Pool = engine::PoolFigures;
constexpr auto kPoolFigures = std::to_array<Figure<Pool>>({
    {"quarry_pool_size_bytes", "Physical extents of the pool's volume group",
     [](const Pool& pool) { return static_cast<double>(pool.size.value); }},
    {"quarry_pool_free_bytes", "Physical extents that belong to no logical volume",
     [](const Pool& pool) { return static_cast<double>(pool.free.value); }},
    {"quarry_pool_zeroed_bytes", "Free physical extents that are known to read as zeroes",
     [](const Pool& pool) { return static_cast<double>(pool.zeroed.value); }},
    {"quarry_erase_pending_bytes", "Physical extents of deleted volumes that still have to be erased",
     [](const Pool& pool) { return static_cast<double>(pool.erase_pending.value); }},
    {"quarry_pool_volumes", "Volumes in the pool",
     [](const Pool& pool) { return static_cast<double>(pool.volumes); }},
    {"quarry_pool_snapshots", "Snapshots in the pool",
     [](const Pool& pool) { return static_cast<double>(pool.snapshots); }},
    {"quarry_pool_metadata_size_bytes", "Size of the fullest metadata area of the pool's volume group",
     [](const Pool& pool) { return static_cast<double>(pool.metadata_size.value); }},
    {"quarry_pool_metadata_free_bytes", "Free space in the fullest metadata area of the pool's volume group",
     [](const Pool& pool) { return static_cast<double>(pool.metadata_free.value); }},
    {"quarry_pool_missing_disks", "Disks of the volume group that are missing",
     [](const Pool& pool) { return static_cast<double>(pool.missing_disks); }},
    {"quarry_pool_failing_disks",
     "Disks of the volume group that get no new data, because they report that they fail or drop RAID legs",
     [](const Pool& pool) { return static_cast<double>(pool.failing_disks); }},
});

using Store = engine::StoreStatus;
bool HasUse(const Store& store) {
  return store.use.has_value();
}
bool IsMade(const Store& store) {
  return !store.id.empty();
}
engine::Severity SeverityOf(const Store& store) {
  return engine::SeverityOfStore(engine::StoreModeName(store.mode), store.condition, !store.problem.empty());
}

constexpr auto kStoreFigures = std::to_array<Figure<Store>>({
    {"quarry_store_healthy", "1 if nothing is wrong with a thin store and its legs, else 0",
     [](const Store& store) { return SeverityOf(store) == engine::Severity::kOk ? 1.0 : 0.0; }},
    {"quarry_store_size_bytes", "Size of the data of a thin store: what its volumes can have together",
     [](const Store& store) { return static_cast<double>(store.size.value); }, false, &IsMade},
    {"quarry_store_promised_bytes",
     "Sizes of all volumes in a thin store, also of those that are being erased",
     [](const Store& store) { return static_cast<double>(store.promised.value); }, false, &IsMade},
    {"quarry_store_promisable_bytes",
     "What may be promised to volumes in a thin store: its size, more if it is overcommitted",
     [](const Store& store) { return static_cast<double>(store.promisable.value); }, false, &IsMade},
    {"quarry_store_free_bytes", "Largest volume that could be created in a thin store now",
     [](const Store& store) { return static_cast<double>(store.free.value); }, false, &IsMade},
    {"quarry_store_volumes", "Volumes and snapshots in a thin store",
     [](const Store& store) { return static_cast<double>(store.volumes); }, false, &IsMade},
    {"quarry_store_degraded_legs",
     "Legs of data and metadata of a thin store that are missing, failed or being rebuilt",
     [](const Store& store) { return static_cast<double>(store.degraded_legs); }, false, &IsMade},
    {"quarry_store_data_used_bytes", "Chunks of a thin store that volumes have written",
     [](const Store& store) { return static_cast<double>(store.use->data.value); }, false, &HasUse},
    {"quarry_store_metadata_size_bytes", "Size of the metadata of a thin store",
     [](const Store& store) { return static_cast<double>(store.use->metadata_size.value); }, false, &HasUse},
    {"quarry_store_metadata_used_bytes", "Metadata of a thin store that are used",
     [](const Store& store) { return static_cast<double>(store.use->metadata.value); }, false, &HasUse},
});

using Scrub = engine::ScrubOutcome;
constexpr auto kScrubFigures = std::to_array<Figure<Scrub>>({
    {"quarry_volume_scrubbed_timestamp_seconds",
     "End of the last complete scrub of a RAID volume, as seconds since 1970",
     [](const Scrub& scrub) { return static_cast<double>(scrub.ended.time_since_epoch().count()); }},
    {"quarry_volume_mismatched_bytes",
     "Bytes that the last scrub found to differ between the legs of a RAID volume and did not repair",
     [](const Scrub& scrub) { return static_cast<double>(scrub.mismatched.value); }},
});

constexpr auto kPartFigures = std::to_array<Figure<Scrub>>({
    {"quarry_store_scrubbed_timestamp_seconds",
     "End of the last complete scrub of a thin store's data or metadata, as seconds since 1970",
     [](const Scrub& scrub) { return static_cast<double>(scrub.ended.time_since_epoch().count()); }},
    {"quarry_store_mismatched_bytes",
     "Bytes that the last scrub found to differ between the legs of a thin store's data or metadata and did "
     "not repair",
     [](const Scrub& scrub) { return static_cast<double>(scrub.mismatched.value); }},
});

using Health = udev::DiskHealth;
bool IsNvme(const Health& health) {
  return health.source == udev::HealthSource::kNvme;
}

constexpr auto kDiskFigures = std::to_array<Figure<Health>>({
    {"quarry_disk_available_spare_ratio", "Spare blocks that an NVMe disk has left; 1 means all of them",
     [](const Health& health) { return health.available_spare / 100.0; }, false, &IsNvme},
    {"quarry_disk_spare_threshold_ratio",
     "Level of spare blocks below which an NVMe disk reports itself as failing",
     [](const Health& health) { return health.spare_threshold / 100.0; }, false, &IsNvme},
    {"quarry_disk_percentage_used_ratio",
     "Used part of a disk's life; 1 is the life that the vendor expects, and more than 1 is possible",
     [](const Health& health) { return health.percentage_used / 100.0; }, false,
     [](const Health& health) { return health.has_wear; }},
    {"quarry_disk_temperature_celsius", "Temperature of a disk",
     [](const Health& health) { return static_cast<double>(health.temperature); }, false,
     [](const Health& health) { return health.has_temperature; }},
    {"quarry_disk_media_errors_total", "Times in its life that an NVMe disk could not return data",
     [](const Health& health) { return static_cast<double>(health.media_errors); }, true, &IsNvme},
    {"quarry_disk_unsafe_shutdowns_total", "Times in its life that an NVMe disk lost power without notice",
     [](const Health& health) { return static_cast<double>(health.unsafe_shutdowns); }, true, &IsNvme},
    {"quarry_disk_reallocated_sectors", "Sectors that a SATA disk has replaced",
     [](const Health& health) { return static_cast<double>(health.reallocated_sectors.value_or(0)); }, false,
     [](const Health& health) { return health.reallocated_sectors.has_value(); }},
    {"quarry_disk_pending_sectors", "Sectors that a SATA disk could not read and may replace",
     [](const Health& health) { return static_cast<double>(health.pending_sectors.value_or(0)); }, false,
     [](const Health& health) { return health.pending_sectors.has_value(); }},
    {"quarry_disk_uncorrectable_sectors", "Sectors that a SATA disk could not read in its own tests",
     [](const Health& health) { return static_cast<double>(health.uncorrectable_sectors.value_or(0)); },
     false, [](const Health& health) { return health.uncorrectable_sectors.has_value(); }},
    {"quarry_disk_grown_defects", "Defects that a SAS disk has found since it was made",
     [](const Health& health) { return static_cast<double>(health.grown_defects.value_or(0)); }, false,
     [](const Health& health) { return health.grown_defects.has_value(); }},
});

template <typename Thing, size_t kCount>
void Append(const std::array<Figure<Thing>, kCount>& figures, const Labelled<Thing>& things,
            std::vector<Gauge>& out) {
  for (const Figure<Thing>& figure : figures) {
    Gauge& gauge = out.emplace_back(figure.name, figure.help);
    gauge.counts = figure.counts;
    for (const auto& [labels, thing] : things) {
      if (figure.has == nullptr || figure.has(*thing)) {
        gauge.values.push_back({labels, figure.value(*thing)});
      }
    }
  }
}

// 1 for each critical warning of the disk that is set, else 0.
void AddWarnings(const MetricLabels& disk, const Health& health, Gauge& gauge) {
  constexpr std::array<std::pair<const char*, uint8_t>, 5> kWarnings = {
      {{"spare", udev::kSpareLow},
       {"temperature", udev::kTemperature},
       {"reliability", udev::kReliabilityDegraded},
       {"read_only", udev::kReadOnlyMedia},
       {"backup", udev::kBackupFailed}}};
  for (const auto& [name, bit] : kWarnings) {
    if (!IsNvme(health) && bit != udev::kReliabilityDegraded && bit != udev::kTemperature) {
      continue;
    }
    MetricLabels with = disk;
    with["warning"] = name;
    gauge.values.push_back({std::move(with), (health.critical_warning & bit) != 0 ? 1 : 0});
  }
}

// The gauges of all pools, in the order of the text.
void AppendState(const std::vector<engine::PoolStatus>& pools, std::vector<Gauge>& out) {
  Gauge readable{"quarry_pool_readable", "1 if the pool serves and its volume group could be read, else 0"};
  Gauge capacity{"quarry_profile_capacity_bytes",
                 "Largest volume of a type, with its default geometry, that could be created now"};
  Gauge health{"quarry_volume_health",
               "1 for the current state of a volume: healthy, syncing, degraded, repairing, failed, unknown"};
  Gauge warning{"quarry_disk_critical_warning",
                "1 for each critical warning of a disk's health report that is set, else 0"};
  Gauge mode{"quarry_store_mode", "1 for the current mode of a thin store: rw, read-only, failed and others"};
  Labelled<Pool> read;
  Labelled<Store> stores;
  Labelled<Scrub> scrubs, part_scrubs;
  Labelled<Health> disks;
  for (const engine::PoolStatus& pool : pools) {
    const std::string& name = pool.figures.pool;
    const bool is_read = pool.figures.problem.empty();
    readable.values.push_back({{{"pool", name}}, is_read ? 1.0 : 0.0});
    if (is_read) {
      read.push_back({{{"pool", name}}, &pool.figures});
    }
    for (const auto& [type, largest] : pool.largest) {
      capacity.values.push_back({{{"pool", name}, {"profile", std::string(lvm::TypeName(type))}},
                                 static_cast<double>(largest.value)});
    }
    for (const engine::VolumeStatus& volume : pool.volumes) {
      health.values.push_back({{{"pool", name}, {"volume", volume.id}, {"state", volume.condition}}, 1});
      if (volume.scrubbed.has_value()) {
        scrubs.push_back({{{"pool", name}, {"volume", volume.id}}, &*volume.scrubbed});
      }
    }
    for (const Store& store : pool.stores) {
      stores.push_back({{{"pool", name}, {"store", store.name}}, &store});
      for (const engine::StorePart& part : store.parts) {
        if (part.scrubbed.has_value()) {
          part_scrubs.push_back(
              {{{"pool", name}, {"store", store.name}, {"part", part.is_metadata ? "metadata" : "data"}},
               &*part.scrubbed});
        }
      }
      mode.values.push_back(
          {{{"pool", name}, {"store", store.name}, {"mode", std::string(engine::StoreModeName(store.mode))}},
           1});
    }
    for (const engine::DiskStatus& disk : pool.disks) {
      if (disk.health.has_value()) {
        disks.push_back({{{"pool", name}, {"pv", disk.pv_uuid}}, &*disk.health});
        AddWarnings(disks.back().first, *disk.health, warning);
      }
    }
  }
  out.push_back(std::move(readable));
  Append(kPoolFigures, read, out);
  out.push_back(std::move(capacity));
  out.push_back(std::move(mode));
  Append(kStoreFigures, stores, out);
  Append(kPartFigures, part_scrubs, out);
  out.push_back(std::move(health));
  Append(kScrubFigures, scrubs, out);
  out.push_back(std::move(warning));
  Append(kDiskFigures, disks, out);
}

void AppendRegistration(const csi::kubelet::Registration& registration, std::vector<Gauge>& out) {
  out.push_back({"quarry_kubelet_registered",
                 "1 if the kubelet's last word was that it has registered this driver, else 0",
                 {{{}, registration.registered ? 1.0 : 0.0}}});
  out.push_back({"quarry_kubelet_refusals_total",
                 "Times that the kubelet has refused to register this driver",
                 {{{}, static_cast<double>(registration.refusals)}},
                 true});
}

using Bucket = bucket::Bucket;
bool HasContent(const Bucket& bucket) {
  return bucket.content.has_value();
}

constexpr auto kBucketFigures = std::to_array<Figure<Bucket>>({
    {"quarry_bucket_serving", "1 if clients reach the bucket, else 0",
     [](const Bucket& bucket) { return bucket.serving ? 1.0 : 0.0; }},
    {"quarry_bucket_objects", "Objects in a bucket, as last counted",
     [](const Bucket& bucket) { return static_cast<double>(bucket.content->objects); }, false, &HasContent},
    {"quarry_bucket_used_bytes", "Bytes in use of a bucket's file system",
     [](const Bucket& bucket) { return static_cast<double>(bucket.content->used.value); }, false,
     &HasContent},
    {"quarry_bucket_available_bytes", "Bytes that clients can still write to a bucket",
     [](const Bucket& bucket) { return static_cast<double>(bucket.content->available.value); }, false,
     &HasContent},
});

using Requests = bucket::RequestCounts;
constexpr auto kTrafficFigures = std::to_array<Figure<Requests>>({
    {"quarry_bucket_received_bytes_total", "Bytes of objects that clients have written to a bucket",
     [](const Requests& requests) { return static_cast<double>(requests.received); }, true},
    {"quarry_bucket_sent_bytes_total", "Bytes of objects that clients have read from a bucket",
     [](const Requests& requests) { return static_cast<double>(requests.sent); }, true},
});

// Calls `visit(operation, code, number)` for each kind of request.
template <typename Visit>
void ForEachKind(const Requests& requests, const Visit& visit) {
  for (size_t operation = 0; operation < bucket::kOperations; ++operation) {
    for (size_t code = 0; code < bucket::kCodeClasses; ++code) {
      const auto as_operation = static_cast<bucket::Operation>(operation);
      const auto as_code = static_cast<bucket::CodeClass>(code);
      visit(as_operation, as_code, static_cast<double>(requests.Of(as_operation, as_code)));
    }
  }
}

void AppendRequests(const bucket::Figures& figures, std::vector<Gauge>& out) {
  Gauge requests{"quarry_bucket_requests_total",
                 "Requests that the S3 gateway has answered, by what they asked for and by their status"};
  Gauge elsewhere{"quarry_s3_gateway_other_requests_total",
                  "Requests that the S3 gateway has answered and that named no bucket of this node"};
  requests.counts = elsewhere.counts = true;
  Labelled<Requests> buckets;
  for (const Bucket& one : figures.buckets) {
    const auto found = figures.requests.find(one.id);
    if (found == figures.requests.end()) {
      continue;
    }
    buckets.push_back({{{"bucket", one.name}, {"pool", one.pool}}, &found->second});
    ForEachKind(found->second, [&](bucket::Operation operation, bucket::CodeClass code, double number) {
      MetricLabels labels = buckets.back().first;
      labels["operation"] = bucket::OperationWord(operation);
      labels["code"] = bucket::CodeClassWord(code);
      requests.values.push_back({std::move(labels), number});
    });
  }
  std::array<double, bucket::kCodeClasses> by_code{};
  ForEachKind(figures.elsewhere, [&](bucket::Operation, bucket::CodeClass code, double number) {
    by_code.at(static_cast<size_t>(code)) += number;
  });
  for (size_t code = 0; code < by_code.size(); ++code) {
    elsewhere.values.push_back(
        {{{"code", std::string(bucket::CodeClassWord(static_cast<bucket::CodeClass>(code)))}},
         by_code.at(code)});
  }
  out.push_back(std::move(requests));
  Append(kTrafficFigures, buckets, out);
  out.push_back(std::move(elsewhere));
  out.push_back({"quarry_s3_gateway_refused_reports_total",
                 "Reports of the S3 gateway about its requests that quarryd could not read",
                 {{{}, static_cast<double>(figures.refused_reports)}},
                 true});
}

void AppendBuckets(const bucket::Figures& figures, std::vector<Gauge>& out) {
  out.push_back({"quarry_s3_gateway_healthy",
                 "1 if the S3 gateway served requests when it was last asked, else 0",
                 {{{}, figures.gateway_healthy ? 1.0 : 0.0}}});
  out.push_back({"quarry_s3_gateway_full",
                 "1 if the S3 gateway was well when it was last asked, but new requests had to wait, else 0",
                 {{{}, figures.gateway_full ? 1.0 : 0.0}}});
  Labelled<Bucket> buckets;
  for (const Bucket& one : figures.buckets) {
    buckets.push_back({{{"bucket", one.name}, {"pool", one.pool}}, &one});
  }
  Append(kBucketFigures, buckets, out);
  AppendRequests(figures, out);
}

}  // namespace

void Exporter::Observe(const csi::RpcOutcome& rpc) {
  rpcs_({{"service", std::string(rpc.service)},
         {"method", std::string(rpc.method)},
         {"code", CodeText(rpc.code)}},
        rpc.took);
}

void Exporter::Observe(const csi::kubelet::Registration& registration) {
  const MutexLock lock(mutex_);
  registration_ = registration;
}

void Exporter::Observe(const Command& command, std::chrono::duration<double> took) {
  commands_({{"verb", command.argv.at(1)}}, took);
}

std::string Exporter::Problem(engine::Engine& engine) {
  const auto probed = engine.lifecycle().Probe(CallWithin(kPatience));
  if (!probed.has_value()) {
    return probed.error().message();
  }
  return probed->ready ? "" : probed->message;
}

std::string Exporter::Text(engine::Engine& engine, Subprocess& children, const std::string& version,
                           const bucket::Buckets* buckets) const {
  const auto pools = engine.lifecycle().NodeStatus(CallWithin(kPatience));
  Gauge ready{"quarry_ready", "1 while at least one pool serves, else 0"};
  if (pools.has_value()) {
    const bool serves = std::ranges::any_of(
        *pools, [](const engine::PoolStatus& pool) { return pool.figures.problem.empty(); });
    ready.values.push_back({{}, serves ? 1.0 : 0.0});
  }
  std::vector<Gauge> gauges = {
      {"quarry_build_info", "Version of the running quarryd", {{{{"version", version}}, 1}}},
      {"quarry_stuck_processes",
       "Commands that survive SIGKILL because a disk does not answer",
       {{{}, static_cast<double>(children.Stuck().size())}}},
      {"quarry_log_lines_lost_total",
       "Log lines that were dropped because standard error was not read",
       {{{}, static_cast<double>(lost_lines_())}},
       true},
      std::move(ready)};
  {
    const MutexLock lock(mutex_);
    if (registration_.has_value()) {
      AppendRegistration(*registration_, gauges);
    }
  }
  const bucket::Figures figures = buckets != nullptr ? buckets->CurrentFigures() : bucket::Figures();
  if (buckets != nullptr) {
    AppendBuckets(figures, gauges);
  }
  AppendState(pools.has_value() ? *pools : std::vector<engine::PoolStatus>(), gauges);
  return metrics_.Text(gauges);
}

}  // namespace quarry::daemon
