#include "engine/disks/health_memory.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace quarry::engine {

std::vector<HealthMemory::Change> HealthMemory::Ask(const std::shared_ptr<udev::DiskHealthApi>& api,
                                                    const Round& round, const Call& call) {
  constexpr std::chrono::minutes kLongestRound{1};
  const MutexLock turn(asking_);
  std::map<std::string, Answer> answers;
  {
    MutexLock lock(asked_->mutex);
    std::set<std::string> now;
    for (const auto& [pv, node] : round.nodes) {
      if (!node.empty() && asked_->open.insert(pv).second) {
        now.insert(pv);
        std::thread([api, asked = asked_, pv, node] {
          Answer answer = api->Read(node);
          const MutexLock answering(asked->mutex);
          asked->answers.insert_or_assign(pv, std::move(answer));
          asked->open.erase(pv);
          asked->answered.notify_all();
        }).detach();
      }
    }
    const auto owes = [&](const std::string& pv)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(asked_->mutex) { return asked_->open.contains(pv); };
    asked_->answered.wait_until(
        lock, call.stop, call.Within(kLongestRound).deadline,
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(asked_->mutex) { return std::ranges::none_of(now, owes); });
    answers = std::exchange(asked_->answers, {});
    for (const std::string& pv : asked_->open) {
      answers.insert_or_assign(pv, Error(Code::kTimeout, "the disk has not answered yet"));
    }
  }
  const MutexLock lock(mutex_);
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

std::optional<HealthMemory::Change> HealthMemory::Take(const std::string& pv, Answer answer) {
  const auto known = known_.find(pv);
  const DiskVerdict before = known == known_.end() ? DiskVerdict{} : known->second.verdict;
  if (answer.has_value() && !answer->has_value() && known != known_.end()) {
    // A dying disk may end this way, so it proves nothing good.
    answer = Error(Code::kUnavailable, "the disk no longer reports its health");
  }
  if (!answer.has_value()) {
    const std::string& words = answer.error().message();
    if (std::exchange(silent_[pv], words) == words) {
      return std::nullopt;
    }
    return Change{pv, before.state, before.state, before.words, std::move(answer.error())};
  }
  silent_.erase(pv);
  if (!answer->has_value()) {
    return std::nullopt;
  }
  DiskVerdict now = JudgeHealth(**answer);
  known_.insert_or_assign(pv, Known{**answer, now});
  if (now.state == before.state) {
    return std::nullopt;
  }
  return Change{pv, before.state, now.state, std::move(now.words), std::nullopt};
}

void HealthMemory::Summarize() {
  UnhealthyDisks weak{.failing = blamed_};
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
    weak_ = std::make_shared<const UnhealthyDisks>(std::move(weak));
    if (tell_) {
      tell_(weak_);
    }
  }
}

void HealthMemory::ForgetReports() {
  {
    const MutexLock lock(asked_->mutex);
    asked_->answers.clear();
  }
  const MutexLock lock(mutex_);
  known_.clear();
  silent_.clear();
  Summarize();
}

void HealthMemory::MarkFailing(const std::string& pv, std::string words) {
  const MutexLock lock(mutex_);
  blamed_.insert_or_assign(pv, std::move(words));
  Summarize();
}

void HealthMemory::ClearFailing(const std::string& pv) {
  const MutexLock lock(mutex_);
  if (blamed_.erase(pv) > 0) {
    Summarize();
  }
}

std::optional<HealthMemory::Known> HealthMemory::Of(const std::string& pv) const {
  const MutexLock lock(mutex_);
  const auto found = known_.find(pv);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<const UnhealthyDisks> HealthMemory::Weak() const {
  const MutexLock lock(mutex_);
  return weak_;
}

}  // namespace quarry::engine
