#include "ctl/volume_client.h"

#include <algorithm>

#include <csi/v1/csi.grpc.pb.h>
#include <fmt/format.h>
#include <quarry/admin/v1/admin.grpc.pb.h>

#include "ctl/ask.h"
#include "ctl/patience.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
namespace csi = ::csi::v1;

constexpr std::chrono::seconds kCopyTurn{5};

csi::VolumeCapability CapabilityOf(const std::string& fs_type) {
  csi::VolumeCapability out;
  out.mutable_access_mode()->set_mode(csi::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  if (fs_type.empty()) {
    out.mutable_block();
  } else {
    out.mutable_mount()->set_fs_type(fs_type);
  }
  return out;
}

std::string_view KindName(Kind kind) {
  return kind == Kind::kSnapshot ? "snapshot" : "volume";
}

// Where the file system is mounted for writing, as far as its mount point tells; empty: nowhere.
std::string WritablePlace(const VolumeRow& row) {
  const auto& used = row.facts.used_at();
  if (row.facts.fs_type().empty() || used.empty()) {
    return "";
  }
  const bool kept = row.IsUsedAt(row.facts.mount_point());
  const std::string options = "," + row.facts.mount_options() + ",";
  return !kept ? used[0] : options.find(",ro,") == std::string::npos ? row.facts.mount_point() : "";
}

}  // namespace

bool IsUsedAt(const pb::GetStatusResponse::Volume& volume, const std::string& path) {
  return std::ranges::find(volume.used_at(), path) != volume.used_at().end();
}

Result<VolumeRow> Pick(const VolumeList& list, const std::string& name_or_id, Kind kind) {
  std::vector<const VolumeRow*> found;
  for (const VolumeRow& row : list.rows) {
    if (kind != Kind::kAny && row.is_snapshot() != (kind == Kind::kSnapshot)) {
      continue;
    }
    if (row.facts.volume_id() == name_or_id) {
      return row;
    }
    if (row.facts.name() == name_or_id) {
      found.push_back(&row);
    }
  }
  if (found.size() == 1) {
    return *found.front();
  }
  if (found.size() > 1) {
    return Error(Code::kInvalidArgument,
                 fmt::format("'{}' is the name of several: name it by its id, {} or {}", name_or_id,
                             found[0]->facts.volume_id(), found[1]->facts.volume_id()));
  }
  if (!list.problems.empty()) {
    return Error(Code::kUnavailable, fmt::format("no {} '{}' is known, but {}", KindName(kind), name_or_id,
                                                 list.problems.front()));
  }
  return Error(Code::kNotFound, fmt::format("there is no {} '{}': `quarryctl volume list` shows all of them",
                                            KindName(kind), name_or_id));
}

Result<VolumeList> VolumeClient::List(const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  VolumeList out;
  for (const auto& pool : status.pools()) {
    if (!pool.problem().empty()) {
      out.problems.push_back(fmt::format("pool '{}' cannot be read: {}", pool.name(), pool.problem()));
    }
    for (const auto& volume : pool.volumes()) {
      out.rows.push_back({volume, pool.name(), pool.volume_group()});
    }
  }
  std::ranges::sort(out.rows, {}, [](const VolumeRow& row) { return row.facts.name(); });
  return out;
}

Result<VolumeRow> VolumeClient::Find(const std::string& name_or_id, Kind kind, const Call& call) {
  QUARRY_ASSIGN(const VolumeList first, List(call));  // fails at once if no quarryd answers
  auto row = Pick(first, name_or_id, kind);
  if (row.has_value() || !EndsByItself(row.error())) {
    return row;
  }
  return Patiently(tell_, kTurn, call, [&](const Call& turn) -> Result<VolumeRow> {
    QUARRY_ASSIGN(const VolumeList list, List(turn));
    return Pick(list, name_or_id, kind);
  });
}

Result<std::string> VolumeClient::Create(const NewVolume& wish, const Call& call) {
  csi::CreateVolumeRequest request;
  request.set_name(wish.name);
  request.mutable_capacity_range()->set_required_bytes(static_cast<int64_t>(wish.size.value));
  *request.add_volume_capabilities() = CapabilityOf(wish.fs_type);
  request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
  const bool copies = !wish.source_volume.empty() || !wish.source_snapshot.empty();
  if (!wish.source_volume.empty()) {
    request.mutable_volume_content_source()->mutable_volume()->set_volume_id(wish.source_volume);
  } else if (copies) {
    request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(wish.source_snapshot);
  }
  QUARRY_ASSIGN(const auto made,
                Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::CreateVolume, request, call,
                                        copies ? kCopyTurn : kTurn));
  return made.volume().volume_id();
}

Result<Bytes> VolumeClient::Capacity(const NewVolume& wish, const Call& call) {
  csi::GetCapacityRequest request;
  *request.add_volume_capabilities() = CapabilityOf(wish.fs_type);
  request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
  QUARRY_ASSIGN(const auto answer,
                Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::GetCapacity, request, call));
  return Bytes{static_cast<uint64_t>(answer.available_capacity())};
}

Result<std::string> VolumeClient::Difference(const std::string& id, const NewVolume& wish, const Call& call) {
  csi::ValidateVolumeCapabilitiesRequest request;
  request.set_volume_id(id);
  *request.add_volume_capabilities() = CapabilityOf(wish.fs_type);
  request.mutable_parameters()->insert(wish.parameters.begin(), wish.parameters.end());
  QUARRY_ASSIGN(const auto answer,
                Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::ValidateVolumeCapabilities,
                                        request, call));
  return answer.has_confirmed()     ? std::string()
         : answer.message().empty() ? std::string("its properties are others")
                                    : answer.message();
}

Result<Bytes> VolumeClient::Grow(const VolumeRow& row, Bytes size, const Call& call) {
  csi::ControllerExpandVolumeRequest request;
  request.set_volume_id(row.facts.volume_id());
  request.mutable_capacity_range()->set_required_bytes(static_cast<int64_t>(size.value));
  QUARRY_ASSIGN(const auto grown,
                Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::ControllerExpandVolume,
                                        request, call));
  QUARRY_TRY(GrowFilesystem(row, call));
  return Bytes{static_cast<uint64_t>(grown.capacity_bytes())};
}

Status VolumeClient::GrowFilesystem(const VolumeRow& row, const Call& call) {
  const std::string place = WritablePlace(row);
  if (place.empty()) {
    return Ok();
  }
  csi::NodeExpandVolumeRequest request;
  request.set_volume_id(row.facts.volume_id());
  request.set_volume_path(place);
  QUARRY_TRY(Repeat<csi::Node>(channel_, tell_, &csi::Node::Stub::NodeExpandVolume, request, call));
  return Ok();
}

Status VolumeClient::Delete(const VolumeRow& row, const Call& call) {
  if (row.is_snapshot()) {
    csi::DeleteSnapshotRequest request;
    request.set_snapshot_id(row.facts.volume_id());
    QUARRY_TRY(
        Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::DeleteSnapshot, request, call));
    return Ok();
  }
  csi::DeleteVolumeRequest request;
  request.set_volume_id(row.facts.volume_id());
  QUARRY_TRY(Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::DeleteVolume, request, call));
  return Ok();
}

Result<std::string> VolumeClient::Snapshot(const std::string& volume_id, const std::string& name,
                                           const std::map<std::string, std::string>& parameters,
                                           const Call& call) {
  csi::CreateSnapshotRequest request;
  request.set_source_volume_id(volume_id);
  request.set_name(name);
  request.mutable_parameters()->insert(parameters.begin(), parameters.end());
  QUARRY_ASSIGN(const auto made,
                Repeat<csi::Controller>(channel_, tell_, &csi::Controller::Stub::CreateSnapshot, request,
                                        call, kCopyTurn));
  return made.snapshot().snapshot_id();
}

Result<pb::MountResponse> VolumeClient::Mount(const std::string& id, const std::string& path,
                                              const std::vector<std::string>& options, const Call& call) {
  pb::MountRequest request;
  request.set_volume_id(id);
  request.set_target_path(path);
  request.mutable_options()->Assign(options.begin(), options.end());
  return Repeat<pb::Admin>(channel_, tell_, &pb::Admin::Stub::Mount, request, call);
}

Result<pb::UnmountResponse> VolumeClient::Unmount(const std::string& id, const std::string& path,
                                                  const Call& call) {
  pb::UnmountRequest request;
  request.set_volume_id(id);
  request.set_target_path(path);
  return Repeat<pb::Admin>(channel_, tell_, &pb::Admin::Stub::Unmount, request, call);
}

}  // namespace quarry::ctl
