#include "base/scsi_recovery.h"

#include <stdlib.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace quarry {
namespace {

namespace fs = std::filesystem;

// Links as in sysfs: /sys/dev/block/8:0 points to the disk's folder, whose "device" points to the SCSI unit.
class ScsiRecoveryTest : public ::testing::Test {
 protected:
  ScsiRecoveryTest() {
    std::string pattern = (fs::temp_directory_path() / "quarry-scsi-XXXXXX").string();
    sysfs_ = mkdtemp(pattern.data());
    const fs::path unit = sysfs_ / "devices/host3/target3:0:1/3:0:1:0";
    fs::create_directories(unit / "block/sda/sda1");
    fs::create_symlink("../../../3:0:1:0", unit / "block/sda/device");
    fs::create_directories(sysfs_ / "dev/block");
    fs::create_symlink(unit / "block/sda", sysfs_ / "dev/block/8:0");
    fs::create_symlink(unit / "block/sda/sda1", sysfs_ / "dev/block/8:1");
    fs::create_symlink(unit / "block/sda/sda1",
                       sysfs_ / "dev/block/259:7");  // for example a sixteenth partition
    // A CD drive, and a disk that is not a SCSI disk though its number equals the host's.
    fs::create_directories(unit / "block/sr0");
    fs::create_symlink("../../../3:0:1:0", unit / "block/sr0/device");
    fs::create_symlink(unit / "block/sr0", sysfs_ / "dev/block/11:0");
    fs::create_directories(sysfs_ / "devices/virtio3/block/vda");
    fs::create_symlink("../../../virtio3", sysfs_ / "devices/virtio3/block/vda/device");
    fs::create_symlink(sysfs_ / "devices/virtio3/block/vda", sysfs_ / "dev/block/253:0");
    fs::create_directories(sysfs_ / "class/scsi_host/host3");
  }
  ~ScsiRecoveryTest() override { fs::remove_all(sysfs_); }

  void SetState(const std::string& state) {
    std::ofstream(sysfs_ / "class/scsi_host/host3/state") << state << "\n";
  }
  bool Ask(unsigned int major, unsigned int minor) {
    return IsInScsiRecovery(makedev(major, minor), sysfs_.string());
  }

  fs::path sysfs_;
};

TEST_F(ScsiRecoveryTest, TheHostsStateCountsForDisksPartitionsAndDrives) {
  SetState("running");
  EXPECT_FALSE(Ask(8, 0));
  EXPECT_FALSE(Ask(8, 1));
  for (const char* state : {"recovery", "cancel/recovery", "deleted/recovery"}) {
    SetState(state);
    EXPECT_TRUE(Ask(8, 0)) << state;
    EXPECT_TRUE(Ask(8, 1)) << state;
    EXPECT_TRUE(Ask(259, 7)) << state;
    EXPECT_TRUE(Ask(11, 0)) << state;
  }
}

TEST_F(ScsiRecoveryTest, OtherAndAbsentDisksAreNotInRecovery) {
  EXPECT_FALSE(Ask(8, 0)) << "the host has no state";
  SetState("recovery");
  EXPECT_FALSE(Ask(8, 16)) << "no such disk";
  EXPECT_FALSE(Ask(253, 0)) << "no SCSI disk";
}

}  // namespace
}  // namespace quarry
