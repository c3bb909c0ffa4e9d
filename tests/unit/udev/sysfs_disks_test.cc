// Disks read from a tree that looks like sysfs, and from links such as udevd makes.
#include "udev/sysfs_disks.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quarry::udev {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class SysfsDisks : public testing::Test {
 protected:
  SysfsDisks() {
    std::string name = "/tmp/quarry-sysfs-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "class");
    fs::create_directories(root_ / "dev");
  }
  ~SysfsDisks() override { fs::remove_all(root_); }

  // A device directory below devices/, and its entry in the class.
  fs::path Add(const std::string& place, const std::string& name) {
    const fs::path device = root_ / "devices" / place / name;
    fs::create_directories(device);
    fs::create_symlink(device, root_ / "class" / name);
    Set(device, "size", "2097152");
    return device;
  }
  static void Set(const fs::path& device, const std::string& attribute, const std::string& value) {
    const fs::path path = device / attribute;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << value << "\n";
  }
  std::vector<Disk> Read() {
    auto disks = ReadDisks({.sysfs = root_ / "class", .dev = root_ / "dev"});
    EXPECT_TRUE(disks.has_value()) << disks.error().message();
    return disks.value_or(std::vector<Disk>());
  }
  void Link(const std::string& link, const std::string& target) {
    const fs::path path = root_ / "dev/disk" / link;
    fs::create_directories(path.parent_path());
    fs::create_symlink(target, path);
  }

  fs::path root_;
};

TEST_F(SysfsDisks, AnNvmeDiskIsReadWhole) {
  const fs::path disk = Add("pci0000:00/0000:00:03.0/nvme/nvme0", "nvme0n1");
  Set(disk, "dev", "259:3");
  Set(disk, "wwid", "eui.0025385b71b0a9f1");
  Set(disk, "device/model", "Samsung SSD 970 EVO Plus 1TB            ");
  Set(disk, "device/serial", "S4EWNX0R  ");
  Set(disk, "queue/rotational", "0");
  Set(disk, "queue/logical_block_size", "512");
  Set(disk, "queue/physical_block_size", "4096");
  Set(disk, "nvme0n1p1/partition", "1");
  Set(disk, "holders/dm-0/dev", "253:0");
  Link("by-id/nvme-eui.0025385b71b0a9f1", "../../nvme0n1");
  Link("by-path/pci-0000:00:03.0-nvme-1", "../../nvme0n1");
  Link("by-id/nvme-other", "../../nvme1n1");
  const auto disks = Read();
  ASSERT_EQ(disks.size(), 1U);
  const Disk& read = disks.front();
  EXPECT_EQ(read.name, "nvme0n1");
  EXPECT_EQ(read.node, (root_ / "dev/nvme0n1").string());
  EXPECT_EQ(read.number, (DeviceNumber{259, 3}));
  EXPECT_EQ(read.identity, "eui.0025385b71b0a9f1");
  EXPECT_EQ(read.model, "Samsung SSD 970 EVO Plus 1TB");
  EXPECT_EQ(read.serial, "S4EWNX0R");
  EXPECT_EQ(read.transport, "nvme");
  EXPECT_EQ(read.size, kGiB);
  EXPECT_EQ(read.logical_block, Bytes{512});
  EXPECT_EQ(read.physical_block, Bytes{4096});
  EXPECT_FALSE(read.rotational);
  EXPECT_EQ(read.failed_commands, std::nullopt);
  EXPECT_FALSE(read.made_up);
  EXPECT_THAT(read.partitions, ElementsAre("nvme0n1p1"));
  EXPECT_THAT(read.holders, ElementsAre("dm-0"));
  EXPECT_THAT(read.links, ElementsAre((root_ / "dev/disk/by-id/nvme-eui.0025385b71b0a9f1").string(),
                                      (root_ / "dev/disk/by-path/pci-0000:00:03.0-nvme-1").string()));
}

TEST_F(SysfsDisks, AScsiDiskHasItsSerialInAPageAndItsNameFromTheBus) {
  const fs::path disk = Add("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block", "sda");
  Set(disk, "device/wwid", "naa.5000c500a1b2c3d4");
  Set(disk, "device/model", "ST4000NM0035-1V4");
  Set(disk, "device/vpd_pg80", std::string("\0\x80\0\x08", 4) + "ZC1A2B3C");
  Set(disk, "queue/rotational", "1");
  Set(disk, "device/ioerr_cnt", "0x1f");
  Set(disk, "ro", "1");
  const Disk read = Read().front();
  EXPECT_EQ(read.identity, "naa.5000c500a1b2c3d4");
  EXPECT_EQ(read.serial, "ZC1A2B3C");
  EXPECT_EQ(read.transport, "sata");
  EXPECT_TRUE(read.rotational);
  EXPECT_EQ(read.failed_commands, 31U);
  EXPECT_TRUE(read.read_only);
}

TEST_F(SysfsDisks, WithoutAnIdentityOfItsOwnModelAndSerialMakeOne) {
  const fs::path virtio = Add("pci0000:00/0000:00:04.0/virtio1/block", "vda");
  Set(virtio, "serial", "quarry7");
  Add("pci0000:00/0000:00:05.0/virtio2/block", "vdb");
  const auto disks = Read();
  EXPECT_EQ(disks[0].identity, "serial:quarry7");
  EXPECT_EQ(disks[0].transport, "virtio");
  EXPECT_EQ(disks[1].identity, "") << "a name of the kernel is no identity";
}

TEST_F(SysfsDisks, PartitionsVolumesHiddenAndEmptyDevicesAreNoDisks) {
  Set(Add("pci0/block/sda", "sda1"), "partition", "1");
  Set(Add("virtual/block", "dm-0"), "dm/uuid", "LVM-abcdef");
  Set(Add("pci0/nvme/nvme0", "nvme0c0n1"), "hidden", "1");
  Set(Add("pci0/host0/block", "sr0"), "size", "0");
  EXPECT_THAT(Read(), IsEmpty());
}

TEST_F(SysfsDisks, DevicesMadeOfOthersAreMarked) {
  Set(Add("virtual/block", "dm-1"), "dm/uuid", "mpath-3600508b4");
  Add("virtual/block", "loop0");
  Add("virtual/block", "md127");
  Add("virtual/block", "zram0");
  Add("virtual/nvme-subsystem/nvme-subsys0", "nvme0n1");
  const auto disks = Read();
  ASSERT_EQ(disks.size(), 5U);
  for (const Disk& disk : disks) {
    EXPECT_EQ(disk.made_up, disk.name != "nvme0n1") << disk.name;
  }
  EXPECT_EQ(disks[0].transport, "dm");
  EXPECT_EQ(disks[0].identity, "mpath-3600508b4");
}

TEST_F(SysfsDisks, BytesThatAreNoTextDoNotGetThrough) {
  const fs::path disk = Add("pci0/nvme/nvme0", "nvme0n1");
  Set(disk, "device/model", "A\xff\x01Z");
  Set(disk, "device/serial", std::string("S1\0\0", 4));
  EXPECT_EQ(Read().front().model, "A??Z");
  EXPECT_EQ(Read().front().serial, "S1");
}

// Reading a directory fails, as the kernel lets the read of such an attribute fail.
TEST_F(SysfsDisks, AnAttributeThatCannotBeReadCountsAsAbsent) {
  const fs::path disk = Add("scsi", "sda");
  fs::create_directories(disk / "device/wwid");
  Set(disk, "device/model", "QEMU HARDDISK");
  const auto disks = Read();
  ASSERT_EQ(disks.size(), 1U);
  EXPECT_EQ(disks[0].model, "QEMU HARDDISK");
}

TEST_F(SysfsDisks, NoSysfsIsAFailureToLookAndNotAnEmptyNode) {
  const auto disks = ReadDisks({.sysfs = root_ / "nothing", .dev = root_ / "dev"});
  ASSERT_FALSE(disks.has_value());
  EXPECT_EQ(disks.error().code(), Code::kUnavailable);
}

TEST(Transport, IsWhatTheDiskIsPluggedInto) {
  EXPECT_EQ(TransportOf("sdb", "/sys/devices/pci0/usb2/2-1/2-1:1.0/host6/target6:0:0/block/sdb"), "usb");
  EXPECT_EQ(TransportOf("sdc", "/sys/devices/pci0/virtio3/host2/target2:0:0/2:0:0:0/block/sdc"), "scsi");
  EXPECT_EQ(TransportOf("mmcblk0", "/sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0"), "mmc");
  EXPECT_EQ(TransportOf("mdx", "/sys/devices/x/block/mdx"), "other") << "not every name with md is an array";
  for (const char* name : {"nvme0n1", "sda", "vda", "mmcblk0"}) {
    EXPECT_TRUE(IsPluggable(name)) << name;
  }
  for (const char* name : {"dm-7", "loop0", "zram0", "md0"}) {
    EXPECT_FALSE(IsPluggable(name)) << name;
  }
}

}  // namespace
}  // namespace quarry::udev
