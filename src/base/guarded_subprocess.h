// Starts no more commands once too many are stuck in the kernel. Behind a disk that does not answer, each new
// command would get stuck too, and none can be killed.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/subprocess.h"

namespace quarry {

// "2 processes are stuck in the kernel (412 lvm, 431 lvm): a disk does not answer; see the kernel's log".
// Empty for none.
std::string TellOfStuck(const StuckChildren& stuck);

// Thread-safe.
class GuardedSubprocess final : public Subprocess {
 public:
  using Tell = std::function<void(const Command&, std::chrono::duration<double>)>;

  // While `limit` children of `inner` are stuck, Run returns kUnavailable and starts nothing. `tell`, if
  // given, is called after every Run of `inner`, whatever its result, on the caller's thread. `inner` must
  // outlive the object.
  GuardedSubprocess(Subprocess& inner, size_t limit, Tell tell = nullptr);

  Result<Finished> Run(const Command& command, const Call& call) override;
  StuckChildren Stuck() override { return inner_.Stuck(); }

 private:
  Subprocess& inner_;
  const size_t limit_;
  const Tell tell_;
};

}  // namespace quarry
