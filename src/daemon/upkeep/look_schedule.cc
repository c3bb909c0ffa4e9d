#include "daemon/upkeep/look_schedule.h"

#include <chrono>
#include <iterator>

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// Time between two looks.
constexpr milliseconds kPauses[] = {milliseconds(250), milliseconds(1000), milliseconds(3000),
                                    milliseconds(10000)};
constexpr milliseconds kAfterFailure{5000};
}  // namespace

void LookSchedule::DiskCame(SteadyTime now) {
  due_ = now;
  looks_ = 0;
}

void LookSchedule::Looked(SteadyTime now, bool failed) {
  if (looks_ < std::size(kPauses)) {
    due_ = now + kPauses[looks_++];
  } else if (failed) {
    due_ = now + kAfterFailure;
  } else {
    due_.reset();
  }
}

}  // namespace quarry::daemon
