// Thin stores that grow by themselves, on real LVM: what can be made counts what they can grow by, and an
// overcommitted store grows before writes fill it. Needs four disks.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

class ThinGrowthTest : public ThinStoresTest {
 protected:
  void StartStore(const std::string& store) {
    Sh("dmesg -C");
    QuarrydOptions options;
    options.pools = {"main=vg,store.fast=" + store + " type=raid1 chunk=64KiB"};
    options.arguments = {"--repair-delay=600"};
    StartQuarryd(options);
    ASSERT_FALSE(Pool().empty()) << quarryd().Log();
  }
  // MiB of data that the kernel gives the store.
  static int64_t Data() {
    const std::string sectors = Trim(Sh("dmsetup table --target thin-pool | awk '{print $3}'").out);
    return sectors.empty() ? 0 : std::stoll(sectors) / 2048;
  }
  static std::string KernelStatus() { return Sh("dmsetup status --target thin-pool").out; }
};

TEST_F(ThinGrowthTest, GrowsForWhatIsMadeWhoeverIsKilled) {
  ASSERT_NO_FATAL_FAILURE(StartStore("32MiB max=128MiB"));
  ASSERT_EQ(Left(), 128 * kMi);
  const v1::Volume first = Make("first", 24 * kMi);
  ASSERT_OK(WritePattern(Publish(first, "first"), 1, 24 << 20));
  EXPECT_EQ(Data(), 32);
  for (int round = 0; round < 4; ++round) {
    std::jthread caller([this, round] {
      CsiClient own(kSocket);
      (void)own.Create({"grows", TypeParameters("thin"), BlockCapability(), (40 + 16 * round) * kMi});
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(150 + 250 * round));
    KillAndRestart();
    caller.join();
    EXPECT_OK(CheckPattern(TargetPath("first"), 1, 24 << 20));
    const auto made =
        client().Create({"grows", TypeParameters("thin"), BlockCapability(), (40 + 16 * round) * kMi});
    ASSERT_OK(made) << quarryd().Log();
    ASSERT_OK(client().Delete(made.value.volume().volume_id()));
    ASSERT_TRUE(Eventually([&] { return Left() == 104 * kMi; }, 120)) << quarryd().Log();
  }
  EXPECT_EQ(Sh("dmsetup info -c --noheadings -o suspended | grep -c Suspended").out.substr(0, 1), "0");
  const v1::Volume last = Make("last", 104 * kMi);
  EXPECT_EQ(Data(), 128);
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(Fails(client().Create({"over", TypeParameters("thin"), BlockCapability(), 4 * kMi}),
                    grpc::StatusCode::RESOURCE_EXHAUSTED, "its volumes have all of it"));
  ASSERT_OK(WritePattern(Publish(last, "last"), 2, 104 << 20));
  EXPECT_OK(CheckPattern(TargetPath("last"), 2, 104 << 20));
  EXPECT_OK(CheckPattern(TargetPath("first"), 1, 24 << 20));
  End(first, "first");
  End(last, "last");
  EXPECT_TRUE(Eventually([&] { return Left() == 128 * kMi; }, 120));
}

TEST_F(ThinGrowthTest, AnOvercommittedStoreGrowsUnderItsWriters) {
  ASSERT_NO_FATAL_FAILURE(StartStore("48MiB max=144MiB overcommit=2"));
  ASSERT_EQ(Left(), 288 * kMi) << "twice of what it can grow to";
  const v1::Volume one = Make("one", 64 * kMi);
  EXPECT_EQ(Data(), 48) << "the growth comes with the bytes";
  const std::string path = Publish(one, "one");
  // A writer that leaves quarryd time to look. No write ever waits for space.
  for (int mib = 0; mib < 48; ++mib) {
    ASSERT_OK(WritePattern(path, 100 + static_cast<uint64_t>(mib), 1 << 20, static_cast<size_t>(mib) << 20));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
  }
  EXPECT_EQ(Sh("dmesg | grep -c 'out-of-data-space'").out.substr(0, 1), "0") << quarryd().Log();
  EXPECT_GT(Data(), 48);
  // One that is faster than that waits for the growth, and loses nothing.
  const v1::Volume two = Make("two", 80 * kMi);
  ASSERT_OK(WritePattern(Publish(two, "two"), 7, 80 << 20)) << quarryd().Log();
  EXPECT_OK(CheckPattern(TargetPath("two"), 7, 80 << 20));
  for (int mib = 0; mib < 48; ++mib) {
    EXPECT_OK(CheckPattern(path, 100 + static_cast<uint64_t>(mib), 1 << 20, static_cast<size_t>(mib) << 20));
  }
  EXPECT_TRUE(Eventually([] { return KernelStatus().find(" rw ") != std::string::npos; }, 60))
      << KernelStatus();
  EXPECT_GE(Data(), 128);
  End(two, "two");
  End(one, "one");
  EXPECT_TRUE(Eventually([&] { return Left() == 288 * kMi; }, 120));
}

TEST_F(ThinGrowthTest, AnOvercommittedStoreThatCannotGrowWarnsTrimsAndRefuses) {
  ASSERT_NO_FATAL_FAILURE(StartStore("96MiB overcommit=2.5"));
  ASSERT_EQ(Left(), 240 * kMi);
  const v1::Volume volume = MustCreate({"files", TypeParameters("thin"), MountCapability("ext4"), 128 * kMi});
  ASSERT_OK(client().Stage(volume, StagingPath("files"), MountCapability("ext4")));
  ASSERT_OK(client().Publish(volume, StagingPath("files"), TargetPath("files"), MountCapability("ext4")));
  const std::string folder = TargetPath("files");
  EXPECT_EQ(StoreMode(), "rw");
  ASSERT_OK(WritePattern(folder + "/kept", 4, 4 << 20));
  ASSERT_OK(WritePattern(folder + "/gone", 3, 32 << 20));
  Sh("sync -f " + folder);
  ASSERT_TRUE(Sh("rm " + folder + "/gone && sync -f " + folder).ok());
  EXPECT_EQ(StoreMode(), "rw") << KernelStatus();
  // Another volume brings the store to its first threshold. What the files had is trimmed.
  const v1::Volume raw = Make("raw", 84 * kMi);
  const std::string path = Publish(raw, "raw");
  size_t written = 0;
  const auto fill_until = [&](const std::string& mode) {
    for (; written < 84 && StoreMode() != mode; ++written) {
      ASSERT_OK(WritePattern(path, 10 + written, 1 << 20, written << 20));
    }
    ASSERT_EQ(StoreMode(), mode) << KernelStatus();
  };
  const auto is_trimmed = [&] {
    return quarryd().Log().find("trimmed the volumes of a thin store") != std::string::npos;
  };
  for (; written < 40 && !is_trimmed(); ++written) {
    ASSERT_OK(WritePattern(path, 10 + written, 1 << 20, written << 20));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  EXPECT_TRUE(is_trimmed()) << KernelStatus();
  EXPECT_TRUE(Eventually([] { return StoreMode() == "rw"; }, 120)) << KernelStatus() << quarryd().Log();
  ASSERT_NO_FATAL_FAILURE(fill_until("nearly-full"));
  EXPECT_EQ(Left(), 0);
  EXPECT_TRUE(Fails(client().Create({"over", TypeParameters("thin"), BlockCapability(), 4 * kMi}),
                    grpc::StatusCode::RESOURCE_EXHAUSTED, "overcommitted"));
  EXPECT_TRUE(Fails(client().Snapshot("over", volume.volume_id()), grpc::StatusCode::RESOURCE_EXHAUSTED,
                    "overcommitted"));
  const Outcome check = Sh("quarryctl check");
  EXPECT_EQ(check.status, 2) << check.out;
  EXPECT_NE(check.out.find("overcommitted"), std::string::npos) << check.out;
  EXPECT_OK(CheckPattern(folder + "/kept", 4, 4 << 20));
  for (size_t mib = 0; mib < written; ++mib) {
    EXPECT_OK(CheckPattern(path, 10 + mib, 1 << 20, mib << 20));
  }
  EXPECT_EQ(Sh("dmesg | grep -c 'out-of-data-space'").out.substr(0, 1), "0");
  End(raw, "raw");
  End(volume, "files");
  EXPECT_TRUE(Eventually([&] { return Left() == 240 * kMi; }, 120)) << quarryd().Log();
}

// The kernel waits 60 s for space before it fails writers. The erasure of what is deleted is not to wait for
// them.
TEST_F(ThinGrowthTest, WritersThatWaitInAFullStoreGoOnAfterADeletion) {
  ASSERT_NO_FATAL_FAILURE(StartStore("64MiB overcommit=2"));
  const v1::Volume stays = Make("stays", 64 * kMi);
  const v1::Volume goes = Make("goes", 64 * kMi);
  ASSERT_OK(WritePattern(Publish(goes, "goes"), 1, 40 << 20));
  const std::string path = Publish(stays, "stays");
  ASSERT_OK(WritePattern(path, 2, 16 << 20));
  bool written = false;
  std::jthread writer([&] { written = WritePattern(path, 3, 40 << 20, 16 << 20).has_value(); });
  EXPECT_TRUE(Eventually([] { return KernelStatus().find("out_of_data_space") != std::string::npos; }, 60))
      << KernelStatus();
  EXPECT_EQ(StoreMode(), "out-of-space");
  End(goes, "goes");
  writer.join();
  EXPECT_TRUE(written) << KernelStatus() << quarryd().Log();
  EXPECT_OK(CheckPattern(path, 2, 16 << 20));
  EXPECT_OK(CheckPattern(path, 3, 40 << 20, 16 << 20));
  EXPECT_TRUE(Eventually([] { return KernelStatus().find(" rw ") != std::string::npos; }, 60))
      << KernelStatus();
  End(stays, "stays");
  EXPECT_TRUE(Eventually([&] { return Left() == 128 * kMi; }, 120)) << quarryd().Log();
}

}  // namespace
}  // namespace quarry::vm
