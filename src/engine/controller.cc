// The controller's half of a volume's life.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <variant>

#include "engine/foreign.h"
#include "engine/metadata_room.h"
#include "engine/plan_controller.h"
#include "engine/provision.h"
#include "engine/sizing.h"
#include "engine/state.h"
#include "engine/unused.h"
#include "engine/volume_steps.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// For taking back what a failed create left: not the caller's time, that may be over.
constexpr milliseconds kUndoLimit{60000};

// Marks an LV as being made by this process for as long as it lives, so that the eraser leaves it alone.
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

Result<CreateResult> Existing(const Record& record, const Profile& profile, const CreateRequest& request) {
  if (record.tags.ephemeral) {
    return Error(Code::kAlreadyExists,
                 fmt::format("name: '{}' is the inline volume of a pod and ends with it", request.name));
  }
  if (auto difference = Incompatibility(record, profile, request); difference.has_value()) {
    return Error(Code::kAlreadyExists, fmt::format("name: volume {} of this name exists and differs: {}",
                                                   record.tags.id, *difference));
  }
  return CreateResult{Describe(record), false};
}

// Lack of room that is only the eraser's slowness is worth waiting for.
Error ExplainNoSpace(Error error, const Catalog& catalog, const Profile& profile, Extents size,
                     const PoolConfig& pool, const Eraser& eraser) {
  if (error.code() != Code::kNoSpace) {
    return error;
  }
  auto later = lvm::Place(PoolSpaceAfterErasing(catalog, pool), profile.geometry, size, *catalog.group);
  if (!later.has_value()) {
    return error;
  }
  const auto expected = eraser.Expected(*catalog.group);
  return std::move(error)
      .As(Code::kUnavailable)
      .Context(fmt::format("{} of deleted volumes are still being erased; there will be room after that{}",
                           HumanBytes(ErasingBytes(catalog)),
                           expected.has_value() ? fmt::format(", in some {} s", expected->count()) : ""));
}

// What a turn of making or growing came to: done, or waiting for extents that are being cleared.
template <typename Done>
using Outcome = std::variant<Done, std::shared_ptr<Cleaning>>;

void UndoCreate(Engine::State& state, const std::string& group, const std::string& lv_name) {
  auto undone = Execute({RemoveLvAction{group, {lv_name}}}, state.world, CallWithin(kUndoLimit));
  if (!undone.has_value()) {
    state.log.Warning("a half-made volume is left to the eraser",
                      {{"lv", lv_name}, {"error", undone.error().message()}});
    state.eraser->Wake();
  }
}

// Under the pool's turn: nothing but an administrator can change the group between plan and execution.
Result<Outcome<Volume>> MakeVolume(Engine::State& state, Pool& pool, CreateWish wish,
                                   const CapacityRange& range, const Call& call) {
  const std::string key = "name:" + wish.name;
  QUARRY_ASSIGN(const Cleared cleared, TakeCleared(state, pool, key, call));
  if (cleared.under_way != nullptr) {
    return cleared.under_way;
  }
  QUARRY_ASSIGN(const auto read, state.Read(pool, call));
  const Catalog& catalog = *read;
  pool.clean.Look(*catalog.group);
  const Bytes extent = catalog.group->extent_size;
  QUARRY_ASSIGN(wish.size, SizeForCreate(range, wish.profile.geometry, extent, state.config.default_size,
                                         LeastSize(wish.access)));
  const lvm::FreeSpace within =
      Without(SpaceWithin(*catalog.group, cleared.held), Withheld(*catalog.group, catalog.weak));
  auto plan = PlanCreate(catalog, wish, pool.config, cleared.held.empty() ? nullptr : &within);
  if (!plan.has_value() && !cleared.held.empty()) {
    plan = PlanCreate(catalog, wish, pool.config);  // it was cleared for a request of another size
  }
  if (!plan.has_value()) {
    return ExplainNoSpace(std::move(plan.error()), catalog, wish.profile, wish.size, pool.config,
                          *state.eraser)
        .Context(fmt::format("pool '{}'", pool.config.name));
  }
  QUARRY_TRY(CheckMetadataRoom(catalog, MetadataFor(plan->actions))
                 .Context(fmt::format("pool '{}'", pool.config.name)));
  const auto unknown = UnknownIn(pool, plan->actions, cleared);
  if (!unknown.empty() && MustBeClear(wish.profile, wish.access.access)) {
    QUARRY_ASSIGN(auto cleaning, StartCleaning(state, pool, key, catalog, plan->actions, unknown, call));
    return cleaning;
  }
  lvm::CreateLv& spec = std::get<CreateLvAction>(plan->actions.front()).spec;
  spec.assume_in_sync = wish.profile.skip_sync && unknown.empty();
  spec.max_recovery_rate = state.config.rebuild_rate.value_or(Bytes{});
  auto made = RunCounted(pool, plan->actions, state.world, call);
  if (!made.has_value()) {
    UndoCreate(state, catalog.group->name, wish.lv_name);
    return std::move(made.error());
  }
  return plan->volume;
}

// LVM loads a table that may be written through. A raw volume that is published read-only stays so.
void KeepReadOnly(Plan& plan, const dm::Device& device) {
  for (size_t i = 0; i < plan.size(); ++i) {
    if (std::holds_alternative<ExtendLvAction>(plan[i])) {
      plan.insert(plan.begin() + static_cast<std::ptrdiff_t>(++i), SetReadOnlyAction{device.uuid, true});
    }
  }
}

// An LVM that was killed may have left the volume suspended, and whoever uses it hanging; or writable, if it
// was not.
void ResumeAfterFailure(Engine::State& state, const Record& record, bool read_only) {
  const auto device = state.world.dm.Find(record.DmUuid());
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
  auto resumed = Execute(plan, state.world, CallWithin(kUndoLimit));
  if (!resumed.has_value()) {
    state.log.Error("a volume is not as it was before it was to grow",
                    {{"lv", record.lv->name}, {"error", resumed.error().message()}});
  }
}

// Under the pool's turn.
Result<Outcome<ExpandResult>> GrowVolume(Engine::State& state, Pool& pool, const std::string& id,
                                         const CapacityRange& range, const Call& call) {
  const std::string key = "id:" + id;
  QUARRY_ASSIGN(const Cleared cleared, TakeCleared(state, pool, key, call));
  if (cleared.under_way != nullptr) {
    return cleared.under_way;
  }
  QUARRY_ASSIGN(const auto read, state.Read(pool, call));
  const Catalog& catalog = *read;
  pool.clean.Look(*catalog.group);
  const Record* record = catalog.ById(id);
  if (record == nullptr) {
    return Error(Code::kNotFound, fmt::format("volume_id: volume '{}' has just gone", id));
  }
  QUARRY_ASSIGN(const Profile profile, Profile::FromCanonical(record->tags.profile));
  const Bytes extent = catalog.group->extent_size;
  QUARRY_ASSIGN(const Extents size,
                SizeForExpand(range, profile.geometry, extent, CeilToExtents(record->tags.size, extent)));
  const lvm::FreeSpace within =
      Without(SpaceWithin(*catalog.group, cleared.held), Withheld(*catalog.group, catalog.weak));
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
  const auto unknown = UnknownIn(pool, *plan, cleared);
  if (!unknown.empty() && MustBeClear(profile, record->tags.access)) {
    QUARRY_ASSIGN(auto cleaning, StartCleaning(state, pool, key, catalog, *plan, unknown, call));
    return cleaning;
  }
  QUARRY_ASSIGN(const auto device, state.world.dm.Find(record->DmUuid()));
  const bool read_only = device.has_value() && device->read_only;
  if (read_only) {
    KeepReadOnly(*plan, *device);
  }
  auto grown = RunCounted(pool, *plan, state.world, call);
  if (!grown.has_value()) {
    ResumeAfterFailure(state, *record, read_only);
    return std::move(grown.error());
  }
  return ExpandResult{ToBytes(size, extent), record->tags.access != "block"};
}

// Turn after turn until it is done, waiting in between for what is being cleared.
template <typename Done>
Result<Done> UntilDone(Pool& pool, const std::string& what, const Call& call,
                       const std::function<Result<Outcome<Done>>()>& attempt) {
  while (true) {
    std::shared_ptr<Cleaning> cleaning;
    {
      QUARRY_ASSIGN(const auto turn, pool.writers.Wait(what, call));
      auto outcome = attempt();
      if (!outcome.has_value()) {
        return std::move(outcome.error());
      }
      if (auto* done = std::get_if<Done>(&*outcome); done != nullptr) {
        return std::move(*done);
      }
      cleaning = std::get<std::shared_ptr<Cleaning>>(*outcome);
    }
    QUARRY_TRY(cleaning->Wait(CleaningPatience(call)).Context(what));
  }
}

}  // namespace

Result<Volume> MakeNewVolume(Engine::State& state, Pool& pool, CreateWish wish, const CapacityRange& range,
                             const std::string& what, const Call& call) {
  wish.lv_name = lvm::NewLvName();
  const Making making(pool, wish.lv_name);
  return UntilDone<Volume>(pool, what, call, [&] { return MakeVolume(state, pool, wish, range, call); });
}

Status EndVolume(Engine::State& state, const Engine::State::Found& found, const std::string& what,
                 const Call& call) {
  const Record& record = found.record;
  QUARRY_TRY(CheckUnused(state.world, record.DmUuid(), fmt::format("volume {}", record.tags.id), call));
  {
    QUARRY_ASSIGN(const auto turn, found.pool->writers.Wait(what, call));
    QUARRY_TRY(RunCounted(*found.pool, PlanDelete(record, PolicyOf(record)), state.world, call));
  }
  state.eraser->Wake();
  return Ok();
}

Result<CreateResult> Engine::Create(const CreateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const Profile profile,
                Profile::Parse(request.parameters, state_->pools.front()->config.name));
  QUARRY_ASSIGN(const AccessPlan access, PlanAccess(request.capabilities));
  QUARRY_ASSIGN(Pool* const pool, state_->FindPool(profile.pool));
  QUARRY_TRY(CheckTarget(state_->world.dm, profile.geometry));
  QUARRY_ASSIGN(
      const auto guard,
      state_->locks.Lock("name:" + request.name, fmt::format("CreateVolume of '{}'", request.name), call));

  QUARRY_ASSIGN(const auto found, state_->FindByName(request.name, call));
  if (found.has_value()) {
    return Existing(found->record, profile, request);
  }
  QUARRY_ASSIGN(Volume volume,
                MakeNewVolume(*state_, *pool, {request.name, profile, access, Extents{}, ""}, request.range,
                              fmt::format("CreateVolume of '{}'", request.name), call));
  return CreateResult{std::move(volume), true};
}

Result<DeleteResult> Engine::Delete(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                state_->locks.Lock("id:" + id, fmt::format("DeleteVolume of {}", id), call));
  QUARRY_ASSIGN(const auto found, state_->FindVolume(id, call));
  if (!found.has_value()) {
    QUARRY_ASSIGN(const auto foreign, state_->FindForeign(id, call));
    return foreign.has_value() ? Result<DeleteResult>(NotAdopted(foreign->record)) : DeleteResult{false};
  }
  QUARRY_TRY(EndVolume(*state_, *found, fmt::format("DeleteVolume of {}", id), call));
  return DeleteResult{true};
}

Result<ValidateResult> Engine::Validate(const ValidateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const auto foreign, state_->FindForeign(request.id, call));
  if (foreign.has_value() && foreign->pool->config.list_foreign) {
    return ValidateResult{false, NotAdopted(foreign->record).message()};
  }
  QUARRY_ASSIGN(const auto found, state_->GetVolume(request.id, call));
  for (const Capability& capability : request.capabilities) {
    if (auto fits = CheckAccess(found.record, capability); !fits.has_value()) {
      return ValidateResult{false, fits.error().message()};
    }
  }
  if (auto access = PlanAccess(request.capabilities); !access.has_value()) {
    return ValidateResult{false, access.error().message()};
  }
  if (!request.parameters.empty()) {
    auto profile = Profile::Parse(request.parameters, state_->pools.front()->config.name);
    if (!profile.has_value()) {
      return ValidateResult{false, profile.error().message()};
    }
    if (auto difference = Difference(found.record.tags.profile, profile->Canonical());
        difference.has_value()) {
      return ValidateResult{false, *difference};
    }
  }
  const auto ours = Describe(found.record).context;
  for (const auto& [key, value] : request.context) {
    const auto known = ours.find(key);
    if (known != ours.end() ? known->second != value : key.find('/') == std::string::npos) {
      return ValidateResult{false, fmt::format("volume_context['{}']: is not what this volume has", key)};
    }
  }
  return ValidateResult{true, ""};
}

Result<CapacityResult> Engine::Capacity(const std::vector<Capability>& capabilities,
                                        const Parameters& parameters, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  const auto nothing = [](const Error& why) { return CapacityResult{{}, {}, {}, why.message()}; };
  const auto profile = Profile::Parse(parameters, state_->pools.front()->config.name);
  if (!profile.has_value()) {
    return nothing(profile.error());
  }
  const auto access = PlanAccess(capabilities);
  if (!access.has_value()) {
    return nothing(access.error());
  }
  const auto pool = state_->FindPool(profile->pool);
  if (!pool.has_value()) {
    return nothing(pool.error());
  }
  if (const auto target = CheckTarget(state_->world.dm, profile->geometry); !target.has_value()) {
    return nothing(target.error());
  }
  QUARRY_ASSIGN(const auto read, state_->Read(**pool, call));
  const Catalog& catalog = *read;
  const Bytes extent = catalog.group->extent_size;
  const Bytes least =
      ToBytes(lvm::RoundUp(profile->geometry, std::max(LeastSize(*access), Bytes{1}), extent), extent);
  const Bytes most = ToBytes(Largest(catalog, (*pool)->config, profile->geometry), extent);
  if (most < least) {
    const auto why = CheckRoom(catalog, (*pool)->config, profile->geometry, CeilToExtents(least, extent));
    return CapacityResult{{}, {}, least, why.has_value() ? "" : why.error().message()};
  }
  if (const auto room = CheckMetadataRoom(catalog, MetadataForVolume(profile->geometry)); !room.has_value()) {
    return CapacityResult{{}, {}, least, room.error().message()};
  }
  return CapacityResult{most, most, least, ""};
}

Result<ExpandResult> Engine::Expand(const std::string& id, const CapacityRange& range,
                                    const std::optional<Capability>& capability, const Call& call) {
  QUARRY_ASSIGN(const auto pass, state_->gate.Enter(call));
  QUARRY_ASSIGN(const auto guard,
                state_->locks.Lock("id:" + id, fmt::format("ControllerExpandVolume of {}", id), call));
  QUARRY_ASSIGN(auto found, state_->GetVolume(id, call));
  if (capability.has_value()) {
    auto fits = CheckAccess(found.record, *capability);
    if (!fits.has_value()) {
      return std::move(fits.error()).As(Code::kInvalidArgument);
    }
  }
  return UntilDone<ExpandResult>(*found.pool, fmt::format("ControllerExpandVolume of {}", id), call,
                                 [&] { return GrowVolume(*state_, *found.pool, id, range, call); });
}

}  // namespace quarry::engine
