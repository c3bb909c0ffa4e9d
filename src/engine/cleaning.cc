#include "engine/cleaning.h"

#include <fmt/format.h>

namespace quarry::engine {

Cleaning::Cleaning(std::string lv_name, std::vector<lvm::PhysicalRange> held,
                   std::vector<lvm::PhysicalRange> cleared, Plan erase, World world)
    : lv_name_(std::move(lv_name)),
      held_(std::move(held)),
      cleared_(std::move(cleared)),
      erase_(std::move(erase)),
      world_(world),
      asked_(std::chrono::steady_clock::now()) {
  for (const Action& action : erase_) {
    total_ = total_ + std::get<EraseAction>(action).range.length;
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void Cleaning::Run(const std::stop_token& stop) {
  Status outcome = Ok();
  for (const Action& action : erase_) {
    outcome = Execute({action}, world_, Call{.stop = stop});
    if (!outcome.has_value()) {
      break;
    }
    done_bytes_ += std::get<EraseAction>(action).range.length.value;
  }
  const std::lock_guard lock(mutex_);
  outcome_ = std::move(outcome);
  finished_.notify_all();
}

Status Cleaning::Wait(const Call& call) {
  std::unique_lock lock(mutex_);
  asked_ = std::chrono::steady_clock::now();
  const auto done = [&] { return outcome_.has_value(); };
  if (!finished_.wait_until(lock, call.stop, call.deadline, done)) {
    return Error(Code::kUnavailable, Progress());
  }
  return Ok();
}

bool Cleaning::Finished() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

Status Cleaning::Outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value() ? *outcome_ : Status(Error(Code::kUnavailable, Progress()));
}

std::chrono::steady_clock::duration Cleaning::Unasked() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::steady_clock::now() - asked_;
}

std::string Cleaning::Progress() const {
  return fmt::format(
      "disk space of unknown past is being cleared before a volume is made of it: {} of {} are done; ask "
      "again",
      HumanBytes({done_bytes_.load()}), HumanBytes(total_));
}

}  // namespace quarry::engine
