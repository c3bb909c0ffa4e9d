// The LvmApi contract on real LVM, and questions that only real LVM can answer.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"
#include "lvm/fresh/fresh_lvm.h"
#include "lvm/fresh/metadata_header_reader.h"
#include "lvm/run/lvm_config.h"
#include "tests/contract/lvm_contract_cow.h"
#include "tests/contract/lvm_contract_moves.h"
#include "tests/contract/lvm_contract_thin.h"
#include "tests/contract/lvm_kernel_world.h"

namespace quarry::contract {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TYPED_TEST_SUITE_P(Spawn, LvmContract, LvmKernelWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Spawn, LvmMoveContract, LvmKernelWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Spawn, LvmCowContract, LvmKernelWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmContract, LvmZygoteKernelWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmMoveContract, LvmZygoteKernelWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmCowContract, LvmZygoteKernelWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Zygote, LvmThinContract, LvmZygoteKernelWorld);

class LvmSpawnTest : public LvmContract<LvmKernelWorld> {};

TEST_F(LvmSpawnTest, ConfigurationIsValid) {
  EXPECT_THAT(world_.RunLvm({"lvmconfig", "--validate"}), HasSubstr("LVM configuration valid"));
}

// As boot services and hotplug rules activate.
TEST_F(LvmSpawnTest, TheHostsAutoactivationSkipsVolumes) {
  for (const lvm::VolumeType type : {lvm::VolumeType::kLinear, lvm::VolumeType::kRaid1}) {
    const std::string name = lvm::NewLvName();
    CreatePlanned(name, Make(type), 2);
    ASSERT_TRUE(Lvm().Apply(lvm::DeactivateLv{Group(), name, 0}, Patient()).has_value());
    world_.RunLvm({"vgchange", "-y", "--activate", "ay", Group()});
    EXPECT_FALSE(Now()->FindLv(name)->active);
    ASSERT_TRUE(Lvm().Apply(lvm::ActivateLvs{Group(), {name}}, Patient()).has_value());
    EXPECT_TRUE(Now()->FindLv(name)->active);
  }
}

// Flushes that a block device has completed: the 16th field of its stat file.
uint64_t FlushesOf(const std::filesystem::path& device) {
  std::ifstream in(device / "stat");
  uint64_t value = 0;
  for (int field = 0; field < 16; ++field) {
    in >> value;
  }
  EXPECT_TRUE(in.good() || in.eof()) << device;
  return value;
}

// Flushes that a disk has completed. With NVMe multipath only the disk's paths count them: those of nvme1n1
// are nvme1c0n1 and so on.
uint64_t Flushes(const std::string& disk) {
  const std::string name = std::filesystem::path(disk).filename().string();
  const size_t split = name.find('n', name.find_first_of("0123456789"));
  uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/block")) {
    const std::string other = entry.path().filename().string();
    const bool path = name.starts_with("nvme") && split != std::string::npos &&
                      other.starts_with(name.substr(0, split) + "c") && other.ends_with(name.substr(split));
    if (other == name || path) {
      sum += FlushesOf(entry.path());
    }
  }
  return sum;
}

TEST_F(LvmSpawnTest, ADiskThatJoinsIsFlushedToo) {
  const std::string spare = world_.SpareDisk();
  const uint64_t before = Flushes(world_.disks().back());
  const Status added = Lvm().Apply(lvm::AddPv{.group = Group(), .device = spare}, Patient());
  ASSERT_TRUE(added.has_value()) << added.error().message();
  EXPECT_GT(Flushes(world_.disks().back()), before) << "without a flush a power cut would lose the label";
}

TEST_F(LvmSpawnTest, EveryCommitIsFlushedToEveryDisk) {
  const std::string name = CreateSmall();
  const auto expect_flushed = [&](const char* what, auto change) {
    std::vector<uint64_t> before;
    for (size_t i = 0; i < kDisks; ++i) {
      before.push_back(Flushes(world_.disks()[i]));
    }
    const Status changed = change();
    ASSERT_TRUE(changed.has_value()) << what << ": " << changed.error().message();
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_GT(Flushes(world_.disks()[i]), before[i]) << what << " " << world_.disks()[i];
    }
  };
  const lvm::Geometry linear = Make(lvm::VolumeType::kLinear);
  const std::string device = Now()->pvs[3].device;
  const std::string other = lvm::NewLvName();
  expect_flushed("tags", [&] { return Lvm().Apply(lvm::ChangeTags{Group(), name, {"x"}, {}}, Patient()); });
  expect_flushed("create", [&] {
    return Lvm().Apply(Spec(other, linear, {Extents{1}, "contiguous", {device + ":9-9"}}), Patient());
  });
  expect_flushed("extend", [&] {
    return Lvm().Apply(lvm::ExtendLv{Group(), other, linear, {Extents{1}, "normal", {device + ":20-20"}}},
                       Patient());
  });
  expect_flushed("remove", [&] { return Remove(other); });
}

// A snapshot may be made after the last check before the removal of its origin.
TEST_F(LvmSpawnTest, RemovingAnOriginKeepsItsSnapshot) {
  const std::string name = CreateSmall();
  world_.Run({"/usr/sbin/lvm", "lvcreate", "-y", "-s", "-n", "theirs", "-l", "1", Group() + "/" + name});
  ASSERT_TRUE(Lvm().Apply(lvm::DeactivateLv{Group(), name, 0}, Patient()).has_value());
  const lvm::Snapshot before = Now();
  EXPECT_TRUE(Lvm().Apply(lvm::RemoveLvs{Group(), {name}, before->seqno - 1}, Patient()).has_value());
  ExpectSameMetadata(*before, *Now());
  world_.Run({"/usr/sbin/lvm", "lvremove", "-y", Group() + "/theirs"});
  EXPECT_TRUE(Lvm().Apply(lvm::RemoveLvs{Group(), {name}, 0}, Patient()).has_value());
}

// Under LVM's lock only headers and text are believed, whatever an administrator lays over the volumes.
TEST_F(LvmSpawnTest, TheTextOfSnapshotsIsThatOfTheReport) {
  const std::string linear = CreateSmall();
  const std::string mirror = lvm::NewLvName();
  CreatePlanned(mirror, Make(lvm::VolumeType::kRaid1), 2);
  for (const auto& [origin, snapshot] : {std::pair{linear, "first"}, {linear, "second"}, {mirror, "third"}}) {
    world_.RunLvm(
        {"lvcreate", "-y", "-s", "-n", snapshot, "-l", "1", "--addtag", "theirs", Group() + "/" + origin});
  }
  world_.RunLvm({"lvextend", "-y", "-l", "+1", Group() + "/second"});
  const uint64_t asked = lvm::testing::Texts().asked;
  const lvm::Snapshot now = Now();
  EXPECT_EQ(lvm::testing::Texts().asked, asked) << "the text was not understood";
  EXPECT_EQ(now->FindLv("second")->origin, linear);
  EXPECT_FALSE(now->FindLv(mirror)->independent);
}

TEST_F(LvmSpawnTest, TheTextOfThinPoolsIsThatOfTheReport) {
  const std::string data = lvm::NewLvName();
  const std::string metadata = lvm::NewLvName();
  CreatePlanned(data, Make(lvm::VolumeType::kRaid1), 16);
  CreatePlanned(metadata, Make(lvm::VolumeType::kRaid1), 2);
  world_.RunLvm({"lvconvert", "-y", "--type", "thin-pool", "--poolmetadata", Group() + "/" + metadata,
                 "--chunksize", "128k", Group() + "/" + data});
  world_.RunLvm({"lvcreate", "-y", "--type", "thin", "-V", "64m", "--thinpool", data, "-n", "thin", Group()});
  world_.RunLvm({"lvcreate", "-y", "-s", "-n", "copy", Group() + "/thin"});
  const uint64_t asked = lvm::testing::Texts().asked;
  const lvm::Snapshot now = Now();
  EXPECT_EQ(lvm::testing::Texts().asked, asked) << "the text was not understood";
  const lvm::LogicalVolume& pool = *now->FindLv(data);
  ASSERT_TRUE(pool.segments.front().thin_pool.has_value());
  EXPECT_EQ(pool.segments.front().chunk_size, Bytes{128 * kKiB.value});
  EXPECT_EQ(pool.segments.front().thin_pool->transaction_id, 2U);
  EXPECT_EQ(now->FindLv("copy")->segments.front().thin_volume->device_id, 2U);
  EXPECT_EQ(now->FindLv("copy")->origin, "thin");
}

TEST_F(LvmSpawnTest, AGroupWithThinPoolsAndSnapshotsIsHeldWithoutAskingLvm) {
  const std::string name = CreateSmall();
  world_.RunLvm({"lvcreate", "-y", "-T", "-L", "64m", "-V", "128m", "-n", "thin", Group() + "/pool"});
  world_.RunLvm({"lvcreate", "-y", "-s", "-n", "copy", Group() + "/thin"});
  world_.RunLvm({"lvcreate", "-y", "-s", "-n", "backup", "-l", "1", Group() + "/" + name});
  lvm::HeaderReader headers;
  lvm::FreshLvm fresh(Lvm(), headers);
  ASSERT_TRUE(fresh.Read(Group(), Patient()).has_value());
  const uint64_t asked = fresh.counts().refreshed;
  for (const std::string tag : {"a", "b", "c"}) {
    world_.RunLvm({"lvchange", "--addtag", tag, Group() + "/pool"});
    const auto held = fresh.Hold(Group(), Patient());
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_THAT(held->snapshot->FindLv("pool")->tags, ::testing::Contains(tag));
  }
  EXPECT_EQ(fresh.counts().refreshed, asked);
  EXPECT_GE(fresh.counts().read, 3U);
}

// "Not found" is an answer about all disks.
TEST_F(LvmSpawnTest, ADiskThatCannotBeReadMakesTheGroupUnknown) {
  world_.Run({"/usr/sbin/dmsetup", "create", "sick", "--table", "0 8192 error"});
  Result<lvm::Snapshot> read = Lvm().Read("nosuchgroup", Patient());
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), Code::kUnavailable) << read.error().message();
  EXPECT_THAT(read.error().message(), HasSubstr("/dev/dm-"));
  EXPECT_EQ(Lvm().Apply(lvm::RemoveLvs{"nosuchgroup", {"qx"}, 0}, Patient()).error().code(),
            Code::kUnavailable);
  EXPECT_NE(Now()->uuid, "") << "a group that LVM finds is not in doubt";

  world_.Run({"/usr/sbin/dmsetup", "suspend", "sick"});
  read = Lvm().Read("nosuchgroup", Patient());
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), Code::kUnavailable) << read.error().message();
  EXPECT_THAT(read.error().message(), HasSubstr("suspended"));

  world_.Run({"/usr/sbin/dmsetup", "resume", "sick"});
  world_.Run({"/usr/sbin/dmsetup", "remove", "sick"});
  EXPECT_EQ(Lvm().Read("nosuchgroup", Patient()).error().code(), Code::kNotFound);
}

TEST_F(LvmSpawnTest, ALockedGroupIsWaitedForUntilTheDeadline) {
  const std::string name = CreateSmall();
  UniqueFd lock(open(("/run/lock/lvm/V_" + Group()).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(lock.valid());
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  const Result<lvm::Snapshot> read = Lvm().Read(Group(), CallWithin(std::chrono::seconds(3)));
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), Code::kTimeout) << read.error().message();
  ExpectError(Lvm().Apply(lvm::RemoveLvs{Group(), {name}, 0}, CallWithin(std::chrono::seconds(3))),
              Code::kTimeout);
  lock.Reset();
  EXPECT_NE(Now()->FindLv(name), nullptr);
}

// A tenant may write anything into a volume, even a copy of one of our disks.
TEST_F(LvmSpawnTest, APvInsideAVolumeIsIgnored) {
  const std::string name = CreateSmall();
  const lvm::Snapshot before = Now();
  world_.Run({"/usr/bin/dd", "if=" + world_.disks()[0], "of=" + world_.device(name), "bs=1M", "count=4",
              "oflag=direct"});
  const std::string everywhere = world_.link_dir() + "-everywhere";
  ASSERT_TRUE(lvm::WriteLvmConfig({.system_dir = everywhere}).has_value());
  SpawnSubprocess subprocess;
  const auto wide = lvm::LvmSpawn::Make(subprocess, {.system_dir = everywhere}, Patient());
  ASSERT_TRUE(wide.has_value()) << wide.error().message();
  const auto read = (*wide)->Read(Group(), Patient());
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ((*read)->seqno, before->seqno);
  EXPECT_EQ((*read)->MissingPvs(), 0U);
  for (const lvm::PhysicalVolume& pv : (*read)->pvs) {
    EXPECT_EQ(pv.device.find("/dev/dm-"), std::string::npos) << pv.device;
    EXPECT_EQ(pv.device.find(name), std::string::npos) << pv.device;
  }
  ExpectSameMetadata(*before, *Now());
}

// A full metadata area refuses changes with its own message, and has space again after tags are removed.
TEST_F(LvmSpawnTest, AFullMetadataAreaIsReportedAsNoSpace) {
  const std::string name = CreateSmall();
  const std::string filler(900, 'x');
  std::vector<std::string> added;
  Status status = Ok();
  // Old and new text must both fit the default area of 1 MiB: some 500 tags of this length.
  for (int batch = 0; batch < 60 && status.has_value(); ++batch) {
    std::vector<std::string> tags;
    for (int i = 0; i < 25; ++i) {
      tags.push_back("t" + std::to_string(batch * 100 + i) + filler);
    }
    status = Lvm().Apply(lvm::ChangeTags{Group(), name, tags, {}}, Patient());
    if (status.has_value()) {
      added.insert(added.end(), tags.begin(), tags.end());
    }
  }
  ExpectError(status, Code::kNoSpace);
  EXPECT_THAT(status.error().message(), HasSubstr("metadata"));
  const lvm::Snapshot full = Now();
  EXPECT_EQ(full->FindLv(name)->tags.size(), added.size());
  EXPECT_LT(full->pvs[0].metadata_free.value, 50U * 1000);
  const std::vector<std::string> some(added.begin(), added.begin() + 50);
  const Status freed = Lvm().Apply(lvm::ChangeTags{Group(), name, {}, some}, Patient());
  EXPECT_TRUE(freed.has_value()) << freed.error().message();
}

}  // namespace
}  // namespace quarry::contract
