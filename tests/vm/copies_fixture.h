// What the tests of copies and of snapshots share: volumes in use and out of use, extents with old bytes, and
// free space that must hold none.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/vm/fixture.h"

namespace quarry::vm {

class CopiesFixture : public VmTest {
 protected:
  static constexpr int64_t kRaw = 32 * kMi;
  static constexpr int64_t kMounted = 304 * kMi;
  static constexpr uint64_t kFile = 8 << 20;

  void Use(const v1::Volume& volume, const std::string& name, const v1::VolumeCapability& how) {
    ASSERT_OK(client().Stage(volume, StagingPath(name), how));
    ASSERT_OK(client().Publish(volume, StagingPath(name), TargetPath(name), how));
  }
  void Release(const v1::Volume& volume, const std::string& name) {
    ASSERT_OK(client().Unpublish(volume.volume_id(), TargetPath(name)));
    ASSERT_OK(client().Unstage(volume.volume_id(), StagingPath(name)));
  }
  // The extents that new volumes get hold the bytes of somebody else.
  static void Dirty() {
    for (const std::string& device : group().devices()) {
      ASSERT_EQ(Tool({"lvcreate", "-y", "-Wn", "-Zn", "-l", "30", "-n", "dirt", kGroup, device}).status, 0);
      ASSERT_OK(WritePattern(std::string("/dev/") + kGroup + "/dirt", 31, 30 * 4 * kMi));
      ASSERT_EQ(Tool({"lvremove", "-y", std::string(kGroup) + "/dirt"}).status, 0);
    }
  }
  static void ZeroFreeSpace() {
    ASSERT_EQ(Tool({"lvcreate", "-y", "-Wn", "-Zn", "-l", "100%FREE", "-n", "all", kGroup}).status, 0);
    ASSERT_EQ(Tool({"blkdiscard", "-z", std::string("/dev/") + kGroup + "/all"}).status, 0);
    ASSERT_EQ(Tool({"lvremove", "-y", std::string(kGroup) + "/all"}).status, 0);
  }
  // The name of the logical volume that is a copy in progress, as its tags say; empty: there is none.
  static std::string Unfinished() {
    const auto lvs = group().Lvs();
    if (!lvs.has_value()) {
      return "";
    }
    for (const auto& [name, lv] : *lvs) {
      if (std::ranges::any_of(lv.tags, [](const auto& tag) { return tag.starts_with("quarry.copying="); })) {
        return name;
      }
    }
    return "";
  }
  // An unmanaged volume over all free space shows no byte.
  static void ExpectFreeSpaceIsZero() {
    ASSERT_EQ(Tool({"lvcreate", "-y", "-Wn", "-Zn", "-l", "100%FREE", "-n", "all", kGroup}).status, 0);
    const std::string all = std::string("/dev/") + kGroup + "/all";
    std::istringstream size(Tool({"blockdev", "--getsize64", all}).out);
    uint64_t bytes = 0;
    size >> bytes;
    EXPECT_GT(bytes, 0U);
    EXPECT_OK(CheckZero(all, bytes));
    ASSERT_EQ(Tool({"lvremove", "-y", std::string(kGroup) + "/all"}).status, 0);
  }
};

}  // namespace quarry::vm
