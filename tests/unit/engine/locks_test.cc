#include "engine/pool/locks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace quarry::engine {
namespace {

using std::chrono::milliseconds;

TEST(KeyLocks, ASecondCallGetsTheNameOfTheHolder) {
  KeyLocks locks;
  {
    const auto held = locks.Lock(LockKey::Volume("a"), "DeleteVolume of a", Call{});
    ASSERT_TRUE(held.has_value());
    for (const auto& second : {locks.Lock(LockKey::Volume("a"), "NodeStageVolume of a", Call{}),
                               locks.TryLock(LockKey::Volume("a"), "repair of a")}) {
      EXPECT_EQ(second.error().code(), Code::kBusy);
      EXPECT_NE(second.error().message().find("DeleteVolume of a"), std::string::npos);
    }
    EXPECT_TRUE(locks.Lock(LockKey::Volume("b"), "x", Call{}).has_value());
  }
  EXPECT_TRUE(locks.TryLock(LockKey::Volume("a"), "again").has_value());
}

TEST(KeyLocks, EveryCallWaitsForHousekeeping) {
  KeyLocks locks;
  auto held = std::make_optional(locks.TryLock(LockKey::Volume("a"), "repair of a"));
  std::atomic<int> got = 0;
  std::vector<std::jthread> waiters;
  for (const bool patient : {false, true}) {
    waiters.emplace_back([&, patient] {
      Call call = CallWithin(std::chrono::seconds(60));
      call.patient = patient;
      while (true) {
        const auto mine = locks.Lock(LockKey::Volume("a"), "NodeStageVolume of a", call);
        if (mine.has_value()) {
          ++got;
          return;
        }
        EXPECT_NE(mine.error().message().find("NodeStageVolume"), std::string::npos)
            << "must wait for housekeeping: " << mine.error().message();
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(got, 0);
  held.reset();
  waiters.clear();
  EXPECT_EQ(got, 2);
}

TEST(KeyLocks, HousekeepingThatTakesLongerThanTheCallIsNamed) {
  KeyLocks locks;
  const auto held = locks.TryLock(LockKey::Volume("a"), "repair of a");
  const auto late = locks.Lock(LockKey::Volume("a"), "NodeStageVolume of a", CallWithin(milliseconds(20)));
  EXPECT_EQ(late.error().code(), Code::kBusy);
  EXPECT_NE(late.error().message().find("repair of a"), std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(locks.Lock(LockKey::Volume("a"), "x", Call{.stop = stop.get_token()}).error().code(),
            Code::kCancelled);
}

TEST(KeyLocks, APatientCallWaitsForTheKey) {
  KeyLocks locks;
  auto held = std::make_optional(locks.Lock(LockKey::Volume("a"), "DeleteVolume of a", Call{}));
  std::atomic<bool> got = false;
  std::jthread waiter([&] {
    Call patient;
    patient.patient = true;
    const auto mine = locks.Lock(LockKey::Volume("a"), "NodePublishVolume of a", patient);
    EXPECT_TRUE(mine.has_value());
    got = true;
  });
  EXPECT_EQ(locks.Lock(LockKey::Volume("a"), "x", Call{}).error().code(), Code::kBusy)
      << "an impatient call does not wait";
  EXPECT_FALSE(got);
  held.reset();
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_TRUE(locks.TryLock(LockKey::Volume("a"), "repair of a").has_value());
}

TEST(KeyLocks, PatienceEndsAtTheDeadlineAndNamesTheHolder) {
  KeyLocks locks;
  const auto held = locks.Lock(LockKey::Volume("a"), "DeleteVolume of a", Call{});
  Call call = CallWithin(milliseconds(20));
  call.patient = true;
  const auto late = locks.Lock(LockKey::Volume("a"), "NodePublishVolume of a", call);
  EXPECT_EQ(late.error().code(), Code::kUnavailable);
  EXPECT_NE(late.error().message().find("DeleteVolume of a"), std::string::npos);
  std::stop_source stop;
  stop.request_stop();
  call = Call{.stop = stop.get_token(), .patient = true};
  EXPECT_EQ(locks.Lock(LockKey::Volume("a"), "x", call).error().code(), Code::kCancelled);
}

TEST(WriterQueue, ServesInOrderOfArrival) {
  WriterQueue queue;
  std::vector<int> order;
  std::vector<std::jthread> threads;
  {
    auto turn = queue.Wait("head", Call{});
    for (int i = 0; i < 8; ++i) {
      std::atomic<bool> begun = false;
      threads.emplace_back([&, i] {
        begun = true;
        begun.notify_one();
        auto mine = queue.Wait("waiter", Call{});
        order.push_back(i);
      });
      begun.wait(false);
      std::this_thread::sleep_for(milliseconds(20));  // long enough to be in the queue
    }
  }
  threads.clear();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(WriterQueue, AWaiterAtItsDeadlineLearnsWhoHasTheTurn) {
  WriterQueue queue;
  const auto turn = queue.Wait("CreateVolume of 'slow'", Call{});
  const auto late = queue.Wait("DeleteVolume of x", CallWithin(milliseconds(50)));
  EXPECT_EQ(late.error().code(), Code::kTimeout);
  EXPECT_NE(late.error().message().find("CreateVolume of 'slow'"), std::string::npos);
}

TEST(WriterQueue, ACancelledWaiterDoesNotBlockTheQueue) {
  WriterQueue queue;
  auto head = std::make_unique<Result<WriterQueue::Turn>>(queue.Wait("head", Call{}));
  std::stop_source source;
  Code code = Code::kInternal;
  std::jthread cancelled(
      [&] { code = queue.Wait("cancelled", Call{.stop = source.get_token()}).error().code(); });
  std::this_thread::sleep_for(milliseconds(50));
  source.request_stop();
  cancelled.join();
  EXPECT_EQ(code, Code::kCancelled);
  head.reset();
  EXPECT_TRUE(queue.Wait("next", CallWithin(milliseconds(1000))).has_value());
}

}  // namespace
}  // namespace quarry::engine
