// How long to wait before the gateway is started again.
#pragma once

#include <algorithm>
#include <chrono>

namespace quarry::gateway {

// A gateway that ran for a while is started again almost at once. One that keeps ending is started less and
// less often.
class BackOff {
 public:
  static constexpr std::chrono::milliseconds kFirst{100};
  static constexpr std::chrono::milliseconds kLongest{10'000};
  static constexpr std::chrono::seconds kRanWell{10};

  // The wait after a gateway that ran for `ran`.
  std::chrono::milliseconds Next(std::chrono::milliseconds ran) {
    if (ran >= kRanWell) {
      Reset();
    }
    const std::chrono::milliseconds wait = next_;
    next_ = std::min(next_ * 2, kLongest);
    return wait;
  }
  void Reset() { next_ = kFirst; }

 private:
  std::chrono::milliseconds next_ = kFirst;
};

}  // namespace quarry::gateway
