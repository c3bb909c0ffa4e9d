#include "ctl/admin.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <quarry/admin/v1/admin.grpc.pb.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "ctl/ask.h"
#include "ctl/json_text.h"
#include "ctl/replies.h"
#include "ctl/store_text.h"
#include "ctl/trace_page.h"
#include "engine/lifecycle.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;

nlohmann::json AdoptionJson(const pb::AdoptRequest& request, const pb::AdoptResponse& done) {
  nlohmann::json row = AsJson(done);
  row["volume_group"] = request.volume_group();
  row["logical_volume"] = request.logical_volume();
  row["dry_run"] = request.dry_run();
  return row;
}

std::string InWords(const pb::AdoptRequest& request, const pb::AdoptResponse& done) {
  const std::string what = fmt::format("{}/{}", request.volume_group(), request.logical_volume());
  if (done.holds().empty()) {
    return fmt::format("{} is already volume {}\n", what, done.volume_id());
  }
  return fmt::format("{} {} as volume {}: {}, {} bytes, holds {}, access {}, name '{}'\n",
                     done.changed() ? "adopted" : "could adopt", what, done.volume_id(), done.type(),
                     done.capacity_bytes(), done.holds(), done.access(), done.name());
}

pb::AdoptRequest RequestOf(const AdoptWish& wish) {
  pb::AdoptRequest request;
  request.set_volume_group(wish.group);
  request.set_logical_volume(wish.lv_name);
  request.set_name(wish.name);
  request.set_fs_type(wish.fs_type);
  request.set_erase(wish.erase);
  request.set_dry_run(wish.dry_run);
  return request;
}

// The state of a node with thousands of volumes is longer than gRPC's usual limit of 4 MiB.
std::shared_ptr<grpc::Channel> ChannelTo(const AbsolutePath& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel("unix:" + socket.str(), grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

AdminClient::AdminClient(const AbsolutePath& socket, bool json)
    : socket_(socket), channel_(ChannelTo(socket)), json_(json) {}

Result<std::string> AdminClient::Adopt(const AdoptWish& wish, const Call& call) {
  const pb::AdoptRequest request = RequestOf(wish);
  QUARRY_ASSIGN(const auto done, Ask<pb::Admin>(channel_, &pb::Admin::Stub::Adopt, request, call));
  return json_ ? JsonLine(AdoptionJson(request, done)) : InWords(request, done);
}

Result<AdminClient::Bulk> AdminClient::AdoptCsilvm(const AdoptWish& wish, std::chrono::milliseconds limit) {
  pb::ListForeignRequest question;
  question.set_volume_group(wish.group);
  QUARRY_ASSIGN(const auto there,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::ListForeign, question, CallWithin(limit)));
  Bulk bulk;
  nlohmann::json rows = nlohmann::json::array();
  size_t adopted = 0;
  for (const auto& lv : there.logical_volumes()) {
    if (!lv.csilvm()) {
      continue;
    }
    pb::AdoptRequest request = RequestOf(wish);
    request.set_logical_volume(lv.name());
    request.set_csilvm(true);
    const auto done = Ask<pb::Admin>(channel_, &pb::Admin::Stub::Adopt, request, CallWithin(limit));
    if (done.has_value()) {
      ++adopted;
      rows.push_back(AdoptionJson(request, *done));
      bulk.text += InWords(request, *done);
      continue;
    }
    ++bulk.refused;
    rows.push_back(
        {{"volume_group", wish.group}, {"logical_volume", lv.name()}, {"error", done.error().message()}});
    bulk.text += fmt::format("refused {}/{}: {}\n", wish.group, lv.name(), done.error().message());
  }
  bulk.text += fmt::format("{} of csilvm's volumes {}, {} refused\n", adopted,
                           wish.dry_run ? "could be adopted" : "adopted", bulk.refused);
  if (json_) {
    bulk.text = JsonLine(rows);
  }
  return bulk;
}

Result<std::string> AdminClient::Release(const std::string& id, bool dry_run, const Call& call) {
  pb::ReleaseRequest request;
  request.set_volume_id(id);
  request.set_dry_run(dry_run);
  QUARRY_ASSIGN(const auto done, Ask<pb::Admin>(channel_, &pb::Admin::Stub::Release, request, call));
  const std::string lv = fmt::format("{}/{}", done.volume_group(), done.logical_volume());
  if (json_) {
    nlohmann::json row = AsJson(done);
    row["volume_id"] = id;
    row["dry_run"] = dry_run;
    return JsonLine(row);
  }
  if (done.changed()) {
    return fmt::format("released volume {}: logical volume {} is inactive and keeps all its data\n", id, lv);
  }
  return dry_run ? fmt::format("could release volume {}: logical volume {}\n", id, lv)
                 : fmt::format("volume {} was already released: it is logical volume {}\n", id, lv);
}

Result<std::string> AdminClient::Devices(const Call& call) {
  QUARRY_ASSIGN(const auto there,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::ListDevices, pb::ListDevicesRequest(), call));
  return json_ ? DevicesJson(there) : DrawDevices(there);
}

Result<std::string> AdminClient::ShowCalls(const std::string& id, std::chrono::milliseconds slow,
                                           const Call& call) {
  QUARRY_ASSIGN(const auto all,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::ListCalls, pb::ListCallsRequest(), call));
  const pb::ListCallsResponse calls = Filtered(all, {.id = id, .slow = slow});
  if (!id.empty() && calls.calls().empty()) {
    return Error(
        Code::kNotFound,
        fmt::format("no call of '{}' is remembered: quarryd keeps the last calls of its own lifetime", id));
  }
  return json_ ? JsonLine(AsJson(calls)["calls"]) : id.empty() ? DrawCalls(calls) : DrawSteps(calls);
}

Result<std::string> AdminClient::ShowStatus(const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  if (!json_) {
    return StatusPage(status);
  }
  nlohmann::json page = AsJson(status);
  for (auto& pool : page["pools"]) {
    for (auto& volume : pool["volumes"]) {
      volume.erase("scrub_pending");  // for quarryctl's own waiting
    }
    for (auto& store : pool["stores"]) {
      for (auto& part : store["parts"]) {
        part.erase("scrub_pending");
      }
    }
  }
  return JsonLine(page);
}

Result<std::string> AdminClient::ListStores(const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  return json_ ? StoreListJson(status) : StoreTable(status);
}

Result<std::string> AdminClient::ShowStore(const std::string& pool, const std::string& store, bool exclusive,
                                           const Call& call) {
  pb::GetStoreRequest request;
  request.set_pool(pool);
  request.set_store(store);
  request.set_exclusive(exclusive);
  QUARRY_ASSIGN(const auto shown, Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStore, request, call));
  return json_ ? StoreJson(shown) : StorePage(shown);
}

Result<std::string> AdminClient::RepairStore(const std::string& pool, const std::string& store, bool dry_run,
                                             const Call& call) {
  pb::RepairStoreRequest request;
  request.set_pool(pool);
  request.set_store(store);
  request.set_dry_run(dry_run);
  QUARRY_ASSIGN(const auto done, Ask<pb::Admin>(channel_, &pb::Admin::Stub::RepairStore, request, call));
  return json_ ? JsonLine(AsJson(done)) : StoreRepairPage(done, dry_run);
}

Result<CheckReport> AdminClient::Check(const CheckLimits& limits, const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  return ctl::Check(status, limits);
}

Result<AdminClient::Repaired> AdminClient::Repair(const std::vector<std::string>& ids, const Call& call) {
  pb::RepairRequest request;
  request.mutable_volume_ids()->Assign(ids.begin(), ids.end());
  QUARRY_ASSIGN(const auto report, Ask<pb::Admin>(channel_, &pb::Admin::Stub::Repair, request, call));
  Repaired out{.text = "", .obstacles = static_cast<size_t>(report.obstacles_size())};
  if (json_) {
    out.text = JsonLine(AsJson(report));
    return out;
  }
  for (const std::string& step : report.done()) {
    out.text += fmt::format("done: {}\n", step);
  }
  for (const std::string& obstacle : report.obstacles()) {
    out.text += fmt::format("not done: {}\n", obstacle);
  }
  if (out.text.empty()) {
    out.text = "there is nothing to repair\n";
  }
  return out;
}

Result<AdminClient::Evacuation> AdminClient::Evacuate(const EvacuateWish& wish, const Call& call) {
  pb::EvacuateRequest request;
  request.set_disk(wish.disk);
  request.set_rebuild(wish.rebuild);
  request.set_cancel(wish.cancel);
  request.set_dry_run(wish.dry_run);
  QUARRY_ASSIGN(const auto done, Ask<pb::Admin>(channel_, &pb::Admin::Stub::Evacuate, request, call));
  Evacuation out{.text = "", .pv_uuid = done.pv_uuid(), .to_move = done.to_move_bytes()};
  if (json_) {
    nlohmann::json row = AsJson(done);
    row["dry_run"] = wish.dry_run;
    out.text = JsonLine(row);
    return out;
  }
  const std::string disk =
      fmt::format("disk {} ({}) of group {}", done.device(), done.pv_uuid(), done.volume_group());
  if (wish.cancel) {
    out.text = fmt::format("{} stays{}\n", disk, wish.dry_run ? " if you repeat this without --dry-run" : "");
    return out;
  }
  out.text = fmt::format("{} {}: {} of {} volume{}\n", disk,
                         wish.dry_run     ? "can be evacuated"
                         : done.changed() ? "is being evacuated"
                                          : "is already being evacuated",
                         HumanBytes(Bytes{static_cast<uint64_t>(done.to_move_bytes())}),
                         done.volume_ids_size(), done.volume_ids_size() == 1 ? "" : "s");
  return out;
}

Result<AdminClient::Reloaded> AdminClient::Reload(const Call& call) {
  QUARRY_ASSIGN(const auto done,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::Reload, pb::ReloadRequest(), call));
  nlohmann::json document = {{"in_force", nlohmann::json::array()},
                             {"needs_restart", nlohmann::json::array()}};
  std::string text;
  for (const std::string& setting : done.in_force()) {
    document["in_force"].push_back(setting);
    text += fmt::format("{} is in force\n", setting);
  }
  for (const std::string& setting : done.needs_restart()) {
    document["needs_restart"].push_back(setting);
    text += fmt::format("{} is not in force before quarryd is restarted\n", setting);
  }
  if (text.empty()) {
    text = "no setting has changed\n";
  }
  return Reloaded{json_ ? JsonLine(document) : std::move(text), done.needs_restart().empty()};
}

Result<int64_t> AdminClient::LeftOn(const std::string& pv_uuid, const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  for (const auto& pool : status.pools()) {
    if (!pool.problem().empty()) {
      return Error(Code::kUnavailable, pool.problem());
    }
    for (const auto& disk : pool.disks()) {
      if (disk.pv_uuid() != pv_uuid) {
        continue;
      }
      // Earlier builds of quarryd have no `leaving`.
      if (!disk.leaving() && disk.state() != engine::DiskConditionName(engine::DiskCondition::kToBeVacated)) {
        return Error(Code::kPrecondition,
                     fmt::format("disk {} is no longer being evacuated: it is {}", pv_uuid, disk.state()));
      }
      return std::max<int64_t>(disk.size_bytes() - disk.free_bytes(), 1);
    }
  }
  return 0;
}

Result<AdminClient::Scrubbing> AdminClient::Scrub(const std::vector<std::string>& ids, bool repair,
                                                  const Call& call) {
  pb::ScrubRequest request;
  request.mutable_volume_ids()->Assign(ids.begin(), ids.end());
  request.set_repair(repair);
  Scrubbing out;
  out.asked_at = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  QUARRY_ASSIGN(const auto done, Ask<pb::Admin>(channel_, &pb::Admin::Stub::Scrub, request, call));
  for (const auto& volume : done.volumes()) {
    out.volumes.push_back({volume.volume_id(), volume.name(), volume.refusal()});
  }
  return out;
}

Result<AdminClient::ScrubState> AdminClient::ScrubOf(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto status,
                Ask<pb::Admin>(channel_, &pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), call));
  for (const auto& pool : status.pools()) {
    if (!pool.problem().empty()) {
      return Error(Code::kUnavailable, pool.problem());
    }
    const auto volume = std::ranges::find(pool.volumes(), id, &pb::GetStatusResponse::Volume::volume_id);
    if (volume != pool.volumes().end()) {
      return ScrubState{.pending = volume->scrub_pending(),
                        .percent = volume->has_percent() ? std::optional(volume->percent()) : std::nullopt,
                        .ended_at = volume->scrubbed().ended_at(),
                        .mismatched = volume->scrubbed().mismatched_bytes()};
    }
    for (const pb::ThinStore& store : pool.stores()) {
      const auto part = std::ranges::find(store.parts(), id, &pb::ThinStore::Part::part_id);
      if (part != store.parts().end()) {
        return ScrubState{.pending = part->scrub_pending(),
                          .percent = store.has_percent() ? std::optional(store.percent()) : std::nullopt,
                          .ended_at = part->scrubbed().ended_at(),
                          .mismatched = part->scrubbed().mismatched_bytes()};
      }
    }
  }
  return Error(Code::kPrecondition, fmt::format("volume {} no longer exists", id));
}

}  // namespace quarry::ctl
