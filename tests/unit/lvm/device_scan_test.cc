#include "lvm/read/device_scan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A sysfs and a /dev made of files; directories stand for unreadable devices.
class DeviceScanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // O_DIRECT needs a file system that supports it; /tmp may not.
    std::string name = (fs::current_path() / "device-scan-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "sys");
    fs::create_directories(root_ / "dev");
  }
  void TearDown() override { fs::remove_all(root_); }

  void Set(const std::string& name, const std::string& attribute, const std::string& value) {
    fs::create_directories((root_ / "sys" / name / attribute).parent_path());
    std::ofstream(root_ / "sys" / name / attribute) << value << "\n";
  }
  void AddDisk(const std::string& name) {
    Set(name, "size", "2048");
    std::ofstream(root_ / "dev" / name) << std::string(8192, 'x');
  }
  void AddUnreadable(const std::string& name) {
    Set(name, "size", "2048");
    fs::create_directories(root_ / "dev" / name);
  }
  Status Scan(const Call& call = {}) { return EveryDeviceAnswers(call, root_ / "sys", root_ / "dev"); }

  fs::path root_;
};

TEST_F(DeviceScanTest, ReadableDisksAnswer) {
  AddDisk("nvme0n1");
  AddDisk("sda");
  const Status status = Scan();
  EXPECT_TRUE(status.has_value()) << status.error().message();
}

TEST_F(DeviceScanTest, OneUnreadableDiskLeavesTheQuestionOpen) {
  AddDisk("nvme0n1");
  AddUnreadable("nvme1n1");
  const Status status = Scan();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code(), Code::kUnavailable);
  EXPECT_THAT(status.error().message(), HasSubstr("nvme1n1"));
}

TEST_F(DeviceScanTest, ASuspendedDeviceIsNotTouched) {
  AddUnreadable("dm-3");
  Set("dm-3", "dm/suspended", "1");
  const Status status = Scan();
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message(), HasSubstr("suspended"));
}

TEST_F(DeviceScanTest, DevicesThatHoldNoPvDoNotMatter) {
  AddUnreadable("dm-0");
  Set("dm-0", "dm/uuid", "LVM-abcdef");
  Set("dm-0", "dm/suspended", "1");
  AddUnreadable("loop0");
  Set("loop0", "size", "0");
  AddUnreadable("nvme0c0n1");
  Set("nvme0c0n1", "hidden", "1");
  Set("gone", "size", "2048");  // removed meanwhile: the node is gone
  const Status status = Scan();
  EXPECT_TRUE(status.has_value()) << status.error().message();
}

TEST_F(DeviceScanTest, NamesWithASlashAreFound) {
  Set("cciss!c0d0", "size", "2048");
  fs::create_directories(root_ / "dev/cciss/c0d0");
  EXPECT_FALSE(Scan().has_value());
}

TEST_F(DeviceScanTest, WithoutSysfsWeCouldNotLook) {
  fs::remove_all(root_ / "sys");
  EXPECT_EQ(Scan().error().code(), Code::kUnavailable);
}

TEST_F(DeviceScanTest, KeepsTheDeadline) {
  AddDisk("sda");
  EXPECT_EQ(Scan({.deadline = SteadyTime::min()}).error().code(), Code::kTimeout);
}

}  // namespace
}  // namespace quarry::lvm
