#include "engine/disks/inventory.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/disks/join.h"

namespace quarry::engine {
namespace {

std::string KeyOf(const udev::Disk& disk) {
  return disk.node + " " + disk.identity;
}

// A path in a rule may be any link to the disk, not only a link that udevd made.
Status ResolvePaths(NodeDisks& node_disks, std::vector<udev::Disk>& disks) {
  for (const auto& pool : node_disks.node.pools) {
    for (const auto* rules : {&pool->config.devices, &pool->config.exclude}) {
      for (const DeviceRule& rule : *rules) {
        if (rule.path.empty() || IsPattern(rule.path)) {
          continue;
        }
        QUARRY_ASSIGN(const auto number, node_disks.node.world.udev.NumberOf(rule.path));
        for (udev::Disk& disk : disks) {
          if (number == disk.number && std::ranges::find(disk.links, rule.path) == disk.links.end()) {
            disk.links.push_back(rule.path);
          }
        }
      }
    }
  }
  return Ok();
}

Result<SeenPool> LookAtPool(NodeDisks& node_disks, Pool& pool, const Call& call) {
  constexpr std::chrono::seconds kPatience{5};
  SeenPool seen{.config = &pool.config};
  auto group = pool.lookout.Look(kPatience, call);
  if (!group.has_value()) {
    QUARRY_TRY(call.Check("reading the pools' disks"));
    seen.problem = group.error().code() == Code::kNotFound ? "" : group.error().message();
    return seen;
  }
  seen.group = std::move(*group);
  for (const lvm::PhysicalVolume& pv : seen.group->pvs) {
    if (pv.device.empty()) {
      continue;
    }
    QUARRY_ASSIGN(const auto number, node_disks.node.world.udev.NumberOf(pv.device));
    if (number.has_value()) {
      seen.members[pv.uuid] = *number;
    }
  }
  return seen;
}

// The survey without libblkid's answers. Waits for each disk at most a second.
Result<Survey> Look(NodeDisks& node_disks, const Call& call) {
  QUARRY_ASSIGN(std::vector<udev::Disk> disks, node_disks.node.world.udev.Inventory());
  QUARRY_TRY(ResolvePaths(node_disks, disks));
  std::vector<std::string> nodes;
  for (const udev::Disk& disk : disks) {
    nodes.push_back(disk.node);
  }
  Survey survey;
  for (const auto& pool : node_disks.node.pools) {
    QUARRY_ASSIGN(SeenPool seen, LookAtPool(node_disks, *pool, call));
    survey.pools.push_back(std::move(seen));
  }
  // Read after the groups: a disk that joins a group in between is taken for a PV of another group, never for
  // a free disk.
  QUARRY_ASSIGN(std::vector<lvm::PvFacts> pvs, node_disks.node.world.pvs.ReadPvs(nodes, call));
  for (size_t i = 0; i < disks.size(); ++i) {
    survey.disks.push_back({.disk = std::move(disks[i]), .pv = std::move(pvs[i])});
  }
  return survey;
}

// libblkid probes the disks for which `asked` holds. Each disk is opened exclusively (O_EXCL) for that.
Status LookInto(NodeDisks& node_disks, Survey& survey, const std::function<bool(size_t disk)>& asked,
                const Call& call) {
  QUARRY_ASSIGN(const auto exclusive, node_disks.notes.OpenExclusively());
  for (size_t i = 0; i < survey.disks.size(); ++i) {
    if (!asked(i)) {
      continue;
    }
    QUARRY_TRY(call.Check("probing disks"));
    SeenDisk& seen = survey.disks[i];
    const auto path = AbsolutePath::Parse(seen.disk.node);
    seen.content = path.has_value() ? node_disks.node.world.mount.ProbeDevice(*path)
                                    : Result<mount::Content>(path.error());
  }
  return Ok();
}

using Chosen = std::function<bool(const udev::Disk&, const Verdict&)>;

// Fills `survey`, with libblkid's answers for the wanted disks that are `chosen`. Returns the verdicts.
Result<std::vector<Verdict>> LookForWanted(NodeDisks& node_disks, Survey& survey, const Chosen& chosen,
                                           const Call& call) {
  QUARRY_ASSIGN(survey, Look(node_disks, call));
  const std::vector<Verdict> first = Judge(survey);
  const auto asked = [&](size_t i) {
    return first[i].standing == Standing::kWanted && chosen(survey.disks[i].disk, first[i]);
  };
  QUARRY_TRY(LookInto(node_disks, survey, asked, call));
  return Judge(survey);
}

bool ToBeAdded(const Survey& survey, const Verdict& verdict, size_t pool) {
  return verdict.standing == Standing::kFree && verdict.pool == pool && survey.pools[pool].group != nullptr;
}

void TellOfLeft(NodeDisks& node_disks, const Survey& survey, const std::vector<Verdict>& verdicts) {
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    const udev::Disk& disk = survey.disks[i].disk;
    if (verdict.standing == Standing::kLeft && !verdict.rule.empty() &&
        node_disks.notes.Say(KeyOf(disk), verdict.words)) {
      node_disks.node.log.Info("a disk matches a pool's rule but does not join", {{"pool", verdict.named},
                                                                                  {"disk", disk.node},
                                                                                  {"identity", disk.identity},
                                                                                  {"rule", verdict.rule},
                                                                                  {"reason", verdict.words}});
    }
  }
}

Status AddToGroup(NodeDisks& node_disks, Pool& pool, const udev::Disk& disk, const Call& call) {
  QUARRY_ASSIGN(const auto exclusive, node_disks.notes.OpenExclusively());
  return RunCounted(pool, {lvm::AddPv{.group = pool.config.group, .device = disk.node}},
                    node_disks.node.world, call);
}

// Forgets that LVM refused disks which are gone, or not free any more.
void ForgetOthers(NodeDisks& node_disks, const Survey& survey, const std::vector<Verdict>& verdicts) {
  std::set<std::string> kept;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const bool unread = !verdicts[i].rule.empty() && !survey.pools[verdicts[i].pool].problem.empty();
    if (verdicts[i].standing == Standing::kFree || unread) {
      kept.insert(KeyOf(survey.disks[i].disk));
    }
  }
  node_disks.notes.KeepFailures(kept);
}

// Adds the disk. Needs the pool's turn.
void Take(NodeDisks& node_disks, Pool& pool, const udev::Disk& disk, const std::string& rule, size_t& taken,
          const Call& call) {
  const Status added = AddToGroup(node_disks, pool, disk, call);
  if (added.has_value()) {
    ++taken;
    node_disks.notes.Took(KeyOf(disk));
    node_disks.node.log.Info("a disk joined a pool", {{"pool", pool.config.name},
                                                      {"group", pool.config.group},
                                                      {"disk", disk.node},
                                                      {"identity", disk.identity},
                                                      {"bytes", static_cast<int64_t>(disk.size.value)},
                                                      {"rule", rule}});
    return;
  }
  if (node_disks.notes.Failed(KeyOf(disk), added.error().message())) {
    node_disks.node.log.Warning(
        "a disk could not be added to a pool",
        {{"pool", pool.config.name}, {"disk", disk.node}, {"error", added.error().message()}});
  }
}

}  // namespace

bool DiskNotes::Say(const std::string& disk, const std::string& words) {
  const MutexLock lock(mutex_);
  return std::exchange(said_[disk], words) != words;
}

bool DiskNotes::Failed(const std::string& disk, const std::string& why) {
  const MutexLock lock(mutex_);
  return std::exchange(failed_[disk], why) != why;
}

void DiskNotes::Took(const std::string& disk) {
  const MutexLock lock(mutex_);
  failed_.erase(disk);
  said_.erase(disk);
}

void DiskNotes::KeepFailures(const std::set<std::string>& disks) {
  const MutexLock lock(mutex_);
  std::erase_if(failed_, [&](const auto& entry) { return !disks.contains(entry.first); });
}

bool DiskNotes::AnyFailed() const {
  const MutexLock lock(mutex_);
  return !failed_.empty();
}

std::string DiskNotes::Failure(const std::string& disk) const {
  const MutexLock lock(mutex_);
  const auto found = failed_.find(disk);
  return found == failed_.end() ? "" : found->second;
}

Result<DiskNotes::Exclusive> DiskNotes::OpenExclusively() {
  constexpr std::chrono::seconds kPatience{5};
  Exclusive exclusive(exclusive_, kPatience);
  if (!exclusive.owns_lock()) {
    return Error(Code::kUnavailable, "another probe or LVM command waits for a disk that does not answer");
  }
  return exclusive;
}

Result<size_t> JoinDisks(NodeDisks& node_disks, JoinScope scope, const Call& call) {
  size_t taken = 0;
  if (std::ranges::none_of(node_disks.node.pools, [](const auto& pool) { return Claims(pool->config); }) ||
      (scope == JoinScope::kRefused && !node_disks.notes.AnyFailed())) {
    return taken;
  }
  Survey survey;
  const auto in_scope = [&](const udev::Disk& disk, const Verdict&) {
    return scope == JoinScope::kAll || !node_disks.notes.Failure(KeyOf(disk)).empty();
  };
  QUARRY_ASSIGN(const std::vector<Verdict> verdicts, LookForWanted(node_disks, survey, in_scope, call));
  TellOfLeft(node_disks, survey, verdicts);
  ForgetOthers(node_disks, survey, verdicts);
  for (size_t i = 0; i < node_disks.node.pools.size(); ++i) {
    std::set<std::string> free;
    for (size_t k = 0; k < verdicts.size(); ++k) {
      if (ToBeAdded(survey, verdicts[k], i)) {
        free.insert(KeyOf(survey.disks[k].disk));
      }
    }
    Pool& pool = *node_disks.node.pools[i];
    if (free.empty() || !pool.gate.is_open()) {
      continue;  // a pool's start adds disks itself
    }
    QUARRY_ASSIGN(const auto turn, pool.writers.Wait("adding disks", call));
    // Probes only disks that were free a moment ago, because other calls wait for the turn. The next round
    // takes the others.
    const auto still = [&](const udev::Disk& disk, const Verdict&) { return free.contains(KeyOf(disk)); };
    Survey now;
    QUARRY_ASSIGN(const std::vector<Verdict> proven, LookForWanted(node_disks, now, still, call));
    for (size_t k = 0; k < proven.size(); ++k) {
      if (ToBeAdded(now, proven[k], i)) {
        Take(node_disks, pool, now.disks[k].disk, proven[k].rule, taken, call);
      }
    }
  }
  return taken;
}

Result<std::vector<std::string>> DisksForNewGroup(NodeDisks& node_disks, const PoolConfig& pool,
                                                  const Call& call) {
  size_t index = 0;
  while (index < node_disks.node.pools.size() && node_disks.node.pools[index]->config.name != pool.name) {
    ++index;
  }
  Survey survey;
  const auto its = [&](const udev::Disk&, const Verdict& verdict) { return verdict.pool == index; };
  QUARRY_ASSIGN(const std::vector<Verdict> verdicts, LookForWanted(node_disks, survey, its, call));
  std::vector<std::string> nodes;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const SeenDisk& seen = survey.disks[i];
    if (seen.pv.group == pool.group) {
      return Error(Code::kUnavailable,
                   fmt::format("{} carries the label of a volume group {}, which LVM does not find",
                               seen.disk.node, pool.group));
    }
    const bool named = std::ranges::any_of(pool.devices, [&](const DeviceRule& rule) {
      return rule.IsExplicit() && Match(rule, seen.disk).meets;
    });
    if (verdicts[i].standing == Standing::kFree && verdicts[i].pool == index && !named) {
      nodes.push_back(seen.disk.node);
    }
  }
  TellOfLeft(node_disks, survey, verdicts);
  return nodes;
}

Result<std::vector<DeviceReport>> DevicesOf(NodeDisks& node_disks, const Call& call) {
  QUARRY_ASSIGN(Survey survey, Look(node_disks, call));
  // A disk in use is not opened exclusively: the open would fail, and might disturb other processes.
  const auto quiet = [&](size_t i) {
    const SeenDisk& seen = survey.disks[i];
    return seen.pv.kind == lvm::PvFacts::Kind::kNoPv && seen.disk.partitions.empty() &&
           seen.disk.holders.empty();
  };
  if (Status looked = LookInto(node_disks, survey, quiet, call);
      !looked.has_value() && looked.error().code() != Code::kUnavailable) {
    return std::move(looked.error());
  }
  std::vector<Verdict> verdicts = Judge(survey);
  std::vector<DeviceReport> out;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    Verdict& verdict = verdicts[i];
    const bool wanted = verdict.standing == Standing::kFree;
    const auto known =
        verdict.standing == Standing::kMember ? node_disks.healths.Of(survey.disks[i].pv.uuid) : std::nullopt;
    if (known.has_value() && known->verdict.state != DiskState::kGood) {
      verdict.words +=
          fmt::format("; it is {}: {}", DiskStateName(known->verdict.state), known->verdict.words);
    }
    const std::string failure = wanted ? node_disks.notes.Failure(KeyOf(survey.disks[i].disk)) : "";
    out.push_back({.disk = std::move(survey.disks[i].disk),
                   .pv_uuid = survey.disks[i].pv.uuid,
                   .holds = std::move(verdict.holds),
                   .pool = std::move(verdict.named),
                   .rule = std::move(verdict.rule),
                   .member = verdict.standing == Standing::kMember,
                   .wanted = wanted,
                   .words = failure.empty()
                                ? std::move(verdict.words)
                                : fmt::format("{}; it could not be added: {}", verdict.words, failure),
                   .health = known.has_value() ? std::optional(known->health) : std::nullopt});
  }
  return out;
}

}  // namespace quarry::engine
