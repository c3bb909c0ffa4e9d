#include "lvm/fresh/pv_links.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lvm/disk_images.h"

namespace quarry::lvm {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Pair;
using testing::UnorderedElementsAre;

// UUIDs of the fixture's disks.
constexpr char kFirst[] = "rhee3f-5Iq0-ls6J-dzHb-JTHG-eSLX-PViSi0";
constexpr char kSecond[] = "VU11yt-3VJb-dATj-GzLR-duoq-nUsr-C99NKc";

// A host whose disks are files.
class Links : public testing::Test {
 protected:
  Links() {
    for (const char* name : {"sys", "dev"}) {
      fs::create_directory(Root() / name);
    }
    links_ = Make({"v"});
  }

  fs::path Root() const { return images_.folder(); }
  std::unique_ptr<PvLinks> Make(std::vector<std::string> groups) {
    auto links = PvLinks::Make(reader_, {.folder = Root() / "pv",
                                         .groups = std::move(groups),
                                         .sysfs = Root() / "sys",
                                         .dev = Root() / "dev"});
    EXPECT_TRUE(links.has_value()) << links.error().message();
    return std::move(*links);
  }
  void Attribute(const std::string& disk, const std::string& name, const std::string& value) {
    const fs::path path = Root() / "sys" / disk / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << value << "\n";
  }
  // Plugs in a disk with disk 1 or 2 of a fixture's state.
  fs::path Plug(const std::string& name, const std::string& state, int disk) {
    const fs::path path = Root() / "dev" / name;
    images_.Put(path, state, disk);
    Attribute(name, "size", "524288");
    return path;
  }
  void Unplug(const std::string& name) {
    fs::remove(Root() / "dev" / name);
    fs::remove_all(Root() / "sys" / name);
  }
  bool Update() {
    const auto updated = links_->Update({});
    EXPECT_TRUE(updated.has_value()) << updated.error().message();
    return updated.value_or(false);
  }
  // Link: disk.
  std::map<std::string, std::string> Now() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::directory_iterator(Root() / "pv")) {
      out[entry.path().filename()] = fs::read_symlink(entry.path()).filename();
    }
    return out;
  }

  DiskImages images_;
  HeaderReader reader_;
  std::unique_ptr<PvLinks> links_;
};

TEST_F(Links, PointAtThePvsOfOurGroupsAndAtNothingElse) {
  Plug("sda", "changed", 1);
  Plug("sdb", "changed", 2);
  Plug("sdc", "elsewhere", 1);
  DiskImages::Write(Plug("sdd", "orphans", 1), std::string(8192, '\0'));
  EXPECT_TRUE(Update());
  // "elsewhere" is another group that is also called v. At first it is unknown which is ours.
  EXPECT_EQ(Now().size(), 3U);
  Unplug("sdc");
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), UnorderedElementsAre(Pair(kFirst, "sda"), Pair(kSecond, "sdb")));
  EXPECT_FALSE(Update()) << "nothing has changed";
  EXPECT_EQ(links_->PathOf(kFirst), Root() / "pv" / kFirst);
}

TEST_F(Links, AForeignGroupOfOurNameIsLeftOutWhileOursExists) {
  Plug("sda", "changed", 1);
  Plug("sdb", "changed", 2);
  Update();
  Plug("sdc", "elsewhere", 1);
  EXPECT_FALSE(Update());
  Unplug("sda");
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), ElementsAre(Key(kSecond))) << "one disk of ours is enough";
  Unplug("sdb");
  EXPECT_TRUE(Update());
  EXPECT_EQ(Now().begin()->second, "sdc") << "for the reader of its UUID to refuse";
}

TEST_F(Links, UuidOfAGroupIsKnownOnceItIsFoundAndTheOnlyOneOfItsName) {
  EXPECT_EQ(links_->UuidOf("v"), "") << "nobody has looked";
  Plug("sda", "changed", 1);
  Plug("sdc", "elsewhere", 1);
  Update();
  EXPECT_EQ(links_->UuidOf("v"), "") << "two groups of that name";
  Unplug("sdc");
  Update();
  const std::string ours = links_->UuidOf("v");
  EXPECT_FALSE(ours.empty());
  Plug("sdc", "elsewhere", 1);
  Update();
  EXPECT_EQ(links_->UuidOf("v"), ours);
  EXPECT_EQ(links_->UuidOf("w"), "");
}

TEST_F(Links, AReturningDiskKeepsItsPathUnderAnyName) {
  Plug("nvme0n1", "changed", 1);
  Plug("nvme1n1", "changed", 2);
  Update();
  Unplug("nvme1n1");
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), ElementsAre(Pair(kFirst, "nvme0n1")));
  Plug("nvme1n2", "changed", 2);
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), UnorderedElementsAre(Pair(kFirst, "nvme0n1"), Pair(kSecond, "nvme1n2")));
}

TEST_F(Links, FollowARenamedGroupOut) {
  Plug("sda", "changed", 1);
  Plug("sdb", "changed", 2);
  Update();
  Plug("sda", "renamed", 1);
  Plug("sdb", "renamed", 2);
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), IsEmpty());
  links_ = Make({"x", "w"});
  EXPECT_TRUE(Update());
  EXPECT_EQ(Now().size(), 2U);
}

TEST_F(Links, GroupIsWhatItsNewestTextSays) {
  Plug("sda", "renamed", 1);  // seqno 10, called w
  Plug("sdb", "changed", 2);  // seqno 2, called v: was absent meanwhile
  Update();
  EXPECT_THAT(Now(), IsEmpty());
  links_ = Make({"w"});
  Update();
  EXPECT_EQ(Now().size(), 2U) << "LVM is to see the outdated one";
}

TEST_F(Links, PvWithoutAMetadataAreaIsKnownFromTheOthers) {
  Plug("sda", "two_and_none", 1);
  Plug("sdb", "two_and_none", 2);
  Update();
  EXPECT_EQ(Now().size(), 2U);
}

TEST_F(Links, DamagedTextLeavesItsGroupToTheOtherCopies) {
  const fs::path disk = Plug("sda", "changed", 1);
  DiskImages::Write(disk, std::string(65536, 'x'), 4096 + 512);
  Update();
  EXPECT_THAT(Now(), IsEmpty());
  Plug("sdb", "changed", 2);
  Update();
  EXPECT_EQ(Now().size(), 2U);
}

TEST_F(Links, PvInsideAVolumeIsATenants) {
  Plug("sda", "changed", 1);
  Plug("sdb", "changed", 2);
  Plug("dm-0", "changed", 1);
  Attribute("dm-0", "dm/uuid", "LVM-abc");
  Plug("dm-1", "changed", 2);
  Attribute("dm-1", "dm/suspended", "1");
  Plug("loop0", "changed", 2);
  Attribute("loop0", "size", "0");
  Update();
  EXPECT_THAT(Now(), UnorderedElementsAre(Pair(kFirst, "sda"), Pair(kSecond, "sdb")));
}

TEST_F(Links, TheArrayOrMultipathDeviceIsLinkedNotItsParts) {
  Plug("sda", "changed", 1);
  Plug("sdb", "changed", 1);
  Plug("dm-0", "changed", 1);
  Attribute("dm-0", "dm/uuid", "mpath-x");
  for (const char* path : {"sda", "sdb"}) {
    fs::create_directories(Root() / "sys" / path / "holders/dm-0");
  }
  Update();
  EXPECT_THAT(Now(), ElementsAre(Pair(kFirst, "dm-0")));
}

// Otherwise LVM would mark it missing with the next commit.
TEST_F(Links, ASuspendedDeviceKeepsItsLink) {
  Plug("sda", "changed", 1);
  Plug("dm-0", "changed", 1);
  Plug("sdb", "changed", 2);
  Attribute("dm-0", "dm/uuid", "mpath-x");
  fs::create_directories(Root() / "sys/sda/holders/dm-0");
  Update();
  const auto whole = Now();
  ASSERT_THAT(whole, UnorderedElementsAre(Pair(kFirst, "dm-0"), Pair(kSecond, "sdb")));
  Attribute("dm-0", "dm/suspended", "1");
  Update();
  EXPECT_EQ(Now(), whole);
  Attribute("dm-0", "dm/suspended", "0");
  Update();
  EXPECT_EQ(Now(), whole);
}

TEST_F(Links, CopyOfADiskIsShownToLvmBesideIt) {
  Plug("sdb", "changed", 1);
  Update();
  Plug("sda", "changed", 1);
  Update();
  EXPECT_THAT(Now(), UnorderedElementsAre(Pair(kFirst, "sdb"), Pair(std::string(kFirst) + ".sda", "sda")))
      << "which LVM then refuses to use, and is right";
}

TEST_F(Links, DiskThatCannotBeReadNowKeepsItsLink) {
  Plug("sda", "changed", 1);
  Plug("sdb", "changed", 2);
  Update();
  fs::remove(Root() / "dev/sdb");
  fs::create_directory(Root() / "dev/sdb");  // not a disk, but not absent either
  EXPECT_FALSE(Update());
  EXPECT_EQ(Now().size(), 2U);
}

TEST_F(Links, EndedCallTakesNothingAway) {
  Plug("sda", "changed", 1);
  Update();
  EXPECT_EQ(links_->Update(CallWithin(std::chrono::milliseconds(0))).error().code(), Code::kTimeout);
  EXPECT_EQ(Now().size(), 1U);
}

TEST_F(Links, LeftoversOfAnEarlierLifeAreReplaced) {
  fs::create_directory(Root() / "pv.new");
  fs::create_symlink("/nowhere", Root() / "pv.new/x");
  fs::create_symlink("/nowhere", Root() / "pv/old");
  Plug("sda", "changed", 1);
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), ElementsAre(Key(kFirst)));
  EXPECT_FALSE(fs::exists(Root() / "pv.new"));
}

TEST_F(Links, FolderThatCannotBeMadeIsAnError) {
  EXPECT_FALSE(PvLinks::Make(reader_, {.folder = Root() / "no/such", .groups = {"v"}}).has_value());
}

TEST_F(Links, ADeviceIsShownUntilItIsHidden) {
  Plug("sda", "changed", 1);
  Update();
  const fs::path blank = Plug("sdc", "changed", 2);
  DiskImages::Write(blank, std::string(8192, '\0'));
  const auto shown = links_->Show(blank);
  ASSERT_TRUE(shown.has_value()) << shown.error().message();
  EXPECT_EQ(*shown, Root() / "pv/new-sdc");
  EXPECT_THAT(Now(), UnorderedElementsAre(Pair(kFirst, "sda"), Pair("new-sdc", "sdc")));
  EXPECT_EQ(links_->Show(blank).error().code(), Code::kAlreadyExists);
  EXPECT_FALSE(Update()) << "a look in between leaves it";
  links_->Hide(blank);
  Plug("sdc", "changed", 2);  // the second disk of the group returns
  EXPECT_TRUE(Update());
  EXPECT_THAT(Now(), UnorderedElementsAre(Pair(kFirst, "sda"), Pair(kSecond, "sdc")));
  EXPECT_TRUE(links_->Show(blank).has_value()) << "it may be shown again";
}

TEST_F(Links, AreNotSearchedWithoutKernelEvents) {
  Plug("sda", "changed", 1);
  Update();
  const auto quiet = links_->UpdateIfNews({});  // consumes events of the host itself
  ASSERT_TRUE(quiet.has_value());
  fs::remove(Root() / "dev/sda");
  fs::create_directory(Root() / "dev/sda");
  Update();
  Unplug("sda");
  const auto again = links_->UpdateIfNews({});
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(*again) << "a disk that did not answer is looked at again without being told";
  EXPECT_THAT(Now(), IsEmpty());
}

TEST(DeviceOfEvent, IsTheBlockDeviceThatCameOrChanged) {
  const auto message = [](const char* action, const char* subsystem, const char* name) {
    std::string text = std::string(action) + "@/devices/x";
    for (const std::string& field :
         {std::string("ACTION=") + action, std::string("DEVPATH=/devices/x"),
          std::string("SUBSYSTEM=") + subsystem, std::string("DEVNAME=") + name, std::string("SEQNUM=7")}) {
      text += '\0' + field;
    }
    return text + '\0';
  };
  EXPECT_EQ(DeviceOfEvent(message("add", "block", "nvme0n1")), "nvme0n1");
  EXPECT_EQ(DeviceOfEvent(message("change", "block", "dm-3")), "dm-3");
  EXPECT_EQ(DeviceOfEvent(message("remove", "block", "sda")), "");
  EXPECT_EQ(DeviceOfEvent(message("add", "net", "eth0")), "");
  EXPECT_EQ(DeviceOfEvent(""), "");
  EXPECT_EQ(DeviceOfEvent(std::string("\0\0\0", 3)), "");
  EXPECT_EQ(DeviceOfEvent("SUBSYSTEM=block"), "") << "no name";
}

}  // namespace
}  // namespace quarry::lvm
