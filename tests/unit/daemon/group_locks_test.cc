#include "daemon/locking/group_locks.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kUuid[] = "plf7AC-ovS4-P1ie-udWQ-N0tA-dzKB-HxNopt";
constexpr char kOther[] = "C20Bpt-T7ZQ-KWJG-4SGG-yLAp-2Z3v-3miSLv";

class GroupLocks : public testing::Test {
 protected:
  // The locks of another process: a flock belongs to the open file.
  FlockGroupLocks Another(const std::string& run = "own") {
    return {directory_.path() + "/" + run + "/locks", directory_.path() + "/lvm"};
  }
  std::string LockFile(const std::string& uuid) const {
    return directory_.path() + "/lvm/quarry-" + uuid + ".lock";
  }

  TemporaryDirectory directory_;
};

TEST_F(GroupLocks, AGroupHasOneOwnerEvenIfEachProcessHasItsOwnRun) {
  FlockGroupLocks ours = Another("a");
  FlockGroupLocks theirs = Another("b");
  ASSERT_TRUE(ours.ClaimName("vg").has_value());
  ASSERT_TRUE(ours.Claim("vg", kUuid).value_or(false)) << "it is new";
  EXPECT_FALSE(ours.Claim("vg", kUuid).value_or(true)) << "it was ours already";

  EXPECT_TRUE(theirs.ClaimName("vg").has_value()) << "that lock is in a folder of its own";
  const auto refused = theirs.Claim("vg", kUuid);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(),
              AllOf(HasSubstr("volume group 'vg' belongs to another quarryd"),
                    HasSubstr("pid " + std::to_string(getpid())), HasSubstr(LockFile(kUuid))));
  EXPECT_TRUE(theirs.Claim("vg", kOther).value_or(false)) << "another group";
}

TEST_F(GroupLocks, AGroupThatDoesNotExistYetIsLockedByName) {
  FlockGroupLocks ours = Another();
  FlockGroupLocks theirs = Another();
  ASSERT_TRUE(ours.ClaimName("vg").has_value());
  ASSERT_TRUE(ours.ClaimName("vg").has_value());
  EXPECT_TRUE(ours.ForCommand("vg").has_value());
  EXPECT_EQ(theirs.ClaimName("vg").error().code(), Code::kPrecondition);
  EXPECT_TRUE(theirs.ClaimName("vg2").has_value());
  EXPECT_EQ(theirs.ForCommand("vg").error().code(), Code::kInternal)
      << "no command runs for a group that was not claimed";
}

TEST_F(GroupLocks, CommandsGetTheLockByUuidOnceItExistsAndEachGroupItsOwn) {
  FlockGroupLocks ours = Another();
  ASSERT_TRUE(ours.ClaimName("vg").has_value());
  const int by_name = *ours.ForCommand("vg");
  ASSERT_TRUE(ours.Claim("vg", kUuid).has_value());
  ASSERT_TRUE(ours.Claim("vg2", kOther).has_value());
  const auto target = [](int fd) {
    return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
  };
  EXPECT_NE(*ours.ForCommand("vg"), by_name);
  EXPECT_EQ(target(*ours.ForCommand("vg")), LockFile(kUuid));
  EXPECT_EQ(target(*ours.ForCommand("vg2")), LockFile(kOther));
}

TEST_F(GroupLocks, ARecreatedGroupGetsItsOwnLockAndTheOldOneIsKept) {
  FlockGroupLocks ours = Another("a");
  FlockGroupLocks theirs = Another("b");
  ASSERT_TRUE(ours.Claim("vg", kUuid).has_value());
  EXPECT_TRUE(ours.Claim("vg", kOther).value_or(false));
  EXPECT_FALSE(theirs.Claim("vg", kOther).has_value());
  EXPECT_FALSE(theirs.Claim("renamed", kUuid).has_value()) << "its volumes may live on";
}

TEST_F(GroupLocks, AMissingLockFileStopsItsGroupAndNoOther) {
  FlockGroupLocks ours = Another();
  ASSERT_TRUE(ours.Claim("vg", kUuid).has_value());
  ASSERT_TRUE(ours.Claim("vg2", kOther).has_value());
  ASSERT_EQ(unlink(LockFile(kUuid).c_str()), 0);
  for (int replaced = 0; replaced < 2; ++replaced) {
    const Status checked = ours.Check("vg");
    ASSERT_FALSE(checked.has_value());
    EXPECT_EQ(checked.error().code(), Code::kUnavailable);
    EXPECT_THAT(checked.error().message(), AllOf(HasSubstr(LockFile(kUuid)), HasSubstr("restarted")));
    EXPECT_EQ(ours.ForCommand("vg").error().code(), Code::kUnavailable);
    EXPECT_TRUE(ours.Check("vg2").has_value());
    std::ofstream(LockFile(kUuid)) << "another's";
  }
}

TEST_F(GroupLocks, ARunningCommandKeepsTheNextOwnerOut) {
  int command = -1;
  {
    FlockGroupLocks ours = Another("a");
    ASSERT_TRUE(ours.Claim("vg", kUuid).has_value());
    command = dup(*ours.ForCommand("vg"));
  }
  FlockGroupLocks theirs = Another("b");
  EXPECT_EQ(theirs.Claim("vg", kUuid).error().code(), Code::kPrecondition);
  close(command);
  EXPECT_TRUE(theirs.Claim("vg", kUuid).value_or(false));
}

}  // namespace
}  // namespace quarry::daemon
