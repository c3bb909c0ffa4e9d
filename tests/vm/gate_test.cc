// quarryd must not change one unmanaged byte: an administrator moves, removes and creates volumes while
// quarryd erases deleted volumes and zeroes extents for new ones. Needs two disks.
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr char kMine[] = "/dev/vg/mine";

class GateTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }
  void StartSlowly(const std::string& rate) {
    QuarrydOptions options;
    options.arguments = {"--erase-rate=" + rate};
    StartQuarryd(options);
  }
  // A logical volume of the administrator, with a pattern on all of it.
  static void MakeMine(int64_t mib, const std::string& disk) {
    ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-Wn", "-Zn", "-L", std::to_string(mib) + "m", "-n", "mine",
                      kGroup, disk})
                    .ok());
    ASSERT_OK(WritePattern(kMine, kSeed, static_cast<uint64_t>(mib) * kMi));
  }
  static testing::AssertionResult MineIsWhole(int64_t mib) {
    return IsOk(CheckPattern(kMine, kSeed, static_cast<uint64_t>(mib) * kMi));
  }
  static void RemoveMine() {
    Outcome removed;
    EXPECT_TRUE(Eventually([&] { return (removed = Tool({"lvremove", "-q", "-y", "vg/mine"})).ok(); }))
        << removed.err;
  }
  static void SetAllocatable(int disk, bool allocatable) {
    ASSERT_TRUE(Tool({"pvchange", "-q", "-x", allocatable ? "y" : "n", DiskNode(disk)}).ok());
  }
  // The LV that carries this tag. Empty if there is none.
  static std::string LvWithTag(const std::string& tag) {
    return Trim(Tool({"lvs", "--noheadings", "-o", "lv_name", "-S", "lv_tags=" + tag, kGroup}).out);
  }
  bool LogSays(const std::string& words) { return quarryd().Log().find(words) != std::string::npos; }

  static constexpr uint64_t kSeed = 77;
};

// Without a name, pvmove puts all that it moves, of every volume, into one hidden volume.
TEST_F(GateTest, NothingIsZeroedBelowARunningPvmove) {
  constexpr int64_t kMib = 64;
  StartSlowly("4MiB");
  SetAllocatable(2, false);
  const v1::Volume deleted = MustCreate({"deleted", {}, MountCapability(), 48 * kMi});
  MakeMine(kMib, DiskNode(1));
  SetAllocatable(2, true);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(client().Delete(deleted.volume_id()));
  ASSERT_NE(LvWithTag("quarry.erasing"), "");
  // With -i, pvmove checks for the end of the copy only after this many seconds.
  std::thread mover([] {
    const Outcome moved = Tool({"pvmove", "-i", "4", DiskNode(1), DiskNode(2)});
    EXPECT_TRUE(moved.ok()) << moved.err;
  });
  EXPECT_TRUE(Eventually([&] { return LogSays("is being moved"); }, 30)) << quarryd().Log();
  EXPECT_THAT(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out, HasSubstr("pvmove0"));
  mover.join();
  EXPECT_TRUE(MineIsWhole(kMib));
  EXPECT_TRUE(Eventually([&] { return LvWithTag("quarry.erasing").empty(); }, 60))
      << "the volume is erased at its new place";
  EXPECT_TRUE(MineIsWhole(kMib));
  RemoveMine();
}

// The logical volume that holds the extents during zeroing carries the marker, like an unfinished one.
TEST_F(GateTest, ZeroingStopsWhenItsExtentsAreTaken) {
  StartSlowly("8MiB");
  SetAllocatable(2, false);
  CsiClient hurried(kSocket, std::chrono::seconds(3));
  const VolumeSpec raw{"raw", {}, BlockCapability(), 80 * kMi};
  ASSERT_FALSE(hurried.Create(raw).ok());
  const std::string holder = LvWithTag("quarry.creating");
  ASSERT_NE(holder, "");
  ASSERT_TRUE(Tool({"lvremove", "-q", "-y", std::string(kGroup) + "/" + holder}).ok());
  MakeMine(80, DiskNode(1));  // takes the lowest free extents
  ASSERT_FALSE(HasFailure());
  std::this_thread::sleep_for(
      std::chrono::seconds(4));  // as long as the rest of the zeroing would have taken
  EXPECT_TRUE(MineIsWhole(80));
  EXPECT_TRUE(Fails(client().Create(raw), grpc::StatusCode::UNAVAILABLE, "was removed by another process"));
  const auto made = client().Create(raw);
  ASSERT_OK(made);
  EXPECT_TRUE(MineIsWhole(80));
  EXPECT_OK(CheckZero(NodeOf(made.value.volume()), 80 * kMi));
  RemoveMine();
  EXPECT_OK(client().Delete(made.value.volume().volume_id()));
  SetAllocatable(2, true);
}

TEST_F(GateTest, MappedExtentsAreNotZeroed) {
  StartSlowly("0");
  const v1::Volume volume = MustCreate({"mapped", {}, MountCapability(), 32 * kMi});
  ASSERT_FALSE(HasFailure());
  const std::string table = Trim(Tool({"dmsetup", "table", std::string(kGroup) + "-" + LvOf(volume)}).out);
  ASSERT_THAT(table, HasSubstr("linear"));
  ASSERT_TRUE(Tool({"dmsetup", "create", "forgotten", "--table", table}).ok());
  ASSERT_OK(WritePattern("/dev/mapper/forgotten", kSeed, 32 * kMi));
  ASSERT_OK(client().Delete(volume.volume_id()));
  EXPECT_TRUE(Eventually([&] { return LogSays("'forgotten'"); }, 30)) << quarryd().Log();
  EXPECT_OK(CheckPattern("/dev/mapper/forgotten", kSeed, 32 * kMi));
  Outcome removed;
  EXPECT_TRUE(Eventually([&] { return (removed = Tool({"dmsetup", "remove", "forgotten"})).ok(); }))
      << removed.err;
  EXPECT_TRUE(ComesBackEmpty(60));
}

TEST_F(GateTest, AdministratorsCommandsRunDuringErasing) {
  StartSlowly("0");
  ASSERT_TRUE(Tool({"vmctl", "slow", "1", "20"}).ok());
  SetAllocatable(2, false);
  const v1::Volume volume = MustCreate({"big", {}, MountCapability(), 160 * kMi});
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(client().Delete(volume.volume_id()));
  SetAllocatable(2, true);
  for (int i = 0; i < 3; ++i) {
    const Outcome made =
        Tool({"lvcreate", "-q", "-y", "-an", "-Wn", "-Zn", "-l", "1", "-n", "mine", kGroup, DiskNode(2)});
    EXPECT_TRUE(made.ok()) << made.err;
    RemoveMine();
  }
  ASSERT_TRUE(Tool({"vmctl", "slow", "1", "0"}).ok());
  EXPECT_TRUE(ComesBackEmpty(120));
  const Outcome locks = Sh("ls /run/lock/lvm");
  EXPECT_THAT(locks.out, testing::Not(HasSubstr("V_vg")))
      << "LVM leaves no lock file behind, and Quarry neither";
}

}  // namespace
}  // namespace quarry::vm
