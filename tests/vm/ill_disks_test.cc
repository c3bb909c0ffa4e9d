// A disk that is present but faulty: half of its reads fail, or all writes, or it is silent for half a
// minute, or it is pulled. Users of RAID volumes notice only a delay, users of linear volumes on other disks
// notice nothing, and the conditions of volumes follow at once. On any bus. Needs six disks.
#include <fcntl.h>
#include <httplib.h>
#include <scsi/sg.h>
#include <sys/ioctl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "base/unique_fd.h"
#include "tests/vm/disks_under_load.h"

namespace quarry::vm {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kMetrics[] = "/run/quarry-test/metrics.sock";

std::string Scrape() {
  httplib::Client http(kMetrics);
  http.set_address_family(AF_UNIX);
  const auto answer = http.Get("/metrics");
  return answer ? answer->body : "";
}

// True if the metrics report the volume in this state.
bool MetricSays(const std::string& metrics, const v1::Volume& volume, const std::string& state) {
  for (const std::string& line : Lines(metrics)) {
    if (line.starts_with("quarry_volume_health{") &&
        line.find("\"" + volume.volume_id() + "\"") != std::string::npos) {
      return line.find("state=\"" + state + "\"") != std::string::npos;
    }
  }
  return false;
}

// Reads volumes from end to end, past every cache, until Stop().
class Reader {
 public:
  explicit Reader(std::vector<std::string> paths)
      : paths_(std::move(paths)), thread_([this](const std::stop_token& stop) { Read(stop); }) {}

  // Returns the rounds over all volumes, and the errors.
  std::pair<int, std::string> Stop() {
    thread_.request_stop();
    thread_.join();
    return {rounds_, words_};
  }

 private:
  void Read(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const std::string& path : paths_) {
        const Outcome read =
            Tool({"dd", "if=" + path, "of=/dev/null", "bs=256k", "iflag=direct", "status=none"});
        words_ += read.ok() ? "" : path + ": " + read.err;
      }
      ++rounds_;
      std::this_thread::sleep_for(milliseconds(500));
    }
  }

  const std::vector<std::string> paths_;
  int rounds_ = 0;
  std::string words_;
  std::jthread thread_;  // last: it runs only after everything above exists
};

class IllDisks : public DisksUnderLoad {
 protected:
  void Begin(const std::string& delay) {
    QuarrydOptions options;
    // ListVolumes reports conditions only with --alpha, because CSI marks them alpha.
    options.arguments = {"--alpha", "--repair-delay=" + delay,
                         std::string("--metrics-address=unix://") + kMetrics};
    StartQuarryd(options);
    for (const char* type : {"raid1", "raid5", "raid10", "raid6"}) {
      Use(type);
    }
    ASSERT_FALSE(HasFailure());
    ill_ = BusiestDisk();
    node_ = DiskNode(ill_);
    WaitForTurns(2);
    ASSERT_TRUE(Eventually([&] { return AllWell(); }));
  }
  void TearDown() override {
    Tool({"vmctl", "error", std::to_string(ill_), "off"});
    Tool({"vmctl", "unstall", std::to_string(ill_)});
    DisksUnderLoad::TearDown();
  }
  std::vector<std::string> Targets() const {
    std::vector<std::string> out;
    for (const Used& used : used_) {
      out.push_back(used.target);
    }
    return out;
  }
  // The volumes that ListVolumes reports as abnormal. nullopt if the call fails.
  std::optional<std::set<std::string>> Abnormal() {
    const auto list =
        client().Invoke(client().controller(), &v1::Controller::Stub::ListVolumes, v1::ListVolumesRequest());
    if (!list.ok()) {
      return std::nullopt;
    }
    std::set<std::string> out;
    for (const auto& entry : list.value.entries()) {
      if (entry.status().volume_condition().abnormal()) {
        out.insert(entry.volume().volume_id());
      }
    }
    return out;
  }
  // Asks the kernel, because LVM's tools fail on a disk that cannot be read.
  bool LiesOnIllDisk(const Used& used) const {
    const Outcome below = Tool({"lsblk", "-snlpo", "NAME", NodeOf(used.volume)});
    EXPECT_TRUE(below.ok()) << below.err;
    return below.out.find(node_) != std::string::npos;
  }
  bool IsFound() { return quarryd().Log().find("a disk is failing") != std::string::npos; }
  // A leg that the kernel drops is refreshed three times, then replaced.
  void ExpectLegsElsewhere(steady_clock::time_point begun) {
    EXPECT_TRUE(Eventually(
        [&] {
          return std::ranges::none_of(used_, [&](const Used& used) { return LiesOnIllDisk(used); }) &&
                 AllWell();
        },
        300))
        << Conditions();
    printf("  all legs elsewhere after %.0f s\n", duration<double>(steady_clock::now() - begun).count());
    const v1::Volume late = MustCreate({"late", TypeParameters("linear"), BlockCapability(), 8 * kMi});
    EXPECT_FALSE(group().LegDevices(LvOf(late))->front().contains(node_))
        << "the failing disk got a new volume";
    EXPECT_OK(client().Delete(late.volume_id()));
  }
  // No leg is on the disk any more that could fail again and tell of it.
  void ExpectFailingOutlivesARestart() {
    const auto state = [&] {
      for (const std::string& line : Lines(Tool({"quarryctl", "status"}).out)) {
        if (line.find(node_ + " ") != std::string::npos) {
          return line;
        }
      }
      return std::string();
    };
    const auto tags = [&] { return Tool({"pvs", "--noheadings", "-o", "pv_tags", node_}).out; };
    EXPECT_TRUE(Eventually([&] { return tags().find("quarry.dropping=") != std::string::npos; }, 60))
        << tags();
    KillAndRestart();
    EXPECT_TRUE(Eventually([&] { return state().find("failing") != std::string::npos; }, 60)) << state();
    printf("  after a kill: %s\n", state().c_str());
    Tool({"pvchange", "--deltag", Trim(tags()), node_});
    EXPECT_TRUE(Eventually([&] { return state().find("failing") == std::string::npos; }, 90)) << state();
  }
  void ExpectAllIsSound() {
    Vmctl({"error", std::to_string(ill_), "off"});
    WaitForTurns(4);
    for (const Used& used : used_) {
      ExpectNoMismatch(used);
    }
    ExpectLegsOnDisksOfTheirOwn();
    EndAll();
  }

  int ill_ = 0;
  std::string node_;
};

TEST_F(IllDisks, NoReaderFailsWhileHalfOfADisksReadsFail) {
  ASSERT_NO_FATAL_FAILURE(Begin("600"));
  Reader reader(Targets());
  const auto begun = steady_clock::now();
  Vmctl({"error", std::to_string(ill_), "half"});
  // The kernel corrects a failed read by writing the block again, and then drops no leg. Nothing is to be
  // done.
  if (Eventually([&] { return IsFound(); }, 400)) {
    ExpectLegsElsewhere(begun);
  } else {
    printf("  the kernel corrected what it could not read, and dropped no leg three times\n");
  }
  const auto [rounds, refused] = reader.Stop();
  EXPECT_EQ(refused, "");
  printf("  read %d times from end to end\n", rounds);
  EXPECT_GT(rounds, 10);
  ExpectAllIsSound();
}

// The kernel cannot correct failed writes.
TEST_F(IllDisks, LegsAreReplacedWhenADisksWritesFail) {
  ASSERT_NO_FATAL_FAILURE(Begin("600"));
  const auto begun = steady_clock::now();
  // The errors begin behind LVM's metadata. Otherwise LVM would refuse every change of the group.
  const std::string start =
      Trim(Tool({"pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "pe_start", node_}).out);
  Vmctl({"error", std::to_string(ill_), "write", start, std::to_string(int64_t{1} << 40)});
  EXPECT_TRUE(Eventually([&] { return IsFound(); }, 400)) << Conditions();
  ExpectLegsElsewhere(begun);
  ExpectFailingOutlivesARestart();
  ExpectAllIsSound();
}

TEST_F(IllDisks, ASilentDiskDelaysOnlyItsWriters) {
  ASSERT_NO_FATAL_FAILURE(Begin("600"));
  Vmctl({"stall", std::to_string(ill_)});
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  double longest = 0;
  while (steady_clock::now() < end) {
    const auto asked = steady_clock::now();
    EXPECT_OK(client().List());
    longest = std::max(longest, duration<double>(steady_clock::now() - asked).count());
    std::this_thread::sleep_for(milliseconds(500));
  }
  printf("  lists while a disk was silent took %.2f s at most\n", longest);
  Vmctl({"unstall", std::to_string(ill_)});
  WaitForTurns(4);
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EndAll();
}

// The kernel's state of the SCSI hosts of the test's disks. sysfs accepts any state, if a newline follows.
class ScsiHosts {
 public:
  ScsiHosts() {
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/scsi_host")) {
      std::string driver;
      std::ifstream(entry.path() / "proc_name") >> driver;
      if (driver.starts_with("virtio")) {
        states_.push_back(entry.path() / "state");
      }
    }
  }
  ~ScsiHosts() { Recover(); }
  bool empty() const { return states_.empty(); }
  bool BeginRecovery() { return SetAll("recovery"); }
  // Only a reset wakes callers that wait in open(2). The new state does not.
  bool Recover() {
    const bool set = SetAll("running");
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/scsi_device")) {
      for (const auto& disk : std::filesystem::directory_iterator(entry.path() / "device/block")) {
        const UniqueFd fd(
            open(("/dev/" + disk.path().filename().string()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        int kind = SG_SCSI_RESET_DEVICE;
        (void)ioctl(fd.get(), SG_SCSI_RESET, &kind);
      }
    }
    return set;
  }

 private:
  bool SetAll(const std::string& state) {
    bool set = true;
    for (const std::string& path : states_) {
      std::ofstream(path) << state << '\n';
      std::string now;
      std::ifstream(path) >> now;
      set = set && now == state;
    }
    return set;
  }

  std::vector<std::string> states_;
};

// The kernel makes open(2) of a disk wait until the disk's host has recovered. Here that applies to every
// disk, so a list may fail but must not hang.
TEST_F(IllDisks, CallsEndInTimeWhileTheScsiHostRecovers) {
  ScsiHosts hosts;
  if (hosts.empty()) {
    GTEST_SKIP() << "the guest has no SCSI disks";
  }
  ASSERT_NO_FATAL_FAILURE(Begin("600"));
  ASSERT_TRUE(hosts.BeginRecovery());
  const auto end = steady_clock::now() + std::chrono::seconds(30);
  double longest = 0;
  while (steady_clock::now() < end) {
    const auto asked = steady_clock::now();
    (void)client().List();
    (void)client().Probe();
    longest = std::max(longest, duration<double>(steady_clock::now() - asked).count());
    std::this_thread::sleep_for(milliseconds(200));
  }
  ASSERT_TRUE(hosts.Recover());
  printf("  lists and probes while their SCSI host recovered took %.2f s at most\n", longest);
  EXPECT_LT(longest, 25) << "a list waits for its pools for 20 s";
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  WaitForTurns(4);
  EndAll();
}

TEST_F(IllDisks, APulledDiskIsReportedAtOnceForItsVolumesOnly) {
  ASSERT_NO_FATAL_FAILURE(Begin("1"));
  // One disk has no space for both of these.
  const v1::Volume there = MustCreate({"there", TypeParameters("linear"), BlockCapability(), 500 * kMi});
  const v1::Volume elsewhere =
      MustCreate({"elsewhere", TypeParameters("linear"), BlockCapability(), 500 * kMi});
  ASSERT_FALSE(HasFailure());
  node_ = *group().LegDevices(LvOf(there))->front().begin();
  ill_ = NumberOf(node_);
  ASSERT_FALSE(group().LegDevices(LvOf(elsewhere))->front().contains(node_));
  std::vector<const v1::Volume*> affected = {&there};
  for (const Used& used : used_) {
    if (DevicesOf(used).contains(node_)) {
      affected.push_back(&used.volume);
    }
  }
  ASSERT_GT(affected.size(), 1U);
  const auto begun = steady_clock::now();
  const auto since = [&] { return duration<double>(steady_clock::now() - begun).count(); };
  // Ends after the guest has removed the disk. The conditions change before that.
  auto pulled = std::async(std::launch::async, [&] {
    Pull(ill_);
    return since();
  });
  double gone = -1;
  std::map<std::string, double> by_condition;
  std::map<std::string, double> by_metric;
  EXPECT_TRUE(Eventually([&] {
    if (gone < 0 && !std::filesystem::exists(node_)) {
      gone = since();
    }
    const auto abnormal = Abnormal();
    const double listed = since();
    const std::string metrics = Scrape();
    const double scraped = since();
    for (const v1::Volume* volume : affected) {
      const std::string& id = volume->volume_id();
      if (abnormal.has_value() && abnormal->contains(id)) {
        by_condition.try_emplace(id, listed);
      }
      if (!metrics.empty() && !MetricSays(metrics, *volume, "healthy")) {
        by_metric.try_emplace(id, scraped);
      }
    }
    return by_condition.size() == affected.size() && by_metric.size() == affected.size();
  })) << Conditions();
  printf("  the disk's node was gone after %.2f s, the guest had let go of it after %.2f s\n", gone,
         pulled.get());
  for (const v1::Volume* volume : affected) {
    printf("  %s: condition after %.2f s, metrics after %.2f s\n", volume->volume_id().c_str(),
           by_condition[volume->volume_id()], by_metric[volume->volume_id()]);
  }
  const std::string metrics = Scrape();
  EXPECT_TRUE(MetricSays(metrics, there, "failed"));
  EXPECT_TRUE(IsWell(elsewhere)) << ConditionOf(elsewhere);
  EXPECT_TRUE(MetricSays(metrics, elsewhere, "healthy"));
  EXPECT_TRUE(Eventually([&] { return AllWell(); }, 180)) << Conditions();
  Return(ill_);
  EXPECT_TRUE(Eventually([&] { return IsWell(there); }, 120)) << ConditionOf(there) << Conditions();
  WaitForTurns(4);
  for (const Used& used : used_) {
    ExpectNoMismatch(used);
  }
  EndAll();
  EXPECT_OK(client().Delete(there.volume_id()));
  EXPECT_OK(client().Delete(elsewhere.volume_id()));
}

}  // namespace
}  // namespace quarry::vm
