#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "mount/process_scan.h"

namespace quarry::mount {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DeviceNumber kDevice{253, 3};
constexpr const char* kRoot = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";

// procfs and sysfs of a machine with one device, dm-3 (vg-lv), and processes in mount namespaces.
class UsersTest : public ::testing::Test {
 protected:
  UsersTest() {
    std::string pattern = (fs::temp_directory_path() / "quarry-users-XXXXXX").string();
    base_ = mkdtemp(pattern.data());
    fs::create_directories(base_ + "/sys/devices/virtual/block/dm-3/holders");
    fs::create_directories(base_ + "/sys/dev/block");
    fs::create_symlink("../../devices/virtual/block/dm-3", base_ + "/sys/dev/block/253:3");
    Write("/sys/devices/virtual/block/dm-3/dm/name", "vg-lv\n");
    Process(100, "quarryd", 1, kRoot);
    fs::create_symlink("100", base_ + "/proc/self");
  }
  ~UsersTest() override { fs::remove_all(base_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(base_ + path).parent_path());
    std::ofstream(base_ + path) << text;
  }
  void Process(int pid, const std::string& name, int name_space, const std::string& mountinfo) {
    const std::string place = "/proc/" + std::to_string(pid);
    Write(place + "/comm", name + "\n");
    Write(place + "/mountinfo", mountinfo);
    fs::create_directories(base_ + place + "/ns");
    fs::remove(base_ + place + "/ns/mnt");
    fs::create_symlink("mnt:[" + std::to_string(name_space) + "]", base_ + place + "/ns/mnt");
  }
  std::vector<std::string> Users() {
    const auto users = UsersOf(kDevice, base_ + "/proc", base_ + "/sys");
    EXPECT_TRUE(users.has_value());
    return users.value_or(std::vector<std::string>{});
  }

  std::string base_;
};

TEST_F(UsersTest, AnUnusedDeviceHasNoUsers) {
  EXPECT_THAT(Users(), IsEmpty());
}

TEST_F(UsersTest, AMissingDeviceHasNoUsers) {
  EXPECT_THAT(*UsersOf({253, 99}, base_ + "/proc", base_ + "/sys"), IsEmpty());
}

TEST_F(UsersTest, AnUnreadableProcIsAnError) {
  EXPECT_EQ(UsersOf(kDevice, base_ + "/absent", base_ + "/sys").error().code(), Code::kUnavailable);
  EXPECT_EQ(UsersOf(kDevice, base_ + "/proc", base_ + "/absent").error().code(), Code::kUnavailable);
}

TEST_F(UsersTest, MountsOfOurNamespace) {
  Process(100, "quarryd", 1,
          std::string(kRoot) +
              "2 1 253:3 / /stage rw - xfs /dev/dm-3 rw\n3 1 253:3 / /pod\\040a ro - xfs /dev/dm-3 rw\n" +
              "4 1 253:4 / /other rw - xfs /dev/dm-4 rw\n");
  EXPECT_THAT(Users(), ElementsAre("mounted at /stage", "mounted at /pod a"));
}

TEST_F(UsersTest, EachOtherNamespaceOnceThroughItsFirstProcess) {
  const std::string other = std::string(kRoot) + "9 1 253:3 / /copy rw - xfs /dev/dm-3 rw\n";
  Process(7, "sshd", 2, other);
  Process(8, "bash", 2, other);
  Process(20, "nginx", 3, std::string(kRoot) + "9 1 253:3 / /srv rw - xfs /dev/dm-3 rw\n");
  EXPECT_THAT(Users(), ElementsAre("mounted at /copy in another mount namespace (pid 7 (sshd))",
                                   "mounted at /srv in another mount namespace (pid 20 (nginx))"));
}

TEST_F(UsersTest, UnreadableProcessesAreSkipped) {
  Process(7, "sshd", 2, "nonsense\n");
  fs::create_directories(base_ + "/proc/9");
  EXPECT_THAT(Users(), IsEmpty());
}

TEST_F(UsersTest, BtrfsByTheNameOfItsDevice) {
  Process(7, "sshd", 2,
          std::string(kRoot) +
              "9 1 0:45 / /a rw - btrfs /dev/mapper/vg-lv rw\n10 1 0:46 / /b rw - btrfs /dev/dm-3 rw\n" +
              "11 1 0:47 / /c rw - btrfs /dev/dm-33 rw\n");
  EXPECT_EQ(Users().size(), 2U);
}

TEST_F(UsersTest, BindsOfTheDeviceNode) {
  Process(100, "quarryd", 1,
          std::string(kRoot) +
              "2 1 0:5 /dm-3 /pod/block rw - devtmpfs udev rw\n3 1 0:5 / /dev rw - devtmpfs udev rw\n" +
              "4 1 0:5 /dm-33 /pod/b33 rw - devtmpfs udev rw\n");
  EXPECT_THAT(Users(), ElementsAre("its node is mounted at /pod/block"));
}

TEST_F(UsersTest, DevicesOnTopOfTheDevice) {
  fs::create_directories(base_ + "/sys/devices/virtual/block/dm-5");
  Write("/sys/devices/virtual/block/dm-5/dm/name", "crypt\n");
  fs::create_symlink("../../dm-5", base_ + "/sys/devices/virtual/block/dm-3/holders/dm-5");
  fs::create_directories(base_ + "/sys/devices/virtual/block/md0");
  fs::create_symlink("../../md0", base_ + "/sys/devices/virtual/block/dm-3/holders/md0");
  EXPECT_THAT(Users(), ElementsAre("held by dm-5 (crypt)", "held by md0"));
}

TEST_F(UsersTest, AFileSystemInUseThatNoMountShows) {
  fs::create_directories(base_ + "/sys/fs/xfs/dm-3");
  EXPECT_THAT(Users(), ElementsAre(HasSubstr("/sys/fs/xfs/dm-3")));
  fs::remove_all(base_ + "/sys/fs/xfs");
  fs::create_directories(base_ + "/sys/fs/btrfs/7c1a/devices/dm-3");
  EXPECT_THAT(Users(), ElementsAre(HasSubstr("/sys/fs/btrfs/7c1a/devices/dm-3")));
  Process(100, "quarryd", 1, std::string(kRoot) + "2 1 253:3 / /stage rw - xfs /dev/dm-3 rw\n");
  EXPECT_THAT(Users(), ElementsAre("mounted at /stage")) << "a mount that is shown says it better";
}

TEST(ProcessScan, FindsThisProcessOrLeavesItOut) {
  const ProcessScan scan("/proc");
  EXPECT_THAT(*scan.Pids(), ::testing::Contains(getpid()));
  EXPECT_THAT(scan.Describe(getpid()), HasSubstr("this process"));
  EXPECT_THAT(*scan.OpenersOf({999, 999}, 8), IsEmpty());
}

TEST(ProcessScan, GivesUpAtItsTimeLimit) {
  const ProcessScan scan("/proc", std::chrono::milliseconds(0));
  EXPECT_THAT(*scan.HoldersOfMount(0, {}, 8), IsEmpty());
}

}  // namespace
}  // namespace quarry::mount
