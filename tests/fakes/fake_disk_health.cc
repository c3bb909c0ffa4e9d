#include "tests/fakes/fake_disk_health.h"

namespace quarry::fakes {

void FakeDiskHealth::Say(const std::string& node, const udev::DiskHealth& health) {
  const std::lock_guard lock(mutex_);
  says_[node] = health;
}

void FakeDiskHealth::SayNothing(const std::string& node) {
  const std::lock_guard lock(mutex_);
  says_.erase(node);
}

void FakeDiskHealth::Hang(const std::string& node) {
  const std::lock_guard lock(mutex_);
  hanging_.insert(node);
}

void FakeDiskHealth::GoOn(const std::string& node) {
  const std::lock_guard lock(mutex_);
  hanging_.erase(node);
  changed_.notify_all();
}

int FakeDiskHealth::Asked(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  const auto found = asked_.find(node);
  return found == asked_.end() ? 0 : found->second;
}

Result<std::optional<udev::DiskHealth>> FakeDiskHealth::Read(const std::string& node) {
  QUARRY_TRY(faults.Check("Read"));
  QUARRY_TRY(faults.Check("Read " + node));
  std::unique_lock lock(mutex_);
  ++asked_[node];
  changed_.wait(lock, [&] { return !hanging_.contains(node); });
  const auto found = says_.find(node);
  return found == says_.end() ? std::optional<udev::DiskHealth>() : std::optional(found->second);
}

}  // namespace quarry::fakes
