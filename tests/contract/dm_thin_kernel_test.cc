// Behavior of thin pools and of suspends that only a kernel can show.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "dm/suspension.h"
#include "tests/contract/kernel_dm_world.h"
#include "thin/pool_metadata.h"

namespace quarry::contract {
namespace {

using ::testing::HasSubstr;
using Mode = dm::ThinPoolStatus::Mode;

constexpr uint64_t kChunk = 65536;
constexpr const char* kPool = "LVM-quarryContractTestGroupQuarryContractTestVolumeP";
constexpr const char* kMetadata = "LVM-quarryContractTestGroupQuarryContractTestVolumeM";
constexpr const char* kThin = "LVM-quarryContractTestGroupQuarryContractTestVolume1";

// A pool of 16 chunks, whose metadata lie on a device-mapper device.
class KernelThinTest : public ::testing::Test {
 protected:
  KernelThinTest() {
    world_.AddTable(kMetadata, "quarry-metadata", fmt::format("0 16384 linear {} 0", metadata_.node()));
    world_.AddTable(kPool, "quarry-pool",
                    fmt::format("0 2048 thin-pool {} {} 128 0 1 error_if_no_space", world_.Number(kMetadata),
                                data_.node()));
  }
  ~KernelThinTest() override {
    // No test leaves a device suspended: nothing above it could be removed.
    for (const char* uuid : {kMetadata, kPool, kThin}) {
      (void)api().Resume(uuid);
    }
  }
  dm::DmApi& api() { return world_.api(); }
  dm::ThinPoolStatus Pool() { return api().ThinPool(kPool).value().value(); }
  void AddThin(dm::ThinId id, uint64_t chunks = 32) {
    const Status made = api().SendToPool(kPool, dm::CreateThin{id});
    ASSERT_TRUE(made.has_value()) << made.error().message();
    world_.AddThin(kThin, "quarry-thin", kPool, id, {chunks * kChunk});
  }
  // False: the write or its flush failed.
  bool Write(uint64_t chunk, uint64_t count, char letter = 'x') {
    const auto fd = api().Open(kThin, O_RDWR);
    const std::string bytes(count * kChunk, letter);
    return fd.has_value() &&
           pwrite(fd->get(), bytes.data(), bytes.size(), static_cast<off_t>(chunk * kChunk)) ==
               static_cast<ssize_t>(bytes.size()) &&
           fsync(fd->get()) == 0;
  }

  const LoopDevice metadata_{Bytes{8 * kMiB.value}};
  const LoopDevice data_{kMiB};
  KernelDmWorld world_;
};

TEST_F(KernelThinTest, AFullPoolIsOutOfDataSpaceAndStillTakesMessages) {
  EXPECT_TRUE(Pool().fails_when_full);
  AddThin(1);
  ASSERT_TRUE(Write(0, 16));
  EXPECT_EQ(Pool().mode, Mode::kReadWrite) << "no write has failed yet";
  EXPECT_FALSE(Write(16, 1));
  const dm::ThinPoolStatus full = Pool();
  EXPECT_EQ(full.mode, Mode::kOutOfDataSpace);
  EXPECT_EQ(full.data_used, 16U);
  EXPECT_EQ(full.data_total, 16U);
  // What is deleted in a full store must be erased, and that needs to read its metadata.
  EXPECT_TRUE(api().SendToPool(kPool, dm::ReserveMetadataSnap{}).has_value());
  EXPECT_TRUE(Pool().held_root.has_value());
  EXPECT_TRUE(api().SendToPool(kPool, dm::ReleaseMetadataSnap{}).has_value());
  EXPECT_TRUE(api().SendToPool(kPool, dm::CreateThin{2}).has_value());
  EXPECT_TRUE(api().SendToPool(kPool, dm::DeleteThin{2}).has_value());
  EXPECT_FALSE(api().Thin(kThin).value()->failed);
}

TEST_F(KernelThinTest, AMessageWhoseCommitFailsIsAnError) {
  AddThin(1);
  RunTool({"dmsetup", "suspend", "--noudevsync", "quarry-metadata"});
  RunTool({"dmsetup", "reload", "--table", "0 16384 error", "quarry-metadata"});
  RunTool({"dmsetup", "resume", "--noudevsync", "quarry-metadata"});
  const Status sent = api().SendToPool(kPool, dm::CreateThin{2});
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(CodeName(sent.error().code()), CodeName(Code::kIo)) << sent.error().message();
  EXPECT_THAT(sent.error().message(), HasSubstr("'create_thin 2' to thin pool quarry-pool"));
  const dm::ThinPoolStatus pool = Pool();
  EXPECT_TRUE(pool.mode == Mode::kFailed || pool.mode == Mode::kReadOnly);
  EXPECT_EQ(api().Thin(kThin).value()->failed, pool.mode == Mode::kFailed);
  EXPECT_EQ(api().SendToPool(kPool, dm::CreateThin{2}).error().code(), Code::kPrecondition);
  EXPECT_EQ(api().SendToPool(kPool, dm::ReserveMetadataSnap{}).error().code(), Code::kPrecondition);
}

// Below the pool, while it is in use.
TEST_F(KernelThinTest, TheMetadataSnapshotTellsDevicesAndExclusiveBytes) {
  AddThin(1);
  ASSERT_TRUE(Write(0, 8));
  {
    const auto suspension =
        dm::Suspension::Begin(api(), kThin, dm::FileSystemLock::kTake, CallWithin(std::chrono::seconds(30)));
    ASSERT_TRUE(suspension.has_value()) << suspension.error().message();
    ASSERT_TRUE(api().SendToPool(kPool, dm::CreateSnap{2, 1}).has_value());
  }
  ASSERT_TRUE(Write(3, 2, 'y'));
  const std::string metadata = api().Find(kMetadata).value()->Node();
  const std::array<thin::DeviceId, 1> doomed{1};
  const Call call = CallWithin(std::chrono::minutes(1));
  EXPECT_EQ(thin::ExclusiveRanges::Find(metadata, doomed, call).error().code(), Code::kPrecondition);

  ASSERT_TRUE(api().SendToPool(kPool, dm::ReserveMetadataSnap{}).has_value());
  ASSERT_TRUE(api().SendToPool(kPool, dm::CreateThin{3}).has_value());
  ASSERT_TRUE(Write(10, 1, 'z'));
  for (const auto& [id, there] : {std::pair(1U, true), std::pair(2U, true), std::pair(3U, false)}) {
    const auto has = thin::BytesOfDevice(metadata, id, call);
    ASSERT_TRUE(has.has_value()) << has.error().message();
    EXPECT_EQ(has->has_value(), there) << "device " << id << " at the time of the reservation";
  }
  const auto ranges = thin::ExclusiveRanges::Find(metadata, doomed, call);
  ASSERT_TRUE(ranges.has_value()) << ranges.error().message();
  EXPECT_EQ(ranges->total(), Bytes{2 * kChunk});
  std::string bytes;
  for (auto range = ranges->Next({0}, {kChunk}); range.has_value();
       range = ranges->Next(range->offset + range->length, {kChunk})) {
    std::string piece(range->length.value, '?');
    ASSERT_EQ(pread(data_.file(), piece.data(), piece.size(), static_cast<off_t>(range->offset.value)),
              static_cast<ssize_t>(piece.size()));
    bytes += piece;
  }
  EXPECT_TRUE(bytes == std::string(2 * kChunk, 'y')) << "they are not those that only device 1 has";
  EXPECT_TRUE(api().SendToPool(kPool, dm::ReleaseMetadataSnap{}).has_value());
}

// As a disk that does not answer.
TEST_F(KernelThinTest, AMessageThatWaitsForItsDiskHoldsUpNoOtherCall) {
  ASSERT_TRUE(api().Suspend(kMetadata, dm::FileSystemLock::kTake).has_value());
  auto waiting = std::async(std::launch::async, [&] { return api().SendToPool(kPool, dm::CreateThin{1}); });
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(2)), std::future_status::timeout);
  auto others = std::async(std::launch::async, [&] {
    return api().Find(kMetadata).has_value() && api().List("LVM-").has_value() &&
           api().Raid(kMetadata).has_value() && api().HasTarget("linear").has_value();
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(api().Resume(kMetadata).has_value());
  EXPECT_TRUE(others.get());
  const Status sent = waiting.get();
  EXPECT_TRUE(sent.has_value()) << sent.error().message();
}

TEST_F(KernelThinTest, ASuspendedDeviceHoldsWritesBackAndLosesNone) {
  AddThin(1);
  std::future<bool> written;
  {
    const auto suspension =
        dm::Suspension::Begin(api(), kThin, dm::FileSystemLock::kTake, CallWithin(std::chrono::seconds(30)));
    ASSERT_TRUE(suspension.has_value()) << suspension.error().message();
    written = std::async(std::launch::async, [&] { return Write(0, 1); });
    EXPECT_EQ(written.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
    EXPECT_EQ(api().Thin(kThin).value()->mapped, Bytes{0});
    EXPECT_TRUE(api().SendToPool(kPool, dm::CreateSnap{2, 1}).has_value());
  }
  EXPECT_TRUE(written.get());
  EXPECT_EQ(api().Thin(kThin).value()->mapped, Bytes{kChunk});
}

// The UUIDs and names of the devices are LVM's own.
TEST(LvmThinTest, PoolAndVolumeAreFoundByTheUuidsOfLvm) {
  const LoopDevice disk({64 * kMiB.value});
  const auto lvm = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "lvm");
    words.insert(words.begin() + 2,
                 {"--devices", disk.node(), "--config", "activation{udev_sync=0 udev_rules=0 monitoring=0}"});
    return RunTool(words);
  };
  const auto uuid = [&](const std::string& volume) {
    std::string out = "LVM" + lvm({"lvs", "--noheadings", "-o", "vg_uuid,lv_uuid", volume});
    std::erase_if(out, [](char c) { return c == ' ' || c == '\n' || c == '-'; });
    return out.insert(3, "-");
  };
  lvm({"pvcreate", disk.node()});
  lvm({"vgcreate", "quarrythin", disk.node()});
  lvm({"lvcreate", "-y", "-l", "4", "--type", "thin-pool", "--poolmetadataspare", "n", "-n", "pool",
       "quarrythin"});
  dm::DmKernel kernel;
  const std::string pool = uuid("quarrythin/pool");
  const auto fresh = kernel.ThinPool(pool).value();
  ASSERT_TRUE(fresh.has_value()) << pool;
  EXPECT_EQ(fresh->uuid, pool + "-tpool");
  EXPECT_EQ(fresh->name, "quarrythin-pool");
  lvm({"lvcreate", "-y", "-V", "16m", "--thinpool", "pool", "-n", "one", "quarrythin"});
  const auto used = kernel.ThinPool(pool).value();
  ASSERT_TRUE(used.has_value());
  EXPECT_EQ(used->uuid, pool + "-tpool");
  EXPECT_EQ(used->name, "quarrythin-pool-tpool");
  EXPECT_EQ(used->transaction_id, 1U);
  EXPECT_TRUE(kernel.Thin(uuid("quarrythin/one")).value().has_value());
  EXPECT_TRUE(kernel.Find(pool + "-pool").value().has_value()) << "the linear device on top of the pool";
  EXPECT_EQ(kernel.SendToPool(pool, dm::CreateThin{1}).error().code(), Code::kAlreadyExists);
  lvm({"vgremove", "-f", "-y", "quarrythin"});
  EXPECT_FALSE(kernel.ThinPool(pool).value().has_value());
}

// Kernels from 6.12 on count freezes; older ones refuse the second (docs/thin.md).
TEST_F(KernelThinTest, AFrozenFileSystemCanBeSuspendedWithoutItsLock) {
  utsname kernel{};
  uname(&kernel);
  int major = 0;
  int minor = 0;
  ASSERT_EQ(sscanf(kernel.release, "%d.%d", &major, &minor), 2);
  const LoopDevice disk({64 * kMiB.value});
  world_.AddTable(kThin, "quarry-thin", fmt::format("0 131072 linear {} 0", disk.node()));
  const std::string node = api().Find(kThin).value()->Node();
  RunTool({"mkfs.ext4", "-q", node});
  const std::string folder = "/tmp/quarry-frozen";
  std::filesystem::create_directory(folder);
  ASSERT_EQ(mount(node.c_str(), folder.c_str(), "ext4", 0, nullptr), 0);
  const UniqueFd root(open(folder.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(ioctl(root.get(), FIFREEZE, 0), 0);
  const Status locked = api().Suspend(kThin, dm::FileSystemLock::kTake);
  if (std::pair(major, minor) < std::pair(6, 12)) {
    EXPECT_FALSE(locked.has_value());
    EXPECT_EQ(locked.has_value() ? Code::kInternal : locked.error().code(), Code::kPrecondition);
    EXPECT_EQ(locked.has_value() ? 0 : locked.error().sys_errno(), EBUSY);
  } else {
    EXPECT_TRUE(locked.has_value());
  }
  EXPECT_TRUE(api().Resume(kThin).has_value());
  EXPECT_TRUE(api().Suspend(kThin, dm::FileSystemLock::kSkip).has_value());
  EXPECT_TRUE(api().Find(kThin).value()->suspended);
  EXPECT_TRUE(api().Resume(kThin).has_value());
  EXPECT_EQ(ioctl(root.get(), FITHAW, 0), 0);
  EXPECT_EQ(umount2(folder.c_str(), MNT_DETACH), 0);
}

TEST_F(KernelThinTest, ATableThatWaitsIsDroppedAndNeverInUse) {
  EXPECT_EQ(api().DropWaitingTable(kThin).error().code(), Code::kNotFound);
  world_.Add(kThin, "quarry-grows", Bytes{8 << 20});
  const auto table = [] {
    std::string out;
    FILE* const pipe = popen("dmsetup table quarry-grows", "r");
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
      out += static_cast<char>(c);
    }
    pclose(pipe);
    return out;
  };
  const std::string before = table();
  ASSERT_TRUE(api().Suspend(kThin, dm::FileSystemLock::kSkip).has_value());
  EXPECT_FALSE(api().Find(kThin).value()->waiting_table);
  EXPECT_TRUE(api().DropWaitingTable(kThin).has_value()) << "none waits";
  RunTool({"dmsetup", "load", "quarry-grows", "--table", "0 8 error"});
  EXPECT_TRUE(api().Find(kThin).value()->waiting_table);
  EXPECT_TRUE(api().DropWaitingTable(kThin).has_value());
  EXPECT_FALSE(api().Find(kThin).value()->waiting_table);
  EXPECT_TRUE(api().Resume(kThin).has_value());
  EXPECT_EQ(table(), before);
}

}  // namespace
}  // namespace quarry::contract
