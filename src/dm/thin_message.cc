#include "dm/thin_message.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

namespace quarry::dm {
namespace {

using Mode = ThinPoolStatus::Mode;

template <typename T>
bool Is(const PoolMessage& message) {
  return std::holds_alternative<T>(message);
}

struct Writer {
  std::string operator()(ReserveMetadataSnap) const { return "reserve_metadata_snap"; }
  std::string operator()(ReleaseMetadataSnap) const { return "release_metadata_snap"; }
  std::string operator()(CreateThin m) const { return fmt::format("create_thin {}", m.id); }
  std::string operator()(CreateSnap m) const { return fmt::format("create_snap {} {}", m.id, m.origin); }
  std::string operator()(DeleteThin m) const { return fmt::format("delete {}", m.id); }
};

// The device that a message makes or deletes, and that of which it makes a snapshot. 0: none.
struct Ids {
  ThinId target = 0, origin = 0;
};
struct IdsOf {
  Ids operator()(ReserveMetadataSnap) const { return {}; }
  Ids operator()(ReleaseMetadataSnap) const { return {}; }
  Ids operator()(CreateThin m) const { return {m.id, 0}; }
  Ids operator()(CreateSnap m) const { return {m.id, m.origin}; }
  Ids operator()(DeleteThin m) const { return {m.id, 0}; }
};

std::string What(const PoolMessage& message, const ThinPoolStatus& pool) {
  return fmt::format("sending '{}' to thin pool {} ({})", Text(message), pool.name, pool.uuid);
}

constexpr std::string_view kRepair =
    "deactivate the pool and check its metadata with thin_check; thin_repair mends it";

Error Unwritable(const std::string& what, std::string_view state) {
  return {Code::kPrecondition, fmt::format("{}: the pool {}: {}", what, state, kRepair)};
}

Error NoSnapshot(const std::string& what) {
  return {Code::kNotFound, what + ": the pool holds no metadata snapshot"};
}

Error SnapshotIsHeld(const std::string& what) {
  return {Code::kPrecondition,
          what + ": the pool holds a metadata snapshot already: wait for its reader, or release it"};
}

// A failed commit of a reservation leaves a wrong root on disk, on kernels without the mending of
// CVE-2026-72108. A pool that has no metadata to spare fails commits.
Status MayReserve(const std::string& what, const ThinPoolStatus& pool) {
  if (pool.held_root.has_value()) {
    return SnapshotIsHeld(what);
  }
  if (pool.metadata_free() <= pool.metadata_low_water) {
    return Error(Code::kNoSpace,
                 fmt::format("{}: the pool is low on metadata: {} of {} blocks are free, and more than {} "
                             "must be: grow its metadata",
                             what, pool.metadata_free(), pool.metadata_total, pool.metadata_low_water));
  }
  return Ok();
}

}  // namespace

std::string Text(const PoolMessage& message) {
  return std::visit(Writer(), message);
}

Status MaySend(const PoolMessage& message, const ThinPoolStatus& pool) {
  const std::string what = What(message, pool);
  const Ids ids = std::visit(IdsOf(), message);
  if (const ThinId id = std::max(ids.target, ids.origin); id > kMaxThinId) {
    return Error(Code::kInvalidArgument,
                 fmt::format("{}: {} is no id of a thin device: the largest is {}", what, id, kMaxThinId));
  }
  if (pool.mode == Mode::kFailed) {
    return Unwritable(what, "has failed");
  }
  if (pool.mode == Mode::kReadOnly) {
    return Unwritable(what, "is read-only");
  }
  if (pool.needs_check) {
    return Unwritable(what, "needs a check");
  }
  if (Is<ReleaseMetadataSnap>(message) && !pool.held_root.has_value()) {
    return NoSnapshot(what);
  }
  return Is<ReserveMetadataSnap>(message) ? MayReserve(what, pool) : Ok();
}

Error Refusal(const PoolMessage& message, const ThinPoolStatus& pool, int sys_errno) {
  const std::string what = What(message, pool);
  const Ids ids = std::visit(IdsOf(), message);
  const auto refused = [&](Code code, std::string_view why) {
    return Error(code, fmt::format("{}: {}", what, why)).WithErrno(sys_errno);
  };
  switch (sys_errno) {
    case EEXIST:
      return refused(Code::kAlreadyExists, fmt::format("the pool has a thin device {} already", ids.target));
    case ENODATA:
      return refused(Code::kNotFound, fmt::format("the pool has no thin device {}",
                                                  Is<CreateSnap>(message) ? ids.origin : ids.target));
    case EBUSY:
      return Is<ReserveMetadataSnap>(message)
                 ? SnapshotIsHeld(what).WithErrno(sys_errno)
                 : refused(Code::kPrecondition,
                           fmt::format("thin device {} is active: deactivate it", ids.target));
    case EOPNOTSUPP:
      return Unwritable(what, "is read-only or has failed").WithErrno(sys_errno);
    case ENOSPC:
      return refused(Code::kNoSpace, "the pool has no free metadata: grow its metadata");
    case ENXIO:
      return refused(Code::kPrecondition, "the pool is not active any more");
    case EINVAL:
      return Is<ReleaseMetadataSnap>(message)
                 ? NoSnapshot(what).WithErrno(sys_errno)
                 : refused(Code::kUnavailable, "the device does not take the message: is it a pool still?");
    default: {
      const Code code = ErrnoError({}, sys_errno).code();
      return ErrnoError(what, sys_errno).As(code == Code::kNotFound ? Code::kUnavailable : code);
    }
  }
}

Error NoActivePool(const PoolMessage& message, const std::string& uuid) {
  return {
      Code::kPrecondition,
      fmt::format("sending '{}' to thin pool {}: no such pool is active: activate it", Text(message), uuid)};
}

Error PoolIsSuspended(const PoolMessage& message, const ThinPoolStatus& pool) {
  return {Code::kUnavailable, What(message, pool) +
                                  ": the pool is suspended, by a command that is at work or "
                                  "was killed: try again"};
}

Status IsInForce(const PoolMessage& message, const ThinPoolStatus& after) {
  const std::string what = What(message, after);
  if (after.mode == Mode::kFailed || after.mode == Mode::kReadOnly || after.needs_check) {
    return Error(Code::kIo, fmt::format("{}: the pool could not write its metadata, and took no change: {}",
                                        what, kRepair));
  }
  return Ok();
}

}  // namespace quarry::dm
