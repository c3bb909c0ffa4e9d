#include "csi/admin/services.h"

#include <optional>
#include <utility>

#include <fmt/format.h>
#include <quarry/admin/v1/admin.grpc.pb.h>

#include "csi/fields.h"

namespace quarry::csi::admin {
namespace {

namespace pb = ::quarry::admin::v1;
using grpc::ServerContext;

Status CheckAdopt(const pb::AdoptRequest& request) {
  QUARRY_TRY(CheckRequired("volume_group", request.volume_group()));
  QUARRY_TRY(CheckRequired("logical_volume", request.logical_volume()));
  if (request.csilvm() && !request.name().empty()) {
    return Status(Invalid("name", "is taken from the tags of a csilvm volume"));
  }
  return request.name().empty() ? Ok() : CheckName("name", request.name());
}

Result<std::optional<AbsolutePath>> ParseOptionalPath(const std::string& text) {
  if (text.empty()) {
    return std::optional<AbsolutePath>();
  }
  QUARRY_ASSIGN(AbsolutePath path, ParsePath("target_path", text));
  return std::optional(std::move(path));
}

void Describe(const udev::DiskHealth& health, pb::DiskHealth& entry) {
  using udev::HealthSource;
  const bool nvme = health.source == HealthSource::kNvme;
  entry.set_source(nvme ? "nvme" : health.source == HealthSource::kAta ? "ata" : "scsi");
  entry.set_failure(health.failure);
  const auto set = [&entry](void (pb::DiskHealth::*field)(uint64_t), const std::optional<uint64_t>& value) {
    if (value.has_value()) {
      (entry.*field)(*value);
    }
  };
  set(&pb::DiskHealth::set_reallocated_sectors, health.reallocated_sectors);
  set(&pb::DiskHealth::set_pending_sectors, health.pending_sectors);
  set(&pb::DiskHealth::set_uncorrectable_sectors, health.uncorrectable_sectors);
  set(&pb::DiskHealth::set_grown_defects, health.grown_defects);
  entry.set_critical_warning(health.critical_warning);
  entry.set_available_spare_percent(nvme ? health.available_spare : 0);
  entry.set_spare_threshold_percent(health.spare_threshold);
  entry.set_percentage_used(health.percentage_used);
  entry.set_temperature_celsius(health.temperature);
  entry.set_media_errors(health.media_errors);
  entry.set_unsafe_shutdowns(health.unsafe_shutdowns);
  entry.set_deallocated_is_zero(health.deallocated_is_zero);
  entry.set_write_granularity_bytes(ToInt64(health.write_granularity.value_or(Bytes{})));
  entry.set_discard_granularity_bytes(ToInt64(health.discard_granularity.value_or(Bytes{})));
}

void Describe(const engine::DeviceReport& device, pb::ListDevicesResponse::Device& entry) {
  entry.set_path(device.disk.node);
  entry.set_identity(device.disk.identity);
  entry.set_model(device.disk.model);
  entry.set_serial(device.disk.serial);
  entry.set_transport(device.disk.transport);
  entry.set_size_bytes(ToInt64(device.disk.size));
  entry.set_rotational(device.disk.rotational);
  entry.set_logical_block_bytes(ToInt64(device.disk.logical_block));
  entry.set_physical_block_bytes(ToInt64(device.disk.physical_block));
  entry.mutable_links()->Assign(device.disk.links.begin(), device.disk.links.end());
  entry.mutable_partitions()->Assign(device.disk.partitions.begin(), device.disk.partitions.end());
  entry.mutable_holders()->Assign(device.disk.holders.begin(), device.disk.holders.end());
  entry.set_pv_uuid(device.pv_uuid);
  entry.set_holds(device.holds);
  entry.set_pool(device.pool);
  entry.set_rule(device.rule);
  entry.set_member(device.member);
  entry.set_wanted(device.wanted);
  entry.set_reason(device.words);
  if (device.disk.failed_commands.has_value()) {
    entry.set_failed_commands(*device.disk.failed_commands);
  }
  if (device.health.has_value()) {
    Describe(*device.health, *entry.mutable_health());
  }
}

void Describe(const engine::ScrubOutcome& scrub, pb::GetStatusResponse::Scrub& entry) {
  entry.set_ended_at(scrub.ended.time_since_epoch().count());
  entry.set_mismatched_bytes(ToInt64(scrub.mismatched));
}

void Describe(const engine::StoreStatus& store, pb::ThinStore& entry) {
  entry.set_name(store.name);
  entry.set_mode(std::string(engine::StoreModeName(store.mode)));
  entry.set_problem(store.problem);
  entry.set_store_id(store.id);
  entry.set_logical_volume(store.lv_name);
  entry.set_layout(store.layout);
  entry.set_condition(store.condition);
  entry.set_detail(store.detail);
  if (store.percent.has_value()) {
    entry.set_percent(*store.percent);
  }
  entry.set_chunk_bytes(ToInt64(store.chunk));
  entry.set_size_bytes(ToInt64(store.size));
  entry.set_promised_bytes(ToInt64(store.promised));
  entry.set_promisable_bytes(ToInt64(store.promisable));
  entry.set_max_bytes(ToInt64(store.most));
  if (store.full_in.has_value()) {
    entry.set_full_in_seconds(store.full_in->count());
  }
  entry.set_free_bytes(ToInt64(store.free));
  entry.set_full(store.full);
  if (store.use.has_value()) {
    auto& use = *entry.mutable_use();
    use.set_data_bytes(ToInt64(store.use->data));
    use.set_metadata_bytes(ToInt64(store.use->metadata));
    use.set_metadata_size_bytes(ToInt64(store.use->metadata_size));
  }
  entry.set_legs(static_cast<uint32_t>(store.legs));
  entry.set_degraded_legs(static_cast<uint32_t>(store.degraded_legs));
  entry.set_volumes(static_cast<uint32_t>(store.volumes));
  for (const engine::StorePart& part : store.parts) {
    auto& out = *entry.add_parts();
    out.set_part_id(part.id);
    out.set_part(part.is_metadata ? "metadata" : "data");
    out.set_scrub_pending(part.scrub_pending);
    if (part.scrubbed.has_value()) {
      Describe(*part.scrubbed, *out.mutable_scrubbed());
    }
  }
}

void Describe(const engine::StoreVolume& volume, pb::GetStoreResponse::Volume& entry) {
  entry.set_kind(volume.kind);
  entry.set_volume_id(volume.id);
  entry.set_name(volume.name);
  entry.set_logical_volume(volume.lv_name);
  entry.set_size_bytes(ToInt64(volume.size));
  if (volume.mapped.has_value()) {
    entry.set_mapped_bytes(ToInt64(*volume.mapped));
  }
  if (volume.exclusive.has_value()) {
    entry.set_exclusive_bytes(ToInt64(*volume.exclusive));
  }
}

void FillPool(const engine::PoolStatus& pool, pb::GetStatusResponse::Pool& out) {
  out.set_name(pool.figures.pool);
  out.set_volume_group(pool.group);
  out.set_problem(pool.figures.problem);
  out.set_size_bytes(ToInt64(pool.figures.size));
  out.set_free_bytes(ToInt64(pool.figures.free));
  out.set_erase_pending_bytes(ToInt64(pool.figures.erase_pending));
  out.set_zeroed_bytes(ToInt64(pool.figures.zeroed));
  out.set_zeroing_bytes(ToInt64(pool.figures.zeroing));
  out.set_metadata_size_bytes(ToInt64(pool.figures.metadata_size));
  out.set_metadata_free_bytes(ToInt64(pool.figures.metadata_free));
  for (const engine::DiskStatus& disk : pool.disks) {
    auto& entry = *out.add_disks();
    entry.set_pv_uuid(disk.pv_uuid);
    entry.set_device(disk.device);
    entry.set_state(std::string(engine::DiskConditionName(disk.condition)));
    entry.set_size_bytes(ToInt64(disk.size));
    entry.set_free_bytes(ToInt64(disk.free));
    entry.set_detail(disk.detail);
    entry.set_leaving(disk.leaving);
  }
  for (const engine::StoreStatus& store : pool.stores) {
    Describe(store, *out.add_stores());
  }
  for (const engine::VolumeStatus& volume : pool.volumes) {
    auto& entry = *out.add_volumes();
    entry.set_volume_id(volume.id);
    entry.set_name(volume.name);
    entry.set_type(volume.type);
    entry.set_capacity_bytes(ToInt64(volume.size));
    entry.set_condition(volume.condition);
    entry.set_detail(volume.detail);
    if (volume.percent.has_value()) {
      entry.set_percent(*volume.percent);
    }
    entry.set_scrub_pending(volume.scrub_pending);
    entry.set_snapshot_of(volume.snapshot_of);
    entry.set_fs_type(volume.fs_type);
    entry.set_mount_point(volume.mount_point);
    entry.set_mount_options(volume.mount_options);
    entry.set_is_bucket(volume.is_bucket);
    entry.set_asked_bytes(ToInt64(volume.asked));
    entry.mutable_used_at()->Assign(volume.used_at.begin(), volume.used_at.end());
    if (volume.scrubbed.has_value()) {
      Describe(*volume.scrubbed, *entry.mutable_scrubbed());
    }
  }
}

int64_t Microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

void Describe(const CallFacts& call, pb::ListCallsResponse::Call& entry) {
  entry.set_trace_id(call.record->id());
  entry.set_method(call.method);
  entry.set_version(call.version);
  entry.set_volume_id(call.volume);
  entry.set_began_at_us(Microseconds(call.began.time_since_epoch()));
  entry.set_took_us(Microseconds(call.took));
  entry.set_code(call.code);
  const CallRecord::Steps steps = call.record->steps();
  entry.set_forgotten_steps(steps.forgotten);
  for (const CallRecord::Step& step : steps.steps) {
    auto& out = *entry.add_steps();
    out.set_text(step.text);
    out.set_from_us(Microseconds(step.from));
    out.set_took_us(Microseconds(step.took));
  }
}

class AdminService final : public pb::Admin::Service {
 public:
  AdminService(engine::Engine& engine, Edge& edge, const CallHistory& history, ReloadSettings reload)
      : engine_(engine), edge_(edge), history_(history), reload_(std::move(reload)) {}

  grpc::Status Adopt(ServerContext* context, const pb::AdoptRequest* request,
                     pb::AdoptResponse* response) override {
    return edge_.Serve({"Adopt", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckAdopt(*request));
      QUARRY_ASSIGN(const engine::AdoptResult result,
                    engine_.adoption().Adopt({.group = request->volume_group(),
                                              .lv_name = request->logical_volume(),
                                              .name = request->name(),
                                              .csilvm = request->csilvm(),
                                              .fs_type = request->fs_type(),
                                              .erase = request->erase(),
                                              .dry_run = request->dry_run()},
                                             rpc.call));
      rpc.volume = result.volume.id;
      rpc.note = fmt::format("{}/{} {}", request->volume_group(), request->logical_volume(),
                             result.changed ? "adopted" : "not changed");
      response->set_volume_id(result.volume.id);
      response->set_name(result.volume.name);
      response->set_capacity_bytes(ToInt64(result.volume.size));
      if (const auto type = result.volume.context.find("type"); type != result.volume.context.end()) {
        response->set_type(type->second);
      }
      response->set_access(result.access);
      response->set_holds(result.holds);
      response->set_changed(result.changed);
      return Ok();
    });
  }

  grpc::Status Release(ServerContext* context, const pb::ReleaseRequest* request,
                       pb::ReleaseResponse* response) override {
    return edge_.Serve({"Release", true}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("volume_id", request->volume_id()));
      QUARRY_ASSIGN(const engine::ReleaseResult result,
                    engine_.adoption().Release(request->volume_id(), request->dry_run(), rpc.call));
      rpc.note =
          fmt::format("{}/{} {}", result.group, result.lv_name, result.changed ? "released" : "not changed");
      response->set_volume_group(result.group);
      response->set_logical_volume(result.lv_name);
      response->set_changed(result.changed);
      return Ok();
    });
  }

  grpc::Status ListForeign(ServerContext* context, const pb::ListForeignRequest* request,
                           pb::ListForeignResponse* response) override {
    return edge_.Serve({"ListForeign"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("volume_group", request->volume_group()));
      QUARRY_ASSIGN(const auto lvs, engine_.adoption().Foreign(request->volume_group(), rpc.call));
      for (const engine::ForeignLv& lv : lvs) {
        auto& entry = *response->add_logical_volumes();
        entry.set_name(lv.lv_name);
        entry.set_volume_id(lv.id);
        entry.set_capacity_bytes(ToInt64(lv.size));
        entry.set_csilvm(lv.csilvm);
      }
      return Ok();
    });
  }

  grpc::Status ListDevices(ServerContext* context, const pb::ListDevicesRequest* request,
                           pb::ListDevicesResponse* response) override {
    return edge_.Serve({"ListDevices"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const auto devices, engine_.disks().Devices(rpc.call));
      for (const engine::DeviceReport& device : devices) {
        Describe(device, *response->add_devices());
      }
      return Ok();
    });
  }

  grpc::Status GetStatus(ServerContext* context, const pb::GetStatusRequest* request,
                         pb::GetStatusResponse* response) override {
    return edge_.Serve({"GetStatus"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const auto pools, engine_.lifecycle().NodeStatus(rpc.call));
      for (const engine::PoolStatus& pool : pools) {
        FillPool(pool, *response->add_pools());
      }
      return Ok();
    });
  }

  grpc::Status GetStore(ServerContext* context, const pb::GetStoreRequest* request,
                        pb::GetStoreResponse* response) override {
    return edge_.Serve({"GetStore"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("store", request->store()));
      QUARRY_ASSIGN(
          const engine::StoreDetail detail,
          engine_.lifecycle().ShowStore(request->pool(), request->store(), request->exclusive(), rpc.call));
      response->set_pool(detail.pool);
      response->set_volume_group(detail.group);
      Describe(detail.store, *response->mutable_store());
      for (const engine::StoreVolume& volume : detail.volumes) {
        Describe(volume, *response->add_volumes());
      }
      response->set_unknown(detail.unknown);
      return Ok();
    });
  }

  grpc::Status Repair(ServerContext* context, const pb::RepairRequest* request,
                      pb::RepairResponse* response) override {
    return edge_.Serve({"Repair", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(const engine::RepairReport report,
                    engine_.upkeep().Repair(engine::RepairCause::kAsked, rpc.call,
                                            {request->volume_ids().begin(), request->volume_ids().end()}));
      *response->mutable_done() = {report.done.begin(), report.done.end()};
      *response->mutable_obstacles() = {report.obstacles.begin(), report.obstacles.end()};
      return Ok();
    });
  }

  grpc::Status RepairStore(ServerContext* context, const pb::RepairStoreRequest* request,
                           pb::RepairStoreResponse* response) override {
    return edge_.Serve({"RepairStore", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("store", request->store()));
      QUARRY_ASSIGN(
          const engine::StoreRepairAnswer done,
          engine_.upkeep().RepairStore(
              {.store = request->store(), .pool = request->pool(), .dry_run = request->dry_run()}, rpc.call));
      rpc.note = fmt::format("{}/{} {}", done.pool, done.store,
                             done.steps.empty() || request->dry_run() ? "not changed" : "repaired");
      response->set_pool(done.pool);
      response->set_volume_group(done.group);
      response->set_store(done.store);
      response->set_found(done.found);
      *response->mutable_steps() = {done.steps.begin(), done.steps.end()};
      response->set_kept(done.kept);
      return Ok();
    });
  }

  grpc::Status Evacuate(ServerContext* context, const pb::EvacuateRequest* request,
                        pb::EvacuateResponse* response) override {
    return edge_.Serve({"Evacuate", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("disk", request->disk()));
      QUARRY_ASSIGN(const engine::EvacuateResult result,
                    engine_.disks().Evacuate({.disk = request->disk(),
                                              .rebuild = request->rebuild(),
                                              .cancel = request->cancel(),
                                              .dry_run = request->dry_run()},
                                             rpc.call));
      rpc.note = fmt::format("{} {}", result.pv_uuid, result.changed ? "marked" : "not changed");
      response->set_pool(result.pool);
      response->set_volume_group(result.group);
      response->set_pv_uuid(result.pv_uuid);
      response->set_device(result.device);
      response->set_to_move_bytes(ToInt64(result.to_move));
      *response->mutable_volume_ids() = {result.volumes.begin(), result.volumes.end()};
      response->set_changed(result.changed);
      return Ok();
    });
  }

  grpc::Status Scrub(ServerContext* context, const pb::ScrubRequest* request,
                     pb::ScrubResponse* response) override {
    return edge_.Serve({"Scrub", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      QUARRY_ASSIGN(
          const std::vector<engine::ScrubAnswer> answers,
          engine_.upkeep().Scrub({.ids = {request->volume_ids().begin(), request->volume_ids().end()},
                                  .repair = request->repair()},
                                 rpc.call));
      for (const engine::ScrubAnswer& answer : answers) {
        auto& entry = *response->add_volumes();
        entry.set_volume_id(answer.id);
        entry.set_name(answer.name);
        entry.set_refusal(answer.refusal);
      }
      return Ok();
    });
  }

  grpc::Status Mount(ServerContext* context, const pb::MountRequest* request,
                     pb::MountResponse* response) override {
    return edge_.Serve({"Mount", true}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("volume_id", request->volume_id()));
      QUARRY_ASSIGN(const auto path, ParseOptionalPath(request->target_path()));
      if (!path.has_value() && request->options_size() > 0) {
        return Status(Invalid("options", "are kept with the mount point: set both, or none"));
      }
      QUARRY_ASSIGN(const engine::MountResult result,
                    engine_.mounts().Mount({.id = request->volume_id(),
                                            .path = path,
                                            .flags = {request->options().begin(), request->options().end()}},
                                           rpc.call));
      rpc.note = fmt::format("{} {}", result.path, result.changed ? "mounted" : "not changed");
      response->set_path(result.path);
      response->set_changed(result.changed);
      return Ok();
    });
  }

  grpc::Status Unmount(ServerContext* context, const pb::UnmountRequest* request,
                       pb::UnmountResponse* response) override {
    return edge_.Serve({"Unmount", true}, *context, *request, request->volume_id(), [&](Rpc& rpc) -> Status {
      QUARRY_TRY(CheckRequired("volume_id", request->volume_id()));
      QUARRY_ASSIGN(const auto path, ParseOptionalPath(request->target_path()));
      QUARRY_ASSIGN(const engine::UnmountResult result,
                    engine_.mounts().Unmount(request->volume_id(), path, rpc.call));
      rpc.note = fmt::format("{} {}", result.path, result.changed ? "unmounted" : "not changed");
      response->set_path(result.path);
      response->set_changed(result.changed);
      return Ok();
    });
  }

  grpc::Status ListCalls(ServerContext* context, const pb::ListCallsRequest* request,
                         pb::ListCallsResponse* response) override {
    return edge_.Serve({"ListCalls"}, *context, *request, "", [&](Rpc& rpc) -> Status {
      for (const CallFacts& call : history_.Calls()) {
        if (call.record != rpc.call.record) {
          Describe(call, *response->add_calls());
        }
      }
      return Ok();
    });
  }

  grpc::Status Reload(ServerContext* context, const pb::ReloadRequest* request,
                      pb::ReloadResponse* response) override {
    return edge_.Serve({"Reload", true}, *context, *request, "", [&](Rpc& rpc) -> Status {
      if (!reload_) {
        return Error(Code::kUnsupported, "this process cannot read its settings again");
      }
      QUARRY_ASSIGN(const Reloaded reloaded, reload_(rpc.call));
      *response->mutable_in_force() = {reloaded.in_force.begin(), reloaded.in_force.end()};
      *response->mutable_needs_restart() = {reloaded.needs_restart.begin(), reloaded.needs_restart.end()};
      return Ok();
    });
  }

 private:
  engine::Engine& engine_;
  Edge& edge_;
  const CallHistory& history_;
  const ReloadSettings reload_;
};

}  // namespace

std::shared_ptr<grpc::Service> MakeAdmin(engine::Engine& engine, Edge& edge, const CallHistory& history,
                                         ReloadSettings reload) {
  return std::make_shared<AdminService>(engine, edge, history, std::move(reload));
}

}  // namespace quarry::csi::admin
