// Copies within a thin store: snapshots of volumes, and volumes of volumes and of snapshots. They share the
// bytes of their origin, so they are made in a moment (plan/cut.h), while the origin is in use.
//
// Until its bytes are there, and its file system has a UUID of its own, the new logical volume has the tags
// of a deleted volume. If quarryd is killed before that, the next one erases it: what the origin has as well
// stays, and what only the copy has by then is zeroed.
#include <fcntl.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/calls/copying.h"
#include "engine/calls/steps.h"
#include "engine/calls/volume_copy.h"
#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/plan/cut.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_thin.h"
#include "engine/plan/start_store.h"

namespace quarry::engine {
namespace {

constexpr std::chrono::minutes kCommands{5};

Error ChangedMeanwhile(const Record& record) {
  return {Code::kUnavailable, fmt::format("{} was changed by another process: try again", InWords(record))};
}

// A btrfs that is mounted has what was synced last in its log, and a file system with a log gets no other
// UUID.
Status CheckQuiet(Parts& parts, const Record& origin, const Call& call) {
  if (origin.tags.snapshot || origin.tags.formatted != "btrfs") {
    return Ok();
  }
  return CheckIdle(parts, origin, call)
      .Context(
          "a btrfs that is in use cannot be copied: what was synced last is in its log, which a copy "
          "with a UUID of its own would lose");
}

// What snapshots of the origins would count with now. Of those that are not active, the metadata know it.
Result<MappedBytesOf> MappedOf(const Catalog& catalog, const Store& store, const std::vector<CutWish>& wishes,
                               const World& world, const Call& call) {
  const lvm::VolumeGroup& group = *catalog.group;
  // A file system gets its space when it is written back.
  std::vector<std::string> origins;
  for (const CutWish& one : wishes) {
    origins.push_back(one.origin->lv->name);
  }
  QUARRY_TRY(WriteBack(group, origins, world, call));
  std::optional<MetadataHold> hold;
  MappedBytesOf sum;
  for (const CutWish& one : wishes) {
    const lvm::LogicalVolume& lv = *one.origin->lv;
    QUARRY_ASSIGN(const auto status, world.dm.Thin(lvm::DmUuid(group.uuid, lv.uuid)));
    Bytes bytes;
    if (status.has_value() && !status->failed) {
      bytes = status->mapped;
    } else {
      if (!hold.has_value()) {
        QUARRY_TRY(StartStore(group, *store.lv, world, call));
        QUARRY_TRY(HealthyPool(group, *store.lv, world.dm));
        QUARRY_ASSIGN(MetadataHold begun, MetadataHold::Begin(group, *store.lv, world.dm));
        hold.emplace(std::move(begun));
      }
      QUARRY_ASSIGN(bytes, MappedBytes(*hold, group, lv, world, call));
    }
    const Bytes rounded = ToBytes(CeilToExtents(bytes, group.extent_size), group.extent_size);
    sum.now = sum.now + rounded;
    sum.most = sum.most + (status.has_value() ? std::max(lv.size, rounded) : rounded);
  }
  if (hold.has_value()) {
    QUARRY_TRY(hold->Check());
  }
  return sum;
}

struct MadeCut {
  std::string group;
  CutPlan plan;
  CutResult result;
};

// Under the turn: makes the placeholders and fills them. `wishes`: the origins are records that may be out of
// date.
Result<MadeCut> MakeCut(Parts& parts, Pool& pool, std::vector<CutWish> wishes, const std::string& group,
                        const Call& call) {
  QUARRY_ASSIGN(const auto catalog, ReadForStores(parts, pool, call));
  const Store* store = nullptr;
  for (CutWish& one : wishes) {
    const CreateWish& wish = one.wish;
    QUARRY_TRY(catalog->CheckReadableName(wish.name));
    if ((wish.cut.has_value() ? catalog->SnapshotByName(wish.name) : catalog->ByName(wish.name)) != nullptr) {
      return Error(Code::kUnavailable, fmt::format("name: '{}' was made meanwhile: try again", wish.name));
    }
    const Record* const now = catalog->ByUuid(one.origin->lv->uuid);
    if (now == nullptr || now->lv->size != one.origin->lv->size ||
        ToBytes(wish.size, catalog->group->extent_size) < now->lv->size) {
      return ChangedMeanwhile(*one.origin);
    }
    one.origin = now;
    QUARRY_TRY(CheckAlone(*now));
    QUARRY_TRY(CheckQuiet(parts, *now, call));
    store = catalog->StoreOf(*now->lv);
    if (store == nullptr) {
      return ChangedMeanwhile(*now);
    }
  }
  const CreateWish& leader = wishes.front().wish;
  const std::string id = lvm::VolumeId(leader.profile.pool, leader.lv_name, leader.node_hash);
  QUARRY_TRY(CheckFill(parts, pool, *catalog, *store, call));
  MappedBytesOf mapped;
  if (leader.cut.has_value()) {
    QUARRY_ASSIGN(mapped, MappedOf(*catalog, *store, wishes, parts.node.world, call));
  }
  auto plan = PlanCut(*catalog, pool.config, *store, wishes, mapped, {.id = GroupIdOf(id), .name = group});
  if (!plan.has_value()) {
    return ExplainFullStore(std::move(plan.error()), *catalog, pool.config, *store,
                            NeedOf(*catalog, wishes, mapped.now), leader.elsewhere);
  }
  QUARRY_TRY(CheckLimitFor(parts, *catalog, wishes.front().wish, pool));
  QUARRY_TRY(CheckMetadataRoom(*catalog, MetadataFor(plan->actions))
                 .Context(fmt::format("pool '{}'", pool.config.name)));
  MadeCut cut{.group = catalog->group->name, .plan = std::move(*plan), .result = {}};
  std::get<CutAction>(cut.plan.actions.back()).tell = [&](const CutResult& result) { cut.result = result; };
  Status done = RunCounted(pool, cut.plan.actions, parts.node.world, call);
  std::get<CutAction>(cut.plan.actions.back()).tell = {};
  if (!done.has_value()) {
    return std::move(done.error());
  }
  return cut;
}

// A btrfs with a log that was not replayed gets no UUID of its own, so no volume can be made of it.
Status CheckUsable(Parts& parts, Pool& pool, const CreateWish& wish, const Call& call) {
  if (!wish.cut.has_value() || wish.formatted != "btrfs") {
    return Ok();
  }
  const World& world = parts.node.world;
  QUARRY_ASSIGN(const auto catalog, parts.node.Read(pool, call));
  const lvm::LogicalVolume* const lv = catalog->group->FindLv(wish.lv_name);
  if (lv == nullptr) {
    return Error(Code::kUnavailable, "another process has removed the new logical volume: try again");
  }
  const lvm::VolumeGroup& group = *catalog->group;
  QUARRY_TRY(Execute({ActivateAction{group.name, {lv->name}}}, world, call));
  Status usable = [&]() -> Status {
    QUARRY_ASSIGN(const UniqueFd fd, world.dm.Open(lvm::DmUuid(group.uuid, lv->uuid), O_RDONLY | O_EXCL));
    return world.mount.CheckCopyable(wish.formatted, fd.get());
  }();
  QUARRY_TRY(Execute({DeactivateAction{group.name, lv->name, DmUuids(group, *lv)}}, world, call));
  return usable;
}

// Gives the file system of a new volume a UUID of its own. The volume is active afterwards.
Status Separate(Parts& parts, Pool& pool, const CreateWish& wish, const Call& call) {
  const World& world = parts.node.world;
  QUARRY_ASSIGN(const auto catalog, parts.node.Read(pool, call));
  const lvm::LogicalVolume* const lv = catalog->group->FindLv(wish.lv_name);
  if (lv == nullptr) {
    return Error(Code::kUnavailable, "another process has removed the new logical volume: try again");
  }
  {
    QUARRY_ASSIGN(const auto turn, pool.writers.Wait("activating a copy", call));
    QUARRY_TRY(Execute({ActivateAction{catalog->group->name, {lv->name}}}, world, call));
  }
  QUARRY_TRY(
      ChangeUuid(parts, wish.formatted, lvm::DmUuid(catalog->group->uuid, lv->uuid), UniqueFd(), call));
  return Ok();
}

Status MakeReady(Pool& pool, const MadeCut& cut, size_t i, const CreateWish& wish, const World& world,
                 const Call& call) {
  lvm::VolumeTags now = cut.plan.tags[i];
  if (now.snapshot) {
    now.cut = cut.result.time;
    now.mapped = cut.result.mapped[i];
  }
  const Status ready =
      RunCounted(pool, {PlanReady(cut.group, wish.lv_name, cut.plan.tags[i], now)}, world, call);
  // It may be ready all the same, and then a repeated call finds it.
  return ready.has_value() ? Ok() : Status(Error(ready.error()).As(Code::kUnavailable));
}

}  // namespace

Result<std::string> StoreForCopy(const Record& source, const CreateWish& wish) {
  const lvm::LogicalVolume* const store =
      source.lv->pool.empty() ? nullptr : source.group->FindLv(source.lv->pool);
  const auto tags =
      store == nullptr ? Result<std::optional<lvm::VolumeTags>>(std::nullopt) : lvm::ParseTags(store->tags);
  const std::string own = tags.has_value() && tags->has_value() && (*tags)->store ? (*tags)->co_name : "";
  if (own.empty() || source.pool != wish.profile.pool ||
      (!wish.profile.store.empty() && wish.profile.store != own)) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{} is {}, and what is made of it with type=thin shares its bytes, so it is in "
                             "the same store: ask for another type",
                             InWords(source),
                             own.empty() ? "in no thin store"
                                         : fmt::format("in thin store '{}' of pool '{}'", own, source.pool)));
  }
  return own;
}

Result<std::vector<Volume>> MakeThinCopies(Parts& parts, Pool& pool, std::vector<CutWish> wishes,
                                           const std::string& group, const std::string& what,
                                           const Call& call) {
  std::deque<Copying> copying;  // not movable
  for (CutWish& one : wishes) {
    one.wish.lv_name = lvm::NewLvName();
    one.wish.node_hash = parts.node.id_hash();
    if (one.wish.cut.has_value()) {
      one.wish.size = CeilToExtents(one.origin->lv->size, one.origin->group->extent_size);
    }
    copying.emplace_back(pool, parts.erasers.Of(pool), one.wish.lv_name);
  }
  const Call limited = call.Within(kCommands);
  std::optional<WriterQueue::Turn> turn;
  const auto take_turn = [&]() -> Status {
    QUARRY_ASSIGN(auto got, pool.writers.Wait(what, limited));
    turn.emplace(std::move(got));
    return Ok();
  };
  QUARRY_TRY(take_turn());
  QUARRY_ASSIGN(const MadeCut cut, MakeCut(parts, pool, wishes, group, limited));
  const CreateWish& first = wishes.front().wish;
  if (!first.cut.has_value() && !first.formatted.empty()) {
    turn.reset();
    QUARRY_TRY(Separate(parts, pool, first, limited));
    QUARRY_TRY(take_turn());
  }
  for (const CutWish& one : wishes) {
    QUARRY_TRY(CheckUsable(parts, pool, one.wish, limited));
  }
  // The leader of a group comes last. Until then the others are not there for any caller.
  for (size_t i = wishes.size(); i > 0; --i) {
    Status ready = MakeReady(pool, cut, i - 1, wishes[i - 1].wish, parts.node.world, limited);
    if (!ready.has_value()) {
      return std::move(ready.error());  // the eraser ends those that are ready
    }
  }
  return cut.plan.volumes;
}

Result<Volume> MakeThinCopy(Parts& parts, Pool& pool, CreateWish wish, const Record& source,
                            const CapacityRange& range, const std::string& what, const Call& call) {
  if (!wish.cut.has_value()) {
    QUARRY_ASSIGN(wish.size,
                  SizeForCreate(range, wish.profile.geometry, source.group->extent_size,
                                parts.node.config.default_size, mount::MinimumSize(wish.access.fs_type)));
    const Bytes size = ToBytes(wish.size, source.group->extent_size);
    if (const Bytes least = std::max(wish.least, source.lv->size); size < least) {
      return Error(Code::kOutOfRange,
                   fmt::format("capacity_range: {} bytes are asked for, a copy of {} needs {}",
                               range.required.value, InWords(source), least.value));
    }
  }
  QUARRY_ASSIGN(std::vector<Volume> made,
                MakeThinCopies(parts, pool, {{.wish = std::move(wish), .origin = &source}}, "", what, call));
  return std::move(made.front());
}

}  // namespace quarry::engine
