#include "engine/erase/zeroing.h"

#include <fmt/format.h>

#include "base/call_record.h"

namespace quarry::engine {

Zeroing::Zeroing(std::vector<lvm::PhysicalRange> held, std::shared_ptr<EraseJob> work)
    : held_(std::move(held)), work_(std::move(work)), asked_(std::chrono::steady_clock::now()) {
  for (const DiskPart& part : work_->parts()) {
    total_ = total_ + part.total();
  }
}

Status Zeroing::Wait(const Call& call) {
  const TimedStep step(call, [] { return "wait for zeroing"; }, kLeastWait);
  {
    const MutexLock lock(mutex_);
    asked_ = std::chrono::steady_clock::now();
  }
  return work_->WaitFinished(call) ? Ok() : Status(NotYet());
}

Status Zeroing::Outcome() const {
  if (!work_->Finished()) {
    return NotYet();
  }
  auto failure = work_->Failure();
  return failure.has_value() ? Status(std::move(*failure)) : Ok();
}

std::chrono::steady_clock::duration Zeroing::Unasked() const {
  const MutexLock lock(mutex_);
  return std::chrono::steady_clock::now() - asked_;
}

Error Zeroing::NotYet() const {
  Bytes done;
  for (const Bytes bytes : work_->Done()) {
    done = done + bytes;
  }
  return {Code::kUnavailable,
          fmt::format("disk space is being zeroed before the volume gets it: {} of {} are done; ask again",
                      HumanBytes(done), HumanBytes(total_))};
}

std::shared_ptr<Zeroing> Zeroings::Find(const LockKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = all_.find(key);
  return found == all_.end() ? nullptr : found->second;
}

void Zeroings::Add(const LockKey& key, std::shared_ptr<Zeroing> zeroing) {
  const MutexLock lock(mutex_);
  all_.insert_or_assign(key, std::move(zeroing));
}

void Zeroings::Drop(const LockKey& key) {
  const MutexLock lock(mutex_);
  all_.erase(key);
}

bool Zeroings::empty() const {
  const MutexLock lock(mutex_);
  return all_.empty();
}

std::vector<std::pair<LockKey, std::shared_ptr<Zeroing>>> Zeroings::Finished() const {
  const MutexLock lock(mutex_);
  std::vector<std::pair<LockKey, std::shared_ptr<Zeroing>>> out;
  for (const auto& [key, zeroing] : all_) {
    if (zeroing->Finished()) {
      out.emplace_back(key, zeroing);
    }
  }
  return out;
}

}  // namespace quarry::engine
