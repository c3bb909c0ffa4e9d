#include "base/call.h"

#include <thread>

#include <gtest/gtest.h>

namespace quarry {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

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
