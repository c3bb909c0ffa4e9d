#include "gateway/back_off.h"

#include <gtest/gtest.h>

namespace quarry::gateway {
namespace {

using std::chrono::milliseconds;

TEST(BackOff, DoublesUpToItsLongest) {
  BackOff back_off;
  EXPECT_EQ(back_off.Next(milliseconds(0)), milliseconds(100));
  EXPECT_EQ(back_off.Next(milliseconds(0)), milliseconds(200));
  EXPECT_EQ(back_off.Next(milliseconds(9999)), milliseconds(400));
  for (int i = 0; i < 10; ++i) {
    back_off.Next(milliseconds(0));
  }
  EXPECT_EQ(back_off.Next(milliseconds(0)), BackOff::kLongest);
}

TEST(BackOff, BeginsAgainAfterAGatewayThatRanWell) {
  BackOff back_off;
  back_off.Next(milliseconds(0));
  back_off.Next(milliseconds(0));
  EXPECT_EQ(back_off.Next(milliseconds(10'000)), milliseconds(100));
  EXPECT_EQ(back_off.Next(milliseconds(0)), milliseconds(200));
}

}  // namespace
}  // namespace quarry::gateway
