// Group snapshots, made by the same steps as other copies in a thin store (thin_copies.cc).
#include "engine/group_snapshots.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/calls/steps.h"
#include "engine/model/thin_space.h"
#include "engine/plan/plan_thin.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::minutes kLongest{10};
constexpr std::chrono::seconds kPatience{15};

// A group that is being made, for as long as that takes.
struct Making {
  std::vector<KeyLocks::Guard> locks;  // of the sources
  std::vector<Found> sources;
  std::vector<CutWish> wishes;
};

// The pool that an id names; nullptr: none of this node.
Pool* PoolOfId(Node& node, const std::string& id) {
  const auto parts = lvm::ParseVolumeId(id);
  return parts.has_value() ? node.FindPool(parts->pool).value_or(nullptr) : nullptr;
}

Result<std::vector<Found>> MembersOf(Node& node, const std::string& group, const Call& call) {
  return node.FindMembers(group, "", PoolOfId(node, LeaderOf(group)), call);
}

GroupSnapshot Describe(const std::vector<Found>& members) {
  const lvm::VolumeTags& tags = members.front().record.tags;
  GroupSnapshot out{.id = tags.group, .members = {}, .whole = members.size() == tags.group_members};
  for (const Found& member : members) {
    out.members.push_back(DescribeSnapshot(member.record));
  }
  return out;
}

std::set<std::string> AsSet(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

Status CheckSources(const std::vector<std::string>& sources) {
  if (sources.empty()) {
    return Error(Code::kInvalidArgument, "source_volume_ids: no volume is named");
  }
  if (AsSet(sources).size() != sources.size()) {
    return Error(Code::kInvalidArgument, "source_volume_ids: a volume is named twice");
  }
  if (sources.size() > GroupSnapshots::kMost) {
    return Error(Code::kPrecondition,
                 fmt::format("source_volume_ids: {} volumes are named; a group can have {}", sources.size(),
                             GroupSnapshots::kMost));
  }
  return Ok();
}

Result<GroupSnapshot> Existing(const std::vector<Found>& members, const GroupSnapshotRequest& request) {
  std::set<std::string> sources;
  for (const Found& member : members) {
    sources.insert(member.record.tags.source);
  }
  const lvm::VolumeTags& tags = members.front().record.tags;
  if (members.size() != tags.group_members) {
    return Error(Code::kPrecondition,
                 fmt::format("name: group snapshot {} has this name, and {} of its {} members are gone: "
                             "delete it first",
                             tags.group, tags.group_members - std::min(tags.group_members, members.size()),
                             tags.group_members));
  }
  if (sources != AsSet(request.sources)) {
    return Error(Code::kAlreadyExists,
                 fmt::format("name: group snapshot {} has this name, and is of other volumes", tags.group));
  }
  return Describe(members);
}

// The volumes of a new group, in one store.
Result<std::vector<Found>> FindSources(Parts& parts, const GroupSnapshotRequest& request, const Call& call) {
  std::vector<Found> out;
  for (size_t i = 0; i < request.sources.size(); ++i) {
    auto found = parts.node.GetForController(request.sources[i], call);
    if (!found.has_value()) {
      return std::move(found.error()).Context(fmt::format("source_volume_ids[{}]", i));
    }
    const Record& record = found->record;
    if (!record.tags.thin || (!out.empty() && (out.front().pool != found->pool ||
                                               out.front().record.lv->pool != record.lv->pool))) {
      return Error(
          Code::kPrecondition,
          fmt::format("source_volume_ids[{}]: volume {} is {}: only volumes of one thin store can be "
                      "cut at one instant",
                      i, record.tags.id,
                      record.tags.thin ? "in another thin store than the others" : "in no thin store"));
    }
    out.push_back(std::move(*found));
  }
  return out;
}

}  // namespace

bool GroupSnapshots::AreOffered() const {
  return HasStores(parts_);
}

Result<GroupSnapshot> GroupSnapshots::Create(const GroupSnapshotRequest& request, const Call& call) {
  Node& node = parts_.node;
  QUARRY_ASSIGN(const auto pass, node.gate.Enter(call));
  QUARRY_TRY(CheckSources(request.sources));
  const std::string what = fmt::format("CreateVolumeGroupSnapshot of '{}'", request.name);
  QUARRY_TRY(parts_.background.Join(what, call.Within(kPatience)));
  QUARRY_ASSIGN(auto guard, node.locks.Lock(LockKey::GroupName(request.name), what, call));
  Pool* own = PoolOfId(node, request.sources.front());
  if (own == nullptr) {  // the pool had another name when the volume was made
    QUARRY_ASSIGN(const auto first, node.FindVolume(request.sources.front(), call));
    own = first.has_value() ? first->pool : nullptr;
  }
  QUARRY_ASSIGN(const auto found, node.FindMembers("", request.name, own, call));
  if (!found.empty()) {
    return Existing(found, request);
  }
  // In one order, so that two groups do not wait for each other.
  const auto work = std::make_shared<Making>();
  for (const std::string& id : AsSet(request.sources)) {
    QUARRY_ASSIGN(auto lock, LockVolume(parts_, id, what, call));
    work->locks.push_back(std::move(lock));
  }
  QUARRY_ASSIGN(work->sources, FindSources(parts_, request, call));
  for (const Found& source : work->sources) {
    const std::string name = fmt::format("{}/{}", request.name, source.record.tags.id);
    QUARRY_ASSIGN(const auto namesake, node.FindSnapshotByName(name, source.pool, call));
    if (namesake.has_value()) {
      return Error(Code::kAlreadyExists,
                   fmt::format("name: snapshot {} has the name '{}', which a member of the group would have",
                               namesake->record.tags.id, name));
    }
    QUARRY_ASSIGN(CreateWish wish, SnapshotWish(name, request.parameters, source));
    if (!wish.profile.thin) {
      return Error(Code::kInvalidArgument,
                   "parameters['type']: the members of a group snapshot are in the store of their volumes");
    }
    QUARRY_TRY(CheckCopySource(source.record, wish));
    QUARRY_ASSIGN(wish.profile.store, StoreForCopy(source.record, wish));
    FillCopyWish(wish, source.record, {source.record.tags.id, false}, LeastSize(source.record));
    wish.cut = CreateWish::Cut{.length = wish.least};
    work->wishes.push_back({.wish = std::move(wish), .origin = &source.record});
  }
  // A large group takes longer than callers wait for one answer.
  const auto make = [&parts = parts_, work, name = request.name, what](const Call& own) -> Status {
    const auto made = MakeThinCopies(parts, *work->sources.front().pool, work->wishes, name, what, own);
    work->locks.clear();
    return made.has_value() ? Ok() : Status(made.error());
  };
  QUARRY_TRY(
      parts_.background.Run(what, [what] { return what; }, kLongest, make, guard, call.Within(kPatience)));
  QUARRY_ASSIGN(const auto made, node.FindMembers("", request.name, own, call));
  if (made.size() != request.sources.size()) {
    return Error(Code::kUnavailable,
                 fmt::format("{}: another process has removed a member: try again", what));
  }
  return Describe(made);
}

Result<bool> GroupSnapshots::Delete(const std::string& id, const std::vector<std::string>& members,
                                    const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "DeleteVolumeGroupSnapshot", call));
  QUARRY_ASSIGN(auto found, MembersOf(parts_.node, id, call));
  const std::set<std::string> named = AsSet(members);
  for (const Found& member : found) {
    if (!named.empty() && !named.contains(member.record.tags.id)) {
      return Error(
          Code::kInvalidArgument,
          fmt::format("snapshot_ids: {} is a member of the group, and is not named", member.record.tags.id));
    }
  }
  for (const std::string& one : named) {
    QUARRY_ASSIGN(const auto other, parts_.node.FindSnapshot(one, call));
    if (other.has_value() && other->record.tags.group != id) {
      return Error(Code::kInvalidArgument,
                   fmt::format("snapshot_ids: {} is not a member of group snapshot {}", one, id));
    }
  }
  if (found.empty()) {
    QUARRY_TRY(CheckDeleted(parts_, LeaderOf(id), "group_snapshot", call));
    return false;
  }
  for (const Found& member : found) {
    QUARRY_TRY(parts_.node.copied.Check(member.record.tags.id, call));  // before the first one is deleted
  }
  // The leader last: as long as it is there, the others are.
  std::ranges::stable_partition(found, [&](const Found& one) { return one.record.tags.id != LeaderOf(id); });
  for (const Found& member : found) {
    const std::string& one = member.record.tags.id;
    QUARRY_ASSIGN(const auto lock, LockVolume(parts_, one, "DeleteVolumeGroupSnapshot", call));
    QUARRY_TRY(parts_.node.copied.Check(one, call));
    QUARRY_TRY(EndVolume(parts_, {member.pool, member.record},
                         fmt::format("DeleteVolumeGroupSnapshot of {}", id), call));
    NoteDeleted(parts_, one);
  }
  return true;
}

Result<GroupSnapshot> GroupSnapshots::Get(const std::string& id, const std::vector<std::string>& members,
                                          const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto found, MembersOf(parts_.node, id, call));
  if (found.empty()) {
    QUARRY_TRY(parts_.node.CheckNotElsewhere(LeaderOf(id), "group_snapshot"));
    return Error(Code::kNotFound, fmt::format("group_snapshot_id: there is no group snapshot '{}'", id));
  }
  GroupSnapshot group = Describe(found);
  std::set<std::string> own;
  for (const VolumeSnapshot& one : group.members) {
    own.insert(one.id);
  }
  const std::set<std::string> named = AsSet(members);
  const bool lacks_named = !group.whole && std::ranges::includes(named, own);  // it had these, too
  if (!named.empty() && named != own && !lacks_named) {
    return Error(Code::kInvalidArgument,
                 fmt::format("snapshot_ids: group snapshot {} has other members", id));
  }
  return group;
}

}  // namespace quarry::engine
