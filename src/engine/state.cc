#include "engine/state.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/foreign.h"
#include "engine/mender.h"

namespace quarry::engine {

Status RunCounted(Pool& pool, const Plan& plan, const World& world, const Call& call) {
  pool.clean.Forget(ExtentsOf(plan, true));
  QUARRY_TRY(Execute(plan, world, call));
  for (const Action& action : plan) {
    pool.clean.Committed(CommitsOf(action));
  }
  return Ok();
}

void Holds::Keep(const std::string& id, UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  fds_.insert_or_assign(id, std::move(fd));
}

void Holds::Drop(const std::string& id) {
  const std::lock_guard lock(mutex_);
  fds_.erase(id);
}

bool Holds::Has(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return fds_.contains(id);
}

void LostInKernel::Set(const std::string& id, bool lost) {
  const std::lock_guard lock(mutex_);
  if (lost) {
    ids_.insert(id);
  } else {
    ids_.erase(id);
  }
}

bool LostInKernel::Has(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return ids_.contains(id);
}

Gate::Pass::~Pass() {
  if (gate_ != nullptr) {
    const std::lock_guard lock(gate_->mutex_);
    --gate_->inside_;
    gate_->changed_.notify_all();
  }
}

Result<Gate::Pass> Gate::Enter(const Call& call, std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  const Call patience = call.Within(longest);
  changed_.wait_until(lock, patience.stop, patience.deadline, [&] { return phase_ != Phase::kStarting; });
  if (phase_ != Phase::kOpen) {
    return Error(Code::kUnavailable, reason_);
  }
  ++inside_;
  return Pass(this);
}

void Gate::Open() {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kOpen;
  changed_.notify_all();
}

void Gate::Close(std::string reason) {
  const std::lock_guard lock(mutex_);
  phase_ = Phase::kClosed;
  reason_ = std::move(reason);
  changed_.notify_all();
}

Status Gate::Drain(const Call& call) {
  std::unique_lock lock(mutex_);
  const auto empty = [&] { return inside_ == 0; };
  const bool drained = call.deadline == SteadyTime::max()
                           ? changed_.wait(lock, call.stop, empty)
                           : changed_.wait_until(lock, call.stop, call.deadline, empty);
  if (!drained) {
    return Error(Code::kTimeout, fmt::format("{} calls are still in flight", inside_));
  }
  return Ok();
}

bool Gate::is_open() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kOpen;
}

std::string Gate::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

Engine::State::State(EngineConfig c, World w, const Logger& l) : config(std::move(c)), world(w), log(l) {
  for (const PoolConfig& pool : config.pools) {
    pools.push_back(std::make_unique<Pool>(pool));
  }
  mender = std::make_unique<Mender>(*this);
}

Engine::State::~State() = default;

void Engine::State::Wake() {
  const std::lock_guard lock(wake_mutex);
  if (wake) {
    wake();
  }
}

Result<Pool*> Engine::State::FindPool(const std::string& name) {
  std::string known;
  for (const auto& pool : pools) {
    if (pool->config.name == name) {
      return pool.get();
    }
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", pool->config.name);
  }
  return Error(Code::kInvalidArgument,
               fmt::format("parameters['pool']: no pool '{}'; there are {}", name, known));
}

Result<std::shared_ptr<const Catalog>> Engine::State::Read(Pool& pool, const Call& call) {
  auto group = world.lvm.Read(pool.config.group, call);
  if (!group.has_value()) {
    // A missing group is the node's trouble. It must not read as "there is no such volume".
    const Code code = group.error().code() == Code::kNotFound ? Code::kPrecondition : group.error().code();
    return std::move(group.error())
        .As(code)
        .Context(fmt::format("pool '{}': volume group '{}'", pool.config.name, pool.config.group));
  }
  auto weak = disk_healths.Weak();
  const std::lock_guard lock(pool.catalog_mutex);
  // The catalog keeps its snapshot alive, so an equal pointer is the same snapshot.
  if (pool.catalog == nullptr || pool.catalog->group != *group || pool.catalog_weak != weak) {
    Catalog fresh = ReadCatalog(pool.config.name, *group);
    fresh.weak = *weak;
    pool.catalog = std::make_shared<const Catalog>(std::move(fresh));
    pool.catalog_weak = std::move(weak);
  }
  return pool.catalog;
}

Result<std::optional<Engine::State::Found>> Engine::State::FindVolume(const std::string& id,
                                                                      const Call& call) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value()) {
    return std::optional<Found>();  // not an id that we ever gave out
  }
  // The pool that the id names first; the others too, because a pool may have been renamed since.
  std::vector<Pool*> order;
  for (const auto& pool : pools) {
    order.insert(pool->config.name == parts->pool ? order.begin() : order.end(), pool.get());
  }
  for (Pool* pool : order) {
    QUARRY_ASSIGN(const auto catalog, Read(*pool, call));
    if (const Record* record = catalog->ById(id); record != nullptr) {
      return std::optional(Found{pool, *record});
    }
  }
  return std::optional<Found>();
}

Result<Engine::State::Found> Engine::State::GetVolume(const std::string& id, const Call& call) {
  QUARRY_ASSIGN(auto found, FindVolume(id, call));
  if (!found.has_value()) {
    QUARRY_ASSIGN(const auto foreign, FindForeign(id, call));
    if (foreign.has_value()) {
      return NotAdopted(foreign->record);
    }
    return Error(Code::kNotFound, fmt::format("volume_id: no volume '{}' on this node", id));
  }
  return std::move(*found);
}

Result<std::optional<Engine::State::Found>> Engine::State::FindByName(const std::string& co_name,
                                                                      const Call& call) {
  for (const auto& pool : pools) {
    QUARRY_ASSIGN(const auto catalog, Read(*pool, call));
    if (const Record* record = catalog->ByName(co_name); record != nullptr) {
      return std::optional(Found{pool.get(), *record});
    }
  }
  return std::optional<Found>();
}

Result<dm::Device> Engine::State::EnsureActive(const Found& found, const Call& call) {
  QUARRY_ASSIGN(auto device, world.dm.Find(found.record.DmUuid()));
  if (device.has_value() && !device->suspended) {
    return std::move(*device);
  }
  QUARRY_TRY(found.pool->activations.Activate(found.record, found.pool->writers, world, call));
  QUARRY_ASSIGN(device, world.dm.Find(found.record.DmUuid()));
  if (!device.has_value()) {
    return Error(Code::kInternal,
                 fmt::format("activating volume {}: LVM reported success, but the kernel has no such device",
                             found.record.tags.id));
  }
  return std::move(*device);
}

Result<std::vector<const mount::MountEntry*>> Engine::State::Published(const mount::MountTable& mounts,
                                                                       const dm::Device& device) {
  std::vector<const mount::MountEntry*> proven;
  for (const mount::MountEntry* entry : NodeBinds(mounts, device)) {
    auto path = AbsolutePath::Parse(entry->target);
    if (!path.has_value()) {
      continue;  // no path that we could have been given
    }
    QUARRY_ASSIGN(const auto number, world.mount.BlockDeviceAt(*path));
    if (number == mount::DeviceNumber{device.major, device.minor}) {
      proven.push_back(entry);
    }
  }
  return proven;
}

}  // namespace quarry::engine
