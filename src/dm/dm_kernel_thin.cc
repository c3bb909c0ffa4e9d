// Thin pools, their devices, and suspends: the part of DmKernel that may wait for a disk (dm_control.h).
#include <cerrno>

#include <fmt/format.h>

#include "dm/dm_control.h"
#include "dm/dm_kernel.h"
#include "dm/thin_lines.h"
#include "dm/thin_message.h"

namespace quarry::dm {
namespace {

// LVM's layers (lib/activate/dev_manager.c): a pool, with or without thin volumes, and a volume below its
// snapshots of type COW.
constexpr const char* kPoolLayer = "-tpool";
constexpr const char* kBelowSnapshots = "-real";

Status Check(const std::string& uuid) {
  return uuid.empty() ? Status(Error(Code::kInternal, "asking about a device without UUID")) : Ok();
}

Result<std::optional<ThinPoolStatus>> PoolAt(const DmControl& control, const std::string& uuid) {
  QUARRY_ASSIGN(const auto line, control.Status(uuid));
  if (!line.has_value() || line->type != "thin-pool") {
    return std::optional<ThinPoolStatus>();
  }
  QUARRY_ASSIGN(ThinPoolStatus pool, ParseThinPoolStatus(line->parameters).Context("device " + line->name));
  pool.uuid = uuid;
  pool.name = line->name;
  return std::optional(std::move(pool));
}

Result<std::optional<ThinPoolStatus>> FindPool(const DmControl& control, const std::string& uuid) {
  for (const std::string& candidate : {uuid + kPoolLayer, uuid}) {
    QUARRY_ASSIGN(auto pool, PoolAt(control, candidate));
    if (pool.has_value()) {
      return pool;
    }
  }
  return std::optional<ThinPoolStatus>();
}

Error NotActive(const std::string& uuid) {
  return {Code::kNotFound, fmt::format("device {} is not active", uuid)};
}

// The outcome of a request that the kernel refuses only if there is no such device, or for its own reasons.
Status Answer(int failure, const std::string& uuid, const char* what) {
  if (failure == 0) {
    return Ok();
  }
  return failure == ENXIO ? Status(NotActive(uuid))
                          : ErrnoError(fmt::format("{} {}", what, uuid), failure).As(Code::kUnavailable);
}

}  // namespace

Result<std::optional<ThinPoolStatus>> DmKernel::ThinPool(const std::string& uuid) {
  QUARRY_TRY(Check(uuid));
  QUARRY_ASSIGN(const DmControl control, DmControl::Open());
  return FindPool(control, uuid);
}

Result<std::optional<ThinStatus>> DmKernel::Thin(const std::string& uuid) {
  QUARRY_TRY(Check(uuid));
  QUARRY_ASSIGN(const DmControl control, DmControl::Open());
  QUARRY_ASSIGN(auto line, control.Status(uuid));
  if (line.has_value() && line->type == "snapshot-origin") {
    QUARRY_ASSIGN(line, control.Status(uuid + kBelowSnapshots));
  }
  if (!line.has_value() || line->type != "thin") {
    return std::optional<ThinStatus>();
  }
  QUARRY_ASSIGN(const ThinStatus status, ParseThinStatus(line->parameters).Context("device " + line->name));
  return std::optional(status);
}

Status DmKernel::SendToPool(const std::string& uuid, const PoolMessage& message) {
  QUARRY_TRY(Check(uuid));
  QUARRY_ASSIGN(const DmControl control, DmControl::Open());
  QUARRY_ASSIGN(const auto pool, FindPool(control, uuid));
  if (!pool.has_value()) {
    return NoActivePool(message, uuid);
  }
  QUARRY_TRY(MaySend(message, *pool));
  QUARRY_ASSIGN(const auto device, Find(pool->uuid));
  if (device.has_value() && device->suspended) {
    return PoolIsSuspended(message, *pool);
  }
  if (const int failure = control.Message(pool->uuid, Text(message)); failure != 0) {
    return Refusal(message, *pool, failure);
  }
  QUARRY_ASSIGN(const auto after, PoolAt(control, pool->uuid));
  return after.has_value() ? IsInForce(message, *after) : Status(Refusal(message, *pool, ENXIO));
}

Status DmKernel::Suspend(const std::string& uuid, FileSystemLock lock) {
  QUARRY_TRY(Check(uuid));
  QUARRY_ASSIGN(const DmControl control, DmControl::Open());
  const std::string what = fmt::format("suspending device {}", uuid);
  switch (const int failure = control.Suspend(uuid, lock); failure) {
    case 0:
      return Ok();
    case ENXIO:
      return NotActive(uuid);
    case EBUSY:
      return Error(Code::kPrecondition,
                   what +
                       ": its file system is frozen already: thaw it (fsfreeze -u), or suspend without "
                       "its lock")
          .WithErrno(failure);
    case EIO:
    case ENOSPC:
      return ErrnoError(what + ": what was to be written to it before is lost", failure).As(Code::kIo);
    default:
      return ErrnoError(what, failure).As(Code::kUnavailable);
  }
}

Status DmKernel::Resume(const std::string& uuid) {
  QUARRY_TRY(Check(uuid));
  QUARRY_ASSIGN(const DmControl control, DmControl::Open());
  return Answer(control.Resume(uuid), uuid, "resuming device");
}

Status DmKernel::DropWaitingTable(const std::string& uuid) {
  QUARRY_TRY(Check(uuid));
  QUARRY_ASSIGN(const DmControl control, DmControl::Open());
  QUARRY_TRY(Answer(control.DropWaitingTable(uuid), uuid, "dropping the table that waits for device"));
  return Answer(control.SetSizeOfArray(uuid), uuid, "using the table again of device");
}

}  // namespace quarry::dm
