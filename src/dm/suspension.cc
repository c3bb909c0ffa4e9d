#include "dm/suspension.h"

#include <sys/mman.h>

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace quarry::dm {

Result<Suspension> Suspension::Begin(DmApi& dm, std::string uuid, FileSystemLock lock, const Call& call) {
  const std::string what = fmt::format("suspending device {}", uuid);
  QUARRY_TRY(call.Check(what));
  QUARRY_ASSIGN(const std::optional<Device> device, dm.Find(uuid));
  if (device.has_value() && device->suspended) {
    return Error(Code::kPrecondition,
                 fmt::format("{}: another program holds {} suspended: wait for it; if it was killed, run "
                             "'dmsetup resume {}'",
                             what, device->name, device->name));
  }
  QUARRY_TRY(dm.Suspend(uuid, lock));
  Suspension suspension(dm, std::move(uuid));
  if (Status in_time = call.Check(what); !in_time.has_value()) {
    QUARRY_TRY(suspension.End());
    return std::move(in_time.error());
  }
  return suspension;
}

LockedMemory::LockedMemory() {
  (void)mlockall(MCL_CURRENT | MCL_ONFAULT);  // only pages that are there: nothing is read for it
}

LockedMemory::~LockedMemory() {
  (void)munlockall();
}

Suspension::Suspension(Suspension&& other) noexcept
    : dm_(std::exchange(other.dm_, nullptr)), uuid_(std::move(other.uuid_)) {}

Suspension& Suspension::operator=(Suspension&& other) noexcept {
  if (this != &other) {
    EndInAnyCase();
    dm_ = std::exchange(other.dm_, nullptr);
    uuid_ = std::move(other.uuid_);
  }
  return *this;
}

Suspension::~Suspension() {
  EndInAnyCase();
}

Status Suspension::End() {
  if (dm_ == nullptr) {
    return Ok();
  }
  Status resumed = dm_->Resume(uuid_);
  // A device that is gone holds up no writer.
  if (resumed.has_value() || resumed.error().code() == Code::kNotFound) {
    dm_ = nullptr;
    return Ok();
  }
  return resumed;
}

void Suspension::EndInAnyCase() {
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && !End().has_value(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

Suspensions::Suspensions(DmApi& dm, std::chrono::milliseconds limit, size_t most) : dm_(dm), limit_(limit) {
  suspended_.reserve(most);
  watcher_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
}

void Suspensions::Watch(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const auto begun = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return until_.has_value(); };
  if (!changed_.wait(lock, stop, begun)) {
    return;
  }
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !until_.has_value(); };
  if (!changed_.wait_until(lock, stop, SteadyTime(*until_), ended) && !stop.stop_requested()) {
    late_ = true;
    suspended_.clear();
  }
}

Status Suspensions::CheckLimit() const {
  return late_ ? Status(Error(
                     Code::kTimeout,
                     fmt::format("devices were suspended for {} ms, which is the limit", limit_.count())))
               : Ok();
}

Status Suspensions::Check() {
  const MutexLock lock(mutex_);
  return CheckLimit();
}

Status Suspensions::Add(std::string uuid, FileSystemLock lock, const Call& call) {
  {
    const MutexLock hold(mutex_);
    QUARRY_TRY(CheckLimit());
    if (!until_.has_value()) {
      until_ = std::chrono::steady_clock::now() + limit_;
      changed_.notify_all();
    }
  }
  QUARRY_ASSIGN(Suspension one, Suspension::Begin(dm_, std::move(uuid), lock, call));
  const MutexLock hold(mutex_);
  QUARRY_TRY(CheckLimit());  // `one` is resumed then
  suspended_.push_back(std::move(one));
  return Ok();
}

Status Suspensions::End() {
  const MutexLock lock(mutex_);
  QUARRY_TRY(CheckLimit());
  Status resumed = Ok();
  for (Suspension& one : suspended_) {
    Status ended = one.End();
    resumed = resumed.has_value() ? std::move(ended) : resumed;
  }
  return resumed;
}

void Suspensions::Abandon() {
  const MutexLock lock(mutex_);
  suspended_.clear();
  until_.reset();
  changed_.notify_all();
}

}  // namespace quarry::dm
