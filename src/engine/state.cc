#include "engine/state.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/foreign.h"
#include "engine/health.h"
#include "engine/mender.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

// For any pool that may have what is looked for: LVM's answer may wait for whoever changes the group.
constexpr milliseconds kAllPatience{10'000};
// A pool that has given no answer for so long is broken, as far as promises of capacity go.
constexpr std::chrono::minutes kGivenUp{1};

// A group that is gone is no reason to conclude that there is nothing.
Error CouldNotLook(Error error) {
  return error.code() == Code::kPrecondition ? std::move(error).As(Code::kUnavailable) : std::move(error);
}

// Whether device-mapper's name is that of a logical volume of this name, in whatever group. `lv_name` is one
// of ours, without hyphens: those of the group's name are doubled, so that an odd one is the joint.
bool IsDmNameOf(std::string_view dm_name, std::string_view lv_name) {
  if (!dm_name.ends_with(lv_name)) {
    return false;
  }
  dm_name.remove_suffix(lv_name.size());
  const size_t last = dm_name.find_last_not_of('-');
  return last != std::string_view::npos && (dm_name.size() - last - 1) % 2 == 1;
}

}  // namespace

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

void Doubts::Set(const std::string& id, const std::optional<Doubt>& doubt) {
  const std::lock_guard lock(mutex_);
  if (doubt.has_value()) {
    words_.insert_or_assign(id, doubt->words);
  } else {
    words_.erase(id);
  }
}

std::optional<std::string> Doubts::Of(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = words_.find(id);
  return found == words_.end() ? std::nullopt : std::optional(found->second);
}

void LeftBehind::Add(const std::string& handle) {
  const std::lock_guard lock(mutex_);
  if (handles_.size() < kMost) {
    handles_.insert(handle);
  }
}

void LeftBehind::Drop(const std::string& handle) {
  const std::lock_guard lock(mutex_);
  handles_.erase(handle);
}

bool LeftBehind::Has(const std::string& handle) const {
  const std::lock_guard lock(mutex_);
  return handles_.contains(handle);
}

std::set<std::string> LeftBehind::All() const {
  const std::lock_guard lock(mutex_);
  return handles_;
}

Gate::Pass::~Pass() {
  if (gate_ != nullptr) {
    const std::lock_guard lock(gate_->mutex_);
    --gate_->inside_;
    gate_->changed_.notify_all();
  }
}

// A stop of the caller's, or its deadline, ends the wait as well.
Status Gate::WaitLocked(std::unique_lock<std::mutex>& lock, const Call& call, SteadyTime until) {
  changed_.wait_until(lock, call.stop, std::min(until, call.deadline),
                      [&] { return phase_ != Phase::kStarting; });
  return phase_ == Phase::kOpen ? Ok() : Status(Error(Code::kUnavailable, reason_));
}

Result<Gate::Pass> Gate::Enter(const Call& call) {
  std::unique_lock lock(mutex_);
  QUARRY_TRY(WaitLocked(lock, call, std::chrono::steady_clock::now() + kLongestWait));
  ++inside_;
  return Pass(this);
}

Status Gate::Wait(const Call& call) {
  std::unique_lock lock(mutex_);
  return WaitLocked(lock, call,
                    std::min(std::chrono::steady_clock::now() + kLongestWait, made_ + kLongestStart));
}

Status Gate::WaitBriefly(const Call& call) {
  std::unique_lock lock(mutex_);
  return WaitLocked(lock, call, made_ + kBriefly);
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

Gate::Phase Gate::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

bool Gate::is_late() const {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kStarting && std::chrono::steady_clock::now() - made_ > kLongestStart;
}

std::string Gate::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

Engine::State::State(EngineConfig c, World w, const Logger& l) : config(std::move(c)), world(w), log(l) {
  for (const PoolConfig& pool : config.pools) {
    pools.push_back(std::make_unique<Pool>(pool, world.lvm));
  }
  gate.Open();
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

Result<std::shared_ptr<const Catalog>> Engine::State::CatalogOf(Pool& pool, Result<lvm::Snapshot> group) {
  if (!group.has_value()) {
    // A missing group is the node's trouble. It must not read as "there is no such volume".
    const Code code = group.error().code() == Code::kNotFound ? Code::kPrecondition : group.error().code();
    Error error =
        std::move(group.error())
            .As(code)
            .Context(fmt::format("pool '{}': volume group '{}'", pool.config.name, pool.config.group));
    const std::lock_guard lock(pool.catalog_mutex);
    // What ended with a caller's patience says nothing of the pool. That it has not started the start tells.
    if (code == Code::kPrecondition && pool.gate.is_open() && pool.told.empty()) {
      pool.told = error.message();
      log.Warning("a pool has gone", {{"pool", pool.config.name}, {"detail", error.message()}});
    }
    return error;
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
  if (!std::exchange(pool.told, "").empty()) {
    log.Info("a pool is back", {{"pool", pool.config.name}});
  }
  for (const std::string& name : std::exchange(pool.given_up, {})) {
    if (const Record* record = pool.catalog->ByName(name); record != nullptr) {
      log.Warning(
          "a volume is back whose creation was sent to other nodes while its pool was gone: if another "
          "one serves in its stead, delete this one",
          {{"pool", pool.config.name}, {"volume", record->tags.id}, {"name", name}});
    }
  }
  return pool.catalog;
}

Result<std::shared_ptr<const Catalog>> Engine::State::ReadGroup(Pool& pool, const Call& call) {
  auto group = world.lvm.Read(pool.config.group, call);
  if (group.has_value()) {
    pool.lookout.Forget();
  }
  return CatalogOf(pool, std::move(group));
}

Result<std::shared_ptr<const Catalog>> Engine::State::Read(Pool& pool, const Call& call) {
  QUARRY_TRY(pool.gate.Wait(call));
  return ReadGroup(pool, call);
}

Result<std::shared_ptr<const Catalog>> Engine::State::Look(Pool& pool, milliseconds patience,
                                                           const Call& call) {
  if (!pool.gate.is_open()) {
    return Error(Code::kUnavailable, pool.gate.reason()).Context(fmt::format("pool '{}'", pool.config.name));
  }
  return CatalogOf(pool, pool.lookout.Look(patience, call));
}

std::vector<Result<std::shared_ptr<const Catalog>>> Engine::State::LookAtAll(milliseconds patience,
                                                                             const Call& call) {
  std::vector<std::optional<Lookout::Question>> asked;
  for (const auto& pool : pools) {
    asked.push_back(pool->gate.is_open() ? std::optional(pool->lookout.Ask()) : std::nullopt);
  }
  std::vector<Result<std::shared_ptr<const Catalog>>> out;
  for (size_t i = 0; i < pools.size(); ++i) {
    Pool& pool = *pools[i];
    out.push_back(asked[i].has_value() ? CatalogOf(pool, pool.lookout.Await(*asked[i], patience, call))
                                       : Look(pool, patience, call));
  }
  return out;
}

// Other causes have the same code (another quarryd has it, it went back in time), and the group is there
// then.
bool Engine::State::IsGone(Pool& pool, const Error& error) {
  bool refused = pool.gate.is_open() && error.code() == Code::kPrecondition;
  if (pool.gate.phase() == Gate::Phase::kClosed) {
    const std::lock_guard lock(pool.catalog_mutex);
    refused = pool.start_error.has_value() && pool.start_error->code() == Code::kPrecondition;
  }
  if (!refused) {
    return false;
  }
  const auto now = world.lvm.Read(pool.config.group, CallWithin(kOthersPatience));
  return !now.has_value() && now.error().code() == Code::kNotFound;
}

bool Engine::State::IsBroken(Pool& pool, const Error& error) {
  switch (pool.gate.phase()) {
    case Gate::Phase::kStarting:
      return pool.gate.is_late();
    case Gate::Phase::kClosed:
      return gate.is_open();  // else it is stopping
    case Gate::Phase::kOpen:
      break;
  }
  const bool in_time = error.code() != Code::kUnavailable && error.code() != Code::kTimeout &&
                       error.code() != Code::kCancelled;
  const auto since = pool.lookout.failing_since();
  return in_time || (since.has_value() && std::chrono::steady_clock::now() - *since > kGivenUp);
}

Result<std::optional<Engine::State::Found>> Engine::State::FindVolume(const std::string& id,
                                                                      const Call& call) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value()) {
    return std::optional<Found>();  // not an id that we ever gave out
  }
  const auto named =
      std::ranges::find_if(pools, [&](const auto& pool) { return pool->config.name == parts->pool; });
  Pool* const own = named == pools.end() ? nullptr : named->get();
  std::optional<Error> unread;
  if (own != nullptr) {
    const auto catalog = Read(*own, call);
    if (!catalog.has_value()) {
      unread = catalog.error();
    } else if (const Record* record = (*catalog)->ById(id); record != nullptr) {
      return std::optional(Found{own, *record});
    } else {
      QUARRY_TRY((*catalog)->CheckReadableId(id));
    }
  }
  const bool decided = own != nullptr && !unread.has_value();
  for (const auto& pool : pools) {
    if (pool.get() == own) {
      continue;
    }
    (void)pool->gate.WaitBriefly(call);
    const auto catalog = Look(*pool, kOthersPatience, call);
    if (!catalog.has_value()) {
      unread = unread.has_value() ? unread : catalog.error();
    } else if (const Record* record = (*catalog)->ById(id); record != nullptr) {
      return std::optional(Found{pool.get(), *record});
    } else {
      QUARRY_TRY((*catalog)->CheckReadableId(id));
    }
  }
  if (!decided && unread.has_value()) {
    return CouldNotLook(std::move(*unread));
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

Result<Engine::State::Found> Engine::State::GetForController(const std::string& id, const Call& call) {
  auto found = GetVolume(id, call);
  if (!found.has_value() && found.error().code() == Code::kNotFound && !deleted_here.Has(id)) {
    QUARRY_TRY(CheckNotElsewhere(config.node, id));
  }
  return found;
}

// A create that is repeated names the pool that it named before, so that nothing of its can be in another;
// and an id is of one pool. (Where no pool is named it is the first one: docs/configuration.md.)
Result<std::optional<Engine::State::Found>> Engine::State::FindByName(const std::string& co_name, Pool* asked,
                                                                      const Call& call) {
  const milliseconds patience = asked == nullptr ? kAllPatience : kOthersPatience;
  std::optional<Error> unread;
  if (asked != nullptr) {
    const auto catalog = Read(*asked, call);
    if (!catalog.has_value()) {
      unread = catalog.error();
    } else if (const Record* record = (*catalog)->ByName(co_name); record != nullptr) {
      return std::optional(Found{asked, *record});
    }
  }
  for (const auto& pool : pools) {
    if (pool.get() == asked) {
      continue;
    }
    (void)pool->gate.WaitBriefly(call);
    const auto catalog = Look(*pool, patience, call);
    if (!catalog.has_value()) {
      unread = asked == nullptr && !unread.has_value() ? CouldNotLook(catalog.error()) : unread;
    } else if (const Record* record = (*catalog)->ByName(co_name); record != nullptr) {
      return std::optional(Found{pool.get(), *record});
    }
  }
  return unread.has_value() ? Result<std::optional<Found>>(std::move(*unread)) : std::optional<Found>();
}

Status Engine::State::CheckReadableName(const std::string& co_name) {
  for (const auto& pool : pools) {
    const std::lock_guard lock(pool->catalog_mutex);
    const bool is_gone = !pool->told.empty();
    QUARRY_TRY(pool->catalog == nullptr || is_gone ? Ok() : pool->catalog->CheckReadableName(co_name));
  }
  return Ok();
}

Result<std::optional<dm::Device>> Engine::State::FindDevice(const std::string& id, const Call& call) {
  const auto parts = lvm::ParseVolumeId(id);
  if (!parts.has_value()) {
    return std::optional<dm::Device>();
  }
  // An id stands for one logical volume for ever, so that what was read once is good enough.
  for (const auto& pool : pools) {
    std::shared_ptr<const Catalog> known;
    {
      const std::lock_guard lock(pool->catalog_mutex);
      known = pool->catalog;
    }
    if (const Record* record = known == nullptr ? nullptr : known->ById(id); record != nullptr) {
      return world.dm.Find(record->DmUuid());
    }
    const bool inline_one =
        known != nullptr && std::ranges::any_of(known->records, [&](const Record& record) {
          return record.tags.ephemeral && record.lv->name == parts->lv_name;
        });
    if (inline_one) {
      return std::optional<dm::Device>();  // known by its handle only
    }
  }
  // Of a name of ours device-mapper says enough. Whether a logical volume that somebody else made is ours,
  // only its group says, where that can be read: not if its pool was taken out of the configuration.
  bool unread =
      std::ranges::none_of(pools, [&](const auto& pool) { return pool->config.name == parts->pool; });
  for (const auto& pool : pools) {
    if (parts->lv_uuid.empty()) {
      break;
    }
    const auto catalog = Look(*pool, kOthersPatience, call);
    const bool unreadable = catalog.has_value() && !(*catalog)->CheckReadableId(id).has_value();
    if (catalog.has_value() && !unreadable && pool->config.name == parts->pool &&
        (*catalog)->ById(id) == nullptr) {
      return std::optional<dm::Device>();
    }
    unread = unread || !catalog.has_value() || unreadable;
    if (const Record* record = catalog.has_value() ? (*catalog)->ById(id) : nullptr; record != nullptr) {
      return world.dm.Find(record->DmUuid());
    }
  }
  if (!parts->lv_uuid.empty() && !unread) {
    return std::optional<dm::Device>();
  }
  QUARRY_ASSIGN(const std::vector<dm::Device> devices, world.dm.List(std::string(lvm::kDmUuidPrefix)));
  for (const dm::Device& device : devices) {
    const bool same = std::ranges::any_of(pools, [&](const auto& pool) {
      return !parts->lv_name.empty() && device.name == lvm::DmName(pool->config.group, parts->lv_name);
    });
    if (same || (!parts->lv_uuid.empty() && lvm::IsDmUuidOf(device.uuid, parts->lv_uuid))) {
      return std::optional(device);
    }
  }
  // Of a pool that is no longer configured not even the group's name is known. 128 random bits say enough.
  for (const dm::Device& device : devices) {
    if (!parts->lv_name.empty() && IsDmNameOf(device.name, parts->lv_name)) {
      return std::optional(device);
    }
  }
  return std::optional<dm::Device>();
}

Result<std::optional<Doubt>> Engine::State::LookForDoubt(const Record& record) {
  if (world.raid_legs == nullptr || !HasRedundancy(*record.lv)) {
    return std::nullopt;
  }
  auto found = FindDoubt(*record.group, *record.lv, *world.raid_legs);
  doubts.Set(record.tags.id, found.has_value() ? *found : Doubt{.words = found.error().message()});
  return found;
}

Result<dm::Device> Engine::State::EnsureActive(const Found& found, const Call& call) {
  QUARRY_ASSIGN(auto device, world.dm.Find(found.record.DmUuid()));
  if (device.has_value() && !device->suspended) {
    return std::move(*device);
  }
  if (!device.has_value() && found.record.lv->partial) {
    // Those that are activated beside it are not to wait for a volume that will not be.
    QUARRY_ASSIGN(const std::optional<Doubt> doubt, LookForDoubt(found.record));
    if (doubt.has_value()) {
      Wake();  // the mender tells the log of every change of a condition
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
  const mount::DeviceNumber ours{device.major, device.minor};
  std::vector<const mount::MountEntry*> proven;
  QUARRY_ASSIGN(const auto dev, world.mount.FileSystemOfNode(device.Node(), ours));
  if (!dev.has_value()) {
    return proven;  // a node that /dev does not have is published nowhere
  }
  for (const mount::MountEntry* entry : NodeBinds(mounts, device, *dev)) {
    auto path = AbsolutePath::Parse(entry->target);
    if (!path.has_value()) {
      continue;  // no path that we could have been given
    }
    QUARRY_ASSIGN(const auto number, world.mount.BlockDeviceAt(*path));
    if (number == ours) {
      proven.push_back(entry);
    }
  }
  return proven;
}

Status Engine::State::DropIdleHold(const Record& record) {
  if (!holds.Has(record.tags.id)) {
    return Ok();
  }
  QUARRY_ASSIGN(const auto device, world.dm.Find(record.DmUuid()));
  if (device.has_value()) {
    return DropIdleHold(record.tags.id, *device);
  }
  holds.Drop(record.tags.id);
  return Ok();
}

Status Engine::State::DropIdleHold(const std::string& id, const dm::Device& device) {
  if (!holds.Has(id)) {
    return Ok();
  }
  QUARRY_ASSIGN(const mount::MountTable mounts, world.mount.Mounts());
  QUARRY_ASSIGN(const auto published, Published(mounts, device));
  if (published.empty()) {
    holds.Drop(id);
  }
  return Ok();
}

}  // namespace quarry::engine
