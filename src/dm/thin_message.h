// Messages to thin pools: their text, when they may be sent, and what the kernel's refusal means. Pure, for
// the kernel and for the fake.
#pragma once

#include <string>

#include "base/result.h"
#include "dm/thin_api.h"

namespace quarry::dm {

// As the kernel reads it: "create_snap 5 3".
std::string Text(const PoolMessage& message);

// Whether the message may be sent to a pool in this state. The codes are those of DmApi::SendToPool.
Status MaySend(const PoolMessage& message, const ThinPoolStatus& pool);

// The error behind errno `sys_errno` of a message to this pool.
Error Refusal(const PoolMessage& message, const ThinPoolStatus& pool, int sys_errno);

// kPrecondition: a message to a pool that is not active. Not kNotFound, which a caller could take for a thin
// device that the pool does not have.
Error NoActivePool(const PoolMessage& message, const std::string& uuid);

// kUnavailable: a message to a pool that is suspended. Its data may be so, too: the commit would wait for
// their resume, and the status of the pool for the commit.
Error PoolIsSuspended(const PoolMessage& message, const ThinPoolStatus& pool);

// Whether an accepted message is in force, by the state of the pool after it. The kernel accepts a message
// first, then commits, and does not report whether the commit failed. kIo: it failed.
Status IsInForce(const PoolMessage& message, const ThinPoolStatus& after);

}  // namespace quarry::dm
