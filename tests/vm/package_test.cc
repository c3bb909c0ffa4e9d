// The life of the Debian package in a guest with systemd: installed, configured, used, upgraded, removed,
// purged. Then the guest boots again with its disks and without Quarry, and LVM's own tools give the data
// back. /opt/quarry/extra has two packages: revision 1 is of an earlier commit, revision 2 of this build.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "tests/vm/fixture.h"
#include "tests/vm/kit/writer.h"

namespace quarry::vm {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr char kService[] = "quarryd.service";
constexpr char kVg[] = "vg-data";
constexpr char kPlace[] = "/srv/volumes";
constexpr char kDropIn[] = "/run/systemd/system/quarryd.service.d/limit.conf";
// A volume that quarryctl made and mounted, and a unit that needs it (docs/by-hand.md).
constexpr char kKept[] = "/srv/kept";
constexpr char kUser[] = "user-of-kept.service";
constexpr uint64_t kKeptSeed = 4;
constexpr char kIds[] = "/root/ids";  // of the volumes, for the time after the boot
constexpr uint64_t kLength = 4 << 20;
constexpr seconds kPatience{300};
constexpr int kWatchdogSeconds = 10;

struct Used {
  const char* name;
  const char* type;
  uint64_t seed;
  bool raw;
};
constexpr Used kUsed[] = {
    {"plain", "linear", 1, false}, {"mirrored", "raid1", 2, false}, {"raw", "raid1", 3, true}};

std::string Said(const std::string& script) {
  const Outcome said = Sh(script, kPatience);
  EXPECT_TRUE(said.ok()) << script << ": " << said.out << said.err;
  return Trim(said.out);
}
std::string Property(const std::string& name, const char* unit = kService) {
  return Trim(Tool({"systemctl", "show", "-P", name, unit}).out);
}
std::string Staging(const std::string& name) {
  return std::string(kPlace) + "/staging-" + name;
}
std::string Target(const std::string& name) {
  return std::string(kPlace) + "/target-" + name;
}
std::string Data(const Used& used) {
  return used.raw ? Target(used.name) : Target(used.name) + "/data";
}
v1::VolumeCapability Capability(const Used& used) {
  return used.raw ? BlockCapability() : MountCapability("ext4");
}

// The lines of this process's mounts below kPlace, with the ids that the kernel gave the mounts.
std::vector<std::string> Mounts() {
  std::vector<std::string> found;
  std::ifstream all("/proc/self/mountinfo");
  for (std::string line; std::getline(all, line);) {
    if (line.find(kPlace) != std::string::npos) {
      found.push_back(line);
    }
  }
  return found;
}

class PackageTest : public testing::Test {
 protected:
  static std::string Deb(int revision) {
    for (const auto& entry : fs::directory_iterator("/opt/quarry/extra")) {
      const std::string name = entry.path().filename();
      if (std::regex_match(name, std::regex("quarryd_.*-" + std::to_string(revision) + "\\+deb.*\\.deb"))) {
        return entry.path();
      }
    }
    ADD_FAILURE() << "there is no package of revision " << revision;
    return "";
  }
  static void Apt(const std::string& words) {
    // The test has changed quarry.toml. dpkg keeps it, as it does for whoever answers its question with
    // Enter.
    const Outcome done =
        Sh("DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-confold " + words,
           kPatience);
    ASSERT_TRUE(done.ok()) << done.out << done.err;
  }
  static std::string Journal() { return Sh(std::string("journalctl -b -o cat -u ") + kService).out; }

  void WaitUntilItServes() {
    ASSERT_TRUE(
        Eventually([&] { return client_.Probe().ok() && client_.Probe().value.ready().value(); }, 120))
        << Journal();
  }

  void Install() {
    ASSERT_NO_FATAL_FAILURE(Apt("install " + Deb(1)));
    // The guest's image has no manuals and documents, and excludes those of all packages.
    EXPECT_EQ(Sh("dpkg --verify quarryd | grep -v ' /usr/share/\\(doc\\|man\\)'").out, "");
    EXPECT_EQ(Trim(Tool({"systemctl", "is-enabled", kService}).out), "disabled");
    EXPECT_EQ(Property("ActiveState"), "inactive");
    // Without a configuration it fails once, and says what is missing.
    EXPECT_FALSE(Tool({"systemctl", "start", kService}).ok());
    EXPECT_EQ(Property("ExecMainStatus"), "2");
    std::this_thread::sleep_for(seconds(3));  // a unit that starts again and again would do so after 2 s
    EXPECT_EQ(Property("ActiveState"), "failed");
    EXPECT_EQ(Property("NRestarts"), "0");
    EXPECT_THAT(Journal(), HasSubstr("--endpoint (CSI_ENDPOINT) is required"));
    EXPECT_TRUE(Tool({"systemctl", "reset-failed", kService}).ok());
  }

  void Configure() {
    std::ofstream config("/etc/quarry/quarry.toml");
    config << "endpoint = \"unix:///run/quarry/csi.sock\"\nlog-format = \"text\"\nerase-rate = \"1MiB\"\n"
           << "[[pool]]\nname = \"main\"\nvg = \"" << kVg << "\"\ndevices = [";
    for (const std::string& disk : DiskNodes()) {
      config << '"' << disk << "\", ";
    }
    config << "]\n" << std::flush;
    const Outcome plan = Tool({"/usr/bin/quarryctl", "plan"});
    EXPECT_TRUE(plan.ok()) << plan.err;
    ASSERT_TRUE(Tool({"systemctl", "enable", "--now", kService}).ok()) << Journal();
    ASSERT_NO_FATAL_FAILURE(WaitUntilItServes());
  }

  void Use() {
    std::ofstream ids(kIds);
    for (const Used& used : kUsed) {
      SCOPED_TRACE(used.name);
      const auto made = client_.Create({used.name, TypeParameters(used.type), Capability(used), 64 * kMi});
      ASSERT_OK(made);
      ids << used.name << ' ' << made.value.volume().volume_id() << std::endl;
      fs::create_directories(Staging(used.name));
      ASSERT_OK(client_.Stage(made.value.volume(), Staging(used.name), Capability(used)));
      ASSERT_OK(
          client_.Publish(made.value.volume(), Staging(used.name), Target(used.name), Capability(used)));
      ASSERT_OK(WritePattern(Data(used), used.seed, kLength));
    }
    EXPECT_TRUE(Tool({"/usr/bin/quarryctl", "status"}).ok());
    Said(std::string("/usr/bin/quarryctl volume create kept --size 64MiB --mount ") + kKept);
    ASSERT_OK(WritePattern(std::string(kKept) + "/data", kKeptSeed, kLength));
    std::ofstream(std::string("/etc/systemd/system/") + kUser)
        << "[Unit]\nRequires=quarry-volume@kept.service\nAfter=quarry-volume@kept.service\n"
        << "RequiresMountsFor=" << kKept << "\n[Service]\nExecStart=/bin/sleep infinity\n"
        << std::flush;
    Said(std::string("systemctl daemon-reload && systemctl start ") + kUser);
    user_ = Property("MainPID", kUser);
    EXPECT_NE(user_, "0");
  }

  static void CheckData() {
    for (const Used& used : kUsed) {
      EXPECT_OK(CheckPattern(Data(used), used.seed, kLength)) << used.name;
    }
    EXPECT_OK(CheckPattern(std::string(kKept) + "/data", kKeptSeed, kLength));
  }
  // The unit that needs a volume was not restarted.
  void CheckUser() const { EXPECT_EQ(Property("MainPID", kUser), user_); }

  static std::string LvNamed(const std::string& name) {
    return Said("lvs --noheadings -o lv_name @quarry.name=" + name);
  }
  static bool Exists(const std::string& lv) { return Tool({"lvs", std::string(kVg) + "/" + lv}).ok(); }

  // While volumes are in use, one is written, and a deleted one is being erased.
  void Upgrade() {
    const auto made = client_.Create({"doomed", TypeParameters("linear"), BlockCapability(), 24 * kMi});
    ASSERT_OK(made);
    const std::string id = made.value.volume().volume_id();
    const std::string lv = LvNameIn(id);
    const std::string node = std::string("/dev/") + kVg + "/" + lv;
    ASSERT_TRUE(Tool({"lvchange", "-ay", "-K", std::string(kVg) + "/" + lv}).ok());
    ASSERT_OK(WritePattern(node, 9, 24 * kMi));
    // "/dev/nvme1n1(16)": the disk, and its extent where the volume begins.
    const std::string place = Said(std::string("lvs --noheadings -o devices ") + kVg + "/" + lv);
    const std::string disk = place.substr(0, place.find('('));
    const uint64_t extent = std::stoull(place.substr(place.find('(') + 1));
    const uint64_t begin =
        std::stoull(Said("pvs --noheadings --nosuffix --units b -o pe_start " + disk)) + extent * 4 * kMi;
    ASSERT_FALSE(CheckZero(disk, kMi, begin + 23 * kMi).has_value());
    ASSERT_OK(client_.Delete(id));
    const auto mounts = Mounts();
    ASSERT_EQ(mounts.size(), 5U) << "a raw volume is mounted only where it is published";
    const std::string before = Property("MainPID");
    const std::string config = Said("cat /etc/quarry/quarry.toml");
    Writer pod(Target("plain"), false, std::chrono::milliseconds(50));

    const std::string program = Said("sha256sum /usr/bin/quarryd");
    ASSERT_TRUE(Exists(lv)) << "erased before the upgrade";
    ASSERT_NO_FATAL_FAILURE(Apt("install " + Deb(2)));
    EXPECT_THAT(Said("dpkg-query -W -f '${Version}' quarryd"), HasSubstr("-2+deb"));
    EXPECT_NE(Said("sha256sum /usr/bin/quarryd"), program) << "both packages have the same quarryd";
    EXPECT_EQ(Property("ActiveState"), "active");
    EXPECT_NE(Property("MainPID"), before);
    EXPECT_EQ(Said("cat /etc/quarry/quarry.toml"), config);
    ASSERT_NO_FATAL_FAILURE(WaitUntilItServes());
    EXPECT_TRUE(Eventually([&] { return !Exists(lv); }, 120)) << Journal();
    EXPECT_OK(CheckZero(disk, 24 * kMi, begin));

    const uint64_t turns = pod.turns();
    EXPECT_TRUE(Eventually([&] { return pod.turns() > turns; }));
    EXPECT_OK(pod.StopAndCheck());
    EXPECT_EQ(Mounts(), mounts);
    CheckData();
    const auto listed = client_.List();
    ASSERT_OK(listed);
    EXPECT_EQ(listed.value.size(), std::size(kUsed) + 1);
    CheckUser();
  }

  // A disk that is silent for longer than the watchdog's limit does not end quarryd. A quarryd that hangs is
  // replaced.
  void Watchdog() {
    EXPECT_EQ(Property("WatchdogUSec"), "3min");
    fs::create_directories(fs::path(kDropIn).parent_path());
    std::ofstream(kDropIn) << "[Service]\nWatchdogSec=" << kWatchdogSeconds << "\n" << std::flush;
    ASSERT_TRUE(Sh(std::string("systemctl daemon-reload && systemctl restart ") + kService).ok());
    ASSERT_NO_FATAL_FAILURE(WaitUntilItServes());
    const std::string before = Property("MainPID");

    ASSERT_TRUE(Tool({"vmctl", "stall", "1"}).ok());
    {
      CsiClient caller("/run/quarry/csi.sock", seconds(5));
      const auto until = steady_clock::now() + seconds(2 * kWatchdogSeconds + 5);
      while (steady_clock::now() < until) {
        // Each needs the silent disk.
        (void)caller.Create({"waits", TypeParameters("raid1"), BlockCapability(), 8 * kMi});
      }
    }
    EXPECT_EQ(Property("MainPID"), before);
    ASSERT_TRUE(Tool({"vmctl", "unstall", "1"}).ok());
    ASSERT_NO_FATAL_FAILURE(WaitUntilItServes());
    EXPECT_EQ(Property("NRestarts"), "0");

    ASSERT_EQ(kill(std::stoi(before), SIGSTOP), 0);
    EXPECT_TRUE(Eventually([&] { return Property("NRestarts") == "1"; }, 120)) << Journal();
    ASSERT_NO_FATAL_FAILURE(WaitUntilItServes());
    EXPECT_NE(Property("MainPID"), before);
    EXPECT_THAT(Journal(), HasSubstr("Watchdog timeout"));
    CheckData();
    const auto waits = client_.Create({"waits", TypeParameters("raid1"), BlockCapability(), 8 * kMi});
    ASSERT_OK(waits);
    EXPECT_OK(client_.Delete(waits.value.volume().volume_id()));
    EXPECT_TRUE(Eventually([&] { return !Exists(LvNameIn(waits.value.volume().volume_id())); }, 120));
  }

  void Remove() {
    const auto mounts = Mounts();
    const std::string volumes = Said(std::string("lvs -a --noheadings -o lv_name,devices,lv_tags ") + kVg);
    ASSERT_NO_FATAL_FAILURE(Apt("remove quarryd"));
    EXPECT_FALSE(Tool({"pidof", "quarryd"}).ok());
    EXPECT_TRUE(fs::exists("/etc/quarry/quarry.toml"));
    EXPECT_EQ(Mounts(), mounts);
    CheckData();
    CheckUser();
    ASSERT_NO_FATAL_FAILURE(Apt("purge quarryd"));
    for (const char* gone : {"/etc/quarry", "/etc/default/quarryd", "/run/quarry", "/usr/bin/quarryd",
                             "/etc/systemd/system/multi-user.target.wants/quarryd.service"}) {
      EXPECT_FALSE(fs::exists(fs::symlink_status(gone))) << gone;
    }
    EXPECT_EQ(Mounts(), mounts);
    CheckData();
    EXPECT_EQ(Said(std::string("lvs -a --noheadings -o lv_name,devices,lv_tags ") + kVg), volumes);
  }

  CsiClient client_{"/run/quarry/csi.sock"};
  std::string user_;  // pid of the unit that needs a volume
};

TEST_F(PackageTest, VolumesOutliveUpgradeRemovalAndPurge) {
  ASSERT_NO_FATAL_FAILURE(Install());
  ASSERT_NO_FATAL_FAILURE(Configure());
  ASSERT_NO_FATAL_FAILURE(Use());
  ASSERT_NO_FATAL_FAILURE(Upgrade());
  ASSERT_NO_FATAL_FAILURE(Watchdog());
  ASSERT_NO_FATAL_FAILURE(Remove());
  Said("sync");
}

// docs/disaster.md, from "Data on another machine" on. What the page says, in its words.
TEST_F(PackageTest, LvmAloneGivesTheDataBackAfterwards) {
  ASSERT_FALSE(fs::exists("/usr/bin/quarryd"));
  const std::string group = kVg;
  EXPECT_EQ(Said("lvs --noheadings -o lv_active " + group + " | grep -c active || true"), "0")
      << "nothing but Quarry activates its volumes at a boot";
  // A machine on which LVM uses only the disks that are listed.
  fs::create_directories("/etc/lvm/devices");
  std::ofstream("/etc/lvm/devices/system.devices") << "VERSION=1.1.1\n" << std::flush;
  const std::string listed_only = " --config devices/use_devicesfile=1 ";
  EXPECT_FALSE(Sh("vgs" + listed_only + group).ok());
  Said("vgs" + listed_only + "--devicesfile '' " + group);
  fs::remove("/etc/lvm/devices/system.devices");

  Said("vgchange -ay -K --activationmode complete " + group);
  for (const Used& used : kUsed) {
    SCOPED_TRACE(used.name);
    const std::string node = "/dev/" + group + "/" + LvNamed(used.name);
    if (used.raw) {
      EXPECT_OK(CheckPattern(node, used.seed, kLength));
      continue;
    }
    Said("mkdir -p /mnt/volume && mount -o ro,noload " + node + " /mnt/volume");
    EXPECT_OK(CheckPattern("/mnt/volume/data", used.seed, kLength));
    Said("umount /mnt/volume");
  }
  // One volume becomes the system's own.
  const std::string plain = group + "/" + LvNamed("plain");
  for (const std::string& tag : Words(Said("lvs --noheadings -o lv_tags " + plain + " | tr , ' '"))) {
    Said("lvchange --deltag " + tag + " " + plain);
  }
  Said("vgchange -an " + group);
  Said("lvrename " + plain + " plain && lvchange --setactivationskip n " + group + "/plain");
  Said("vgchange -aay " + group);
  EXPECT_EQ(Said("lvs --noheadings -o lv_name -S lv_active=active " + group), "")
      << "a group that Quarry made";
  Said("vgchange --setautoactivation y " + group + " && vgchange -aay " + group);
  EXPECT_EQ(Said("lvs --noheadings -o lv_name -S lv_active=active " + group), "plain");

  // Quarry on the new machine knows the others, and not that one.
  Said("vgchange -an " + group);
  ASSERT_NO_FATAL_FAILURE(Apt("install " + Deb(2)));
  ASSERT_NO_FATAL_FAILURE(Configure());
  const auto listed = client_.List();
  ASSERT_OK(listed);
  std::set<std::string> ids;
  for (const v1::Volume& volume : listed.value) {
    ids.insert(volume.volume_id());
  }
  std::set<std::string> expected;
  std::ifstream saved(kIds);
  for (std::string name, id; saved >> name >> id;) {
    if (name != "plain") {
      expected.insert(id);
    }
  }
  EXPECT_EQ(expected.size(), 2U);
  EXPECT_TRUE(std::ranges::includes(ids, expected));
  // It mounts what it is to keep mounted: the place is in LVM's tags.
  const std::string kept = std::string(kKept) + "/data";
  EXPECT_TRUE(Eventually([&] { return fs::exists(kept); }, 60)) << Journal();
  EXPECT_OK(CheckPattern(kept, kKeptSeed, kLength));
}

}  // namespace
}  // namespace quarry::vm
