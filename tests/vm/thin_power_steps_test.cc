// The power is cut before each request to device-mapper that quarryd or one of its LVM commands makes for a
// call in a thin store, and the drives lose some of what was not flushed. After each cut all of it is there
// or nothing, with the bytes of its instant, and the call is completed by repeating it. The script
// thin_power_steps runs these parts in turn: Begin once, then Work, a cut, Settle, Work, and so on. Notes are
// kept on the guest's root disk. Needs four disks.
//
// QUARRY_POWER_WHAT: "group", "clone" or "grow". QUARRY_POWER_STEP: the number of the request, from 0.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;

constexpr char kNotes[] = "/root/power-steps-notes";
constexpr char kDone[] = "/root/power-steps-done";
constexpr char kPreload[] = "/etc/ld.so.preload";
constexpr char kLog[] = "/run/quarry-test/watch";
constexpr char kOrder[] = "/run/quarry-test/watch-nth";
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
    ASSERT_OK(quarryd_->WaitReady());
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
    return What() == "clone" ? client_.Create(Clone(known)).status
                             : client_.Expand(IdOf(known, "one"), known.asked).status;
  }
  grpc::Status End(const Known& known) {
    if (What() == "group") {
      const auto listed = client_.Snapshots();
      if (!listed.ok() || listed.value.entries().empty()) {
        return listed.status;
      }
      return client_.DeleteGroup(listed.value.entries(0).snapshot().group_snapshot_id()).status;
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
  // A cut amid LVM's own commit may leave the text on one disk torn. LVM then says before each list that it
  // scans again.
  static size_t Visible() {
    const auto lines = Lines(Tool({"lvs", "--noheadings", "-o", "lv_name", kGroup}).out);
    return static_cast<size_t>(
        std::ranges::count_if(lines, [](const std::string& line) { return Words(line).size() == 1; }));
  }
  static bool IsErasing() { return Sh("lvs --noheadings -o lv_tags vg | grep -q quarry.erasing").ok(); }
  static bool IsAtRest() { return Visible() == 3 && !IsErasing(); }

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
  // All members or none; each has the bytes of the last round.
  void CheckGroup(const Known& known) {
    const auto listed = client_.Snapshots();
    ASSERT_OK(listed);
    const int there = listed.value.entries_size();
    if (known.last == "making") {
      EXPECT_NE(there, 1) << "half a group";
    } else if (known.last == "made") {
      EXPECT_EQ(there, 2) << "an acknowledged group is gone";
    } else if (known.last == "ended") {
      EXPECT_EQ(there, 0);
    }
    for (const auto& entry : listed.value.entries()) {
      EXPECT_TRUE(entry.snapshot().ready_to_use());
      VolumeSpec spec{"copy", TypeParameters("thin"), BlockCapability(), 8 * kMi};
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
        {name, TypeParameters("thin"), BlockCapability(), fills ? kStoreSize - 8 * kMi : 8 * kMi});
    ASSERT_OK(made);
    Note("volume " + name + " " + made.value.volume().volume_id());
  }
  const auto synced = [] {
    return Trim(Sh("lvs -a --noheadings -o sync_percent -S segtype=raid1 vg | grep -vc 100.00").out) == "0";
  };
  ASSERT_TRUE(Eventually(synced, 120));
  EXPECT_EQ(quarryd_->Stop(), 0);
  std::ofstream(kPreload) << "/opt/quarry/tests/bin/dm_watch.so\n";
  ASSERT_TRUE(Sh(std::string("sync ") + kPreload).ok());
}

TEST_F(ThinPowerSteps, Settle) {
  const Known known = ReadNotes();
  printf("after %s:\n", known.last.c_str());
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const auto& [name, volume] : known.volumes) {
    ASSERT_NO_FATAL_FAILURE(Publish(volume, name));
  }
  CheckVolumes(known);
  if (What() == "group") {
    ASSERT_NO_FATAL_FAILURE(CheckGroup(known));
  } else if (What() == "clone") {
    ASSERT_NO_FATAL_FAILURE(CheckClone(known));
  } else {
    const int64_t size = SizeOfOne(known);
    EXPECT_TRUE(size == known.asked || (known.last == "making" && size == known.asked - kExtent)) << size;
  }
  grpc::Status status;
  if (known.last == "making" || known.last == "made") {
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
  EXPECT_TRUE(Eventually([] { return IsAtRest(); }, 120))
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
  Note("making");
  std::ofstream(std::string(kOrder) + ".new") << Step() << " halt\n";
  fs::rename(std::string(kOrder) + ".new", kOrder);
  std::atomic<bool> ended = false;
  std::jthread caller([&] {
    grpc::Status status;
    EXPECT_TRUE(Eventually([&] { return (status = Make(known)).ok(); }, 120)) << status.error_message();
    Note("made");
    if (What() != "grow") {
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
  const auto halted = [] { return Trim(Sh(std::string("sed -n 's/^[0-9]* [0-9]* -1 //p' ") + kLog).out); };
  ASSERT_TRUE(Eventually([&] { return ended || !halted().empty(); }, 300)) << quarryd_->Log();
  if (halted().empty()) {
    caller.join();
    ASSERT_FALSE(HasFailure());
    printf("all of %d requests\n", Step());
    ASSERT_TRUE(fs::remove(kOrder));
    ASSERT_TRUE(Sh(std::string("touch ") + kDone + " && sync " + kDone).ok());
  } else {
    printf("%d: cut before %s\n", Step(), halted().c_str());
  }
  fflush(stdout);
  std::_Exit(HasFailure() ? 1 : 0);  // as it is: nothing ends in order
}

}  // namespace
}  // namespace quarry::vm
