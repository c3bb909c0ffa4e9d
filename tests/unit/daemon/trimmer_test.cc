#include "daemon/upkeep/trimmer.h"

#include <gtest/gtest.h>

namespace quarry::daemon {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::system_clock;

TEST(NextRound, IsAtAMultipleOfTheIntervalWheneverItIsCalled) {
  const system_clock::time_point week(hours(168) * 3000);
  EXPECT_EQ(NextRound(week, hours(168)), week + hours(168));
  EXPECT_EQ(NextRound(week + minutes(1), hours(168)), week + hours(168));
  EXPECT_EQ(NextRound(week + hours(168) - minutes(1), hours(168)), week + hours(168));
  EXPECT_EQ(NextRound(week + minutes(59), hours(1)), week + hours(1));
}

}  // namespace
}  // namespace quarry::daemon
