// The state of single volumes: active, published, kept open, healthy.
#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "engine/model/failing_disks.h"
#include "engine/model/volume_health.h"
#include "engine/plan/plan_node.h"
#include "engine/plan/start_store.h"
#include "engine/pool/node.h"

namespace quarry::engine {

namespace {

// Why no volume of this store can be changed, in one word.
std::string ReasonOf(const std::optional<dm::ThinPoolStatus>& status) {
  using Mode = dm::ThinPoolStatus::Mode;
  if (!status.has_value() || status->mode == Mode::kFailed) {
    return "StoreFailed";
  }
  return status->needs_check               ? "StoreNeedsCheck"
         : status->mode == Mode::kReadOnly ? "StoreReadOnly"
                                           : "StoreNotZeroing";
}

}  // namespace

void Node::AddTroubleOfStart(const lvm::VolumeGroup& group, const lvm::LogicalVolume& pool, Health& health) {
  const auto tags = lvm::ParseTags(pool.tags);
  const auto trouble = tags.has_value() && tags->has_value() ? store_troubles.Of((*tags)->id) : std::nullopt;
  if (!trouble.has_value()) {
    return;
  }
  const std::string what = fmt::format("its thin store {}/{}", group.name, pool.name);
  const std::string remedy = fmt::format("`quarryctl store repair {}`", (*tags)->id);
  if (trouble->refusal == lvm::PoolRefusal::kDamaged) {
    health.ailments.insert(health.ailments.begin(),
                           {Problem::kInaccessible, "StoreDamaged",
                            fmt::format("{} is not started, because its metadata are damaged: {} repairs "
                                        "them, and keeps the damaged ones",
                                        what, remedy)});
  } else if (trouble->refusal == lvm::PoolRefusal::kMismatch) {
    health.ailments.insert(
        health.ailments.begin(),
        {Problem::kInaccessible, "StoreMismatch",
         fmt::format("{} is not started, because the transaction id of its metadata is not the one "
                     "in LVM's text: {} starts it if the two provably belong together, and says "
                     "otherwise what they lack",
                     what, remedy)});
  } else {
    health.ailments.push_back({Problem::kInaccessible, "StoreNotStarted",
                               fmt::format("{} is not started: {}", what, trouble->words)});
  }
}

Result<RaidReport> Node::RaidOf(const Record& record) {
  if (!record.lv->IsRaid()) {
    return RaidReport();
  }
  auto asked = world.dm.Raid(record.DmUuid());
  if (asked.has_value()) {
    return RaidReport{std::move(*asked), ""};
  }
  if (asked.error().code() == Code::kCorrupt) {
    return RaidReport{std::nullopt, asked.error().message()};
  }
  return std::move(asked.error());
}

Result<Health> Node::HealthOf(const Record& record, const mount::MountTable& mounts) {
  QUARRY_ASSIGN(const RaidReport raid, RaidOf(record));
  return HealthOf(record, raid, mounts);
}

Result<Health> Node::HealthOf(const Record& record, const RaidReport& raid, const mount::MountTable& mounts) {
  std::vector<const mount::MountEntry*> own;
  if (AnyGoneReadOnly(mounts)) {  // rare; if no mount has gone read-only, the device is not needed
    QUARRY_ASSIGN(const auto stack, StackOn(record.DmUuid()));
    if (stack.has_value()) {
      own = mounts.Of(stack->number());
    }
  }
  Health health = Diagnose(record, raid.status, own);
  if (record.tags.thin) {
    QUARRY_TRY(AddHealthOfStore(record, mounts, health));
  }
  if (!raid.unrecognized.empty()) {
    health.note = raid.unrecognized;
  }
  if (auto failing = DiskFailing(record, *FailingDisks()); failing.has_value()) {
    health.ailments.push_back(std::move(*failing));
  }
  if (auto doubt = doubts.Of(record.tags.id); doubt.has_value() && !raid.status.has_value()) {
    health.ailments.insert(health.ailments.begin(),
                           {Problem::kInaccessible, "LegsInDoubt", std::move(*doubt)});
  }
  if (health.ailments.empty() && lost_in_kernel.Has(record.tags.id)) {
    // The disk has returned, but device-mapper still holds the device that was pulled.
    health.ailments.push_back(
        {HasRedundancy(*record.lv) ? Problem::kDegraded : Problem::kInaccessible, "DiskReturned",
         "a disk of the volume was pulled and is back; the kernel has not opened it again yet"});
  }
  return health;
}

Status Node::AddHealthOfStore(const Record& record, const mount::MountTable& mounts, Health& health) {
  const lvm::VolumeGroup& group = *record.group;
  const lvm::LogicalVolume* const pool = group.FindLv(record.lv->pool);
  for (const Record& part :
       pool == nullptr ? std::vector<Record>() : RecordsOfParts(record.pool, record.group, *pool)) {
    QUARRY_ASSIGN(Health of_part, HealthOf(part, mounts));
    for (Ailment& ailment : of_part.ailments) {
      ailment.message = fmt::format("its {}: {}", InWords(part), ailment.message);
      const auto same = std::ranges::find(health.ailments, ailment.reason, &Ailment::reason);
      if (same == health.ailments.end()) {
        health.ailments.push_back(std::move(ailment));
      } else if (ailment.problem == Problem::kInaccessible) {
        *same = std::move(ailment);
      }
    }
    if (health.note.empty() && !of_part.note.empty()) {
      health.note = fmt::format("its {}: {}", InWords(part), of_part.note);
      health.percent = of_part.percent;
    }
  }
  if (pool == nullptr) {
    return Ok();
  }
  const auto status = HealthyPool(group, *pool, world.dm);
  if (!status.has_value() && status.error().code() == Code::kPrecondition) {
    const auto now = world.dm.ThinPool(lvm::DmUuid(group.uuid, pool->uuid));
    health.ailments.insert(
        health.ailments.begin(),
        {Problem::kInaccessible, now.has_value() ? ReasonOf(*now) : "StoreFailed", status.error().message()});
  } else if (!status.has_value() && status.error().code() == Code::kUnavailable) {
    AddTroubleOfStart(group, *pool, health);
  } else if (status.has_value() && status->mode == dm::ThinPoolStatus::Mode::kOutOfDataSpace) {
    health.ailments.push_back({Problem::kInaccessible, "StoreFull",
                               fmt::format("thin store {}/{} is full, so writes that need space fail. Unless "
                                           "it is overcommitted, volumes of Quarry alone cannot fill "
                                           "it: look for others in it (lvs), and remove them",
                                           group.name, pool->name)});
  }
  return Ok();
}

Result<LossVerdict> Node::LossOf(const Record& record) {
  if (record.tags.thin) {
    // Its bytes are in its store.
    const lvm::LogicalVolume* const pool = record.group->FindLv(record.lv->pool);
    for (const Record& part :
         pool == nullptr ? std::vector<Record>() : RecordsOfParts(record.pool, record.group, *pool)) {
      QUARRY_ASSIGN(LossVerdict of_part, LossOf(part));
      if (of_part.loss != Loss::kNone) {
        return of_part;
      }
    }
    return LossVerdict{};
  }
  auto unreadable = UnreadableLegs(*record.group, *record.lv, world.raid_legs);
  if (!unreadable.has_value()) {
    return std::move(unreadable.error())
        .As(Code::kUnavailable)
        .Context(fmt::format("a disk of {} does not answer: detach it, or try again", InWords(record)));
  }
  LossVerdict verdict = JudgeLoss(record, refused_disks.All(), *unreadable);
  const bool rests_on_reads =
      verdict.loss == Loss::kLost && JudgeLoss(record, refused_disks.All(), {}).loss == Loss::kNone;
  if (verdict.loss != Loss::kNone && !rests_on_reads) {
    return verdict;
  }
  QUARRY_ASSIGN(const RaidReport raid, RaidOf(record));
  const Result<Profile>& profile = record.profile;
  if (rests_on_reads && raid.status.has_value() && profile.has_value() &&
      !HasStopped(profile->geometry, *raid.status)) {
    return LossVerdict{};  // a superblock may be bad, but the kernel serves the data
  }
  if (rests_on_reads) {
    return verdict;
  }
  if (raid.status.has_value() && profile.has_value() && HasStopped(profile->geometry, *raid.status)) {
    return LossVerdict{
        Loss::kPassing,
        fmt::format("the kernel has stopped {} after errors of its disks, and quarryd starts it "
                    "again: try again. A disk that keeps failing is given up once it is detached",
                    InWords(record))};
  }
  // Asked now, and not as the repair loop last saw it: it may not have seen yet that the disk was pulled.
  QUARRY_ASSIGN(const bool on_lost_disk, world.dm.LiesOnLostDisk(record.DmUuid()));
  if (on_lost_disk && std::ranges::none_of(lvm::LostLegs(*record.group, *record.lv), std::identity())) {
    return LossVerdict{Loss::kPassing,
                       fmt::format("a disk of {} was pulled and is back, and the kernel has not "
                                   "opened it again yet: try again",
                                   InWords(record))};
  }
  return verdict;
}

Result<std::optional<Doubt>> Node::LookForDoubt(const Record& record) {
  if (!HasRedundancy(*record.lv)) {
    return std::nullopt;
  }
  auto found = FindDoubt(*record.group, *record.lv, world.raid_legs);
  doubts.Set(record.tags.id, found.has_value() ? *found : Doubt{.words = found.error().message()});
  return found;
}

Result<std::optional<Stack>> Node::StackOn(const std::string& lv_uuid) {
  QUARRY_ASSIGN(auto lv, world.dm.Find(lv_uuid));
  return lv.has_value() ? std::optional(Stack{std::move(*lv)}) : std::nullopt;
}

Result<Stack> Node::EnsureActive(const Found& found, const Call& call) {
  QUARRY_ASSIGN(auto stack, StackOn(found.record.DmUuid()));
  if (stack.has_value() && stack->lv.IsUsable()) {
    return std::move(*stack);
  }
  if (!stack.has_value() && found.record.lv->partial) {
    // Checked first, so that volumes activated by the same command do not wait for a volume that does not
    // start.
    QUARRY_ASSIGN(const std::optional<Doubt> doubt, LookForDoubt(found.record));
    if (doubt.has_value()) {
      Wake();  // the repair loop logs every change of a condition
      return Error(Code::kPrecondition, doubt->words);
    }
  }
  if (auto activated = found.pool->activations.Activate(found.record, found.pool->writers, world, call);
      !activated.has_value()) {
    if (const auto doubt = LookForDoubt(found.record); doubt.has_value() && doubt->has_value()) {
      Wake();
    }
    return std::move(activated.error());
  }
  QUARRY_ASSIGN(stack, StackOn(found.record.DmUuid()));
  if (!stack.has_value()) {
    return Error(Code::kInternal,
                 fmt::format("activating volume {}: LVM reported success, but the kernel has no such device",
                             found.record.tags.id));
  }
  return std::move(*stack);
}

Result<std::vector<const mount::MountEntry*>> Node::Published(const mount::MountTable& mounts,
                                                              const Stack& stack) {
  std::vector<const mount::MountEntry*> proven;
  QUARRY_ASSIGN(const auto dev, world.mount.FileSystemOfNode(stack.top().Node(), stack.number()));
  if (!dev.has_value()) {
    return proven;  // a device without a node in /dev is published nowhere
  }
  for (const mount::MountEntry* entry : NodeBinds(mounts, stack.top(), *dev)) {
    auto path = AbsolutePath::Parse(entry->target);
    if (!path.has_value()) {
      continue;  // quarryd accepts no such path, so it published nothing there
    }
    QUARRY_ASSIGN(const auto number, world.mount.BlockDeviceAt(*path));
    if (number == stack.number()) {
      proven.push_back(entry);
    }
  }
  return proven;
}

Status Node::DropIdleHold(const Record& record) {
  if (!holds.Has(record.tags.id)) {
    return Ok();
  }
  QUARRY_ASSIGN(const auto stack, StackOn(record.DmUuid()));
  if (stack.has_value()) {
    return DropIdleHold(record.tags.id, *stack);
  }
  holds.Drop(record.tags.id);
  return Ok();
}

Status Node::DropIdleHold(const std::string& id, const Stack& stack) {
  if (!holds.Has(id)) {
    return Ok();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, world.mount.Mounts());
  QUARRY_ASSIGN(const auto published, Published(mounts, stack));
  if (published.empty()) {
    holds.Drop(id);
  }
  return Ok();
}

}  // namespace quarry::engine
