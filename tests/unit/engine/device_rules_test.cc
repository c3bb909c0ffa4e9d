#include "engine/model/device_rules.h"

#include <gtest/gtest.h>

namespace quarry::engine {
namespace {

udev::Disk SomeDisk() {
  udev::Disk disk;
  disk.name = "nvme3n1";
  disk.node = "/dev/nvme3n1";
  disk.identity = "eui.1";
  disk.model = "INTEL SSDPE2KX010T8";
  disk.serial = "PHLJ9";
  disk.transport = "nvme";
  disk.size = Bytes{100 * kGiB.value};
  disk.links = {"/dev/disk/by-id/nvme-eui.1", "/dev/disk/by-path/pci-0000:01"};
  return disk;
}

bool Meets(const DeviceRule& rule, const udev::Disk& disk = SomeDisk()) {
  return Match(rule, disk).meets;
}

TEST(DeviceRule, EveryConditionMustHold) {
  EXPECT_TRUE(Meets({.model = "INTEL*"}));
  EXPECT_TRUE(Meets({.model = "INTEL*", .serial = "PHLJ?", .transport = "nvme", .rotational = false}));
  EXPECT_FALSE(Meets({.model = "INTEL*", .serial = "PHLJ"}));
  EXPECT_FALSE(Meets({.model = "intel*"}));
  EXPECT_FALSE(Meets({.model = "INTEL*", .transport = "sata"}));
  EXPECT_FALSE(Meets({.model = "INTEL*", .rotational = true}));
}

TEST(DeviceRule, APathIsANodeALinkOrAPatternOfLinks) {
  EXPECT_TRUE(Meets({.path = "/dev/nvme3n1"}));
  EXPECT_TRUE(Meets({.path = "/dev/disk/by-id/nvme-eui.1"}));
  EXPECT_FALSE(Meets({.path = "/dev/disk/by-id/nvme-eui.2"}));
  EXPECT_TRUE(Meets({.path = "/dev/disk/by-id/nvme-*"}));
  EXPECT_TRUE(Meets({.path = "/dev/disk/by-p?th/pci-*", .min_size = kGiB}));
  EXPECT_FALSE(Meets({.path = "/dev/disk/*"})) << "a star does not match a slash";
  EXPECT_FALSE(Meets({.path = "/dev/nvme*"})) << "the kernel's names match no pattern";
}

TEST(DeviceRule, AWrongSizeIsReportedOnlyIfAllElseMatches) {
  const Bytes size = SomeDisk().size;
  EXPECT_TRUE(Meets({.min_size = size, .max_size = size}));
  EXPECT_EQ(Match({.model = "INTEL*", .min_size = size + Bytes{1}}, SomeDisk()).but,
            "smaller than 100.00 GiB");
  EXPECT_EQ(Match({.max_size = size - Bytes{1}}, SomeDisk()).but, "larger than 100.00 GiB");
  EXPECT_EQ(Match({.model = "ACME", .min_size = size + Bytes{1}}, SomeDisk()).but, "");
}

TEST(DeviceRule, AVirtualDiskIsMatchedOnlyByItsName) {
  udev::Disk loop = SomeDisk();
  loop.node = "/dev/loop0";
  loop.transport = "loop";
  loop.made_up = true;
  EXPECT_FALSE(Meets({.model = "*"}, loop));
  EXPECT_FALSE(Meets({.path = "/dev/disk/by-id/*"}, loop));
  EXPECT_TRUE(Meets({.transport = "loop"}, loop));
  EXPECT_TRUE(Meets({.path = "/dev/loop0"}, loop));
}

TEST(DeviceRule, OnlyAPlainPathIsExplicit) {
  EXPECT_TRUE((DeviceRule{.path = "/dev/a"}.IsExplicit()));
  EXPECT_FALSE((DeviceRule{.path = "/dev/disk/by-id/a*"}.IsExplicit()));
  EXPECT_FALSE((DeviceRule{.path = "/dev/a", .min_size = kGiB}.IsExplicit()));
  EXPECT_FALSE((DeviceRule{.serial = "x"}.IsExplicit()));
}

TEST(DeviceRule, TextNamesTheConditions) {
  EXPECT_EQ((DeviceRule{.path = "/dev/a"}.Text()), "/dev/a");
  EXPECT_EQ((DeviceRule{.model = "I*", .min_size = kGiB, .rotational = false}.Text()),
            "model=I*, min-size=1 GiB, rotational=false");
}

}  // namespace
}  // namespace quarry::engine
