// Makes and grows the logical volumes of volumes, under the pool's turn.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <variant>

#include "engine/calls/volume_steps.h"
#include "engine/erase/zero_before_use.h"
#include "engine/model/alone.h"
#include "engine/model/sizing.h"
#include "engine/plan/metadata_budget.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// Limit for removing what a failed create left. The caller's own time may be over.
constexpr milliseconds kUndoLimit{60000};

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

Bytes LeastSize(const AccessPlan& access) {
  return access.fs_type.empty() ? Bytes{0} : mount::MinimumSize(access.fs_type);
}

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

}  // namespace quarry::engine
