#include "engine/pool/activation.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/plan/actions.h"

namespace quarry::engine {
namespace {

// This many names, with the rest of the command, fit into one line to the process that starts LVM (lvm/run).
constexpr size_t kMost = 40;

bool IsActive(const Record& record, const World& world) {
  const auto device = world.dm.Find(record.DmUuid());
  return device.has_value() && device->has_value() && (*device)->IsUsable();
}

// A leg that cannot be removed is in use; LVM then fails with the reason.
void RemoveLooseLegs(const Record& record, const World& world, const Call& call) {
  const auto volume = world.dm.Find(record.DmUuid());
  if (!volume.has_value() || volume->has_value()) {
    return;
  }
  for (const std::string& uuid : record.DmUuids()) {
    if (const auto leg = world.dm.Find(uuid); leg.has_value() && leg->has_value()) {
      (void)Execute({RemoveDeviceAction{(*leg)->name, uuid}}, world, call);
    }
  }
}

}  // namespace

Status Activations::Activate(const Record& record, WriterQueue& writers, const World& world,
                             const Call& call) {
  const auto own = std::make_shared<Wish>(record);
  {
    const MutexLock lock(mutex_);
    waiting_.push_back(own);
  }
  const auto turn = writers.Wait(fmt::format("activating volume {}", record.tags.id), call);
  const Wishes wishes = Take(own, turn.has_value());
  if (!turn.has_value()) {
    return turn.error();
  }
  if (own->done) {
    return Ok();
  }
  const Status activated = ActivateAll(wishes, world, call);
  if (activated.has_value() || wishes.size() == 1) {
    std::ranges::for_each(wishes, [&](const auto& wish) { wish->done = activated.has_value(); });
    return activated;
  }
  for (const auto& wish : wishes) {
    wish->done = IsActive(wish->record, world);
    wish->alone = true;
  }
  return own->done ? Ok() : ActivateAll({own}, world, call);
}

// A wish that another caller's command includes still waits for its own turn, and learns the outcome then.
Activations::Wishes Activations::Take(const std::shared_ptr<Wish>& own, bool has_turn) {
  const MutexLock lock(mutex_);
  std::erase(waiting_, own);
  Wishes out = {own};
  for (const auto& wish : waiting_) {
    if (has_turn && !own->alone && !wish->alone && !wish->done && out.size() < kMost) {
      out.push_back(wish);
    }
  }
  return out;
}

Status Activations::ActivateAll(const Wishes& wishes, const World& world, const Call& call) {
  ActivateAction activate{wishes.front()->record.group->name, {}};
  for (const auto& wish : wishes) {
    RemoveLooseLegs(wish->record, world, call);
    activate.names.push_back(wish->record.lv->name);
  }
  const Status done = Execute({activate}, world, call);
  const lvm::LogicalVolume& lv = *wishes.front()->record.lv;
  if (done.has_value() || wishes.size() > 1 || lv.partial || !lv.IsRaid() ||
      !call.Check("activating").has_value()) {
    return done;
  }
  // The array may have stopped when its disks disappeared, and the disks may be back.
  RemoveLooseLegs(wishes.front()->record, world, call);
  const Status again = Execute({ReviveAction{activate.group, lv.name}, activate}, world, call);
  return again.has_value() ? again : done;
}

size_t Activations::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_.size();
}

}  // namespace quarry::engine
