// The node service on real devices: which mounts it makes, what it refuses, and that it harms no data.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;
using Mode = v1::VolumeCapability::AccessMode;

constexpr uint64_t kDataLength = 4 << 20;

// The number of mounts at exactly this path.
size_t MountsAt(const std::string& path) {
  return Lines(Tool({"findmnt", "-rn", "-o", "TARGET", "--mountpoint", path}).out).size();
}

int64_t DeviceBytes(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t bytes = 0;
  return fd.valid() && ::ioctl(fd.get(), BLKGETSIZE64, &bytes) == 0 ? static_cast<int64_t>(bytes) : -1;
}

class NodeTest : public VmTest {
 protected:
  // A volume that is staged and published at paths with its name.
  struct Placed {
    v1::Volume volume;
    v1::VolumeCapability capability;
    std::string staging;
    std::string target;
  };
  Placed MustPlace(const VolumeSpec& spec) {
    Placed placed{MustCreate(spec), spec.capability, StagingPath(spec.name), TargetPath(spec.name)};
    EXPECT_OK(client().Stage(placed.volume, placed.staging, placed.capability));
    EXPECT_OK(client().Publish(placed.volume, placed.staging, placed.target, placed.capability));
    return placed;
  }
  void MustTakeAway(const Placed& placed) {
    EXPECT_OK(client().Unpublish(placed.volume.volume_id(), placed.target));
    EXPECT_OK(client().Unstage(placed.volume.volume_id(), placed.staging));
    EXPECT_OK(client().Delete(placed.volume.volume_id()));
  }
};

TEST_F(NodeTest, EveryCallMayBeRepeated) {
  for (const auto& capability : {MountCapability("ext4"), BlockCapability()}) {
    SCOPED_TRACE(capability.ShortDebugString());
    const v1::Volume volume = MustCreate({"repeated", {}, capability});
    const std::string staging = StagingPath("repeated");
    const std::string target = TargetPath("repeated");
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(client().Stage(volume, staging, capability));
    }
    EXPECT_EQ(MountsAt(staging), capability.has_block() ? 0U : 1U);
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(client().Publish(volume, staging, target, capability));
    }
    EXPECT_EQ(MountsAt(target), 1U);
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(client().Unpublish(volume.volume_id(), target));
      EXPECT_NE(::access(target.c_str(), F_OK), 0);
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(client().Unstage(volume.volume_id(), staging));
    }
    EXPECT_EQ(MountsAt(staging), 0U);
    ASSERT_OK(client().Delete(volume.volume_id()));
  }
}

// A link like /var/lib/kubelet -> /data/kubelet. The mount table has the real folder only.
TEST_F(NodeTest, EveryCallWorksInAFolderBehindALink) {
  const std::string real = StagingPath("data");
  const std::string link = StagingPath("links") + "/kubelet";
  ASSERT_EQ(::symlink(real.c_str(), link.c_str()), 0);
  std::filesystem::create_directories(link + "/plugins/staging");
  std::filesystem::create_directories(link + "/pods");
  const std::string staging = link + "/plugins/staging";
  const std::string target = link + "/pods/volume";
  for (const auto& capability : {MountCapability("ext4"), BlockCapability()}) {
    SCOPED_TRACE(capability.ShortDebugString());
    const bool raw = capability.has_block();
    const v1::Volume volume = MustCreate({"linked", {}, capability, 96 * kMi});
    const std::string& id = volume.volume_id();
    const std::string file = raw ? target : target + "/file";
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(client().Stage(volume, staging, capability));
      EXPECT_EQ(MountsAt(real + "/plugins/staging"), raw ? 0U : 1U);
    }
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(client().Publish(volume, staging, target, capability));
      EXPECT_EQ(MountsAt(real + "/pods/volume"), 1U);
    }
    ASSERT_OK(WritePattern(file, 9, kDataLength));
    ASSERT_OK(client().Expand(id, 128 * kMi));
    for (int i = 0; i < 2; ++i) {
      EXPECT_OK(client().Stats(id, target));
      EXPECT_OK(client().NodeExpand(id, target, staging, 128 * kMi));
    }
    KillAndRestart();
    ASSERT_OK(client().Publish(volume, staging, target, capability));
    EXPECT_OK(CheckPattern(file, 9, kDataLength));
    EXPECT_FALSE(client().Delete(id).ok()) << "the volume is in use";

    // The link points elsewhere for a while. quarryd must not conclude that the mounts behind it are gone.
    ASSERT_EQ(::rename(link.c_str(), (link + ".away").c_str()), 0);
    ASSERT_EQ(::symlink("/nowhere", link.c_str()), 0);
    EXPECT_TRUE(Fails(client().Unpublish(id, target), StatusCode::FAILED_PRECONDITION, link));
    EXPECT_TRUE(Fails(client().Unstage(id, staging), StatusCode::FAILED_PRECONDITION, link));
    EXPECT_TRUE(Fails(client().Stats(id, target), StatusCode::NOT_FOUND, link));
    ASSERT_EQ(::rename((link + ".away").c_str(), link.c_str()), 0);

    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(client().Unpublish(id, target));
      EXPECT_EQ(MountsAt(real + "/pods/volume"), 0U);
      EXPECT_NE(::access((real + "/pods/volume").c_str(), F_OK), 0);
    }
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(client().Unstage(id, staging));
      EXPECT_EQ(MountsAt(real + "/plugins/staging"), 0U);
    }
    ASSERT_OK(client().Delete(id));
  }
  std::filesystem::remove(link);
}

// A tenant with CAP_MKNOD creates the node of another tenant's volume in his own, and mounts it as a subPath.
TEST_F(NodeTest, ADeviceNodeMadeByATenantIsIgnored) {
  const auto alone = BlockCapability(Mode::SINGLE_NODE_SINGLE_WRITER);
  const v1::Volume volume = MustCreate({"victim", {}, alone});
  const std::string staging = StagingPath("victim");
  ASSERT_OK(client().Stage(volume, staging, alone));
  struct stat node{};
  ASSERT_EQ(::stat(NodeOf(volume).c_str(), &node), 0);
  const std::string tenants = StagingPath("tenants");
  ASSERT_TRUE(Tool({"mount", "-t", "tmpfs", "none", tenants}).ok());
  const std::string made = tenants + "/dm-" + std::to_string(minor(node.st_rdev));
  ASSERT_EQ(::mknod(made.c_str(), S_IFBLK | 0600, node.st_rdev), 0);
  const std::string bound = StagingPath("pod-of-tenant") + "/subpath";
  ASSERT_TRUE(Tool({"touch", bound}).ok());
  ASSERT_TRUE(Tool({"mount", "--bind", made, bound}).ok());

  const std::string target = TargetPath("victim");
  ASSERT_OK(client().Publish(volume, staging, target, alone)) << "the volume has no other user";
  EXPECT_TRUE(Fails(client().Stats(volume.volume_id(), bound), StatusCode::NOT_FOUND));
  ASSERT_OK(client().Unpublish(volume.volume_id(), bound)) << "the volume is not published there";
  EXPECT_EQ(MountsAt(bound), 1U);
  EXPECT_EQ(MountsAt(target), 1U);
  EXPECT_FALSE(client().Delete(volume.volume_id()).ok());
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  KillAndRestart();
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  EXPECT_OK(client().Delete(volume.volume_id()));
  EXPECT_TRUE(Tool({"umount", bound}).ok());
  EXPECT_TRUE(Tool({"umount", tenants}).ok());
}

TEST_F(NodeTest, FileSystemsGrowWhileTheyAreUsed) {
  for (const std::string fs_type : {"ext4", "xfs"}) {
    SCOPED_TRACE(fs_type);
    const Placed placed = MustPlace({"grows-" + fs_type, {}, MountCapability(fs_type), 320 * kMi});
    const std::string& id = placed.volume.volume_id();
    ASSERT_OK(WritePattern(placed.target + "/data", 5, kDataLength));
    UniqueFd open(::open((placed.target + "/data").c_str(), O_RDONLY | O_CLOEXEC));
    auto before = client().Stats(id, placed.target);
    ASSERT_OK(before);

    auto grown = client().Expand(id, 480 * kMi);
    ASSERT_OK(grown);
    EXPECT_EQ(grown.value.capacity_bytes(), 480 * kMi);
    EXPECT_TRUE(grown.value.node_expansion_required());
    ASSERT_OK(client().NodeExpand(id, placed.target, placed.staging, 480 * kMi));
    auto after = client().Stats(id, placed.target);
    ASSERT_OK(after);
    EXPECT_GE(after.value.usage(0).total() - before.value.usage(0).total(), 140 * kMi);
    EXPECT_OK(CheckPattern(placed.target + "/data", 5, kDataLength));

    EXPECT_OK(client().Expand(id, 480 * kMi)) << "repeated";
    EXPECT_OK(client().NodeExpand(id, placed.target, "", 0)) << "repeated, with the required fields only";
    EXPECT_OK(client().Expand(id, 320 * kMi)) << "large enough already";
    auto listed = client().List();
    ASSERT_OK(listed);
    EXPECT_EQ(listed.value.at(0).capacity_bytes(), 480 * kMi);
    // The error names the process that has a file open, and its file stays usable.
    EXPECT_TRUE(
        Fails(client().Unpublish(id, placed.target), StatusCode::FAILED_PRECONDITION, "vm_node_test"));
    EXPECT_OK(CheckPattern(placed.target + "/data", 5, kDataLength));
    open.Reset();
    MustTakeAway(placed);
  }
}

TEST_F(NodeTest, ARawDeviceGrowsWhileItIsOpen) {
  const Placed placed = MustPlace({"grows-raw", TypeParameters("raid1"), BlockCapability()});
  UniqueFd open(::open(placed.target.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(open.valid());
  ASSERT_OK(WritePattern(placed.target, 6, kDataLength));
  ASSERT_OK(client().Expand(placed.volume.volume_id(), 128 * kMi));
  EXPECT_OK(client().NodeExpand(placed.volume.volume_id(), placed.target, placed.staging, 128 * kMi));
  EXPECT_EQ(DeviceBytes(placed.target), 128 * kMi);
  EXPECT_OK(CheckPattern(placed.target, 6, kDataLength));
  // The added space reads as zeroes, as a new volume does.
  EXPECT_OK(CheckZero(placed.target, kDataLength, 120 * kMi));
  EXPECT_OK(WritePattern(placed.target, 7, kDataLength, 124 * kMi));
  const auto legs = group().LegDevices(LvOf(placed.volume));
  ASSERT_OK(legs);
  EXPECT_TRUE(Disjoint(*legs)) << "two legs share a disk after the growth";
  open.Reset();
  MustTakeAway(placed);
}

// --expand node: the calls that Kubernetes makes, staging included.
TEST_F(NodeTest, NodeExpandVolumeAloneGrowsVolumes) {
  EXPECT_EQ(quarryd().Stop(), 0);
  QuarrydOptions options;
  options.arguments = {"--expand", "node"};
  StartQuarryd(options);
  const Placed files = MustPlace({"node-grows", {}, MountCapability("ext4"), 128 * kMi});
  const std::string& id = files.volume.volume_id();
  ASSERT_OK(WritePattern(files.target + "/data", 5, kDataLength));
  EXPECT_TRUE(Fails(client().Expand(id, 256 * kMi), StatusCode::UNIMPLEMENTED));
  const auto grown = client().NodeExpand(id, files.target, files.staging, 256 * kMi);
  ASSERT_OK(grown);
  EXPECT_EQ(grown.value.capacity_bytes(), 256 * kMi);
  auto stats = client().Stats(id, files.target);
  ASSERT_OK(stats);
  EXPECT_GE(stats.value.usage(0).total(), 200 * kMi);
  EXPECT_OK(client().NodeExpand(id, files.target, files.staging, 0)) << "without a size";
  EXPECT_TRUE(Fails(client().NodeExpand(id, files.target, files.staging, int64_t{1} << 40),
                    StatusCode::OUT_OF_RANGE));
  ASSERT_OK(client().Unpublish(id, files.target));
  EXPECT_TRUE(Fails(client().NodeExpand(id, files.staging, files.staging, int64_t{1} << 40),
                    StatusCode::FAILED_PRECONDITION))
      << "the pod starts with the present size";
  EXPECT_OK(client().NodeExpand(id, files.staging, files.staging, 320 * kMi)) << "a size that fits";
  EXPECT_OK(CheckPattern(files.staging + "/data", 5, kDataLength));
  MustTakeAway(files);

  const Placed raw = MustPlace({"node-grows-raw", TypeParameters("raid1"), BlockCapability()});
  ASSERT_OK(client().NodeExpand(raw.volume.volume_id(), raw.target, raw.staging, 128 * kMi));
  EXPECT_EQ(DeviceBytes(raw.target), 128 * kMi);
  EXPECT_OK(CheckZero(raw.target, 64 * kMi, 64 * kMi));
  MustTakeAway(raw);
}

TEST_F(NodeTest, ReadOnlyPublicationsRefuseWrites) {
  const v1::VolumeCapability mount = MountCapability("ext4");
  const v1::Volume files = MustCreate({"read-only-files", {}, mount});
  const std::string staging = StagingPath("ro");
  const std::string target = TargetPath("ro");
  ASSERT_OK(client().Stage(files, staging, mount));
  ASSERT_OK(client().Publish(files, staging, target, mount, true));
  EXPECT_LT(::open((target + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644), 0);
  EXPECT_EQ(errno, EROFS);
  EXPECT_TRUE(Fails(client().Publish(files, staging, target, mount, false), StatusCode::ALREADY_EXISTS));
  ASSERT_OK(client().Unpublish(files.volume_id(), target));
  ASSERT_OK(client().Publish(files, staging, target, mount, false));
  EXPECT_OK(WritePattern(target + "/file", 1, 4096)) << "writable for the next publication";
  ASSERT_OK(client().Unpublish(files.volume_id(), target));
  ASSERT_OK(client().Unstage(files.volume_id(), staging));
  ASSERT_OK(client().Delete(files.volume_id()));

  const v1::Volume raw = MustCreate({"read-only-raw", {}, BlockCapability()});
  ASSERT_OK(client().Stage(raw, staging, BlockCapability()));
  ASSERT_OK(client().Publish(raw, staging, target, BlockCapability(), true));
  const auto written = WritePattern(target, 1, 4096);
  EXPECT_FALSE(written.has_value()) << "a read-only raw device took a write";
  ASSERT_OK(client().Unpublish(raw.volume_id(), target));
  ASSERT_OK(client().Publish(raw, staging, target, BlockCapability(), false));
  EXPECT_OK(WritePattern(target, 1, 4096));
  ASSERT_OK(client().Unpublish(raw.volume_id(), target));
  ASSERT_OK(client().Unstage(raw.volume_id(), staging));
  ASSERT_OK(client().Delete(raw.volume_id()));
}

TEST_F(NodeTest, TwoPodsOfOneNodeShareAVolume) {
  const Placed placed = MustPlace({"shared"});
  const std::string second = TargetPath("shared-second");
  ASSERT_OK(client().Publish(placed.volume, placed.staging, second, placed.capability));
  ASSERT_OK(WritePattern(placed.target + "/data", 8, kDataLength));
  ASSERT_OK(client().Unpublish(placed.volume.volume_id(), placed.target));
  EXPECT_OK(CheckPattern(second + "/data", 8, kDataLength)) << "the other pod keeps the volume";
  ASSERT_OK(client().Unpublish(placed.volume.volume_id(), second));
  MustTakeAway(placed);
}

TEST_F(NodeTest, ASingleWriterVolumeRefusesASecondTarget) {
  const auto capability = MountCapability("ext4", Mode::SINGLE_NODE_SINGLE_WRITER);
  const v1::Volume volume = MustCreate({"alone", {}, capability});
  const std::string staging = StagingPath("alone");
  const std::string target = TargetPath("alone");
  ASSERT_OK(client().Stage(volume, staging, capability));
  ASSERT_OK(client().Publish(volume, staging, target, capability));
  EXPECT_TRUE(Fails(client().Publish(volume, staging, TargetPath("alone-second"), capability),
                    StatusCode::FAILED_PRECONDITION, target));
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  ASSERT_OK(client().Delete(volume.volume_id()));
}

TEST_F(NodeTest, AVolumeInUseIsNotDeletedAndItsUserIsNamed) {
  const Placed files = MustPlace({"used-files"});
  EXPECT_TRUE(
      Fails(client().Delete(files.volume.volume_id()), StatusCode::FAILED_PRECONDITION, files.staging));

  // A mount that quarryd did not make, after the volume was unpublished and unstaged.
  ASSERT_OK(client().Unpublish(files.volume.volume_id(), files.target));
  ASSERT_OK(client().Unstage(files.volume.volume_id(), files.staging));
  const std::string elsewhere = StagingPath("elsewhere");
  ASSERT_TRUE(Tool({"mount", NodeOf(files.volume), elsewhere}).ok());
  EXPECT_TRUE(Fails(client().Delete(files.volume.volume_id()), StatusCode::FAILED_PRECONDITION, elsewhere));
  ASSERT_TRUE(Tool({"umount", elsewhere}).ok());
  EXPECT_OK(client().Delete(files.volume.volume_id()));

  const Placed raw = MustPlace({"used-raw", {}, BlockCapability()});
  EXPECT_TRUE(Fails(client().Delete(raw.volume.volume_id()), StatusCode::FAILED_PRECONDITION, "in use"));
  ASSERT_OK(client().Unpublish(raw.volume.volume_id(), raw.target));
  ASSERT_OK(client().Unstage(raw.volume.volume_id(), raw.staging));
  {
    const UniqueFd open(::open(NodeOf(raw.volume).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(open.valid());
    EXPECT_TRUE(Fails(client().Delete(raw.volume.volume_id()), StatusCode::FAILED_PRECONDITION, "in use"));
  }
  EXPECT_OK(client().Delete(raw.volume.volume_id()));
}

TEST_F(NodeTest, APublishedRawDeviceStaysInUseAcrossAKill) {
  const Placed placed = MustPlace({"held", {}, BlockCapability()});
  ASSERT_OK(WritePattern(placed.target, 11, kDataLength));
  KillAndRestart();
  // Only quarryd has the device open, and a bind mount of the node does not count: LVM must still see it in
  // use.
  EXPECT_FALSE(Tool({"lvchange", "-an", std::string(kGroup) + "/" + LvOf(placed.volume)}).ok());
  EXPECT_TRUE(Fails(client().Delete(placed.volume.volume_id()), StatusCode::FAILED_PRECONDITION));
  EXPECT_OK(CheckPattern(placed.target, 11, kDataLength));
  MustTakeAway(placed);
}

TEST_F(NodeTest, UnpublishLeavesOtherMountsAlone) {
  const Placed mine = MustPlace({"mine"});
  const v1::Volume other = MustCreate({"other"});
  // Another volume's id with this path: that volume is not there, so nothing is to be done.
  EXPECT_OK(client().Unpublish(other.volume_id(), mine.target));
  EXPECT_OK(client().Unstage(other.volume_id(), mine.staging));
  EXPECT_EQ(MountsAt(mine.target), 1U);
  EXPECT_EQ(MountsAt(mine.staging), 1U);

  // An unmanaged file system at the target.
  const std::string foreign = StagingPath("foreign");
  ASSERT_TRUE(Tool({"mount", "-t", "tmpfs", "none", foreign}).ok());
  EXPECT_TRUE(Fails(client().Publish(mine.volume, mine.staging, foreign, mine.capability),
                    StatusCode::FAILED_PRECONDITION, foreign));
  (void)client().Unpublish(mine.volume.volume_id(), foreign);
  EXPECT_EQ(MountsAt(foreign), 1U);
  ASSERT_TRUE(Tool({"umount", foreign}).ok());
  EXPECT_OK(client().Delete(other.volume_id()));
  MustTakeAway(mine);
}

TEST_F(NodeTest, ExistingContentIsNeverFormattedOver) {
  const v1::Volume volume = MustCreate({"precious"});
  const std::string staging = StagingPath("precious");
  // The LV was used for something else before its first staging.
  ASSERT_TRUE(Tool({"mkswap", NodeOf(volume)}).ok());
  EXPECT_TRUE(Fails(client().Stage(volume, staging, MountCapability("ext4")), StatusCode::FAILED_PRECONDITION,
                    "swap"));
  EXPECT_EQ(Trim(Tool({"blkid", "-p", "-s", "TYPE", "-o", "value", NodeOf(volume)}).out), "swap");
  EXPECT_EQ(MountsAt(staging), 0U);
  ASSERT_OK(client().Delete(volume.volume_id()));

  // A volume that was formatted once and now reads blank has lost its data. A new file system would hide
  // that.
  const v1::Volume lost = MustCreate({"lost"});
  ASSERT_OK(client().Stage(lost, staging, MountCapability("ext4")));
  ASSERT_OK(client().Unstage(lost.volume_id(), staging));
  ASSERT_TRUE(Tool({"wipefs", "-a", NodeOf(lost)}).ok());
  EXPECT_FALSE(client().Stage(lost, staging, MountCapability("ext4")).ok());
  EXPECT_EQ(MountsAt(staging), 0U);
  ASSERT_OK(client().Delete(lost.volume_id()));
}

TEST_F(NodeTest, HostilePathsAreRefused) {
  const Placed placed = MustPlace({"paths"});
  const auto publish = [&](const std::string& target) {
    return client().Publish(placed.volume, placed.staging, target, placed.capability);
  };
  const std::string base = StagingPath("hostile");
  EXPECT_TRUE(Fails(publish("relative/path"), StatusCode::INVALID_ARGUMENT, "target_path"));
  EXPECT_TRUE(Fails(publish(base + "/../escape"), StatusCode::INVALID_ARGUMENT, "target_path"));
  EXPECT_TRUE(
      Fails(publish(base + std::string("/nul\0byte", 9)), StatusCode::INVALID_ARGUMENT, "target_path"));
  EXPECT_TRUE(Fails(publish(""), StatusCode::INVALID_ARGUMENT, "target_path"));
  EXPECT_TRUE(Fails(publish("/" + std::string(5000, 'a')), StatusCode::INVALID_ARGUMENT, "target_path"));
  EXPECT_FALSE(publish(base + "/no/such/parent").ok()) << "the CO creates the parent";
  EXPECT_NE(::access((base + "/no").c_str(), F_OK), 0);

  // A link at the target is neither followed nor replaced.
  const std::string victim = StagingPath("victim");
  ASSERT_EQ(::symlink(victim.c_str(), (base + "/link").c_str()), 0);
  EXPECT_FALSE(publish(base + "/link").ok());
  EXPECT_EQ(MountsAt(victim), 0U);
  struct stat found{};
  ASSERT_EQ(::lstat((base + "/link").c_str(), &found), 0);
  EXPECT_TRUE(S_ISLNK(found.st_mode));

  // Unpublishing from a folder with files in it removes none of them.
  ASSERT_OK(WritePattern(victim + "/file", 1, 4096));
  (void)client().Unpublish(placed.volume.volume_id(), victim);
  EXPECT_OK(CheckPattern(victim + "/file", 1, 4096));
  EXPECT_TRUE(Fails(client().Stage(placed.volume, "not/absolute", placed.capability),
                    StatusCode::INVALID_ARGUMENT, "staging_target_path"));
  MustTakeAway(placed);
}

TEST_F(NodeTest, CallsOutOfOrderAreRefused) {
  const v1::Volume volume = MustCreate({"ordered"});
  const auto capability = MountCapability("ext4");
  const std::string staging = StagingPath("ordered");
  EXPECT_TRUE(Fails(client().Publish(volume, "", TargetPath("ordered"), capability),
                    StatusCode::FAILED_PRECONDITION, "staging_target_path"));
  EXPECT_TRUE(Fails(client().Publish(volume, staging, TargetPath("ordered"), capability),
                    StatusCode::FAILED_PRECONDITION, "not staged"));
  EXPECT_FALSE(client().Stage(volume, staging, BlockCapability()).ok())
      << "the volume was created for mounting";
  EXPECT_FALSE(client().Stage(volume, staging, MountCapability("xfs")).ok())
      << "the volume was created for ext4";
  EXPECT_EQ(MountsAt(staging), 0U);
  v1::Volume unknown = volume;
  unknown.set_volume_id("main.qaaaaaaaaaaaaaaaaaaaaaaaaaa");
  EXPECT_TRUE(Fails(client().Stage(unknown, staging, capability), StatusCode::NOT_FOUND));
  EXPECT_TRUE(
      Fails(client().Publish(unknown, staging, TargetPath("ordered"), capability), StatusCode::NOT_FOUND));
  EXPECT_OK(client().Delete(volume.volume_id()));
}

TEST_F(NodeTest, StatsReportUsageAndRefuseOtherPaths) {
  const Placed files = MustPlace({"stats-files", {}, MountCapability("ext4"), 128 * kMi});
  ASSERT_OK(WritePattern(files.target + "/data", 1, 32 << 20));
  auto stats = client().Stats(files.volume.volume_id(), files.target);
  ASSERT_OK(stats);
  ASSERT_EQ(stats.value.usage_size(), 2);
  for (const v1::VolumeUsage& usage : stats.value.usage()) {
    EXPECT_GT(usage.total(), 0);
    EXPECT_GT(usage.used(), 0);
    EXPECT_LE(usage.used() + usage.available(), usage.total());
    if (usage.unit() == v1::VolumeUsage::BYTES) {
      EXPECT_GE(usage.used(), 32 << 20);
      EXPECT_LE(usage.total(), files.volume.capacity_bytes());
    }
  }
  EXPECT_TRUE(Fails(client().Stats(files.volume.volume_id(), "some/path"), StatusCode::NOT_FOUND));
  EXPECT_TRUE(Fails(client().Stats(files.volume.volume_id(), "/"), StatusCode::NOT_FOUND));
  EXPECT_TRUE(Fails(client().Stats("fake-vol-id", files.target), StatusCode::NOT_FOUND));
  EXPECT_TRUE(Fails(client().Stats("", files.target), StatusCode::INVALID_ARGUMENT, "volume_id"));
  MustTakeAway(files);

  const Placed raw = MustPlace({"stats-raw", {}, BlockCapability()});
  auto size = client().Stats(raw.volume.volume_id(), raw.target);
  ASSERT_OK(size);
  EXPECT_EQ(size.value.usage(0).total(), raw.volume.capacity_bytes());
  MustTakeAway(raw);
}

}  // namespace
}  // namespace quarry::vm
