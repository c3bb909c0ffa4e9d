#include "csi/cancel_watch.h"

#include <atomic>
#include <optional>

#include <gtest/gtest.h>

namespace quarry::csi {
namespace {

using std::chrono::milliseconds;

bool SoonStopped(const std::stop_token& token) {
  for (int i = 0; i < 500 && !token.stop_requested(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  return token.stop_requested();
}

TEST(CancelWatch, StopsOnlyTheCallWhoseCallerHasGone) {
  CancelWatch watch(milliseconds(1));
  std::atomic<bool> gone = false;
  const CancelWatch::Watched first(watch, [&] { return gone.load(); });
  const CancelWatch::Watched second(watch, [] { return false; });
  EXPECT_FALSE(first.token().stop_requested());
  gone = true;
  EXPECT_TRUE(SoonStopped(first.token()));
  EXPECT_FALSE(second.token().stop_requested());
}

TEST(CancelWatch, NeverAsksAfterTheCallHasEnded) {
  CancelWatch watch(milliseconds(0));
  std::atomic<bool> running = false;
  std::atomic<bool> asked_late = false;
  for (int i = 0; i < 500; ++i) {
    running = true;
    {
      const CancelWatch::Watched watched(watch, [&] {
        std::this_thread::yield();
        asked_late = asked_late || !running;
        return false;
      });
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    running = false;
  }
  EXPECT_FALSE(asked_late);
}

TEST(CancelWatch, AStoppedCallMayEndOnTheWatchingThread) {
  CancelWatch watch(milliseconds(1));
  std::optional<CancelWatch::Watched> watched;
  std::atomic<bool> told = false;
  watched.emplace(watch, [] { return true; });
  {
    // Runs on the watching thread. That thread must not hold the lock that the next line needs.
    const std::stop_callback callback(watched->token(), [&] {
      const CancelWatch::Watched other(watch, [] { return false; });
      told = true;
    });
    EXPECT_TRUE(SoonStopped(watched->token()));
  }
  watched.reset();
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace quarry::csi
