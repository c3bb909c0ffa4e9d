// Adopts logical volumes that Quarry did not make, and releases volumes. Each is one commit that puts all of
// Quarry's tags on, or takes all of them off. A crash before the commit changes nothing except, perhaps,
// whether the device is active.
#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/direct_io.h"
#include "engine/adoption.h"
#include "engine/calls/steps.h"
#include "engine/model/unmanaged.h"
#include "engine/plan/in_use.h"
#include "engine/plan/metadata_budget.h"
#include "engine/plan/plan_adopt.h"

namespace quarry::engine {
namespace {

Result<Pool*> PoolOfGroup(Parts& parts, const std::string& group) {
  for (const auto& pool : parts.node.pools) {
    if (pool->config.group == group) {
      return pool.get();
    }
  }
  return Error(Code::kNotFound, fmt::format("no pool of this quarryd uses volume group '{}'", group));
}

std::string PathOf(const Record& record) {
  return fmt::format("{}/{}", record.group->name, record.lv->name);
}

// The record of that LV, in any state; nullptr if the LV is unmanaged, unreadable or does not exist.
const Record* ByLvName(const Catalog& catalog, const std::string& lv_name) {
  const auto found =
      std::ranges::find_if(catalog.records, [&](const Record& r) { return r.lv->name == lv_name; });
  return found == catalog.records.end() ? nullptr : &*found;
}

// The answer to a repeated request, and to a request to adopt a volume that Quarry made.
Result<AdoptResult> AdoptedBefore(const Record& record, const AdoptRequest& request) {
  if (record.tags.state != lvm::VolumeState::kReady) {
    return Error(Code::kPrecondition, fmt::format("logical volume {} is managed already, in state '{}'",
                                                  PathOf(record), lvm::StateName(record.tags.state)));
  }
  if (record.tags.ephemeral) {
    return Error(Code::kPrecondition,
                 fmt::format("logical volume {} is managed already: it is the inline volume of a pod",
                             PathOf(record)));
  }
  if (!request.name.empty() && request.name != record.tags.co_name) {
    return Error(Code::kAlreadyExists,
                 fmt::format("name: logical volume {} is already volume {}, and its name is '{}'",
                             PathOf(record), record.tags.id, record.tags.co_name));
  }
  return AdoptResult{Describe(record), record.tags.access, "", record.tags.profile, false};
}

// The destructor deactivates the LV again, if Arm() was called because the LV was inactive before.
class BackToSleep {
 public:
  BackToSleep(Node& node, const Found& found) : node_(node), found_(found) {}
  ~BackToSleep() {
    if (!armed_) {
      return;
    }
    const Call call = CallWithin(kUndoLimit);
    const std::string what = fmt::format("deactivating {} again", PathOf(found_.record));
    const auto slept = [&]() -> Status {
      QUARRY_ASSIGN(const auto turn, found_.pool->writers.Wait(what, call));
      return Execute({DeactivateAction{found_.record.group->name, found_.record.lv->name}}, node_.world,
                     call);
    }();
    if (!slept.has_value()) {
      node_.log.Warning("a logical volume was activated for adoption and could not be deactivated again",
                        {{"lv", PathOf(found_.record)}, {"error", slept.error().message()}});
    }
  }
  BackToSleep(const BackToSleep&) = delete;
  BackToSleep& operator=(const BackToSleep&) = delete;
  void Arm() { armed_ = true; }

 private:
  Node& node_;
  const Found& found_;
  bool armed_ = false;
};

// What the device holds, and the device itself, opened exclusively: while it is open no process can mount it
// or build on it.
struct Look {
  UniqueFd fd;
  Findings findings;
};
Result<Look> LookInside(Parts& parts, const Found& found, const Call& call) {
  const std::string what = fmt::format("logical volume {}", PathOf(found.record));
  QUARRY_ASSIGN(const Stack stack, parts.node.EnsureActive(found, call));
  QUARRY_TRY(CheckUnused(parts.node.world, stack.lv.uuid, what, call));
  Look look;
  QUARRY_ASSIGN(look.fd, parts.node.world.dm.Open(stack.lv.uuid, O_RDONLY | O_EXCL));
  QUARRY_ASSIGN(
      look.findings.content,
      parts.node.world.mount.Probe(look.fd.get()).Context(fmt::format("reading what is on {}", what)));
  if (look.findings.content.kind == mount::Content::Kind::kBlank) {
    QUARRY_ASSIGN(look.findings.begins_with_zeros, BeginsWithZeros(look.fd.get(), what));
  }
  return look;
}

// Commits the tags, and proves that they are there.
Status PutTagsOn(Parts& parts, const Found& found, const lvm::VolumeTags& tags, const Call& call) {
  const lvm::LogicalVolume& seen = *found.record.lv;
  QUARRY_ASSIGN(const auto turn,
                found.pool->writers.Wait(fmt::format("adopting {}", PathOf(found.record)), call));
  QUARRY_ASSIGN(const auto before, parts.node.Read(*found.pool, call));
  const lvm::LogicalVolume* now = before->group->FindLv(seen.name);
  if (now == nullptr || now->uuid != seen.uuid || now->size != seen.size || !IsForeign(*now) ||
      now->partial) {
    return Error(
        Code::kUnavailable,
        fmt::format("logical volume {} was changed by another process: try again", PathOf(found.record)));
  }
  QUARRY_TRY(CheckAlone(*before->group, *now, fmt::format("logical volume {}", PathOf(found.record))));
  const Plan plan = {lvm::ChangeTags{before->group->name, seen.name, lvm::BuildTags(tags), {}}};
  QUARRY_TRY(CheckMetadataRoom(*before, MetadataFor(plan)));
  QUARRY_TRY(Execute(plan, parts.node.world, call));
  QUARRY_ASSIGN(const auto after, parts.node.Read(*found.pool, call));
  const Record* record = after->ById(tags.id);
  if (record == nullptr || record->lv->uuid != seen.uuid || record->tags.profile != tags.profile ||
      record->tags.co_name != tags.co_name) {
    return Error(Code::kInternal, fmt::format("logical volume {} does not carry the tags that were put on it",
                                              PathOf(found.record)));
  }
  return Ok();
}

// Called with the locks of the name and the id: looks at the device, decides, commits.
Result<AdoptResult> TakeOver(Parts& parts, Pool& pool, const Candidate& candidate,
                             const AdoptRequest& request, const Call& call) {
  const Found found{&pool, candidate.record};
  BackToSleep sleep(parts.node, found);
  QUARRY_ASSIGN(const auto awake, parts.node.world.dm.Find(found.record.DmUuid()));
  if (!awake.has_value()) {
    sleep.Arm();
  }
  QUARRY_ASSIGN(const Look look, LookInside(parts, found, call));
  QUARRY_ASSIGN(const AdoptionPlan adoption, PlanAdoption(candidate, request, look.findings));
  if (!request.dry_run) {
    QUARRY_TRY(PutTagsOn(parts, found, adoption.tags, call));
  }
  const Record adopted{found.record.pool, found.record.group, found.record.lv, adoption.tags};
  return AdoptResult{Describe(adopted), adoption.tags.access, adoption.holds, adoption.tags.profile,
                     !request.dry_run};
}

// The answer for an id whose volume is unmanaged now, or always was.
Result<ReleaseResult> ReleasedBefore(Parts& parts, const std::string& id, const Call& call) {
  QUARRY_ASSIGN(const auto foreign, parts.node.FindForeign(id, call));
  if (foreign.has_value()) {
    return ReleaseResult{foreign->record.group->name, foreign->record.lv->name, false};
  }
  const auto id_parts = lvm::ParseVolumeId(id);
  for (const auto& pool : parts.node.pools) {
    if (!id_parts.has_value() || id_parts->lv_name.empty()) {
      break;
    }
    const auto catalog = parts.node.Look(*pool, kOthersPatience, call);
    const lvm::LogicalVolume* lv =
        catalog.has_value() ? (*catalog)->group->FindLv(id_parts->lv_name) : nullptr;
    if (lv != nullptr && IsForeign(*lv)) {
      return ReleaseResult{(*catalog)->group->name, lv->name, false};
    }
  }
  return Error(Code::kNotFound, fmt::format("volume_id: no volume '{}' on this node", id));
}

Status CheckReleasable(Parts& parts, const Record& record, const Call& call) {
  const lvm::VolumeTags& tags = record.tags;
  if (!tags.formatted.empty() && tags.formatted != tags.fs_type) {
    return Error(
        Code::kPrecondition,
        fmt::format("volume {}: making its file system was interrupted; stage the volume once, or delete it",
                    tags.id));
  }
  QUARRY_TRY(parts.node.DropIdleHold(record));
  if (parts.node.holds.Has(tags.id)) {
    return Error(Code::kPrecondition, fmt::format("volume {} is in use: published as a raw device", tags.id));
  }
  return CheckUnused(parts.node.world, record.DmUuid(), fmt::format("volume {}", tags.id), call);
}

}  // namespace

Result<bool> BeginsWithZeros(int fd, const std::string& what) {
  std::vector<std::byte> buffer(kMiB.value);
  auto got = ReadWhole(fd, buffer, 0);
  if (!got.has_value()) {
    return std::move(got.error()).As(Code::kIo).Context(fmt::format("reading {}", what));
  }
  return std::ranges::all_of(std::span(buffer).first(*got), [](std::byte b) { return b == std::byte{}; });
}

Result<AdoptResult> Adoption::Adopt(const AdoptRequest& request, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(Pool* const pool, PoolOfGroup(parts_, request.group));
  std::optional<Candidate> candidate;
  const auto examine = [&]() -> Result<std::optional<AdoptResult>> {
    QUARRY_ASSIGN(const auto catalog, parts_.node.Read(*pool, call));
    if (const Record* record = ByLvName(*catalog, request.lv_name); record != nullptr) {
      QUARRY_ASSIGN(AdoptResult before, AdoptedBefore(*record, request));
      return std::optional(std::move(before));
    }
    QUARRY_ASSIGN(candidate, Examine(pool->config.name, *catalog, request));
    return std::optional<AdoptResult>();
  };
  // Examined twice: once to learn which names to lock, and again under these locks.
  QUARRY_ASSIGN(auto before, examine());
  if (before.has_value()) {
    return std::move(*before);
  }
  const std::string operation = fmt::format("adopting {}", PathOf(candidate->record));
  QUARRY_ASSIGN(const auto name_guard,
                parts_.node.locks.Lock(LockKey::Name(candidate->name), operation, call));
  QUARRY_ASSIGN(const auto id_guard,
                parts_.node.locks.Lock(LockKey::Volume(candidate->record.tags.id), operation, call));
  QUARRY_ASSIGN(before, examine());
  if (before.has_value()) {
    return std::move(*before);
  }
  QUARRY_ASSIGN(const auto named, parts_.node.FindByName(candidate->name, pool, call));
  if (named.has_value()) {
    return Error(Code::kAlreadyExists, fmt::format("name: volume {} already has the name '{}'",
                                                   named->record.tags.id, candidate->name));
  }
  return TakeOver(parts_, *pool, *candidate, request, call);
}

Result<ReleaseResult> Adoption::Release(const std::string& id, bool dry_run, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  const std::string operation = fmt::format("releasing {}", id);
  QUARRY_ASSIGN(const auto guard, parts_.node.locks.Lock(LockKey::Volume(id), operation, call));
  QUARRY_TRY(parts_.node.copied.Check(id, call));
  QUARRY_ASSIGN(const auto found, parts_.node.FindVolume(id, call));
  if (!found.has_value()) {
    return ReleasedBefore(parts_, id, call);
  }
  const Record& record = found->record;
  QUARRY_TRY(CheckRealm(record, Realm::kVolumes));
  QUARRY_TRY(CheckReleasable(parts_, record, call));
  const std::string& group = record.group->name;
  if (!dry_run) {
    QUARRY_ASSIGN(const auto turn, found->pool->writers.Wait(operation, call));
    // Deactivate first: this proves that no process has the volume open, and leaves no device of Quarry's in
    // the kernel.
    QUARRY_TRY(Execute({DeactivateAction{group, record.lv->name},
                        lvm::ChangeTags{group, record.lv->name, {}, lvm::TagsOfOurs(record.lv->tags)}},
                       parts_.node.world, call));
  }
  return ReleaseResult{group, record.lv->name, !dry_run};
}

Result<std::vector<ForeignLv>> Adoption::Foreign(const std::string& group, const Call& call) {
  QUARRY_ASSIGN(const auto pass, parts_.node.gate.Enter(call));
  QUARRY_ASSIGN(Pool* const pool, PoolOfGroup(parts_, group));
  QUARRY_ASSIGN(const auto catalog, parts_.node.Read(*pool, call));
  std::vector<ForeignLv> out;
  for (const lvm::LogicalVolume& lv : catalog->group->lvs) {
    if (IsForeign(lv)) {
      const auto csilvm = lvm::CsilvmName(lv.name, lv.tags);
      out.push_back({lv.name, ForeignRecord(pool->config.name, *catalog, lv).tags.id, lv.size,
                     !csilvm.has_value() || csilvm->has_value()});
    }
  }
  std::ranges::sort(out, {}, &ForeignLv::lv_name);
  return out;
}

}  // namespace quarry::engine
