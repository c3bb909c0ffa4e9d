// One request to device-mapper: libdevmapper's dm_task, owned, with its messages captured.
#pragma once

#include <libdevmapper.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"

namespace quarry::dm {

// While a session exists, only its thread uses libdevmapper. Begin a session before the first DmTask, and
// keep it until after the last. It also collects the errors that libdevmapper reports.
class LibdmSession {
 public:
  // kUnavailable: no device-mapper here. This is checked on every call, because libdevmapper itself does not
  // retry after a failure.
  static Result<LibdmSession> Begin();

  // "what: libdevmapper's message". The code is that of `sys_errno`, or kUnavailable.
  Error Failure(std::string_view what, int sys_errno = 0) const;

 private:
  explicit LibdmSession(std::unique_lock<Mutex> lock) : lock_(std::move(lock)) {}

  std::unique_lock<Mutex> lock_;  // not MutexLock, which cannot be moved out of Begin
};

struct DmTaskDestroy {
  void operator()(dm_task* task) const { dm_task_destroy(task); }
};
using DmTask = std::unique_ptr<dm_task, DmTaskDestroy>;

}  // namespace quarry::dm
