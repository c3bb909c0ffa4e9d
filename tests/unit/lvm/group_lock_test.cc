#include "lvm/run/group_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

namespace quarry::lvm {
namespace {

using std::chrono::milliseconds;

class GroupLockTest : public testing::Test {
 protected:
  GroupLockTest() {
    std::string path = testing::TempDir() + "quarry-lock-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
  }
  ~GroupLockTest() override { std::filesystem::remove_all(dir_); }

  Result<GroupLock> Take(int ms = 20000, GroupLock::Mode mode = GroupLock::Mode::kRead) {
    return GroupLock::Take(dir_, "vg0", mode, CallWithin(milliseconds(ms)));
  }
  std::string Main() const { return dir_ + "/V_vg0"; }
  std::string Aux() const { return Main() + ":aux"; }
  static UniqueFd Open(const std::string& path) {
    return UniqueFd(open(path.c_str(), O_CREAT | O_APPEND | O_RDWR | O_CLOEXEC, 0777));
  }
  static bool Locks(const UniqueFd& fd, int operation) { return flock(fd.get(), operation | LOCK_NB) == 0; }

  std::string dir_;
};

TEST_F(GroupLockTest, KeepsWritersOutAndReadersNot) {
  {
    const auto one = Take();
    ASSERT_TRUE(one.has_value()) << one.error().message();
    const auto other = Take();
    ASSERT_TRUE(other.has_value()) << other.error().message();
    EXPECT_FALSE(Locks(Open(Main()), LOCK_EX));
    EXPECT_TRUE(Locks(Open(Main()), LOCK_SH));
    EXPECT_FALSE(std::filesystem::exists(Aux())) << "no writer waits";
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_)) << "as LVM leaves the folder";
  EXPECT_TRUE(Locks(Open(Main()), LOCK_EX));
}

TEST_F(GroupLockTest, ForWritingKeepsEverybodyOut) {
  {
    const auto lock = Take(20000, GroupLock::Mode::kWrite);
    ASSERT_TRUE(lock.has_value()) << lock.error().message();
    EXPECT_FALSE(Locks(Open(Main()), LOCK_SH));
    EXPECT_FALSE(std::filesystem::exists(Aux())) << "others may wait in their order";
    EXPECT_EQ(Take(50).error().code(), Code::kTimeout);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
  {
    const auto reader = Take();
    ASSERT_TRUE(reader.has_value());
    EXPECT_EQ(Take(50, GroupLock::Mode::kWrite).error().code(), Code::kTimeout);
  }
  EXPECT_TRUE(Take(20000, GroupLock::Mode::kWrite).has_value());
}

TEST_F(GroupLockTest, AWaitingWriterKeepsNewReadersOut) {
  std::optional<Result<GroupLock>> reading(Take());
  std::optional<Result<GroupLock>> writing;
  std::thread writer([&] { writing.emplace(Take(20000, GroupLock::Mode::kWrite)); });
  while (Locks(Open(Aux()), LOCK_EX)) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(Take(50).error().code(), Code::kTimeout);
  reading.reset();
  writer.join();
  EXPECT_TRUE(writing->has_value()) << writing->error().message();
}

TEST_F(GroupLockTest, ACommandThatHasTheDescriptorKeepsTheLock) {
  UniqueFd command;
  {
    auto lock = Take(20000, GroupLock::Mode::kWrite);
    ASSERT_TRUE(lock.has_value());
    command = UniqueFd(dup(lock->fd()));
    lock->LeaveToCommand();
  }
  EXPECT_EQ(Take(50).error().code(), Code::kTimeout);
  command.Reset();
  EXPECT_TRUE(Take().has_value());
}

TEST_F(GroupLockTest, WaitsForWritersAndWaitingWriters) {
  const UniqueFd writing = Open(Main());
  ASSERT_TRUE(Locks(writing, LOCK_EX));
  EXPECT_EQ(Take(50).error().code(), Code::kTimeout);
  ASSERT_TRUE(Locks(writing, LOCK_UN));
  const UniqueFd waiting = Open(Aux());
  ASSERT_TRUE(Locks(waiting, LOCK_EX));
  EXPECT_EQ(Take(50).error().code(), Code::kTimeout) << "else readers that overlap would keep it waiting";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(GroupLock::Take(dir_, "vg0", GroupLock::Mode::kRead, {.stop = stop.get_token()}).error().code(),
            Code::kCancelled);
  ASSERT_TRUE(Locks(waiting, LOCK_UN));
  EXPECT_TRUE(Take().has_value());
}

// LVM removes the file when it releases the lock. A lock on a removed file excludes no process.
TEST_F(GroupLockTest, LocksTheFileThatHasTheNameNow) {
  std::optional<UniqueFd> writing = Open(Main());
  ASSERT_TRUE(Locks(*writing, LOCK_EX));
  std::atomic<bool> done = false;
  std::optional<Result<GroupLock>> lock;
  std::thread reader([&] {
    lock.emplace(Take());
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(done);
  ASSERT_EQ(unlink(Main().c_str()), 0);
  writing.reset();
  reader.join();
  ASSERT_TRUE(lock->has_value()) << lock->error().message();
  ASSERT_TRUE(std::filesystem::exists(Main()));
  EXPECT_FALSE(Locks(Open(Main()), LOCK_EX));
}

TEST_F(GroupLockTest, IsTakenDespiteRepeatedRemovalsOfTheFile) {
  std::atomic<bool> stop = false;
  std::atomic<int> inside = 0;
  std::atomic<int> wrong = 0;
  std::thread writer([&] {  // as LVM does
    while (!stop) {
      const UniqueFd aux = Open(Aux());
      flock(aux.get(), LOCK_EX);
      struct stat held{};
      struct stat named{};
      if (fstat(aux.get(), &held) != 0 || stat(Aux().c_str(), &named) != 0 || held.st_ino != named.st_ino) {
        continue;
      }
      const UniqueFd main = Open(Main());
      flock(main.get(), LOCK_EX);
      if (fstat(main.get(), &held) == 0 && stat(Main().c_str(), &named) == 0 && held.st_ino == named.st_ino) {
        wrong += inside != 0 ? 1 : 0;
        unlink(Main().c_str());
      }
      unlink(Aux().c_str());
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto lock = Take();
    ASSERT_TRUE(lock.has_value()) << lock.error().message();
    ++inside;
    std::this_thread::sleep_for(milliseconds(1));
    --inside;
  }
  stop = true;
  writer.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(GroupLockTest, FailsWithoutTheFolder) {
  const auto lock =
      GroupLock::Take(dir_ + "/nowhere", "vg0", GroupLock::Mode::kRead, CallWithin(milliseconds(1000)));
  ASSERT_FALSE(lock.has_value());
  EXPECT_EQ(lock.error().code(), Code::kUnavailable);
  EXPECT_NE(lock.error().message().find("/nowhere/V_vg0"), std::string::npos) << lock.error().message();
}

}  // namespace
}  // namespace quarry::lvm
