#include "base/call.h"

#include <thread>

#include <gtest/gtest.h>

namespace quarry {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Call, WithoutDeadlineNeverEnds) {
  const Call call;
  EXPECT_TRUE(call.Check("x").has_value());
  EXPECT_EQ(call.Remaining(), milliseconds::max());
}

TEST(Call, SaysWhyItEnded) {
  EXPECT_EQ(CallWithin(milliseconds(0)).Check("lvs").error().code(), Code::kTimeout);
  std::stop_source source;
  const Call call{.stop = source.get_token()};
  source.request_stop();
  const auto status = call.Check("lvs");
  EXPECT_EQ(status.error().code(), Code::kCancelled);
  EXPECT_NE(status.error().message().find("lvs"), std::string::npos);
}

TEST(Call, WithinOnlyShortens) {
  const Call call = CallWithin(milliseconds(50));
  EXPECT_EQ(call.Within(milliseconds(100000)).deadline, call.deadline);
  EXPECT_LE(call.Within(milliseconds(1)).deadline, call.deadline);
  EXPECT_EQ(CallWithin(milliseconds(0)).Remaining(), milliseconds(0));
}

TEST(Sleep, LastsAsLongAsAsked) {
  const std::stop_source source;
  const auto begin = steady_clock::now();
  EXPECT_TRUE(Sleep(source.get_token(), milliseconds(20)));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(20));
}

TEST(Sleep, LastsAsLongAsAskedIfNoStopCanBeRequested) {
  const auto begin = steady_clock::now();
  EXPECT_TRUE(Sleep(std::stop_token(), milliseconds(20)));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(20));
}

TEST(Sleep, EndsWhenAStopIsRequested) {
  std::stop_source source;
  const std::jthread stopper([&source] {
    std::this_thread::sleep_for(milliseconds(20));
    source.request_stop();
  });
  EXPECT_FALSE(Sleep(source.get_token(), hours(1)));
}

TEST(Sleep, DoesNotBeginAfterAStopWasRequested) {
  std::stop_source source;
  source.request_stop();
  EXPECT_FALSE(Sleep(source.get_token(), hours(1)));
}

}  // namespace
}  // namespace quarry
