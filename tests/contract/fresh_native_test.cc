// Freshness on what the real lvm2 writes: other shells, faults and mix-ups change a group's disks, and the
// next read returns what LVM itself would report.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/unique_fd.h"
#include "lvm/run/zygote.h"
#include "tests/contract/native_world.h"
#include "tests/unit/lvm/text_agreement.h"

namespace quarry::contract {
namespace {

using testing::HasSubstr;

constexpr size_t kDisks = 4;
constexpr Bytes kDiskSize{64 * kMiB.value};
constexpr uint64_t kHeaderAt = 4096;
constexpr size_t kFront = 1 << 20;  // label and metadata area

std::string ReadDisk(const std::string& path, uint64_t at, size_t size) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(size, '\0');
  EXPECT_EQ(pread(fd.get(), bytes.data(), size, static_cast<off_t>(at)), static_cast<ssize_t>(size));
  return bytes;
}

void WriteDisk(const std::string& path, uint64_t at, const std::string& bytes) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(fsync(fd.get()), 0);
}

// What runs LVM: the program itself, or the zygote.
class FreshNative : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    Subprocess& runner = GetParam() ? static_cast<Subprocess&>(zygote_) : spawn_;
    auto world = NativeWorld::Make(runner, NativeWorld::View::kLinks, kDisks, kDiskSize);
    if (!world.has_value() &&
        (world.error().code() == Code::kUnavailable || world.error().code() == Code::kNotFound)) {
      GTEST_SKIP() << "NOT TESTED against the real lvm2: " << world.error().message();
    }
    ASSERT_TRUE(world.has_value()) << world.error().message();
    world_ = std::move(*world);
    fresh_ = std::make_unique<lvm::FreshLvm>(world_->lvm(), world_->headers(), &world_->links());
  }
  void TearDown() override {
    if (world_ != nullptr && GetParam()) {
      EXPECT_EQ(zygote_.counts().passed_on, 0U);
      EXPECT_EQ(zygote_.counts().starts, 1U);
    }
  }

  const std::string& Group() const { return world_->group(); }
  // The group on the first disks, with one LV "a".
  void MakeGroup(size_t disks = 3) {
    std::vector<std::string> words = {"vgcreate", "-y", Group()};
    for (size_t i = 0; i < disks; ++i) {
      words.push_back(world_->ShellPath(i));
    }
    world_->Shell(words);
    AddLv("a");
    ExpectTruth();
  }
  void AddLv(const std::string& name) {
    world_->Shell({"lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "1", "-n", name, Group()});
  }

  Result<lvm::Snapshot> Read() { return fresh_->Read(Group(), CallWithin(std::chrono::minutes(1))); }
  // The next read returns what LVM would report, and the read after it does not ask LVM.
  lvm::Snapshot ExpectTruth() {
    const auto read = Read();
    EXPECT_TRUE(read.has_value()) << read.error().message();
    const auto truth = world_->wide().Read(Group(), CallWithin(std::chrono::minutes(1)));
    EXPECT_TRUE(truth.has_value()) << truth.error().message();
    if (!read.has_value() || !truth.has_value()) {
      return nullptr;
    }
    EXPECT_EQ(Comparable(**read), Comparable(**truth));
    EXPECT_EQ(RunsOfReads(3), 0);
    return *read;
  }
  // Each disk has two links, one per configuration, and PVs are ordered by their links.
  std::string Comparable(const lvm::VolumeGroup& group) {
    lvm::VolumeGroup out = group.MetadataOnly();
    for (lvm::PhysicalVolume& pv : out.pvs) {
      pv.device = pv.device.empty() ? "" : std::filesystem::canonical(pv.device).string();
    }
    std::ranges::sort(out.pvs, {}, &lvm::PhysicalVolume::uuid);
    return lvm::testing::AllOf(out);
  }
  std::string UuidOf(size_t disk) {
    return world_->headers().Read(std::vector{world_->device(disk)}, {})->at(0).uuid;
  }
  int RunsOfReads(int reads) {
    const int before = world_->runs();
    for (int i = 0; i < reads; ++i) {
      (void)Read();
    }
    return world_->runs() - before;
  }
  // Makes the kernel send its event for a disk that appears.
  void Announce(size_t disk) {
    const std::string name = std::filesystem::path(world_->device(disk)).filename();
    std::ofstream event("/sys/class/block/" + name + "/uevent");
    event << "change" << std::flush;
    ASSERT_TRUE(event.good()) << "the kernel cannot be made to send an event for " << name
                              << ": is sysfs read-only?";
  }

  SpawnSubprocess spawn_;
  lvm::ZygoteSubprocess zygote_{QUARRY_ZYGOTE, spawn_};
  std::unique_ptr<NativeWorld> world_;
  std::unique_ptr<lvm::FreshLvm> fresh_;
};

INSTANTIATE_TEST_SUITE_P(By, FreshNative, testing::Bool(),
                         [](const auto& by) { return by.param ? "Zygote" : "Spawn"; });

TEST_P(FreshNative, EveryCommandOfAnotherShellShowsAtOnce) {
  MakeGroup();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "2", "-n", "b", Group()},
           {"lvchange", "--addtag", "x", Group() + "/b"},
           {"lvextend", "-l", "+1", Group() + "/b"},
           {"lvrename", Group(), "b", "c"},
           {"vgchange", "--addtag", "y", Group()},
           {"pvchange", "--allocatable", "n", world_->ShellPath(1)},
           {"lvchange", "--deltag", "x", Group() + "/c"},
           {"lvremove", "-y", Group() + "/c"}}) {
    SCOPED_TRACE(words[0]);
    const uint64_t seqno = ExpectTruth()->seqno;
    world_->Shell(words);
    const int runs = world_->runs();
    EXPECT_GT(ExpectTruth()->seqno, seqno);
    EXPECT_EQ(world_->runs(), runs) << "LVM was asked although the disks have the answer";
  }
}

// LVM writes a text and then, twice, the header. The zygote flushes in between; the last flush is that of
// quarryd. The program lvm itself does not flush.
TEST_P(FreshNative, ADiskIsFlushedBeforeItsHeaderIsReplaced) {
  MakeGroup();
  const auto flushes = [&](size_t disk) {
    const std::string name = std::filesystem::path(world_->device(disk)).filename();
    std::ifstream stat("/sys/class/block/" + name + "/stat");
    // Documentation/block/stat.rst: the 16th field.
    const std::vector<uint64_t> fields{std::istream_iterator<uint64_t>(stat), {}};
    EXPECT_GT(fields.size(), 15U);
    return fields.size() > 15 ? fields[15] : 0;
  };
  for (size_t disk = 0; disk < 3; ++disk) {
    const uint64_t before = flushes(disk);
    ASSERT_TRUE(fresh_->Apply(lvm::ChangeTags{Group(), "a", {fmt::format("t{}", disk)}, {}}, {}).has_value());
    const uint64_t done = flushes(disk) - before;
    EXPECT_GE(done, GetParam() ? 2U : 1U) << "disk " << disk;
    EXPECT_LE(done, GetParam() ? 3U : 1U)
        << "disk " << disk << ": one more if the text is in the header's block";
  }
}

// The same for changes by quarryd, whether they succeed or fail.
TEST_P(FreshNative, OwnChangesAreReadFromTheDisksUnlessTheyFail) {
  MakeGroup();
  const auto runs_of_read = [&] {
    const int before = world_->runs();
    EXPECT_TRUE(Read().has_value());
    return world_->runs() - before;
  };
  ASSERT_TRUE(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"t"}, {}}, {}).has_value());
  EXPECT_EQ(runs_of_read(), 0);
  EXPECT_THAT((*Read())->FindLv("a")->tags, testing::ElementsAre("t"));
  ASSERT_FALSE(fresh_->Apply(lvm::ChangeTags{Group(), "nosuch", {"t"}, {}}, {}).has_value());
  EXPECT_EQ(runs_of_read(), 1)
      << "the failed change may still run and hold the lock, for which only LVM waits";
  EXPECT_EQ(runs_of_read(), 0);
  ASSERT_TRUE(fresh_->Apply(lvm::RemoveLvs{Group(), {"a"}, 0}, {}).has_value());
  EXPECT_EQ(runs_of_read(), 0);
  ExpectTruth();
}

// Free space in the metadata area is computed as LVM does, for areas of any size.
TEST_P(FreshNative, FreeMetadataSpaceIsComputedAsLvmDoes) {
  const char* const sizes[] = {"64k", "100k", "1m", "7m"};
  for (size_t i = 0; i < kDisks; ++i) {
    world_->Shell(
        {"pvcreate", "-y", "--dataalignment", "4k", "--metadatasize", sizes[i], world_->ShellPath(i)});
  }
  MakeGroup(kDisks);
  std::string tag(700, 'x');
  const int runs = world_->runs();
  for (int i = 0; i < 12; ++i) {
    tag.append(13, 'x');
    world_->Shell({"lvchange", "--addtag", fmt::format("{}{}", i, tag), Group() + "/a"});
    ExpectTruth();
  }
  EXPECT_EQ(world_->runs(), runs);
}

TEST_P(FreshNative, LvmIsAskedOnceForAnUnsupportedText) {
  MakeGroup();
  world_->Shell({"lvcreate", "-y", "-an", "-Zn", "-Wn", "--type", "error", "-l", "1", "-n", "e", Group()});
  const int runs = world_->runs();
  ExpectTruth();
  EXPECT_EQ(world_->runs(), runs + 1) << "the parser does not know the segment type";
  world_->Shell({"lvremove", "-y", Group() + "/e"});
  ExpectTruth();
  EXPECT_EQ(world_->runs(), runs + 1) << "without that segment, the disks have the whole answer";
}

TEST_P(FreshNative, TheNewestOfDisagreeingDisksIsRead) {
  MakeGroup();
  const std::string old = ReadDisk(world_->device(1), 0, kFront);
  AddLv("b");
  AddLv("c");
  WriteDisk(world_->device(1), 0, old);  // two commits old, as after a lost write
  EXPECT_EQ(ExpectTruth()->lvs.size(), 3U);
  world_->Shell({"lvremove", "-y", Group() + "/b"});
  EXPECT_EQ(ExpectTruth()->lvs.size(), 2U);
}

TEST_P(FreshNative, TornHeaderLeavesTheGroupToTheOtherDisks) {
  MakeGroup();
  const std::string before = ReadDisk(world_->device(2), kHeaderAt, 512);
  AddLv("b");
  const std::string after = ReadDisk(world_->device(2), kHeaderAt, 512);
  WriteDisk(world_->device(2), kHeaderAt, after.substr(0, 64) + before.substr(64));
  ASSERT_NE(ReadDisk(world_->device(2), kHeaderAt, 512), before);
  EXPECT_EQ(ExpectTruth()->lvs.size(), 2U);
  AddLv("c");
  EXPECT_EQ(ExpectTruth()->lvs.size(), 3U);
}

TEST_P(FreshNative, AnAreaOfAnotherGroupIsReadAsLvmReadsIt) {
  MakeGroup(2);
  const std::string stranger = Group() + "x";
  world_->Shell({"vgcreate", "-y", stranger, world_->ShellPath(3)});
  const std::string area = ReadDisk(world_->device(3), kHeaderAt, kFront - kHeaderAt);
  world_->Shell({"vgremove", "-y", stranger});
  const std::string own = ReadDisk(world_->device(1), kHeaderAt, kFront - kHeaderAt);
  WriteDisk(world_->device(1), kHeaderAt, area);
  const auto read = Read();
  const auto truth = world_->wide().Read(Group(), CallWithin(std::chrono::minutes(1)));
  ASSERT_EQ(read.has_value(), truth.has_value());
  if (read.has_value()) {
    EXPECT_EQ((*read)->seqno, (*truth)->seqno);
  }
  WriteDisk(world_->device(1), kHeaderAt, own);
  ExpectTruth();
}

TEST_P(FreshNative, DisksWithoutAnAreaAndWithTwoAreRead) {
  world_->Shell({"pvcreate", "-y", "--pvmetadatacopies", "0", world_->ShellPath(0), world_->ShellPath(1)});
  world_->Shell({"pvcreate", "-y", "--pvmetadatacopies", "2", world_->ShellPath(2)});
  MakeGroup();
  const auto states = world_->headers().Read(std::vector{world_->device(0), world_->device(2)}, {});
  ASSERT_TRUE(states.has_value());
  EXPECT_EQ((*states)[0].areas.size(), 0U);
  EXPECT_EQ((*states)[1].areas.size(), 2U);
  AddLv("b");
  EXPECT_EQ(ExpectTruth()->lvs.size(), 2U);
  // Only the area at the end is still valid.
  WriteDisk(world_->device(2), kHeaderAt, std::string(512, '\1'));
  ExpectTruth();
  AddLv("c");
  EXPECT_EQ(ExpectTruth()->lvs.size(), 3U);
}

TEST_P(FreshNative, IgnoredAreasProveNothingAndOneInUseProvesAll) {
  MakeGroup();
  world_->Shell({"vgchange", "--vgmetadatacopies", "1", Group()});
  ExpectTruth();
  size_t in_use = 0;
  for (size_t disk = 0; disk < 3; ++disk) {
    const auto states = world_->headers().Read(std::vector{world_->device(disk)}, {});
    in_use += (*states)[0].areas.at(0).ignored ? 0 : 1;
  }
  EXPECT_EQ(in_use, 1U);
  AddLv("b");
  EXPECT_EQ(ExpectTruth()->lvs.size(), 2U);
  world_->Shell({"vgchange", "--vgmetadatacopies", "all", Group()});
  ExpectTruth();
  AddLv("c");
  EXPECT_EQ(ExpectTruth()->lvs.size(), 3U);
}

TEST_P(FreshNative, ARenamedGroupIsNotFoundUntilItsNameReturns) {
  MakeGroup();
  world_->Shell({"vgrename", Group(), Group() + "x"});
  EXPECT_EQ(Read().error().code(), Code::kNotFound) << Read().error().message();
  EXPECT_EQ(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"t"}, {}}, {}).error().code(), Code::kNotFound);
  world_->Shell({"vgrename", Group() + "x", Group()});
  ExpectTruth();
}

TEST_P(FreshNative, AnExportedGroupIsReportedAndNotChanged) {
  MakeGroup();
  world_->Shell({"vgexport", Group()});
  const uint64_t seqno = ExpectTruth()->seqno;
  EXPECT_TRUE((*Read())->exported);
  EXPECT_FALSE(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"t"}, {}}, {}).has_value());
  EXPECT_EQ(ExpectTruth()->seqno, seqno);
  world_->Shell({"vgimport", Group()});
  EXPECT_FALSE(ExpectTruth()->exported);
}

TEST_P(FreshNative, ASplitGroupHasItsRemainingDisks) {
  MakeGroup();
  const std::string leaving = UuidOf(2);
  world_->Shell({"vgsplit", Group(), Group() + "x", world_->ShellPath(2)});
  const lvm::Snapshot left = ExpectTruth();
  EXPECT_EQ(left->pvs.size(), 2U);
  EXPECT_EQ(left->FindPv(leaving), nullptr);
  world_->Shell({"vgmerge", Group(), Group() + "x"});
  const lvm::Snapshot whole = ExpectTruth();
  EXPECT_EQ(whole->MissingPvs(), 0U);
  EXPECT_NE(whole->FindPv(leaving), nullptr);
}

TEST_P(FreshNative, AnotherGroupOfTheSameNameIsRefusedAndNotTouched) {
  MakeGroup();
  world_->Shell({"vgremove", "-y", Group()});
  world_->Shell({"vgcreate", "-y", Group(), world_->ShellPath(0)});
  AddLv("a");
  const auto theirs = world_->wide().Read(Group(), {});
  ASSERT_TRUE(theirs.has_value());
  const auto read = Read();
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), Code::kPrecondition);
  EXPECT_THAT(read.error().message(), HasSubstr("UUID"));
  EXPECT_EQ(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"t"}, {}}, {}).error().code(), Code::kPrecondition);
  EXPECT_EQ(fresh_->Apply(lvm::RemoveLvs{Group(), {"a"}, 0}, {}).error().code(), Code::kPrecondition);
  EXPECT_EQ((*world_->wide().Read(Group(), {}))->seqno, (*theirs)->seqno);
}

TEST_P(FreshNative, ANewDiskIsSeenWithItsCommit) {
  MakeGroup();
  world_->Shell({"vgextend", "-y", Group(), world_->ShellPath(3)});
  const lvm::Snapshot grown = ExpectTruth();
  EXPECT_EQ(grown->pvs.size(), 4U);
  EXPECT_EQ(grown->MissingPvs(), 0U);
  world_->Shell({"vgreduce", Group(), world_->ShellPath(2)});
  EXPECT_EQ(ExpectTruth()->pvs.size(), 3U);
}

TEST_P(FreshNative, AReturnedDiskIsSeenAfterTheKernelsEvent) {
  MakeGroup();
  world_->Hide(1);
  EXPECT_EQ((*Read())->MissingPvs(), 1U);
  EXPECT_EQ(RunsOfReads(100), 0) << "a missing disk does not make a read ask LVM";
  world_->Show(1);
  Announce(1);
  EXPECT_EQ((*Read())->MissingPvs(), 0U);
  EXPECT_EQ(RunsOfReads(3), 0);
}

// A commit while a disk is missing marks it as missing.
TEST_P(FreshNative, ADiskThatMissedACommitIsMissingUntilItIsRestored) {
  MakeGroup();
  world_->Shell({"lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "1", "-n", "b", Group(), world_->ShellPath(1)});
  ExpectTruth();
  world_->Hide(1);
  ASSERT_TRUE(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"t"}, {}}, {}).has_value());
  EXPECT_EQ((*Read())->MissingPvs(), 1U);
  world_->Show(1);
  Announce(1);
  const auto back = Read();
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ((*back)->MissingPvs(), 1U);
  const lvm::PhysicalVolume* pv = (*back)->FindPv(UuidOf(1));
  ASSERT_NE(pv, nullptr);
  EXPECT_FALSE(pv->device.empty());
  world_->Shell({"vgextend", "--restoremissing", Group(), world_->ShellPath(1)});
  EXPECT_EQ(ExpectTruth()->MissingPvs(), 0U);
}

// So a vgextend that a change by quarryd overtakes does no harm: see docs/freshness.md.
TEST_P(FreshNative, AnEmptyDiskThatMissedACommitRejoins) {
  MakeGroup();
  world_->Hide(1);
  ASSERT_TRUE(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"t"}, {}}, {}).has_value());
  EXPECT_EQ((*Read())->MissingPvs(), 1U);
  world_->Show(1);
  Announce(1);
  EXPECT_EQ(ExpectTruth()->MissingPvs(), 0U);
  ASSERT_TRUE(fresh_->Apply(lvm::ChangeTags{Group(), "a", {"u"}, {}}, {}).has_value());
  EXPECT_EQ(ExpectTruth()->MissingPvs(), 0U);
}

// A read that begins after a command has returned shows the command's change, and no read shows uncommitted
// changes.
TEST_P(FreshNative, NoneOfTenThousandReadsIsStaleWhileAnotherShellChangesTheGroup) {
  constexpr int kReads = 10000;
  constexpr uint64_t kCommits = 20;
  MakeGroup();
  const uint64_t first = ExpectTruth()->seqno;
  std::atomic<uint64_t> begun = first;
  std::atomic<uint64_t> done = first;
  std::atomic<int> reads = 0;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&] {
      while (reads++ < kReads || done - first < kCommits) {
        const uint64_t least = done;
        const auto read = Read();
        wrong += !read.has_value() || (*read)->seqno < least || (*read)->seqno > begun ? 1 : 0;
      }
    });
  }
  // One commit each.
  const std::vector<std::vector<std::string>> commands = {
      {"lvcreate", "-y", "-an", "-Zn", "-Wn", "-l", "1", "-n", "b", Group()},
      {"lvchange", "--addtag", "x", Group() + "/a"},
      {"lvchange", "--deltag", "x", Group() + "/a"},
      {"lvremove", "-y", Group() + "/b"}};
  // Continues to the end of a round, so that the next round can begin.
  for (size_t next = 0; reads < kReads || next < kCommits || next % commands.size() != 0; ++next) {
    ++begun;
    world_->Shell(commands[next % commands.size()]);
    ++done;
  }
  readers.clear();  // joins them
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ExpectTruth()->seqno, done) << "a command was not one commit: the test is wrong";
  const auto counts = fresh_->counts();
  std::printf(
      "%llu commits; of the reads %llu were proven, %llu read the disks, %llu asked LVM, %llu waited for one "
      "that did\n",
      static_cast<unsigned long long>(done - first), static_cast<unsigned long long>(counts.proven),
      static_cast<unsigned long long>(counts.read), static_cast<unsigned long long>(counts.refreshed),
      static_cast<unsigned long long>(counts.joined));
}

}  // namespace
}  // namespace quarry::contract
