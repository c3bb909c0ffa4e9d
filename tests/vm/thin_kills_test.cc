// Calls for snapshots, clones and groups in a thin store, killed before each request to device-mapper that
// quarryd or one of its LVM commands makes for them (tests/vm/thin/dm_watch.cc). Every time the call is
// repeated, and then all is there or nothing, with the bytes of its instant, and nothing is left suspended.
// Needs four disks.
//
// QUARRY_KILLS_EVERY: only every so many requests, for a short run; 1 by default.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tests/vm/thin_stores_fixture.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;

// Every program of the guest loads what is named there. quarryd gives its LVM commands no other environment.
constexpr char kPreload[] = "/etc/ld.so.preload";
constexpr char kLog[] = "/run/quarry-test/watch";
constexpr char kOrder[] = "/run/quarry-test/watch-nth";
constexpr uint64_t kLength = 4 << 20;
constexpr int kMostRequests = 300;  // more means that the call makes no progress

enum class Killed { kOneProcess, kQuarrydToo };

class ThinKillsTest : public ThinStoresTest, public testing::WithParamInterface<Killed> {
 protected:
  ThinKillsTest() : ThinStoresTest(160 * kMi) {}

  void SetUp() override {
    ThinStoresTest::SetUp();
    Disarm();
    std::ofstream(kPreload) << "/opt/quarry/tests/bin/dm_watch.so\n";
    ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
    for (const char* const name : {"one", "two"}) {
      volumes_.push_back(Make(name, 8 * kMi));
      ASSERT_FALSE(HasFailure());
      ASSERT_OK(WritePattern(Publish(volumes_.back(), name), 5, kLength));
      ids_.push_back(volumes_.back().volume_id());
    }
  }
  void TearDown() override {
    Disarm();
    fs::remove(kPreload);
    if (!HasFailure()) {
      End(volumes_[0], "one");
      End(volumes_[1], "two");
      EXPECT_TRUE(IsEmptyStore());
    }
    printf("%d kills, %d of them of quarryd\n", kills_, restarts_);
    ThinStoresTest::TearDown();
  }

  static void Arm(int nth) {
    fs::remove(kLog);
    std::ofstream(std::string(kOrder) + ".new")
        << nth << (GetParam() == Killed::kQuarrydToo ? " all\n" : " one\n");
    fs::rename(std::string(kOrder) + ".new", kOrder);
  }
  // False: the order was carried out, or there was none.
  static bool Disarm() { return fs::remove(kOrder); }
  static bool Fired() { return !fs::exists(kOrder); }

  // Starts quarryd again if it was killed.
  void AfterAKill() {
    ++kills_;
    std::string killed;  // "REQUEST @ PROCESS"
    ASSERT_TRUE(Eventually(
        [&] {
          killed = Trim(Sh(std::string("sed -n 's/^[0-9]* [0-9]* -1 //p' ") + kLog).out);
          return !killed.empty();
        },
        20));
    printf("  %s", killed.c_str());
    if (GetParam() == Killed::kQuarrydToo || killed.ends_with("@ quarryd")) {
      ++restarts_;
      ASSERT_TRUE(Eventually([this] { return !quarryd().Running(); }, 20)) << "it outlived the kill";
      ASSERT_NO_FATAL_FAILURE(StartWith("raid1"));
      EXPECT_FALSE(AnySuspended());
    }
  }

  // Makes the call, kills before its request number `nth` (from 0), and repeats the call until it succeeds
  // and `holds` is true, which is when its effect is complete. False: it has fewer requests.
  bool KillAt(int nth, const std::function<grpc::Status()>& call, const std::function<bool()>& holds) {
    SCOPED_TRACE("request " + std::to_string(nth));
    Arm(nth);
    const auto begin = std::chrono::steady_clock::now();
    grpc::Status status = call();
    // What follows the answer, erasing for example, has requests too.
    const bool ended = Eventually(
        [&] {
          if (!Fired() && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
            status = call();  // it takes longer than a call may
          }
          return Fired() || (status.ok() && holds());
        },
        120);
    const bool fired = !Disarm();
    EXPECT_TRUE(ended) << status.error_message() << quarryd().Log();
    if (fired) {
      AfterAKill();
      if (HasFailure()) {
        return true;
      }
      CheckVolumes();
      EXPECT_TRUE(Eventually([&] { return (status = call()).ok(); }, 120))
          << status.error_message() << quarryd().Log();
    }
    EXPECT_TRUE(Eventually([&] { return holds(); }, 120)) << Lvs("lv_name,lv_tags") << quarryd().Log();
    CheckVolumes();
    if (fired) {
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      printf(", complete after %.1f s\n", taken.count());
    }
    return fired;
  }
  // Both calls are killed at each of their requests, in turn. `check` looks at what was made.
  void KillAtEach(const std::function<grpc::Status()>& make, const std::function<bool()>& made,
                  const std::function<void()>& check, const std::function<grpc::Status()>& end) {
    const char* const every = std::getenv("QUARRY_KILLS_EVERY");
    const int step = every == nullptr ? 1 : std::max(1, std::atoi(every));
    const size_t visible = Visible();
    const auto gone = [&] { return Visible() == visible; };
    bool more = true;
    for (int nth = 0; more && nth < kMostRequests; nth += step) {
      more = KillAt(nth, make, made);
      ASSERT_FALSE(HasFailure());
      check();
      ASSERT_FALSE(HasFailure());
      more = KillAt(nth, end, gone) || more;
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_FALSE(more) << "there are more requests than that";
  }

  static size_t Visible() { return Lines(Tool({"lvs", "--noheadings", "-o", "lv_name", kGroup}).out).size(); }
  static bool AnySuspended() {
    return Sh("dmsetup info -c --noheadings -o suspended | grep -q Suspended").ok();
  }
  void CheckVolumes() {
    ASSERT_TRUE(Eventually([] { return !AnySuspended(); }, 60))
        << "a read would never end" << quarryd().Log();
    for (const char* const name : {"one", "two"}) {
      EXPECT_OK(CheckPattern(TargetPath(name), 5, kLength));
      EXPECT_OK(WritePattern(TargetPath(name), 5, 1 << 20)) << "it can be written";
    }
  }
  // How many snapshots or volumes there are; -1: quarryd does not answer.
  int Snapshots() {
    const auto listed = client().Snapshots();
    for (const auto& entry : listed.value.entries()) {
      EXPECT_TRUE(entry.snapshot().ready_to_use());
    }
    return listed.ok() ? listed.value.entries_size() : -1;
  }
  int Volumes() {
    const auto listed = client().List();
    return listed.ok() ? static_cast<int>(listed.value.size()) : -1;
  }

  std::vector<v1::Volume> volumes_;  // "one" and "two", in use
  std::vector<std::string> ids_;
  int kills_ = 0;
  int restarts_ = 0;  // kills that quarryd did not outlive
};

TEST_P(ThinKillsTest, ASnapshotIsThereOrNotAtEachRequest) {
  std::string id;
  KillAtEach(
      [&] {
        const auto made = client().Snapshot("snap", ids_[0]);
        id = made.value.snapshot().snapshot_id();
        return made.status;
      },
      [&] { return Snapshots() == 1; }, [] {}, [&] { return client().DeleteSnapshot(id).status; });
}

// The clone shares its bytes with the volume and a snapshot, and has some that nothing else has.
TEST_P(ThinKillsTest, ACloneIsThereOrNotAtEachRequest) {
  const auto snapshot = client().Snapshot("snap", ids_[0]);
  ASSERT_OK(snapshot);
  VolumeSpec spec{"clone", TypeParameters("thin"), BlockCapability(), 8 * kMi};
  spec.snapshot = snapshot.value.snapshot().snapshot_id();
  v1::Volume clone;
  const auto staging = StagingPath("clone");
  KillAtEach(
      [&] {
        const auto made = client().Create(spec);
        clone = made.value.volume();
        return made.status;
      },
      [&] { return Volumes() == 3; },
      [&] {
        EXPECT_OK(client().Stage(clone, staging, BlockCapability()));
        EXPECT_OK(CheckPattern(NodeOf(clone), 5, kLength));
        EXPECT_OK(WritePattern(NodeOf(clone), 6, 1 << 20));
        EXPECT_OK(client().Unstage(clone.volume_id(), staging));
      },
      [&] { return client().Delete(clone.volume_id()).status; });
  EXPECT_OK(client().DeleteSnapshot(spec.snapshot));
}

TEST_P(ThinKillsTest, AGroupIsThereOrNotAtEachRequest) {
  std::string id;
  KillAtEach(
      [&] {
        const int there = Snapshots();
        EXPECT_NE(there, 1) << "a part of a group";
        const auto made = client().SnapshotGroup("group", ids_);
        id = made.value.group_snapshot().group_snapshot_id();
        return made.status;
      },
      [&] { return Snapshots() == 2; }, [] {}, [&] { return client().DeleteGroup(id).status; });
}

INSTANTIATE_TEST_SUITE_P(Each, ThinKillsTest, testing::Values(Killed::kOneProcess, Killed::kQuarrydToo),
                         [](const auto& tested) {
                           return tested.param == Killed::kOneProcess ? "one_process" : "quarryd_too";
                         });

}  // namespace
}  // namespace quarry::vm
