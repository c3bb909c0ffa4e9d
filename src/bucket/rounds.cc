// What is done again and again: bring up what can serve, take away what cannot, watch the gateway.
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "bucket/buckets.h"
#include "bucket/names.h"

namespace quarry::bucket {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr minutes kBringUpLimit{2};         // a file system check may take long
constexpr milliseconds kNoWait{50};         // for the lock of a bucket: whoever has it does the work
constexpr milliseconds kCountLimit{4'000};  // with a sweep, less than a deletion waits for a look to end
constexpr int kCountShare = 20;             // counting takes at most this part of the time
constexpr uint64_t kMostCounted = 10'000'000;
constexpr minutes kSweepInterval{60};
constexpr minutes kSweepAgain{5};  // after a sweep that was cut off
constexpr milliseconds kSweepLimit{10'000};
constexpr int kRoundsBeforeRestart = 3;
constexpr int kRoundsOfFull = 2;         // then it is not only slow for a moment
constexpr seconds kRestartInterval{60};  // a gateway that cannot run is not helped by more restarts

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

// A walk over many objects costs, so what was counted stays for a while: the longer, the longer it took.
Status Buckets::LookAtContent(const Known& known, milliseconds oldest, const Call& counting) {
  const std::string& id = known.volume.id;
  const auto opened = OpenMounted(id, known.device);
  const auto usage = opened.has_value() ? opened->Usage() : opened.error();
  if (!usage.has_value()) {
    return usage.error();
  }
  const SteadyTime began = Now();
  std::optional<ObjectCount> count;
  const bool is_old = known.counted == SteadyTime() ||
                      began - known.counted >= std::max(oldest, known.count_took * kCountShare);
  if (is_old && counting.Check("counting objects").has_value()) {
    count = opened->Count(kMostCounted, counting).value_or(ObjectCount{.objects = 0, .is_complete = false});
  }
  const MutexLock lock(mutex_);
  if (const auto found = known_.find(id); found != known_.end()) {
    Known& now = found->second;
    const uint64_t before = now.content.has_value() ? now.content->objects : 0;
    now.content = *usage;
    // An incomplete count says at least how many there are.
    now.content->objects = !count.has_value()   ? before
                           : count->is_complete ? count->objects
                                                : std::max(count->objects, before);
    if (count.has_value()) {
      now.counted = Now();
      now.count_took = std::chrono::duration_cast<milliseconds>(now.counted - began);
    }
  }
  return Ok();
}

void Buckets::SweepIfDue(const Known& known, const Call& call) {
  const std::string& id = known.volume.id;
  if (known.settings.upload_ttl.count() == 0 || Now() < known.next_sweep) {
    return;
  }
  const auto opened = OpenMounted(id, known.device);
  if (!opened.has_value()) {
    return;
  }
  const auto swept = opened->Sweep(known.settings.upload_ttl, call.Within(kSweepLimit));
  const bool is_complete = swept.has_value() && swept->is_complete;
  if (swept.has_value() && swept->removed > 0) {
    log_.Info("unfinished uploads were removed",
              {{"bucket", known.settings.name}, {"uploads", static_cast<int64_t>(swept->removed)}});
  }
  const MutexLock lock(mutex_);
  if (const auto found = known_.find(id); found != known_.end()) {
    found->second.next_sweep = Now() + (is_complete ? kSweepInterval : kSweepAgain);
  }
}

// True: the bucket serves, as far as its volume goes.
bool Buckets::LookAtVolume(const engine::VolumeStatus& status, const Call& call) {
  const std::string& id = status.id;
  const std::optional<Known> known = Find(id);
  const bool is_lost = status.condition == "failed";
  {
    const MutexLock lock(mutex_);
    if (const auto found = known_.find(id); found != known_.end()) {
      found->second.created = status.created;
      found->second.volume.size = status.size;
      found->second.ailment =
          status.condition == "healthy" ? "" : fmt::format("{}: {}", status.condition, status.detail);
    }
  }
  if (is_lost && known.has_value()) {
    const auto guard = LockBucket(BucketNameIn(status.name), call.Within(kNoWait));
    if (guard.has_value()) {
      TakeDown(id, status.detail);
    }
    return false;
  }
  if (known.has_value() && known->linked && !known->stale &&
      config_.is_mount_point(folder_.MountPoint(LvNameIn(id)))) {
    Touch(*known);
    const Status looked = LookAtContent(*known, config_.count_interval, call.Within(kCountLimit));
    if (looked.has_value() ||
        (looked.error().code() != Code::kIo && looked.error().code() != Code::kUnavailable)) {
      SweepIfDue(*known, call);
      return true;
    }
  }
  const auto guard = LockBucket(BucketNameIn(status.name), call.Within(kNoWait));
  if (!guard.has_value()) {
    return false;
  }
  const auto volume = Volume(id, call);
  if (!volume.has_value()) {
    return false;  // deleted meanwhile, or its pool cannot be read, which is told elsewhere
  }
  Remember(status, *volume);  // with its age, by which it may come up or not
  if (const Status up = BringUp(*volume, call.Within(kBringUpLimit)); !up.has_value()) {
    TakeDown(id, is_lost ? status.detail : up.error().message());
    return false;
  }
  const std::optional<Known> now = Find(id);
  if (now.has_value() && !now->conflict.empty()) {
    log_.Warning("an account has two secrets", {{"bucket", now->settings.name}, {"detail", now->conflict}});
  }
  if (!known.has_value() || !known->linked) {
    log_.Info("a bucket serves", {{"bucket", BucketNameIn(status.name)}, {"volume", id}});
  }
  return true;
}

void Buckets::Remember(const engine::VolumeStatus& status, const engine::Volume& volume) {
  const MutexLock lock(mutex_);
  Known& one = known_[status.id];
  if (one.volume.id.empty()) {
    one.volume = volume;
    one.settings.name = BucketNameIn(status.name);
    one.type = status.type;
  }
  one.created = status.created;
}

void Buckets::NoteLook(const std::string& id, bool looking, bool silent) {
  bool changed = false;
  std::string name;
  {
    const MutexLock lock(mutex_);
    const auto found = known_.find(id);
    if (found == known_.end()) {
      return;
    }
    // A check of a file system takes long. But once its link is away, a silent bucket stays so.
    silent = silent && (found->second.linked || found->second.silent);
    changed = found->second.silent != silent;
    found->second.looking = looking;
    found->second.silent = silent;
    name = found->second.settings.name;
  }
  if (changed && silent) {
    log_.Warning("a bucket's disk does not answer", {{"bucket", name}, {"volume", id}});
  }
  if (silent) {
    // Each request would keep a thread of the gateway, of which all buckets have a part.
    if (const auto guard = LockBucket(name, CallWithin(kNoWait)); guard.has_value()) {
      TakeDown(id, "its disk does not answer");
    }
  } else if (changed) {
    log_.Info("a bucket's disk answers again", {{"bucket", name}, {"volume", id}});
  }
}

bool Buckets::LookPatiently(const engine::VolumeStatus& status, const Call& call) {
  auto at = looks_.find(status.id);
  if (at == looks_.end()) {
    std::packaged_task<bool()> task([this, status, call] { return LookAtVolume(status, call); });
    std::future<bool> result = task.get_future();
    NoteLook(status.id, true, false);
    at = looks_.emplace(status.id, Look{std::move(result), Now(), std::jthread(std::move(task))}).first;
    (void)at->second.result.wait_for(config_.look_limit);
  }
  if (at->second.result.wait_for(seconds(0)) != std::future_status::ready) {
    NoteLook(status.id, true, Now() - at->second.since >= config_.silent_after);
    return false;
  }
  NoteLook(status.id, false, false);
  Look look = std::move(at->second);
  looks_.erase(at);
  return look.result.get();
}

// Two buckets of one name come from two servers, or one was away while the other was made. Which one serves
// must not depend on which pool is read first after a reboot.
std::map<std::string, std::string> Buckets::Oldest(const std::vector<engine::VolumeStatus>& all) {
  std::map<std::string, std::pair<uint64_t, std::string>> oldest;
  const auto enter = [&oldest](const std::string& name, uint64_t created, const std::string& id) {
    const auto one = std::pair(created, id);
    const auto [at, is_first] = oldest.emplace(name, one);
    at->second = is_first ? one : std::min(at->second, one);
  };
  for (const engine::VolumeStatus& status : all) {
    enter(BucketNameIn(status.name), status.created, status.id);
  }
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, known] : known_) {
      if (known.created > 0) {  // it may be in a pool that cannot be read now
        enter(known.settings.name, known.created, id);
      }
    }
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, one] : oldest) {
    out[name] = one.second;
  }
  return out;
}

std::string Buckets::OlderText(const std::string& older, const std::string& name) {
  return fmt::format("bucket {} has the same name, '{}', and is older: delete one of them", older, name);
}

void Buckets::KeepBack(const engine::VolumeStatus& status, const std::string& older, const Call& call) {
  const std::string name = BucketNameIn(status.name);
  const auto guard = LockBucket(name, call.Within(kNoWait));
  const auto volume = guard.has_value() ? Volume(status.id, call) : Error(Code::kBusy, "");
  if (volume.has_value()) {
    Remember(status, *volume);
    TakeDown(status.id, OlderText(older, name));
  }
}

// Forgets buckets whose volume is gone, and removes links of buckets that do not exist.
void Buckets::DropGone(const std::set<std::string>& seen, const std::set<std::string>& unread,
                       const Call& call) {
  std::map<std::string, std::string> absent;  // by id: name
  std::set<std::string> names;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, known] : known_) {
      names.insert(known.settings.name);
      if (!seen.contains(id) && !unread.contains(known.volume.pool)) {
        absent[id] = known.settings.name;
      }
    }
  }
  for (const auto& [id, name] : absent) {
    const auto guard = LockBucket(name, call.Within(kNoWait));
    const auto volume = Volume(id, call);  // it may have been made meanwhile
    if (guard.has_value() && !volume.has_value() && volume.error().code() == Code::kNotFound) {
      Forget(id);
    }
  }
  // A look that goes on may be about to make its bucket known.
  const bool all_known = unread.empty() && looks_.empty();
  const auto linked = all_known ? folder_.Linked() : std::set<std::string>();
  for (const std::string& name : linked.has_value() ? *linked : std::set<std::string>()) {
    const auto guard = names.contains(name) ? Error(Code::kBusy, "") : LockBucket(name, call.Within(kNoWait));
    const MutexLock lock(mutex_);
    const bool is_new =
        std::ranges::any_of(known_, [&](const auto& one) { return one.second.settings.name == name; });
    if (guard.has_value() && !is_new) {
      (void)folder_.Unlink(name);
    }
  }
}

std::string Buckets::ProblemOfGateway(const Error& probed) const {
  if (probed.code() == Code::kBusy) {
    return probed.message();
  }
  const std::string told = folder_.GatewayProblem();
  return fmt::format("the gateway does not serve: {}{}{}", probed.message(),
                     told.empty() ? "" : ": quarry-gateway says: ", told);
}

// A gateway that is well but full is told, and never restarted: a restart would cut every client off, and the
// clients that took all slots would take them again.
bool Buckets::LookAtGateway() {
  if (full_rounds_ >= kRoundsOfFull && Now() - probed_ < config_.full_interval) {
    return false;
  }
  const Status probed = config_.probe();
  probed_ = Now();
  const bool full = !probed.has_value() && probed.error().code() == Code::kBusy;
  full_rounds_ = full ? full_rounds_ + 1 : 0;
  unhealthy_rounds_ = probed.has_value() || full ? 0 : unhealthy_rounds_ + 1;  // a full one answers
  const std::string problem = probed.has_value() ? "" : ProblemOfGateway(probed.error());
  {
    const MutexLock lock(mutex_);
    gateway_healthy_ = probed.has_value();
    gateway_full_ = full;
    gateway_problem_ = problem;
  }
  if (probed.has_value()) {
    if (told_ != Told::kNothing) {
      log_.Info("the gateway serves again");
    }
    told_ = Told::kNothing;
    return true;
  }
  if (full_rounds_ >= kRoundsOfFull && told_ != Told::kFull) {
    log_.Warning("the gateway is full", {{"detail", problem}});
    told_ = Told::kFull;
  }
  if (unhealthy_rounds_ >= kRoundsBeforeRestart) {
    if (told_ != Told::kUnhealthy) {
      log_.Warning("the gateway does not serve: is quarry-gateway running?", {{"detail", problem}});
      told_ = Told::kUnhealthy;
    }
    // A gateway that does not listen yet is starting, and a restart would begin that again. quarry-gateway
    // itself starts one that has ended.
    const bool hangs = probed.error().sys_errno() != ECONNREFUSED;
    if (hangs && Now() - restarted_ >= kRestartInterval) {
      restarted_ = Now();
      if (const Status written = RestartGateway(); !written.has_value()) {
        log_.Error("the gateway cannot be restarted", {{"error", written.error().message()}});
      }
    }
  }
  return false;
}

bool Buckets::Round(const Call& call) {
  bool all = LookAtGateway();
  const auto pools = engine_.lifecycle().NodeStatus(call);
  if (!pools.has_value()) {
    return false;
  }
  std::set<std::string> seen, unread;
  std::vector<engine::VolumeStatus> buckets;
  for (const engine::PoolStatus& pool : *pools) {
    if (!pool.figures.problem.empty()) {
      unread.insert(pool.figures.pool);
      all = false;
    }
    for (const engine::VolumeStatus& status : pool.volumes) {
      if (status.is_bucket) {
        seen.insert(status.id);
        buckets.push_back(status);
      }
    }
  }
  // A bucket that was not the oldest gives way before the oldest comes. Buckets that failed last time come
  // after the others.
  const std::map<std::string, std::string> oldest = Oldest(buckets);
  std::multimap<int, const engine::VolumeStatus*> turns;
  for (const engine::VolumeStatus& status : buckets) {
    const std::optional<Known> known = Find(status.id);
    const bool gives_way = oldest.at(BucketNameIn(status.name)) != status.id;
    turns.emplace(gives_way ? 0 : !known.has_value() || known->problem.empty() ? 1 : 2, &status);
  }
  for (const auto& [rank, status] : turns) {
    if (!call.Check("buckets").has_value()) {
      return false;
    }
    const std::string& older = oldest.at(BucketNameIn(status->name));
    if (older != status->id) {
      KeepBack(*status, older, call);
      all = false;
      continue;
    }
    all = LookPatiently(*status, call) && all;
  }
  bool inherits = false;
  {
    const MutexLock lock(mutex_);
    inherits = unread.empty() && looks_.empty() && !inherited_.empty();
    if (inherits) {
      inherited_.clear();
    }
  }
  if (const Status written = inherits ? WriteUsers() : Ok(); !written.has_value()) {
    log_.Error("accounts of an earlier process cannot be removed", {{"error", written.error().message()}});
  }
  DropGone(seen, unread, call);
  return all;
}

Figures Buckets::CurrentFigures() const {
  Figures out;
  const MutexLock lock(mutex_);
  out.gateway_healthy = gateway_healthy_;
  out.gateway_full = gateway_full_;
  for (const auto& [id, known] : known_) {
    out.buckets.push_back(DescribeLocked(known));
    out.buckets.back().content = known.linked ? known.content : std::nullopt;
    out.requests[id] = known.requests;
  }
  out.elsewhere = elsewhere_;
  out.refused_reports = refused_reports_;
  return out;
}

}  // namespace quarry::bucket
