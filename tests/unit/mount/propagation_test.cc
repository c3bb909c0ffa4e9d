#include "mount/propagation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace quarry::mount {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kOurs[] =
    "20 20 8:1 / / rw - overlay overlay rw\n"
    "21 20 8:2 /kubelet /var/lib/kubelet rw shared:31 - ext4 /dev/sda2 rw\n"
    "22 20 8:2 /slave /slave rw master:31 - ext4 /dev/sda2 rw\n"
    "23 20 8:3 / /inside rw shared:40 master:32 - ext4 /dev/sda3 rw\n";
constexpr char kHosts[] =
    "1 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
    "2 1 8:2 / /data rw shared:31 - ext4 /dev/sda2 rw\n"
    "3 1 8:3 / /inside rw shared:32 - ext4 /dev/sda3 rw\n";

Status Check(uint64_t mount_id, const Audience& audience) {
  return CheckPropagates(*MountTable::Parse(kOurs), mount_id, audience,
                         *AbsolutePath::Parse("/var/lib/kubelet/pods/a"));
}

Audience TheHost() {
  return {.in_its_namespace = false, .host = *MountTable::Parse(kHosts)};
}

TEST(Propagation, OnTheHostNothingIsRequired) {
  EXPECT_TRUE(Check(20, {.in_its_namespace = true, .host = std::nullopt}).has_value());
}

TEST(Propagation, AFolderSharedWithTheHostIsAccepted) {
  EXPECT_TRUE(Check(21, TheHost()).has_value());
}

TEST(Propagation, AMountThatDoesNotReachTheHostIsRefusedWithTheRemedy) {
  for (const uint64_t mount : {20U, 22U, 23U}) {
    const Status checked = Check(mount, TheHost());
    ASSERT_FALSE(checked.has_value()) << mount;
    EXPECT_EQ(checked.error().code(), Code::kPrecondition);
    EXPECT_THAT(checked.error().message(), HasSubstr("/var/lib/kubelet/pods/a"));
    EXPECT_THAT(checked.error().message(), HasSubstr("mountPropagation: Bidirectional"));
  }
}

TEST(Propagation, IfTheHostIsNotVisibleASharedMountIsRequired) {
  EXPECT_TRUE(Check(21, {}).has_value());
  EXPECT_TRUE(Check(23, {}).has_value());
  EXPECT_EQ(Check(20, {}).error().code(), Code::kPrecondition);
  EXPECT_EQ(Check(22, {}).error().code(), Code::kPrecondition);
}

TEST(Propagation, AMountThatIsNotInTheTableIsAnError) {
  EXPECT_EQ(Check(99, TheHost()).error().code(), Code::kUnavailable);
}

bool InFirstPidNamespace() {
  struct stat st{};
  return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == 0xEFFFFFFC;
}

// A /proc of links to processes with known namespaces.
class ProcTest : public ::testing::Test {
 protected:
  ProcTest() {
    std::string pattern = (fs::temp_directory_path() / "quarry-proc-XXXXXX").string();
    proc_ = mkdtemp(pattern.data());
  }
  ~ProcTest() override { fs::remove_all(proc_); }
  void Process(const std::string& name, const std::string& real) const {
    fs::create_directory_symlink(real, proc_ + "/" + name);
  }
  std::string proc_;
};

TEST_F(ProcTest, AnInvisibleHostIsNotOurNamespace) {
  Process("self", "/proc/self");
  const auto audience = LookForAudience(proc_);
  ASSERT_TRUE(audience.has_value());
  EXPECT_FALSE(audience->in_its_namespace);
  EXPECT_FALSE(audience->host.has_value());
}

TEST_F(ProcTest, Process1InOurNamespacesIsTheHosts) {
  Process("self", "/proc/self");
  Process("1", "/proc/self");
  EXPECT_EQ(LookForAudience(proc_)->in_its_namespace, InFirstPidNamespace());
}

// The first process shares our mount namespace, as the first process of a container shares the namespace of
// all its processes.
TEST_F(ProcTest, TheFirstProcessOfAnInnerPidNamespaceIsNotTheHosts) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int apart = CLONE_NEWPID | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
    const pid_t first = unshare(apart) == 0 ? fork() : -1;
    if (first == 0) {
      pause();
    }
    _exit(write(ends[1], &first, sizeof first) == sizeof first && first > 0 ? pause() : 1);
  }
  pid_t first = -1;
  ASSERT_EQ(read(ends[0], &first, sizeof first), static_cast<ssize_t>(sizeof first));
  Process("self", "/proc/self");
  Process("1", fmt::format("/proc/{}", first));
  const auto audience = LookForAudience(proc_);
  if (first > 0) {
    kill(first, SIGKILL);  // the first process of a namespace does not die with its parent
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (first < 0) {
    GTEST_SKIP() << "no PID namespace can be made here";
  }
  ASSERT_TRUE(audience.has_value());
  EXPECT_FALSE(audience->in_its_namespace);
  EXPECT_FALSE(audience->host.has_value());
}

TEST_F(ProcTest, InOurOwnMountNamespaceTheHostsMountsAreRead) {
  Process("self", "/proc/self");
  Process("1", fmt::format("/proc/{}", getpid()));
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || !InFirstPidNamespace()) {
      _exit(77);
    }
    const auto audience = LookForAudience(proc_);
    _exit(audience.has_value() && !audience->in_its_namespace && audience->host.has_value() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "no mount namespace can be made here, or the host's processes cannot be told";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace quarry::mount
