// Killed at every step: for each call, quarryd dies before, amid and after each step of the plan, with the
// LVM command or mkfs that it runs. Then it starts again and the call is repeated. Every time, exactly the
// acknowledged volumes exist, with their bytes, and nothing else is left in LVM or the kernel.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/vm/fixture.h"
#include "tests/vm/thin_store_tools.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;

constexpr char kOrder[] = "/run/quarry-test/crash-order";
constexpr uint64_t kDataLength = 1 << 20;
constexpr int kMostKills = 80;  // of one call: more means that the call makes no progress

class CrashTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }

  void SetUp() override {
    VmTest::SetUp();
    Disarm();
    ASSERT_NO_FATAL_FAILURE(Boot());
    MakeWitness();
  }

  void TearDown() override {
    Disarm();
    if (!HasFailure()) {
      EndWitness();
      printf("%d kills at %zu moments\n", kills_, moments_);
    }
    VmTest::TearDown();
  }

  // From now on the process dies at each step at which it has not died yet during this call.
  void Arm() {
    std::ofstream(std::string(kOrder) + ".done", std::ios::trunc);
    std::ofstream(kOrder) << "amid-ms " << 60 + 70 * (++armed_ % 5) << '\n';
  }
  void Disarm() { fs::remove(kOrder); }

  // Starts quarryd. The steps of its start count too.
  void Boot() {
    Status started = Ok();
    for (int i = 0; i < kMostKills; ++i) {
      started = TryStartQuarryd(
          {.program = "quarryd_crash", .pools = pools_, .variables = {{"QUARRY_CRASH_ORDER", kOrder}}});
      if (started.has_value() || !HasQuarryd() || quarryd().Running()) {
        break;
      }
      ++kills_;
    }
    ASSERT_OK(started);
  }

  // Repeats the call until it succeeds. An error while quarryd lives fails the test.
  void UntilAnswered(const std::string& what, const std::function<grpc::Status()>& call) {
    SCOPED_TRACE(what);
    Arm();
    int deaths = 0;
    for (; deaths < kMostKills; ++deaths) {
      const grpc::Status status = call();
      if (status.ok()) {
        break;
      }
      if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !Died(2)) {
        --deaths;  // still in progress: repeat the call
        continue;
      }
      ASSERT_TRUE(Died(20)) << status.error_code() << ": " << status.error_message();
      ++kills_;
      ASSERT_NO_FATAL_FAILURE(Boot());
      ASSERT_NO_FATAL_FAILURE(CheckWorld());
    }
    ASSERT_LT(deaths, kMostKills);
    Record();
    Disarm();
  }

  bool Died(int seconds) {
    return Eventually([this] { return !quarryd().Running(); }, seconds);
  }

  // Kills at the steps that follow the answer (erasing), too.
  void UntilGone(const std::string& lv) {
    Arm();
    const auto gone = [&] {
      const auto lvs = group().Lvs();
      return lvs.has_value() && !lvs->contains(lv);
    };
    for (int deaths = 0; deaths < kMostKills && !gone();) {
      if (Died(1)) {
        ++deaths;
        ++kills_;
        ASSERT_NO_FATAL_FAILURE(Boot());
        ASSERT_NO_FATAL_FAILURE(CheckWorld());
      }
    }
    EXPECT_TRUE(gone());
    Record();
    Disarm();
    if (Died(1)) {
      ASSERT_NO_FATAL_FAILURE(Boot());
    }
  }

  // Prints the moments of the kills, for the reader of the log.
  void Record() {
    std::ifstream done(std::string(kOrder) + ".done");
    for (std::string line; std::getline(done, line); ++moments_) {
      printf("  %s\n", line.substr(0, 110).c_str());
    }
  }

  // Exactly the acknowledged volumes and snapshots exist, and perhaps the one of the current call if it is
  // whole.
  void CheckWorld() {
    auto listed = client().List();
    auto snapshots = client().Snapshots();
    while ((!listed.ok() || !snapshots.ok()) && kills_ < 100 * kMostKills &&
           Died(5)) {  // meanwhile the eraser reached one of its steps
      ++kills_;
      ASSERT_NO_FATAL_FAILURE(Boot());
      listed = client().List();
      snapshots = client().Snapshots();
    }
    ASSERT_OK(listed);
    ASSERT_OK(snapshots);
    std::map<std::string, int64_t> sizes;
    for (const v1::Volume& volume : listed.value) {
      sizes[volume.volume_id()] = volume.capacity_bytes();
    }
    for (const auto& [id, size] : acknowledged_) {
      ASSERT_TRUE(sizes.contains(id)) << "an acknowledged volume is gone: " << id;
      EXPECT_GE(sizes[id], size);
    }
    EXPECT_LE(sizes.size(), acknowledged_.size() + 1);
    std::set<std::string> ids;
    for (const auto& entry : snapshots.value.entries()) {
      EXPECT_TRUE(entry.snapshot().ready_to_use());
      ids.insert(entry.snapshot().snapshot_id());
      sizes[entry.snapshot().snapshot_id()] = entry.snapshot().size_bytes();
    }
    EXPECT_TRUE(std::ranges::includes(ids, snapshots_)) << "an acknowledged snapshot is gone";
    EXPECT_LE(ids.size(), snapshots_.size() + most_new_);
    std::string wrong;
    const auto is_clean = [&] {
      if (Died(0)) {  // the eraser reached one of its steps
        ++kills_;
        Boot();
      }
      return HasFatalFailure() || (wrong = WhatIsLeftOver(sizes)).empty();
    };
    EXPECT_TRUE(Eventually(is_clean, 60)) << wrong;
    EXPECT_OK(CheckPattern(WitnessTarget() + "/data", 7, kDataLength));
  }

  // Returns what LVM or the kernel has and should not have. Empty if there is nothing.
  static std::string WhatIsLeftOver(const std::map<std::string, int64_t>& volumes) {
    std::set<std::string> names;
    for (const std::string& line :
         Lines(Tool({"lvs", "-a", "--noheadings", "-o", "lv_name,lv_tags", kGroup}).out)) {
      const std::vector<std::string> words = Words(line);
      std::string name = words.at(0);
      const bool hidden = name.starts_with("[");
      std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
      names.insert(name);
      const std::string tags = words.size() > 1 ? words[1] : "";
      const bool known =
          tags.find("quarry.kind=store") != std::string::npos ||
          std::ranges::any_of(volumes, [&](const auto& volume) { return LvNameIn(volume.first) == name; });
      const bool erasing = tags.find("quarry.erasing") != std::string::npos;
      if (!hidden && !known && !erasing) {
        return "logical volume of no volume: " + line;
      }
    }
    for (const std::string& line :
         Lines(Tool({"dmsetup", "info", "-c", "--noheadings", "--separator", " ", "-o", "name,suspended"})
                   .out)) {
      const std::vector<std::string> words = Words(line);
      if (!words.at(0).starts_with(std::string(kGroup) + "-")) {
        continue;
      }
      std::string name = words[0].substr(sizeof(kGroup));
      constexpr std::string_view kLayer = "-tpool";  // below the device of a thin pool
      name.erase(name.ends_with(kLayer) ? name.size() - kLayer.size() : name.size());
      if (!names.contains(name)) {
        return "device without logical volume: " + line;
      }
      if (words.back() == "Suspended") {
        return "suspended device: " + line;
      }
    }
    return {};
  }

  v1::Volume CreateKilled(const VolumeSpec& spec) {
    v1::Volume volume;
    UntilAnswered("CreateVolume " + spec.name, [&] {
      auto reply = client().Create(spec);
      volume = reply.value.volume();
      return reply.status;
    });
    Acknowledge(volume);
    EXPECT_EQ(MustCreate(spec).volume_id(), volume.volume_id());
    return volume;
  }
  v1::Snapshot SnapshotKilled(const std::string& name, const v1::Volume& source,
                              const std::map<std::string, std::string>& parameters) {
    v1::Snapshot snapshot;
    UntilAnswered("CreateSnapshot " + name, [&] {
      auto reply = client().Snapshot(name, source.volume_id(), parameters);
      snapshot = reply.value.snapshot();
      return reply.status;
    });
    snapshots_.insert(snapshot.snapshot_id());
    const auto again = client().Snapshot(name, source.volume_id(), parameters);
    EXPECT_EQ(again.value.snapshot().SerializeAsString(), snapshot.SerializeAsString());
    return snapshot;
  }
  void DeleteSnapshotKilled(const v1::Snapshot& snapshot) {
    snapshots_.erase(snapshot.snapshot_id());  // the first attempt may already delete it
    UntilAnswered("DeleteSnapshot", [&] { return client().DeleteSnapshot(snapshot.snapshot_id()).status; });
    UntilGone(LvNameIn(snapshot.snapshot_id()));
  }
  void Acknowledge(const v1::Volume& volume) { acknowledged_[volume.volume_id()] = volume.capacity_bytes(); }
  void ExpandKilled(const v1::Volume& volume, int64_t size) {
    UntilAnswered("ControllerExpandVolume", [&] { return client().Expand(volume.volume_id(), size).status; });
    acknowledged_[volume.volume_id()] = size;
  }
  void StageKilled(const v1::Volume& volume, const std::string& staging, const v1::VolumeCapability& how) {
    UntilAnswered("NodeStageVolume", [&] { return client().Stage(volume, staging, how).status; });
  }
  void PublishKilled(const v1::Volume& volume, const std::string& staging, const std::string& target,
                     const v1::VolumeCapability& how) {
    UntilAnswered("NodePublishVolume", [&] { return client().Publish(volume, staging, target, how).status; });
  }
  void UnpublishKilled(const v1::Volume& volume, const std::string& target) {
    UntilAnswered("NodeUnpublishVolume",
                  [&] { return client().Unpublish(volume.volume_id(), target).status; });
    EXPECT_FALSE(fs::exists(target));
  }
  void UnstageKilled(const v1::Volume& volume, const std::string& staging) {
    UntilAnswered("NodeUnstageVolume", [&] { return client().Unstage(volume.volume_id(), staging).status; });
  }
  void DeleteKilled(const v1::Volume& volume) {
    acknowledged_.erase(volume.volume_id());  // the first attempt may already delete it
    UntilAnswered("DeleteVolume", [&] { return client().Delete(volume.volume_id()).status; });
    UntilGone(LvOf(volume));
  }

  void ForgetSnapshot(const std::string& id) { snapshots_.erase(id); }
  void AcknowledgeSnapshot(const std::string& id) { snapshots_.insert(id); }

  static std::string WitnessTarget() { return TargetPath("witness"); }

  std::vector<std::string> pools_ = {std::string(kPool) + "=" + kGroup};
  size_t most_new_ = 1;  // snapshots that the current call makes, or deletes

 private:
  // A volume that is in use all the time. The kills must not affect it.
  void MakeWitness() {
    const VolumeSpec spec{"witness", {}, MountCapability("ext4"), 32 * kMi};
    witness_ = MustCreate(spec);
    ASSERT_OK(client().Stage(witness_, StagingPath("witness"), spec.capability));
    ASSERT_OK(client().Publish(witness_, StagingPath("witness"), WitnessTarget(), spec.capability));
    ASSERT_OK(WritePattern(WitnessTarget() + "/data", 7, kDataLength));
    Acknowledge(witness_);
  }
  void EndWitness() {
    EXPECT_OK(client().Unpublish(witness_.volume_id(), WitnessTarget()));
    EXPECT_OK(client().Unstage(witness_.volume_id(), StagingPath("witness")));
    EXPECT_OK(client().Delete(witness_.volume_id()));
  }

  v1::Volume witness_;
  std::map<std::string, int64_t> acknowledged_;  // id → least size
  std::set<std::string> snapshots_;              // acknowledged, by id
  int kills_ = 0;
  size_t moments_ = 0;
  int armed_ = 0;
};

TEST_F(CrashTest, AMirroredFileSystemSurvivesAKillAtEveryStep) {
  const v1::VolumeCapability how = MountCapability("ext4");
  const std::string staging = StagingPath("life");
  const std::string target = TargetPath("life");
  const v1::Volume volume = CreateKilled({"life", TypeParameters("raid1"), how, 16 * kMi});
  ASSERT_FALSE(HasFailure());
  StageKilled(volume, staging, how);
  PublishKilled(volume, staging, target, how);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(target + "/data", 3, kDataLength));
  ExpandKilled(volume, 32 * kMi);
  UntilAnswered("NodeExpandVolume",
                [&] { return client().NodeExpand(volume.volume_id(), target, staging, 32 * kMi).status; });
  EXPECT_OK(CheckPattern(target + "/data", 3, kDataLength));
  ASSERT_FALSE(HasFailure());
  UnpublishKilled(volume, target);
  UnstageKilled(volume, staging);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(client().Stage(volume, staging, how));
  ASSERT_OK(client().Publish(volume, staging, target, how));
  EXPECT_OK(CheckPattern(target + "/data", 3, kDataLength));
  ASSERT_OK(client().Unpublish(volume.volume_id(), target));
  ASSERT_OK(client().Unstage(volume.volume_id(), staging));
  DeleteKilled(volume);
}

TEST_F(CrashTest, ARawVolumeSurvivesAKillAtEveryStep) {
  const v1::VolumeCapability how = BlockCapability();
  const std::string staging = StagingPath("raw");
  const std::string target = TargetPath("raw");
  const v1::Volume volume = CreateKilled({"raw", TypeParameters("striped"), how, 16 * kMi});
  ASSERT_FALSE(HasFailure());
  StageKilled(volume, staging, how);
  PublishKilled(volume, staging, target, how);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(target, 4, kDataLength));
  ExpandKilled(volume, 32 * kMi);
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(target, 4, kDataLength));
  UnpublishKilled(volume, target);
  UnstageKilled(volume, staging);
  DeleteKilled(volume);
}

TEST_F(CrashTest, ACopyIsWholeOrAbsentAfterAKillAtEveryStep) {
  const v1::Volume source = MustCreate({"original", TypeParameters("linear"), BlockCapability(), 16 * kMi});
  ASSERT_OK(WritePattern(NodeOf(source), 5, static_cast<uint64_t>(source.capacity_bytes())));
  Acknowledge(source);
  VolumeSpec spec{"copy", TypeParameters("raid1"), BlockCapability(), 20 * kMi};
  spec.source = source.volume_id();
  const v1::Volume copy = CreateKilled(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(NodeOf(copy), 5, static_cast<uint64_t>(source.capacity_bytes())));
  EXPECT_OK(CheckPattern(NodeOf(source), 5, static_cast<uint64_t>(source.capacity_bytes())));
  DeleteKilled(copy);
  DeleteKilled(source);
}

TEST_F(CrashTest, ASnapshotIsWholeOrAbsentAfterAKillAtEveryStep) {
  const v1::Volume source = MustCreate({"source", TypeParameters("linear"), BlockCapability(), 16 * kMi});
  const auto length = static_cast<uint64_t>(source.capacity_bytes());
  ASSERT_OK(WritePattern(NodeOf(source), 6, length));
  Acknowledge(source);
  const v1::Snapshot snapshot = SnapshotKilled("snap", source, {});
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(NodeOf(source), 7, length));
  VolumeSpec spec{"restored", TypeParameters("raid1"), BlockCapability(), source.capacity_bytes()};
  spec.snapshot = snapshot.snapshot_id();
  const v1::Volume restored = CreateKilled(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(NodeOf(restored), 6, length));
  EXPECT_OK(CheckPattern(NodeOf(source), 7, length));
  DeleteSnapshotKilled(snapshot);
  DeleteKilled(restored);
  DeleteKilled(source);
}

TEST_F(CrashTest, AVolumeInUseIsUnharmedByAKillAtEveryStepOfItsSnapshot) {
  const v1::VolumeCapability how = BlockCapability();
  const std::string staging = StagingPath("used");
  const std::string target = TargetPath("used");
  const v1::Volume source = MustCreate({"used", TypeParameters("raid1"), how, 16 * kMi});
  const auto length = static_cast<uint64_t>(source.capacity_bytes());
  Acknowledge(source);
  ASSERT_OK(client().Stage(source, staging, how));
  ASSERT_OK(client().Publish(source, staging, target, how));
  ASSERT_OK(WritePattern(target, 8, length));
  const v1::Snapshot snapshot = SnapshotKilled("live", source, {{"inuse", "cow"}, {"type", "linear"}});
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(target, 8, length));
  ASSERT_OK(WritePattern(target, 9, length));
  VolumeSpec spec{"restored", TypeParameters("linear"), how, source.capacity_bytes()};
  spec.snapshot = snapshot.snapshot_id();
  const v1::Volume restored = MustCreate(spec);
  ASSERT_FALSE(HasFailure());
  Acknowledge(restored);
  EXPECT_OK(CheckPattern(NodeOf(restored), 8, length));
  EXPECT_OK(CheckPattern(target, 9, length));
  DeleteSnapshotKilled(snapshot);
  ASSERT_OK(client().Unpublish(source.volume_id(), target));
  ASSERT_OK(client().Unstage(source.volume_id(), staging));
  DeleteKilled(restored);
  DeleteKilled(source);
}

// Volumes, snapshots and groups in a thin store.
class ThinCrashTest : public CrashTest {
 protected:
  ThinCrashTest() { pools_ = {WithStore(static_cast<int>(size_))}; }

  static std::string WithStore(int mebibytes) {
    return std::string(kPool) + "=" + kGroup + ",store.fast=" + std::to_string(mebibytes) +
           "MiB type=raid1 chunk=64KiB";
  }
  void TearDown() override {
    if (!HasFailure()) {
      EXPECT_TRUE(Eventually([this] { return Left() == size_ * kMi; }, 120)) << Left();
    }
    RemoveStore();  // last
    CrashTest::TearDown();
  }

  int64_t Left() {
    const auto capacity = client().Capacity(TypeParameters("thin"));
    return capacity.ok() ? capacity.value.available_capacity() : -1;
  }
  v1::Volume MakeThin(const std::string& name, const v1::VolumeCapability& how) {
    const v1::Volume volume = MustCreate({name, TypeParameters("thin"), how, 16 * kMi});
    Acknowledge(volume);
    Use(volume, how, name);
    return volume;
  }
  void Use(const v1::Volume& volume, const v1::VolumeCapability& how, const std::string& name) {
    ASSERT_OK(client().Stage(volume, StagingPath(name), how));
    ASSERT_OK(client().Publish(volume, StagingPath(name), TargetPath(name), how));
  }
  void Unuse(const v1::Volume& volume, const std::string& name) {
    ASSERT_OK(client().Unpublish(volume.volume_id(), TargetPath(name)));
    ASSERT_OK(client().Unstage(volume.volume_id(), StagingPath(name)));
  }
  // A thin volume of a snapshot, or of a volume.
  v1::Volume CopyKilled(const std::string& name, const v1::VolumeCapability& how, const std::string& snapshot,
                        const std::string& source) {
    VolumeSpec spec{name, TypeParameters("thin"), how, 16 * kMi};
    spec.snapshot = snapshot;
    spec.source = source;
    return CreateKilled(spec);
  }

  // Of the store, in MiB. What killed calls left counts until it is erased.
  int64_t size_ = 256;
};

TEST_F(ThinCrashTest, AThinSnapshotIsWholeOrAbsentAfterAKillAtEveryStep) {
  const v1::VolumeCapability how = BlockCapability();
  const v1::Volume source = MakeThin("source", how);
  const std::string target = TargetPath("source");
  const auto length = static_cast<uint64_t>(source.capacity_bytes());
  ASSERT_OK(WritePattern(target, 6, length));
  const v1::Snapshot snapshot = SnapshotKilled("snap", source, {});
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(target, 6, length));
  ASSERT_OK(WritePattern(target, 7, length / 2));
  const v1::Volume restored = CopyKilled("restored", how, snapshot.snapshot_id(), "");
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(restored, how, "restored"));
  EXPECT_OK(CheckPattern(TargetPath("restored"), 6, length));
  EXPECT_OK(CheckPattern(target, 7, length / 2));
  // The volume goes before its snapshot, and shares bytes with it.
  ASSERT_NO_FATAL_FAILURE(Unuse(source, "source"));
  DeleteKilled(source);
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(TargetPath("restored"), 6, length));
  DeleteSnapshotKilled(snapshot);
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(TargetPath("restored"), 6, length));
  ASSERT_NO_FATAL_FAILURE(Unuse(restored, "restored"));
  DeleteKilled(restored);
}

// A file system in use: its copy gets a UUID of its own before any caller sees it.
TEST_F(ThinCrashTest, ACloneOfAFileSystemIsWholeOrAbsentAfterAKillAtEveryStep) {
  const v1::VolumeCapability how = MountCapability("ext4");
  const v1::Volume source = MakeThin("source", how);
  ASSERT_OK(WritePattern(TargetPath("source") + "/data", 8, kDataLength));
  const v1::Volume clone = CopyKilled("clone", how, "", source.volume_id());
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(WritePattern(TargetPath("source") + "/data", 9, kDataLength));
  ASSERT_NO_FATAL_FAILURE(Use(clone, how, "clone"));
  EXPECT_OK(CheckPattern(TargetPath("clone") + "/data", 8, kDataLength));
  EXPECT_NE(Sh("findmnt -n -o UUID " + TargetPath("source")).out,
            Sh("findmnt -n -o UUID " + TargetPath("clone")).out);
  ASSERT_NO_FATAL_FAILURE(Unuse(source, "source"));
  DeleteKilled(source);
  EXPECT_OK(CheckPattern(TargetPath("clone") + "/data", 8, kDataLength));
  ASSERT_NO_FATAL_FAILURE(Unuse(clone, "clone"));
  DeleteKilled(clone);
}

TEST_F(ThinCrashTest, AGroupSnapshotIsWholeOrAbsentAfterAKillAtEveryStep) {
  const v1::VolumeCapability how = BlockCapability();
  std::vector<v1::Volume> volumes;
  std::vector<std::string> ids;
  for (const char* const name : {"one", "two"}) {
    volumes.push_back(MakeThin(name, how));
    ASSERT_FALSE(HasFailure());
    ASSERT_OK(WritePattern(TargetPath(name), 5, kDataLength));
    ids.push_back(volumes.back().volume_id());
  }
  most_new_ = ids.size();
  v1::VolumeGroupSnapshot group;
  UntilAnswered("CreateVolumeGroupSnapshot", [&] {
    auto reply = client().SnapshotGroup("group", ids);
    // After each kill either all members are there, or none.
    const auto there = client().Snapshots();
    EXPECT_TRUE(!there.ok() || there.value.entries_size() == 0 ||
                there.value.entries_size() == static_cast<int>(ids.size()))
        << there.value.ShortDebugString();
    group = reply.value.group_snapshot();
    return reply.status;
  });
  ASSERT_FALSE(HasFailure());
  ASSERT_EQ(group.snapshots_size(), 2);
  for (const v1::Snapshot& member : group.snapshots()) {
    AcknowledgeSnapshot(member.snapshot_id());
  }
  EXPECT_EQ(client().GetGroup(group.group_snapshot_id()).value.group_snapshot().SerializeAsString(),
            group.SerializeAsString());
  ASSERT_OK(WritePattern(TargetPath("one"), 4, kDataLength));
  const v1::Volume restored = CopyKilled("restored", how, group.snapshots(0).snapshot_id(), "");
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(restored, how, "restored"));
  EXPECT_OK(CheckPattern(TargetPath("restored"), 5, kDataLength));
  for (const v1::Snapshot& member : group.snapshots()) {
    ForgetSnapshot(member.snapshot_id());  // the first attempt may already delete it
  }
  UntilAnswered("DeleteVolumeGroupSnapshot",
                [&] { return client().DeleteGroup(group.group_snapshot_id()).status; });
  for (const v1::Snapshot& member : group.snapshots()) {
    UntilGone(LvNameIn(member.snapshot_id()));
  }
  EXPECT_OK(CheckPattern(TargetPath("restored"), 5, kDataLength));
  EXPECT_OK(CheckPattern(TargetPath("two"), 5, kDataLength));
  Unuse(restored, "restored");
  Unuse(volumes[0], "one");
  Unuse(volumes[1], "two");
  for (const v1::Volume& volume : {restored, volumes[0]}) {
    DeleteKilled(volume);
  }
  EXPECT_OK(client().Delete(ids[1]));
}

// The start makes and grows a store. It begins again after each kill.
class StoreCrashTest : public ThinCrashTest {
 protected:
  StoreCrashTest() { pools_ = {std::string(kPool) + "=" + kGroup}; }

  // Starts quarryd again and again until no step of the start is left to be killed at. `promised`: bytes of
  // volumes in the store.
  void StartKilled(int mebibytes, int64_t promised) {
    pools_ = {WithStore(mebibytes)};
    size_ = mebibytes;
    quarryd().Kill();
    Arm();
    ASSERT_NO_FATAL_FAILURE(Boot());
    Record();
    Disarm();
    EXPECT_EQ(Left(), size_ * kMi - promised) << quarryd().Log();
    ASSERT_NO_FATAL_FAILURE(CheckWorld());
    EXPECT_EQ(Words(StorePool()).size(), 1U) << StorePool();
  }
};

TEST_F(StoreCrashTest, AStoreIsMadeAndGrownByTheStartAfterAKillAtEveryStep) {
  ASSERT_NO_FATAL_FAILURE(StartKilled(64, 0));
  const std::string made = StorePool();
  const v1::VolumeCapability how = BlockCapability();
  const v1::Volume volume = MakeThin("volume", how);
  ASSERT_FALSE(HasFailure());
  const auto length = static_cast<uint64_t>(volume.capacity_bytes());
  ASSERT_OK(WritePattern(TargetPath("volume"), 3, length));
  ASSERT_NO_FATAL_FAILURE(StartKilled(128, volume.capacity_bytes()));
  EXPECT_EQ(StorePool(), made);
  EXPECT_OK(CheckPattern(TargetPath("volume"), 3, length));
  ASSERT_NO_FATAL_FAILURE(Unuse(volume, "volume"));
  DeleteKilled(volume);
}

}  // namespace
}  // namespace quarry::vm
