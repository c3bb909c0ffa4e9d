// Ends the process at a step of the engine's plans, so that a test can say "killed before, amid and after
// each step" and mean it. Linked into quarryd_crash only.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "engine/world.h"

namespace quarry::vm {

// While the file `order` exists, the process dies at the first step that is not yet written down in
// `order`.done with the same moment: before it (the very first one only: before any other is after its
// predecessor), amid it, or after it. Names of logical volumes do not
// count, so that "create logical volume vg/q… " is one step however often it is tried.
//
// What the order file says, in words between blanks: "amid-ms N" how long a child process of the step may
// live when it is killed amid (default 120); "orphans" leaves children alive when the process dies; "steps N"
// kills at the N-th step from now on instead, amid, whether or not it is written down.
//
// A death is SIGKILL: first the children of the process (LVM, mkfs), then itself.
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
