#include "engine/lifecycle.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/guarded_subprocess.h"
#include "engine/calls/steps.h"
#include "engine/pool/zeroed_file.h"

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGlance{1000};
constexpr milliseconds kKeepLimit{2000};

// The troubles of the pools that do not serve.
std::vector<Trouble> TroublesOf(Node& node, milliseconds patience, const Call& call) {
  const auto catalogs = node.LookAtAll(patience, call);
  std::vector<Trouble> out;
  for (size_t i = 0; i < catalogs.size(); ++i) {
    const Status read = catalogs[i].has_value() ? Ok() : Status(catalogs[i].error());
    if (auto trouble = node.TroubleOf(*node.pools[i], read); trouble.has_value()) {
      out.push_back(std::move(*trouble));
    }
  }
  return out;
}

// For the next start. Without it that start zeroes extents again, so failures do not matter.
void KeepZeroed(Parts& parts) {
  const Call call = CallWithin(kKeepLimit);
  for (const auto& pool : parts.node.pools) {
    const auto turn = pool->writers.Wait("stopping", call);
    // A command that is stuck may still commit, and a report would wait for it.
    const bool quiet = parts.node.world.children.Stuck().empty();
    if (!pool->gate.is_open() || !turn.has_value() || !quiet) {
      continue;
    }
    if (const Status kept = SaveZeroed(parts.node, *pool, call); !kept.has_value()) {
      parts.node.log.Info("which free extents are zero is not kept for the next start",
                          {{"pool", pool->config.name}, {"why", kept.error().message()}});
    }
  }
}

// Failing disks get nothing new, from the first call on.
Status RecallFailing(Parts& parts, Pool& pool, const Call& call) {
  QUARRY_ASSIGN(const auto catalog, parts.node.ReadGroup(pool, call));
  for (const auto& repair : parts.repairs) {
    if (&repair->pool() == &pool) {
      repair->Recall(*catalog->group);
    }
  }
  return Ok();
}

}  // namespace

Status Lifecycle::Start(const Call& call) {
  Status first = Ok();
  for (const auto& pool : parts_.node.pools) {
    Status started = StartPool(pool->config.name, call);
    if (first.has_value()) {
      first = std::move(started);
    }
  }
  return first;
}

Status Lifecycle::StartPool(const std::string& name, const Call& call) {
  QUARRY_ASSIGN(Pool* const pool, parts_.node.FindPool(name));
  if (pool->gate.is_open()) {
    return Ok();
  }
  auto done = Reconcile(parts_, *pool, call);
  if (done.has_value()) {
    done = RecallFailing(parts_, *pool, call);
  }
  {
    const MutexLock lock(pool->catalog_mutex);
    pool->start_error = done.has_value() ? std::nullopt : std::optional(done.error());
  }
  if (!done.has_value()) {
    pool->gate.Close("not ready: " + done.error().message());
    return done;
  }
  parts_.erasers.Of(*pool).Start();
  pool->gate.Open();
  // The pool serves its present disks even if this fails.
  if (const auto claimed = JoinDisks(parts_.disks, JoinScope::kAll, call); !claimed.has_value()) {
    parts_.node.log.Warning("could not look for disks that join the pools",
                            {{"error", claimed.error().message()}});
  }
  parts_.node.Wake();
  return Ok();
}

void Lifecycle::Refuse() {
  parts_.node.gate.Close("stopping");
  for (const auto& pool : parts_.node.pools) {
    if (!pool->gate.is_open()) {
      pool->gate.Close("stopping");  // for calls that wait for its start
    }
  }
}

Status Lifecycle::Stop(const Call& call) {
  Refuse();
  QUARRY_TRY(parts_.node.gate.Drain(call));  // calls still in flight may wake the erasers
  parts_.background.Stop();
  for (const auto& repair : parts_.repairs) {
    repair->Stop();
  }
  parts_.erasers.Stop();
  KeepZeroed(parts_);  // last: no commit follows
  return Ok();
}

void Lifecycle::TouchLocks() {
  (void)parts_.node.gate.phase();
  (void)parts_.node.world.children.Stuck();
  for (const auto& pool : parts_.node.pools) {
    (void)pool->gate.phase();
    const MutexLock lock(pool->catalog_mutex);
  }
}

Result<Readiness> Lifecycle::Probe(const Call& call) {
  if (!parts_.node.gate.is_open()) {
    return Readiness{false, parts_.node.gate.reason()};
  }
  const auto pass = parts_.node.gate.Enter(call);  // Stop() ends the erasers only after this pass is gone
  if (!pass.has_value()) {
    return Readiness{false, parts_.node.gate.reason()};
  }
  if (call.patient) {
    for (const auto& pool : parts_.node.pools) {
      (void)pool->gate.Wait(call);  // for a start in progress; its result is read below
    }
  }
  // The first look is short: one serving pool that answers at once is enough. A long look follows if no pool
  // serves, and at least one of them only could not be read in time.
  std::vector<Trouble> troubles = TroublesOf(parts_.node, kGlance, call);
  if (troubles.size() == parts_.node.pools.size() && std::ranges::any_of(troubles, &Trouble::silent)) {
    troubles = TroublesOf(parts_.node, kLongLook, call);
  }
  std::string words;
  for (const Trouble& trouble : troubles) {
    words += fmt::format("{}{}", words.empty() ? "" : "; ", trouble.error.message());
  }
  std::string stuck = TellOfStuck(parts_.node.world.children.Stuck());
  for (const auto& pool : parts_.node.pools) {
    const std::string held = parts_.erasers.Of(*pool).Stuck();
    stuck += (stuck.empty() || held.empty() ? "" : "; ") + held;
  }
  if (troubles.size() < parts_.node.pools.size()) {
    const bool told = words.find(stuck) != std::string::npos;
    return Readiness{true, told ? words : words.empty() ? stuck : fmt::format("{}; {}", words, stuck)};
  }
  if (std::ranges::any_of(troubles, &Trouble::starting)) {
    return Readiness{false, words};
  }
  return Error(troubles.front().error.code(), words);
}

}  // namespace quarry::engine
