// The power is cut while volumes are published, and the guest boots again. Before runs, the harness cuts the
// power and boots the guest, After runs. Before keeps its notes on the guest's root disk.
#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

constexpr char kNotes[] = "/root/power-cut-notes";
constexpr uint64_t kDataLength = 16 << 20;

// No VmTest: the group must outlive this process.
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

// The ids from before the cut, by seed.
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
  // A deletion that is under way at the cut is finished afterwards.
  auto doomed = client_.Create({"doomed", {}, BlockCapability(), 256 * kMi});
  ASSERT_OK(doomed);
  ASSERT_OK(client_.Delete(doomed.value.volume().volume_id()));
  notes.close();
  ASSERT_TRUE(Tool({"sync", kNotes, "/root"}).ok());
  (void)quarryd_.release();  // the power cut ends it
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

// RAID volumes are being written to when the power is cut, and the drives lose what was not flushed. So some
// legs have more of the writes in flight than others. No caller was told that these writes are done. But a
// volume must not read differently from one day to the next, and the parity must be right for data that were
// written long ago.
class TornWrites : public PowerCut {
 protected:
  static constexpr int kFirst = 11;
  static const std::vector<std::string>& Types() {
    static const std::vector<std::string> types = {"raid1", "raid5", "raid10"};
    return types;
  }
  static VolumeSpec Spec(const std::string& type) {
    return {"torn-" + type, TypeParameters(type), BlockCapability(), 48 * kMi};
  }
  static std::string Lv(const v1::Volume& volume) {
    return std::string(kGroup) + "/" + LvNameIn(volume.volume_id());
  }
  // The number of times that the kernel has begun it since the boot: "resync", or "check", which is
  // "data-check" before Linux 6.11.
  static int Begun(const std::string& what) {
    return std::stoi(Sh("dmesg | grep -c '" + what + " of RAID array'").out);
  }
  static std::string Sync(const v1::Volume& volume) {
    return Trim(Tool({"lvs", "--noheadings", "-o", "raid_sync_action,sync_percent", Lv(volume)}).out);
  }
  v1::Volume MustStage(const std::string& type) {
    auto made = client_.Create(Spec(type));
    EXPECT_OK(made);
    const v1::Volume volume = made.ok() ? made.value.volume() : v1::Volume();
    EXPECT_TRUE(Tool({"mkdir", "-p", Staging(kFirst) + type}).ok());
    EXPECT_OK(client_.Stage(volume, Staging(kFirst) + type, BlockCapability()));
    EXPECT_OK(client_.Publish(volume, Staging(kFirst) + type, Target(kFirst) + type, BlockCapability()));
    return volume;
  }
  void MustUnstage(const v1::Volume& volume, const std::string& type) {
    EXPECT_OK(client_.Unpublish(volume.volume_id(), Target(kFirst) + type));
    EXPECT_OK(client_.Unstage(volume.volume_id(), Staging(kFirst) + type));
  }
};

TEST_F(TornWrites, Before) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  Start();
  for (const std::string& type : Types()) {
    const v1::Volume volume = MustStage(type);
    ASSERT_TRUE(Eventually([&] { return Sync(volume).find("100.00") != std::string::npos; }, 120)) << type;
    for (int i = 0; i < 3; ++i) {
      const std::string write =
          "dd if=/dev/urandom of=" + Target(kFirst) + type +
          " bs=4k count=4 seek=$((RANDOM % 12000)) oflag=direct conv=notrunc status=none";
      ASSERT_TRUE(Sh("setsid bash -c 'while " + write + "; do :; done' > /dev/null 2>&1 < /dev/null &").ok());
    }
  }
  std::this_thread::sleep_for(std::chrono::seconds(5));
  (void)quarryd_.release();  // the power cut ends it
}

TEST_F(TornWrites, After) {
  VolumeGroup group(kGroup, DiskNodes());
  Start();
  std::map<std::string, v1::Volume> volumes;
  for (const std::string& type : Types()) {
    volumes[type] = MustStage(type);
  }
  printf("  %d resyncs were begun\n", Begun("resync"));
  for (const auto& [type, volume] : volumes) {
    EXPECT_TRUE(
        Eventually([&] { return Sync(volume).starts_with("idle") && Sync(volume).ends_with("100.00"); }, 120))
        << type;
    const int checks = Begun("check");
    ASSERT_TRUE(Tool({"lvchange", "--syncaction", "check", Lv(volume)}).ok());
    EXPECT_TRUE(Eventually([&] { return Begun("check") > checks; }, 30)) << type;
    EXPECT_TRUE(Eventually([&] { return Sync(volume).starts_with("idle"); }, 120)) << type;
    EXPECT_EQ(Trim(Tool({"lvs", "--noheadings", "-o", "raid_mismatch_count", Lv(volume)}).out), "0") << type;
  }
  // A volume that was stopped in order needs no resync.
  const int before = Begun("resync");
  for (const auto& [type, volume] : volumes) {
    ASSERT_OK(WritePattern(Target(kFirst) + type, 3, 16 << 20));
    MustUnstage(volume, type);
    ASSERT_TRUE(Tool({"lvchange", "-an", Lv(volume)}).ok());
    MustStage(type);
    EXPECT_OK(CheckPattern(Target(kFirst) + type, 3, 16 << 20));
  }
  EXPECT_EQ(Begun("resync"), before);
  for (const auto& [type, volume] : volumes) {
    MustUnstage(volume, type);
    EXPECT_OK(client_.Delete(volume.volume_id()));
  }
  EXPECT_TRUE(Eventually([&] { return group.Lvs().has_value() && group.Lvs()->empty(); }, 120))
      << Tool({"lvs", "-a", kGroup}).out;
  EXPECT_EQ(quarryd_->Stop(), 0);
}

// Snapshots are made and deleted in a thin store all the time when the power is cut, and the drives lose some
// of what was not flushed. Every snapshot that was acknowledged is there, with its bytes.
class ThinPowerCut : public PowerCut {
 protected:
  static constexpr char kSteps[] = "/root/power-cut-steps";
  static constexpr uint64_t kWritten = 1 << 20;

  static QuarrydOptions Options() {
    QuarrydOptions options;
    options.pools = {std::string("main=") + kGroup + ",store.fast=160MiB type=raid1 chunk=64KiB"};
    return options;
  }
  void StartThin() {
    auto started = QuarrydProcess::Start(Options());
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady());
  }
  // On the disk before anything else happens.
  static void Note(const std::string& line) {
    ASSERT_TRUE(Sh("echo '" + line + "' >> " + kSteps + " && sync " + kSteps).ok());
  }
};

TEST_F(ThinPowerCut, Before) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  StartThin();
  auto made = client_.Create({"source", TypeParameters("thin"), BlockCapability(), 16 * kMi});
  ASSERT_OK(made);
  const v1::Volume& volume = made.value.volume();
  ASSERT_TRUE(Tool({"mkdir", "-p", Staging(3)}).ok());
  ASSERT_OK(client_.Stage(volume, Staging(3), BlockCapability()));
  ASSERT_OK(client_.Publish(volume, Staging(3), Target(3), BlockCapability()));
  ASSERT_OK(WritePattern(Target(3), 1000, kDataLength - kWritten, kWritten));
  Note("volume " + volume.volume_id());
  (void)quarryd_.release();
}

// Goes on until the power is cut.
TEST_F(ThinPowerCut, Load) {
  std::ifstream steps(kSteps);
  std::string word;
  std::string id;
  steps >> word >> id;
  std::map<int, std::string> made;
  for (int n = 1;; ++n) {
    ASSERT_OK(WritePattern(Target(3), static_cast<uint64_t>(n), kWritten));
    auto snapshot = client_.Snapshot("snap " + std::to_string(n), id);
    while (snapshot.code() == grpc::StatusCode::UNAVAILABLE) {  // it takes longer than a call may
      snapshot = client_.Snapshot("snap " + std::to_string(n), id);
    }
    ASSERT_OK(snapshot);
    made[n] = snapshot.value.snapshot().snapshot_id();
    Note("made " + std::to_string(n) + " " + made[n]);
    if (made.size() > 3) {
      Note("deleting " + std::to_string(made.begin()->first) + " -");
      ASSERT_OK(client_.DeleteSnapshot(made.begin()->second));
      made.erase(made.begin());
    }
  }
}

// The cut comes some seconds after this, however slow the guest is.
TEST_F(ThinPowerCut, LoadDeletes) {
  EXPECT_TRUE(Eventually([] { return Sh(std::string("grep -q ^deleting ") + kSteps).ok(); }, 300))
      << Sh("cat /root/load").out;
}

TEST_F(ThinPowerCut, After) {
  std::ifstream steps(kSteps);
  std::string word;
  std::string volume;
  std::string id;
  steps >> word >> volume;
  std::map<int, std::string> known;
  int last = 0;
  for (int n = 0; steps >> word >> n >> id;) {
    if (word == "made") {
      known[n] = id;
      last = n;
    } else {
      known.erase(n);
    }
  }
  printf("  %d snapshots were made, %zu must be there\n", last, known.size());
  ASSERT_GT(last, 3) << "the power was cut too early";
  StartThin();
  const auto listed = client_.Snapshots();
  ASSERT_OK(listed);
  std::map<std::string, std::string> there;
  for (const auto& entry : listed.value.entries()) {
    there[entry.snapshot().snapshot_id()] = entry.snapshot().source_volume_id();
  }
  for (const auto& [n, snapshot] : known) {
    EXPECT_EQ(there[snapshot], volume) << "snapshot " << n;
    VolumeSpec spec{"copy", TypeParameters("thin"), BlockCapability(), 16 * kMi};
    spec.snapshot = snapshot;
    const auto copy = client_.Create(spec);
    ASSERT_OK(copy);
    ASSERT_TRUE(Tool({"mkdir", "-p", Staging(2)}).ok());
    ASSERT_OK(client_.Stage(copy.value.volume(), Staging(2), BlockCapability()));
    ASSERT_OK(client_.Publish(copy.value.volume(), Staging(2), Target(2), BlockCapability()));
    EXPECT_OK(CheckPattern(Target(2), static_cast<uint64_t>(n), kWritten)) << "snapshot " << n;
    EXPECT_OK(CheckPattern(Target(2), 1000, kDataLength - kWritten, kWritten)) << "snapshot " << n;
    EXPECT_OK(client_.Unpublish(copy.value.volume().volume_id(), Target(2)));
    EXPECT_OK(client_.Unstage(copy.value.volume().volume_id(), Staging(2)));
    EXPECT_OK(client_.Delete(copy.value.volume().volume_id()));
  }
  for (const auto& [snapshot, source] : there) {
    EXPECT_OK(client_.DeleteSnapshot(snapshot));
  }
  EXPECT_OK(client_.Delete(volume));
  EXPECT_TRUE(Eventually([] { return Sh("lvs --noheadings vg | wc -l").out.substr(0, 1) == "1"; }, 120))
      << Tool({"lvs", "-a", "-o", "lv_name,lv_tags", kGroup}).out << quarryd_->Log();
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
