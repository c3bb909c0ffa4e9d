// The power is cut before each request to device-mapper that quarryd or one of its LVM commands makes for a
// call, and the drives lose some of what was not flushed. After each cut all of it is there
// or nothing, with the bytes of its instant, and the call is completed by repeating it. The script
// thin_power_steps runs these parts in turn: Begin once, then Work, a cut, Settle, Work, and so on. Notes are
// kept on the guest's root disk. Needs four disks.
//
// QUARRY_POWER_WHAT: in a thin store "group", "clone", "grow" or "repair"; "copy": the snapshot of a thick
// volume in use. QUARRY_POWER_STEP: the number of the request, from 0.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "tests/vm/store_damage.h"
#include "tests/vm/watched_requests.h"

namespace quarry::vm {
namespace {

constexpr char kNotes[] = "/root/power-steps-notes";
constexpr char kDone[] = "/root/power-steps-done";
constexpr char kHalted[] = "/run/power-steps-halted";
constexpr uint64_t kLength = 4 << 20;
constexpr int64_t kStoreSize = 80 * kMi;
constexpr int64_t kMostSize = 380 * kMi;
constexpr int64_t kExtent = 4 * kMi;
constexpr int kMostSteps = 400;  // more means that the calls make no progress

int Step() {
  return std::atoi(std::getenv("QUARRY_POWER_STEP"));
}
std::string What() {
  return std::getenv("QUARRY_POWER_WHAT");
}
std::string Type() {
  return What() == "copy" ? "linear" : "thin";
}

// What the notes say.
struct Known {
  std::map<std::string, v1::Volume> volumes;            // "one" and "two", in use at each cut
  int seed = 0;                                         // of their bytes when the call began
  enum { kAsThen, kChanging, kChanged } now = kAsThen;  // whether they were overwritten since
  int64_t asked = 0;                                    // size that "one" was to grow to; 0: none yet
  std::string last;  // "making", "made" (acknowledged), "ending", or "ended" (acknowledged)
};

class ThinPowerSteps : public testing::Test {
 protected:
  void Start() {
    QuarrydOptions options;
    options.pools = {std::string("main=") + kGroup + ",store.fast=" + std::to_string(kStoreSize / kMi) +
                     "MiB type=raid1 chunk=64KiB max=" + std::to_string(kMostSize / kMi) + "MiB"};
    options.arguments = {"--repair-delay=600"};
    auto started = QuarrydProcess::Start(options);
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
    ASSERT_OK(quarryd_->WaitReady(std::chrono::seconds(180)));  // others may be at work on the machine
  }
  // On the disk before anything else happens.
  static void Note(const std::string& line) {
    ASSERT_TRUE(Sh("echo '" + line + "' >> " + kNotes + " && sync " + kNotes).ok());
  }
  static Known ReadNotes() {
    Known out;
    std::ifstream file(kNotes);
    std::string word;
    while (file >> word) {
      if (word == "volume") {
        std::string name;
        std::string id;
        file >> name >> id;
        out.volumes[name].set_volume_id(id);
      } else if (word == "seed") {
        file >> out.seed;
        out.now = Known::kAsThen;
      } else if (word == "changing" || word == "changed") {
        out.now = word == "changed" ? Known::kChanged : Known::kChanging;
      } else if (word == "asked") {
        file >> out.asked;
      } else {
        out.last = word;
      }
    }
    return out;
  }
  static std::string Target(const std::string& name) { return "/root/target-" + name; }
  void Publish(const v1::Volume& volume, const std::string& name) {
    ASSERT_TRUE(Tool({"mkdir", "-p", "/root/staging-" + name}).ok());
    ASSERT_OK(client_.Stage(volume, "/root/staging-" + name, BlockCapability()));
    ASSERT_OK(client_.Publish(volume, "/root/staging-" + name, Target(name), BlockCapability()));
  }
  void Unpublish(const v1::Volume& volume, const std::string& name) {
    ASSERT_OK(client_.Unpublish(volume.volume_id(), Target(name)));
    ASSERT_OK(client_.Unstage(volume.volume_id(), "/root/staging-" + name));
  }

  // The call, and the one that takes its effect back. Both may be repeated.
  grpc::Status Make(const Known& known) {
    if (What() == "group") {
      return client_.SnapshotGroup("group", {IdOf(known, "one"), IdOf(known, "two")}).status;
    }
    if (What() == "copy") {
      return client_.Snapshot("copy", IdOf(known, "one"), {{"inuse", "cow"}, {"type", "linear"}}).status;
    }
    if (What() == "repair") {
      const Outcome repaired = Tool({"quarryctl", "store", "repair", "fast"});
      return repaired.ok() ? grpc::Status() : grpc::Status(grpc::StatusCode::UNKNOWN, repaired.err);
    }
    return What() == "clone" ? client_.Create(Clone(known)).status
                             : client_.Expand(IdOf(known, "one"), known.asked).status;
  }
  grpc::Status End(const Known& known) {
    if (What() == "group" || What() == "copy") {
      const auto listed = client_.Snapshots();
      if (!listed.ok() || listed.value.entries().empty()) {
        return listed.status;
      }
      const v1::Snapshot& snapshot = listed.value.entries(0).snapshot();
      return What() == "group" ? client_.DeleteGroup(snapshot.group_snapshot_id()).status
                               : client_.DeleteSnapshot(snapshot.snapshot_id()).status;
    }
    if (What() == "clone") {
      const auto id = CloneId(known);
      return id.empty() ? grpc::Status() : client_.Delete(id).status;
    }
    return {};
  }
  static std::string IdOf(const Known& known, const std::string& name) {
    return known.volumes.at(name).volume_id();
  }
  static VolumeSpec Clone(const Known& known) {
    VolumeSpec spec{"clone", TypeParameters("thin"), BlockCapability(), 8 * kMi};
    spec.source = IdOf(known, "one");
    return spec;
  }
  // Empty: it is not there.
  std::string CloneId(const Known& known) {
    const auto listed = client_.List();
    EXPECT_OK(listed);
    for (const v1::Volume& volume : listed.value) {
      if (volume.volume_id() != IdOf(known, "one") && volume.volume_id() != IdOf(known, "two")) {
        return volume.volume_id();
      }
    }
    return "";
  }
  static size_t Visible() { return Lines(Tool({"lvs", "--noheadings", "-o", "lv_name", kGroup}).out).size(); }
  // A disk may have lost the end of a text that its header names; LVM ignores that disk's copy from then on.
  static void CheckCopiesOfText() {
    const Outcome areas = Tool({"pvs", "--noheadings", "-o", "pv_mda_used_count", "-S", "vg_name=vg"});
    EXPECT_EQ(Words(areas.out), std::vector<std::string>(4, "1")) << areas.out << areas.err;
  }
  static bool IsErasing() { return Sh("lvs --noheadings -o lv_tags vg | grep -q quarry.erasing").ok(); }
  static bool IsAtRest() { return Visible() == (What() == "repair" ? 4 : 3) && !IsErasing(); }
  // A store that waits for its repair. No volume is in use.
  void FallIll() {
    EXPECT_EQ(quarryd_->Stop(), 0);
    const Outcome stopped = Tool({"vgchange", "-an", kGroup});
    ASSERT_TRUE(stopped.ok()) << stopped.err;
    ASSERT_NO_FATAL_FAILURE(DamageMetadata());
    ASSERT_NO_FATAL_FAILURE(Start());
    ASSERT_TRUE(Eventually([] { return StoreMode() == "damaged"; })) << quarryd_->Log();
  }
  // What the repair of before left is removed, as an administrator does.
  void CheckRepair(const Known& known) {
    std::string mode;
    ASSERT_TRUE(Eventually([&] {
      mode = StoreMode();
      return mode == "rw" || mode == "damaged";
    })) << mode
        << quarryd_->Log();
    printf("the store is %s\n", mode.c_str());
    EXPECT_TRUE(known.last != "made" || mode == "rw") << "an acknowledged repair is gone";
    grpc::Status status;
    ASSERT_TRUE(Eventually([&] { return (status = Make(known)).ok(); }, 120))
        << status.error_message() << quarryd_->Log();
    const auto kept = [] { return Sh("lvs --noheadings -o lv_name,lv_tags vg | grep '^ *meta'").out; };
    EXPECT_TRUE(Eventually([&] { return kept().find("quarry") == std::string::npos; })) << kept();
    for (const std::string& line : Lines(kept())) {
      const Outcome removed = Tool({"lvremove", "-y", std::string(kGroup) + "/" + Trim(line)});
      EXPECT_TRUE(removed.ok()) << removed.err;
    }
    EXPECT_TRUE(Sh("sync /dev/sd[a-d]").ok());  // a command by hand flushes nothing
  }

  // Each volume has bytes of its own.
  static uint64_t Seed(const Known& known, const std::string& name, bool changed) {
    return static_cast<uint64_t>(known.seed) * 10 + (name == "one" ? 1 : 2) + (changed ? 5 : 0);
  }
  static void Write(const Known& known, bool changed) {
    for (const auto& [name, volume] : known.volumes) {
      ASSERT_OK(WritePattern(Target(name), Seed(known, name, changed), kLength)) << name;
    }
  }
  // `path` has what the volume had when it was cut.
  static void CheckCopy(const std::string& path, const Known& known, const std::string& name) {
    EXPECT_OK(CheckPattern(path, Seed(known, name, false), kLength)) << path << " of " << name;
  }
  static void CheckVolumes(const Known& known) {
    for (const auto& [name, volume] : known.volumes) {
      if (known.now != Known::kChanging) {
        EXPECT_OK(CheckPattern(Target(name), Seed(known, name, known.now == Known::kChanged), kLength))
            << name;
      }
    }
  }
  // All members of a group or none; each has the bytes of the last round.
  void CheckSnapshots(const Known& known) {
    const auto listed = client_.Snapshots();
    ASSERT_OK(listed);
    const int there = listed.value.entries_size();
    const int all = What() == "group" ? 2 : 1;
    if (known.last == "making") {
      EXPECT_TRUE(there == 0 || there == all) << "half a group";
    } else if (known.last == "made") {
      EXPECT_EQ(there, all) << "an acknowledged snapshot is gone";
    } else if (known.last == "ended") {
      EXPECT_EQ(there, 0);
    }
    for (const auto& entry : listed.value.entries()) {
      EXPECT_TRUE(entry.snapshot().ready_to_use());
      VolumeSpec spec{"copy", TypeParameters(Type()), BlockCapability(), 8 * kMi};
      spec.snapshot = entry.snapshot().snapshot_id();
      const auto copy = client_.Create(spec);
      ASSERT_OK(copy);
      ASSERT_NO_FATAL_FAILURE(Publish(copy.value.volume(), "copy"));
      CheckCopy(Target("copy"), known,
                entry.snapshot().source_volume_id() == IdOf(known, "one") ? "one" : "two");
      ASSERT_NO_FATAL_FAILURE(Unpublish(copy.value.volume(), "copy"));
      ASSERT_OK(client_.Delete(copy.value.volume().volume_id()));
    }
  }
  void CheckClone(const Known& known) {
    const std::string id = CloneId(known);
    EXPECT_TRUE(known.last != "made" || !id.empty()) << "an acknowledged clone is gone";
    EXPECT_TRUE(known.last != "ended" || id.empty());
    if (!id.empty()) {
      v1::Volume clone;
      clone.set_volume_id(id);
      clone.set_capacity_bytes(8 * kMi);
      ASSERT_NO_FATAL_FAILURE(Publish(clone, "clone"));
      CheckCopy(Target("clone"), known, "one");
      ASSERT_NO_FATAL_FAILURE(Unpublish(clone, "clone"));
    }
  }
  // Returns the size of "one" now.
  int64_t SizeOfOne(const Known& known) {
    const auto listed = client_.List();
    EXPECT_OK(listed);
    for (const v1::Volume& volume : listed.value) {
      if (volume.volume_id() == IdOf(known, "one")) {
        return volume.capacity_bytes();
      }
    }
    ADD_FAILURE() << "an acknowledged volume is gone";
    return 0;
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
  CsiClient client_{kSocket};
};

TEST_F(ThinPowerSteps, Begin) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const std::string name : {"one", "two"}) {
    // What is to grow leaves the store no free extent.
    const bool fills = What() == "grow" && name == "two";
    const auto made = client_.Create(
        {name, TypeParameters(Type()), BlockCapability(), fills ? kStoreSize - 8 * kMi : 8 * kMi});
    ASSERT_OK(made);
    Note("volume " + name + " " + made.value.volume().volume_id());
  }
  const auto synced = [] {
    return Trim(Sh("lvs -a --noheadings -o sync_percent -S segtype=raid1 vg | grep -vc 100.00").out) == "0";
  };
  ASSERT_TRUE(Eventually(synced, 120));
  EXPECT_EQ(quarryd_->Stop(), 0);
  watched::Begin();
  ASSERT_TRUE(Sh(std::string("sync ") + watched::kPreload).ok());
}

TEST_F(ThinPowerSteps, Settle) {
  const Known known = ReadNotes();
  printf("after %s:\n", known.last.c_str());
  CheckCopiesOfText();
  ASSERT_NO_FATAL_FAILURE(Start());
  if (What() == "repair") {
    ASSERT_NO_FATAL_FAILURE(CheckRepair(known));
  }
  for (const auto& [name, volume] : known.volumes) {
    ASSERT_NO_FATAL_FAILURE(Publish(volume, name));
  }
  CheckVolumes(known);
  if (What() == "group" || What() == "copy") {
    ASSERT_NO_FATAL_FAILURE(CheckSnapshots(known));
  } else if (What() == "clone") {
    ASSERT_NO_FATAL_FAILURE(CheckClone(known));
  } else if (What() == "grow") {
    const int64_t size = SizeOfOne(known);
    EXPECT_TRUE(size == known.asked || (known.last == "making" && size == known.asked - kExtent)) << size;
  }
  grpc::Status status;
  if (What() != "repair" && (known.last == "making" || known.last == "made")) {
    ASSERT_TRUE(Eventually([&] { return (status = Make(known)).ok(); }, 120))
        << status.error_message() << quarryd_->Log();
  }
  if (What() == "grow") {
    // What was promised can be written to the last byte.
    EXPECT_EQ(SizeOfOne(known), known.asked);
    ASSERT_OK(WritePattern(Target("one"), 7, kExtent, static_cast<uint64_t>(known.asked - kExtent)));
    EXPECT_OK(CheckPattern(Target("one"), 7, kExtent, static_cast<uint64_t>(known.asked - kExtent)));
  }
  ASSERT_TRUE(Eventually([&] { return (status = End(known)).ok(); }, 120))
      << status.error_message() << quarryd_->Log();
  EXPECT_TRUE(Eventually([] { return Visible() == 3 && !IsErasing(); }, 120))
      << Tool({"lvs", "-a", "-o", "lv_name,lv_tags", kGroup}).out << quarryd_->Log();
  EXPECT_NE(Sh("dmsetup status --target thin-pool").out.find(" rw "), std::string::npos);
  CheckVolumes(known);
  for (const auto& [name, volume] : known.volumes) {
    ASSERT_NO_FATAL_FAILURE(Unpublish(volume, name));
  }
  EXPECT_EQ(quarryd_->Stop(), 0);
}

TEST_F(ThinPowerSteps, Work) {
  Known known = ReadNotes();
  ASSERT_LT(Step(), kMostSteps);
  ASSERT_NO_FATAL_FAILURE(Start());
  known.seed = 1 + Step();
  for (const auto& [name, volume] : known.volumes) {
    ASSERT_NO_FATAL_FAILURE(Publish(volume, name));
  }
  ASSERT_NO_FATAL_FAILURE(Write(known, false));
  Note("seed " + std::to_string(known.seed));
  if (What() == "grow") {
    known.asked = SizeOfOne(known) + kExtent;
    Note("asked " + std::to_string(known.asked));
  }
  if (What() == "repair") {
    for (const auto& [name, volume] : known.volumes) {
      ASSERT_NO_FATAL_FAILURE(Unpublish(volume, name));
    }
    ASSERT_NO_FATAL_FAILURE(FallIll());
  }
  Note("making");
  watched::Arm(Step(), "halt");
  std::atomic<bool> ended = false;
  std::jthread caller([&] {
    grpc::Status status;
    EXPECT_TRUE(Eventually([&] { return (status = Make(known)).ok(); }, 120)) << status.error_message();
    Note("made");
    if (What() != "grow" && What() != "repair") {
      Note("changing");
      Write(known, true);
      Note("changed");
      Note("ending");
      EXPECT_TRUE(Eventually([&] { return (status = End(known)).ok(); }, 120)) << status.error_message();
      Note("ended");
    }
    EXPECT_TRUE(Eventually([] { return IsAtRest(); }, 120));  // what follows the answer has requests too
    ended = true;
  });
  ASSERT_TRUE(Eventually([&] { return ended || !watched::CarriedOutAt().empty(); }, 300)) << quarryd_->Log();
  const std::string halted = watched::CarriedOutAt();
  if (halted.empty()) {
    caller.join();
    ASSERT_FALSE(HasFailure());
    printf("all of %d requests\n", Step());
    ASSERT_TRUE(watched::Disarm());
    ASSERT_TRUE(Sh(std::string("touch ") + kDone + " && sync " + kDone).ok());
  } else {
    ASSERT_FALSE(HasFailure());
    printf("%d: cut before %s\n", Step(), halted.c_str());
    fflush(stdout);
    std::ofstream(kHalted).flush();
  }
  fflush(stdout);
  std::_Exit(HasFailure() ? 1 : 0);  // as it is: nothing ends in order
}

}  // namespace
}  // namespace quarry::vm
