// One request to device-mapper: libdevmapper's dm_task, owned, with its words caught.
#pragma once

#include <libdevmapper.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quarry::dm {

// While one exists, libdevmapper is this thread's: begin one before the first DmTask and keep it until after
// the last. Also collects what libdevmapper reports as an error meanwhile.
class LibdmSession {
 public:
  // kUnavailable: there is no device-mapper here. Asked again each time: libdevmapper itself, once it has
  // failed, would not look again.
  static Result<LibdmSession> Begin();

  // "what: libdevmapper's words": kUnavailable, or what `sys_errno` means.
  Error Failure(std::string_view what, int sys_errno = 0) const;

 private:
  explicit LibdmSession(std::unique_lock<std::mutex> lock) : lock_(std::move(lock)) {}

  std::unique_lock<std::mutex> lock_;
};

struct DmTaskDestroy {
  void operator()(dm_task* task) const { dm_task_destroy(task); }
};
using DmTask = std::unique_ptr<dm_task, DmTaskDestroy>;

}  // namespace quarry::dm
