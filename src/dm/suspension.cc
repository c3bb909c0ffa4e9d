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

}  // namespace quarry::dm
