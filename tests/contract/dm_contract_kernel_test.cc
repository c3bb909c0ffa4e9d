// Behavior of device-mapper, and of probing through it, that only a kernel can show.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/subprocess.h"
#include "mount/kernel_mount.h"
#include "tests/contract/kernel_dm_world.h"

namespace quarry::contract {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kUuid = "LVM-quarryContractTestGroupQuarryContractTestVolume1";
constexpr const char* kName = "quarry-contract1";

// Some tests make nodes and links as LVM does where there is no udev. udevd, which may still be busy with the
// device, would put a link of its own in the place of the node, and leave it there for a while.
void WaitForUdevd() {
  RunTool({"udevadm", "settle"});
}

class KernelDmTest : public ::testing::Test {
 protected:
  dm::DmApi& api() { return world_.api(); }
  KernelDmWorld world_;
};

TEST_F(KernelDmTest, ADescriptorIsTheDeviceThatDeviceMapperNames) {
  world_.Add(kUuid, kName, kGiB);
  const auto device = *api().Find(kUuid);
  const auto fd = api().Open(kUuid, O_RDONLY);
  ASSERT_TRUE(fd.has_value());
  struct stat st{};
  ASSERT_EQ(fstat(fd->get(), &st), 0);
  EXPECT_EQ(st.st_rdev, makedev(device->major, device->minor));
}

TEST_F(KernelDmTest, ASuspendedDeviceIsSeenAsOne) {
  world_.Add(kUuid, kName, kGiB);
  RunTool({"dmsetup", "suspend", "--noudevsync", kName});
  EXPECT_TRUE((*api().Find(kUuid))->suspended);
  RunTool({"dmsetup", "resume", "--noudevsync", kName});
  EXPECT_FALSE((*api().Find(kUuid))->suspended);
}

// As LVM makes node and link where udev does not. vgcreate refuses the name of a group as long as such a link
// is there, and the node would open the next device that gets its number.
TEST_F(KernelDmTest, ARemovedVolumeLeavesNeitherNodeNorLink) {
  const std::string node = "/dev/mapper/quarry--contract-volume";
  const std::string volume = "/dev/quarry-contract/volume";
  const std::string other = "/dev/quarry-contract/other";
  std::filesystem::create_directory("/dev/quarry-contract");
  world_.Add(kUuid, "quarry--contract-volume", kMiB);
  const auto device = *api().Find(kUuid);
  WaitForUdevd();
  std::error_code ignored;
  for (const std::string& made : {node, volume}) {  // by udevd
    std::filesystem::remove(made, ignored);
  }
  ASSERT_EQ(mknod(node.c_str(), S_IFBLK | 0600, makedev(device->major, device->minor)), 0);
  std::filesystem::create_symlink(node, volume);
  std::filesystem::create_symlink("/dev/null", other);
  const Status removed = RemoveInTheEnd(api(), kUuid);
  EXPECT_TRUE(removed.has_value()) << removed.error().message();
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(node)));
  EXPECT_FALSE(std::filesystem::is_symlink(volume));
  EXPECT_TRUE(std::filesystem::is_symlink(other)) << "it does not lead to the removed device";
  std::filesystem::remove_all("/dev/quarry-contract");
}

TEST_F(KernelDmTest, StaleNodesAndLinksAreRemoved) {
  const std::string gone = "/dev/mapper/quarry--contract-gone";
  const std::string link = "/dev/quarry-contract/gone";
  const std::string old_link = "/dev/quarry-contract/older";  // its node is gone already
  const std::string foreign = "/dev/mapper/quarry--contract-foreign";
  std::filesystem::create_directory("/dev/quarry-contract");
  world_.Add(kUuid, "quarry--contract-there", kMiB);
  const auto device = *api().Find(kUuid);
  const std::string there = "/dev/mapper/quarry--contract-there";
  WaitForUdevd();
  std::error_code ignored;
  for (const std::string& made : {there, std::string("/dev/quarry-contract/there")}) {  // by udevd
    std::filesystem::remove(made, ignored);
  }
  for (const std::string& node : {gone, foreign, there}) {
    ASSERT_EQ(mknod(node.c_str(), S_IFBLK | 0600, makedev(device->major, device->minor)), 0);
  }
  std::filesystem::create_symlink(gone, link);
  std::filesystem::create_symlink("/dev/mapper/quarry--contract-older", old_link);
  api().RemoveStaleNodes("quarry-contract", [](const std::string& name) {
    return name.starts_with("quarry--contract-") && !name.ends_with("foreign");
  });
  for (const std::string& path : {gone, link, old_link}) {
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path))) << path;
  }
  EXPECT_TRUE(std::filesystem::exists(foreign));
  EXPECT_TRUE(std::filesystem::exists(there));
  EXPECT_FALSE(std::filesystem::exists("/dev/quarry-contract")) << "the folder is empty";
  std::filesystem::remove(foreign);
}

TEST_F(KernelDmTest, RaidReportsEveryLeg) {
  const LoopDevice first({64 * kMiB.value});
  const LoopDevice second({64 * kMiB.value});
  // No metadata devices, and assumed to be in sync.
  world_.AddTable(kUuid, kName,
                  fmt::format("0 131072 raid raid1 4 0 nosync region_size 1024 2 - {} - {}", first.node(),
                              second.node()));
  auto status = api().Raid(kUuid);
  // The array's own thread takes the legs for synchronous a moment after the table is in force.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (status.has_value() && status->has_value() && (*status)->in_sync < (*status)->total &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = api().Raid(kUuid);
  }
  ASSERT_TRUE(status.has_value()) << status.error().message();
  ASSERT_TRUE(status->has_value());
  EXPECT_EQ((*status)->type, "raid1");
  EXPECT_EQ((*status)->legs, "AA");
  EXPECT_EQ((*status)->in_sync, 131072U);
  EXPECT_EQ((*status)->total, 131072U);
  EXPECT_EQ((*status)->action, "idle");
}

TEST_F(KernelDmTest, LegsThatDifferAreCountedAndRepaired) {
  const LoopDevice first({64 * kMiB.value});
  const LoopDevice second({64 * kMiB.value});
  ASSERT_EQ(pwrite(second.file(), "x", 1, 8 << 20), 1);
  world_.AddTable(kUuid, kName,
                  fmt::format("0 131072 raid raid1 4 0 nosync region_size 1024 2 - {} - {}", first.node(),
                              second.node()));
  const auto mismatches_after = [&](bool repair) -> uint64_t {
    EXPECT_TRUE(api().Scrub(kUuid, repair).has_value());
    for (int i = 0; i < 3000; ++i) {
      const auto status = **api().Raid(kUuid);
      if (status.action == "idle") {
        return status.mismatches;
      }
      EXPECT_EQ(status.action, repair ? "repair" : "check");
      EXPECT_EQ(status.legs, "AA");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "the scrub does not end";
    return 0;
  };
  EXPECT_GT(mismatches_after(false), 0U);
  EXPECT_EQ(mismatches_after(true), 0U) << "the kernel does not report how many mismatches it repaired";
  EXPECT_EQ(mismatches_after(false), 0U);
  char byte = 'y';
  ASSERT_EQ(pread(second.file(), &byte, 1, 8 << 20), 1);
  EXPECT_EQ(byte, '\0') << "the second copy must be repaired from the first";
}

TEST_F(KernelDmTest, MappingsOfReadsEveryKindOfTable) {
  const LoopDevice first({64 * kMiB.value});
  const LoopDevice second({64 * kMiB.value});
  world_.AddTable(kUuid, kName,
                  fmt::format("0 4096 striped 2 128 {} 2048 {} 8192\n4096 2048 linear {} 65536", first.node(),
                              second.node(), first.node()));
  const auto on = [&](const LoopDevice& disk) {
    std::vector<std::pair<uint64_t, uint64_t>> out;
    const auto mapped = api().MappingsOf(disk.node());
    EXPECT_TRUE(mapped.has_value()) << mapped.error().message();
    for (const dm::Mapping& one : mapped.value_or(std::vector<dm::Mapping>())) {
      EXPECT_EQ(one.uuid, kUuid);
      out.emplace_back(one.offset.value / 512, one.length.value / 512);
    }
    return out;
  };
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(on(first), (Ranges{{2048, 2048}, {65536, 2048}}));
  EXPECT_EQ(on(second), (Ranges{{8192, 2048}}));
  // A table that waits to replace the current one: LVM was killed between load and resume.
  RunTool({"dmsetup", "reload", "--table",
           fmt::format("0 6144 mirror core 2 1024 nosync 2 {} 4096 {} 10240", first.node(), second.node()),
           kName});
  EXPECT_EQ(on(first), (Ranges{{2048, 2048}, {65536, 2048}, {4096, 6144}}));
  EXPECT_EQ(on(second), (Ranges{{8192, 2048}, {10240, 6144}}));
  RunTool({"dmsetup", "suspend", "--noudevsync", kName});
  RunTool({"dmsetup", "resume", "--noudevsync", kName});
  EXPECT_EQ(on(first), (Ranges{{4096, 6144}})) << "pvmove copies with a mirror";
  EXPECT_EQ(api().MappingsOf("/dev/quarry-no-such-device").error().code(), Code::kNotFound);
}

TEST_F(KernelDmTest, HasTargetLoadsTheTarget) {
  EXPECT_EQ(api().HasTarget("raid").value(), true);
  EXPECT_EQ(api().HasTarget("striped").value(), true);
}

TEST_F(KernelDmTest, ControlIsNotInheritedByChildren) {
  ASSERT_TRUE(api().Find(kUuid).has_value());
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == "/dev/mapper/control") {
      ++seen;
      EXPECT_EQ(fcntl(std::stoi(entry.path().filename()), F_GETFD), FD_CLOEXEC);
    }
  }
  EXPECT_EQ(seen, 1) << "/dev/mapper/control is opened once and kept open";
}

TEST_F(KernelDmTest, MessagesOfLibdevmapperAreInTheErrorNotOnStderr) {
  ::testing::internal::CaptureStderr();
  const auto found = api().Find(std::string(300, 'x'));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message(), Not(HasSubstr("no reason")));
}

TEST_F(KernelDmTest, ADeviceThatCannotBeReadIsNeitherBlankNorFormatted) {
  // Its first and last MiB are readable. Reads between them, and from a second device at the start, fail.
  const LoopDevice disk({64 * kMiB.value});
  const std::string ends =
      fmt::format("0 2048 linear {0} 0\n2048 126976 error\n129024 2048 linear {0} 129024", disk.node());
  RunTool({"dmsetup", "create", "--noudevsync", "--uuid", "QUARRY-ends", "quarry-ends"}, ends);
  world_.AddTable(kUuid, kName, "0 131072 error");
  SpawnSubprocess subprocess;
  mount::KernelMount mounts(subprocess);
  for (const char* uuid : {"QUARRY-ends", kUuid}) {
    const auto device = *api().Find(uuid);
    const auto fd = api().Open(uuid, O_RDONLY);
    ASSERT_TRUE(fd.has_value());
    const auto content = mounts.Probe(fd->get());
    if (uuid == std::string(kUuid)) {
      ASSERT_FALSE(content.has_value());
      EXPECT_EQ(content.error().code(), Code::kIo);
    }
    mount::MakeFilesystem spec;
    spec.fs_type = "ext4";
    spec.device = device->Node();
    const Status made = mounts.Make(spec, CallWithin(std::chrono::seconds(60)));
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(CodeName(made.error().code()), CodeName(Code::kIo)) << made.error().message();
  }
  RunTool({"dmsetup", "remove", "--noudevsync", "--retry", "quarry-ends"});
}

TEST_F(KernelDmTest, ADeviceBelowAnotherNamesItAsItsHolder) {
  const LoopDevice disk({64 * kMiB.value});
  world_.AddTable(kUuid, kName, fmt::format("0 2048 linear {} 0", disk.node()));
  struct stat st{};
  ASSERT_EQ(stat(disk.node().c_str(), &st), 0);
  SpawnSubprocess subprocess;
  mount::KernelMount mounts(subprocess);
  const auto device = *api().Find(kUuid);
  EXPECT_THAT(*mounts.Users({major(st.st_rdev), minor(st.st_rdev)}),
              Contains(fmt::format("held by dm-{} ({})", device->minor, kName)));
}

}  // namespace
}  // namespace quarry::contract
