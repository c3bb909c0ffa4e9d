#include "tests/vm/fixture.h"

#include <chrono>
#include <filesystem>
#include <thread>

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
constexpr char kPlaces[] = "/run/quarry-test/mnt";

}  // namespace

std::unique_ptr<VolumeGroup> VmTest::group_;
int64_t VmTest::total_extents_ = 0;

bool Eventually(const std::function<bool()>& holds, int seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

void VmTest::MakeGroup(const std::vector<std::string>& how) {
  const std::vector<std::string> disks = DiskNodes();
  ASSERT_GE(disks.size(), 2U) << "no blank disks: run this in a guest of scripts/vmtest";
  group_ = std::make_unique<VolumeGroup>(kGroup, disks);
  ASSERT_OK(group_->Make(how));
  auto free = group_->FreeExtents();
  ASSERT_OK(free);
  total_extents_ = *free;
}

void VmTest::TearDownTestSuite() {
  group_.reset();
}

void VmTest::SetUp() {
  ASSERT_NE(group_, nullptr);
  fs::create_directories(kPlaces);
  if (StartsQuarryd()) {
    StartQuarryd();
  }
}

void VmTest::StartQuarryd(const QuarrydOptions& options) {
  ASSERT_OK(TryStartQuarryd(options));
}

Status VmTest::TryStartQuarryd(const QuarrydOptions& options) {
  QUARRY_ASSIGN(quarryd_, QuarrydProcess::Start(options));
  client_ = std::make_unique<CsiClient>(options.socket);
  return quarryd_->WaitReady(std::chrono::seconds(300));
}

void VmTest::KillAndRestart() {
  const QuarrydOptions options = quarryd_->options();
  quarryd_->Kill();
  StartQuarryd(options);
}

std::string VmTest::NodesLeft() {
  const std::string name = "q" + std::string(26, '?') + "*";
  return Sh("ls -d /dev/mapper/" + std::string(kGroup) + "-" + name + " /dev/" + kGroup + "/" + name +
            " 2>/dev/null")
      .out;
}

void VmTest::TearDown() {
  if (!HasFailure()) {
    EXPECT_TRUE(ComesBackEmpty());
    // Every way to a volume went with it. Otherwise an old path would lead to the next volume.
    EXPECT_TRUE(Eventually([] { return NodesLeft().empty(); })) << NodesLeft();
    const Outcome mounts = Tool({"findmnt", "-rn", "-o", "TARGET"});
    EXPECT_EQ(mounts.out.find(kPlaces), std::string::npos) << "still mounted:\n" << mounts.out;
    if (quarryd_ != nullptr && quarryd_->Running()) {
      EXPECT_EQ(quarryd_->Stop(), 0);
    }
  }
  if (HasFailure() && quarryd_ != nullptr) {
    std::string log = quarryd_->Log();
    constexpr size_t kShown = 6000;
    if (log.size() > kShown) {
      log.erase(0, log.size() - kShown);
    }
    fprintf(stderr, "The end of quarryd's log:\n%s\n", log.c_str());
  }
  client_.reset();
  quarryd_.reset();
  if (HasFailure() && group_ != nullptr) {
    CleanUpByForce();
  }
  std::error_code ignored;
  fs::remove_all(kPlaces, ignored);
}

// Otherwise one failed test would fail those after it.
void VmTest::CleanUpByForce() {
  std::vector<std::string> mounts = Lines(Tool({"findmnt", "-rn", "-o", "TARGET"}).out);
  for (auto target = mounts.rbegin(); target != mounts.rend(); ++target) {
    if (target->starts_with(kPlaces)) {
      Tool({"umount", *target});
    }
  }
  EXPECT_OK(group_->Empty());
}

v1::Volume VmTest::MustCreate(const VolumeSpec& spec) {
  auto made = client().Create(spec);
  EXPECT_OK(made) << "creating " << spec.name;
  return made.value.volume();
}

std::string VmTest::StagingPath(const std::string& name) {
  const std::string path = std::string(kPlaces) + "/staging-" + name;
  fs::create_directories(path);
  return path;
}

std::string VmTest::TargetPath(const std::string& name) {
  const std::string parent = std::string(kPlaces) + "/pod-" + name;
  fs::create_directories(parent);
  return parent + "/volume";
}

std::string VmTest::LvOf(const v1::Volume& volume) {
  return LvNameIn(volume.volume_id());
}

testing::AssertionResult VmTest::ComesBackEmpty(int seconds) {
  int64_t free = -1;
  const bool empty = Eventually(
      [&free] {
        free = group_->FreeExtents().value_or(-1);
        return free == total_extents_;
      },
      seconds);
  if (empty) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << free << " of " << total_extents_ << " extents are free; LVs left: "
                                     << Tool({"lvs", "-a", "-o", "lv_name,lv_size,lv_tags", kGroup}).out;
}

}  // namespace quarry::vm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
