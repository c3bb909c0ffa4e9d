#include "lvm/fresh/fresh_lvm.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/lvm/fresh_world.h"

namespace quarry::lvm {
namespace {

using std::chrono::milliseconds;

class Fresh : public testing::Test {
 protected:
  Snapshot Get() {
    auto snapshot = lvm_.Read("vg0", {});
    EXPECT_TRUE(snapshot.has_value()) << snapshot.error().message();
    return snapshot.value_or(nullptr);
  }
  // The number of reports that `reads` reads cost.
  int Reports(int reads = 1) {
    const int before = world_.reports();
    for (int i = 0; i < reads; ++i) {
      Get();
    }
    return world_.reports() - before;
  }

  FreshWorld world_{3};
  FreshLvm lvm_{world_, world_};
  FreshLvm finding_{world_, world_, &world_};
};

class LostLock final : public GroupLocks {
 public:
  Status ClaimName(const std::string&) override { return Ok(); }
  Result<bool> Claim(const std::string&, const std::string&) override { return false; }
  Status Check(const std::string&) const override { return still; }
  Result<int> ForCommand(const std::string&) const override { return -1; }
  Status still;
};

TEST_F(Fresh, GroupWhoseLockIsLostIsNotReadThoughMemoryProvesIt) {
  LostLock locks;
  FreshLvm guarded(world_, world_, nullptr, nullptr, &locks);
  EXPECT_TRUE(guarded.Read("vg0", {}).has_value());
  locks.still = Error(Code::kUnavailable, "the lock file was removed");
  EXPECT_EQ(guarded.Read("vg0", {}).error().code(), Code::kUnavailable);
}

TEST_F(Fresh, UnchangedGroupIsAnsweredFromMemory) {
  const Snapshot first = Get();
  EXPECT_EQ(Reports(1000), 0);
  EXPECT_EQ(Get(), first) << "the same object, not an equal one";
  EXPECT_EQ(lvm_.counts().refreshed, 1U);
  EXPECT_EQ(lvm_.counts().proven, 1001U);
  EXPECT_EQ(lvm_.counts().unproven, 0U);
}

TEST_F(Fresh, CommitOfOthersShowsOnTheVeryNextRead) {
  Get();
  for (uint64_t seqno = 2; seqno < 20; ++seqno) {
    world_.Commit();
    EXPECT_EQ(Get()->seqno, seqno);
    EXPECT_EQ(Reports(), 0);
  }
}

class FreshHold : public Fresh {
 protected:
  FreshHold() {
    std::string path = testing::TempDir() + "quarry-hold-XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    locking_ = std::make_unique<FreshLvm>(world_, world_, nullptr, nullptr, nullptr, dir_);
  }
  ~FreshHold() override { std::filesystem::remove_all(dir_); }
  static Call Soon() { return CallWithin(milliseconds(20000)); }
  bool IsFree() const {
    const UniqueFd fd(open((dir_ + "/V_vg0").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0777));
    return flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  }

  std::string dir_;
  std::unique_ptr<FreshLvm> locking_;
};

TEST_F(FreshHold, IsOfTheGroupAsItIsAndAsksNobody) {
  ASSERT_TRUE(locking_->Read("vg0", Soon()).has_value());
  const int reports = world_.reports();
  {
    const auto held = locking_->Hold("vg0", Soon());
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_EQ(held->snapshot->seqno, world_.newest());
    EXPECT_TRUE(held->silent.empty());
    EXPECT_FALSE(IsFree());
  }
  EXPECT_TRUE(IsFree());
  EXPECT_EQ(world_.reports(), reports);
}

TEST_F(FreshHold, WhatWasCommittedBeforeTheLockWasThereIsSeen) {
  ASSERT_TRUE(locking_->Read("vg0", Soon()).has_value());
  std::optional<UniqueFd> writer(open((dir_ + "/V_vg0").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0777));
  ASSERT_EQ(flock(writer->get(), LOCK_EX), 0);
  std::optional<Result<HeldGroup>> held;
  std::thread holder([&] { held.emplace(locking_->Hold("vg0", Soon())); });
  std::this_thread::sleep_for(milliseconds(100));  // Hold has read the group, and waits
  world_.Commit();
  writer.reset();
  holder.join();
  ASSERT_TRUE(held->has_value()) << held->error().message();
  EXPECT_EQ((*held)->snapshot->seqno, world_.newest());
}

// Otherwise a group that changes constantly could never be held.
TEST_F(FreshHold, WhatWasCommittedIsReadFromTheTextWhileItIsHeld) {
  world_.texts = true;
  ASSERT_TRUE(locking_->Read("vg0", Soon()).has_value());
  const int reports = world_.reports();
  std::optional<UniqueFd> writer(open((dir_ + "/V_vg0").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0777));
  ASSERT_EQ(flock(writer->get(), LOCK_EX), 0);
  std::optional<Result<HeldGroup>> held;
  std::thread holder([&] { held.emplace(locking_->Hold("vg0", Soon())); });
  std::this_thread::sleep_for(milliseconds(100));  // Hold has read the group, and waits
  bool locked = false;
  world_.after_text = [&] { locked = locked || !IsFree(); };
  world_.Commit();
  writer.reset();
  holder.join();
  world_.after_text = nullptr;
  ASSERT_TRUE(held->has_value()) << held->error().message();
  EXPECT_EQ((*held)->snapshot->seqno, world_.newest());
  EXPECT_EQ(world_.reports(), reports) << "LVM would wait for the lock";
  EXPECT_TRUE(locked);
}

TEST_F(FreshHold, NamesDisksThatDoNotAnswer) {
  ASSERT_TRUE(locking_->Read("vg0", Soon()).has_value());
  world_.SetDisk(1, [](PvState& state) { state.kind = PvState::Kind::kSilent; });
  const auto held = locking_->Hold("vg0", Soon());
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_THAT(held->silent, testing::ElementsAre("pv1"));
}

TEST_F(FreshHold, WhatCannotBeProvenIsNotHeld) {
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [](PvState& state) { state.areas[0].ignored = true; });
  }
  const auto held = locking_->Hold("vg0", Soon());
  ASSERT_FALSE(held.has_value());
  EXPECT_EQ(held.error().code(), Code::kUnavailable) << held.error().message();
  EXPECT_TRUE(IsFree());
}

TEST_F(Fresh, AFingerprintIsThatOfOneStateAndOfAttachedDisks) {
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [&](PvState& state) { state.disk_sequence = 10 + disk; });
  }
  const Snapshot first = Get();
  const auto print = lvm_.Fingerprint(first, {});
  ASSERT_TRUE(print.has_value()) << print.error().message();
  EXPECT_EQ(*lvm_.Fingerprint(Get(), {}), *print);
  FreshLvm restarted(world_, world_);
  EXPECT_EQ(*restarted.Fingerprint(*restarted.Read("vg0", {}), {}), *print) << "another process";

  world_.Commit();
  EXPECT_EQ(lvm_.Fingerprint(first, {}).error().code(), Code::kUnavailable);
  const auto after_commit = lvm_.Fingerprint(Get(), {});
  ASSERT_TRUE(after_commit.has_value()) << after_commit.error().message();
  EXPECT_NE(*after_commit, *print);

  world_.SetDisk(1, [](PvState& state) { state.disk_sequence = 99; });
  const auto after_return = lvm_.Fingerprint(Get(), {});
  ASSERT_TRUE(after_return.has_value()) << after_return.error().message();
  EXPECT_NE(*after_return, *after_commit);

  world_.SetDisk(2, [](PvState& state) { state.kind = PvState::Kind::kSilent; });
  EXPECT_EQ(lvm_.Fingerprint(Get(), {}).error().code(), Code::kUnavailable);
}

TEST_F(Fresh, WithoutNumbersOfAttachedDisksThereIsNoFingerprint) {
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [](PvState& state) { state.disk_sequence = 0; });
  }
  EXPECT_EQ(lvm_.Fingerprint(Get(), {}).error().code(), Code::kUnsupported);
}

// A create that is tied to a sequence number. The group is locked while the inner LVM runs.
class FreshCreate : public FreshHold, public LvmApi {
 protected:
  FreshCreate() { locking_ = std::make_unique<FreshLvm>(*this, world_, nullptr, nullptr, nullptr, dir_); }

  Status CreateAt(uint64_t seqno) {
    return locking_->Apply(
        CreateLv{.group = "vg0", .name = "v", .geometry = *Geometry::Make({}), .step = {}, .seqno = seqno},
        Soon());
  }

  Result<Snapshot> Read(const std::string& group, const Call& call) override {
    return world_.Read(group, call);
  }
  Result<std::string> Version(const std::string& group, const Call& call) override {
    return world_.Version(group, call);
  }
  Status Apply(const Change& change, const Call& call) override {
    ++applied_;
    const int fd = std::get<CreateLv>(change).lock_fd;
    EXPECT_FALSE(IsFree());
    EXPECT_GE(fd, 0);
    command_ = UniqueFd(dup(fd));  // as a command that outlives the call
    return outcome_.has_value() ? world_.Apply(change, call) : outcome_;
  }

  int applied_ = 0;
  UniqueFd command_;
  Status outcome_ = Ok();
};

TEST_F(FreshCreate, RunsUnderTheLockAtItsSequenceNumber) {
  const uint64_t seqno = (*locking_->Read("vg0", Soon()))->seqno;
  const Status made = CreateAt(seqno);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(applied_, 1);
  EXPECT_TRUE(IsFree());
  EXPECT_EQ((*locking_->Read("vg0", Soon()))->seqno, seqno + 1);
}

TEST_F(FreshCreate, ACommitBeforeTheLockPreventsItAndIsNoFailedChange) {
  world_.texts = true;
  const uint64_t seqno = (*locking_->Read("vg0", Soon()))->seqno;
  std::optional<UniqueFd> writer(open((dir_ + "/V_vg0").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0777));
  ASSERT_EQ(flock(writer->get(), LOCK_EX), 0);
  Status made = Ok();
  std::thread creator([&] { made = CreateAt(seqno); });
  std::this_thread::sleep_for(milliseconds(100));  // it waits for the lock
  world_.Commit();
  writer.reset();
  creator.join();
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kBusy) << made.error().message();
  EXPECT_EQ(applied_, 0);
  EXPECT_TRUE(IsFree());
  const int reports = world_.reports();
  EXPECT_EQ((*locking_->Read("vg0", Soon()))->seqno, seqno + 1);
  EXPECT_EQ(world_.reports(), reports);
}

TEST_F(FreshCreate, WithoutProofLvmDoesNotRun) {
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [](PvState& state) { state.areas[0].ignored = true; });
  }
  const Status made = CreateAt((*locking_->Read("vg0", Soon()))->seqno);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kBusy) << made.error().message();
  EXPECT_EQ(applied_, 0);
}

// LVM would wait for the disk, and everybody for LVM.
TEST_F(FreshCreate, WhileADiskIsSilentLvmDoesNotRunUnderTheLock) {
  const uint64_t seqno = (*locking_->Read("vg0", Soon()))->seqno;
  world_.SetDisk(1, [](PvState& state) { state.kind = PvState::Kind::kSilent; });
  const Status made = CreateAt(seqno);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kBusy) << made.error().message();
  EXPECT_EQ(applied_, 0);
  EXPECT_TRUE(IsFree());
}

TEST_F(FreshCreate, AFailedCommandThatStillRunsKeepsTheLock) {
  outcome_ = Error(Code::kTimeout, "killed");
  const Status made = CreateAt((*locking_->Read("vg0", Soon()))->seqno);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), Code::kTimeout);
  EXPECT_FALSE(IsFree());
  command_.Reset();
  EXPECT_TRUE(IsFree());
  const int reports = world_.reports();
  ASSERT_TRUE(locking_->Read("vg0", Soon()).has_value());
  EXPECT_EQ(world_.reports(), reports + 1) << "its outcome is unknown";
}

TEST_F(Fresh, HalfACommitIsDetectedWithoutAReportOnEveryRead) {
  Get();
  world_.CommitOn(1);
  EXPECT_EQ(Get()->seqno, 2U);
  EXPECT_EQ(Reports(100), 0) << "two PVs that go on disagreeing are a state like any other";
}

TEST_F(Fresh, ReportThatACommitFellIntoIsNotKept) {
  Get();
  world_.Commit();
  int commits = 0;
  world_.after_reading = [&] { commits += commits < 5 ? (world_.Commit(), 1) : 0; };
  const Snapshot snapshot = Get();
  EXPECT_EQ(lvm_.counts().unproven, 1U);
  EXPECT_GE(snapshot->seqno, 2U);
  world_.after_reading = nullptr;
  EXPECT_EQ(Get()->seqno, world_.newest());
  EXPECT_EQ(Reports(), 0);
}

TEST_F(Fresh, CommitJustBeforeTheReportIsNotMatchedToOldHeaders) {
  Get();
  world_.Commit();
  bool done = false;
  world_.before_reading = [&] {
    if (!std::exchange(done, true)) {
      world_.Commit();
    }
  };
  EXPECT_EQ(Get()->seqno, 3U);
  EXPECT_EQ(Get()->seqno, 3U);
  EXPECT_EQ(Reports(), 0);
}

TEST_F(Fresh, WithoutAFinderEveryReadAsksLvmWhileAPvIsLost) {
  Get();
  PvState disk;
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  EXPECT_EQ(Get()->MissingPvs(), 1U);
  EXPECT_EQ(Reports(3), 3);
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  EXPECT_EQ(Get()->MissingPvs(), 0U);
  EXPECT_EQ(Reports(100), 0);
}

TEST_F(Fresh, TheFinderNoticesAReturningPv) {
  const auto get = [&] { return *finding_.Read("vg0", {}); };
  PvState disk;
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  EXPECT_EQ(get()->MissingPvs(), 1U);
  const int reports = world_.reports();
  get();
  EXPECT_EQ(world_.reports(), reports);
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  EXPECT_EQ(get()->MissingPvs(), 0U);
}

TEST_F(Fresh, AKernelEventStartsTheSearchForAReturnedPv) {
  const auto get = [&] { return *finding_.Read("vg0", {}); };
  PvState disk;
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  EXPECT_EQ(get()->MissingPvs(), 1U);
  world_.Unlink(2);  // the disk returns under another name
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  const int reports = world_.reports();
  EXPECT_EQ(get()->MissingPvs(), 1U);
  EXPECT_EQ(world_.reports(), reports);
  world_.Announce();
  EXPECT_EQ(get()->MissingPvs(), 0U);
  const int updates = world_.updates();
  world_.Announce();
  get();
  EXPECT_EQ(world_.updates(), updates) << "a whole group has nothing to look for";
}

TEST_F(Fresh, APvThatLvmCannotSeeIsSearchedForOnce) {
  world_.Unlink(1);
  EXPECT_EQ((*finding_.Read("vg0", {}))->MissingPvs(), 0U);
  EXPECT_EQ(world_.updates(), 1);
  // Gone for good: one search for each change of the group, none for reads.
  world_.SetDisk(1, [](PvState& state) { state = PvState(); });
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ((*finding_.Read("vg0", {}))->MissingPvs(), 1U);
  }
  EXPECT_EQ(world_.updates(), 2);
}

TEST_F(Fresh, AGroupThatLvmDoesNotFindIsSearchedFor) {
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.Unlink(disk);
  }
  EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kNotFound);
  EXPECT_TRUE(finding_.Read("vg0", {}).has_value());
}

// "Not found" becomes this error while a disk of the host does not answer.
TEST_F(Fresh, AGroupThatLvmMayHaveMissedIsSearchedFor) {
  world_.report_failure = Error(Code::kUnavailable, "LVM did not find the group, but: opening /dev/x");
  EXPECT_EQ(finding_.Read("vg0", {}).error().code(), Code::kUnavailable);
  EXPECT_EQ(world_.updates(), 1);
  world_.report_failure = Error(Code::kTimeout, "killed");
  EXPECT_EQ(finding_.Read("vg0", {}).error().code(), Code::kTimeout);
  EXPECT_EQ(world_.updates(), 1);
}

TEST_F(Fresh, NoChangeIsMadeWhileAPvIsOutOfLvmsSight) {
  ASSERT_TRUE(finding_.Read("vg0", {}).has_value());
  world_.Unlink(1);
  ASSERT_TRUE(finding_.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}).has_value());
  EXPECT_EQ((*finding_.Read("vg0", {}))->MissingPvs(), 0U);
  EXPECT_EQ(world_.updates(), 1) << "before the change";
}

TEST_F(Fresh, NothingIsProvenWithoutAnAreaInUse) {
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [](PvState& state) { state.areas[0].ignored = true; });
  }
  EXPECT_EQ(Reports(5), 5);
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [](PvState& state) {
      state.areas[0].ignored = false;
      state.areas[0].damaged = true;
    });
  }
  EXPECT_EQ(Reports(5), 5);
}

TEST_F(Fresh, OneAreaInUseIsEnough) {
  world_.SetDisk(0, [](PvState& state) { state.areas.clear(); });
  world_.SetDisk(1, [](PvState& state) { state.areas[0].ignored = true; });
  Get();
  EXPECT_EQ(Reports(5), 0);
  world_.Commit();
  EXPECT_EQ(Get()->seqno, 2U);
}

TEST_F(Fresh, ADiskThatOnlyLvmCanReadProvesNothing) {
  Get();
  // LVM still sees the PV, through a path that FreshLvm lacks.
  class Blind final : public HeaderSource {
   public:
    explicit Blind(FreshWorld& world) : world_(world) {}
    Result<std::vector<PvState>> Read(std::span<const std::string> paths, const Call& call) override {
      auto states = static_cast<HeaderSource&>(world_).Read(paths, call);
      if (states.has_value() && !states->empty()) {
        states->back() = lost;
      }
      return states;
    }
    Result<std::string> ReadText(const std::string&, DiskArea, const RawLocation&, const Call&) override {
      return Error(Code::kUnsupported, "not here");
    }
    PvState lost;

   private:
    FreshWorld& world_;
  } blind(world_);
  FreshLvm lvm(world_, blind);
  for (const auto kind :
       {PvState::Kind::kSilent, PvState::Kind::kUnreadable, PvState::Kind::kDamaged, PvState::Kind::kNoPv}) {
    blind.lost.kind = kind;
    const int before = world_.reports();
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(lvm.Read("vg0", {}).has_value());
    }
    EXPECT_GE(world_.reports() - before, 3);
  }
  blind.lost.kind = PvState::Kind::kPv;
  blind.lost.uuid = "another";
  const int before = world_.reports();
  EXPECT_TRUE(lvm.Read("vg0", {}).has_value());
  EXPECT_TRUE(lvm.Read("vg0", {}).has_value());
  EXPECT_GE(world_.reports() - before, 2);
}

// LVM would wait for the disk, and nothing could end that.
TEST_F(Fresh, ASilentDiskKeepsItsLastState) {
  const Snapshot first = Get();
  std::vector<PvState> before(3);
  const auto silence = [&](size_t disk) {
    world_.SetDisk(disk, [&](PvState& state) {
      before[disk] = std::exchange(state, {});
      state.kind = PvState::Kind::kSilent;
    });
  };
  silence(0);
  EXPECT_EQ(Reports(5), 0);
  silence(2);
  EXPECT_EQ(Reports(5), 0) << "one still answers";
  EXPECT_EQ(Get(), first);
  silence(1);
  const int reports = world_.reports();
  EXPECT_FALSE(lvm_.Read("vg0", {}).has_value()) << "nobody can tell";
  EXPECT_EQ(world_.reports(), reports + 1);
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [&](PvState& state) { state = before[disk]; });
  }
  Get();
  EXPECT_EQ(Reports(5), 0);
}

TEST_F(Fresh, ADiskWithoutAnAreaDoesNotVouchForASilentOne) {
  world_.SetDisk(0, [](PvState& state) { state.areas.clear(); });
  world_.SetDisk(1, [](PvState& state) { state.areas[0].ignored = true; });
  Get();
  EXPECT_EQ(Reports(3), 0);
  world_.SetDisk(2, [](PvState& state) { state = {.kind = PvState::Kind::kSilent}; });
  EXPECT_EQ(Reports(3), 3);
}

TEST_F(Fresh, PvThatJoinsOrLeavesTheGroupIsNoticed) {
  world_.Edit([](VolumeGroup& group) { group.pvs.pop_back(); });
  world_.Commit();
  EXPECT_EQ(Get()->pvs.size(), 2U);
  PhysicalVolume joins;
  joins.uuid = "pv2";
  world_.Edit([&](VolumeGroup& group) { group.pvs.push_back(joins); });
  world_.Commit();
  EXPECT_EQ(Get()->pvs.size(), 3U);
  EXPECT_EQ(Reports(10), 0);
}

TEST_F(Fresh, OtherGroupOfTheSameNameIsRefused) {
  Get();
  const uint64_t seqno = world_.newest();
  world_.Edit([](VolumeGroup& group) { group.uuid = "other"; });
  world_.Commit();
  for (int i = 0; i < 2; ++i) {
    const auto snapshot = lvm_.Read("vg0", {});
    ASSERT_FALSE(snapshot.has_value());
    EXPECT_EQ(snapshot.error().code(), Code::kPrecondition);
    EXPECT_THAT(snapshot.error().message(), testing::HasSubstr("UUID"));
  }
  EXPECT_EQ(lvm_.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}).error().code(), Code::kPrecondition);
  EXPECT_EQ(world_.newest(), seqno + 1) << "nothing was changed in the strange group";
  world_.Edit([](VolumeGroup& group) { group.uuid = "vg-uuid"; });
  world_.Commit();
  EXPECT_TRUE(lvm_.Read("vg0", {}).has_value());
}

TEST_F(Fresh, AGroupMadeHereReplacesTheKnownOneOfItsName) {
  Get();
  const CreateGroup spec{"vg0", {"/dev/0"}, kMiB, kMiB};
  ASSERT_TRUE(finding_.Apply(spec, {}).has_value());
  EXPECT_EQ((*finding_.Read("vg0", {}))->uuid, "made-uuid");
  EXPECT_EQ(world_.updates(), 1) << "its PVs were looked for";

  FreshWorld other(1);
  FreshLvm lvm(world_, world_, nullptr, &other);
  ASSERT_TRUE(lvm.Apply(spec, {}).has_value());
  EXPECT_EQ(other.newest(), 2U) << "the maker made it";
  EXPECT_EQ(world_.newest(), 2U);
}

TEST_F(Fresh, LvmSeesAnAddedDiskOnlyDuringTheCommand) {
  Get();
  EXPECT_TRUE(finding_.Apply(AddPv{"vg0", "/dev/9"}, {}).has_value());
  EXPECT_THAT(world_.added, testing::ElementsAre("/shown/dev/9"));
  EXPECT_TRUE(world_.shown.empty());
  EXPECT_EQ(world_.updates(), 1) << "it is looked for where it is now";
  EXPECT_EQ((*finding_.Read("vg0", {}))->seqno, 2U);

  FreshWorld maker(1);
  FreshLvm lvm(world_, world_, nullptr, &maker);
  EXPECT_TRUE(lvm.Apply(AddPv{"vg0", "/dev/9"}, {}).has_value());
  EXPECT_THAT(maker.added, testing::ElementsAre("/dev/9"));
}

TEST_F(Fresh, RenamedGroupIsGoneUnderItsOldName) {
  Get();
  world_.Edit([](VolumeGroup& group) { group.name = "vg1"; });
  world_.Commit();
  EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kNotFound);
  EXPECT_TRUE(lvm_.Read("vg1", {}).has_value());
}

TEST_F(Fresh, OwnChangesAreVisibleAtOnce) {
  Get();
  for (const auto& change : std::vector<std::function<Status()>>{
           [&] { return lvm_.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}); },
           [&] { return lvm_.Apply(ChangeTags{"vg0", "a", {"x"}, {}}, {}); }}) {
    const uint64_t seqno = Get()->seqno;
    ASSERT_TRUE(change().has_value());
    EXPECT_EQ(Get()->seqno, seqno + 1);
  }
}

// The kernel's view changes without a commit, so it is never returned.
TEST_F(Fresh, AnswersLackTheKernelsView) {
  ASSERT_TRUE(lvm_.Apply(ActivateLvs{"vg0", {"a"}}, {}).has_value());
  EXPECT_FALSE(Get()->lvs[0].active);
  world_.Commit();
  EXPECT_FALSE(Get()->lvs[0].active);
}

TEST_F(Fresh, FailureIsPassedOnAndNotKept) {
  world_.report_failure = Error(Code::kUnavailable, "locked");
  EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kUnavailable);
  EXPECT_EQ(lvm_.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}).error().code(), Code::kUnavailable);
  world_.report_failure = Ok();
  EXPECT_EQ(Get()->seqno, 1U);
}

// For groups whose texts can be read from the disks.
class FromText : public Fresh {
 protected:
  void SetUp() override {
    world_.texts = true;
    Get();
    asked_ = world_.reports();
    ASSERT_GE(asked_, 1) << "the first answer is LVM's";
  }
  // The next read needs one more report than before, and the read after it none.
  void ExpectAsked(uint64_t seqno) {
    const int before = world_.reports();
    EXPECT_EQ(Get()->seqno, seqno);
    EXPECT_GT(world_.reports(), before);
  }

  int asked_ = 0;
};

TEST_F(FromText, LvmIsNotAskedAgain) {
  for (uint64_t seqno = 2; seqno < 50; ++seqno) {
    world_.Commit();
    EXPECT_EQ(Get()->seqno, seqno);
    EXPECT_EQ(Get()->seqno, seqno);
  }
  EXPECT_EQ(world_.reports(), asked_);
  EXPECT_EQ(lvm_.counts().read, 48U);
  EXPECT_EQ(lvm_.counts().refreshed, 1U);
}

TEST_F(FromText, CommitWithinTheReadingIsNoticed) {
  world_.Commit();
  int commits = 0;
  world_.after_text = [&] { commits += commits < 3 ? (world_.Commit(), 1) : 0; };
  EXPECT_EQ(Get()->seqno, 5U);
  EXPECT_EQ(Get()->seqno, 5U);
  EXPECT_EQ(world_.reports(), asked_);
}

TEST_F(FromText, HalfACommitIsWaitedForBeforeLvmIsAsked) {
  world_.CommitOn(0);
  ExpectAsked(2);
  EXPECT_EQ(Reports(10), 0);
  world_.Commit();
  ExpectAsked(3);
  std::thread writer([&] { world_.Commit([] { std::this_thread::sleep_for(milliseconds(5)); }); });
  while (world_.newest() < 4) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Get()->seqno, 4U);
  writer.join();
  EXPECT_EQ(Get()->seqno, 4U);
}

TEST_F(FromText, UnknownTextMeansAskLvm) {
  for (const char* more :
       {"system_id = \"other\"", "lock_type = \"dlm\"", "x { y = 1 }", "flags = []", "}"}) {
    world_.more_text = more;
    world_.Commit();
    ExpectAsked(world_.newest());
    EXPECT_EQ(Reports(10), 0);
  }
  world_.more_text = "";
  world_.Commit();
  EXPECT_EQ(Get()->seqno, world_.newest());
}

TEST_F(FromText, AnotherDiskOrAreaMeansAskLvm) {
  uint64_t seqno = 1;
  for (const auto& edit : std::vector<std::function<void(PvState&)>>{
           [](PvState& state) { state.disk_sequence = 7; }, [](PvState& state) { state.device_number = 7; },
           [](PvState& state) { state.areas[0].ignored = true; },
           [](PvState& state) { state.areas[0].ignored = false; },
           [](PvState& state) { state.areas[0].area.size = 9000; },
           [](PvState& state) { state.areas[0].damaged = true; },
           [](PvState& state) { state.areas[0].damaged = false; },
           [](PvState& state) { state.areas.push_back(state.areas[0]); },
           [](PvState& state) { state.areas.clear(); }}) {
    world_.SetDisk(1, edit);
    world_.Commit();
    ExpectAsked(++seqno);
    EXPECT_EQ(Reports(10), 0);
  }
}

TEST_F(FromText, OtherPvsMeanAskLvm) {
  world_.Edit([](VolumeGroup& group) { group.pvs.pop_back(); });
  world_.Commit();
  ExpectAsked(2);
  PhysicalVolume joins;
  joins.uuid = "pv2";
  world_.Edit([&](VolumeGroup& group) { group.pvs.push_back(joins); });
  world_.Commit();
  ExpectAsked(3);
}

TEST_F(FromText, AMissingPvMeansAskLvm) {
  PvState disk;
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  world_.Commit();
  ExpectAsked(2);
  world_.Commit();
  ExpectAsked(3);
  world_.SetDisk(2, [&](PvState& state) { std::swap(state, disk); });
  world_.Commit();
  EXPECT_EQ(Get()->MissingPvs(), 0U);
  EXPECT_EQ(Get()->seqno, 4U);
}

TEST_F(FromText, OtherGroupOfTheNameIsRefused) {
  world_.Edit([](VolumeGroup& group) { group.uuid = "other"; });
  world_.Commit();
  EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kPrecondition);
  world_.Edit([](VolumeGroup& group) {
    group.uuid = "vg-uuid";
    group.name = "vg1";
  });
  world_.Commit();
  EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kNotFound);
}

// As after vgcfgrestore, which may be intended: an administrator confirms it by restarting quarryd.
TEST_F(FromText, GroupThatGoesBackInTimeIsRefused) {
  world_.Commit();
  world_.Commit();
  EXPECT_EQ(Get()->seqno, 3U);
  world_.Edit([](VolumeGroup& group) { group.seqno = 1; });
  world_.Commit();
  for (int i = 0; i < 2; ++i) {
    const auto refused = lvm_.Read("vg0", {});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), Code::kPrecondition);
    for (const char* words : {"vg0", "number 2", "number 3", "restart quarryd"}) {
      EXPECT_THAT(refused.error().message(), testing::HasSubstr(words));
    }
  }
  EXPECT_EQ(lvm_.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}).error().code(), Code::kPrecondition)
      << "nor is it changed";
  EXPECT_EQ(world_.newest(), 2U);
  FreshLvm again(world_, world_);
  EXPECT_EQ((*again.Read("vg0", {}))->seqno, 2U);
  world_.Edit([](VolumeGroup& group) { group.seqno = 10; });
  for (int i = 0; i < 2; ++i) {
    world_.Commit();
    EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kPrecondition)
        << "what is committed on top of it makes it no truer";
  }
}

// vgcfgrestore of the second-last backup: its number equals that of the metadata that it undoes.
TEST_F(Fresh, OtherMetadataOfTheSameNumberIsRefused) {
  world_.Edit([](VolumeGroup& group) { group.lvs = {{.name = "new", .uuid = "new"}}; });
  world_.Commit();
  EXPECT_NE(Get()->FindLv("new"), nullptr);
  world_.Edit([](VolumeGroup& group) {
    group.seqno = 1;
    group.lvs.clear();
  });
  world_.Commit();
  for (size_t disk = 0; disk < 3; ++disk) {
    world_.SetDisk(disk, [](PvState& state) { state.areas[0].committed->offset += 512; });
  }
  EXPECT_EQ(world_.newest(), 2U);
  EXPECT_EQ(lvm_.Read("vg0", {}).error().code(), Code::kPrecondition);
}

TEST_F(FromText, CommitBesideASilentDiskIsReadFromTheOthers) {
  PvState before;
  world_.SetDisk(1, [&](PvState& state) {
    before = std::exchange(state, {});
    state.kind = PvState::Kind::kSilent;
  });
  world_.Commit();
  EXPECT_EQ(Get()->seqno, 2U);
  EXPECT_EQ(Get()->seqno, 2U);
  EXPECT_EQ(world_.reports(), asked_);
  world_.SetDisk(1, [&](PvState& state) { state = before; });
  EXPECT_EQ(Get()->seqno, 2U) << "what it missed is old";
  world_.Commit();
  ExpectAsked(3);
}

// The same with a finder, which knows other paths of a disk.
class Finding : public FromText {
 protected:
  void SetUp() override {
    world_.texts = true;
    Find();
    asked_ = world_.reports();
  }
  Snapshot Find() {
    auto snapshot = finding_.Read("vg0", {});
    EXPECT_TRUE(snapshot.has_value()) << snapshot.error().message();
    return snapshot.value_or(nullptr);
  }
  PvState Take(size_t disk, PvState::Kind kind, int error = 0) {
    PvState before;
    world_.SetDisk(disk, [&](PvState& state) {
      before = std::exchange(state, {});
      state.kind = kind;
      state.error = error;
    });
    return before;
  }
  std::vector<bool> Missing() {
    std::vector<bool> out;
    for (const PhysicalVolume& pv : Find()->pvs) {
      EXPECT_EQ(pv.missing, pv.device.empty());
      out.push_back(pv.missing);
    }
    return out;
  }
};

TEST_F(Finding, DisksThatAreGoneAreLostAndLvmIsNotAsked) {
  const PvState second = Take(2, PvState::Kind::kUnreadable, EIO);
  EXPECT_THAT(Missing(), testing::ElementsAre(false, false, true)) << "first it fails all reads";
  Take(2, PvState::Kind::kAbsent);
  EXPECT_THAT(Missing(), testing::ElementsAre(false, false, true)) << "and then it is gone";
  const PvState first = Take(1, PvState::Kind::kAbsent);
  EXPECT_THAT(Missing(), testing::ElementsAre(false, true, true));
  const int updates = world_.updates();
  EXPECT_THAT(Missing(), testing::ElementsAre(false, true, true));
  EXPECT_EQ(world_.updates(), updates);
  EXPECT_EQ(world_.reports(), asked_);
  // LVM may report more about a disk that returned.
  world_.SetDisk(2, [&](PvState& state) { state = second; });
  EXPECT_THAT(Missing(), testing::ElementsAre(false, true, false));
  EXPECT_GT(world_.reports(), asked_);
  world_.SetDisk(1, [&](PvState& state) { state = first; });
  EXPECT_THAT(Missing(), testing::ElementsAre(false, false, false));
}

// One disk is away while the others get commits. When it returns, they are gone.
class GoesBack : public Finding {
 protected:
  void ReturnOldest(const PvState& oldest) {
    Take(0, PvState::Kind::kAbsent);
    Take(2, PvState::Kind::kAbsent);
    world_.SetDisk(1, [&](PvState& state) { state = oldest; });
  }
};

TEST_F(GoesBack, AnOutdatedDiskIsNotBelieved) {
  const PvState oldest = Take(1, PvState::Kind::kAbsent);
  world_.Commit();
  EXPECT_EQ(Find()->seqno, 2U);
  PvState newer;
  world_.SetDisk(0, [&](PvState& state) { newer = state; });
  ReturnOldest(oldest);
  EXPECT_EQ(finding_.Read("vg0", {}).error().code(), Code::kPrecondition);
  EXPECT_EQ(finding_.Apply(ChangeTags{"vg0", "a", {"t"}, {}}, {}).error().code(), Code::kPrecondition);
  world_.SetDisk(0, [&](PvState& state) { state = newer; });
  EXPECT_EQ(Find()->seqno, 2U) << "with the disk that has them all is well, without a word of anybody's";
  world_.Commit();
  EXPECT_EQ(Find()->seqno, 3U);
}

TEST_F(GoesBack, OwnUnreadCommitsWithoutADiskAreRemembered) {
  const PvState oldest = Take(1, PvState::Kind::kAbsent);
  EXPECT_EQ(Find()->seqno, 1U);
  ASSERT_TRUE(finding_.Apply(ChangeTags{"vg0", "a", {"t"}, {}}, {}).has_value());
  ReturnOldest(oldest);
  EXPECT_EQ(finding_.Read("vg0", {}).error().code(), Code::kPrecondition);
}

TEST_F(Finding, ADiskThatGoesWhileTheGroupIsChangedIsLostAndTheChangeSeen) {
  Take(0, PvState::Kind::kAbsent);
  world_.Commit();
  EXPECT_THAT(Missing(), testing::ElementsAre(true, false, false));
  EXPECT_EQ(Find()->seqno, 2U);
  EXPECT_EQ(world_.reports(), asked_);
}

TEST_F(Finding, ADiskThatCameBackElsewhereIsNotLost) {
  world_.Unlink(1);
  world_.SetDisk(1, [](PvState& state) { state.disk_sequence = 8; });
  EXPECT_THAT(Missing(), testing::ElementsAre(false, false, false));
  EXPECT_EQ(world_.updates(), 1);
  EXPECT_GT(world_.reports(), asked_);
}

TEST_F(Finding, OtherDiskStatesMeanAskLvm) {
  for (const auto& [kind, error] : {std::pair(PvState::Kind::kUnreadable, EACCES),
                                    {PvState::Kind::kUnreadable, EMFILE},
                                    {PvState::Kind::kNoPv, 0},
                                    {PvState::Kind::kDamaged, 0}}) {
    const int before = world_.reports();
    const PvState was = Take(1, kind, error);
    Find();
    EXPECT_GT(world_.reports(), before);
    world_.SetDisk(1, [&](PvState& state) { state = was; });
    Find();
  }
}

TEST_F(Finding, WithoutADiskLeftLvmIsAsked) {
  for (size_t disk = 0; disk < 3; ++disk) {
    Take(disk, PvState::Kind::kAbsent);
  }
  EXPECT_EQ(finding_.Read("vg0", {}).error().code(), Code::kNotFound);
  EXPECT_GT(world_.reports(), asked_);
}

// As lvcreate makes a RAID volume: only LVM understands the text between its two commits. A report would wait
// for the command, and the command's caller for the report.
TEST_F(FromText, ATextInTheMiddleOfOurOwnChangeIsNotReported) {
  class Twice final : public LvmApi {
   public:
    explicit Twice(FreshWorld& world) : world_(world) {}
    Result<Snapshot> Read(const std::string& group, const Call& call) override {
      return world_.Read(group, call);
    }
    Status Apply(const Change&, const Call&) override {
      world_.more_text = "half_made { y = 1 }";
      world_.Commit();
      reader = std::thread([this] { seen = *outer->Read("vg0", {}); });
      std::this_thread::sleep_for(milliseconds(200));
      world_.more_text = "";
      world_.Commit();
      return outcome;
    }
    Result<std::string> Version(const std::string& group, const Call& call) override {
      return world_.Version(group, call);
    }
    FreshLvm* outer = nullptr;
    Status outcome = Ok();
    std::thread reader;
    Snapshot seen;

   private:
    FreshWorld& world_;
  } twice(world_);
  FreshLvm lvm(twice, world_);
  twice.outer = &lvm;
  const CreateLv create{.group = "vg0", .geometry = *Geometry::Make({.type = VolumeType::kRaid1})};
  ASSERT_TRUE(lvm.Read("vg0", {}).has_value());
  const int reports = world_.reports();
  EXPECT_TRUE(lvm.Apply(create, {}).has_value());
  EXPECT_EQ((*lvm.Read("vg0", {}))->seqno, world_.newest());
  twice.reader.join();
  EXPECT_EQ(twice.seen->seqno, world_.newest());
  EXPECT_EQ(world_.reports(), reports);

  twice.outcome = Error(Code::kTimeout, "killed");
  EXPECT_FALSE(lvm.Apply(create, {}).has_value());
  twice.reader.join();
  EXPECT_EQ(world_.reports(), reports + 1) << "the outcome of a failed change is unknown";

  twice.outcome = Ok();
  ASSERT_TRUE(lvm.Apply(DeactivateLv{"vg0", "a", 0}, {}).has_value());
  twice.reader.join();
  EXPECT_GT(world_.reports(), reports + 1) << "LVM does not wait for a command that commits nothing";
}

// The failed command may be stuck and commit later. LVM waits for the command's lock; the disks do not show
// it.
TEST_F(FromText, AfterAFailedChangeLvmIsAsked) {
  class Failing final : public LvmApi {
   public:
    explicit Failing(LvmApi& inner) : inner_(inner) {}
    Result<Snapshot> Read(const std::string& group, const Call& call) override {
      return inner_.Read(group, call);
    }
    Status Apply(const Change&, const Call&) override { return Error(Code::kTimeout, "killed"); }
    Result<std::string> Version(const std::string& group, const Call& call) override {
      return inner_.Version(group, call);
    }

   private:
    LvmApi& inner_;
  } failing(world_);
  FreshLvm lvm(failing, world_);
  const auto reports_of_read = [&] {
    const int before = world_.reports();
    const auto read = lvm.Read("vg0", {});
    EXPECT_TRUE(read.has_value()) << read.error().message();
    EXPECT_EQ(read.has_value() ? (*read)->seqno : 0, world_.newest());
    return world_.reports() - before;
  };
  const Geometry linear = *Geometry::Make({.type = VolumeType::kLinear});
  reports_of_read();
  for (const auto& change : std::vector<std::function<Status()>>{
           [&] { return lvm.Apply(CreateLv{.group = "vg0", .geometry = linear}, {}); },
           [&] { return lvm.Apply(ExtendLv{.group = "vg0", .geometry = linear}, {}); },
           [&] { return lvm.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}); },
           [&] { return lvm.Apply(ChangeTags{"vg0", "a", {"t"}, {}}, {}); },
           [&] { return lvm.Apply(ActivateLvs{"vg0", {"a"}}, {}); },
           [&] { return lvm.Apply(DeactivateLv{"vg0", "a", 0}, {}); },
           [&] { return lvm.Apply(AddPv{.group = "vg0", .device = "/dev/0"}, {}); },
           [&] { return lvm.Apply(RefreshLvs{"vg0", {"a"}}, {}); },
           [&] { return lvm.Apply(RepairLv{"vg0", "a", {}}, {}); },
           [&] { return lvm.Apply(RestorePv{"vg0", "/dev/a"}, {}); },
           [&] { return lvm.Apply(DropMissingPvs{"vg0"}, {}); },
           [&] { return lvm.Apply(ChangePv{.group = "vg0", .device = "/dev/a"}, {}); },
           [&] { return lvm.Apply(MoveExtents{.group = "vg0", .name = "a"}, {}); },
           [&] { return lvm.Apply(AbortMove{"vg0", "/dev/a"}, {}); },
           [&] { return lvm.Apply(RemovePv{"vg0", "/dev/a"}, {}); }}) {
    EXPECT_EQ(change().error().code(), Code::kTimeout);
    world_.Commit();
    EXPECT_EQ(reports_of_read(), 1);
    world_.Commit();
    EXPECT_EQ(reports_of_read(), 0);
  }
  EXPECT_EQ(lvm.Apply(RemoveLvs{"vg0", {"a"}, 0}, {}).error().code(), Code::kTimeout);
  PvState before;
  world_.SetDisk(1, [&](PvState& state) {
    before = std::exchange(state, {});
    state.kind = PvState::Kind::kSilent;
  });
  EXPECT_EQ(reports_of_read(), 0) << "LVM would be stuck as well, and who is killed there commits no more";
  world_.Commit();
  EXPECT_EQ(reports_of_read(), 0);
  world_.SetDisk(1, [&](PvState& state) { state = before; });
  EXPECT_EQ(reports_of_read(), 1) << "as soon as it can tell";
}

// Readers that come while LVM is being asked.
class Joining : public Fresh {
 protected:
  void SetUp() override {
    Get();
    world_.Commit();
    // The first report from now on waits after reading the disks.
    world_.after_reading = [this] {
      if (!blocked_.exchange(true)) {
        asked_.count_down();
        go_.wait();
      }
    };
  }

  std::atomic<bool> blocked_ = false;
  std::latch asked_{1};
  std::latch go_{1};
};

TEST_F(Joining, ShareOneReport) {
  const int before = world_.reports();
  std::vector<std::thread> readers;
  std::vector<Snapshot> answers(20);
  readers.emplace_back([&] { answers[0] = Get(); });
  asked_.wait();
  for (size_t i = 1; i < answers.size(); ++i) {
    readers.emplace_back([&, i] { answers[i] = Get(); });
  }
  while (lvm_.counts().joined < answers.size() - 1) {
    std::this_thread::yield();
  }
  go_.count_down();
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_THAT(answers, testing::Each(answers[0]));
  EXPECT_EQ(answers[0]->seqno, 2U);
  EXPECT_LE(world_.reports() - before, 2);
}

TEST_F(Joining, NeverGetAnAnswerReadBeforeTheyCame) {
  Snapshot early;
  std::thread first([&] { early = Get(); });
  asked_.wait();
  world_.Commit();  // complete before the second reader comes
  Snapshot late;
  std::thread second([&] { late = Get(); });
  while (lvm_.counts().joined == 0) {
    std::this_thread::yield();
  }
  go_.count_down();
  first.join();
  second.join();
  EXPECT_GE(early->seqno, 2U);
  EXPECT_EQ(late->seqno, 3U);
}

TEST_F(Joining, MayGiveUpByThemselves) {
  std::thread first([&] { Get(); });
  asked_.wait();
  EXPECT_EQ(lvm_.Read("vg0", CallWithin(milliseconds(30))).error().code(), Code::kTimeout);
  std::stop_source stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(30));
    stop.request_stop();
  });
  EXPECT_EQ(lvm_.Read("vg0", Call{.stop = stop.get_token()}).error().code(), Code::kCancelled);
  stopper.join();
  go_.count_down();
  first.join();
}

TEST_F(Joining, SurviveTheEndOfTheAskingCall) {
  std::stop_source stop;
  Result<Snapshot> first_answer;
  std::thread first([&] { first_answer = lvm_.Read("vg0", Call{.stop = stop.get_token()}); });
  asked_.wait();
  Snapshot answer;
  std::thread second([&] { answer = Get(); });
  while (lvm_.counts().joined == 0) {
    std::this_thread::yield();
  }
  stop.request_stop();
  go_.count_down();
  first.join();
  second.join();
  EXPECT_EQ(first_answer.error().code(), Code::kCancelled);
  EXPECT_EQ(answer->seqno, 2U);
}

// The central promise under load: what a reader gets was the newest commit at some moment of its call. With
// LVM alone, and with readable texts.
class UnderFire : public Fresh, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Texts, UnderFire, testing::Bool());

TEST_P(UnderFire, NoAnswerIsStaleWhileOthersCommit) {
  world_.texts = GetParam();
  world_.after_text = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  std::atomic<uint64_t> whole = 1;  // newest commit on a disk: no later read may return an older one
  std::atomic<bool> stop = false;
  std::atomic<int> stale = 0;
  std::atomic<int> reads = 0;
  world_.before_reading = [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); };
  world_.after_reading = world_.before_reading;
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      world_.CommitOn(0);
      whole = world_.newest();
      world_.Commit([] { std::this_thread::yield(); });
      whole = world_.newest();
      if (i % 3 == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    }
  });
  std::vector<std::thread> readers;
  for (int t = 0; t < 6; ++t) {
    readers.emplace_back([&] {
      const auto end = std::chrono::steady_clock::now() + milliseconds(1000);
      while (std::chrono::steady_clock::now() < end) {
        const uint64_t at_least = whole;
        const Snapshot snapshot = Get();
        stale += snapshot->seqno < at_least || snapshot->seqno > world_.newest() ? 1 : 0;
        ++reads;
      }
    });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  stop = true;
  writer.join();
  EXPECT_GT(reads, 1000);
  EXPECT_EQ(stale, 0);
  EXPECT_GT(lvm_.counts().proven, 0U);
  EXPECT_GT(lvm_.counts().joined, 0U);
  EXPECT_EQ(lvm_.counts().read > 0, GetParam());
}

}  // namespace
}  // namespace quarry::lvm
