#include "mount/device_holders.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace quarry::mount {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr DeviceNumber kDevice{253, 3};
constexpr const char* kRoot = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";

// procfs and sysfs of a machine with dm-3 (vg-lv). Links of processes lead to real files, so their mount id
// is that of the temporary directory.
class DeviceHoldersTest : public ::testing::Test {
 protected:
  DeviceHoldersTest() {
    std::string pattern = (fs::temp_directory_path() / "quarry-holders-XXXXXX").string();
    base_ = mkdtemp(pattern.data());
    Device("dm-3", "253:3", "vg-lv");
    Process(100, "systemd", 1, kRoot);
    fs::create_symlink("100", base_ + "/proc/self");
    Write("/proc/swaps", "Filename\tType\n");
  }
  ~DeviceHoldersTest() override { fs::remove_all(base_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(base_ + path).parent_path());
    std::ofstream(base_ + path) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    fs::create_directories(fs::path(base_ + path).parent_path());
    fs::create_symlink(target, base_ + path);
  }
  void Device(const std::string& kernel, const std::string& number, const std::string& mapped) {
    const std::string place = "/sys/devices/virtual/block/" + kernel;
    fs::create_directories(base_ + place + "/holders");
    Write(place + "/dev", number + "\n");
    if (!mapped.empty()) {
      Write(place + "/dm/name", mapped + "\n");
    }
    Link("/sys/dev/block/" + number, "../../devices/virtual/block/" + kernel);
    Link("/sys/block/" + kernel, "../devices/virtual/block/" + kernel);
  }
  void Process(int pid, const std::string& name, int name_space, const std::string& mountinfo) {
    const std::string place = "/proc/" + std::to_string(pid);
    Write(place + "/comm", name + "\n");
    Write(place + "/mountinfo", mountinfo);
    Link(place + "/ns/mnt", fmt::format("mnt:[{}]", name_space));
    fs::create_directories(base_ + place + "/fd");
  }
  // A line of mountinfo: a mount of dm-3 with the mount id that files below the temporary directory really
  // have.
  std::string MountOfTheDevice(const std::string& target) {
    struct statx st{};
    EXPECT_EQ(statx(AT_FDCWD, base_.c_str(), 0, STATX_MNT_ID, &st), 0);
    return fmt::format("{} 1 253:3 / {} rw - ext4 /dev/dm-3 rw\n", st.stx_mnt_id, target);
  }
  DeviceHolders Holders() {
    auto holders = HoldersOf(kDevice, base_ + "/proc", base_ + "/sys", std::chrono::seconds(30));
    EXPECT_TRUE(holders.has_value());
    return holders.value_or(DeviceHolders{});
  }

  std::string base_;
};

TEST_F(DeviceHoldersTest, AnUnusedDeviceHasNoHolders) {
  EXPECT_TRUE(Holders().empty());
  EXPECT_TRUE(Holders().complete);
}

TEST_F(DeviceHoldersTest, AFileOfProcThatNeverAnswersEndsTheSearch) {
  Write("/proc/100/mountinfo", MountOfTheDevice("/data"));
  Process(200, "", 1, kRoot);
  Link("/proc/200/cwd", base_);
  const std::string silent = base_ + "/proc/200/comm";
  fs::remove(silent);
  ASSERT_EQ(mkfifo(silent.c_str(), 0600), 0);
  const auto holders = HoldersOf(kDevice, base_ + "/proc", base_ + "/sys", std::chrono::milliseconds(1));
  ASSERT_TRUE(holders.has_value());
  EXPECT_FALSE(holders->complete);
  EXPECT_THAT(holders->mounts, SizeIs(1));
  // Lets the thread end.
  const int writer = open(silent.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_GE(writer, 0) << "no thread reads the file";
  close(writer);
}

TEST_F(DeviceHoldersTest, AnUnreadableProcOrSysIsAnError) {
  EXPECT_EQ(HoldersOf(kDevice, base_ + "/absent", base_ + "/sys", {}).error().code(), Code::kUnavailable);
  EXPECT_EQ(HoldersOf(kDevice, base_ + "/proc", base_ + "/absent", {}).error().code(), Code::kUnavailable);
}

TEST_F(DeviceHoldersTest, MountsOfEveryNamespaceAreListedOnce) {
  Process(7, "nginx", 2, std::string(kRoot) + "9 1 253:3 / /srv ro - ext4 /dev/dm-3 rw\n");
  Process(8, "nginx", 2, std::string(kRoot) + "9 1 253:3 / /srv ro - ext4 /dev/dm-3 rw\n");
  Process(9, "qemu", 3, std::string(kRoot) + "9 1 0:5 /dm-3 /dev/vol rw - devtmpfs udev rw\n");
  const auto mounts = Holders().mounts;
  ASSERT_THAT(mounts, SizeIs(2));
  EXPECT_EQ(mounts[0].target, "/srv");
  EXPECT_EQ(mounts[0].pid, 7);
  EXPECT_EQ(mounts[0].process, "nginx");
  EXPECT_TRUE(mounts[0].read_only);
  EXPECT_FALSE(mounts[0].node);
  EXPECT_EQ(mounts[1].target, "/dev/vol");
  EXPECT_TRUE(mounts[1].node);
}

TEST_F(DeviceHoldersTest, AProcessIsListedWithWhatItUses) {
  Process(7, "postgres", 2, MountOfTheDevice("/data"));
  Write("/file", "x");
  Link("/proc/7/cwd", base_ + "/proc");
  Link("/proc/7/exe", "/proc/version");  // on another file system
  Link("/proc/7/fd/3", base_ + "/file");
  Link("/proc/7/fd/4", base_ + "/file");
  Link("/proc/7/fd/5", base_ + "/file");
  Write("/proc/7/cmdline", std::string("postgres\0-D\0/data\0", 18));
  Write("/proc/7/cgroup", "0::/system.slice/postgresql.service\n");
  const auto processes = Holders().processes;
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_EQ(processes[0].pid, 7);
  EXPECT_EQ(processes[0].name, "postgres");
  EXPECT_EQ(processes[0].command, "postgres -D /data");
  EXPECT_EQ(processes[0].container, "service postgresql.service");
  EXPECT_EQ(processes[0].uid, getuid());
  EXPECT_THAT(processes[0].uses,
              ElementsAre("works in " + base_ + "/proc", "has " + base_ + "/file open (fd 3)",
                          "has " + base_ + "/file open (fd 4)"));
  EXPECT_EQ(processes[0].more_uses, 1U);
}

TEST_F(DeviceHoldersTest, AProcessThatMapsAFileIsListed) {
  Process(7, "java", 2, MountOfTheDevice("/data"));
  Write("/file", "x");
  Write("/proc/7/maps",
        "1000-2000 r--p 00000000 fd:03 12  /data/file\n3000-4000 r--p 00000000 08:01 13 /x\n");
  Link("/proc/7/map_files/1000-2000", base_ + "/file");
  const auto processes = Holders().processes;
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_THAT(processes[0].uses, ElementsAre("maps " + base_ + "/file"));
}

TEST_F(DeviceHoldersTest, ProcessesThatDoNotUseItAreNotListed) {
  Process(7, "cat", 2, kRoot);
  Write("/file", "x");
  Link("/proc/7/fd/3", base_ + "/file");
  Process(8, "sh", 3, "nonsense");
  fs::create_directories(base_ + "/proc/9");
  EXPECT_THAT(Holders().processes, IsEmpty());
}

TEST_F(DeviceHoldersTest, HoldersOfDevicesOnTopCountToo) {
  Device("dm-5", "253:5", "crypt");
  Link("/sys/devices/virtual/block/dm-3/holders/dm-5", "../../dm-5");
  Process(7, "nginx", 2, std::string(kRoot) + "9 1 253:5 / /secret rw - ext4 /dev/mapper/crypt rw\n");
  const DeviceHolders holders = Holders();
  ASSERT_THAT(holders.devices, SizeIs(1));
  EXPECT_EQ(holders.devices[0].device, "dm-5");
  EXPECT_EQ(holders.devices[0].name, "crypt");
  EXPECT_EQ(holders.devices[0].under, "dm-3");
  ASSERT_THAT(holders.mounts, SizeIs(1));
  EXPECT_EQ(holders.mounts[0].target, "/secret");
  EXPECT_EQ(holders.mounts[0].device, "dm-5");
}

TEST_F(DeviceHoldersTest, ACircleOfDevicesEnds) {
  Device("dm-5", "253:5", "a");
  Link("/sys/devices/virtual/block/dm-3/holders/dm-5", "../../dm-5");
  Link("/sys/devices/virtual/block/dm-5/holders/dm-3", "../../dm-3");
  EXPECT_THAT(Holders().devices, SizeIs(2));
}

TEST_F(DeviceHoldersTest, ALoopDeviceOnAFileOfTheVolumeHoldsIt) {
  Process(7, "sh", 2, MountOfTheDevice("/data"));
  Write("/image", "x");
  Device("loop4", "7:4", "");
  Write("/sys/devices/virtual/block/loop4/loop/backing_file", base_ + "/image\n");
  Device("loop5", "7:5", "");
  Write("/sys/devices/virtual/block/loop5/loop/backing_file", "/proc/version\n");
  const auto devices = Holders().devices;
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_EQ(devices[0].device, "loop4");
  EXPECT_EQ(devices[0].name, base_ + "/image");
}

TEST_F(DeviceHoldersTest, SwapOnTheDeviceIsListed) {
  Write("/proc/swaps", "Filename Type\n/dev/dm-33 partition\n/dev/dm-3 partition\n");
  EXPECT_THAT(Holders().swaps, ElementsAre("/dev/dm-3"));
}

TEST_F(DeviceHoldersTest, AFileSystemThatNoMountShowsIsReported) {
  fs::create_directories(base_ + "/sys/fs/xfs/dm-3");
  EXPECT_EQ(Holders().unseen_file_system, base_ + "/sys/fs/xfs/dm-3");
}

TEST_F(DeviceHoldersTest, ASearchThatRunsOutOfTimeSaysSo) {
  const auto holders = HoldersOf(kDevice, base_ + "/proc", base_ + "/sys", std::chrono::milliseconds(0));
  ASSERT_TRUE(holders.has_value());
  EXPECT_FALSE(holders->complete);
}

}  // namespace
}  // namespace quarry::mount
