// Makes and grows the logical volumes of volumes. TakeTurn has the order of the steps, which is the same for
// both. MakeNewVolume and GrowTo fill in what differs.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <variant>

#include "base/boot_id.h"
#include "engine/calls/steps.h"
#include "engine/erase/holder.h"
#include "engine/erase/zero_before_use.h"
#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_thin.h"
#include "engine/plan/store_growth.h"
#include "engine/pool/reload.h"

namespace quarry::engine {
namespace {

// Marks an LV as being made by this process, for the lifetime of this object, so that the eraser does not
// touch the LV.
class Making {
 public:
  Making(Pool& pool, std::string lv_name) : pool_(pool), name_(std::move(lv_name)) {
    const MutexLock lock(pool_.making_mutex);
    pool_.making.insert(name_);
  }
  ~Making() {
    const MutexLock lock(pool_.making_mutex);
    pool_.making.erase(name_);
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

 private:
  Pool& pool_;
  std::string name_;
};

// A caller with other nodes to ask should wait for this node if space is expected within this time.
constexpr std::chrono::seconds kWorthWaiting{60};

// Whether a create should continue to wait for space that is being erased. Called under the turn. False if
// the space is not expected within kWorthWaiting, or if the create has been waiting for longer than that.
bool WorthWaiting(Pool& pool, const std::string& name, std::optional<std::chrono::seconds> expected) {
  constexpr std::chrono::hours kForgotten{1};
  const SteadyTime now = std::chrono::steady_clock::now();
  const MutexLock lock(pool.making_mutex);
  std::erase_if(pool.waiting, [&](const auto& entry) { return now - entry.second > kForgotten; });
  if (expected.has_value() && *expected <= kWorthWaiting &&
      now - pool.waiting.try_emplace(name, now).first->second <= kWorthWaiting) {
    return true;
  }
  pool.waiting.erase(name);
  return false;
}

// Chooses the error for a plan that found no place. If the eraser will free enough space, a caller without
// other nodes should wait (kUnavailable). A caller with other nodes should wait only if WorthWaiting says so,
// and otherwise gets kNoSpace. Such a caller also gets kNoSpace instead of kOutOfRange and kPrecondition,
// because another node may have room.
Error ExplainNoPlace(Parts& parts, Error error, const Catalog& catalog, const CreateWish& wish, Pool& pool) {
  const auto fits = [&](const lvm::FreeSpace& space) {
    return lvm::Place(space, wish.profile.geometry, wish.size, *catalog.group).has_value();
  };
  if (wish.ephemeral && fits(PoolSpace(catalog, pool.config))) {
    return error;  // the inline volume has met a limit of the pool, not a lack of space
  }
  if (wish.elsewhere && (error.code() == Code::kOutOfRange || error.code() == Code::kPrecondition)) {
    return std::move(error).As(Code::kNoSpace);
  }
  if (error.code() != Code::kNoSpace || ErasingBytes(catalog) == Bytes{} ||
      !fits(PoolSpaceAfterErasing(catalog, pool.config))) {
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

// What a creation or a growth adds to the steps of one turn. The functions are called under that turn, in
// this order, and may refer to its catalog.
struct Work {
  // `within`: the only space that the plan may use; nullptr: all free space.
  std::function<Result<Plan>(const lvm::FreeSpace* within)> plan;
  // Explains a failed plan, or checks limits that are not about space.
  std::function<Status(Status planned)> judge = [](Status planned) { return planned; };
  bool zeroed_only = false;  // whether the plan must wait until all its extents are known to be zeroed
  // Finishes the plan and executes it. Undoes what a failed execution leaves. `zeroed`: all extents of the
  // plan are known to be zeroed. False: nothing was done, and another turn is needed.
  std::function<Result<bool>(Plan plan, bool zeroed)> execute;
};

struct Provisioning {
  LockKey key;        // of the caller's lock; a zeroing for the volume is registered under it
  std::string where;  // context of errors about space and limits
  // Finds out whether the catalog of a turn permits the work, and which size is needed.
  std::function<Result<Work>(const Catalog& catalog)> prepare;
};

// Removes what a failed create left. Returns the error for the caller. `ready`: what it left may be a ready
// volume, which the eraser does not remove.
Error UndoCreate(Parts& parts, Pool& pool, const CreateWish& wish, bool ready, Error error) {
  auto undone =
      Execute({RemoveLvAction{pool.config.group, {wish.lv_name}}}, parts.node.world, CallWithin(kUndoLimit));
  if (!undone.has_value() && ready) {
    parts.node.log.Warning(
        "the volume of a failed create could not be removed: repeat the call, or delete it",
        {{"lv", wish.lv_name}, {"error", undone.error().message()}});
    return std::move(error).As(Code::kUnavailable);  // callers repeat their call, and then find the volume
  }
  if (!undone.has_value()) {
    parts.node.log.Warning("an unfinished volume could not be removed: the eraser will remove it",
                           {{"lv", wish.lv_name}, {"error", undone.error().message()}});
    parts.erasers.Of(pool).Wake();
  }
  // After kNoSpace a caller may go to another node and never repeat its call, although an unfinished LV is
  // left here. So it gets kUnavailable instead, and for kPrecondition too.
  if (wish.elsewhere &&
      (error.code() == Code::kPrecondition || (error.code() == Code::kNoSpace && !undone.has_value()))) {
    return std::move(error).As(Code::kUnavailable);
  }
  return error;
}

// Whether the last commit of a failed creation may have been made all the same. Then the volume is whole, and
// the repeated call finds it. If it was not made, the eraser removes the LV.
bool MayBeReady(Parts& parts, Pool& pool, const CreateWish& wish) {
  const auto now = parts.node.ReadGroup(pool, CallWithin(kUndoLimit));
  if (!now.has_value()) {
    return true;
  }
  const lvm::LogicalVolume* const lv = (*now)->group->FindLv(wish.lv_name);
  return lv != nullptr && std::ranges::find(lv->tags, lvm::kCreatingTag) == lv->tags.end();
}

// Makes the plan's layout check fail, before the LV becomes a volume, if another process has committed since
// `seqno`.
void ExpectOnlyOurs(Plan& plan, uint64_t seqno) {
  for (Action& action : plan) {
    seqno += CommitsOf(action);
    if (auto* verify = std::get_if<VerifyLayoutAction>(&action); verify != nullptr) {
      verify->seqno = seqno;
    }
  }
}

// What a turn leaves to do.
struct Turn {
  bool done = false;
  std::shared_ptr<Zeroing> zeroing = nullptr;  // must end before the next turn
};

// Plans and executes under one turn, so that no other call changes the group in between.
Result<Turn> TakeTurn(Parts& parts, Pool& pool, const Provisioning& wanted, const Call& call) {
  Eraser& eraser = parts.erasers.Of(pool);
  QUARRY_ASSIGN(const Zeroed cleared, TakeZeroed(parts.node, pool, eraser, wanted.key, call));
  if (cleared.under_way != nullptr) {
    return Turn{.zeroing = cleared.under_way};
  }
  const Status freed = eraser.free_zeroing().End(call);
  QUARRY_ASSIGN(const auto catalog, parts.node.Read(pool, call));
  const lvm::VolumeGroup& group = *catalog->group;
  pool.clean.Look(group);
  QUARRY_ASSIGN(const Work work, wanted.prepare(*catalog));
  const lvm::FreeSpace within = Without(SpaceWithin(group, cleared.held), Excluded(group, catalog->weak));
  Result<Plan> plan = work.plan(cleared.held.empty() ? nullptr : &within);
  if (!plan.has_value() && !cleared.held.empty()) {
    plan = work.plan(nullptr);  // the extents were zeroed for a request of another size
  }
  Status judged = work.judge(plan.has_value() ? Ok() : plan.error()).Context(wanted.where);
  if (!judged.has_value() && judged.error().code() == Code::kNoSpace && !freed.has_value()) {
    return std::move(judged.error()).As(freed.error().code()).Context(freed.error().message());
  }
  QUARRY_TRY(std::move(judged));
  const auto allocates = [](const Action& a) { return Is<lvm::CreateLv>(a) || Is<lvm::ExtendLv>(a); };
  if (std::ranges::any_of(*plan, allocates)) {
    QUARRY_TRY(CheckMetadataRoom(*catalog, MetadataFor(*plan)).Context(wanted.where));
  }
  const auto unknown = pool.clean.Unknown(ExtentsOf(*plan, false));
  if (!unknown.empty() && work.zeroed_only) {
    QUARRY_ASSIGN(auto zeroing,
                  StartZeroing(parts.node, pool, eraser, wanted.key, *catalog, *plan, unknown, call));
    return Turn{.zeroing = std::move(zeroing)};
  }
  QUARRY_ASSIGN(const bool done, work.execute(*std::move(plan), unknown.empty()));
  return Turn{.done = done};
}

// Takes turns until the work is done, and waits between them for extents that are being zeroed.
Status Provision(Parts& parts, Pool& pool, const Provisioning& wanted, const std::string& what,
                 const Call& call) {
  while (true) {
    Turn turn;
    {
      QUARRY_ASSIGN(const auto writer, pool.writers.Wait(what, call));
      QUARRY_ASSIGN(turn, TakeTurn(parts, pool, wanted, call));
    }
    if (turn.done) {
      return Ok();
    }
    if (turn.zeroing != nullptr) {
      QUARRY_TRY(turn.zeroing->Wait(ZeroingPatience(call)).Context(what));
    }
  }
}

// Runs the plan of a growth. If an earlier one was committed, but killed before the kernel had its table, it
// gets that first. LVM refreshes no volume that lacks disks.
Status RunGrowth(Parts& parts, Pool& pool, const Record& record, Plan plan, const Call& call) {
  const World& world = parts.node.world;
  QUARRY_ASSIGN(const auto size, world.dm.Size(record.DmUuid()));
  if (size.has_value() && *size < record.lv->size && !record.lv->partial) {
    plan.insert(plan.begin(), lvm::RefreshLvs{record.group->name, {record.lv->name}});
  }
  return RunReloading(pool, world, parts.node.log, *record.group, *record.lv, std::move(plan), call);
}

// GrowTo for a thin volume.
Result<ExpandResult> GrowThin(Parts& parts, Pool& pool, const std::string& id, const CapacityRange& range,
                              const std::string& what, const Call& call) {
  QUARRY_ASSIGN(const auto writer, pool.writers.Wait(what, call));
  QUARRY_ASSIGN(const auto catalog, ReadForStores(parts, pool, call));
  const Record* const record = catalog->ById(id);
  if (record == nullptr) {
    return Error(Code::kNotFound, fmt::format("volume_id: volume '{}' was deleted meanwhile", id));
  }
  QUARRY_ASSIGN(const Profile profile, record->profile);
  const Bytes extent = catalog->group->extent_size;
  QUARRY_ASSIGN(const Extents size,
                SizeForExpand(range, profile.geometry, extent, CeilToExtents(record->tags.size, extent)));
  if (ToBytes(size, extent) != record->tags.size) {
    QUARRY_TRY(CheckAlone(*record));
  }
  const Store* const store = catalog->StoreOf(*record->lv);
  if (store != nullptr && ToBytes(size, extent) > record->lv->size) {
    QUARRY_TRY(CheckFill(parts, pool, *catalog, *store, call));
    QUARRY_ASSIGN(const StoreRoom room,
                  PlanRoom(*catalog, pool.config, *store,
                           {.bytes = ToBytes(size, extent) - record->lv->size, .grows = record}));
    QUARRY_TRY(CheckMetadataRoom(*catalog, MetadataFor(room.growth)));
    QUARRY_TRY(RunCounted(pool, room.growth, parts.node.world, call));
  }
  QUARRY_ASSIGN(Plan plan, PlanExpandThin(*catalog, *record, size, range.required));
  QUARRY_TRY(RunGrowth(parts, pool, *record, std::move(plan), call));
  return ExpandResult{ToBytes(size, extent), record->access != Access::kBlock};
}

}  // namespace

Status CheckLimitFor(Parts& parts, const Catalog& catalog, const CreateWish& wish, Pool& pool) {
  Status few = CheckVolumeLimit(catalog);
  if (!few.has_value() && few.error().code() == Code::kUnavailable && wish.elsewhere &&
      !WorthWaiting(pool, wish.name, parts.erasers.Of(pool).Expected(*catalog.group))) {
    return std::move(few.error()).As(Code::kNoSpace);
  }
  return few;
}

Error ExplainFullStore(Error error, const Catalog& catalog, const PoolConfig& pool, const Store& store,
                       const StoreNeed& need, bool elsewhere) {
  Bytes going;
  for (const Record& record : catalog.records) {
    if (IsErasing(record) && record.lv->pool == store.lv->name) {
      going = going + (IsThinSnapshot(record) ? record.tags.mapped : record.lv->size);
    }
  }
  const StoreSpace space = SpaceOf(catalog, store, TermsOf(store, pool), need.grows, need.what, need.count);
  const bool worth_waiting = !elsewhere && need.bytes <= space.largest + going;
  if (elsewhere && error.code() == Code::kPrecondition) {
    return std::move(error).As(Code::kNoSpace);
  }
  if (error.code() != Code::kNoSpace || !worth_waiting || going == Bytes{}) {
    return error;
  }
  return std::move(error)
      .As(Code::kUnavailable)
      .Context(fmt::format(
          "{} of deleted volumes are still being erased in thin store '{}'; there will be space after that",
          HumanBytes(going), store.name()));
}

Result<Volume> MakeNewVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                             const std::string& what, const Call& call, Unfilled* unfilled) {
  if (wish.lv_name.empty()) {
    wish.lv_name = lvm::NewLvName();
  }
  wish.node_hash = parts.node.id_hash();
  if (wish.asked == Bytes{}) {
    wish.asked = range.required;
  }
  const Making making(pool, wish.lv_name);
  Volume made;
  bool refused_once = false;  // the plan of one commit was, so the next plan has two
  const auto prepare = [&](const Catalog& catalog) -> Result<Work> {
    QUARRY_TRY(catalog.CheckReadableName(wish.name));
    const Record* const namesake =
        wish.cut.has_value() ? catalog.SnapshotByName(wish.name) : catalog.ByName(wish.name);
    if (namesake != nullptr) {  // by a command that was stuck in the kernel
      return Error(Code::kUnavailable, fmt::format("name: '{}' was made meanwhile: try again", wish.name));
    }
    QUARRY_ASSIGN(wish.size,
                  SizeForCreate(range, wish.profile.geometry, catalog.group->extent_size,
                                parts.node.config.default_size, mount::MinimumSize(wish.access.fs_type)));
    if (ToBytes(wish.size, catalog.group->extent_size) < wish.least) {
      return Error(Code::kOutOfRange,
                   fmt::format("capacity_range: a copy of {} needs {} bytes, {} were requested",
                               wish.source.id, wish.least.value, range.required.value));
    }
    Work work;
    work.plan = [&](const lvm::FreeSpace* within) -> Result<Plan> {
      QUARRY_ASSIGN(CreatePlan plan, PlanCreate(catalog, wish, pool.config, within));
      made = std::move(plan.volume);
      return std::move(plan.actions);
    };
    work.judge = [&](const Status& planned) -> Status {
      return planned.has_value() ? CheckLimitFor(parts, catalog, wish, pool)
                                 : ExplainNoPlace(parts, planned.error(), catalog, wish, pool);
    };
    // A copy of the same size writes every byte, but not the space of the RAID metadata.
    const bool overwritten = unfilled != nullptr &&
                             wish.least == ToBytes(wish.size, catalog.group->extent_size) &&
                             !(wish.profile.skip_sync && wish.profile.geometry.has_metadata());
    work.zeroed_only = MustBeZeroed(wish.profile, wish.access.access) && !overwritten;
    work.execute = [&, only_ours = work.zeroed_only](Plan plan, bool zeroed) -> Result<bool> {
      const uint64_t seqno = catalog.group->seqno;
      const bool once = unfilled == nullptr && zeroed && !refused_once && CommitOnce(plan, seqno);
      if ((only_ours || unfilled != nullptr) && !once) {
        ExpectOnlyOurs(plan, seqno);
      }
      if (unfilled != nullptr) {
        const std::string boot = BootId();
        *unfilled = {.rest = StopBeforeReady(plan, boot.empty() ? "unknown" : boot), .is_zero = zeroed};
      }
      lvm::CreateLv& spec = *Find<lvm::CreateLv>(plan.front());
      spec.assume_in_sync = wish.profile.skip_sync && zeroed;
      spec.max_recovery_rate = parts.node.config.rebuild_rate.value_or(Bytes{});
      const std::vector<lvm::PhysicalRange> extents = ExtentsOf(plan, false);
      auto done = RunCounted(pool, plan, parts.node.world, call);
      if (done.has_value()) {
        return true;
      }
      if (once && done.error().code() == Code::kBusy) {  // LVM was not run
        pool.clean.Add(extents);
        QUARRY_TRY(call.Check(what));
        refused_once = true;
        return false;
      }
      return UndoCreate(parts, pool, wish, once, std::move(done.error()));
    };
    return work;
  };
  const LockKey key = wish.cut.has_value() ? LockKey::SnapshotName(wish.name) : LockKey::Name(wish.name);
  QUARRY_TRY(Provision(parts, pool, {key, fmt::format("pool '{}'", pool.config.name), prepare}, what, call));
  const MutexLock lock(pool.making_mutex);
  pool.waiting.erase(wish.name);
  return made;
}

Result<Volume> MakeThinVolume(Parts& parts, Pool& pool, CreateWish wish, const CapacityRange& range,
                              const std::string& what, const Call& call) {
  wish.lv_name = lvm::NewLvName();
  wish.node_hash = parts.node.id_hash();
  wish.asked = range.required;
  const Making making(pool, wish.lv_name);
  QUARRY_ASSIGN(const auto writer, pool.writers.Wait(what, call));
  QUARRY_ASSIGN(const auto catalog, ReadForStores(parts, pool, call));
  QUARRY_TRY(catalog->CheckReadableName(wish.name));
  if (catalog->ByName(wish.name) != nullptr) {  // by a command that was stuck in the kernel
    return Error(Code::kUnavailable, fmt::format("name: '{}' was made meanwhile: try again", wish.name));
  }
  auto store = FindStore(*catalog, pool.config, wish.profile);
  if (!store.has_value()) {
    const bool lacks = store.error().code() == Code::kInvalidArgument;
    return wish.elsewhere && lacks ? std::move(store.error()).As(Code::kNoSpace) : std::move(store.error());
  }
  QUARRY_ASSIGN(wish.size,
                SizeForCreate(range, wish.profile.geometry, catalog->group->extent_size,
                              parts.node.config.default_size, mount::MinimumSize(wish.access.fs_type)));
  QUARRY_TRY(CheckFill(parts, pool, *catalog, **store, call));
  auto plan = PlanCreateThin(*catalog, pool.config, **store, wish);
  if (!plan.has_value()) {
    const StoreNeed need{.bytes = ToBytes(wish.size, catalog->group->extent_size)};
    return ExplainFullStore(std::move(plan.error()), *catalog, pool.config, **store, need, wish.elsewhere);
  }
  QUARRY_TRY(CheckLimitFor(parts, *catalog, wish, pool));
  QUARRY_TRY(CheckMetadataRoom(*catalog, MetadataFor(plan->actions))
                 .Context(fmt::format("pool '{}'", pool.config.name)));
  auto done = RunCounted(pool, plan->actions, parts.node.world, call);
  if (done.has_value()) {
    return std::move(plan->volume);
  }
  if (MayBeReady(parts, pool, wish)) {
    parts.erasers.Of(pool).Wake();
    return std::move(done.error()).As(Code::kUnavailable);
  }
  return UndoCreate(parts, pool, wish, false, std::move(done.error()));
}

Result<ExpandResult> GrowTo(Parts& parts, Pool& pool, const std::string& id, const CapacityRange& range,
                            const std::string& what, const Call& call) {
  {
    QUARRY_ASSIGN(const auto catalog, parts.node.Read(pool, call));
    if (const Record* const record = catalog->ById(id); record != nullptr && record->tags.thin) {
      return GrowThin(parts, pool, id, range, what, call);
    }
  }
  ExpandResult grown;
  const auto prepare = [&](const Catalog& catalog) -> Result<Work> {
    const Record* const record = catalog.ById(id);
    if (record == nullptr) {
      return Error(Code::kNotFound, fmt::format("volume_id: volume '{}' was deleted meanwhile", id));
    }
    QUARRY_ASSIGN(const Profile profile, record->profile);
    const Bytes extent = catalog.group->extent_size;
    QUARRY_ASSIGN(const Extents size,
                  SizeForExpand(range, profile.geometry, extent, CeilToExtents(record->tags.size, extent)));
    if (ToBytes(size, extent) != record->tags.size) {
      QUARRY_TRY(CheckAlone(*record));
    }
    grown = {ToBytes(size, extent), record->access != Access::kBlock};
    Work work;
    work.plan = [&, record, profile, size](const lvm::FreeSpace* within) {
      return PlanExpand(catalog, *record, profile, size, range.required, pool.config, within);
    };
    work.zeroed_only = MustBeZeroed(profile, record->access);
    work.execute = [&, record](Plan plan, bool /*zeroed*/) -> Result<bool> {
      QUARRY_TRY(RunGrowth(parts, pool, *record, std::move(plan), call));
      return true;
    };
    return work;
  };
  QUARRY_TRY(Provision(
      parts, pool,
      {LockKey::Volume(id), fmt::format("growing volume {} in pool '{}'", id, pool.config.name), prepare},
      what, call));
  return grown;
}

}  // namespace quarry::engine
