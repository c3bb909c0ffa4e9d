// Snapshots: made by the same steps as copies of volumes (copy.cc), and deleted as volumes are.
#include "engine/snapshots.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/calls/pages.h"
#include "engine/calls/steps.h"
#include "engine/model/sizing.h"
#include "engine/model/volume_health.h"

namespace quarry::engine {
namespace {

// The pool in which an earlier call with this request put the snapshot, as far as the request tells. nullptr:
// it does not tell.
Pool* LikelyPool(Node& node, const SnapshotRequest& request) {
  const auto named = request.parameters.find("pool");
  const auto source = lvm::ParseVolumeId(request.source);
  const std::string name = named != request.parameters.end() ? named->second
                           : source.has_value()              ? source->pool
                                                             : "";
  return node.FindPool(name).value_or(nullptr);
}

Result<SnapshotResult> Existing(const Record& record, const SnapshotRequest& request) {
  if (record.tags.source != request.source) {
    return Error(Code::kAlreadyExists, fmt::format("name: snapshot {} has this name, and is of volume {}",
                                                   record.tags.id, record.tags.source));
  }
  return SnapshotResult{DescribeSnapshot(record), false};
}

// Whether the kernel has the snapshot active for nothing.
bool IsActiveInVain(Parts& parts, const Record& record) {
  const auto device = parts.node.world.dm.Find(record.DmUuid());
  if (!device.has_value() || !device->has_value() || (*device)->open_count > 0 ||
      parts.scrubs.IsPending(record.tags.id)) {
    return false;
  }
  return AreLegsAtRest(parts.node.world, record.DmUuid()) && CheckAlone(record).has_value();
}

// Activates the RAID snapshots of a pool, once. A reboot may have cut off the rebuild of a leg, or hidden
// that one failed. Nobody uses a snapshot, so nothing else would make the kernel go on.
void ShowSnapshots(Parts& parts, Pool& pool, const Catalog& catalog, const Call& call) {
  ActivateAction action{.group = catalog.group->name, .names = {}};
  for (const Record& record : catalog.records) {
    if (IsWholeSnapshot(catalog, record) && !record.lv->partial && HasRedundancy(*record.lv)) {
      action.names.push_back(record.lv->name);
    }
  }
  if (action.names.empty()) {
    return;
  }
  const auto turn = pool.writers.Wait("looking at the legs of snapshots", call);
  if (turn.has_value()) {
    (void)Execute({action}, parts.node.world, call);
  }
}

// A member goes with its group. What is left of a group whose leader an administrator has removed goes one by
// one.
Status CheckNoMember(Parts& parts, const Record& record, const Call& call) {
  QUARRY_ASSIGN(const auto leader, parts.node.FindSnapshot(LeaderOf(record.tags.group), call));
  return leader.has_value()
             ? Status(Error(Code::kInvalidArgument,
                            fmt::format("snapshot_id: snapshot {} is a member of group snapshot {}: delete "
                                        "the group (DeleteVolumeGroupSnapshot)",
                                        record.tags.id, record.tags.group)))
             : Ok();
}

}  // namespace

Result<CreateWish> SnapshotWish(const std::string& name, const Parameters& parameters, const Found& source) {
  const Record& record = source.record;
  if (!record.profile.has_value() || !record.access.has_value()) {
    return Error(
        Code::kPrecondition,
        fmt::format("source_volume_id: this build cannot read the properties of volume {}", record.tags.id));
  }
  Profile base = *record.profile;
  base.pool = source.pool->config.name;
  QUARRY_ASSIGN(Profile profile, Profile::ParseOver(parameters, base));
  profile.skip_sync = !profile.thin && profile.geometry.type() != lvm::VolumeType::kRaid6;
  return CreateWish{.name = name,
                    .profile = std::move(profile),
                    .access = {*record.access, record.tags.fs_type},
                    .size = Extents{},
                    .lv_name = ""};
}

bool AreLegsAtRest(const World& world, const std::string& dm_uuid) {
  const auto raid = world.dm.Raid(dm_uuid);
  return raid.has_value() && (!raid->has_value() || IsWhole(**raid));
}

void RestSnapshots(Parts& parts, const std::string& pool_name, bool due, const Call& call) {
  for (const auto& pool : parts.node.pools) {
    const auto catalog = pool_name.empty() || pool_name == pool->config.name
                             ? parts.node.Look(*pool, kOthersPatience, call)
                             : std::shared_ptr<const Catalog>();
    if (!catalog.has_value() || *catalog == nullptr) {
      continue;
    }
    if (!pool->snapshots_seen.exchange(true)) {
      ShowSnapshots(parts, *pool, **catalog, call.Within(kUndoLimit));
    }
    if (!due) {
      continue;
    }
    std::set<std::string> before;
    {
      const MutexLock lock(pool->making_mutex);
      before = std::exchange(pool->idle_snapshots, {});
    }
    for (const Record& record : (*catalog)->records) {
      if (!IsWholeSnapshot(**catalog, record) || !IsActiveInVain(parts, record)) {
        continue;
      }
      {
        const MutexLock lock(pool->making_mutex);
        pool->idle_snapshots.insert(record.lv->uuid);
      }
      if (!before.contains(record.lv->uuid)) {
        continue;
      }
      const std::string what = fmt::format("deactivation of {}", InWords(record));
      const auto guard = parts.node.locks.TryLock(LockKeyOf(record), what);
      if (!guard.has_value() || !parts.node.copied.Check(record.tags.id, call).has_value()) {
        continue;
      }
      const Call limited = call.Within(kUndoLimit);
      const auto turn = pool->writers.Wait(what, limited);
      if (turn.has_value()) {
        (void)Execute({DeactivateAction{record.group->name, record.lv->name, record.DmUuids()}},
                      parts.node.world, limited);
        parts.node.log.Info("deactivated a snapshot that nothing uses",
                            {{"pool", pool->config.name}, {"lv", record.lv->name}});
      }
    }
  }
}

Result<SnapshotResult> Snapshots::Create(const SnapshotRequest& request, const Call& call) {
  Node& node = parts_.node;
  QUARRY_ASSIGN(const auto pass, node.gate.Enter(call));
  const CopyRequest copy{.name = request.name, .source = {request.source}, .to_snapshot = true};
  QUARRY_TRY(JoinCopy(parts_, copy, call));
  const std::string what = fmt::format("CreateSnapshot of '{}'", request.name);
  QUARRY_ASSIGN(auto guard, node.locks.Lock(LockKey::SnapshotName(request.name), what, call));
  Pool* const likely = LikelyPool(node, request);
  QUARRY_ASSIGN(const auto found, node.FindSnapshotByName(request.name, likely, call));
  if (found.has_value()) {
    return Existing(found->record, request);
  }
  QUARRY_TRY(node.CheckReadableName(request.name));
  auto source = node.GetForController(request.source, call);
  if (!source.has_value()) {
    return std::move(source.error()).Context("source_volume_id");
  }
  QUARRY_ASSIGN(CreateWish wish, SnapshotWish(request.name, request.parameters, *source));
  QUARRY_ASSIGN(Pool* const pool, node.FindPool(wish.profile.pool));
  QUARRY_TRY(CheckTarget(node.world.dm, wish.profile.geometry));
  QUARRY_TRY(MakeCopy(parts_, *pool, std::move(wish), copy, what, guard, call));
  QUARRY_ASSIGN(const auto made, node.FindSnapshotByName(request.name, pool, call));
  if (!made.has_value()) {
    return Error(Code::kUnavailable,
                 fmt::format("{}: another process has removed the snapshot: try again", what));
  }
  return SnapshotResult{DescribeSnapshot(made->record), true};
}

Result<bool> Snapshots::Delete(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "DeleteSnapshot", call));
  QUARRY_TRY(parts_.node.copied.Check(id, call));
  QUARRY_ASSIGN(const auto found, parts_.node.FindSnapshot(id, call));
  if (!found.has_value()) {
    QUARRY_TRY(CheckDeleted(parts_, id, "snapshot", call));
    return false;
  }
  if (!found->record.tags.group.empty()) {
    QUARRY_TRY(CheckNoMember(parts_, found->record, call));
  }
  QUARRY_TRY(EndVolume(parts_, *found, fmt::format("DeleteSnapshot of {}", id), call));
  NoteDeleted(parts_, id);
  return true;
}

Result<SnapshotList> Snapshots::List(const SnapshotFilter& filter, uint32_t max_entries,
                                     const std::string& token, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_TRY(CheckToken(token, "ListSnapshots"));
  SnapshotList page;
  if (!filter.id.empty()) {  // needs no other pool than its own
    QUARRY_ASSIGN(const auto found, parts_.node.FindSnapshot(filter.id, call));
    if (found.has_value() && (filter.source.empty() || filter.source == found->record.tags.source)) {
      page.snapshots.push_back(DescribeSnapshot(found->record));
    }
    page.next_token = TakePage(page.snapshots, token, max_entries);
    return page;
  }
  QUARRY_ASSIGN(const auto catalogs, AllCatalogs(parts_, call));
  for (const auto& catalog : catalogs) {
    for (const Record& record : catalog->records) {
      if (IsWholeSnapshot(*catalog, record) &&
          (filter.source.empty() || filter.source == record.tags.source)) {
        page.snapshots.push_back(DescribeSnapshot(record));
      }
    }
  }
  page.next_token = TakePage(page.snapshots, token, max_entries);
  return page;
}

Result<VolumeSnapshot> Snapshots::Get(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetSnapshot(id, call));
  return DescribeSnapshot(found.record);
}

}  // namespace quarry::engine
