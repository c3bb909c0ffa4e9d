// The controller's half of a volume's life: create, delete, validate, capacity, expand.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "engine/calls/steps.h"
#include "engine/model/config.h"
#include "engine/model/sizing.h"
#include "engine/model/thin_space.h"
#include "engine/model/unmanaged.h"
#include "engine/model/volume_health.h"
#include "engine/plan/in_use.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_volume.h"
#include "engine/plan/thin_capacity.h"
#include "engine/volumes.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// Limit of the names that are remembered for a missing pool, so that they cannot fill the memory.
constexpr size_t kMostGivenUp = 10'000;
// A late answer about capacity is useless to the caller.
constexpr milliseconds kCapacityPatience{10'000};

// The pool of a repeated create request that names no pool: the volume's own. The default pool may have
// changed since.
std::string RecordedPool(const Record& record) {
  return record.profile.has_value() ? record.profile->pool : record.pool;
}

Result<CreateResult> Existing(const Record& record, const CreateRequest& request, Realm realm) {
  if (Status same = CheckRealm(record, realm); !same.has_value()) {
    return std::move(same.error()).As(Code::kAlreadyExists).Context("name");
  }
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
  QUARRY_TRY(CheckLayout(record, profile).Context("name"));
  return CreateResult{Describe(record), false};
}

// The error for a caller with other nodes to ask, when a pool could not be read.
//
// After kNoSpace the caller forgets this node. So kNoSpace is given only if the group is missing: no volume
// of this name can be made in it then, and no create is running, because the name is locked. A volume of this
// name in the missing group does not count. The name is remembered, and Node::CatalogOf logs a warning if the
// group returns with such a volume. In all other cases kPrecondition becomes kUnavailable.
Error GiveUp(Parts& parts, Pool& pool, const std::string& name, Error error) {
  if (!parts.node.IsGone(pool, error)) {
    return error.code() == Code::kPrecondition ? std::move(error).As(Code::kUnavailable) : std::move(error);
  }
  {
    const MutexLock lock(pool.catalog_mutex);
    if (pool.given_up.size() < kMostGivenUp) {
      pool.given_up.insert(name);
    }
  }
  return std::move(error).As(Code::kNoSpace).Context("the volume group of this node's pool is gone");
}

// Fails if a volume or snapshot that was not found may still exist: on another node, or in a pool that is not
// configured.
Status CheckGone(const Parts& parts, const std::string& id, std::string_view kind) {
  QUARRY_TRY(parts.node.CheckNotElsewhere(id, kind));
  const auto id_parts = lvm::ParseVolumeId(id);
  if (!id_parts.has_value() || parts.node.FindPool(id_parts->pool).has_value()) {
    return Ok();
  }
  // A volume whose pool was removed from the configuration is in no configured pool, but it still exists.
  return Error(
      Code::kPrecondition,
      fmt::format(
          "{0}_id: {0} {1} is in no pool of this node, and pool '{2}', which its id names, is not "
          "configured: the {0} may still exist. Configure the pool again; or remove the logical volume by "
          "hand (lvremove), and make the orchestrator forget the {0}",
          kind, id, id_parts->pool));
}

// Whether a volume or snapshot which was not found counts as deleted. An error if it may still exist on
// another node or in a pool that is not configured. OK if it was deleted here, for example if its bytes are
// being erased here.
Status CheckDeletedHere(Parts& parts, const std::string& id, std::string_view kind, const Call& call) {
  Status elsewhere = CheckGone(parts, id, kind);
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

// kPrecondition if a volume that was not found still exists as a part of another LV, such as a cache or an
// LVM thin pool. LVM hides an LV that an administrator made such a part, and appends a suffix to its name.
// The LV keeps its tags.
Status CheckNoPart(Parts& parts, const std::string& id, const Call& call) {
  const auto id_parts = lvm::ParseVolumeId(id);
  const auto pool = parts.node.FindPool(id_parts.has_value() ? id_parts->pool : "");
  if (!pool.has_value()) {
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

// A disk may have been taken back since the caller looked.
Status CheckLost(Node& node, const Record& record) {
  QUARRY_ASSIGN(const LossVerdict verdict, node.LossOf(record));
  switch (verdict.loss) {
    case Loss::kLost:
      return Ok();
    case Loss::kPassing:
      return Error(Code::kUnavailable, verdict.words);
    case Loss::kNone:
      break;
  }
  return Error(Code::kPrecondition,
               fmt::format("volume_id: volume {} lacks no disk that it cannot do without", record.tags.id));
}

}  // namespace

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

Status CheckDeleted(Parts& parts, const std::string& id, std::string_view kind, const Call& call) {
  QUARRY_TRY(CheckNoPart(parts, id, call));
  return CheckDeletedHere(parts, id, kind, call);
}

void NoteDeleted(Parts& parts, const std::string& id) {
  if (!CheckGone(parts, id, "volume").has_value()) {
    parts.node.deleted_here.Add(id);
  }
}

Status CheckIdle(Parts& parts, const Record& record, const Call& call) {
  QUARRY_TRY(CheckAlone(record));
  QUARRY_TRY(parts.node.DropIdleHold(record));
  return CheckUnused(parts.node.world, record.DmUuid(), InWords(record), call);
}

Status EndVolume(Parts& parts, const Found& found, const std::string& what, const Call& call, bool lost) {
  const Record& record = found.record;
  QUARRY_TRY(CheckIdle(parts, record, call));
  {
    QUARRY_ASSIGN(const auto turn, found.pool->writers.Wait(what, call));
    QUARRY_ASSIGN(const auto read,
                  parts.node.Read(*found.pool, call));  // a snapshot or similar may be on it by now
    const Record* const now = read->ByUuid(record.lv->uuid);
    if (now == nullptr) {
      return Error(Code::kUnavailable,
                   fmt::format("{} was changed by another process: try again", InWords(record)));
    }
    QUARRY_TRY(CheckAlone(*now));
    QUARRY_TRY(lost ? CheckLost(parts.node, *now) : Ok());
    Plan plan;
    ErasePolicy policy = PolicyOf(*now);
    const Store* const store = now->tags.thin ? read->StoreOf(*now->lv) : nullptr;
    if (policy == ErasePolicy::kNone && store != nullptr &&
        (WasCut(*read, *store) || store->lv->segments.front().thin_pool->has_messages == true)) {
      // In a store with cuts, this volume alone may still have bytes of a volume that was deleted and erased.
      // Where a message is queued, PrepareRemoval may delete the device before LVM removes the volume. The
      // volume has to be tagged as erasing by then.
      policy = ErasePolicy::kZero;
    }
    // With another policy PlanDelete deactivates, and the eraser retags the legs that LVM took out.
    if (policy == ErasePolicy::kNone) {
      plan.push_back(DeactivateAction{now->group->name, now->lv->name, now->DmUuids()});
      for (const TakenOut& taken : read->taken_out) {
        if (taken.volume == now->lv->name) {
          std::ranges::move(PlanEndOf(*read, taken), std::back_inserter(plan));
        }
      }
    }
    std::ranges::move(PlanDelete(*now, policy), std::back_inserter(plan));
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
  if (request.s3.empty() == (realm_ == Realm::kBuckets)) {
    return Error(Code::kInternal, "a bucket is made by the face of buckets, and nothing else is");
  }
  auto asked = parts_.node.FindPool(profile.pool);
  if (!asked.has_value() && !request.elsewhere) {
    return std::move(asked.error());
  }
  Pool* const pool = asked.has_value() ? *asked : nullptr;
  const CopyRequest copy{
      .name = request.name, .source = request.source, .range = request.range, .elsewhere = request.elsewhere};
  QUARRY_TRY(copy.source.empty() ? Ok() : JoinCopy(parts_, copy, call));
  const std::string what = fmt::format("CreateVolume of '{}'", request.name);
  QUARRY_ASSIGN(auto guard, parts_.node.locks.Lock(LockKey::Name(request.name), what, call));

  auto found = parts_.node.FindByName(request.name, pool, call);
  if (!found.has_value()) {
    return request.elsewhere && pool != nullptr
               ? GiveUp(parts_, *pool, request.name, std::move(found.error()))
               : std::move(found.error());
  }
  if (found->has_value()) {
    return Existing((*found)->record, request, realm_);
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
  CreateWish wish{.name = request.name,
                  .profile = profile,
                  .access = access,
                  .size = Extents{},
                  .lv_name = "",
                  .elsewhere = request.elsewhere,
                  .s3 = request.s3};
  if (profile.thin && copy.source.empty()) {
    QUARRY_ASSIGN(Volume volume, MakeThinVolume(parts_, *pool, std::move(wish), request.range, what, call));
    return CreateResult{std::move(volume), true};
  }
  QUARRY_ASSIGN(Volume volume, copy.source.empty()
                                   ? MakeNewVolume(parts_, *pool, std::move(wish), request.range, what, call)
                                   : MakeCopy(parts_, *pool, std::move(wish), copy, what, guard, call));
  return CreateResult{std::move(volume), true};
}

Result<DeleteResult> Volumes::Delete(const std::string& id, const Call& call) {
  return DeleteIf(id, false, call);
}

Result<DeleteResult> Volumes::DeleteLost(const std::string& id, const Call& call) {
  return DeleteIf(id, true, call);
}

Result<DeleteResult> Volumes::DeleteIf(const std::string& id, bool lost, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "DeleteVolume", call));
  QUARRY_TRY(parts_.node.copied.Check(id, call));
  QUARRY_ASSIGN(const auto found, parts_.node.FindVolume(id, call));
  if (!found.has_value()) {
    QUARRY_ASSIGN(const auto foreign, parts_.node.FindForeign(id, call));
    if (foreign.has_value()) {
      return NotAdopted(foreign->record);
    }
    QUARRY_TRY(CheckDeleted(parts_, id, "volume", call));
    return DeleteResult{false};
  }
  QUARRY_TRY(CheckRealm(found->record, realm_));
  QUARRY_TRY(EndVolume(parts_, *found, fmt::format("DeleteVolume of {}", id), call, lost));
  NoteDeleted(parts_, id);
  return DeleteResult{true};
}

Result<LossVerdict> Volumes::JudgeLoss(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetForController(id, call, realm_));
  return parts_.node.LossOf(found.record);
}

Status Volumes::ProveGone(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto found, parts_.node.FindVolume(id, call));
  if (found.has_value()) {
    return CheckRealm(found->record, realm_).has_value()
               ? Error(Code::kPrecondition, fmt::format("volume '{}' exists", id))
               : Ok();
  }
  return CheckDeleted(parts_, id, "volume", call);
}

Result<ValidateResult> Volumes::Validate(const ValidateRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto foreign, parts_.node.FindForeign(request.id, call));
  if (foreign.has_value() && foreign->pool->config.list_foreign) {
    return ValidateResult{false, NotAdopted(foreign->record).message()};
  }
  QUARRY_ASSIGN(const auto found, parts_.node.GetForController(request.id, call, realm_));
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

Status Volumes::CompareProfile(const std::string& id, const Parameters& parameters, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto found, parts_.node.GetForController(id, call, realm_));
  QUARRY_ASSIGN(const Profile profile, found.record.profile);
  Parameters named = parameters;
  // A type alone would reset what belongs to it, such as the number of mirrors.
  if (const auto type = named.find("type"); type != named.end() && type->second == profile.TypeName()) {
    named.erase(type);
  }
  QUARRY_ASSIGN(const Profile asked, Profile::ParseOver(named, profile));
  if (auto difference = Difference(found.record.tags.profile, asked); difference.has_value()) {
    return Error(Code::kInvalidArgument, fmt::format("parameters: volume {} differs: {}", id, *difference));
  }
  return Ok();
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
  const Bytes least = mount::MinimumSize(access->fs_type);
  return profile->thin ? ThinCapacityIn(**read, (*pool)->config, *profile, least, parts_.node.world.dm)
                       : CapacityIn(**read, (*pool)->config, profile->geometry, least);
}

Result<ExpandResult> Volumes::Expand(const std::string& id, const CapacityRange& range,
                                     const std::optional<Capability>& capability, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(const auto guard, LockVolume(parts_, id, "ControllerExpandVolume", call));
  QUARRY_TRY(parts_.node.copied.Check(id, call));
  auto got = parts_.node.GetForController(id, call, realm_);
  if (!got.has_value()) {
    QUARRY_TRY(got.error().code() == Code::kNotFound ? CheckNoPart(parts_, id, call) : Ok());
    return std::move(got.error());
  }
  Status fits = capability.has_value() ? CheckAccess(got->record, *capability) : Ok();
  if (!fits.has_value()) {
    return std::move(fits.error()).As(Code::kInvalidArgument);
  }
  return GrowTo(parts_, *got->pool, id, range, fmt::format("ControllerExpandVolume of {}", id), call);
}

}  // namespace quarry::engine
