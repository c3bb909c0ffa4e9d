// Kills the process at a step of the engine's plans, so that a test can kill it before, during and after each
// step. Linked into quarryd_crash only.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "engine/world.h"

namespace quarry::vm {

// While the file `order` exists, the process dies at the first step that `order`.done does not list yet for
// the same moment: before the step (only for the very first step, since before any other equals after its
// predecessor), amid it, or after it. The names of logical volumes are ignored, so "create logical volume
// vg/q…" is the same step in every attempt.
//
// The order file contains these words, separated by blanks:
//   amid-ms N   how long a child process of the step lives before the kill amid the step (default 120)
//   orphans     children stay alive when the process dies
//   steps N     the process dies amid the N-th step from now on, whether or not that step is listed
//
// The process dies by SIGKILL: first its children (LVM, mkfs), then the process itself.
class CrashAtStep final : public engine::StepWatcher {
 public:
  explicit CrashAtStep(std::string order) : order_(std::move(order)) {}
  void Before(const std::string& step) override;
  void After(const std::string& step) override;

 private:
  struct Order {
    int amid_ms = 120;
    bool orphans = false;
    int steps = 0;  // 0: each step in its turn
    std::string text;
  };
  bool ReadOrder();
  bool FirstTime(const std::string& moment, const std::string& step);
  void DieAmid() const;

  const std::string order_;
  std::mutex mutex_;
  Order now_;
  int counted_ = 0;
};

}  // namespace quarry::vm
