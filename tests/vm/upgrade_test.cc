// From one build to the next and back. This build serves and finishes what an earlier build left in the
// middle of its work. An earlier build, over what this one left, serves what it knows and removes nothing.
// QUARRY_OLD_BUILD is the folder with the earlier build's programs. The tests of StoreUpgradeTest need an
// earlier build that knows snapshots in thin stores (upgrade_from_stores), all others one that knows neither
// (upgrade_from).
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/process_trace.h"
#include "tests/vm/kit/writer.h"
#include "tests/vm/thin_store_tools.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kOrder[] = "/run/quarry-test/crash-order";
constexpr char kEraseSlowly[] = "--erase-rate=1MiB";
constexpr uint64_t kDataLength = 4 << 20;

// A part of a disk.
struct Piece {
  std::string device;
  uint64_t offset, length;  // bytes
};

// A volume, how it is used, and the pattern that is on it.
struct Held {
  VolumeSpec spec;
  v1::Volume volume;
  uint64_t seed = 0;
  uint64_t more = 0;    // bytes of another pattern, in the space that the volume has grown by
  bool created = true;  // false: adopted. CreateVolume does not know it, and its LV keeps its own name

  const std::string& id() const { return volume.volume_id(); }
  bool raw() const { return spec.capability.has_block(); }
};

// Builds up to 7f39de3 made ids without the node's hash.
bool IsOldId(const std::string& id) {
  return std::ranges::count(id, '.') == 1;
}

class UpgradeTest : public VmTest {
 protected:
  bool StartsQuarryd() const override { return false; }

  void SetUp() override {
    const char* folder = std::getenv("QUARRY_OLD_BUILD");
    ASSERT_NE(folder, nullptr) << "run this by tests/vm/upgrade";
    old_ = folder;
    VmTest::SetUp();
    fs::remove(kOrder);
  }

  // Chooses the build that serves from now on.
  void ServeOld(const std::vector<std::string>& arguments = {}) {
    StartQuarryd({.program = old_ + "/quarryd", .pools = old_pools_, .arguments = arguments});
  }
  // The old build, which dies where DieAtStep says.
  void ServeOldToDie() {
    fs::remove(kOrder);
    StartQuarryd({.program = old_ + "/quarryd_crash", .variables = {{"QUARRY_CRASH_ORDER", kOrder}}});
  }
  void ServeNew(const std::vector<std::string>& arguments = {}) {
    StartQuarryd({.program = "quarryd", .pools = pools_, .arguments = arguments});
  }
  void StopServing() { ASSERT_EQ(quarryd().Stop(), 0); }

  // Steps count from now on, from one. The process dies `amid_ms` after the step has started a program, or at
  // the step's end if that comes first.
  static void DieAtStep(int step, int amid_ms) {
    std::ofstream(kOrder) << "steps " << step << " amid-ms " << amid_ms << '\n';
  }
  bool Died() {
    return Eventually([this] { return !quarryd().Running(); }, 30);
  }

  // Kills like a service manager. Otherwise the old build's pvmove would go on by itself.
  void KillWithAllThatItRuns() {
    std::vector<pid_t> all = {quarryd().pid()};
    for (size_t i = 0; i < all.size(); ++i) {
      for (const pid_t child : WithChildren(all[i])) {
        if (child != all[i]) {
          all.push_back(child);
        }
      }
    }
    for (const pid_t process : all) {
      ::kill(process, SIGKILL);
    }
    quarryd().Kill();
    EXPECT_GE(all.size(), 3U) << "quarryd, the zygote and what it runs";
    EXPECT_TRUE(Eventually(
        [&] { return std::ranges::none_of(all, [](pid_t process) { return ::kill(process, 0) == 0; }); }));
  }

  Outcome OldCtl(std::vector<std::string> words) const {
    words.insert(words.begin(), old_ + "/quarryctl");
    words.insert(words.end(), {"--endpoint", std::string("unix://") + kSocket});
    return Tool(words);
  }

  // Volumes.

  Held Make(const std::string& name, const std::string& type, const v1::VolumeCapability& how, int64_t size) {
    Held held{.spec = {name, TypeParameters(type), how, size}, .seed = ++seeds_};
    held.volume = MustCreate(held.spec);
    return held;
  }
  static std::string Target(const Held& held) { return TargetPath(held.spec.name); }
  static std::string Data(const Held& held) { return held.raw() ? Target(held) : Target(held) + "/data"; }

  // The calls of an orchestrator for a pod. It repeats them after the plugin was replaced.
  void Publish(const Held& held) {
    SCOPED_TRACE(held.spec.name);
    const std::string staging = StagingPath(held.spec.name);
    ASSERT_OK(client().Stage(held.volume, staging, held.spec.capability));
    ASSERT_OK(client().Publish(held.volume, staging, Target(held), held.spec.capability));
  }
  void Unpublish(const Held& held) {
    SCOPED_TRACE(held.spec.name);
    ASSERT_OK(client().Unpublish(held.id(), Target(held)));
    EXPECT_FALSE(IsMounted(Target(held)));
    ASSERT_OK(client().Unstage(held.id(), StagingPath(held.spec.name)));
    EXPECT_FALSE(IsMounted(StagingPath(held.spec.name)));
  }
  void Use(const Held& held) {
    ASSERT_NO_FATAL_FAILURE(Publish(held));
    ASSERT_OK(WritePattern(Data(held), held.seed, kDataLength));
  }
  static void CheckData(const Held& held) {
    SCOPED_TRACE(held.spec.name);
    EXPECT_OK(CheckPattern(Data(held), held.seed, kDataLength));
    if (held.more > 0) {
      EXPECT_OK(CheckPattern(More(held), held.seed + kMoreSeed, held.more, MoreBegin(held)));
    }
  }
  // The serving build knows the volume, it is still in use, and it can be used again.
  void Serve(const Held& held) {
    SCOPED_TRACE(held.spec.name);
    CheckData(held);
    if (held.created) {
      EXPECT_EQ(MustCreate(held.spec).volume_id(), held.id()) << "the same, asked for again";
    }
    ASSERT_NO_FATAL_FAILURE(Publish(held));
    CheckData(held);
    ASSERT_NO_FATAL_FAILURE(Unpublish(held));
    ASSERT_NO_FATAL_FAILURE(Publish(held));
    CheckData(held);
  }
  // Grows a published volume, once. Writes to the new bytes.
  void Grow(Held& held) {
    SCOPED_TRACE(held.spec.name);
    const int64_t size = held.volume.capacity_bytes() + 64 * kMi;
    const auto before = client().Stats(held.id(), Target(held));
    ASSERT_OK(before);
    const auto grown = client().Expand(held.id(), size);
    ASSERT_OK(grown);
    EXPECT_EQ(grown.value.capacity_bytes(), size);
    ASSERT_OK(client().NodeExpand(held.id(), Target(held), StagingPath(held.spec.name), size));
    const auto after = client().Stats(held.id(), Target(held));
    ASSERT_OK(after);
    EXPECT_GT(after.value.usage(0).total(), before.value.usage(0).total());
    held.volume.set_capacity_bytes(size);
    held.more = kDataLength;
    ASSERT_OK(WritePattern(More(held), held.seed + kMoreSeed, held.more, MoreBegin(held)));
    CheckData(held);
  }
  void End(const Held& held) {
    ASSERT_NO_FATAL_FAILURE(Unpublish(held));
    const std::string lv = held.created ? LvOf(held.volume) : held.spec.name;
    const std::vector<Piece> pieces = PiecesOf(lv);
    EXPECT_FALSE(pieces.empty());
    EXPECT_OK(client().Delete(held.id()));
    ExpectErased(lv, pieces);
  }

  // id → size, from the list of the serving build.
  std::map<std::string, int64_t> Listed() {
    const auto listed = client().List();
    EXPECT_OK(listed);
    std::map<std::string, int64_t> sizes;
    for (const v1::Volume& volume : listed.value) {
      sizes[volume.volume_id()] = volume.capacity_bytes();
    }
    return sizes;
  }
  static std::map<std::string, int64_t> Sizes(const std::vector<Held>& volumes) {
    std::map<std::string, int64_t> sizes;
    for (const Held& held : volumes) {
      sizes[held.id()] = held.volume.capacity_bytes();
    }
    return sizes;
  }

  // The second opinion: LVM, the kernel, and the disks' own bytes.

  static bool IsMounted(const std::string& path) { return Tool({"mountpoint", "-q", path}).ok(); }
  static std::map<std::string, Lv> Lvs() { return group().Lvs().value_or(std::map<std::string, Lv>()); }
  // The names of logical volumes, or the devices of physical ones, that carry a tag.
  static std::vector<std::string> LvsTagged(const std::string& tag) {
    return Lines(Tool({"lvs", "--noheadings", "-o", "lv_name", std::string("@") + tag}).out);
  }
  static std::vector<std::string> PvsTagged(const std::string& tag) {
    return Lines(Tool({"pvs", "--noheadings", "-o", "pv_name", std::string("@") + tag}).out);
  }
  // Asks the kernel, which reads no disk for that: "0 819200 mirror 2 253:1 253:2 12/400 …".
  static bool IsCopying() {
    for (const std::string& word : Words(Tool({"dmsetup", "status", "--target", "mirror"}).out)) {
      const size_t slash = word.find('/');
      if (slash != std::string::npos && word.substr(0, slash) != word.substr(slash + 1)) {
        return true;
      }
    }
    return false;
  }
  static bool IsMoving() {
    return Tool({"lvs", "-a", "--noheadings", "-o", "lv_name", kGroup}).out.find("pvmove") !=
           std::string::npos;
  }
  static std::set<std::string> DisksOf(const Held& held) {
    std::set<std::string> disks;
    const auto legs = group().LegDevices(LvOf(held.volume));
    EXPECT_OK(legs);
    for (const auto& leg : legs.value_or(std::vector<std::set<std::string>>())) {
      disks.insert(leg.begin(), leg.end());
    }
    return disks;
  }
  static std::vector<std::vector<std::string>> Rows(std::vector<std::string> argv) {
    argv.insert(argv.end(), {"--noheadings", "--nosuffix", "--units", "b", "-S", "vg_name=vg"});
    const Outcome said = Tool(argv);
    EXPECT_TRUE(said.ok()) << said.err;
    std::vector<std::vector<std::string>> rows;
    for (const std::string& line : Lines(said.out)) {
      rows.push_back(Words(line));
    }
    return rows;
  }
  // The places of a logical volume and its legs.
  static std::vector<Piece> PiecesOf(const std::string& lv) {
    uint64_t extent = 0;
    std::map<std::string, uint64_t> starts;  // the offset of each disk's first extent
    for (const auto& row : Rows({"pvs", "-o", "pv_name,pe_start,vg_extent_size"})) {
      starts[row.at(0)] = std::stoull(row.at(1));
      extent = std::stoull(row.at(2));
    }
    std::vector<Piece> pieces;
    for (auto& row : Rows({"lvs", "-a", "-o", "lv_name,seg_pe_ranges"})) {
      std::erase_if(row.front(), [](char c) { return c == '[' || c == ']'; });
      if (row.front() != lv && !row.front().starts_with(lv + "_")) {
        continue;
      }
      for (const std::string& range : row) {  // "/dev/nvme0n1:3-10"; a RAID volume lists its legs here
        const size_t colon = range.find(':');
        const size_t dash = range.find('-', colon);
        if (!range.starts_with("/dev/") || dash == std::string::npos) {
          continue;
        }
        const std::string disk = range.substr(0, colon);
        const uint64_t first = std::stoull(range.substr(colon + 1, dash - colon - 1));
        const uint64_t last = std::stoull(range.substr(dash + 1));
        pieces.push_back({disk, starts[disk] + first * extent, (last - first + 1) * extent});
      }
    }
    return pieces;
  }
  static void ExpectErased(const std::string& lv, const std::vector<Piece>& pieces) {
    ASSERT_TRUE(Eventually([&] { return !Lvs().contains(lv); }, 120)) << lv;
    for (const Piece& piece : pieces) {
      EXPECT_OK(CheckZero(piece.device, piece.length, piece.offset));
    }
  }
  // The volume's first bytes are zeroed, and its last are not.
  static void ExpectHalfErased(const v1::Volume& volume, const std::vector<Piece>& pieces) {
    EXPECT_THAT(LvsTagged("quarry.erasing"), Contains(LvOf(volume)));
    ASSERT_EQ(pieces.size(), 1U);
    const Piece& piece = pieces.front();
    constexpr uint64_t kBit = 64 << 10;
    EXPECT_OK(CheckZero(piece.device, kBit, piece.offset));
    EXPECT_FALSE(CheckZero(piece.device, kBit, piece.offset + piece.length - kBit).has_value());
  }

  // A raw volume full of a pattern, to be deleted.
  v1::Volume MakeDoomed() {
    v1::Volume doomed = MustCreate({"doomed", TypeParameters("linear"), BlockCapability(), 64 * kMi});
    EXPECT_OK(WritePattern(NodeOf(doomed), 77, static_cast<uint64_t>(doomed.capacity_bytes())));
    return doomed;
  }
  // Deletes the volume and returns its places once erasing has begun. With kEraseSlowly that takes a minute.
  std::vector<Piece> DeleteSlowly(const v1::Volume& doomed) {
    std::vector<Piece> pieces = PiecesOf(LvOf(doomed));
    EXPECT_EQ(pieces.size(), 1U);
    EXPECT_OK(client().Delete(doomed.volume_id()));
    EXPECT_TRUE(Eventually([&] {
      return !pieces.empty() && CheckZero(pieces[0].device, 1 << 20, pieces[0].offset).has_value();
    }));
    return pieces;
  }

  std::string old_;  // folder
  // In the configuration of each build.
  std::vector<std::string> old_pools_ = {std::string(kPool) + "=" + kGroup};
  std::vector<std::string> pools_ = old_pools_;

 private:
  static constexpr uint64_t kMoreSeed = 1000;
  static std::string More(const Held& held) { return held.raw() ? Data(held) : Target(held) + "/more"; }
  // The last bytes of a raw volume.
  static uint64_t MoreBegin(const Held& held) {
    return held.raw() ? static_cast<uint64_t>(held.volume.capacity_bytes()) - held.more : 0;
  }

  uint64_t seeds_ = 0;
};

TEST_F(UpgradeTest, WhatTheOldBuildWasAmidIsFinishedByTheNewOne) {
  ASSERT_NO_FATAL_FAILURE(ServeOld({kEraseSlowly}));
  // Its disk has no space for the next volume, so nothing on the evacuated disk is being erased.
  const v1::Volume doomed = MakeDoomed();
  Held file = Make("file", "linear", MountCapability("ext4"), 400 * kMi);
  Held raw = Make("raw", "raid1", BlockCapability(), 64 * kMi);
  ASSERT_FALSE(HasFailure());
  ASSERT_TRUE(IsOldId(file.id()) && IsOldId(raw.id())) << file.id() << " is not of the old build's making";
  ASSERT_NO_FATAL_FAILURE(Use(file));
  ASSERT_NO_FATAL_FAILURE(Use(raw));

  const std::vector<Piece> doomed_pieces = DeleteSlowly(doomed);
  const std::string leaving = *DisksOf(file).begin();
  const std::string number = [&] {
    int disk = 1;
    while (!DiskNode(disk).empty() && DiskNode(disk) != leaving) {
      ++disk;
    }
    return std::to_string(disk);
  }();
  const Outcome evacuating = OldCtl({"evacuate", leaving, "--no-wait"});
  ASSERT_TRUE(evacuating.ok()) << evacuating.err;
  ASSERT_TRUE(Eventually(IsCopying)) << quarryd().Log();
  // Slows the disk down, so that the copy does not end first. Earlier, it would delay LVM's start of the
  // move.
  ASSERT_TRUE(Tool({"vmctl", "slow", number, "500"}).ok());
  KillWithAllThatItRuns();
  ASSERT_TRUE(Tool({"vmctl", "slow", number, "0"}).ok());
  ASSERT_TRUE(IsMoving()) << "amid a piece";
  ASSERT_THAT(PvsTagged("quarry.leaving"), Contains(leaving));
  ASSERT_NO_FATAL_FAILURE(ExpectHalfErased(doomed, doomed_pieces));
  Writer pod(Target(file), false, std::chrono::milliseconds(250));

  ASSERT_NO_FATAL_FAILURE(ServeNew());
  EXPECT_EQ(Listed(), Sizes({file, raw}));
  CheckData(file);
  CheckData(raw);
  ASSERT_NO_FATAL_FAILURE(ExpectErased(LvOf(doomed), doomed_pieces));
  ASSERT_TRUE(Eventually(
      [&] {
        return Tool({"pvs", "--noheadings", "-o", "pv_name", "-S", std::string("vg_name=") + kGroup})
                   .out.find(leaving) == std::string::npos;
      },
      240))
      << Tool({"lvs", "-a", "-o", "lv_name,devices,copy_percent", kGroup}).out;
  EXPECT_FALSE(IsMoving());
  for (const Held* held : {&file, &raw}) {
    EXPECT_THAT(DisksOf(*held), Not(Contains(leaving))) << held->spec.name;
  }
  EXPECT_OK(pod.StopAndCheck());

  for (Held* held : {&file, &raw}) {
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
    ASSERT_NO_FATAL_FAILURE(Grow(*held));
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
  }
  EXPECT_EQ(Listed(), Sizes({file, raw}));
  for (const Held* held : {&file, &raw}) {
    ASSERT_NO_FATAL_FAILURE(End(*held));
  }
  EXPECT_TRUE(Listed().empty());
  EXPECT_OK(client().Delete(file.id())) << "an old id of what is gone";
  ASSERT_TRUE(
      Sh("wipefs -a -q " + leaving + " && vgextend --metadatasize 64m " + kGroup + " " + leaving).ok());
}

// The old build is killed amid the first step of a create, and at the end of each step. The last of these
// kills leave a volume whose creation was not answered.
TEST_F(UpgradeTest, ACreateThatTheOldBuildDiedInIsMadeOrFoundByTheNewOne) {
  const VolumeSpec spec{"half", TypeParameters("raid1"), MountCapability("ext4"), 32 * kMi};
  constexpr int kAtItsEnd = 600'000;
  constexpr int kMostSteps = 12;
  int undone = 0;
  int found = 0;
  bool answered = false;
  for (int step = 0; step <= kMostSteps && !answered; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_NO_FATAL_FAILURE(ServeOldToDie());
    DieAtStep(std::max(step, 1), step == 0 ? 80 : kAtItsEnd);
    const auto reply = client().Create(spec);
    answered = reply.ok();
    fs::remove(kOrder);
    if (answered) {
      quarryd().Kill();
    }
    ASSERT_TRUE(Died()) << reply.text();

    ASSERT_NO_FATAL_FAILURE(ServeNew());
    const Held held{.spec = spec, .volume = MustCreate(spec), .seed = 60};
    if (!answered) {
      ++(IsOldId(held.id()) ? found : undone);
    }
    EXPECT_EQ(Listed(), Sizes({held}));
    EXPECT_EQ(Lvs().size(), 1U);
    ASSERT_NO_FATAL_FAILURE(Use(held));
    CheckData(held);
    ASSERT_NO_FATAL_FAILURE(End(held));
    ASSERT_NO_FATAL_FAILURE(StopServing());
  }
  EXPECT_TRUE(answered) << "there are more steps than that";
  EXPECT_GE(undone, 2);
  EXPECT_GE(found, 1);
  printf("%d creates were undone and made anew, %d were found\n", undone, found);
}

class DowngradeTest : public UpgradeTest {
 protected:
  static constexpr char kHandle[] = "csi-0123456789abcdef";  // of an inline volume
  static constexpr char kInline[] = "--ephemeral-max-size=64MiB";
  // An administrator's unmanaged volume, and one that is adopted.
  static constexpr char kTheirs[] = "theirs";
  static constexpr char kAdopted[] = "adopted";
  static constexpr char kTheirsNode[] = "/dev/vg/theirs";
  static constexpr uint64_t kTheirSize = 32 << 20;

  void MakeTheirs() {
    ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-L", "32m", "-n", kTheirs, kGroup}).ok());
    ASSERT_OK(WritePattern(kTheirsNode, 90, kTheirSize));
    ASSERT_TRUE(Tool({"lvcreate", "-q", "-y", "-L", "64m", "-n", kAdopted, kGroup}).ok());
    ASSERT_TRUE(Tool({"mkfs.ext4", "-q", std::string("/dev/vg/") + kAdopted}).ok());
  }
  static void CheckTheirs() {
    EXPECT_THAT(Lvs(), Contains(testing::Key(std::string(kTheirs))));
    EXPECT_OK(CheckPattern(kTheirsNode, 90, kTheirSize));
  }

  Held Adopt() {
    const Outcome done = Tool({"quarryctl", "adopt", std::string(kGroup) + "/" + kAdopted, "--name", kAdopted,
                               "--endpoint", kAdminEndpoint});
    EXPECT_TRUE(done.ok()) << done.err;
    Held held{.spec = {kAdopted, {}, MountCapability("ext4")}, .seed = 91, .created = false};
    for (const auto& [id, size] : Listed()) {
      if (id.starts_with("main.f")) {
        held.volume.set_volume_id(id);
        held.volume.set_capacity_bytes(size);
      }
    }
    EXPECT_FALSE(held.id().empty()) << done.out;
    return held;
  }

  void PublishInline() {
    v1::NodePublishVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_target_path(TargetPath(kHandle));
    *request.mutable_volume_capability() = MountCapability("ext4");
    request.mutable_volume_context()->insert(
        {{"csi.storage.k8s.io/ephemeral", "true"}, {"type", "linear"}, {"size", "32MiB"}});
    ASSERT_OK(client().Invoke(client().node(), &v1::Node::Stub::NodePublishVolume, request));
  }
  static std::string InlineLv() {
    const std::vector<std::string> lvs = LvsTagged("quarry.ephemeral=true");
    return lvs.size() == 1 ? lvs.front() : "";
  }

  // A volume as a later build will make it, in a format that neither build knows.
  Held MakeOfLaterFormat() {
    Held held = Make("later", "linear", BlockCapability(), 32 * kMi);
    EXPECT_OK(WritePattern(NodeOf(held.volume), held.seed, kDataLength));
    Retag(held, "quarry.v=1", "quarry.v=2");
    return held;
  }
  static void Retag(const Held& held, const std::string& from, const std::string& to) {
    std::vector<std::string> argv = {"lvchange", "--addtag", to};
    if (!from.empty()) {
      argv.insert(argv.end(), {"--deltag", from});
    }
    argv.push_back(std::string(kGroup) + "/" + LvOf(held.volume));
    const Outcome done = Tool(argv);
    EXPECT_TRUE(done.ok()) << done.err;
  }
  // The volume is reported and not served, and none of its bytes change. `refusal`: the code of calls for it.
  void ExpectLeftAlone(const Held& held, StatusCode refusal) {
    SCOPED_TRACE(held.spec.name);
    EXPECT_THAT(quarryd().Log(), HasSubstr(LvOf(held.volume)));
    EXPECT_THAT(Listed(), Not(Contains(testing::Key(held.id()))));
    EXPECT_TRUE(Fails(client().Stage(held.volume, StagingPath("later"), held.spec.capability), refusal));
    EXPECT_TRUE(Fails(client().Expand(held.id(), 128 * kMi), refusal));
    (void)client().Delete(held.id());  // with any answer
    EXPECT_THAT(LvsTagged("quarry.v=2"), testing::ElementsAre(LvOf(held.volume)));
    EXPECT_OK(CheckPattern(NodeOf(held.volume), held.seed, kDataLength));
  }
};

TEST_F(DowngradeTest, TheOldBuildServesWhatItKnowsAndRemovesNothing) {
  ASSERT_NO_FATAL_FAILURE(MakeTheirs());
  ASSERT_NO_FATAL_FAILURE(ServeOld());
  Held old_file = Make("old_file", "linear", MountCapability("ext4"), 64 * kMi);
  Held old_raw = Make("old_raw", "raid1", BlockCapability(), 64 * kMi);
  ASSERT_NO_FATAL_FAILURE(Use(old_file));
  ASSERT_NO_FATAL_FAILURE(Use(old_raw));
  ASSERT_NO_FATAL_FAILURE(StopServing());

  ASSERT_NO_FATAL_FAILURE(ServeNew({kInline}));
  Held file = Make("file", "linear", MountCapability("ext4"), 64 * kMi);
  Held raw = Make("raw", "raid1", BlockCapability(), 64 * kMi);
  const Held gone = Make("gone", "raid1", MountCapability("ext4"), 64 * kMi);
  const Held later = MakeOfLaterFormat();
  Held adopted = Adopt();
  ASSERT_FALSE(HasFailure());
  ASSERT_FALSE(IsOldId(file.id()) || IsOldId(raw.id()) || IsOldId(gone.id()));
  for (const Held& held : {file, raw, gone, adopted}) {
    ASSERT_NO_FATAL_FAILURE(Use(held));
  }
  // A tag that a later build may add within the format.
  Retag(file, "", "quarry.later=1");
  ASSERT_NO_FATAL_FAILURE(PublishInline());
  ASSERT_OK(WritePattern(TargetPath(kHandle) + "/data", 92, kDataLength));
  const std::string inline_lv = InlineLv();
  ASSERT_FALSE(inline_lv.empty());
  const v1::Volume doomed = MakeDoomed();
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_NO_FATAL_FAILURE(ServeNew({kInline, kEraseSlowly}));
  const std::vector<Piece> doomed_pieces = DeleteSlowly(doomed);
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_NO_FATAL_FAILURE(ExpectHalfErased(doomed, doomed_pieces));
  std::vector<Held> all = {old_file, old_raw, file, raw, adopted};

  // Back to the old build.
  ASSERT_NO_FATAL_FAILURE(ServeOld({kInline}));
  EXPECT_THAT(Listed(), testing::IsSupersetOf(Sizes(all)));
  for (Held* held : {&old_file, &old_raw, &file, &raw, &adopted}) {
    EXPECT_EQ(held->created ? MustCreate(held->spec).volume_id() : held->id(), held->id());
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
    ASSERT_NO_FATAL_FAILURE(Grow(*held));
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
  }
  EXPECT_OK(client().List(1));
  Held ended = gone;
  ASSERT_NO_FATAL_FAILURE(Serve(ended));
  ASSERT_NO_FATAL_FAILURE(End(ended));
  ExpectLeftAlone(later, StatusCode::NOT_FOUND);
  ASSERT_NO_FATAL_FAILURE(PublishInline());
  EXPECT_EQ(InlineLv(), inline_lv) << "the same, published again";
  EXPECT_OK(CheckPattern(TargetPath(kHandle) + "/data", 92, kDataLength));
  const std::vector<Piece> inline_pieces = PiecesOf(inline_lv);
  EXPECT_OK(client().Unpublish(kHandle, TargetPath(kHandle)));
  ExpectErased(inline_lv, inline_pieces);
  ExpectErased(LvOf(doomed), doomed_pieces);
  Held between = Make("between", "raid1", MountCapability("ext4"), 64 * kMi);
  EXPECT_TRUE(IsOldId(between.id()));
  ASSERT_NO_FATAL_FAILURE(Use(between));
  all = {old_file, old_raw, file, raw, adopted, between};
  EXPECT_EQ(Listed(), Sizes(all));
  CheckTheirs();
  ASSERT_NO_FATAL_FAILURE(StopServing());

  // And to the new build again, over the volumes that both builds have made and grown.
  ASSERT_NO_FATAL_FAILURE(ServeNew());
  EXPECT_EQ(Listed(), Sizes(all));
  EXPECT_OK(client().List(1));
  ExpectLeftAlone(later, StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Fails(client().Create(later.spec), StatusCode::ALREADY_EXISTS));
  Retag(later, "quarry.v=2", "quarry.v=1");
  EXPECT_EQ(Listed().size(), all.size() + 1);
  EXPECT_THAT(LvsTagged("quarry.later=1"), testing::ElementsAre(LvOf(file.volume)));
  for (Held* held : {&file, &raw, &between}) {
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
    ASSERT_NO_FATAL_FAILURE(Grow(*held));
  }
  for (const Held* held : {&old_file, &old_raw, &adopted, &file, &raw, &between}) {
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
    ASSERT_NO_FATAL_FAILURE(End(*held));
  }
  EXPECT_OK(CheckPattern(NodeOf(later.volume), later.seed, kDataLength));
  EXPECT_OK(client().Delete(later.id()));
  CheckTheirs();
  EXPECT_THAT(Lvs(), Not(Contains(testing::Key(LvOf(file.volume)))));
  ASSERT_TRUE(Tool({"lvremove", "-q", "-y", std::string(kGroup) + "/" + kTheirs}).ok());
}

// An unfinished copy has the tags of a deleted volume, which every build erases. A finished one is a volume
// like any other to a build that knows no copies.
TEST_F(UpgradeTest, ACopyThatTheNewBuildDiedInIsErasedByTheOldOne) {
  constexpr uint64_t kSize = 64 << 20;
  ASSERT_NO_FATAL_FAILURE(ServeNew({"--erase-rate=4MiB"}));
  const Held source = Make("source", "linear", BlockCapability(), kSize);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(NodeOf(source.volume), source.seed, kSize));
  Held copy{.spec = {"copy", TypeParameters("linear"), BlockCapability(), kSize}, .seed = source.seed};
  copy.spec.source = source.id();
  std::string unfinished;
  std::vector<Piece> pieces;
  {
    std::jthread caller([&] {
      CsiClient own(kSocket);
      (void)own.Create(copy.spec);  // ends with the kill
    });
    const auto holds_bytes = [&] {
      const auto tagged = LvsTagged("quarry.erasing");
      unfinished = tagged.empty() ? "" : tagged.front();
      pieces = unfinished.empty() ? std::vector<Piece>() : PiecesOf(unfinished);
      return !pieces.empty() &&
             CheckPattern(pieces[0].device, source.seed, 1 << 20, pieces[0].offset).has_value();
    };
    EXPECT_TRUE(Eventually(holds_bytes)) << "no byte was copied";
    quarryd().Kill();
  }
  ASSERT_FALSE(HasFailure());

  ASSERT_NO_FATAL_FAILURE(ServeOld());
  ASSERT_NO_FATAL_FAILURE(ExpectErased(unfinished, pieces));
  EXPECT_EQ(Listed(), Sizes({source}));
  EXPECT_OK(CheckPattern(NodeOf(source.volume), source.seed, kSize));
  ASSERT_NO_FATAL_FAILURE(StopServing());

  ASSERT_NO_FATAL_FAILURE(ServeNew());
  copy.volume = MustCreate(copy.spec);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_NO_FATAL_FAILURE(ServeOld());
  EXPECT_EQ(Listed(), Sizes({source, copy}));
  ASSERT_NO_FATAL_FAILURE(Publish(copy));
  EXPECT_OK(CheckPattern(Target(copy), copy.seed, kSize));
  ASSERT_NO_FATAL_FAILURE(End(copy));
  ASSERT_NO_FATAL_FAILURE(Publish(source));
  ASSERT_NO_FATAL_FAILURE(End(source));
}

// A build that knows no snapshots must not take one for a volume. But what was deleted it erases.
TEST_F(UpgradeTest, TheOldBuildLeavesSnapshotsAloneAndErasesDeletedOnes) {
  constexpr uint64_t kSize = 64 << 20;
  ASSERT_NO_FATAL_FAILURE(ServeNew());
  const Held source = Make("source", "linear", BlockCapability(), kSize);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(NodeOf(source.volume), source.seed, kSize));
  std::vector<std::string> ids;
  for (const char* name : {"kept", "doomed"}) {
    const auto made = client().Snapshot(name, source.id());
    ASSERT_OK(made);
    ids.push_back(made.value.snapshot().snapshot_id());
  }
  Held restored{.spec = {"restored", TypeParameters("linear"), BlockCapability(), kSize},
                .seed = source.seed};
  restored.spec.snapshot = ids[0];
  restored.volume = MustCreate(restored.spec);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_NO_FATAL_FAILURE(ServeNew({kEraseSlowly}));
  const std::vector<Piece> pieces = PiecesOf(LvNameIn(ids[1]));
  ASSERT_OK(client().DeleteSnapshot(ids[1]));
  ASSERT_NO_FATAL_FAILURE(StopServing());

  ASSERT_NO_FATAL_FAILURE(ServeOld());
  ASSERT_NO_FATAL_FAILURE(ExpectErased(LvNameIn(ids[1]), pieces));
  EXPECT_EQ(Listed(), Sizes({source, restored}));
  (void)client().Delete(ids[0]);  // with any answer
  ASSERT_NO_FATAL_FAILURE(Publish(source));
  ASSERT_NO_FATAL_FAILURE(End(source));
  EXPECT_THAT(LvsTagged("quarry.kind=snapshot"), testing::ElementsAre(LvNameIn(ids[0])));
  ASSERT_NO_FATAL_FAILURE(StopServing());

  ASSERT_NO_FATAL_FAILURE(ServeNew());
  EXPECT_EQ(client().Snapshots(source.id()).value.entries_size(), 1);
  Held again = restored;
  again.spec.name = "again";
  again.volume = MustCreate(again.spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(CheckPattern(NodeOf(again.volume), source.seed, kSize));
  ASSERT_OK(client().DeleteSnapshot(ids[0]));
  for (const Held& held : {restored, again}) {
    ASSERT_NO_FATAL_FAILURE(Publish(held));
    EXPECT_OK(CheckPattern(Target(held), held.seed, kSize));
    ASSERT_NO_FATAL_FAILURE(End(held));
  }
}

// A thin store of raid1, and what is in it.
class WithThinStore : public UpgradeTest {
 protected:
  static constexpr int64_t kStoreSize = 384 * kMi;

  static std::vector<std::string> PoolsWithStore() {
    return {std::string(kPool) + "=" + kGroup + ",store.fast=" + std::to_string(kStoreSize / kMi) +
            "MiB type=raid1 chunk=64KiB"};
  }
  void TearDown() override {
    if (!HasFailure()) {
      EXPECT_TRUE(Eventually([this] { return Left() == kStoreSize; }, 120)) << Left();
    }
    RemoveStore();
    UpgradeTest::TearDown();
  }
  int64_t Left() {
    const auto capacity = client().Capacity(TypeParameters("thin"));
    return capacity.ok() ? capacity.value.available_capacity() : -1;
  }
  // Everything that LVM knows of the store and what is in it, but not what is active.
  static std::string TextOf(const std::string& pool) {
    return Tool({"lvs", "-a", "--noheadings", "--units", "b", "--sort", "lv_name", "-o",
                 "lv_name,lv_uuid,lv_size,lv_tags,pool_lv,origin,thin_id,seg_pe_ranges", "-S",
                 "lv_name=~^.?" + pool + " || pool_lv=" + pool, kGroup})
        .out;
  }
  v1::Snapshot MustSnap(const std::string& name, const Held& held) {
    const auto made = client().Snapshot(name, held.id());
    EXPECT_OK(made);
    return made.value.snapshot();
  }
  // id → the whole answer, of all snapshots.
  std::map<std::string, std::string> Snapshots() {
    const auto listed = client().Snapshots();
    EXPECT_OK(listed);
    std::map<std::string, std::string> out;
    for (const auto& entry : listed.value.entries()) {
      EXPECT_TRUE(entry.snapshot().ready_to_use());
      out[entry.snapshot().snapshot_id()] = entry.snapshot().ShortDebugString();
    }
    return out;
  }
  // Makes a volume of a snapshot, compares its bytes with those of `held` at the cut, and deletes it.
  void CheckSnapshot(const v1::Snapshot& snapshot, const Held& held, const std::string& type = "thin") {
    SCOPED_TRACE(held.spec.name);
    Held restored{.spec = {"restored", TypeParameters(type), held.spec.capability, held.spec.size},
                  .seed = held.seed};
    restored.spec.snapshot = snapshot.snapshot_id();
    restored.volume = MustCreate(restored.spec);
    ASSERT_FALSE(HasFailure());
    ASSERT_NO_FATAL_FAILURE(Publish(restored));
    CheckData(restored);
    ASSERT_NO_FATAL_FAILURE(Unpublish(restored));
    EXPECT_OK(client().Delete(restored.id()));
  }
  // Other bytes than those that a snapshot has.
  static void WriteAnew(Held& held) {
    held.seed += 500;
    ASSERT_OK(WritePattern(Data(held), held.seed, kDataLength));
  }
  void EndThin(const Held& held) {
    ASSERT_NO_FATAL_FAILURE(Unpublish(held));
    EXPECT_OK(client().Delete(held.id()));
    EXPECT_TRUE(Eventually([&] { return !Lvs().contains(LvOf(held.volume)); }, 120)) << held.spec.name;
  }
  // A raw volume in the store, full of a pattern, whose erasure has begun and takes a minute.
  v1::Volume DeleteThinSlowly() {
    const v1::Volume doomed = MustCreate({"doomed", TypeParameters("thin"), BlockCapability(), 32 * kMi});
    EXPECT_OK(client().Stage(doomed, StagingPath("doomed"), BlockCapability()));
    EXPECT_OK(WritePattern(NodeOf(doomed), 78, static_cast<uint64_t>(doomed.capacity_bytes())));
    EXPECT_OK(client().Unstage(doomed.volume_id(), StagingPath("doomed")));
    EXPECT_OK(client().Delete(doomed.volume_id()));
    EXPECT_THAT(LvsTagged("quarry.erasing"), Contains(LvOf(doomed)));
    return doomed;
  }
};

// What thin stores are, the old build does not know: neither the store nor anything in it is its own to use,
// to count as free, or to remove.
class FirstStoreTest : public WithThinStore {};

TEST_F(FirstStoreTest, AStoreOutlivesABuildThatKnowsNone) {
  ASSERT_NO_FATAL_FAILURE(ServeOld());
  Held file = Make("file", "linear", MountCapability("ext4"), 64 * kMi);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(file));
  ASSERT_NO_FATAL_FAILURE(StopServing());

  pools_ = PoolsWithStore();
  ASSERT_NO_FATAL_FAILURE(ServeNew());
  const std::string pool = StorePool();
  ASSERT_FALSE(pool.empty()) << quarryd().Log();
  Held raw = Make("raw", "thin", BlockCapability(), 32 * kMi);
  Held mounted = Make("mounted", "thin", MountCapability("ext4"), 32 * kMi);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(raw));
  ASSERT_NO_FATAL_FAILURE(Use(mounted));
  const Held raw_then = raw;
  const Held mounted_then = mounted;
  const v1::Snapshot of_raw = MustSnap("of raw", raw);
  const v1::Snapshot of_mounted = MustSnap("of mounted", mounted);
  const auto group = client().SnapshotGroup("both", {raw.id(), mounted.id()});
  ASSERT_OK(group);
  Held clone{.spec = {"clone", TypeParameters("thin"), BlockCapability(), 32 * kMi}, .seed = raw.seed};
  clone.spec.source = raw.id();
  clone.volume = MustCreate(clone.spec);
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(WriteAnew(raw));
  ASSERT_NO_FATAL_FAILURE(WriteAnew(mounted));
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_NO_FATAL_FAILURE(ServeNew({kEraseSlowly}));
  const v1::Volume doomed = DeleteThinSlowly();
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_THAT(LvsTagged("quarry.erasing"), Contains(LvOf(doomed)));
  const std::string text = TextOf(pool);
  const int64_t free = VmTest::group().FreeExtents().value_or(-1) * 4 * kMi;

  ASSERT_NO_FATAL_FAILURE(ServeOld());
  EXPECT_EQ(Listed(), Sizes({file}));
  const auto left = client().Capacity(TypeParameters("linear"));
  ASSERT_OK(left);
  EXPECT_LE(left.value.available_capacity(), free);
  ASSERT_NO_FATAL_FAILURE(Serve(file));
  ASSERT_NO_FATAL_FAILURE(Grow(file));
  // All that it calls free, and not one extent of the store.
  const auto most = client().Capacity(TypeParameters("linear"));
  ASSERT_OK(most);
  Held all = Make("all", "linear", BlockCapability(), most.value.available_capacity());
  ASSERT_FALSE(HasFailure());
  EXPECT_OK(WritePattern(NodeOf(all.volume), all.seed, static_cast<uint64_t>(all.volume.capacity_bytes())));
  EXPECT_TRUE(Fails(client().Create({"more", TypeParameters("linear"), BlockCapability(), 4 * kMi}),
                    StatusCode::RESOURCE_EXHAUSTED));
  for (const std::string& id : {raw.id(), clone.id(), of_raw.snapshot_id(), of_mounted.snapshot_id()}) {
    (void)client().Delete(id);  // with any answer
  }
  EXPECT_FALSE(client().Stage(clone.volume, StagingPath("clone"), BlockCapability()).ok());
  EXPECT_EQ(TextOf(pool), text);
  CheckData(raw);
  CheckData(mounted);
  EXPECT_OK(client().Delete(all.id()));
  EXPECT_TRUE(Eventually([&] { return !Lvs().contains(LvOf(all.volume)); }, 120));
  EXPECT_EQ(TextOf(pool), text);
  ASSERT_NO_FATAL_FAILURE(StopServing());

  ASSERT_NO_FATAL_FAILURE(ServeNew());
  EXPECT_EQ(Listed(), Sizes({file, raw, mounted, clone}));
  EXPECT_EQ(Snapshots().size(), 4U);
  EXPECT_EQ(client().GetGroup(group.value.group_snapshot().group_snapshot_id()).value.SerializeAsString(),
            group.value.SerializeAsString());
  EXPECT_TRUE(Eventually([&] { return !Lvs().contains(LvOf(doomed)); }, 120)) << quarryd().Log();
  ASSERT_NO_FATAL_FAILURE(CheckSnapshot(of_raw, raw_then));
  ASSERT_NO_FATAL_FAILURE(CheckSnapshot(of_mounted, mounted_then));
  for (const v1::Snapshot& member : group.value.group_snapshot().snapshots()) {
    ASSERT_NO_FATAL_FAILURE(
        CheckSnapshot(member, member.source_volume_id() == raw.id() ? raw_then : mounted_then));
  }
  ASSERT_NO_FATAL_FAILURE(Publish(clone));
  CheckData(clone);
  ASSERT_NO_FATAL_FAILURE(Serve(raw));
  ASSERT_NO_FATAL_FAILURE(Serve(mounted));
  EXPECT_OK(client().DeleteGroup(group.value.group_snapshot().group_snapshot_id()));
  EXPECT_OK(client().DeleteSnapshot(of_raw.snapshot_id()));
  EXPECT_OK(client().DeleteSnapshot(of_mounted.snapshot_id()));
  for (const Held* held : {&raw, &mounted, &clone}) {
    ASSERT_NO_FATAL_FAILURE(EndThin(*held));
  }
  ASSERT_NO_FATAL_FAILURE(End(file));
}

// Both builds know stores, snapshots and groups.
class StoreUpgradeTest : public WithThinStore {
 protected:
  void SetUp() override {
    WithThinStore::SetUp();
    old_pools_ = PoolsWithStore();
    pools_ = old_pools_;
  }
};

TEST_F(StoreUpgradeTest, WhatIsInAStoreIsServedAndFinishedByTheOtherBuild) {
  ASSERT_NO_FATAL_FAILURE(ServeOld());
  const std::string pool = StorePool();
  ASSERT_FALSE(pool.empty()) << quarryd().Log();
  Held raw = Make("raw", "thin", BlockCapability(), 32 * kMi);
  Held mounted = Make("mounted", "thin", MountCapability("ext4"), 32 * kMi);
  Held thick = Make("thick", "linear", BlockCapability(), 32 * kMi);
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(NodeOf(thick.volume), thick.seed, kDataLength));
  const v1::Snapshot of_thick = MustSnap("of thick", thick);
  for (const Held* held : {&raw, &mounted, &thick}) {
    ASSERT_NO_FATAL_FAILURE(Use(*held));
  }
  const Held raw_then = raw;
  const Held mounted_then = mounted;
  const v1::Snapshot of_raw = MustSnap("of raw", raw);
  const auto group = client().SnapshotGroup("both", {raw.id(), mounted.id()});
  ASSERT_OK(group);
  ASSERT_NO_FATAL_FAILURE(WriteAnew(raw));
  ASSERT_NO_FATAL_FAILURE(WriteAnew(mounted));
  const auto snapshots = Snapshots();
  EXPECT_EQ(snapshots.size(), 4U);
  ASSERT_NO_FATAL_FAILURE(StopServing());
  ASSERT_NO_FATAL_FAILURE(ServeOld({kEraseSlowly}));
  const v1::Volume doomed = DeleteThinSlowly();
  KillWithAllThatItRuns();
  ASSERT_FALSE(HasFailure());
  ASSERT_THAT(LvsTagged("quarry.erasing"), Contains(LvOf(doomed)));

  ASSERT_NO_FATAL_FAILURE(ServeNew());
  EXPECT_EQ(StorePool(), pool);
  EXPECT_EQ(Listed(), Sizes({raw, mounted, thick}));
  EXPECT_EQ(Snapshots(), snapshots);
  EXPECT_EQ(client().GetGroup(group.value.group_snapshot().group_snapshot_id()).value.SerializeAsString(),
            group.value.SerializeAsString());
  EXPECT_TRUE(Eventually([&] { return !Lvs().contains(LvOf(doomed)); }, 120)) << quarryd().Log();
  for (Held* held : {&raw, &mounted, &thick}) {
    ASSERT_NO_FATAL_FAILURE(Serve(*held));
  }
  ASSERT_NO_FATAL_FAILURE(Grow(raw));
  ASSERT_NO_FATAL_FAILURE(CheckSnapshot(of_raw, raw_then));
  ASSERT_NO_FATAL_FAILURE(CheckSnapshot(of_thick, thick, "linear"));
  for (const v1::Snapshot& member : group.value.group_snapshot().snapshots()) {
    ASSERT_NO_FATAL_FAILURE(
        CheckSnapshot(member, member.source_volume_id() == raw.id() ? raw_then : mounted_then));
  }
  EXPECT_OK(client().DeleteSnapshot(of_raw.snapshot_id()));
  const Held mounted_now = mounted;
  const v1::Snapshot of_new = MustSnap("of new", mounted);
  ASSERT_NO_FATAL_FAILURE(WriteAnew(mounted));
  Held clone{.spec = {"clone", TypeParameters("thin"), MountCapability("ext4"), 32 * kMi},
             .seed = mounted.seed};
  clone.spec.source = mounted.id();
  clone.volume = MustCreate(clone.spec);
  ASSERT_FALSE(HasFailure());
  const auto later = Snapshots();
  ASSERT_NO_FATAL_FAILURE(StopServing());

  // Back: the old build serves what the new one has made in the store.
  ASSERT_NO_FATAL_FAILURE(ServeOld());
  EXPECT_EQ(Listed(), Sizes({raw, mounted, thick, clone}));
  EXPECT_EQ(Snapshots(), later);
  ASSERT_NO_FATAL_FAILURE(Serve(raw));
  ASSERT_NO_FATAL_FAILURE(CheckSnapshot(of_new, mounted_now));
  ASSERT_NO_FATAL_FAILURE(Publish(clone));
  CheckData(clone);
  EXPECT_OK(client().DeleteGroup(group.value.group_snapshot().group_snapshot_id()));
  ASSERT_NO_FATAL_FAILURE(StopServing());

  ASSERT_NO_FATAL_FAILURE(ServeNew());
  EXPECT_EQ(Snapshots().size(), 2U);
  ASSERT_NO_FATAL_FAILURE(CheckSnapshot(of_new, mounted_now));
  for (const v1::Snapshot& snapshot : {of_thick, of_new}) {
    EXPECT_OK(client().DeleteSnapshot(snapshot.snapshot_id()));
  }
  for (const Held* held : {&raw, &mounted, &clone}) {
    ASSERT_NO_FATAL_FAILURE(EndThin(*held));
  }
  ASSERT_NO_FATAL_FAILURE(End(thick));
}

}  // namespace
}  // namespace quarry::vm
