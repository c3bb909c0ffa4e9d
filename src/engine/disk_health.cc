#include "engine/disk_health.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/health.h"

namespace quarry::engine {
namespace {

constexpr uint32_t kWholeLife = 100;  // percent used
constexpr std::chrono::minutes kLongestRound{1};

std::vector<std::string> Names(const lvm::VolumeGroup& group, const std::map<std::string, std::string>& disks,
                               const std::set<std::string>& among) {
  std::vector<std::string> out;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    if (disks.contains(pv.uuid) && among.contains(pv.uuid)) {
      out.push_back(pv.uuid);
    }
  }
  return out;
}

// `weak`: disks that may have been left out for it.
Error TellOf(Error error, const lvm::VolumeGroup& group, const WeakDisks& weak) {
  if (error.code() != Code::kNoSpace) {
    return error;
  }
  const std::set<std::string> withheld = Withheld(group, weak);
  std::string words;
  const auto add = [&](const std::map<std::string, std::string>& disks, std::string_view what) {
    if (const auto names = Names(group, disks, withheld); !names.empty()) {
      words += fmt::format("; left out, because {}: PV {}", what, fmt::join(names, ", "));
    }
  };
  add(weak.failing, "it is failing");
  add(weak.worn, "it is worn");
  return words.empty() ? std::move(error) : Error(error.code(), error.message() + words);
}

}  // namespace

std::string_view DiskStateName(DiskState state) {
  switch (state) {
    case DiskState::kGood:
      return "good";
    case DiskState::kWorn:
      return "worn";
    case DiskState::kFailing:
      return "failing";
  }
  return "";
}

DiskVerdict JudgeHealth(const udev::DiskHealth& health) {
  std::vector<std::string> reasons;
  if ((health.critical_warning & udev::kSpareLow) != 0 || health.available_spare < health.spare_threshold) {
    reasons.push_back(fmt::format("its spare blocks run out: {} % left, {} % is its own limit",
                                  health.available_spare, health.spare_threshold));
  }
  if ((health.critical_warning & udev::kReliabilityDegraded) != 0) {
    reasons.push_back(
        fmt::format("it is not reliable any more by its own word: {} media errors", health.media_errors));
  }
  if ((health.critical_warning & udev::kReadOnlyMedia) != 0) {
    reasons.emplace_back("it takes no more writes");
  }
  if (!reasons.empty()) {
    return {DiskState::kFailing, fmt::format("{}", fmt::join(reasons, "; "))};
  }
  if (health.percentage_used >= kWholeLife) {
    return {DiskState::kWorn,
            fmt::format("{} % of the life that its vendor expects is used up", health.percentage_used)};
  }
  return {};
}

std::set<std::string> Withheld(const lvm::VolumeGroup& group, const WeakDisks& weak) {
  std::set<std::string> failing;
  std::set<std::string> worn;
  bool others = false;
  for (const lvm::PhysicalVolume& pv : group.pvs) {
    if (weak.failing.contains(pv.uuid)) {
      failing.insert(pv.uuid);
    } else if (weak.worn.contains(pv.uuid)) {
      worn.insert(pv.uuid);
    } else {
      others = others || !pv.missing;
    }
  }
  if (others) {
    failing.merge(worn);
  }
  return failing;
}

lvm::FreeSpace Without(lvm::FreeSpace space, const std::set<std::string>& pvs) {
  std::erase_if(space.pvs, [&](const lvm::FreePv& pv) { return pvs.contains(pv.uuid); });
  return space;
}

Error TellOfWithheld(Error error, const Catalog& catalog) {
  return TellOf(std::move(error), *catalog.group, catalog.weak);
}

Result<lvm::LegReplacement> PlaceRebuiltLegs(const lvm::VolumeGroup& group, const WeakDisks& weak,
                                             const lvm::Geometry& geometry, const lvm::LogicalVolume& lv,
                                             const std::vector<bool>& which) {
  auto placed = PlaceOnSoundDisks(group, weak, [&](const lvm::FreeSpace& space) {
    return lvm::PlaceLegs(space, geometry, group, lv, which);
  });
  if (!placed.has_value()) {
    return TellOf(std::move(placed.error()), group, {weak.failing, {}, {}});
  }
  return placed;
}

std::optional<Ailment> DiskFailing(const Record& record, const WeakDisks& weak) {
  if (weak.failing.empty()) {
    return std::nullopt;
  }
  std::vector<size_t> legs;
  std::set<std::string> disks;
  const auto pvs_of_legs = lvm::LegPvs(*record.group, *record.lv);
  for (size_t i = 0; i < pvs_of_legs.size(); ++i) {
    std::vector<std::string> failing;
    std::ranges::copy_if(pvs_of_legs[i], std::back_inserter(failing),
                         [&](const std::string& pv) { return weak.failing.contains(pv); });
    if (!failing.empty()) {
      legs.push_back(i);
      disks.insert(failing.begin(), failing.end());
    }
  }
  if (legs.empty()) {
    return std::nullopt;
  }
  std::vector<std::string> reasons;
  for (const std::string& pv : disks) {
    reasons.push_back(fmt::format("PV {}: {}", pv, weak.failing.at(pv)));
  }
  const std::string remedy = HasRedundancy(*record.lv)
                                 ? "replace it before another one goes"
                                 : "nothing else has these data: move them away while they can be read";
  return Ailment{
      Problem::kDegraded, "DiskFailing",
      fmt::format("leg {} of {} lies on a disk that is failing ({}); all data can be read so far; {}",
                  fmt::join(legs, ", "), pvs_of_legs.size(), fmt::join(reasons, "; "), remedy)};
}

void DiskHealths::AskOne(std::shared_ptr<udev::DiskHealthApi> api, std::shared_ptr<Asked> asked,
                         std::string pv, std::string node) {
  std::thread([api = std::move(api), asked = std::move(asked), pv = std::move(pv), node = std::move(node)] {
    Answer answer = api->Read(node);
    const std::lock_guard lock(asked->mutex);
    asked->answers.insert_or_assign(pv, std::move(answer));
    asked->open.erase(pv);
    asked->answered.notify_all();
  }).detach();
}

std::vector<DiskHealths::Change> DiskHealths::Ask(const std::shared_ptr<udev::DiskHealthApi>& api,
                                                  const Round& round, const Call& call) {
  const std::lock_guard turn(asking_);
  std::map<std::string, Answer> answers;
  {
    std::unique_lock lock(asked_->mutex);
    std::set<std::string> now;
    for (const auto& [pv, node] : round.nodes) {
      if (!node.empty() && asked_->open.insert(pv).second) {
        now.insert(pv);
        AskOne(api, asked_, pv, node);
      }
    }
    const auto owes = [&](const std::string& pv) { return asked_->open.contains(pv); };
    asked_->answered.wait_until(lock, call.stop, call.Within(kLongestRound).deadline,
                                [&] { return std::ranges::none_of(now, owes); });
    answers = std::exchange(asked_->answers, {});
    for (const std::string& pv : asked_->open) {
      answers.insert_or_assign(pv, Error(Code::kTimeout, "it has not answered yet"));
    }
  }
  const std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  for (auto& [pv, answer] : answers) {
    if (!round.nodes.contains(pv)) {
      continue;
    }
    if (auto change = Take(pv, std::move(answer)); change.has_value()) {
      changes.push_back(std::move(*change));
    }
  }
  const auto gone = [&](const auto& entry) { return round.complete && !round.nodes.contains(entry.first); };
  std::erase_if(known_, gone);
  std::erase_if(silent_, gone);
  Summarize();
  return changes;
}

// With mutex_ held.
std::optional<DiskHealths::Change> DiskHealths::Take(const std::string& pv, Answer answer) {
  const auto known = known_.find(pv);
  const DiskVerdict before = known == known_.end() ? DiskVerdict{} : known->second.verdict;
  if (!answer.has_value()) {
    const std::string& words = answer.error().message();
    if (std::exchange(silent_[pv], words) == words) {
      return std::nullopt;
    }
    return Change{pv, before.state, before.state, before.words, std::move(answer.error())};
  }
  silent_.erase(pv);
  if (!answer->has_value()) {
    known_.erase(pv);
    return std::nullopt;
  }
  DiskVerdict now = JudgeHealth(**answer);
  known_.insert_or_assign(pv, Known{**answer, now});
  if (now.state == before.state) {
    return std::nullopt;
  }
  return Change{pv, before.state, now.state, std::move(now.words), std::nullopt};
}

// With mutex_ held.
void DiskHealths::Summarize() {
  WeakDisks weak{.failing = blamed_, .worn = {}, .dropping = {}};
  for (const auto& [pv, words] : blamed_) {
    weak.dropping.insert(pv);
  }
  for (const auto& [pv, known] : known_) {
    if (known.verdict.state == DiskState::kFailing) {
      weak.failing.emplace(pv, known.verdict.words);
    } else if (known.verdict.state == DiskState::kWorn && !blamed_.contains(pv)) {
      weak.worn.emplace(pv, known.verdict.words);
    }
  }
  if (weak != *weak_) {
    weak_ = std::make_shared<const WeakDisks>(std::move(weak));
  }
}

void DiskHealths::Blame(const std::string& pv, std::string words) {
  const std::lock_guard lock(mutex_);
  blamed_.insert_or_assign(pv, std::move(words));
  Summarize();
}

void DiskHealths::Forgive(const std::string& pv) {
  const std::lock_guard lock(mutex_);
  if (blamed_.erase(pv) > 0) {
    Summarize();
  }
}

std::optional<DiskHealths::Known> DiskHealths::Of(const std::string& pv) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(pv);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<const WeakDisks> DiskHealths::Weak() const {
  const std::lock_guard lock(mutex_);
  return weak_;
}

}  // namespace quarry::engine
