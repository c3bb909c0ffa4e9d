// The controller's half of a volume's life: create, delete, validate, capacity, expand.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <variant>

#include "engine/calls/parts.h"
#include "engine/calls/volume_steps.h"
#include "engine/erase/zero_before_use.h"
#include "engine/model/alone.h"
#include "engine/model/config.h"
#include "engine/model/sizing.h"
#include "engine/model/taken_out.h"
#include "engine/model/unmanaged.h"
#include "engine/plan/in_use.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_taken_out.h"
#include "engine/plan/plan_volume.h"
#include "engine/volumes.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// Limit for removing what a failed create left. The caller's own time may be over.
constexpr milliseconds kUndoLimit{60000};
// Limit of the names that are remembered for a missing pool, so that they cannot fill the memory.
constexpr size_t kMostGivenUp = 10'000;
// A late answer about capacity is useless to the caller.
constexpr milliseconds kCapacityPatience{10'000};

// Marks an LV as being made by this process, for the lifetime of this object, so that the eraser does not
// touch the LV.
class Making {
 public:
  Making(Pool& pool, std::string lv_name) : pool_(pool), name_(std::move(lv_name)) {
    const std::lock_guard lock(pool_.making_mutex);
    pool_.making.insert(name_);
  }
  ~Making() {
    const std::lock_guard lock(pool_.making_mutex);
    pool_.making.erase(name_);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  Pool& pool_;
  std::string name_;
};

Bytes LeastSize(const AccessPlan& access) {
  return access.fs_type.empty() ? Bytes{0} : mount::MinimumSize(access.fs_type);
}

// The pool of a request that repeats this volume's and names none: the default pool may be another one by
// now.
std::string RecordedPool(const Record& record) {
  const auto recorded = Profile::FromCanonical(record.tags.profile);
  return recorded.has_value() ? recorded->pool : record.pool;
}

Result<CreateResult> Existing(const Record& record, const CreateRequest& request) {
  if (record.tags.ephemeral) {
    return Error(
        Code::kAlreadyExists,
        fmt::format("name: '{}' is the name of a pod's inline volume, which exists as long as its pod",
                    request.name));
  }
  QUARRY_ASSIGN(const Profile profile, Profile::Parse(request.parameters, RecordedPool(record)));
  if (auto difference = Incompatibility(record, profile, request); difference.has_value()) {
    return Error(Code::kAlreadyExists,
                 fmt::format("name: volume {} has this name and differs: {}", record.tags.id, *difference));
  }
  return CreateResult{Describe(record), false};
}

// How long a caller that has other nodes to ask should rather wait for this node.
constexpr std::chrono::seconds kWorthWaiting{60};

// Whether a create should continue to wait for space that is being erased. Called under the turn. False if
// the space is expected later than in a minute, or was expected within a minute and did not come in that
// time.
bool WorthWaiting(Pool& pool, const std::string& name, std::optional<std::chrono::seconds> expected) {
  constexpr std::chrono::hours kForgotten{1};
  const SteadyTime now = std::chrono::steady_clock::now();
  const std::lock_guard lock(pool.making_mutex);
  std::erase_if(pool.waiting, [&](const auto& entry) { return now - entry.second > kForgotten; });
  if (expected.has_value() && *expected <= kWorthWaiting &&
      now - pool.waiting.try_emplace(name, now).first->second <= kWorthWaiting) {
    return true;
  }
  pool.waiting.erase(name);
  return false;
}

// Explains why a volume does not fit. If space is missing only until the eraser has finished, waiting is
// worth it, unless other nodes can be asked. A caller with other nodes needs to know only that the volume
// does not fit here, whatever the state of this pool.
Error ExplainNoPlace(Parts& parts, Error error, const Catalog& catalog, const CreateWish& wish, Pool& pool) {
  if (wish.elsewhere && (error.code() == Code::kOutOfRange || error.code() == Code::kPrecondition)) {
    return std::move(error).As(Code::kNoSpace);
  }
  if (error.code() != Code::kNoSpace || ErasingBytes(catalog) == Bytes{}) {
    return error;
  }
  auto later = lvm::Place(PoolSpaceAfterErasing(catalog, pool.config), wish.profile.geometry, wish.size,
                          *catalog.group);
  if (!later.has_value()) {
    return error;
  }
  const auto expected = parts.erasers.Of(pool).Expected(*catalog.group);
  const bool wait = !wish.elsewhere || WorthWaiting(pool, wish.name, expected);
  return std::move(error)
      .As(wait ? Code::kUnavailable : Code::kNoSpace)
      .Context(fmt::format("{} of deleted volumes are still being erased; there will be space after that{}",
                           HumanBytes(ErasingBytes(catalog)),
                           expected.has_value() ? fmt::format(", in some {} s", expected->count()) : ""));
}

// The outcome of one turn of a create or a growth: done, or waiting for extents that are being zeroed.
template <typename Done>
using Outcome = std::variant<Done, std::shared_ptr<Zeroing>>;

// Removes what a failed create left. True if nothing is left.
bool UndoCreate(Parts& parts, Pool& pool, const std::string& group, const std::string& lv_name) {
  auto undone = Execute({RemoveLvAction{group, {lv_name}}}, parts.node.world, CallWithin(kUndoLimit));
  if (!undone.has_value()) {
    parts.node.log.Warning("an unfinished volume could not be removed: the eraser will remove it",
                           {{"lv", lv_name}, {"error", undone.error().message()}});
    parts.erasers.Of(pool).Wake();
  }
  return undone.has_value();
}

// Makes the plan fail before the LV becomes a volume if another process commits between `seqno` and its last
// extent.
void ExpectOnlyOurs(Plan& plan, uint64_t seqno) {
  for (Action& action : plan) {
    seqno += CommitsOf(action);
    if (auto* verify = std::get_if<VerifyLayoutAction>(&action); verify != nullptr) {
      verify->seqno = seqno;
    }
  }
}

// Called under the pool's turn: only an administrator can change the group between plan and execution.
Result<Outcome<Volume>> MakeVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                                   const Call& call) {
  const std::string key = "name:" + wish.name;
  QUARRY_ASSIGN(const Zeroed cleared, TakeZeroed(parts.node, pool, parts.erasers.Of(pool), key, call));
  if (cleared.under_way != nullptr) {
    return cleared.under_way;
  }
  QUARRY_ASSIGN(const auto read, parts.node.Read(pool, call));
  const Catalog& catalog = *read;
  QUARRY_TRY(catalog.CheckReadableName(wish.name));
  pool.clean.Look(*catalog.group);
  const Bytes extent = catalog.group->extent_size;
  QUARRY_ASSIGN(wish.size, SizeForCreate(range, wish.profile.geometry, extent, parts.node.config.default_size,
                                         LeastSize(wish.access)));
  const lvm::FreeSpace within =
      Without(SpaceWithin(*catalog.group, cleared.held), Excluded(*catalog.group, catalog.weak));
  auto plan = PlanCreate(catalog, wish, pool.config, cleared.held.empty() ? nullptr : &within);
  if (!plan.has_value() && !cleared.held.empty()) {
    plan = PlanCreate(catalog, wish, pool.config);  // it was zeroed for a request of another size
  }
  // If there is space, the inline volume has met a limit, and erasing frees nothing for it.
  if (!plan.has_value() && wish.ephemeral &&
      lvm::Place(PoolSpace(catalog, pool.config), wish.profile.geometry, wish.size, *catalog.group)
          .has_value()) {
    return std::move(plan.error()).Context(fmt::format("pool '{}'", pool.config.name));
  }
  if (!plan.has_value()) {
    return ExplainNoPlace(parts, std::move(plan.error()), catalog, wish, pool)
        .Context(fmt::format("pool '{}'", pool.config.name));
  }
  if (auto few = CheckVolumeLimit(catalog); !few.has_value()) {
    const bool go_elsewhere = few.error().code() == Code::kUnavailable && wish.elsewhere &&
                              !WorthWaiting(pool, wish.name, parts.erasers.Of(pool).Expected(*catalog.group));
    return std::move(few.error())
        .As(go_elsewhere ? Code::kNoSpace : few.error().code())
        .Context(fmt::format("pool '{}'", pool.config.name));
  }
  QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(plan->actions))
                 .Context(fmt::format("pool '{}'", pool.config.name)));
  const auto unknown = pool.clean.Unknown(ExtentsOf(plan->actions, false));
  const bool must_be_clear = MustBeZeroed(wish.profile, wish.access.access);
  if (must_be_clear) {
    ExpectOnlyOurs(plan->actions, catalog.group->seqno);
  }
  if (!unknown.empty() && must_be_clear) {
    QUARRY_ASSIGN(auto cleaning, StartZeroing(parts.node, pool, parts.erasers.Of(pool), key, catalog,
                                              plan->actions, unknown, call));
    return cleaning;
  }
  lvm::CreateLv& spec = std::get<CreateLvAction>(plan->actions.front()).spec;
  spec.assume_in_sync = wish.profile.skip_sync && unknown.empty();
  spec.max_recovery_rate = parts.node.config.rebuild_rate.value_or(Bytes{});
  auto made = RunCounted(pool, plan->actions, parts.node.world, call);
  if (!made.has_value()) {
    const bool undone = UndoCreate(parts, pool, catalog.group->name, wish.lv_name);
    const Code code = made.error().code();
    // A caller that hears "no space" may go to another node and never ask again for what is left here.
    if (wish.elsewhere && (code == Code::kPrecondition || (code == Code::kNoSpace && !undone))) {
      return std::move(made.error()).As(Code::kUnavailable);
    }
    return std::move(made.error());
  }
  {
    const std::lock_guard lock(pool.making_mutex);
    pool.waiting.erase(wish.name);
  }
  return plan->volume;
}

// The error for a caller with other nodes to ask, when a pool could not be read.
//
// The caller may forget this node only if an earlier request of its cannot succeed later. The name is locked,
// so no create is running, and volumes in a group that is gone do not count. If the group returns, such names
// are logged (Node::CatalogOf).
Error GiveUp(Parts& parts, Pool& pool, const std::string& name, Error error) {
  if (!parts.node.IsGone(pool, error)) {
    return error.code() == Code::kPrecondition ? std::move(error).As(Code::kUnavailable) : std::move(error);
  }
  {
    const std::lock_guard lock(pool.catalog_mutex);
    if (pool.given_up.size() < kMostGivenUp) {
      pool.given_up.insert(name);
    }
  }
  return std::move(error).As(Code::kNoSpace).Context("the volume group of this node's pool is gone");
}

// Growing loads a table that allows writes. A raw volume that is published read-only must stay read-only.
void KeepReadOnly(Plan& plan, const dm::Device& device) {
  for (size_t i = 0; i < plan.size(); ++i) {
    if (std::holds_alternative<ExtendLvAction>(plan[i])) {
      plan.insert(plan.begin() + static_cast<std::ptrdiff_t>(++i), SetReadOnlyAction{device.uuid, true});
    }
  }
}

// A killed LVM may have left the volume suspended, so that its user hangs, or writable although it was
// read-only.
void ResumeAfterFailure(Parts& parts, const Record& record, bool read_only) {
  const auto device = parts.node.world.dm.Find(record.DmUuid());
  if (!device.has_value() || !device->has_value()) {
    return;
  }
  Plan plan;
  if ((*device)->suspended) {
    plan.push_back(ActivateAction{record.group->name, {record.lv->name}});
  }
  if (read_only) {
    plan.push_back(SetReadOnlyAction{(*device)->uuid, true});
  }
  auto resumed = Execute(plan, parts.node.world, CallWithin(kUndoLimit));
  if (!resumed.has_value()) {
    parts.node.log.Error(
        "a volume could not be restored after its growth failed: it may be suspended or writable",
        {{"lv", record.lv->name}, {"error", resumed.error().message()}});
  }
}

// Called under the pool's turn.
Result<Outcome<ExpandResult>> GrowVolume(Parts& parts, Pool& pool, const std::string& id,
                                         const CapacityRange& range, const Call& call) {
  const std::string key = "id:" + id;
  QUARRY_ASSIGN(const Zeroed cleared, TakeZeroed(parts.node, pool, parts.erasers.Of(pool), key, call));
  if (cleared.under_way != nullptr) {
    return cleared.under_way;
  }
  QUARRY_ASSIGN(const auto read, parts.node.Read(pool, call));
  const Catalog& catalog = *read;
  pool.clean.Look(*catalog.group);
  const Record* record = catalog.ById(id);
  if (record == nullptr) {
    return Error(Code::kNotFound, fmt::format("volume_id: volume '{}' was deleted meanwhile", id));
  }
  QUARRY_ASSIGN(const Profile profile, Profile::FromCanonical(record->tags.profile));
  const Bytes extent = catalog.group->extent_size;
  QUARRY_ASSIGN(const Extents size,
                SizeForExpand(range, profile.geometry, extent, CeilToExtents(record->tags.size, extent)));
  if (ToBytes(size, extent) != record->tags.size) {
    QUARRY_TRY(CheckAlone(*record));
  }
  const lvm::FreeSpace within =
      Without(SpaceWithin(*catalog.group, cleared.held), Excluded(*catalog.group, catalog.weak));
  auto plan =
      PlanExpand(catalog, *record, profile, size, pool.config, cleared.held.empty() ? nullptr : &within);
  if (!plan.has_value() && !cleared.held.empty()) {
    plan = PlanExpand(catalog, *record, profile, size, pool.config);
  }
  if (!plan.has_value()) {
    return std::move(plan.error())
        .Context(fmt::format("growing volume {} in pool '{}'", id, pool.config.name));
  }
  const bool grows = std::any_of(plan->begin(), plan->end(), [](const Action& action) {
    return std::holds_alternative<ExtendLvAction>(action);
  });
  if (grows) {
    QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(*plan))
                   .Context(fmt::format("growing volume {} in pool '{}'", id, pool.config.name)));
  }
  const auto unknown = pool.clean.Unknown(ExtentsOf(*plan, false));
  if (!unknown.empty() && MustBeZeroed(profile, record->tags.access)) {
    QUARRY_ASSIGN(auto cleaning,
                  StartZeroing(parts.node, pool, parts.erasers.Of(pool), key, catalog, *plan, unknown, call));
    return cleaning;
  }
  QUARRY_ASSIGN(const auto device, parts.node.world.dm.Find(record->DmUuid()));
  const bool read_only = device.has_value() && device->read_only;
  if (read_only) {
    KeepReadOnly(*plan, *device);
  }
  auto grown = RunCounted(pool, *plan, parts.node.world, call);
  if (!grown.has_value()) {
    ResumeAfterFailure(parts, *record, read_only);
    return std::move(grown.error());
  }
  return ExpandResult{ToBytes(size, extent), record->tags.access != "block"};
}

// A volume whose pool was removed from the configuration is in no configured pool, but it still exists.
Status CheckPoolConfigured(const Parts& parts, const std::string& id) {
  const auto id_parts = lvm::ParseVolumeId(id);
  if (!id_parts.has_value() || std::ranges::any_of(parts.node.pools, [&](const auto& pool) {
        return pool->config.name == id_parts->pool;
      })) {
    return Ok();
  }
  return Error(
      Code::kPrecondition,
      fmt::format(
          "volume_id: volume {} is in no pool of this node, and pool '{}', which its id names, is not "
          "configured: the volume may still exist. Configure the pool again; or remove the logical "
          "volume by hand (lvremove), and make the orchestrator forget the volume",
          id, id_parts->pool));
}

// The reason why a volume that was not found may still exist; OK if there is none.
Status CheckGone(const Parts& parts, const std::string& id) {
  QUARRY_TRY(CheckNotElsewhere(parts.node.config.node, id));
  return CheckPoolConfigured(parts, id);
}

// Checks that a volume which was not found may count as deleted. It may be on another node, or in a pool that
// is not configured. If its bytes are being erased here, it was deleted here.
Status CheckDeletedHere(Parts& parts, const std::string& id, const Call& call) {
  Status elsewhere = CheckGone(parts, id);
  if (elsewhere.has_value() || parts.node.deleted_here.Has(id)) {
    return Ok();
  }
  for (const auto& pool : parts.node.pools) {
    const auto catalog = parts.node.Look(*pool, kOthersPatience, call);
    if (catalog.has_value() &&
        std::ranges::any_of((*catalog)->records, [&](const Record& r) { return r.tags.id == id; })) {
      return Ok();
    }
  }
  return elsewhere;
}

// A volume that an administrator made a part of another LV, such as a cache or a pool, is hidden. It keeps
// its tags under a longer name, so it still exists.
Status CheckNoPart(Parts& parts, const std::string& id, const Call& call) {
  const auto id_parts = lvm::ParseVolumeId(id);
  const auto pool = std::ranges::find_if(parts.node.pools, [&](const auto& one) {
    return id_parts.has_value() && one->config.name == id_parts->pool;
  });
  if (pool == parts.node.pools.end()) {
    return Ok();
  }
  QUARRY_ASSIGN(const auto catalog, parts.node.Read(**pool, call));
  const lvm::VolumeGroup& group = *catalog->group;
  for (const lvm::LogicalVolume& lv : group.lvs) {
    if (!lv.hidden || !lvm::BearsId(lv.tags, id)) {
      continue;
    }
    const auto tags = lvm::ParseTags(lv.tags);
    if (tags.has_value() && (!tags->has_value() || (*tags)->state != lvm::VolumeState::kReady)) {
      continue;
    }
    const lvm::LogicalVolume* const top = group.FindLv(lvm::OurLvNameIn(lv.name));
    if (top != nullptr) {
      QUARRY_TRY(CheckAlone(group, *top, fmt::format("volume {}", id)));
    }
    return Error(
        Code::kPrecondition,
        fmt::format(
            "volume_id: volume {} was made a part of another logical volume, as {}/{}: separate it first "
            "(lvconvert)",
            id, group.name, lv.name));
  }
  return Ok();
}

// Takes turns until the work is done, and waits between them for extents that are being zeroed.
template <typename Done>
Result<Done> UntilDone(Pool& pool, const std::string& what, const Call& call,
                       const std::function<Result<Outcome<Done>>()>& attempt) {
  while (true) {
    std::shared_ptr<Zeroing> cleaning;
    {
      QUARRY_ASSIGN(const auto turn, pool.writers.Wait(what, call));
      auto outcome = attempt();
      if (!outcome.has_value()) {
        return std::move(outcome.error());
      }
      if (auto* done = std::get_if<Done>(&*outcome); done != nullptr) {
        return std::move(*done);
      }
      cleaning = std::get<std::shared_ptr<Zeroing>>(*outcome);
    }
    QUARRY_TRY(cleaning->Wait(ZeroingPatience(call)).Context(what));
  }
}

}  // namespace

Result<Volume> MakeNewVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                             const std::string& what, const Call& call) {
  wish.lv_name = lvm::NewLvName();
  wish.node_hash = parts.node.config.node.empty() ? "" : lvm::NodeHash(parts.node.config.node);
  const Making making(pool, wish.lv_name);
  return UntilDone<Volume>(pool, what, call, [&] { return MakeVolume(parts, pool, wish, range, call); });
}

Result<ExpandResult> GrowTo(Parts& parts, Pool& pool, const std::string& id, const CapacityRange& range,
                            const std::string& what, const Call& call) {
  return UntilDone<ExpandResult>(pool, what, call, [&] { return GrowVolume(parts, pool, id, range, call); });
}

CapacityResult CapacityIn(const Catalog& catalog, const PoolConfig& pool, const lvm::Geometry& geometry,
                          Bytes least_size) {
  const Bytes extent = catalog.group->extent_size;
  const Bytes least = ToBytes(lvm::RoundUp(geometry, std::max(least_size, Bytes{1}), extent), extent);
  const Bytes most = ToBytes(Largest(catalog, pool, geometry), extent);
  if (most < least) {
    const auto why = CheckRoom(catalog, pool, geometry, CeilToExtents(least, extent));
    return {{}, {}, least, why.has_value() ? "" : why.error().message()};
  }
  if (const auto limit = CheckVolumeLimit(catalog); !limit.has_value()) {
    return {{}, {}, least, limit.error().message()};
  }
  if (const auto room = CheckMetadataRoom(catalog, MetadataForVolume(geometry)); !room.has_value()) {
    return {{}, {}, least, room.error().message()};
  }
  return {most, most, least, ""};
}

Status EndVolume(Parts& parts, const Found& found, const std::string& what, const Call& call) {
  const Record& record = found.record;
  QUARRY_TRY(CheckAlone(record));
  QUARRY_TRY(parts.node.DropIdleHold(record));
  QUARRY_TRY(CheckUnused(parts.node.world, record.DmUuid(), fmt::format("volume {}", record.tags.id), call));
  {
    QUARRY_ASSIGN(const auto turn, found.pool->writers.Wait(what, call));
    QUARRY_ASSIGN(const auto read,
                  parts.node.Read(*found.pool, call));  // a snapshot or similar may be on it by now
    const Record* const now = read->ByUuid(record.lv->uuid);
    if (now == nullptr) {
      return Error(Code::kUnavailable,
                   fmt::format("volume {} was changed by another process: try again", record.tags.id));
    }
    QUARRY_TRY(CheckAlone(*now));
    Plan plan;
    if (PolicyOf(*now) ==
        ErasePolicy::kNone) {  // otherwise the eraser does this before it removes the volume
      plan.push_back(DeactivateAction{now->group->name, now->lv->name, now->DmUuids()});
      for (const TakenOut& taken : read->taken_out) {
        if (taken.volume == now->lv->name) {
          std::ranges::move(PlanEndOf(*read, taken), std::back_inserter(plan));
        }
      }
    }
    std::ranges::move(PlanDelete(*now, PolicyOf(*now)), std::back_inserter(plan));
    QUARRY_TRY(RunCounted(*found.pool, plan, parts.node.world, call));
  }
  parts.erasers.Of(*found.pool).Wake();
  return Ok();
}

Result<CreateResult> Volumes::Create(const CreateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const Profile profile,
                Profile::Parse(request.parameters, parts_.node.pools.front()->config.name));
  QUARRY_ASSIGN(const AccessPlan access, PlanAccess(request.capabilities));
  auto asked = parts_.node.FindPool(profile.pool);
  if (!asked.has_value() && !request.elsewhere) {
    return std::move(asked.error());
  }
  Pool* const pool = asked.has_value() ? *asked : nullptr;
  QUARRY_ASSIGN(const auto guard,
                parts_.node.locks.Lock("name:" + request.name,
                                       fmt::format("CreateVolume of '{}'", request.name), call));

  auto found = parts_.node.FindByName(request.name, pool, call);
  if (!found.has_value()) {
    return request.elsewhere && pool != nullptr
               ? GiveUp(parts_, *pool, request.name, std::move(found.error()))
               : std::move(found.error());
  }
  if (found->has_value()) {
    return Existing((*found)->record, request);
  }
  QUARRY_TRY(parts_.node.CheckReadableName(request.name));
  if (pool == nullptr) {  // other nodes may have this pool
    return std::move(asked.error()).As(Code::kNoSpace);
  }
  if (auto target = CheckTarget(parts_.node.world.dm, profile.geometry); !target.has_value()) {
    const bool lacks = target.error().code() == Code::kInvalidArgument;
    return request.elsewhere && lacks ? std::move(target.error()).As(Code::kNoSpace)
                                      : std::move(target.error());
  }
  QUARRY_ASSIGN(Volume volume,
                MakeNewVolume(parts_, *pool,
                              {.name = request.name,
                               .profile = profile,
                               .access = access,
                               .size = Extents{},
                               .lv_name = "",
                               .elsewhere = request.elsewhere},
                              request.range, fmt::format("CreateVolume of '{}'", request.name), call));
  return CreateResult{std::move(volume), true};
}

Result<DeleteResult> Volumes::Delete(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                parts_.node.locks.Lock("id:" + id, fmt::format("DeleteVolume of {}", id), call));
  QUARRY_ASSIGN(const auto found, parts_.node.FindVolume(id, call));
  if (!found.has_value()) {
    QUARRY_ASSIGN(const auto foreign, parts_.node.FindForeign(id, call));
    if (foreign.has_value()) {
      return NotAdopted(foreign->record);
    }
    QUARRY_TRY(CheckNoPart(parts_, id, call));
    QUARRY_TRY(CheckDeletedHere(parts_, id, call));
    return DeleteResult{false};
  }
  QUARRY_TRY(EndVolume(parts_, *found, fmt::format("DeleteVolume of {}", id), call));
  if (!CheckGone(parts_, id).has_value()) {
    parts_.node.deleted_here.Add(id);
  }
  return DeleteResult{true};
}

Result<ValidateResult> Volumes::Validate(const ValidateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto foreign, parts_.node.FindForeign(request.id, call));
  if (foreign.has_value() && foreign->pool->config.list_foreign) {
    return ValidateResult{false, NotAdopted(foreign->record).message()};
  }
  QUARRY_ASSIGN(const auto found, parts_.node.GetForController(request.id, call));
  for (const Capability& capability : request.capabilities) {
    if (auto fits = CheckAccess(found.record, capability); !fits.has_value()) {
      return ValidateResult{false, fits.error().message()};
    }
  }
  if (auto access = PlanAccess(request.capabilities); !access.has_value()) {
    return ValidateResult{false, access.error().message()};
  }
  if (!request.parameters.empty()) {
    auto profile = Profile::Parse(request.parameters, RecordedPool(found.record));
    if (!profile.has_value()) {
      return ValidateResult{false, profile.error().message()};
    }
    if (auto difference = Difference(found.record.tags.profile, *profile); difference.has_value()) {
      return ValidateResult{false, *difference};
    }
  }
  const auto ours = Describe(found.record).context;
  for (const auto& [key, value] : request.context) {
    const auto known = ours.find(key);
    if (known != ours.end() ? known->second != value : key.find('/') == std::string::npos) {
      return ValidateResult{false, fmt::format("volume_context['{}']: differs from this volume's", key)};
    }
  }
  return ValidateResult{true, ""};
}

Result<CapacityResult> Volumes::Capacity(const std::vector<Capability>& capabilities,
                                         const Parameters& parameters, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  const auto nothing = [](const Error& why) { return CapacityResult{{}, {}, {}, why.message()}; };
  const auto profile = Profile::Parse(parameters, parts_.node.pools.front()->config.name);
  if (!profile.has_value()) {
    return nothing(profile.error());
  }
  const auto access = PlanAccess(capabilities);
  if (!access.has_value()) {
    return nothing(access.error());
  }
  const auto pool = parts_.node.FindPool(profile->pool);
  if (!pool.has_value()) {
    return nothing(pool.error());
  }
  if (const auto target = CheckTarget(parts_.node.world.dm, profile->geometry); !target.has_value()) {
    return nothing(target.error());
  }
  (void)(*pool)->gate.Wait(call);
  const auto read = parts_.node.Look(**pool, kCapacityPatience, call);
  if (!read.has_value()) {
    return parts_.node.IsBroken(**pool, read.error()) ? Result<CapacityResult>(nothing(read.error()))
                                                      : read.error();
  }
  return CapacityIn(**read, (*pool)->config, profile->geometry, LeastSize(*access));
}

Result<ExpandResult> Volumes::Expand(const std::string& id, const CapacityRange& range,
                                     const std::optional<Capability>& capability, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                parts_.node.locks.Lock("id:" + id, fmt::format("ControllerExpandVolume of {}", id), call));
  auto got = parts_.node.GetForController(id, call);
  if (!got.has_value()) {
    QUARRY_TRY(got.error().code() == Code::kNotFound ? CheckNoPart(parts_, id, call) : Ok());
    return std::move(got.error());
  }
  const Found found = std::move(*got);
  if (capability.has_value()) {
    auto fits = CheckAccess(found.record, *capability);
    if (!fits.has_value()) {
      return std::move(fits.error()).As(Code::kInvalidArgument);
    }
  }
  return GrowTo(parts_, *found.pool, id, range, fmt::format("ControllerExpandVolume of {}", id), call);
}

}  // namespace quarry::engine
