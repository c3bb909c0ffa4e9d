// Calls for snapshots, clones, groups and lists of changed blocks in a thin store, and growth of the store,
// killed before each request to device-mapper that quarryd or one of its LVM commands makes for them. Every
// time the call is repeated, and then all is there or nothing, with the bytes of its instant, and nothing is
// left suspended. Needs four disks.
//
// QUARRY_KILLS_EVERY: only every so many requests, for a short run; 1 by default.
#include <grpcpp/create_channel.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/vm/thin_stores_fixture.h"
#include "tests/vm/watched_requests.h"

namespace quarry::vm {
namespace {

constexpr uint64_t kLength = 4 << 20;
constexpr int kMostRequests = 300;  // more means that the call makes no progress

enum class Killed { kOneProcess, kQuarrydToo };

class ThinKillsTest : public ThinStoresTest, public testing::WithParamInterface<Killed> {
 protected:
  explicit ThinKillsTest(int64_t most = 0) : ThinStoresTest(160 * kMi, most) {}

  void SetUp() override {
    ThinStoresTest::SetUp();
    watched::Disarm();
    watched::Begin();
    ASSERT_NO_FATAL_FAILURE(Start());
    for (const char* const name : {"one", "two"}) {
      volumes_.push_back(Make(name, 8 * kMi));
      ASSERT_FALSE(HasFailure());
      ASSERT_OK(WritePattern(Publish(volumes_.back(), name), 5, kLength));
      ids_.push_back(volumes_.back().volume_id());
    }
  }
  void TearDown() override {
    watched::Disarm();
    watched::End();
    if (!HasFailure()) {
      End(volumes_[0], "one");
      End(volumes_[1], "two");
      EXPECT_TRUE(IsEmptyStore());
    }
    printf("%d kills, %d of them of quarryd\n", kills_, restarts_);
    ThinStoresTest::TearDown();
  }

  virtual void Start() { StartWith("raid1"); }
  // Starts quarryd again if it was killed.
  void AfterAKill() {
    ++kills_;
    std::string killed;
    ASSERT_TRUE(Eventually([&] { return !(killed = watched::CarriedOutAt()).empty(); }, 20));
    printf("  %s", killed.c_str());
    if (GetParam() == Killed::kQuarrydToo || killed.ends_with("@ quarryd")) {
      ++restarts_;
      ASSERT_TRUE(Eventually([this] { return !quarryd().Running(); }, 20)) << "it outlived the kill";
      ASSERT_NO_FATAL_FAILURE(Start());
      EXPECT_FALSE(AnySuspended());
    }
  }

  // Makes the call, kills before its request number `nth` (from 0), and repeats the call until it succeeds
  // and `holds` is true, which is when its effect is complete. False: it has fewer requests.
  bool KillAt(int nth, const std::function<grpc::Status()>& call, const std::function<bool()>& holds) {
    SCOPED_TRACE("request " + std::to_string(nth));
    watched::Arm(nth, GetParam() == Killed::kQuarrydToo ? "all" : "one");
    const auto begin = std::chrono::steady_clock::now();
    grpc::Status status = call();
    // What follows the answer, erasing for example, has requests too.
    const bool ended = Eventually(
        [&] {
          if (watched::IsArmed() && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
            status = call();  // it takes longer than a call may
          }
          return !watched::IsArmed() || (status.ok() && holds());
        },
        120);
    const bool fired = !watched::Disarm();
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
  // An administrator runs the command, which is killed before its request number `nth`. False: it has fewer.
  bool KillByHandAt(int nth, const std::vector<std::string>& command) {
    watched::Arm(nth, "hand");
    const Outcome done = Tool(command);
    const bool fired = !watched::Disarm();
    EXPECT_TRUE(fired || done.ok()) << done.err;
    if (fired) {
      if (GetParam() == Killed::kQuarrydToo) {
        quarryd().Kill();
      }
      AfterAKill();
      printf("\n");
    }
    return fired;
  }
  // Both calls are killed at each of their requests, in turn. `check` looks at what was made.
  void KillAtEach(const std::function<grpc::Status()>& make, const std::function<bool()>& made,
                  const std::function<void()>& check, const std::function<grpc::Status()>& end) {
    const size_t visible = Visible();
    const auto gone = [&] { return Visible() == visible; };
    ForEach([&](int nth) {
      const bool more = KillAt(nth, make, made);
      if (!HasFailure()) {
        check();
      }
      return HasFailure() ? more : KillAt(nth, end, gone) || more;
    });
  }
  // kill: returns whether there was such a request.
  void ForEach(const std::function<bool(int nth)>& kill) {
    bool more = true;
    for (int nth = 0; more && nth < kMostRequests; nth += watched::Every()) {
      more = kill(nth);
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_FALSE(more) << "there are more requests than that";
  }

  static size_t Visible() { return Lines(Tool({"lvs", "--noheadings", "-o", "lv_name", kGroup}).out).size(); }
  static bool AnySuspended() {
    return Sh("dmsetup info -c --noheadings -o suspended | grep -q Suspended").ok();
  }
  virtual void CheckVolumes() {
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

// What a kill leaves reserved in the store's metadata is released.
TEST_P(ThinKillsTest, AListOfChangedBlocksIsRightAtEachRequest) {
  const auto base = client().Snapshot("base", ids_[0]);
  ASSERT_OK(base);
  ASSERT_OK(WritePattern(TargetPath("one"), 9, 1 << 20, 2 << 20));
  const auto target = client().Snapshot("target", ids_[0]);
  ASSERT_OK(target);
  ASSERT_OK(WritePattern(TargetPath("one"), 5, kLength));
  const auto stub = v1::SnapshotMetadata::NewStub(
      grpc::CreateChannel(std::string("unix:") + kSocket, grpc::InsecureChannelCredentials()));
  v1::GetMetadataDeltaRequest request;
  request.set_base_snapshot_id(base.value.snapshot().snapshot_id());
  request.set_target_snapshot_id(target.value.snapshot().snapshot_id());
  std::string found;
  const auto list = [&] {
    found.clear();
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto reader = stub->GetMetadataDelta(&context, request);
    for (v1::GetMetadataDeltaResponse part; reader->Read(&part);) {
      for (const v1::BlockMetadata& range : part.block_metadata()) {
        found += std::to_string(range.byte_offset()) + "+" + std::to_string(range.size_bytes()) + " ";
      }
    }
    return reader->Finish();
  };
  const auto holds = [&] {
    const bool is_released = Sh("dmsetup status --target thin-pool | grep -q ' - rw '").ok();
    return is_released && found == "2097152+1048576 ";
  };
  ForEach([&](int nth) { return KillAt(nth, list, holds); });
  EXPECT_OK(client().DeleteSnapshot(base.value.snapshot().snapshot_id()));
  EXPECT_OK(client().DeleteSnapshot(target.value.snapshot().snapshot_id()));
}

// A store without a free extent, which grows for each extent that a volume in use grows by.
class GrowthKillsTest : public ThinKillsTest {
 protected:
  static constexpr int64_t kExtent = 4 * kMi;
  explicit GrowthKillsTest(int64_t most = 480 * kMi) : ThinKillsTest(most) {}

  // A killed growth that did not commit leaves no data of its size: LVM takes its extents for free.
  void CheckVolumes() override {
    const auto in_kernel = [] { return Trim(Sh("dmsetup table | awk '/_tdata: / {print $3}'").out); };
    const auto in_text = [] {
      return Trim(Sh("lvs -a --noheadings --nosuffix --units s -o lv_size -S 'lv_name=~_tdata$' vg").out);
    };
    EXPECT_TRUE(Eventually([&] { return in_kernel() == in_text(); }, 60))
        << in_kernel() << " and " << in_text() << " sectors" << quarryd().Log();
    ThinKillsTest::CheckVolumes();
  }
  int64_t SizeOf(const std::string& id) {
    const auto listed = client().List();
    for (const v1::Volume& volume : listed.value) {
      if (volume.volume_id() == id) {
        return volume.capacity_bytes();
      }
    }
    return 0;
  }
};

TEST_P(GrowthKillsTest, AGrowthIsWholeAtEachRequest) {
  const v1::Volume other = Make("other", kStoreSize - 16 * kMi);
  int64_t size = 8 * kMi;
  ForEach([&](int nth) {
    size += kExtent;
    const bool more = KillAt(
        nth, [&] { return client().Expand(ids_[0], size).status; }, [&] { return SizeOf(ids_[0]) == size; });
    // What was promised can be written to the last byte.
    const auto last = static_cast<uint64_t>(size - kExtent);
    EXPECT_OK(WritePattern(TargetPath("one"), 7, kExtent, last));
    EXPECT_OK(CheckPattern(TargetPath("one"), 7, kExtent, last));
    return more;
  });
  EXPECT_OK(client().Delete(other.volume_id()));
}

// An administrator grows the store, and that is killed. The next call uses no table of it that was not
// committed.
class HandKillsTest : public GrowthKillsTest {};

TEST_P(HandKillsTest, AGrowthByHandIsPutRightAtEachRequest) {
  const std::string pool = "vg/" + Pool();
  ForEach([&](int nth) {
    SCOPED_TRACE("request " + std::to_string(nth));
    const bool fired = KillByHandAt(nth, {"lvextend", "-l", "+1", "--alloc", "anywhere", pool});
    const v1::Volume made = Make("made", 8 * kMi);
    EXPECT_OK(WritePattern(Publish(made, "made"), 8, kLength));
    CheckVolumes();
    EXPECT_OK(CheckPattern(TargetPath("made"), 8, kLength));
    End(made, "made");
    EXPECT_TRUE(Eventually([&] { return Visible() == 3; }, 120)) << Lvs("lv_name,lv_tags");
    return fired;
  });
}

// An administrator removes a volume, and that is killed. Chunks that the kernel has not given back yet are
// promised to nobody: LVM sends what it owes the kernel with its next creation or removal, and not when it
// grows a volume that is not active.
class ByHandKillsTest : public ThinKillsTest {
 protected:
  // Chunks of the store that are in use.
  static int64_t Used() {
    const std::string used = Trim(Sh("dmsetup status --target thin-pool | awk '{print $6}'").out);
    return used.empty() ? -1 : std::stoll(used);  // "USED/TOTAL"
  }
};

TEST_P(ByHandKillsTest, AGrowthAfterARemovalByHandFindsItsChunksAtEachRequest) {
  constexpr int64_t kRest = 136 * kMi;  // what the others leave
  int owed = 0;
  ForEach([&](int nth) {
    SCOPED_TRACE("request " + std::to_string(nth));
    const v1::Volume small = Make("small", 8 * kMi);
    EXPECT_TRUE(Tool({"lvchange", "-an", "vg/" + LvOf(small)}).ok());
    const int64_t before = Used();
    const v1::Volume gone = Make("gone", kRest);
    EXPECT_OK(WritePattern(Publish(gone, "gone"), 8, kLength));
    EXPECT_OK(client().Unpublish(gone.volume_id(), TargetPath("gone")));
    EXPECT_OK(client().Unstage(gone.volume_id(), StagingPath("gone")));
    EXPECT_GT(Used(), before);
    const bool fired = KillByHandAt(nth, {"lvremove", "-ff", "-y", "vg/" + LvOf(gone)});
    const bool is_there = Tool({"lvs", "vg/" + LvOf(gone)}).ok();
    std::filesystem::remove("/dev/vg/" + LvOf(gone));  // the killed command left it
    owed += !is_there && Used() > before ? 1 : 0;
    EXPECT_OK(client().Delete(gone.volume_id()));
    EXPECT_TRUE(Eventually([&] { return Visible() == 4; }, 120)) << Lvs("lv_name,lv_tags");
    EXPECT_FALSE(Sh("dmsetup info vg-" + LvOf(small)).ok()) << "it is not active";
    EXPECT_OK(client().Expand(small.volume_id(), kRest + 8 * kMi)) << quarryd().Log();
    EXPECT_EQ(Used(), before);
    CheckVolumes();
    EXPECT_OK(client().Delete(small.volume_id()));
    EXPECT_TRUE(Eventually([&] { return Visible() == 3; }, 120)) << Lvs("lv_name,lv_tags");
    return fired;
  });
  EXPECT_TRUE(owed > 0 || watched::Every() > 1) << "no kill left anything for the kernel";
  printf("%d times the kernel had chunks of a volume that LVM had removed\n", owed);
}

// A killed command, or a growth after it, has left a message in LVM's text that the kernel has carried out.
// LVM sends none for its next removal then. The device of the highest id would be in the way of the next
// volume.
TEST_P(ByHandKillsTest, ARemovalAfterOneByHandGivesBackItsDevice) {
  for (const bool grown : {false, true}) {
    SCOPED_TRACE(grown ? "sent by a growth" : "killed after it was sent");
    const v1::Volume gone = Make("gone", 8 * kMi);
    const v1::Volume last = Make("last", 8 * kMi);
    const std::string point = grown ? "after message delete" : "after message set_transaction_id";
    EXPECT_FALSE(Sh("DM_WATCH_KILL='" + point + "' lvremove -ff -y vg/" + LvOf(gone)).ok());
    std::filesystem::remove("/dev/vg/" + LvOf(gone));  // the killed command left it
    if (GetParam() == Killed::kQuarrydToo) {
      quarryd().Kill();
      ASSERT_NO_FATAL_FAILURE(Start());
    }
    if (grown) {
      EXPECT_OK(client().Expand(ids_[0], 12 * kMi)) << quarryd().Log();
    }
    const Outcome text = Sh("vgcfgbackup -qq -f /run/text vg && grep 'delete = ' /run/text");
    EXPECT_TRUE(text.ok()) << "no message is left";
    EXPECT_OK(client().Delete(gone.volume_id()));
    EXPECT_OK(client().Delete(last.volume_id()));
    EXPECT_TRUE(Eventually([&] { return Visible() == 3; }, 120)) << Lvs("lv_name,lv_tags");
    const auto made = client().Create({"made", TypeParameters("thin"), BlockCapability(), 8 * kMi});
    ASSERT_OK(made) << quarryd().Log();
    CheckVolumes();
    EXPECT_OK(client().Delete(made.value.volume().volume_id()));
    EXPECT_TRUE(Eventually([&] { return Visible() == 3; }, 120)) << Lvs("lv_name,lv_tags");
  }
}

// An administrator's `lvcreate -s` is killed. At one moment LVM can make nothing in the store any more. The
// error has the command that ends that, and no capacity is shown.
TEST_P(ByHandKillsTest, ASnapshotByHandIsToldAtEachRequest) {
  int told = 0;
  ForEach([&](int nth) {
    SCOPED_TRACE("request " + std::to_string(nth));
    const bool fired = KillByHandAt(nth, {"lvcreate", "-s", "-n", "by_hand", "vg/" + LvOf(volumes_[0])});
    Sh("dmsetup resume vg-" + LvOf(volumes_[0]));
    const VolumeSpec spec{"made", TypeParameters("thin"), BlockCapability(), 8 * kMi};
    auto made = client().Create(spec);
    if (!made.ok()) {
      ++told;
      EXPECT_EQ(Left(), 0);
      const std::string words = made.status.error_message();
      const size_t begin = words.find("dmsetup message");
      const size_t end = words.find("\";", begin);
      EXPECT_LT(end, words.size()) << words;
      const Outcome cured = Sh(words.substr(begin, end + 1 - begin));
      EXPECT_TRUE(cured.ok()) << cured.err;
      made = client().Create(spec);
    }
    EXPECT_OK(made) << quarryd().Log();
    EXPECT_GT(Left(), 0);
    const bool is_there = Tool({"lvs", "vg/by_hand"}).ok();
    EXPECT_TRUE(!is_there || Tool({"lvremove", "-ff", "-y", "vg/by_hand"}).ok());
    CheckVolumes();
    EXPECT_OK(client().Delete(made.value.volume().volume_id()));
    EXPECT_TRUE(Eventually([&] { return Visible() == 3; }, 120)) << Lvs("lv_name,lv_tags");
    return fired;
  });
  EXPECT_TRUE(told > 0 || watched::Every() > 1) << "no kill left what LVM cannot finish";
}

// As a growth by quarryd, with data of type raid5, while the array is at the sync of what the growth adds. An
// array whose legs are taken from below the sync fails them all, and every access with them.
class SyncKillsTest : public GrowthKillsTest {
 protected:
  SyncKillsTest() : GrowthKillsTest(720 * kMi) {}

  void Start() override { StartWith("raid5", "600", {{"QUARRY_REBUILD_RATE", "1MiB"}}); }

  void CheckVolumes() override {
    GrowthKillsTest::CheckVolumes();
    ExpectAllLegs();
  }
  static void ExpectAllLegs() {
    const std::string arrays = Sh("dmsetup status --target raid").out;
    EXPECT_FALSE(Sh("dmsetup status --target raid | awk '{print $7}' | grep -q D").ok()) << arrays;
    EXPECT_EQ(Sh("dmesg | grep 'Disk failure on'").out, "") << arrays;
  }
  static bool IsInSync() {
    return Sh("dmsetup status --target raid | awk '{split($8, part, \"/\"); if (part[1] != part[2]) exit 1}'")
        .ok();
  }
};

TEST_P(SyncKillsTest, AGrowthLosesNoLegAtEachRequest) {
  const v1::Volume other = Make("other", kStoreSize - 16 * kMi);
  int64_t size = 8 * kMi;
  ForEach([&](int nth) {
    EXPECT_TRUE(Eventually([] { return IsInSync(); }, 120)) << Sh("dmsetup status").out;
    size += 2 * kExtent;
    return KillAt(
        nth, [&] { return client().Expand(ids_[0], size).status; }, [&] { return SizeOf(ids_[0]) == size; });
  });
  EXPECT_OK(client().Delete(other.volume_id()));
}

// The same with a volume of its own, outside of the store.
class VolumeKillsTest : public SyncKillsTest {
 protected:
  void SetUp() override {
    SyncKillsTest::SetUp();
    volume_ = MustCreate({"thick", TypeParameters("raid5"), BlockCapability(), size_});
    ASSERT_FALSE(HasFailure());
    ASSERT_OK(WritePattern(Publish(volume_, "thick"), 5, kLength));
  }
  void TearDown() override {
    if (!HasFailure()) {
      End(volume_, "thick");
    }
    SyncKillsTest::TearDown();
  }
  void CheckVolumes() override {
    SyncKillsTest::CheckVolumes();
    const auto in_kernel = [&] { return Trim(Sh("blockdev --getsz " + TargetPath("thick")).out); };
    const auto in_text = [&] {
      return Trim(Sh("lvs --noheadings --nosuffix --units s -o lv_size vg/" + LvOf(volume_)).out);
    };
    EXPECT_TRUE(Eventually([&] { return in_kernel() == in_text(); }, 60))
        << in_kernel() << " and " << in_text() << " sectors" << quarryd().Log();
    EXPECT_OK(CheckPattern(TargetPath("thick"), 5, kLength));
    EXPECT_OK(WritePattern(TargetPath("thick"), 5, 1 << 20)) << "it can be written";
  }

  int64_t size_ = 16 * kMi;
  v1::Volume volume_;
};

TEST_P(VolumeKillsTest, AGrowthLosesNoLegAtEachRequest) {
  ForEach([&](int nth) {
    EXPECT_TRUE(Eventually([] { return IsInSync(); }, 120)) << Sh("dmsetup status").out;
    // In turns: the size of a repeated call, and another one.
    size_ += 4 * kExtent;
    const int64_t smaller = size_ - 2 * kExtent;
    int tries = nth % 2;
    const bool more = KillAt(
        nth, [&] { return client().Expand(volume_.volume_id(), tries++ == 0 ? smaller : size_).status; },
        [&] { return SizeOf(volume_.volume_id()) >= smaller; });
    EXPECT_OK(client().Expand(volume_.volume_id(), size_));
    const auto last = static_cast<uint64_t>(size_ - kExtent);
    EXPECT_OK(WritePattern(TargetPath("thick"), 7, kExtent, last));
    EXPECT_OK(CheckPattern(TargetPath("thick"), 7, kExtent, last));
    CheckVolumes();
    return more;
  });
}

std::string NameOf(const testing::TestParamInfo<Killed>& tested) {
  return tested.param == Killed::kOneProcess ? "one_process" : "quarryd_too";
}
INSTANTIATE_TEST_SUITE_P(Each, ThinKillsTest, testing::Values(Killed::kOneProcess, Killed::kQuarrydToo),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Each, HandKillsTest, testing::Values(Killed::kOneProcess), NameOf);
INSTANTIATE_TEST_SUITE_P(Each, ByHandKillsTest, testing::Values(Killed::kOneProcess, Killed::kQuarrydToo),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Each, VolumeKillsTest, testing::Values(Killed::kOneProcess, Killed::kQuarrydToo),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Each, SyncKillsTest, testing::Values(Killed::kOneProcess, Killed::kQuarrydToo),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Each, GrowthKillsTest, testing::Values(Killed::kOneProcess, Killed::kQuarrydToo),
                         NameOf);

}  // namespace
}  // namespace quarry::vm
