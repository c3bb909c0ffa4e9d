// Buckets in each other's way, and disks that are not what they were.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "bucket/names.h"
#include "tests/unit/bucket/buckets_fixture.h"

namespace quarry::bucket {
namespace {

const engine::PoolConfig kFirst{.name = "p", .group = "vg0", .reserve = {}};
const engine::PoolConfig kSecond{.name = "q", .group = "vg1", .reserve = {}};

class BucketTroubleTest : public BucketsTest {
 protected:
  BucketTroubleTest() {
    lvm_.AddGroup("vg1", Bytes{4 * kMiB.value}, {{"/dev/c", Extents{1000}}});
    fakes::Follow(lvm_, dm_);
  }
  std::string ProblemOf(const std::string& id) {
    const auto all = buckets_->List(Soon());
    EXPECT_TRUE(all.has_value());
    for (const Bucket& one : all.has_value() ? *all : std::vector<Bucket>()) {
      if (one.id == id) {
        return one.problem;
      }
    }
    return "it is not in the list";
  }
  // The disk of a bucket in vg0 goes missing, and the bucket stays down. Returns the UUID of its PV.
  std::string LoseDiskOf(const std::string& id) {
    const lvm::Snapshot group = *lvm_.Read("vg0", Soon());
    const std::string disk = lvm::LegPvs(*group, *group->FindLv(LvNameIn(id))).front().front();
    lvm_.Edit("vg0", [&](lvm::VolumeGroup& now) {
      for (lvm::PhysicalVolume& pv : now.pvs) {
        pv.missing = pv.uuid == disk;
      }
    });
    EXPECT_FALSE(buckets_->Round(Soon()));
    return disk;
  }
  // Where the clients of a bucket are led.
  std::string Target(const std::string& name) const { return fs::read_symlink(Link(name)).string(); }
  // As if something else were mounted at the place of this bucket alone.
  void FailToProve(const std::string& id) {
    prove_ = [lv = LvNameIn(id)](int folder) -> Status {
      const std::string path = fs::read_symlink("/proc/self/fd/" + std::to_string(folder)).string();
      return path.find(lv) == std::string::npos ? Ok() : Status(Error(Code::kUnavailable, "out of reach"));
    };
  }
  // The text of an account's record on a bucket's volume.
  std::string RecordOf(const std::string& id, const std::string& account) const {
    std::ifstream file(Mounted(id) / "grants" / (account + ".json"));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // A record as another server may have written it.
  void WriteGrant(const std::string& id, const GrantRecord& record) const {
    std::ofstream(Mounted(id) / "grants" / (record.account + ".json")) << ToText(record);
  }
};

TEST_F(BucketTroubleTest, NothingIsWrittenWhereTheVolumeIsNotMounted) {
  prove_ = [](int) { return Error(Code::kUnavailable, "another file system is mounted there"); };
  const auto made = TryCreate("logs");
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message(), HasSubstr("another file system"));
  EXPECT_FALSE(IsLinked("logs"));
  for (const auto& place : fs::directory_iterator(path_ / "s3/volumes")) {
    EXPECT_TRUE(fs::is_empty(place)) << place.path();
  }
}

TEST_F(BucketTroubleTest, ABucketOverWhichSomethingIsMountedIsTakenAway) {
  const std::string logs = Create("logs");
  EXPECT_TRUE(buckets_->Round(Soon()));
  prove_ = [](int) { return Error(Code::kUnavailable, "another file system is mounted there"); };
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_FALSE(IsLinked("logs"));
  EXPECT_THAT(ProblemOf(logs), HasSubstr("another file system"));
  prove_ = [](int) { return Ok(); };
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_TRUE(IsLinked("logs"));
}

TEST_F(BucketTroubleTest, TheOlderOfTwoBucketsOfOneNameServes) {
  for (const bool first_is_older : {true, false}) {
    Restart({kFirst});
    const std::string first = Create("logs");
    Restart({kSecond});
    const std::string second = Create("logs");
    const std::string& older = first_is_older ? first : second;
    const std::string& younger = first_is_older ? second : first;
    lvm_.Edit(first_is_older ? "vg0" : "vg1", [&](lvm::VolumeGroup& group) {
      for (lvm::LogicalVolume& lv : group.lvs) {
        lv.created -= 100;
      }
    });
    for (const bool p_comes_first : {true, false}) {
      Restart(p_comes_first ? std::vector{kFirst, kSecond} : std::vector{kSecond, kFirst});
      EXPECT_FALSE(buckets_->Round(Soon()));
      EXPECT_EQ(Target("logs"), (Mounted(older) / "data").string());
      EXPECT_EQ(ProblemOf(older), "");
      EXPECT_THAT(ProblemOf(younger), HasSubstr(older));
      EXPECT_FALSE(buckets_->Find(younger, Soon())->serving);
    }
    // The younger one serves once it is alone.
    ASSERT_TRUE(buckets_->Delete(older, Soon()).has_value());
    EXPECT_TRUE(buckets_->Round(Soon()));
    EXPECT_EQ(Target("logs"), (Mounted(younger) / "data").string());
    ASSERT_TRUE(buckets_->Delete(younger, Soon()).has_value());
  }
}

TEST_F(BucketTroubleTest, AnOlderBucketThatComesLaterTakesThePlace) {
  Restart({kSecond});
  const std::string older = Create("logs");
  lvm_.Edit("vg1", [](lvm::VolumeGroup& group) { group.lvs.front().created -= 100; });
  lvm_.SetAway("vg1", true);
  Restart({kFirst});
  const std::string younger = Create("logs");
  lvm_.SetAway("vg1", false);
  Restart({kFirst, kSecond});
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_EQ(Target("logs"), (Mounted(older) / "data").string());
  EXPECT_THAT(ProblemOf(younger), HasSubstr("older"));
}

TEST_F(BucketTroubleTest, TheNewerOfTwoSecretsCountsAndOpensOnlyItsOwnBucket) {
  const std::string logs = Create("logs");
  const std::string other = Create("other");
  const std::string secret = Grant("app", {{logs, Access::kReadWrite}});
  for (const int64_t granted : {int64_t{1000}, int64_t{1} << 60}) {
    WriteGrant(
        other,
        {.account = "app", .secret = "another", .all = {{other, Access::kReadWrite}}, .granted = granted});
    const bool is_newer = granted > 1000;
    Restart();
    (void)buckets_->Round(Soon());
    (void)buckets_->Round(Soon());  // what came up before its rival did is set again
    EXPECT_EQ(Users()["app"]["secret"], is_newer ? "another" : secret);
    EXPECT_EQ(MayUse("app", "logs"), !is_newer);
    EXPECT_EQ(MayUse("app", "other"), is_newer);
    EXPECT_TRUE(IsLinked("logs") && IsLinked("other")) << "both serve their other accounts";
    EXPECT_THAT(ProblemOf(is_newer ? logs : other), HasSubstr("'app'"));
    EXPECT_EQ(ProblemOf(is_newer ? other : logs), "");
  }
  // Without the newer one, the other counts again.
  ASSERT_TRUE(buckets_->Revoke("app", {other}, Soon()).has_value());
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_EQ(Users()["app"]["secret"], secret);
  EXPECT_TRUE(MayUse("app", "logs"));
  EXPECT_EQ(ProblemOf(logs), "");
}

TEST_F(BucketTroubleTest, ARefusedDeletionBringsNoYoungerBucketUp) {
  Restart({kFirst});
  const std::string older = Create("logs");
  Restart({kSecond});
  const std::string younger = Create("logs");
  std::ofstream(Mounted(younger) / "data/object") << "x";
  lvm_.Edit("vg0", [](lvm::VolumeGroup& group) { group.lvs.front().created -= 100; });
  Restart({kFirst, kSecond});
  EXPECT_FALSE(buckets_->Round(Soon()));
  ASSERT_EQ(Target("logs"), (Mounted(older) / "data").string());
  FailToProve(older);
  EXPECT_FALSE(buckets_->Round(Soon()));
  ASSERT_FALSE(fs::is_symlink(Link("logs"))) << "the older one is taken away";
  const Status refused = buckets_->Delete(younger, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition) << refused.error().message();
  EXPECT_FALSE(fs::is_symlink(Link("logs"))) << "clients would see other objects under the same name";
  EXPECT_THAT(ProblemOf(younger), HasSubstr(older));
  prove_ = [](int) { return Ok(); };
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_EQ(Target("logs"), (Mounted(older) / "data").string());
}

TEST_F(BucketTroubleTest, AnAccountOfBeforeTheStartGoesWithItsLastBucket) {
  Restart({kFirst, kSecond});
  const std::string logs = Create("logs", {{"pool", "p"}, {"ondelete", "erase"}});
  const std::string other = Create("other", {{"pool", "q"}});
  Grant("app", {{logs, Access::kReadWrite}});
  Grant("both", {{logs, Access::kReadWrite}, {other, Access::kReadWrite}});
  Restart({kFirst, kSecond});
  ASSERT_TRUE(Users().contains("app") && Users().contains("both")) << "no client is cut off";
  const Status deleted = buckets_->Delete(logs, Soon());
  ASSERT_TRUE(deleted.has_value()) << deleted.error().message();
  EXPECT_FALSE(Users().contains("app"));
  EXPECT_TRUE(Users().contains("both")) << "its other bucket was not read yet";
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_TRUE(MayUse("both", "other"));
}

TEST_F(BucketTroubleTest, ARevocationReachesTheRecordsOfABucketThatDoesNotServe) {
  const std::string one = Create("one");
  const std::string two = Create("two");
  const std::string secret = Grant("app", {{one, Access::kReadWrite}, {two, Access::kReadOnly}});
  FailToProve(two);
  EXPECT_FALSE(buckets_->Round(Soon()));
  ASSERT_FALSE(IsLinked("two"));
  prove_ = [](int) { return Ok(); };  // it could serve again, but no round has seen that
  ASSERT_TRUE(buckets_->Revoke("app", {one}, Soon()).has_value());
  EXPECT_EQ(RecordOf(two, "app").find(one), std::string::npos) << "its record names what is revoked";
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(MayUse("app", "one"));
  EXPECT_TRUE(MayUse("app", "two"));
  EXPECT_EQ(Grant("app", {{two, Access::kReadOnly}}), secret);
}

TEST_F(BucketTroubleTest, ARecordThatNamesARevokedBucketIsMended) {
  const std::string one = Create("one");
  const std::string two = Create("two");
  const std::string secret = Grant("app", {{one, Access::kReadWrite}, {two, Access::kReadOnly}});
  FailToProve(two);
  EXPECT_FALSE(buckets_->Round(Soon()));
  ASSERT_TRUE(buckets_->Revoke("app", {one}, Soon()).has_value()) << "a bucket out of reach keeps no other";
  ASSERT_NE(RecordOf(two, "app").find(one), std::string::npos) << "it could not be written";
  prove_ = [](int) { return Ok(); };
  Restart();
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_FALSE(MayUse("app", "one"));
  EXPECT_EQ(
      buckets_->Grant({.account = "app", .buckets = {{two, Access::kReadWrite}}}, Soon()).error().code(),
      Code::kAlreadyExists)
      << "with other access";
  EXPECT_EQ(Grant("app", {{two, Access::kReadOnly}}), secret);
  EXPECT_EQ(RecordOf(two, "app").find(one), std::string::npos);
  EXPECT_EQ(buckets_
                ->Grant({.account = "app", .buckets = {{one, Access::kReadWrite}, {two, Access::kReadOnly}}},
                        Soon())
                .error()
                .code(),
            Code::kAlreadyExists)
      << "the grant of before is over";
}

// Holds whoever looks at one bucket, as a disk does that does not answer.
class HangingDisk {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !hangs_; });
  }
  void Hang(bool hangs) {
    const std::lock_guard lock(mutex_);
    hangs_ = hangs;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
};

TEST_F(BucketTroubleTest, ABucketWhoseDiskIsGoneIsDeletedOnlyAsLost) {
  const std::string logs = Create("logs");
  const std::string mirror = Create("mirror", {{"type", "raid1"}});
  std::ofstream(Link("logs") / "object") << "x";
  const Status here = buckets_->DeleteLost(logs, Soon());
  ASSERT_FALSE(here.has_value());
  EXPECT_EQ(here.error().code(), Code::kPrecondition);
  EXPECT_THAT(here.error().message(), HasSubstr("lacks no disk"));
  EXPECT_TRUE(IsLinked("logs"));
  EXPECT_TRUE(fs::exists(Link("logs") / "object"));
  LoseDiskOf(logs);
  const Status unseen = buckets_->Delete(logs, Soon());
  ASSERT_FALSE(unseen.has_value());
  EXPECT_EQ(unseen.error().code(), Code::kPrecondition);
  EXPECT_THAT(unseen.error().message(), HasSubstr("quarryctl bucket delete --lost " + logs));
  EXPECT_TRUE(buckets_->Find(logs, Soon()).has_value());
  EXPECT_EQ(buckets_->DeleteLost(mirror, Soon()).error().code(), Code::kPrecondition)
      << "it has another copy";
  const Status gone = buckets_->DeleteLost(logs, Soon());
  ASSERT_TRUE(gone.has_value()) << gone.error().message();
  EXPECT_FALSE(fs::is_symlink(Link("logs")));
  EXPECT_EQ(buckets_->Find(logs, Soon()).error().code(), Code::kNotFound);
  EXPECT_TRUE(buckets_->DeleteLost(logs, Soon()).has_value()) << "a repetition";
  EXPECT_TRUE(IsLinked("mirror"));
}

TEST_F(BucketTroubleTest, ABucketWhoseDiskHasReturnedIsNotLost) {
  const std::string logs = Create("logs");
  lvm_.ReturnDisk("vg0", LoseDiskOf(logs));
  const Status refused = buckets_->DeleteLost(logs, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kUnavailable) << refused.error().message();
  EXPECT_TRUE(buckets_->Find(logs, Soon()).has_value());
}

TEST_F(BucketTroubleTest, ABucketWhoseDiskLvmRefusesIsGivenUp) {
  const std::string logs = Create("logs");
  const std::string disk = LoseDiskOf(logs);
  lvm_.ReturnDisk("vg0", disk);
  const auto repair = [&] { (void)engine_->upkeep().Repair(engine::RepairCause::kAsked, Soon()); };
  EXPECT_EQ(buckets_->DeleteLost(logs, Soon()).error().code(), Code::kUnavailable) << "nobody has tried yet";
  lvm_.before.FailAlways("RestorePv", Error(Code::kIo, "refused"));
  repair();
  EXPECT_EQ(buckets_->DeleteLost(logs, Soon()).error().code(), Code::kUnavailable)
      << "the first refusal may have a passing cause";
  repair();
  repair();
  const Status unseen = buckets_->Delete(logs, Soon());
  ASSERT_FALSE(unseen.has_value());
  EXPECT_EQ(unseen.error().code(), Code::kPrecondition);
  EXPECT_THAT(unseen.error().message(), HasSubstr("LVM refuses to take it back (PV " + disk));
  const Status gone = buckets_->DeleteLost(logs, Soon());
  EXPECT_TRUE(gone.has_value()) << gone.error().message();
}

// Another disk of the pool that LVM refuses is no reason to wait for this one.
TEST_F(BucketTroubleTest, ADiskThatIsRefusedKeepsNoOtherBucket) {
  const std::string mirror = Create("mirror", {{"type", "raid1"}});
  const std::string logs = Create("logs");
  const std::string own = LoseDiskOf(logs);
  std::string other;
  lvm_.Edit("vg0", [&](lvm::VolumeGroup& group) {
    for (lvm::PhysicalVolume& pv : group.pvs) {
      other = pv.uuid == own ? other : pv.uuid;
      pv.missing = true;
    }
  });
  lvm_.ReturnDisk("vg0", other);
  EXPECT_EQ(buckets_->DeleteLost(logs, Soon()).error().code(), Code::kUnavailable)
      << "its own disk may return next";
  lvm_.before.FailAlways("RestorePv", Error(Code::kIo, "refused"));
  for (int attempt = 0; attempt < 3; ++attempt) {
    (void)engine_->upkeep().Repair(engine::RepairCause::kAsked, Soon());
  }
  EXPECT_TRUE(buckets_->DeleteLost(logs, Soon()).has_value());
  EXPECT_TRUE(buckets_->Find(mirror, Soon()).has_value());
}

TEST_F(BucketTroubleTest, ABucketWhoseDiskGivesErrorsIsGivenUp) {
  const std::string logs = Create("logs");
  // Not of a disk.
  for (const int number : {EPERM, EUCLEAN, ENOSPC}) {
    prove_ = [number](int) { return Status(ErrnoError("reading", number)); };
    const Status refused = buckets_->DeleteLost(logs, Soon());
    ASSERT_FALSE(refused.has_value()) << number;
    EXPECT_THAT(refused.error().message(), HasSubstr("not proven to be lost"));
    EXPECT_TRUE(buckets_->Find(logs, Soon()).has_value());
  }
  for (const int number : {EIO, ENODATA}) {
    prove_ = [number](int) { return Status(ErrnoError("reading", number)); };
    const Status unseen = buckets_->Delete(logs, Soon());
    ASSERT_FALSE(unseen.has_value());
    EXPECT_EQ(unseen.error().code(), Code::kPrecondition) << unseen.error().message();
    EXPECT_THAT(unseen.error().message(), HasSubstr("quarryctl bucket delete --lost " + logs));
  }
  const Status gone = buckets_->DeleteLost(logs, Soon());
  EXPECT_TRUE(gone.has_value()) << gone.error().message();
  EXPECT_EQ(buckets_->Find(logs, Soon()).error().code(), Code::kNotFound);
}

// The error was a passing one: the second look, after the clients are gone, succeeds.
TEST_F(BucketTroubleTest, ABucketThatCanBeReadAgainIsNotGivenUp) {
  const std::string logs = Create("logs");
  prove_ = [this](int) { return IsLinked("logs") ? Status(ErrnoError("reading", EIO)) : Ok(); };
  const Status refused = buckets_->DeleteLost(logs, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::kPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("can be read"));
  prove_ = [](int) { return Ok(); };
  EXPECT_TRUE(buckets_->Round(Soon()));
  EXPECT_TRUE(IsLinked("logs"));
}

// A disk that is taken back between the last look and the deletion.
TEST_F(BucketTroubleTest, OnlyWhatIsLostUnderTheTurnIsDeletedAsLost) {
  const std::string logs = Create("logs");
  const auto refused = engine_->bucket_volumes().DeleteLost(logs, Soon());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().code(), Code::kNotFound) << refused.error().message();
  EXPECT_TRUE(buckets_->Find(logs, Soon()).has_value());
}

// quarryd was restarted, and no round has seen the bucket yet: the link of before leads to it.
TEST_F(BucketTroubleTest, ADeletionBeforeTheFirstRoundTakesTheLinkAway) {
  const std::string logs = Create("logs", {{"ondelete", "refuse"}});
  Restart();
  ASSERT_TRUE(IsLinked("logs"));
  int looks = 0;
  bool was_linked = true;
  prove_ = [&](int) {
    ++looks;
    was_linked = fs::is_symlink(Link("logs"));
    return Ok();
  };
  const Status gone = buckets_->Delete(logs, Soon());
  ASSERT_TRUE(gone.has_value()) << gone.error().message();
  EXPECT_GE(looks, 2);
  EXPECT_FALSE(was_linked) << "at the last look nobody can put an object any more";
  EXPECT_FALSE(fs::is_symlink(Link("logs")));
}

// Clients of a disk that does not answer would use up the gateway, and its end would take the others' service
// away.
TEST_F(BucketTroubleTest, ABucketWhoseDiskIsSilentIsTakenAwayAndComesBack) {
  look_limit_ = milliseconds(50);
  silent_after_ = milliseconds(100);
  Restart();
  const std::string logs = Create("logs", {{"ondelete", "erase"}});
  ASSERT_TRUE(IsLinked("logs"));
  HangingDisk disk;
  prove_ = [&](int) {
    disk.Wait();
    return Ok();
  };
  disk.Hang(true);
  const auto rounds_until = [&](bool linked) {
    for (int i = 0; i < 200 && fs::is_symlink(Link("logs")) != linked; ++i) {
      (void)buckets_->Round(Soon());
      std::this_thread::sleep_for(milliseconds(10));
    }
    return fs::is_symlink(Link("logs")) == linked;
  };
  EXPECT_TRUE(rounds_until(false));
  EXPECT_THAT(ProblemOf(logs), HasSubstr("does not answer"));
  const std::string environment = Environment();
  mount_.faults.FailAlways("Unmount", Error(Code::kPrecondition, "it is busy").WithErrno(EBUSY));
  const Status kept = buckets_->Delete(logs, Soon());
  ASSERT_FALSE(kept.has_value());
  EXPECT_EQ(Environment(), environment) << "the gateway is not restarted";
  mount_.faults.Clear();
  disk.Hang(false);
  EXPECT_TRUE(rounds_until(true));
}

// All that a look reads is in memory, and only the clients would wait.
TEST_F(BucketTroubleTest, ADiskThatHangsIsNoticedBehindTheCache) {
  look_limit_ = milliseconds(50);
  silent_after_ = milliseconds(100);
  Restart();
  const std::string logs = Create("logs");
  HangingDisk disk;
  touch_ = [&] { disk.Wait(); };
  disk.Hang(true);
  const auto rounds_until = [&](bool linked) {
    for (int i = 0; i < 500 && fs::is_symlink(Link("logs")) != linked; ++i) {
      (void)buckets_->Round(Soon());
      std::this_thread::sleep_for(milliseconds(10));
    }
    return fs::is_symlink(Link("logs")) == linked;
  };
  EXPECT_TRUE(rounds_until(false));
  EXPECT_THAT(ProblemOf(logs), HasSubstr("does not answer"));
  disk.Hang(false);
  EXPECT_TRUE(rounds_until(true));
  EXPECT_EQ(ProblemOf(logs), "");
}

class StuckCommands final : public Subprocess {
 public:
  Result<Finished> Run(const Command& /*program*/, const Call& /*call*/) override {
    return Error(Code::kUnavailable, "stuck");
  }
  StuckChildren Stuck() override { return {{1, "lvs"}, {2, "lvs"}, {3, "lvs"}, {4, "lvs"}, {5, "lvs"}}; }
};

TEST_F(BucketTroubleTest, ABucketOfAPoolWithAProblemIsListedOnce) {
  const std::string logs = Create("logs");
  StuckCommands stuck;
  children_ = &stuck;
  Restart();
  (void)buckets_->Round(Soon());
  const auto all = buckets_->List(Soon());
  ASSERT_TRUE(all.has_value());
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().id, logs);
  EXPECT_TRUE(all->front().serving) << all->front().problem;
  buckets_.reset();
  engine_.reset();
}

TEST_F(BucketTroubleTest, ADiskThatHangsStopsNoOtherBucket) {
  look_limit_ = milliseconds(2000);
  Restart();
  const std::string silent = Create("a-silent");
  const std::string fine = Create("b-fine");
  EXPECT_TRUE(buckets_->Round(Soon()));
  HangingDisk disk;
  struct stat of_silent{};
  ASSERT_EQ(stat(Mounted(silent).c_str(), &of_silent), 0);
  prove_ = [&](int folder) {
    struct stat found{};
    if (fstat(folder, &found) == 0 && found.st_ino == of_silent.st_ino) {
      disk.Wait();
    }
    return Ok();
  };
  disk.Hang(true);
  fs::rename(Mounted(fine) / "data", Mounted(fine) / "data-of-old");  // so that a look at it has an effect
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_TRUE(fs::exists(Mounted(fine) / "data")) << "the other one was looked at";
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(buckets_->Round(Soon()));
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(1500)) << "it is not waited for again";
  ASSERT_TRUE(buckets_->List(Soon()).has_value()) << "and nobody waits for it here";
  disk.Hang(false);
  for (int i = 0; i < 100 && !buckets_->Round(Soon()); ++i) {
  }
  EXPECT_TRUE(buckets_->Round(Soon()));
}

}  // namespace
}  // namespace quarry::bucket
