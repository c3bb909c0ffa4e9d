#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "mount/mount_api.h"
#include "tests/fakes/mount_words.h"

namespace quarry::mount {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AbsolutePath Path(std::string_view text) {
  return *AbsolutePath::Parse(text);
}

MountTable Table(std::string_view text) {
  auto table = MountTable::Parse(text);
  EXPECT_TRUE(table.has_value()) << table.error().message();
  return std::move(*table);
}

TEST(Mountinfo, ReadsEveryFieldOfALine) {
  const MountTable table = Table(
      "36 35 98:3 /sub /mnt2 rw,noatime master:1 propagate_from:7 - ext3 /dev/root rw,errors=continue\n");
  ASSERT_EQ(table.entries().size(), 1U);
  const MountEntry& entry = table.entries()[0];
  EXPECT_EQ(entry.id, 36U);
  EXPECT_EQ(entry.parent_id, 35U);
  EXPECT_EQ(entry.device, (DeviceNumber{98, 3}));
  EXPECT_EQ(entry.backing, (DeviceNumber{98, 3}));
  EXPECT_EQ(entry.root, "/sub");
  EXPECT_EQ(entry.target, "/mnt2");
  EXPECT_THAT(entry.options, ElementsAre("rw", "noatime"));
  EXPECT_EQ(entry.fs_type, "ext3");
  EXPECT_EQ(entry.source, "/dev/root");
  EXPECT_THAT(entry.super_options, ElementsAre("rw", "errors=continue"));
}

TEST(Mountinfo, DecodesEscapesAndKeepsOtherBackslashes) {
  const MountTable table =
      Table("1 1 8:1 / /a\\040b\\011c\\012d\\134e rw - ext4 /dev/\\043x\\9\\ rw,name=a\\054b\n");
  EXPECT_EQ(table.entries()[0].target, "/a b\tc\nd\\e");
  EXPECT_EQ(table.entries()[0].source, "/dev/#x\\9\\");
  EXPECT_THAT(table.entries()[0].super_options, ElementsAre("rw", "name=a,b"));
}

TEST(Mountinfo, TakesLinesWithoutOptionalFieldsAndWithAnEmptySource) {
  const MountTable table = Table("1 1 0:9 / /a rw - tmpfs  rw,size=4k\n2 1 0:10 / /b rw - none none rw");
  EXPECT_EQ(table.entries()[0].source, "");
  EXPECT_THAT(table.entries()[0].super_options, ElementsAre("rw", "size=4k"));
  EXPECT_EQ(table.entries()[1].target, "/b");
}

TEST(Mountinfo, ReadsThePeerGroupOfASharedMount) {
  const MountTable table = Table(
      "1 1 8:1 / / rw master:4 shared:17 propagate_from:2 - ext4 /dev/x rw\n"
      "2 1 8:2 / /a rw master:17 - ext4 /dev/y rw\n"
      "3 1 8:3 /shared:9 /b rw - ext4 shared:9 rw\n");
  EXPECT_EQ(table.entries()[0].peer_group, 17U);
  EXPECT_EQ(table.entries()[1].peer_group, 0U) << "a slave hears, and is not heard";
  EXPECT_EQ(table.entries()[2].peer_group, 0U);
  EXPECT_FALSE(MountTable::Parse("1 1 8:1 / / rw shared:x - ext4 /dev/x rw\n").has_value());
}

TEST(Mountinfo, AFileSystemWithoutADeviceHasNoBacking) {
  EXPECT_EQ(Table("1 1 0:45 / /a rw - btrfs /dev/dm-3 rw\n").entries()[0].backing, (DeviceNumber{0, 0}));
}

TEST(Mountinfo, KeepsCommasOfSecurityContexts) {
  const MountTable table = Table("1 1 8:1 / /a rw - xfs /dev/x rw,context=\"u:r:t:s0:c1,c2\",ro,odd=\"x\n");
  EXPECT_THAT(table.entries()[0].super_options,
              ElementsAre("rw", "context=\"u:r:t:s0:c1,c2\"", "ro", "odd=\"x"));
  EXPECT_TRUE(table.entries()[0].read_only());
}

TEST(Mountinfo, NamesTheMalformedLine) {
  for (const char* bad :
       {"", "x", "1 1 8:1 / /a rw", "1 1 8:1 / /a rw - ", "1 1 8 / /a rw - t s rw",
        "1 1 8:x / /a rw - t s rw", "-1 1 8:1 / /a rw - t s rw", "1 1 8:1  /a rw - t s rw",
        "1 1 8:1 / a rw - t s rw", "1 1 8:1 / /a rw shared:1", "99999999999999999999 1 8:1 / /a rw - t s rw",
        "1  8:1 / /a rw - t s rw", "1 1 8:4294967296 / /a rw - t s rw"}) {
    const auto table = MountTable::Parse(std::string("1 1 8:1 / / rw - t s rw\n") + bad + "\n");
    ASSERT_FALSE(table.has_value()) << bad;
    EXPECT_EQ(table.error().code(), Code::kCorrupt);
    EXPECT_THAT(table.error().message(), HasSubstr("line 2"));
  }
}

TEST(Mountinfo, AcceptsAnEmptyTable) {
  EXPECT_TRUE(Table("").entries().empty());
  EXPECT_EQ(Table("").At(Path("/")), nullptr);
}

TEST(Mountinfo, IsReadOnlyByTheMountOrByTheFileSystem) {
  EXPECT_FALSE(Table("1 1 8:1 / / rw - t s rw\n").entries()[0].read_only());
  EXPECT_TRUE(Table("1 1 8:1 / / ro - t s rw\n").entries()[0].read_only());
  EXPECT_TRUE(Table("1 1 8:1 / / rw - t s ro\n").entries()[0].read_only());
  EXPECT_FALSE(Table("1 1 8:1 / / rw - t s rw,errors=remount-ro\n").entries()[0].read_only());
}

TEST(MountTable, FindsTheTopOfAStackWhateverTheOrderOfItsLines) {
  constexpr std::string_view kRoot = "1 0 8:1 / / rw - ext4 r rw\n";
  constexpr std::string_view kBottom = "20 1 8:2 / /a rw - ext4 bottom rw\n";
  constexpr std::string_view kMiddle = "5 20 8:3 / /a rw - ext4 middle rw\n";
  constexpr std::string_view kTop = "11 5 8:4 / /a rw - ext4 top rw\n";
  for (const std::string& text :
       {std::string(kRoot) + std::string(kBottom) + std::string(kMiddle) + std::string(kTop),
        std::string(kTop) + std::string(kMiddle) + std::string(kRoot) + std::string(kBottom)}) {
    const MountTable table = Table(text);
    ASSERT_NE(table.At(Path("/a")), nullptr);
    EXPECT_EQ(table.At(Path("/a"))->source, "top");
    EXPECT_EQ(table.At(Path("/a/b")), nullptr);
    EXPECT_EQ(table.At(Path("/b")), nullptr);
    EXPECT_EQ(table.At(Path("/"))->source, "r");
  }
}

TEST(MountTable, DoesNotFindWhatAnotherMountHides) {
  const MountTable table = Table(
      "1 0 8:1 / / rw - ext4 root rw\n"
      "2 1 8:2 / /a/b rw - ext4 hidden rw\n"
      "3 1 8:3 / /a rw - ext4 cover rw\n");
  EXPECT_EQ(table.At(Path("/a"))->source, "cover");
  EXPECT_EQ(table.At(Path("/a/b")), nullptr);
  EXPECT_EQ(table.Of({8, 2}).size(), 1U) << "it is still mounted, and keeps its device busy";
}

TEST(MountTable, FollowsMountsWithinMounts) {
  const MountTable table = Table(
      "1 1 0:2 / / rw - rootfs rootfs rw\n"
      "22 1 8:1 / / rw - ext4 real rw\n"
      "30 22 8:2 / /a rw - ext4 a rw\n"
      "31 30 8:3 / /a/b/c rw - ext4 c rw\n");
  EXPECT_EQ(table.At(Path("/"))->source, "real");
  EXPECT_EQ(table.At(Path("/a/b/c"))->source, "c");
  EXPECT_EQ(table.At(Path("/a/b")), nullptr);
}

TEST(MountTable, WorksIfTheRootIsNotAMountPoint) {
  const MountTable table = Table(
      "40 22 8:2 / /a rw - ext4 a rw\n"
      "41 40 8:3 / /a/b rw - ext4 b rw\n");
  EXPECT_EQ(table.At(Path("/")), nullptr);
  EXPECT_EQ(table.At(Path("/a/b"))->source, "b");
}

TEST(MountTable, ACircleOfParentsDoesNotHangIt) {
  const MountTable table = Table(
      "1 9 8:1 / / rw - ext4 root rw\n"
      "2 3 8:2 / /a rw - ext4 x rw\n"
      "3 2 8:3 / /a rw - ext4 y rw\n"
      "4 1 8:3 / /b rw - ext4 b rw\n"
      "5 4 8:3 / /b rw - ext4 c rw\n"
      "4 5 8:3 / /b rw - ext4 d rw\n");
  EXPECT_EQ(table.At(Path("/a")), nullptr);
  EXPECT_NE(table.At(Path("/b")), nullptr);
}

TEST(MountTable, ListsEveryMountOfADeviceByNumberOrBacking) {
  auto entries = Table(
                     "1 0 8:1 / / rw - ext4 root rw\n"
                     "2 1 253:4 / /stage rw - ext4 /dev/dm-4 rw\n"
                     "3 1 253:4 / /pod ro - ext4 /dev/dm-4 rw\n"
                     "4 1 0:45 / /other rw - btrfs /dev/dm-4 rw\n")
                     .entries();
  entries[3].backing = {253, 4};
  std::vector<std::string> targets;
  for (const MountEntry* entry : MountTable(entries).Of({253, 4})) {
    targets.push_back(entry->target);
  }
  EXPECT_EQ(targets, (std::vector<std::string>{"/stage", "/pod", "/other"}));
}

TEST(MountTable, FindsAMountByItsId) {
  const MountTable table = Table("1 1 8:1 / / rw - ext4 /dev/x rw\n7 1 8:2 / /a rw - ext4 /dev/y rw\n");
  ASSERT_NE(table.ById(7), nullptr);
  EXPECT_EQ(table.ById(7)->target, "/a");
  EXPECT_EQ(table.ById(2), nullptr);
}

TEST(MountTable, ReportsTheFlagsInForceAtAMount) {
  const auto flags = [](std::string_view options, std::string_view super) {
    return fakes::PerMountFlagsOf(
        Table("1 0 8:1 / / " + std::string(options) + " - ext4 r " + std::string(super)).entries()[0]);
  };
  EXPECT_EQ(flags("rw,relatime", "rw"), uint64_t{MS_RELATIME});
  EXPECT_EQ(flags("ro,nosuid,nodev,noexec,noatime,nodiratime", "rw"),
            uint64_t{MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME});
  EXPECT_EQ(flags("rw,nosymfollow", "ro"), uint64_t{MS_RDONLY | MS_NOSYMFOLLOW | MS_STRICTATIME});
}

}  // namespace
}  // namespace quarry::mount
