// What becomes full or cannot be written: LVM's metadata area, the folders for its backups, quarryd's state
// directory, the disks during a commit. Errors are clear, nothing is damaged, and everything works again once
// there is space.
#include <filesystem>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using grpc::StatusCode;
constexpr char kState[] = "/run/quarry-small";

// The areas that vgcreate makes by default hold hundreds of volumes. These hold a few dozen.
class FullMetadata : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> disks = {DiskNode(1), DiskNode(2)};
    std::vector<std::string> argv = {"vgcreate",        "-q",   "-y",  "--metadatasize", "128k",
                                     "--dataalignment", "128k", kGroup};
    argv.insert(argv.end(), disks.begin(), disks.end());
    ASSERT_TRUE(Tool(argv).ok());
    auto started = QuarrydProcess::Start({});
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady(std::chrono::seconds(120)));
  }
  void TearDown() override {
    if (HasFailure() && quarryd_ != nullptr) {
      fprintf(stderr, "quarryd's log:\n%s\n", quarryd_->Log().c_str());
    }
    if (quarryd_ != nullptr) {
      EXPECT_EQ(quarryd_->Stop(), 0);
    }
    VolumeGroup(kGroup, {DiskNode(1), DiskNode(2)}).Remove();
  }

  static int64_t Free() {
    const Outcome said =
        Tool({"pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "pv_mda_free", DiskNode(1)});
    return said.ok() ? std::stoll(Trim(said.out)) : -1;
  }
  // Fills the area with an administrator's tags until `left` bytes are free or LVM takes no more of this
  // length.
  void FillBut(int64_t left, size_t length) {
    while (Free() - left > 2 * static_cast<int64_t>(length)) {
      std::vector<std::string> argv = {"vgchange", "-q"};
      for (int64_t room = Free() - left; room > static_cast<int64_t>(2 * length) && argv.size() < 60;
           room -= static_cast<int64_t>(length)) {
        fillers_.push_back("f" + std::to_string(fillers_.size()) + std::string(length - 10, 'x'));
        argv.insert(argv.end(), {"--addtag", fillers_.back()});
      }
      argv.emplace_back(kGroup);
      ASSERT_TRUE(Tool(argv).ok());
    }
  }
  void TakeToTheBrim() {
    FillBut(1000, 900);
    for (const size_t length : {200, 12}) {
      std::string filler;
      do {
        filler = "b" + std::to_string(fillers_.size()) + std::string(length - 8, 'y');
        fillers_.push_back(filler);
      } while (Tool({"vgchange", "-q", "--addtag", filler, kGroup}).ok());
      fillers_.pop_back();
    }
  }
  void DropFillers() {
    std::vector<std::string> argv = {"vgchange", "-q"};
    for (const std::string& filler : fillers_) {
      argv.insert(argv.end(), {"--deltag", filler});
    }
    argv.emplace_back(kGroup);
    const Outcome dropped = Tool(argv);
    EXPECT_TRUE(dropped.ok()) << dropped.err;
  }
  size_t LvCount() {
    const auto lvs = VolumeGroup(kGroup, {}).Lvs();
    return lvs.has_value() ? lvs->size() : 9999;
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
  std::vector<std::string> fillers_;
};

TEST_F(FullMetadata, NewVolumesAreRefusedAndExistingOnesServedAndDeleted) {
  auto made = client_.Create({"kept", {}, BlockCapability(), 16 * kMi});
  ASSERT_OK(made);
  const v1::Volume kept = made.value.volume();
  const std::string node = "/dev/vg/" + LvNameIn(kept.volume_id());
  ASSERT_OK(WritePattern(node, 7, 4 * kMi));
  ASSERT_NO_FATAL_FAILURE(FillBut(9000, 900));

  std::vector<v1::Volume> volumes;
  Reply<v1::CreateVolumeResponse> last;
  while (volumes.size() < 20) {
    last = client_.Create({"v" + std::to_string(volumes.size()), {}, MountCapability(), 8 * kMi});
    if (!last.ok()) {
      break;
    }
    volumes.push_back(last.value.volume());
  }
  ASSERT_GE(volumes.size(), 2U) << last.text();
  EXPECT_TRUE(Fails(last, StatusCode::RESOURCE_EXHAUSTED, "metadata area of volume group vg"));
  EXPECT_TRUE(Fails(client_.Create({"raid", TypeParameters("raid1"), BlockCapability(), 8 * kMi}),
                    StatusCode::RESOURCE_EXHAUSTED, "metadata area"));
  EXPECT_EQ(LvCount(), volumes.size() + 1) << "no create has begun";
  auto capacity = client_.Capacity();
  ASSERT_OK(capacity);
  EXPECT_EQ(capacity.value.available_capacity(), 0);
  const Outcome shown = Tool({"quarryctl", "--pool", "main=vg", "capacity"});
  EXPECT_NE(shown.out.find("metadata area"), std::string::npos) << shown.out << shown.err;
  const Outcome planned = Tool({"quarryctl", "--pool", "main=vg", "plan", "--size", "8MiB"});
  EXPECT_FALSE(planned.ok());
  EXPECT_NE(planned.err.find("metadata area"), std::string::npos) << planned.out << planned.err;
  // The first staging adds tags.
  for (const v1::Volume& volume : volumes) {
    const std::string staging = "/run/quarry-test/full";
    std::filesystem::create_directories(staging);
    EXPECT_OK(client_.Stage(volume, staging, MountCapability()));
    EXPECT_OK(client_.Unstage(volume.volume_id(), staging));
  }
  for (const v1::Volume& volume : volumes) {
    EXPECT_OK(client_.Delete(volume.volume_id()));
  }
  EXPECT_TRUE(Eventually([this] { return LvCount() == 1; }, 180));
  auto again = client_.Create({"again", {}, BlockCapability(), 8 * kMi});
  ASSERT_OK(again);

  // An administrator leaves no space at all.
  TakeToTheBrim();
  EXPECT_TRUE(
      Fails(client_.Expand(kept.volume_id(), 64 * kMi), StatusCode::RESOURCE_EXHAUSTED, "metadata area"));
  EXPECT_TRUE(Fails(client_.Delete(again.value.volume().volume_id()), StatusCode::RESOURCE_EXHAUSTED,
                    "metadata area"));
  auto listed = client_.List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), 2U);
  DropFillers();
  EXPECT_OK(client_.Delete(again.value.volume().volume_id()));
  EXPECT_OK(client_.Expand(kept.volume_id(), 64 * kMi));
  EXPECT_OK(CheckPattern(node, 7, 4 * kMi));
  EXPECT_OK(client_.Delete(kept.volume_id()));
  EXPECT_TRUE(Eventually([this] { return LvCount() == 0; }, 180));
}

class FullTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }
  // The whole life of a volume.
  void Live(const std::string& name) {
    const v1::VolumeCapability mount = MountCapability();
    const v1::Volume volume = MustCreate({name, TypeParameters("raid1"), mount, 16 * kMi});
    ASSERT_FALSE(volume.volume_id().empty());
    const std::string staging = StagingPath(name);
    const std::string target = TargetPath(name);
    EXPECT_OK(client().Stage(volume, staging, mount));
    EXPECT_OK(client().Publish(volume, staging, target, mount));
    EXPECT_OK(WritePattern(target + "/file", 5, 1 << 20));
    EXPECT_OK(client().Expand(volume.volume_id(), 32 * kMi));
    EXPECT_OK(client().NodeExpand(volume.volume_id(), target, staging, 32 * kMi));
    KillAndRestart();
    EXPECT_OK(CheckPattern(target + "/file", 5, 1 << 20));
    EXPECT_OK(client().Unpublish(volume.volume_id(), target));
    EXPECT_OK(client().Unstage(volume.volume_id(), staging));
    EXPECT_OK(client().Delete(volume.volume_id()));
    EXPECT_TRUE(ComesBackEmpty());
  }
};

TEST_F(FullTest, NothingInEtcIsWrittenOrNeeded) {
  ASSERT_TRUE(Sh("mkdir -p /etc/lvm/backup /etc/lvm/archive && for d in backup archive; do "
                 "mount -t tmpfs -o size=4k,nr_inodes=2 none /etc/lvm/$d && "
                 "! dd if=/dev/zero of=/etc/lvm/$d/full bs=4k count=9 2>/dev/null; done && "
                 "mount --bind /etc /etc && mount -o remount,bind,ro /etc && ! touch /etc/written")
                  .ok());
  StartQuarryd();
  Live("etc");
  EXPECT_TRUE(Sh("umount /etc && umount /etc/lvm/backup /etc/lvm/archive").ok());
}

TEST_F(FullTest, AFullStateDirectoryStopsOnlyTheStart) {
  ASSERT_TRUE(
      Sh(std::string("mkdir -p ") + kState + " && mount -t tmpfs -o size=64k,nr_inodes=40 none " + kState)
          .ok());
  const std::string fill =
      std::string("cd ") + kState +
      " && ! cat /dev/zero >full 2>/dev/null; i=0; while : >$i.full; do i=$((i+1)); done 2>/dev/null; ls";
  const std::string clear = std::string("rm -f ") + kState + "/*full";
  const QuarrydOptions options{.arguments = {"--state-dir", kState}};
  Sh(fill);
  const Status refused = TryStartQuarryd(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("No space left on device"), std::string::npos)
      << refused.error().message();
  EXPECT_NE(refused.error().message().find(kState), std::string::npos) << refused.error().message();
  ASSERT_TRUE(Sh(clear).ok());
  StartQuarryd(options);
  Sh(fill);
  Live("state");  // includes a restart, which finds its state directory valid
  ASSERT_TRUE(Sh(clear).ok());
  EXPECT_EQ(quarryd().Stop(), 0);
  EXPECT_TRUE(Sh(std::string("umount ") + kState).ok());
}

// The parameter has the numbers of the disks that refuse writes.
class RefusedWrites : public FullTest, public testing::WithParamInterface<std::vector<int>> {
 protected:
  static void Tell(const char* what) {
    for (const int disk : GetParam()) {
      ASSERT_TRUE(Tool({"vmctl", "error", std::to_string(disk), what}).ok());
    }
  }
  // The call fails while the disks refuse writes, and its message names the group. Then the same call
  // succeeds.
  template <typename Call>
  auto FailsThenSucceeds(const char* name, const Call& call) {
    SCOPED_TRACE(name);
    Tell("write");
    const auto failed = call();
    Tell("off");
    EXPECT_FALSE(failed.ok()) << name;
    EXPECT_TRUE(failed.code() == StatusCode::INTERNAL || failed.code() == StatusCode::UNAVAILABLE)
        << failed.code();
    EXPECT_NE(failed.text().find("vg"), std::string::npos) << failed.text();
    auto done = call();
    EXPECT_OK(done) << name;
    return done;
  }
};

TEST_P(RefusedWrites, AFailedCommitFailsTheCallAndLosesNothing) {
  StartQuarryd();
  const v1::Volume witness = MustCreate({"witness", {}, BlockCapability(), 16 * kMi});
  ASSERT_OK(WritePattern(NodeOf(witness), 11, 4 * kMi));
  const auto made = FailsThenSucceeds(
      "CreateVolume", [&] { return client().Create({"made", {}, BlockCapability(), 8 * kMi}); });
  const v1::Volume volume = made.value.volume();
  ASSERT_FALSE(volume.volume_id().empty());
  FailsThenSucceeds("ControllerExpandVolume", [&] { return client().Expand(volume.volume_id(), 24 * kMi); });
  if (GetParam().size() > 1) {
    FailsThenSucceeds("DeleteVolume", [&] { return client().Delete(volume.volume_id()); });
  } else {
    // LVM commits tags on the other disks, and updates the failed one with the next commit.
    Tell("write");
    EXPECT_OK(client().Delete(volume.volume_id()));
    Tell("off");
  }
  auto listed = client().List();
  ASSERT_OK(listed);
  EXPECT_EQ(listed.value.size(), 1U);
  EXPECT_OK(CheckPattern(NodeOf(witness), 11, 4 * kMi));
  EXPECT_OK(client().Delete(witness.volume_id()));
}

INSTANTIATE_TEST_SUITE_P(Of, RefusedWrites,
                         testing::Values(std::vector<int>{2}, std::vector<int>{1, 2, 3, 4}),
                         [](const auto& info) { return info.param.size() == 1 ? "OneDisk" : "EveryDisk"; });

}  // namespace
}  // namespace quarry::vm
