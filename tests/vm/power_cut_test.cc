// The power goes while volumes are published, and comes back. Two programs' worth in one: Before runs, the
// harness cuts the power and boots the guest again, After runs. What Before learnt is kept on the guest's
// root disk.
#include <fstream>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

constexpr char kNotes[] = "/root/power-cut-notes";
constexpr uint64_t kDataLength = 16 << 20;

// The group outlives this process, on purpose: no VmTest here.
class PowerCut : public testing::Test {
 protected:
  void Start() {
    auto started = QuarrydProcess::Start({});
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady());
  }

  static VolumeSpec Spec(int seed) {
    if (seed == 1) {
      return {"mirrored", TypeParameters("raid1"), MountCapability("ext4")};
    }
    if (seed == 2) {
      return {"parity", TypeParameters("raid5", {{"stripes", "3"}}), MountCapability("xfs"), 320 * kMi};
    }
    return {"raw", TypeParameters("linear"), BlockCapability()};
  }
  static std::string Staging(int seed) { return "/root/staging-" + std::to_string(seed); }
  static std::string Target(int seed) { return "/root/target-" + std::to_string(seed); }
  static std::string DataPath(int seed) {
    return Spec(seed).capability.has_block() ? Target(seed) : Target(seed) + "/data";
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

// Ids of before the cut, by seed.
std::map<int, v1::Volume> ReadNotes() {
  std::map<int, v1::Volume> volumes;
  std::ifstream file(kNotes);
  int seed = 0;
  std::string id;
  int64_t size = 0;
  while (file >> seed >> id >> size) {
    volumes[seed].set_volume_id(id);
    volumes[seed].set_capacity_bytes(size);
  }
  return volumes;
}

TEST_F(PowerCut, Before) {
  const std::vector<std::string> disks = DiskNodes();
  ASSERT_GE(disks.size(), 4U);
  VolumeGroup group(kGroup, disks);
  group.Keep();
  ASSERT_OK(group.Make());
  Start();
  std::ofstream notes(kNotes);
  for (int seed = 1; seed <= 3; ++seed) {
    const VolumeSpec spec = Spec(seed);
    auto made = client_.Create(spec);
    ASSERT_OK(made);
    const v1::Volume& volume = made.value.volume();
    ASSERT_TRUE(Tool({"mkdir", "-p", Staging(seed)}).ok());
    ASSERT_OK(client_.Stage(volume, Staging(seed), spec.capability));
    ASSERT_OK(client_.Publish(volume, Staging(seed), Target(seed), spec.capability));
    ASSERT_OK(WritePattern(DataPath(seed), static_cast<uint64_t>(seed), kDataLength));
    notes << seed << ' ' << volume.volume_id() << ' ' << volume.capacity_bytes() << '\n';
  }
  // A deletion under way when the power goes is finished afterwards; a create of which the caller heard
  // nothing too.
  auto doomed = client_.Create({"doomed", {}, BlockCapability(), 256 * kMi});
  ASSERT_OK(doomed);
  ASSERT_OK(client_.Delete(doomed.value.volume().volume_id()));
  notes.close();
  ASSERT_TRUE(Tool({"sync", kNotes, "/root"}).ok());
  (void)quarryd_.release();  // the cut ends it
}

TEST_F(PowerCut, After) {
  const std::map<int, v1::Volume> known = ReadNotes();
  ASSERT_EQ(known.size(), 3U) << "the notes: "
                              << Tool({"sh", "-c", std::string("ls -l /root; od -c ") + kNotes}).out;
  VolumeGroup group(kGroup, DiskNodes());
  Start();

  auto listed = client_.List();
  ASSERT_OK(listed);
  std::map<std::string, int64_t> sizes;
  for (const v1::Volume& volume : listed.value) {
    sizes[volume.volume_id()] = volume.capacity_bytes();
  }
  EXPECT_EQ(sizes.size(), 3U);
  for (const auto& [seed, volume] : known) {
    EXPECT_EQ(sizes[volume.volume_id()], volume.capacity_bytes());
    const VolumeSpec spec = Spec(seed);
    auto again = client_.Create(spec);
    ASSERT_OK(again);
    EXPECT_EQ(again.value.volume().volume_id(), volume.volume_id());
    ASSERT_TRUE(Tool({"mkdir", "-p", Staging(seed)}).ok());
    ASSERT_OK(client_.Stage(again.value.volume(), Staging(seed), spec.capability));
    ASSERT_OK(client_.Publish(again.value.volume(), Staging(seed), Target(seed), spec.capability));
    EXPECT_OK(CheckPattern(DataPath(seed), static_cast<uint64_t>(seed), kDataLength));
    EXPECT_OK(client_.Unpublish(volume.volume_id(), Target(seed)));
    EXPECT_OK(client_.Unstage(volume.volume_id(), Staging(seed)));
    EXPECT_OK(client_.Delete(volume.volume_id()));
  }
  EXPECT_TRUE(Eventually([&] { return group.Lvs().has_value() && group.Lvs()->empty(); }, 120))
      << Tool({"lvs", "-a", kGroup}).out;
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
