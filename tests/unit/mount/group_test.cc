#include "mount/group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/unique_fd.h"

namespace quarry::mount {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr mode_t kDirectoryBits = S_ISGID | S_IRWXG;
constexpr mode_t kFileBits = S_IRGRP | S_IWGRP;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // needs terabytes of address space
#else
constexpr bool kSanitized = false;
#endif

Call Soon() {
  return CallWithin(std::chrono::minutes(10));
}

UniqueFd OpenDirectory(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// The result of `run` in a child process: 0 for OK.
int InChild(const std::function<int()>& run) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(run());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Directories as they are in a new volume: they belong to the group, but the group cannot write to them yet.
// The file system is in memory, which has room for many directories and is fast.
class GroupTest : public ::testing::Test {
 protected:
  GroupTest() {
    std::string pattern = access("/dev/shm", W_OK) == 0
                              ? "/dev/shm/quarry-group-XXXXXX"
                              : (fs::temp_directory_path() / "quarry-group-XXXXXX").string();
    base_ = fs::canonical(mkdtemp(pattern.data())).string();
    fs::create_directory(base_ + "/top");
    root_ = OpenDirectory(base_ + "/top");
  }
  // No path would be long enough for all of them.
  ~GroupTest() override { EXPECT_EQ(std::system(("rm -rf " + base_).c_str()), 0); }

  Status Give(uint32_t gid) const { return GiveTree(root_.get(), "the volume", gid, Soon()); }
  std::string In(const std::string& name) const { return base_ + "/top/" + name; }
  static bool IsGiven(const std::string& path) {
    struct stat st{};
    EXPECT_EQ(lstat(path.c_str(), &st), 0) << path;
    const mode_t bits = S_ISDIR(st.st_mode) ? kDirectoryBits : kFileBits;
    return st.st_gid == getegid() && (st.st_mode & bits) == bits;
  }
  // The number of objects below `path`, except links, that do not belong to the group.
  static size_t NotGiven(const std::string& path) {
    size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      count += IsGiven(entry.path()) ? 0U : 1U;
    }
    return count;
  }

  std::string base_;
  UniqueFd root_;
};

// The default count suits every run; the long tier sets a larger one.
TEST_F(GroupTest, NeedsNoMoreMemoryForMoreDirectories) {
  if (kSanitized) {
    GTEST_SKIP() << "the limit is on address space";
  }
  const char* asked = std::getenv("QUARRY_GROUP_DIRECTORIES");
  const size_t count = asked == nullptr ? 300'000 : std::stoul(asked);
  const auto name = [](size_t i) { return fmt::format("{:0>246}", i); };
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(mkdirat(root_.get(), name(i).c_str(), 0700), 0) << i;
  }
  const int outcome = InChild([&] {
    const rlimit limit{64 << 20, 64 << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) {
      return 2;
    }
    const Status given = Give(getegid());
    return given.has_value() ? 0 : 1;
  });
  ASSERT_EQ(outcome, 0);
  size_t missed = 0;
  for (size_t i = 0; i < count; ++i) {
    struct stat st{};
    ASSERT_EQ(fstatat(root_.get(), name(i).c_str(), &st, 0), 0);
    missed += (st.st_mode & kDirectoryBits) == kDirectoryBits ? 0U : 1U;
  }
  EXPECT_EQ(missed, 0U);
  EXPECT_TRUE(IsGiven(base_ + "/top"));
}

TEST_F(GroupTest, GivesEverythingInAWideAndDeepTree) {
  // More levels than keep their names, and more names per level than one batch holds.
  std::string at = base_ + "/top";
  for (int level = 0; level < 40; ++level) {
    for (int i = 0; i < 100; ++i) {
      const std::string name = fmt::format("{}/{:0>200}", at, i);
      ASSERT_EQ(mkdir((name + "d").c_str(), 0700), 0);
      std::ofstream(name + "f");
      ASSERT_EQ(chmod((name + "f").c_str(), 0600), 0);
    }
    for (const char* name : {"/a", "/m", "/z"}) {
      ASSERT_EQ(mkdir((at + name).c_str(), 0700), 0);
      ASSERT_EQ(mkdir((at + name + "/below").c_str(), 0700), 0);
    }
    at += "/m";
  }
  ASSERT_TRUE(Give(getegid()).has_value());
  EXPECT_EQ(NotGiven(base_ + "/top"), 0U);
}

TEST_F(GroupTest, RefusesDirectoriesNestedTooDeep) {
  UniqueFd at = OpenDirectory(base_ + "/top");
  for (size_t i = 0; i <= kDeepestTree; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "d", 0700), 0);
    at.Reset(openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(at.valid());
  }
  const Status given = Give(getegid());
  ASSERT_FALSE(given.has_value());
  EXPECT_EQ(given.error().code(), Code::kPrecondition);
  EXPECT_THAT(given.error().message(), HasSubstr("deep"));
  EXPECT_FALSE(IsGiven(base_ + "/top")) << "so that it is begun again";
}

TEST_F(GroupTest, ATenantWhoMovesDirectoriesCannotRedirectTheWalk) {
  fs::create_directories(base_ + "/outside/within");
  ASSERT_EQ(chmod((base_ + "/outside").c_str(), 0700), 0);
  ASSERT_EQ(chmod((base_ + "/outside/within").c_str(), 0700), 0);
  for (int i = 0; i < 200; ++i) {
    fs::create_directories(In(fmt::format("{}/deep/deeper", i)));
  }
  fs::create_directory_symlink(base_ + "/outside", In("link"));
  const pid_t tenant = fork();
  if (tenant == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0;; ++i) {
      const std::string one = In(fmt::format("{}", i % 200));
      const std::string other = In(fmt::format("{}", i * 7 % 200));
      (void)renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, In("link").c_str(), RENAME_EXCHANGE);
      (void)renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, In("link").c_str(), RENAME_EXCHANGE);
      (void)rename((one + "/deep").c_str(), (other + "/moved").c_str());
      (void)rename((other + "/moved").c_str(), (one + "/deep").c_str());
      (void)rename(other.c_str(), In(fmt::format("new-{}", i)).c_str());
      (void)rename(In(fmt::format("new-{}", i)).c_str(), other.c_str());
    }
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(chmod((base_ + "/top").c_str(), 0700), 0);
    const Status given = Give(getegid());
    if (!given.has_value()) {
      EXPECT_NE(given.error().code(), Code::kTimeout) << given.error().message();
    }
  }
  kill(tenant, SIGKILL);
  waitpid(tenant, nullptr, 0);
  EXPECT_FALSE(IsGiven(base_ + "/outside"));
  EXPECT_FALSE(IsGiven(base_ + "/outside/within"));
}

// Without CAP_FSETID the kernel silently drops set-gid if the process does not belong to the group.
TEST_F(GroupTest, ADroppedSetGidBitIsAFailure) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root gives files to any group";
  }
  fs::create_directory(In("below"));
  ASSERT_TRUE(Give(2000).has_value());
  const auto mode_of = [](const std::string& path) {
    struct stat st{};
    EXPECT_EQ(stat(path.c_str(), &st), 0);
    return st.st_mode & 07777;
  };
  EXPECT_EQ(mode_of(base_ + "/top") & kDirectoryBits, kDirectoryBits);
  ASSERT_TRUE(Give(3000).has_value());
  EXPECT_EQ(mode_of(base_ + "/top") & kDirectoryBits, kDirectoryBits);
  EXPECT_EQ(mode_of(In("below")) & kDirectoryBits, kDirectoryBits);

  ASSERT_EQ(chmod(In("below").c_str(), 0755), 0);
  const int outcome = InChild([&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (syscall(SYS_capget, &header, data.data()) != 0) {
      return 2;
    }
    data[0].effective &= ~(1U << CAP_FSETID);
    if (syscall(SYS_capset, &header, data.data()) != 0) {
      return 3;
    }
    const Status given = Give(4000);
    return !given.has_value() && given.error().message().find("CAP_FSETID") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace quarry::mount
