// What is done again and again: bring up what can serve, take away what cannot, watch the gateway.
#include <algorithm>

#include <fmt/format.h>

#include "bucket/buckets.h"
#include "bucket/names.h"

namespace quarry::bucket {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr minutes kBringUpLimit{2};    // a file system check may take long
constexpr milliseconds kNoWait{50};    // for the lock of a bucket: whoever has it does the work
constexpr seconds kCountInterval{60};  // a walk over a million objects costs
constexpr milliseconds kCountLimit{2000};
constexpr uint64_t kMostCounted = 10'000'000;
constexpr minutes kSweepInterval{60};
constexpr milliseconds kSweepLimit{10'000};
constexpr int kRoundsBeforeRestart = 3;
constexpr seconds kRestartInterval{60};  // a gateway that cannot run is not helped by more restarts

SteadyTime Now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Status Buckets::LookAtContent(const Known& known, const Call& call) {
  const std::string& id = known.volume.id;
  const AbsolutePath path = folder_.MountPoint(LvNameIn(id));
  const auto opened = config_.is_mount_point(path) ? BucketFolder::Open(path, config_.gateway)
                                                   : Error(Code::kUnavailable, "");
  const auto usage = opened.has_value() ? opened->Usage() : opened.error();
  if (!usage.has_value()) {
    return usage.error();
  }
  Content content = *usage;
  content.objects = known.content.has_value() ? known.content->objects : 0;
  SteadyTime counted = known.counted;
  if (Now() - counted >= kCountInterval || !known.content.has_value()) {
    const auto count = opened->Count(kMostCounted, call.Within(kCountLimit));
    if (count.has_value() && (count->is_complete || !known.content.has_value())) {
      content.objects = count->objects;
      counted = Now();
    }
  }
  SteadyTime swept = known.swept;
  if (known.settings.upload_ttl.count() > 0 && Now() - swept >= kSweepInterval) {
    const auto removed = opened->Sweep(known.settings.upload_ttl, call.Within(kSweepLimit));
    swept = Now();
    if (removed.has_value() && *removed > 0) {
      log_.Info("unfinished uploads were removed",
                {{"bucket", known.settings.name}, {"uploads", static_cast<int64_t>(*removed)}});
    }
  }
  const MutexLock lock(mutex_);
  if (const auto found = known_.find(id); found != known_.end()) {
    found->second.content = content;
    found->second.counted = counted;
    found->second.swept = swept;
  }
  return Ok();
}

// True: the bucket serves, as far as its volume goes.
bool Buckets::LookAtVolume(const engine::VolumeStatus& status, const Call& call) {
  const std::string& id = status.id;
  const std::optional<Known> known = Find(id);
  const bool is_lost = status.condition == "failed";
  {
    const MutexLock lock(mutex_);
    if (const auto found = known_.find(id); found != known_.end()) {
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
  if (known.has_value() && known->linked && config_.is_mount_point(folder_.MountPoint(LvNameIn(id)))) {
    const Status looked = LookAtContent(*known, call);
    if (looked.has_value() || looked.error().code() != Code::kIo) {
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
  if (const Status up = BringUp(*volume, call.Within(kBringUpLimit)); !up.has_value()) {
    {
      const MutexLock lock(mutex_);
      Known& one = known_[id];
      if (one.volume.id.empty()) {
        one.volume = *volume;
        one.settings.name = BucketNameIn(status.name);
        one.type = status.type;
      }
    }
    TakeDown(id, is_lost ? status.detail : up.error().message());
    return false;
  }
  log_.Info("a bucket serves", {{"bucket", BucketNameIn(status.name)}, {"volume", id}});
  return true;
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
  const auto linked = unread.empty() ? folder_.Linked() : std::set<std::string>();
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

bool Buckets::LookAtGateway() {
  const Status probed = config_.probe();
  unhealthy_rounds_ = probed.has_value() ? 0 : unhealthy_rounds_ + 1;
  {
    const MutexLock lock(mutex_);
    gateway_healthy_ = probed.has_value();
    gateway_problem_ = probed.has_value() ? "" : "the gateway does not serve: " + probed.error().message();
  }
  if (probed.has_value()) {
    if (told_unhealthy_) {
      log_.Info("the gateway serves again");
    }
    told_unhealthy_ = false;
    return true;
  }
  if (unhealthy_rounds_ >= kRoundsBeforeRestart) {
    if (!told_unhealthy_) {
      log_.Warning("the gateway does not serve: is quarry-gateway running?",
                   {{"detail", probed.error().message()}});
      told_unhealthy_ = true;
    }
    if (Now() - restarted_ >= kRestartInterval) {
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
  std::vector<const engine::VolumeStatus*> first, later;  // those that failed last time come after the others
  for (const engine::PoolStatus& pool : *pools) {
    if (!pool.figures.problem.empty()) {
      unread.insert(pool.figures.pool);
      all = false;
    }
    for (const engine::VolumeStatus& status : pool.volumes) {
      if (status.is_bucket) {
        seen.insert(status.id);
        const std::optional<Known> known = Find(status.id);
        (known.has_value() && !known->problem.empty() ? later : first).push_back(&status);
      }
    }
  }
  for (const auto* const list : {&first, &later}) {
    for (const engine::VolumeStatus* const status : *list) {
      if (!call.Check("buckets").has_value()) {
        return false;
      }
      all = LookAtVolume(*status, call) && all;
    }
  }
  bool inherits = false;
  {
    const MutexLock lock(mutex_);
    inherits = unread.empty() && !inherited_.empty();
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
  for (const auto& [id, known] : known_) {
    out.buckets.push_back(DescribeLocked(known));
    out.buckets.back().content = known.linked ? known.content : std::nullopt;
  }
  return out;
}

}  // namespace quarry::bucket
